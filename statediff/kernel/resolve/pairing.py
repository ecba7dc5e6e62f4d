"""Pairing entities that have no stable key by a declared natural key, and never by likeness."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Final, TypeAlias

from statediff.model.batches import Row, encode_rows
from statediff.model.lookalikes import skeleton
from statediff.model.state import (
    CHUNK_KEYS,
    ChunkRef,
    Coverage,
    Enumeration,
    MemoryChunks,
    State,
    Table,
    beginnings,
)
from statediff.model.timelines import FRESH, IdentityPair, Matching
from statediff.model.values import (
    ABSENT,
    Key,
    Observed,
    Unobserved,
    encode,
    is_value,
    key_order,
    same,
)

MAX_MATCHINGS: Final = 24
"""Admissible matchings that are enumerated; rows that would make more of them stay open."""

MAX_ALIKE: Final = 4
"""Entities of one natural key, or of look-alikes, that are distinguished by trying every way."""


@dataclass(frozen=True)
class IdentityRule:
    """A versioned natural key for a type without a stable one.

    `fields` are (field, rule name, function): the function is the field's own canonicalization.
    `opaque` are the fields whose values mean nothing, by the contract's canonicalization.
    """

    type: str
    version: int
    because: str
    fields: tuple[tuple[str, str, Callable[[Observed], Observed]], ...]
    opaque: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        parts = ", ".join(f + (f":{rule}" if rule else "") for f, rule, _ in self.fields)
        return f"{self.type} by {parts} v{self.version}"


Pairs: TypeAlias = tuple[tuple[Key, Key], ...]


@dataclass(frozen=True)
class Pairing:
    """Every admissible pairing ((before key, after key), …), and why there is more than one.

    `open` are the entities that could be paired in too many ways, of either side, and why: it is
    not known which of them is which, and of the others it is. `hopeless` says why nobody can pair
    the entities of the type at all. `is_opaque`: the candidates differ only in ids that mean
    nothing, so that every pairing is the same but for these.
    """

    options: tuple[Pairs, ...] = ((),)
    cause: str = ""
    hopeless: str = ""
    is_opaque: bool = True
    open: tuple[Key, ...] = ()
    open_cause: str = ""


@dataclass(frozen=True)
class _Cluster:
    """Natural keys that read the same, with the keys of their entities on both sides."""

    naturals: tuple[str, ...]
    old: Mapping[str, list[Key]]
    new: Mapping[str, list[Key]]

    def keys(self, side: Mapping[str, list[Key]]) -> list[Key]:
        return [key for natural in self.naturals for key in side.get(natural, ())]


def pair(rule: IdentityRule, base: Matching, most: int = MAX_MATCHINGS) -> Pairing:
    """The admissible ways to pair the entities of the rule's type, at most so many."""
    tables = base.before.tables.get(rule.type), base.after.tables.get(rule.type)
    groups: list[dict[str, list[Key]]] = []
    for table in tables:
        if table is None or not table.enumeration.is_complete:
            gap = "it was not read" if table is None else table.enumeration.cause
            # An entity that was not seen might be the partner, or a second one of the same name.
            return Pairing(hopeless=f"ambiguous identity: not all are known: {gap}")
        grouped = _grouped(rule, table)
        if isinstance(grouped, str):
            return Pairing(hopeless=f"ambiguous identity: {grouped}")
        groups.append(grouped)
    fixed: list[tuple[Key, Key]] = []
    tied: list[tuple[_Cluster, list[Pairs], str]] = []
    for cluster in _clusters(groups[0], groups[1]):
        ways, cause = _ways_of(cluster)
        if cause:
            tied.append((cluster, ways, cause))
        else:
            fixed += ways[0]
    options: list[Pairs] = [tuple(fixed)]
    tried: list[_Cluster] = []
    open_: list[Key] = []
    causes: tuple[list[str], list[str]] = ([], [])
    for cluster, ways, cause in tied:
        is_open = not 0 < len(options) * len(ways) <= most
        causes[is_open].append(cause)
        if is_open:
            open_ += (*cluster.keys(cluster.old), *cluster.keys(cluster.new))
            continue
        tried.append(cluster)
        options = [(*option, *way) for option, way in product(options, ways)]
    return Pairing(
        tuple(options),
        causes[False][0] if tried else "",
        is_opaque=not tried or _differ_only_in_opaque_ids(rule, tried, tables),
        open=tuple(open_),
        open_cause=causes[True][0] if open_ else "",
    )


def _differ_only_in_opaque_ids(
    rule: IdentityRule, clusters: list[_Cluster], tables: Sequence[Table | None]
) -> bool:
    """True if in each cluster the candidates of either side are one content under several ids.

    Natural keys that only look alike are no ids, and what was not observed may differ.
    """
    if any(len(cluster.naturals) > 1 for cluster in clusters):
        return False
    for table, side in zip(tables, ("old", "new"), strict=True):
        of_key = {
            key_order(key): number
            for number, cluster in enumerate(clusters)
            for key in cluster.keys(getattr(cluster, side))
        }
        contents: dict[int, Row] = {}
        for key, row in () if table is None else table.rows():
            number = of_key.get(key_order(key))
            if number is not None and not _same_content(
                rule, contents.setdefault(number, row), row
            ):
                return False
    return True


def _same_content(rule: IdentityRule, one: Row, other: Row) -> bool:
    """True if two rows are known to be the same but for opaque ids that both have or both lack."""
    for name in one.keys() | other.keys():
        a, b = one.get(name, ABSENT), other.get(name, ABSENT)
        if isinstance(a, Unobserved) or isinstance(b, Unobserved):
            return False
        if name in rule.opaque and None not in (a, b) and is_value(a) and is_value(b):
            continue
        if not same(a, b):
            return False
    return True


def _clusters(old: dict[str, list[Key]], new: dict[str, list[Key]]) -> list[_Cluster]:
    shapes: dict[str, list[str]] = {}
    for natural in sorted(old.keys() | new.keys()):
        shapes.setdefault(skeleton(natural), []).append(natural)
    return [_Cluster(tuple(naturals), old, new) for _, naturals in sorted(shapes.items())]


def _ways_of(cluster: _Cluster) -> tuple[list[Pairs], str]:
    """Every way to pair within the cluster, and the cause where there is more than one or none."""
    exact = [_exact(cluster.old.get(n, []), cluster.new.get(n, [])) for n in cluster.naturals]
    apart = tuple(pair for pairs in exact for pair in pairs or ())
    old, new = cluster.keys(cluster.old), cluster.keys(cluster.new)
    come = [n for n in cluster.naturals if n not in cluster.old]
    if come and old:
        cause = f"ambiguous identity: {come[0]} only looks like another entity"
        first = [apart]
    elif None in exact:
        cause = (
            f"ambiguous identity: {len(old)} before and {len(new)} after share "
            f"{cluster.naturals[0]}"
        )
        first = []
    else:
        return [apart], ""
    is_tied = not first and len(cluster.naturals) > 1
    if is_tied or max(len(old), len(new)) > MAX_ALIKE:
        return [], cause
    return list(dict.fromkeys([*first, *_ways(old, new)])), cause


def _exact(old: list[Key], new: list[Key]) -> Pairs | None:
    """The pairs of entities with one natural key; None where several could be meant."""
    if not old or not new:
        return ()
    if len(old) == len(new) == 1:
        return ((old[0], new[0]),)
    if sorted(old, key=key_order) == sorted(new, key=key_order):
        return tuple((key, key) for key in old)
    return None


def _grouped(rule: IdentityRule, table: Table) -> dict[str, list[Key]] | str:
    """Keys by natural key; a text where a part of a natural key was not observed."""
    groups: dict[str, list[Key]] = {}
    for key, row in table.rows():
        parts = _parts(rule, row)
        for (name, _, _), part in zip(rule.fields, parts, strict=True):
            if isinstance(part, Unobserved):
                return f"{rule.type}.{name} was not observed: {part.cause}"
        natural = _natural(parts)
        if natural is not None:
            groups.setdefault(natural, []).append(key)
    return groups


def _parts(rule: IdentityRule, row: Row) -> list[Observed]:
    return [function(row.get(name, ABSENT)) for name, _, function in rule.fields]


def _natural(parts: Sequence[Observed]) -> str | None:
    if not all(is_value(part) and part is not None for part in parts):
        return None
    return json.dumps([encode(part) for part in parts], ensure_ascii=False)


def natural_key(rule: IdentityRule, row: Row) -> str | None:
    """The entity's name by the rule; None where a part is null, absent or unobserved."""
    return _natural(_parts(rule, row))


def _ways(old: list[Key], new: list[Key]) -> Iterator[Pairs]:
    """Every way to pair as many as possible."""
    if len(old) > len(new):
        yield from (tuple((b, a) for a, b in pairs) for pairs in _ways(new, old))
        return
    for arrangement in permutations(new, len(old)):
        yield tuple(zip(old, arrangement, strict=True))


def leave_open(matching: Matching, type_name: str, keys: Sequence[Key], cause: str) -> Matching:
    """The matching without the entities of these keys, any of which may be there."""
    below = beginnings({str(key[0]) for key in keys})
    gone = {key_order(key) for key in keys}

    def without(table: Table) -> Table:
        rows = [(key, row) for key, row in table.rows() if key_order(key) not in gone]
        return _rekeyed(table, rows, Enumeration(Coverage.INCOMPLETE, cause, below=below))

    return _with_tables(matching, type_name, without)


def withheld(matching: Matching, type_name: str, cause: str) -> Matching:
    """The matching with nothing known of a type whose entities nobody can pair."""
    return _with_tables(matching, type_name, lambda table: table.unobserved(cause))


def _with_tables(matching: Matching, type_name: str, change: Callable[[Table], Table]) -> Matching:
    """The matching with another table of the type on each side that has one."""

    def changed(state: State) -> State:
        table = state.tables.get(type_name)
        if table is None:
            return state
        return State(state.schema, {**state.tables, type_name: change(table)})

    return Matching(changed(matching.before), changed(matching.after), matching.pairs)


def apply(matching: Matching, rule: IdentityRule, pairs: Pairs) -> Matching:
    """The matching with the after entities of the type under the keys of their partners."""
    if not pairs:
        return matching
    table = matching.after.tables[rule.type]
    partner = {after: before for before, after in pairs}
    paired = set(partner.values())
    keyed: list[tuple[Key, Row]] = []
    for key, row in table.rows():
        own = partner.get(key, key)
        # A row without a partner whose key is another's is a new entity, however alike.
        if key not in partner and own in paired:
            own = (own[0], int(str(own[1])) + FRESH)
        keyed.append((own, row))
    keyed.sort(key=lambda pair: key_order(pair[0]))
    tables = {**matching.after.tables, rule.type: _rekeyed(table, keyed, table.enumeration)}
    found = tuple(IdentityPair(rule.type, rule.name, b, a) for b, a in pairs)
    return Matching(
        matching.before, State(matching.after.schema, tables), (*matching.pairs, *found)
    )


def _rekeyed(table: Table, keyed: list[tuple[Key, Row]], enumeration: Enumeration) -> Table:
    store = MemoryChunks()
    groups = [keyed[i : i + CHUNK_KEYS] for i in range(0, len(keyed), CHUNK_KEYS)] or [[]]
    chunks: tuple[ChunkRef, ...] = tuple(store.put(encode_rows(table.type, g)) for g in groups)
    cuts = tuple(g[0][0] for g in groups[1:])
    return Table(table.type, chunks, cuts, store, enumeration)
