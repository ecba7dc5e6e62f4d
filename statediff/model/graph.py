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

A file of it, GraphML or node-link JSON, holds texts only. Names and types are as they are, with
anything but printable ASCII as in a JSON text; `key`, `fields`, `before`, `after`, `deltas` and
`unobserved` are JSON, in which each value is encoded as in a bundle (`values.encode`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from statediff.errors import InputError, UsageError
from statediff.model.delta import Delta, Entity, delta_id
from statediff.model.schema import EntityType, Schema
from statediff.model.values import Key, Observed, Value, decode, encode, is_value, key_order

if TYPE_CHECKING:
    import networkx as nx

Graph: TypeAlias = "nx.MultiDiGraph[str]"
Row: TypeAlias = Mapping[str, Observed]

MAX_NODES: Final = 100_000
"""Entities of a graph, unless more are asked for."""
MAX_NEIGHBORS: Final = 10_000
"""Entities beside those that changed, in a graph of changes."""


@dataclass
class Content:
    """The content of a graph: edges by start, end and relation, in the order of a graph's edges."""

    attributes: dict[str, Any]
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    edges: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """The change of the reference: `link`, `unlink`, or ""."""

    @staticmethod
    def of(kind: str, unobserved: Mapping[str, str]) -> Content:
        """Nothing yet."""
        return Content(
            {"graph": kind, "unobserved": dict(sorted(unobserved.items())), "left_out": 0}
        )

    def as_graph(self) -> Graph:
        """The same as a graph."""
        import networkx as nx  # noqa: PLC0415 - a tenth of a second, for the few who hold a graph

        graph: Graph = nx.MultiDiGraph()
        graph.graph.update(self.attributes)
        for at, attributes in self.nodes.items():
            graph.add_node(at, **attributes)
        for (start, to, relation), change in self.edges.items():
            graph.add_edge(start, to, key=relation, relation=relation, change=change)
        return graph


class Rows(Protocol):
    """A table for a graph: its type, how many rows it holds, and the rows."""

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
        """The change that the delta makes."""
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
    content = Content.of("state", unobserved)
    related = references(schema)
    for table in listed:
        for key, row in table.rows():
            at = delta_id(table.type.name, key, "")
            known = {"type": table.type.name, "key": key, "fields": dict(row), "change": ""}
            content.nodes.setdefault(at, {}).update(known)
            for name, target, other in references_of(table.type.name, row, related):
                to = delta_id(target, other, "")
                named = {"type": target, "key": other, "fields": None, "change": ""}
                content.nodes.setdefault(to, named)
                content.edges[at, to, f"{table.type.name}.{name}"] = ""
    return content.as_graph()


def references_of(
    type_name: str, row: Row, related: Mapping[str, tuple[tuple[str, str], ...]]
) -> Iterator[tuple[str, str, tuple[Value]]]:
    """(field, type, key) of each entity that the row refers to."""
    for name, target in related.get(type_name, ()):
        value = row.get(name)
        if value is not None and is_value(value):
            yield name, target, (value,)  # type: ignore[misc]  # a value, just checked


# ---------------------------------------------------------------- what changed


@dataclass
class _Node:
    type: str
    key: Key
    change: str = ""
    deltas: list[str] = field(default_factory=list)
    sides: dict[str, dict[str, Observed]] = field(default_factory=dict)


def change_content(
    changes: Iterable[Changed],
    known: Iterable[Known],
    related: Mapping[str, tuple[tuple[str, str], ...]],
    unobserved: Mapping[str, str],
    limit: int = MAX_NODES,
    shown: frozenset[str] = frozenset(),
) -> Content:
    """The changes and their neighborhood: all that they refer to, and all known to refer to them.

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
            for name, target, key in references_of(node.type, row, related):
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
) -> Content:
    content = Content.of("changes", unobserved)
    ends = {end for start, to, _ in edges for end in (start, to)} | (shown & set(near))
    ends -= set(nodes)
    around = sorted(ends, key=lambda at: (near[at].type, key_order(near[at].key)))
    content.attributes["left_out"] = max(0, len(around) - MAX_NEIGHBORS)
    for at in (*nodes, *around[:MAX_NEIGHBORS]):
        node = nodes.get(at) or near[at]
        before, after = (node.sides.get(side) for side in ("before", "after"))
        content.nodes[at] = {
            "type": node.type,
            "key": node.key,
            "fields": before if after is None else after,
            "change": node.change,
            "before": before,
            "after": after,
            "deltas": tuple(node.deltas),
        }
    rank = {at: place for place, at in enumerate(content.nodes)}
    drawn = (edge for edge in edges if edge[0] in rank and edge[1] in rank)
    for edge in sorted(drawn, key=lambda edge: (rank[edge[0]], edge)):
        sides, change = edges[edge], ""
        if edge[0] in nodes and len(sides) == 1:
            change = "link" if sides == {"after"} else "unlink"
        content.edges[edge] = change
    return content


SUFFIXES: Final = (".graphml", ".json")


def require_suffix(suffix: str) -> None:
    """`UsageError` unless the end of a file's name says which form is meant."""
    if suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"a graph is written as GraphML (.graphml) or as node-link JSON (.json), not {suffix!r}"
        )


def graph_bytes(graph: Graph, suffix: str) -> bytes:
    """The graph in the form that the suffix names."""
    import networkx as nx  # noqa: PLC0415 - takes a tenth of a second, and few write a graph

    require_suffix(suffix)
    plain: Graph = nx.MultiDiGraph()
    plain.graph.update(_packed(graph.graph))
    for at, attributes in graph.nodes(data=True):
        plain.add_node(_text(at), **_packed(attributes))
    for start, to, key, attributes in graph.edges(keys=True, data=True):
        plain.add_edge(_text(start), _text(to), key=_text(key), **_packed(attributes))
    if suffix.lower() == ".json":
        document = nx.node_link_data(plain, edges="edges")
        return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
    return ("\n".join(nx.generate_graphml(plain, prettyprint=True)) + "\n").encode()


def graph_from(content: bytes, suffix: str) -> Graph:
    """The graph in such a file; `InputError` for anything else."""
    import networkx as nx  # noqa: PLC0415 - as above

    require_suffix(suffix)
    graph: Graph = nx.MultiDiGraph()
    plain: Any
    try:
        if suffix.lower() == ".json":
            plain = nx.node_link_graph(json.loads(content), edges="edges")
        else:
            if b"<!" in content:  # no file of ours declares anything, and entities may never end
                raise ValueError("it has a declaration")
            plain = nx.parse_graphml(content.decode(), force_multigraph=True)
        own = {name: text for name, text in plain.graph.items() if name not in _DEFAULTS}
        graph.graph.update(_unpacked(own))
        for at, attributes in plain.nodes(data=True):
            if not {"type", "key"} <= set(attributes):
                raise ValueError(f"{at} has no type or no key")
            graph.add_node(_from_text(at), **_unpacked(attributes))
        for start, to, key, attributes in plain.edges(keys=True, data=True):
            ends = _from_text(start), _from_text(to)
            graph.add_edge(*ends, key=_from_text(key), **_unpacked(attributes))
    except _DAMAGE as error:
        raise InputError(f"not a graph that statediff wrote: {str(error)[:200]}") from error
    except nx.NetworkXException as error:
        raise InputError(f"not a graph that statediff wrote: {str(error)[:200]}") from error
    return graph


_DAMAGE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError, SyntaxError)
"""Errors of networkx, JSON and XML for a file of another kind; a ParseError is a SyntaxError."""


_DEFAULTS: Final = ("node_default", "edge_default")
"""Attributes that networkx adds to a graph that it reads from GraphML."""


# ---------------------------------------------------------------- attributes


def _text(name: Any) -> str:
    return json.dumps(str(name))[1:-1]


def _from_text(text: str) -> str:
    found = json.loads(f'"{text}"')
    return str(found)


def _row(row: Mapping[str, Any] | None) -> Any:
    return None if row is None else [[name, encode(value)] for name, value in row.items()]


def _row_from(document: Any) -> Any:
    return None if document is None else {str(n): decode(value) for n, value in document}


def _texts_from(document: Any) -> Any:
    return {str(k): str(v) for k, v in document.items()}


_PACK: Final[Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "key": (lambda key: [encode(v) for v in key], lambda d: tuple(decode(v) for v in d)),
    "fields": (_row, _row_from),
    "before": (_row, _row_from),
    "after": (_row, _row_from),
    "deltas": (list, lambda d: tuple(map(str, d))),
    "explained_by": (list, lambda d: tuple(map(str, d))),
    "witness_of": (list, lambda d: tuple(map(str, d))),
    "unobserved": (dict, _texts_from),
    "left_out": (int, int),
}
"""Attributes that are JSON: how each becomes plain JSON, and back. Every other is a text."""


def _packed(attributes: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: json.dumps(_PACK[name][0](value)) if name in _PACK else _text(value)
        for name, value in attributes.items()
    }


def _unpacked(attributes: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in attributes.items():
        if not isinstance(text, str):
            raise TypeError(f"{name} is no text")
        found[str(name)] = _PACK[name][1](json.loads(text)) if name in _PACK else _from_text(text)
    return found
