"""Stage 2: from captures to one state per side, and every admissible way to pair their entities.

1. Combine what several sources deliver of one type; where admissible readings differ the value is
   unobserved, unless the contract names an authority.
2. Pair entities: by stable key first; by a declared natural key only where a type has none.

Identity is conservative (DESIGN.md §3): nothing is matched by similarity, candidates that tie or
only look alike leave several matchings or a doubt, and no two keys are ever merged. This stage
knows nothing of what the contract wants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import Final

from confusable_homoglyphs import confusables

from statediff.errors import AdapterError
from statediff.model.delta import Doubt
from statediff.model.readings import Capture
from statediff.model.schema import EntityType, Schema, merge_schemas
from statediff.model.stages import IdentityPair, Matching, Resolution
from statediff.model.state import (
    CHUNK_KEYS,
    ChunkRef,
    Coverage,
    Enumeration,
    MemoryChunks,
    Row,
    State,
    Table,
    build_table,
    encode_rows,
)
from statediff.model.values import (
    ABSENT,
    Key,
    Observed,
    Unobserved,
    encode,
    is_value,
    key_order,
    same,
    show,
    show_key,
)

MAX_MATCHINGS: Final = 24
"""Admissible matchings that are enumerated; beyond, the entities concerned are doubts."""


@dataclass(frozen=True)
class IdentityRule:
    """A versioned natural key for a type without a stable one.

    `fields` are (field, rule name, function): the function is the field's own canonicalization.
    """

    type: str
    version: int
    because: str
    fields: tuple[tuple[str, str, Callable[[Observed], Observed]], ...]

    @property
    def name(self) -> str:
        parts = ", ".join(f + (f":{rule}" if rule else "") for f, rule, _ in self.fields)
        return f"{self.type} by {parts} v{self.version}"


def resolve(
    before: Capture,
    after: Capture,
    rules: Sequence[IdentityRule] = (),
    authority: Mapping[str, str] | None = None,
    refused: Mapping[tuple[str, str], str] | None = None,
) -> Resolution:
    """Every admissible matching of the two captures.

    `authority` names, per type, the source that decides when sources differ. `refused` gives the
    cause for each (side, source) whose reading may not be used.
    """
    schema = _schema(before, after)
    authority, refused = authority or {}, refused or {}
    states = tuple(
        _combine(capture, schema, side, authority, refused)
        for side, capture in (("before", before), ("after", after)))
    evidence = tuple(
        (t.name, _evidence(before, t.name), _evidence(after, t.name)) for t in schema.types)
    base = Matching(states[0], states[1])
    matchings: list[Matching] = [base]
    doubts: list[Doubt] = []
    ambiguous: list[tuple[str, str]] = []
    opaque_only = True
    for rule in rules:
        options, found, cause = _pair(rule, base)
        doubts += found
        if cause:
            ambiguous.append((rule.type, cause))
            opaque_only = False
        if len(matchings) * len(options) > MAX_MATCHINGS:
            doubts.append(Doubt(rule.type, None, None,
                                "ambiguous identity: too many ways to pair", "resolve"))
            continue
        matchings = [_apply(m, rule, option) for m, option in product(matchings, options)]
    return Resolution(tuple(matchings), tuple(doubts), tuple(ambiguous), opaque_only, evidence)


def _schema(before: Capture, after: Capture) -> Schema:
    try:
        parts = tuple(p.state.schema for p in (*before.parts, *after.parts))
        return merge_schemas(parts)
    except ValueError as error:
        raise AdapterError(f"the captures do not fit together: {error}") from error


def _evidence(capture: Capture, type_name: str) -> tuple[str, ...]:
    return tuple(p.reading.id for p in capture.parts if type_name in p.state.schema.by_name)


# ---------------------------------------------------------------- several sources


def _combine(capture: Capture, schema: Schema, side: str, authority: Mapping[str, str],
             refused: Mapping[tuple[str, str], str]) -> State:
    tables: dict[str, Table] = {}
    for entity in schema.types:
        parts = [(p.reading.source, p.state.tables[entity.name]) for p in capture.parts
                 if entity.name in p.state.tables]
        if not parts:
            if _knows_absence(capture, schema, side, entity.name, refused):
                tables[entity.name] = build_table(entity, (), MemoryChunks())
            continue
        blocked = [refused[side, source] for source, _ in parts if (side, source) in refused]
        if blocked:
            tables[entity.name] = parts[0][1].unobserved(blocked[0])
            continue
        chosen = [t for s, t in parts if s == authority.get(entity.name)]
        tables[entity.name] = chosen[0] if chosen else _agree(entity, parts)
    return State(schema, tables)


def _knows_absence(capture: Capture, schema: Schema, side: str, type_name: str,
                   refused: Mapping[tuple[str, str], str]) -> bool:
    """Whether every source of the type read all it has on this side, and the type was not there:
    a table made or dropped in the run."""
    readings = {r.source: r for r in capture.readings}
    sources = schema.sources_of(type_name)
    return bool(sources) and all(
        source in readings and readings[source].is_complete and (side, source) not in refused
        for source in sources)


def _agree(entity: EntityType, parts: list[tuple[str, Table]]) -> Table:
    """One table out of several; where they differ nothing is known."""
    name, table = parts[0]
    for other_name, other in parts[1:]:
        if table.type.fields == other.type.fields and table.chunks == other.chunks and (
                table.enumeration == other.enumeration):
            continue
        table = _merge(entity, (name, table), (other_name, other))
        name = f"{name} and {other_name}"
    return table


def _merge(entity: EntityType, a: tuple[str, Table], b: tuple[str, Table]) -> Table:
    left, right = dict(a[1].rows()), dict(b[1].rows())
    rows: list[Row] = []
    cause = ""
    for key in sorted(left.keys() | right.keys(), key=key_order):
        if key in left and key in right:
            rows.append(_cells(entity, (a[0], left[key]), (b[0], right[key])))
            continue
        lacking, table = (b[0], b[1]) if key in left else (a[0], a[1])
        if table.enumeration.is_complete:
            cause = cause or f"contradiction: {entity.name} {show_key(key)} is not in {lacking}"
        else:
            rows.append({**_blank(entity), **(left.get(key) or right[key])})
    covers = [t.enumeration for _, t in (a, b)]
    enumeration = next((e for e in covers if e.is_complete), covers[0])
    if cause:
        enumeration = Enumeration(Coverage.INCOMPLETE, cause)
    return build_table(entity, rows, MemoryChunks(), enumeration=enumeration)


def _blank(entity: EntityType) -> Row:
    return {f.name: ABSENT for f in entity.fields}


def _cells(entity: EntityType, a: tuple[str, Row], b: tuple[str, Row]) -> Row:
    row: Row = {}
    for spec in entity.fields:
        held = [(s, r[spec.name]) for s, r in (a, b) if spec.name in r]
        known = [(s, v) for s, v in held if not isinstance(v, Unobserved)]
        if not known:
            row[spec.name] = held[0][1] if held else ABSENT
        elif all(same(known[0][1], v) for _, v in known):
            row[spec.name] = known[0][1]
        else:
            row[spec.name] = Unobserved("contradiction: " + ", ".join(
                f"{s} says {show(v, 30)}" for s, v in known))
    return row


# ---------------------------------------------------------------- natural keys


def _pair(rule: IdentityRule, base: Matching) -> tuple[
        list[tuple[tuple[Key, Key], ...]], list[Doubt], str]:
    """Every admissible pairing ((before key, after key), …), doubts, and the cause of ambiguity."""
    before, after = base.before.tables.get(rule.type), base.after.tables.get(rule.type)
    if before is None or after is None or not (
            before.enumeration.is_complete and after.enumeration.is_complete):
        return [()], [], ""
    old, new = _grouped(rule, before), _grouped(rule, after)
    fixed: list[tuple[Key, Key]] = []
    choices: list[list[tuple[tuple[Key, Key], ...]]] = []
    doubts: list[Doubt] = []
    cause = ""
    for natural in sorted(old.keys() & new.keys()):
        keys = old[natural], new[natural]
        if len(keys[0]) == len(keys[1]) == 1:
            fixed.append((keys[0][0], keys[1][0]))
            continue
        if sorted(keys[0], key=key_order) == sorted(keys[1], key=key_order):
            fixed += [(key, key) for key in keys[0]]
            continue
        cause = cause or (f"ambiguous identity: {len(keys[0])} before and {len(keys[1])} after "
                          f"share {natural}")
        ways = list(_ways(*keys))
        if not ways:
            doubts += [Doubt(rule.type, key, "", cause, "resolve") for key in keys[0]]
            fixed += list(zip(*keys, strict=False))
        else:
            choices.append(ways)
    doubts += _lookalikes(rule, old, new)
    count = 1
    for ways in choices:
        count *= len(ways)
    if count > MAX_MATCHINGS:
        doubts.append(Doubt(rule.type, None, None, cause, "resolve"))
        choices = [ways[:1] for ways in choices]
    options = [tuple(fixed) + tuple(p for way in combination for p in way)
               for combination in product(*choices)]
    return options, doubts, cause


def _grouped(rule: IdentityRule, table: Table) -> dict[str, list[Key]]:
    groups: dict[str, list[Key]] = {}
    for key, row in table.rows():
        parts = [function(row[name]) for name, _, function in rule.fields]
        if all(is_value(p) and p is not None for p in parts):
            groups.setdefault(str([encode(p) for p in parts]), []).append(key)
    return groups


def _ways(old: list[Key], new: list[Key]) -> Iterator[tuple[tuple[Key, Key], ...]]:
    """Every way to pair as many as possible; nothing when there are too many."""
    short, long = (old, new) if len(old) <= len(new) else (new, old)
    if len(long) > 4:
        return
    for arrangement in permutations(long, len(short)):
        pairs = zip(short, arrangement, strict=True)
        yield tuple((a, b) if short is old else (b, a) for a, b in pairs)


def _lookalikes(rule: IdentityRule, old: Mapping[str, list[Key]],
                new: Mapping[str, list[Key]]) -> list[Doubt]:
    """Natural keys that are distinct but read the same: nobody can say which entity is meant."""
    gone, come = old.keys() - new.keys(), new.keys() - old.keys()
    shapes: dict[str, str] = {skeleton(natural): natural for natural in sorted(gone | old.keys())}
    doubts = []
    for natural in sorted(come):
        twin = shapes.get(skeleton(natural))
        if twin is not None and twin != natural:
            doubts += [Doubt(rule.type, key, "",
                             "ambiguous identity: it only looks like another entity", "resolve")
                       for key in (*old[twin], *new[natural])]
    return doubts


def skeleton(text: str) -> str:
    """The text with every Latin look-alike replaced by the letter it is mistaken for."""
    if text.isascii():
        return text.casefold()
    letters = []
    for letter in text:
        found = confusables.is_confusable(letter, greedy=True, preferred_aliases=["latin"])
        shown = letter
        if found:
            likes = [h["c"] for h in found[0]["homoglyphs"] if h["c"].isascii()]
            shown = min(likes) if likes else letter
        letters.append(shown)
    return "".join(letters).casefold()


def _apply(matching: Matching, rule: IdentityRule,
           pairs: tuple[tuple[Key, Key], ...]) -> Matching:
    """The matching with the after entities of the type under the keys of their partners."""
    if not pairs:
        return matching
    table = matching.after.tables[rule.type]
    partner = {after: before for before, after in pairs}
    taken = set(partner.values()) | set(dict(matching.before.tables[rule.type].rows(())))
    keyed: list[tuple[Key, Row]] = []
    for key, row in table.rows():
        own = partner.get(key)
        if own is None:
            own = key
            while own in taken:
                own = (own[0], int(str(own[1])) + 1_000_000)
            taken.add(own)
        keyed.append((own, row))
    keyed.sort(key=lambda pair: key_order(pair[0]))
    tables = {**matching.after.tables, rule.type: _rekeyed(table, keyed)}
    found = tuple(IdentityPair(rule.type, rule.name, b, a) for b, a in pairs)
    return Matching(matching.before, State(matching.after.schema, tables),
                    (*matching.pairs, *found))


def _rekeyed(table: Table, keyed: list[tuple[Key, Row]]) -> Table:
    store = MemoryChunks()
    groups = [keyed[i : i + CHUNK_KEYS] for i in range(0, len(keyed), CHUNK_KEYS)] or [[]]
    chunks: tuple[ChunkRef, ...] = tuple(store.put(encode_rows(table.type, g)) for g in groups)
    cuts = tuple(g[0][0] for g in groups[1:])
    return Table(table.type, chunks, cuts, store, table.enumeration)


def natural_keys(rules: Iterable[IdentityRule]) -> tuple[str, ...]:
    """The names of the rules in use, for the bundle."""
    return tuple(rule.name for rule in rules)
