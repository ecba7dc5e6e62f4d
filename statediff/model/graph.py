"""A state, or what changed of it, as a `networkx.MultiDiGraph` [SSD eq. 1].

A node is an entity, an edge a reference from one to another. The graph says what the columns say
and no judgement reads it back. Nodes are named `type[key]` and have these attributes:

- `type`: the entity type, a text;
- `key`: the values of its key, a tuple;
- `fields`: its fields by name, each a value or a marker such as ABSENT; None where its row is not
  known (another entity refers to it, and that is all). In a graph of changes those after the run,
  or those before of what is gone;
- `change`: `create`, `update`, `delete`, `link`, `unlink`, or "" where nothing changed.

In a graph of changes also `before` and `after`, the fields on either side (None where it is not
there, or not known), and `deltas`, the ids of its deltas. An edge is keyed by its `relation`,
`type.field`, and has a `change`: `link`, `unlink`, or "". The row of an association is an entity,
for it may have more than two ends. The graph's own attributes are `graph` (`state` or `changes`),
`unobserved` (what is not known, by its place) and `left_out` (how many neighbors are not in it).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from statediff.errors import UsageError
from statediff.model.delta import Delta, Entity, delta_id
from statediff.model.schema import EntityType, Schema
from statediff.model.values import Key, Observed, Value, is_value, key_order

if TYPE_CHECKING:
    import networkx as nx

Graph: TypeAlias = "nx.MultiDiGraph[str]"
Row: TypeAlias = Mapping[str, Observed]

MAX_NODES: Final = 100_000
"""Entities of a graph, unless more are asked for."""
MAX_NEIGHBORS: Final = 10_000
"""Entities beside those that changed, in a graph of changes."""


class Rows(Protocol):
    """What a graph needs of a table: its type, how many rows it holds, and the rows."""

    @property
    def type(self) -> EntityType: ...

    @property
    def row_count(self) -> int: ...

    def rows(self) -> Iterable[tuple[Key, Row]]: ...


@dataclass(frozen=True)
class Known:
    """A row that is known of one side, `before` or `after`."""

    side: str
    type: str
    key: Key
    row: Row


@dataclass(frozen=True)
class Changed:
    """One delta; `field` is "" for a whole entity and None for a place inside a value."""

    id: str
    op: str
    type: str
    key: Key
    field: str | None
    before: Observed | Entity
    after: Observed | Entity

    @staticmethod
    def by(delta: Delta) -> Changed:
        """What the delta changed."""
        field = None if delta.steps else delta.path
        sides = delta.before, delta.after
        return Changed(delta.id, delta.op.value, delta.type, delta.key, field, *sides)


def references(schema: Schema) -> dict[str, tuple[tuple[str, str], ...]]:
    """(field, type that it refers to) of each type that refers to another."""
    return {
        each.name: found
        for each in schema.types
        if (found := tuple((f.name, f.reference) for f in each.fields if f.reference))
    }


def state_graph(
    schema: Schema, tables: Iterable[Rows], unobserved: Mapping[str, str], limit: int = MAX_NODES
) -> Graph:
    """All of a state. `UsageError` where it has more than `limit` entities."""
    listed = sorted(tables, key=lambda table: table.type.name)
    total = sum(table.row_count for table in listed)
    if total > limit:
        raise UsageError(
            f"the state has {total:,} entities, and a graph of all holds at most {limit:,}; "
            "draw what changed (`statediff diff --graph`), or ask for more with `limit`"
        )
    graph = _empty("state", unobserved)
    related = references(schema)
    edges: list[tuple[str, str, str]] = []
    for table in listed:
        for key, row in table.rows():
            at = delta_id(table.type.name, key, "")
            graph.add_node(at, type=table.type.name, key=key, fields=dict(row), change="")
            edges += ((at, *end) for end in _ends(table.type.name, row, related, graph, {}))
    for start, to, relation in edges:
        graph.add_edge(start, to, key=relation, relation=relation, change="")
    return graph


def _ends(
    type_name: str,
    row: Row,
    related: Mapping[str, tuple[tuple[str, str], ...]],
    graph: Graph,
    more: Mapping[str, Any],
) -> Iterator[tuple[str, str]]:
    """(entity, relation) of each reference in the row; entities not known yet become nodes."""
    for name, target, key in _references(type_name, row, related):
        to = delta_id(target, key, "")
        if to not in graph:
            graph.add_node(to, type=target, key=key, fields=None, change="", **more)
        yield to, f"{type_name}.{name}"


def _references(
    type_name: str, row: Row, related: Mapping[str, tuple[tuple[str, str], ...]]
) -> Iterator[tuple[str, str, tuple[Value]]]:
    for name, target in related.get(type_name, ()):
        value = row.get(name)
        if value is not None and is_value(value):
            yield name, target, (value,)  # type: ignore[misc]  # a value, just checked


def _empty(kind: str, unobserved: Mapping[str, str]) -> Graph:
    import networkx as nx  # noqa: PLC0415 - a tenth of a second, for the few who hold a graph

    graph: Graph = nx.MultiDiGraph()
    graph.graph.update(graph=kind, unobserved=dict(sorted(unobserved.items())), left_out=0)
    return graph


# ---------------------------------------------------------------- what changed


@dataclass
class _Node:
    type: str
    key: Key
    change: str = ""
    deltas: list[str] = field(default_factory=list)
    sides: dict[str, dict[str, Observed]] = field(default_factory=dict)


def change_graph(
    changes: Iterable[Changed],
    known: Iterable[Known],
    related: Mapping[str, tuple[tuple[str, str], ...]],
    unobserved: Mapping[str, str],
    limit: int = MAX_NODES,
    shown: frozenset[str] = frozenset(),
) -> Graph:
    """What changed, and its neighborhood: what it refers to, and what is known to refer to it.

    Known entities that are `shown` beside them, by their names, are in it with what they refer to.
    `UsageError` where more than `limit` entities changed. At most MAX_NEIGHBORS others are in it.
    """
    nodes: dict[str, _Node] = {}
    for change in changes:
        _add(nodes, change)
    if len(nodes) > limit:
        raise UsageError(
            f"{len(nodes):,} entities changed, and a graph of changes holds at most {limit:,}; "
            "ask for more with `limit`"
        )
    changed = {*nodes, *shown}
    edges: dict[tuple[str, str, str], set[str]] = {}
    near: dict[str, _Node] = {}
    for each in known:
        at = delta_id(each.type, each.key, "")
        node = nodes.get(at) or near.get(at) or _Node(each.type, each.key)
        # The entity of a creation or deletion is as it was judged; what is captured fills the rest.
        node.sides[each.side] = {**each.row, **node.sides.get(each.side, {})}
        if at not in nodes:
            near[at] = node
    for at, node in (*nodes.items(), *near.items()):
        for side, row in node.sides.items():
            for name, target, key in _references(node.type, row, related):
                to = delta_id(target, key, "")
                if at in changed or to in changed:
                    edges.setdefault((at, to, f"{node.type}.{name}"), set()).add(side)
                    near.setdefault(to, _Node(target, key))
    return _drawn(nodes, near, edges, unobserved, shown)


def _add(nodes: dict[str, _Node], change: Changed) -> None:
    at = delta_id(change.type, change.key, "")
    node = nodes.setdefault(at, _Node(change.type, change.key))
    node.change = node.change if change.field != "" and node.change else change.op
    node.deltas.append(change.id)
    for side, value in (("before", change.before), ("after", change.after)):
        if isinstance(value, Entity):
            node.sides[side] = value.as_row()
        elif change.field:
            node.sides.setdefault(side, {})[change.field] = value


def _drawn(
    nodes: Mapping[str, _Node],
    near: Mapping[str, _Node],
    edges: Mapping[tuple[str, str, str], set[str]],
    unobserved: Mapping[str, str],
    shown: frozenset[str],
) -> Graph:
    graph = _empty("changes", unobserved)
    ends = {end for start, to, _ in edges for end in (start, to)} | (shown & set(near))
    ends -= set(nodes)
    around = sorted(ends, key=lambda at: (near[at].type, key_order(near[at].key)))
    graph.graph["left_out"] = max(0, len(around) - MAX_NEIGHBORS)
    for at in (*nodes, *around[:MAX_NEIGHBORS]):
        node = nodes.get(at) or near[at]
        before, after = (node.sides.get(side) for side in ("before", "after"))
        graph.add_node(
            at,
            type=node.type,
            key=node.key,
            fields=before if after is None else after,
            change=node.change,
            before=before,
            after=after,
            deltas=tuple(node.deltas),
        )
    for (start, to, relation), sides in sorted(edges.items()):
        if start in graph and to in graph:
            change = ""
            if start in nodes and len(sides) == 1:
                change = "link" if sides == {"after"} else "unlink"
            graph.add_edge(start, to, key=relation, relation=relation, change=change)
    return graph
