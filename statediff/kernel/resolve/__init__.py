"""Stage 2: from captures to one state per side, and every admissible way to pair their entities.

1. Combine what several sources deliver of one type; where admissible readings differ the value is
   unobserved, unless the contract names an authority.
2. Pair entities: by stable key first; by a declared natural key only where a type has none.
3. Line up the states that each source went through in between, where a history tells them.

Of a type that one source delivers (or that it decides, by `authority`), its history tells. Of a
type that several deliver nothing is known in between, for the order of their commits is not known;
nor of one whose entities are paired by a declared rule, which pairs the two ends only.

Identity is conservative (docs/design.md §3): nothing is matched by similarity, candidates that tie
or only look alike leave several matchings, and no two keys are ever merged. Where the matchings are
too many to try, those entities are left open, and all others of the type are judged. This stage
knows nothing of what the contract wants.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, Final

from statediff.errors import AdapterError
from statediff.kernel.resolve.pairing import (
    MAX_MATCHINGS,
    IdentityRule,
    apply,
    leave_open,
    natural_key,
    pair,
    withheld,
)
from statediff.model.batches import Row
from statediff.model.explanation import PARTED
from statediff.model.readings import NO_FEED, Capture, Reading, SourceCapture, Transaction
from statediff.model.schema import EntityType, Schema, merge_schemas
from statediff.model.state import Coverage, Enumeration, MemoryChunks, State, Table, build_table
from statediff.model.timelines import Matching, Resolution, SourceTimeline, Step, Timelines
from statediff.model.values import (
    ABSENT,
    Digested,
    Key,
    Unobserved,
    key_order,
    same,
    show,
    show_key,
)

__all__ = ["RESOLVER", "IdentityRule", "natural_key", "resolve"]

RESOLVER: Final = "resolve@1"
"""Raised whenever the same states could be paired in another way; manifests name it."""


def resolve(
    before: Capture,
    after: Capture,
    rules: Sequence[IdentityRule] = (),
    authority: Mapping[str, str] | None = None,
    refused: Mapping[tuple[str, str], str] | None = None,
    must_report: Collection[str] | None = None,
) -> Resolution:
    """Every admissible matching of the two captures.

    `authority` names, per type, the source that decides when sources differ. `refused` gives the
    cause for each (side, source) whose reading may not be used: what it delivers is unobserved,
    no matter who else supplies it, if the source is one that `must_report` (None: every source is).
    """
    scope = _scope(before, after, authority or {}, refused or {}, must_report)
    first = _combine(before, "before", scope)
    states = first, _combine(after, "after", scope, earlier=_Earlier(before, first))
    matchings = [Matching(*states)]
    ambiguous: list[tuple[str, str]] = []
    opaque = True
    for rule in rules:
        found = pair(rule, matchings[0], MAX_MATCHINGS // len(matchings))
        if found.hopeless:
            matchings = [withheld(m, rule.type, found.hopeless) for m in matchings]
            continue
        if found.open:
            ambiguous.append((rule.type, found.open_cause))
            opaque = False
            matchings = [leave_open(m, rule.type, found.open, found.open_cause) for m in matchings]
        if found.cause:
            ambiguous.append((rule.type, found.cause))
            opaque = opaque and found.is_opaque
        matchings = [apply(m, rule, option) for m, option in product(matchings, found.options)]
    course, between = _course(before, after, states, scope, [rule.type for rule in rules])
    ids, names = (_readings_by_type(before), _readings_by_type(after)), scope.schema.by_name
    return Resolution(
        tuple(matchings),
        tuple(ambiguous),
        differ_only_in_opaque_ids=opaque,
        readings_of=tuple([(n, ids[0].get(n, ()), ids[1].get(n, ())) for n in names]),
        course=course,
        between=between,
    )


@dataclass(frozen=True)
class _Scope:
    """The rules that decide whose word counts: see `resolve`."""

    schema: Schema
    delivered: Mapping[str, set[str]]
    """Which sources deliver a type on either side, by what they say or by what they delivered."""
    authority: Mapping[str, str]
    refused: Mapping[tuple[str, str], str]
    must_report: Collection[str] | None

    def must(self, source: str) -> bool:
        return self.must_report is None or source in self.must_report


def _scope(
    before: Capture,
    after: Capture,
    authority: Mapping[str, str],
    refused: Mapping[tuple[str, str], str],
    must_report: Collection[str] | None,
) -> _Scope:
    seen: list[tuple[str, Schema]] = []
    delivered: dict[str, set[str]] = {}
    for part in (*before.parts, *after.parts):
        schema, own = part.state.schema, part.reading.source
        if (own, schema) in seen:
            continue
        seen.append((own, schema))
        for name in schema.by_name:
            delivered.setdefault(name, set()).add(own)
        for source, names in schema.sources:
            for name in names if source != own else ():
                if name in schema.by_name:
                    delivered[name].add(source)
    try:
        whole = merge_schemas(tuple([schema for _, schema in seen]))
    except ValueError as error:
        raise AdapterError(f"the captures do not fit together: {error}") from error
    return _Scope(whole, delivered, authority, refused, must_report)


def _readings_by_type(capture: Capture) -> dict[str, tuple[str, ...]]:
    """The evidence ids of the readings behind each type."""
    found: dict[str, tuple[str, ...]] = {}
    for part in capture.parts:
        for name in part.state.schema.by_name:
            found[name] = (*found[name], part.reading.id) if name in found else (part.reading.id,)
    return found


# --- what several sources deliver of a type (docs/design.md §3, Contradiction) -----------------


_NOTHING: Final[Mapping[str, Table]] = {}


@dataclass(frozen=True)
class _Earlier:
    """The capture before the run, and the state that its sources gave together."""

    capture: Capture
    state: State

    @cached_property
    def tables(self) -> dict[str, list[tuple[str, Table]]]:
        return _delivered(self.capture)


def _combine(
    capture: Capture,
    side: str | None,
    scope: _Scope,
    types: Collection[str] | None = None,
    known: Mapping[str, Table] = _NOTHING,
    earlier: _Earlier | None = None,
) -> State:
    """The state on one side (None: between the two), out of what all its sources delivered.

    Of these `types` only, where they are named; `known` are tables that are made already. What
    sources agreed on `earlier`, and contradict each other on here, has parted in the run.
    """
    if len(capture.parts) == 1 and types is None and not scope.refused:
        reading, state = capture.parts[0].reading, capture.parts[0].state
        is_whole = state.schema is scope.schema and [*state.tables] == [*scope.schema.by_name]
        if is_whole and reading.is_complete:
            return state
    tables: dict[str, Table] = {}
    found = _delivered(capture)
    for entity in scope.schema.types:
        if types is not None and entity.name not in types:
            continue
        table = known.get(entity.name)
        if table is None:
            parts = found.get(entity.name, [])
            if len(parts) == 1 and not scope.refused:
                table = parts[0][1]  # there is nobody to agree with
            else:
                table = _one_table(capture, side, entity, parts, scope, earlier)
        if table is not None:
            tables[entity.name] = table
    return State(scope.schema, tables)


def _one_table(
    capture: Capture,
    side: str | None,
    entity: EntityType,
    parts: list[tuple[str, Table]],
    scope: _Scope,
    earlier: _Earlier | None,
) -> Table | None:
    """The table of a type on one side; None where no source delivers it there."""
    sources = scope.delivered[entity.name]
    refused = {s: c for (at, s), c in sorted(scope.refused.items()) if at == side and s in sources}
    usable = [(source, table) for source, table in parts if source not in refused]
    blocking = [cause for source, cause in refused.items() if scope.must(source) or not usable]
    if blocking:
        known = parts[0][1] if parts else _empty(entity)
        return known.unobserved(blocking[0])
    if not usable:
        absent = _knows_absence(capture, scope, entity.name)
        return _empty(entity) if absent else None
    chosen = [table for source, table in usable if source == scope.authority.get(entity.name)]
    if chosen:
        return chosen[0]
    return _agree(entity, usable, _earlier_table(entity.name, usable, scope, earlier))


def _earlier_table(
    name: str, usable: list[tuple[str, Table]], scope: _Scope, earlier: _Earlier | None
) -> Table | None:
    """The table of the same sources before the run, if each of them read all of the type."""
    if earlier is None:
        return None
    complete = {
        source
        for source, table in earlier.tables.get(name, ())
        if table.enumeration.is_complete and ("before", source) not in scope.refused
    }
    is_same = complete == {source for source, _ in usable}
    return earlier.state.tables.get(name) if is_same else None


@lru_cache(maxsize=4096)  # a run with many transactions asks for each of them
def _empty(entity: EntityType) -> Table:
    return build_table(entity, (), MemoryChunks())


def _delivered(capture: Capture) -> dict[str, list[tuple[str, Table]]]:
    """The tables of each type with their sources.

    Incomplete where a reading is and its source does not say which type is cut.
    """
    found: dict[str, list[tuple[str, Table]]] = {}
    for part in capture.parts:
        cut = None
        if not part.reading.is_complete and not part.state.gaps():
            cause = part.reading.cause or f"the reading of {part.reading.source} is incomplete"
            cut = Enumeration(Coverage.INCOMPLETE, cause)
        for name, table in part.state.tables.items():
            one = table if cut is None else replace(table, enumeration=cut)
            found.setdefault(name, []).append((part.reading.source, one))
    return found


def _knows_absence(capture: Capture, scope: _Scope, type_name: str) -> bool:
    """True if every source of the type read all it has on this side, and the type was not there.

    That is a table made or dropped in the run.
    """
    readings = {r.source: r for r in capture.readings}
    sources = scope.schema.sources_of(type_name)
    return bool(sources) and all(
        source in readings and readings[source].is_complete for source in sources
    )


def _agree(
    entity: EntityType, parts: list[tuple[str, Table]], earlier: Table | None = None
) -> Table:
    """One table out of several: known is only what all of them know and none denies.

    `earlier` is what the same sources gave together before the run.

    If one of them could be silent and the others believed, taking evidence away could turn an
    open question into a match.
    """
    name, table = parts[0]
    for other_name, other in parts[1:]:
        if (
            table.type.fields == other.type.fields
            and table.chunks == other.chunks
            and table.enumeration == other.enumeration
        ):
            continue
        table = _merge(entity, (name, table), (other_name, other), earlier)
        name = f"{name} and {other_name}"
    return table


def _merge(
    entity: EntityType, a: tuple[str, Table], b: tuple[str, Table], earlier: Table | None
) -> Table:
    for name, table in (a, b):
        if table.enumeration.coverage is Coverage.UNOBSERVED:
            cause = table.enumeration.cause or f"{name} could not read it"
            return _empty(entity).unobserved(cause)
    left, right = _keyed(a[1]), _keyed(b[1])
    rows: list[Row] = []
    causes = [t.enumeration.cause for _, t in (a, b) if not t.enumeration.is_complete]
    are_complete = not causes
    parted: list[str] = []
    for order in sorted(left.keys() | right.keys()):
        if order in left and order in right:
            key, row = left[order]
            rows.append(_cells(entity, (a[0], row), (b[0], right[order][1]), key, earlier))
            continue
        lacking = b[0] if order in left else a[0]
        key = (left.get(order) or right[order])[0]
        what = f"{entity.name} {show_key(key)} is not in {lacking}"
        if are_complete and _agreed(earlier, key):
            parted.append(f"{PARTED}: {what}")
        else:
            causes.append(f"contradiction: {what}")
    causes = parted + causes
    enumeration = Enumeration(Coverage.INCOMPLETE, causes[0]) if causes else a[1].enumeration
    return build_table(entity, rows, MemoryChunks(), enumeration=enumeration)


def _keyed(table: Table) -> dict[Any, tuple[Key, Row]]:
    # By `key_order`: to Python the keys 1, 1.0 and True are one.
    return {key_order(key): (key, row) for key, row in table.rows()}


def _agreed(earlier: Table | None, key: Key, field: str | None = None) -> bool:
    """True if the sources agreed on the field of the entity, or on whether there is the entity."""
    row = None if earlier is None else earlier.row(key)
    if earlier is None or row is None:
        return earlier is not None and earlier.enumeration.is_complete
    cell = None if field is None else row.get(field)
    return isinstance(cell, Digested) or not isinstance(cell, Unobserved)


def _cells(
    entity: EntityType, a: tuple[str, Row], b: tuple[str, Row], key: Key, earlier: Table | None
) -> Row:
    row: Row = {}
    for spec in entity.fields:
        held = [(s, r[spec.name]) for s, r in (a, b) if spec.name in r]
        silent = [cell for _, cell in held if isinstance(cell, Unobserved)]
        if not held:
            row[spec.name] = ABSENT
        elif silent:
            row[spec.name] = silent[0]
        elif all(same(held[0][1], cell) for _, cell in held):
            row[spec.name] = held[0][1]
        else:
            word = PARTED if _agreed(earlier, key, spec.name) else "contradiction"
            said = ", ".join(f"{s} says {show(v, 30)}" for s, v in held)
            row[spec.name] = Unobserved(f"{word}: {said}")
    return row


# --- the states between the two ends -----------------------------------------------------------


def _course(
    before: Capture,
    after: Capture,
    states: tuple[State, ...],
    scope: _Scope,
    paired: Collection[str],
) -> tuple[Timelines, dict[str, State]]:
    """The course, and its states by the name of their side; `states` are the two resolved ends."""
    followed: dict[str, list[str]] = {}
    unfollowed: list[tuple[str, str]] = []
    for entity in scope.schema.types:
        name = entity.name
        sources = scope.delivered[name]
        teller = scope.authority.get(name)
        one, *others = sources if teller not in sources else {teller}
        if name in paired:
            cause = "ambiguous identity: its entities are paired at the two ends only"
            unfollowed.append((name, cause))
        elif not others:
            followed.setdefault(one, []).append(name)
        else:
            who = " and ".join(sorted(sources))
            unfollowed.append((name, f"{who} deliver it, and the order of their commits is open"))
    lines: list[SourceTimeline] = []
    between: dict[str, State] = {}
    for source, types in sorted(followed.items()):
        line, own = _timeline(source, frozenset(types), before, after, states, scope)
        lines.append(line)
        between.update(own)
    return Timelines(tuple(lines), tuple(unfollowed)), between


def _timeline(
    source: str,
    types: frozenset[str],
    before: Capture,
    after: Capture,
    states: tuple[State, ...],
    scope: _Scope,
) -> tuple[SourceTimeline, dict[str, State]]:
    refused = [cause for (_, name), cause in sorted(scope.refused.items()) if name == source]
    history = after.history
    own = [reading for reading in history.readings if reading.source == source]
    if refused or not own:
        return SourceTimeline(source, types, (), refused[0] if refused else NO_FEED), {}
    reading, gap = own[0], history.gap(source)
    if reading.is_agent_influenced:
        return SourceTimeline(source, types, (), gap), {}
    transactions = history.of(source)
    if gap is None and not _agrees(transactions, source, before, after):
        raise AdapterError(
            f"the history of {source} does not end in the state that was captured after the run"
        )
    steps: list[Step] = []
    found: list[State] = []
    earlier = states[0]
    last: tuple[State, State] | None = None
    for transaction in transactions:
        state = _state(transaction, reading, types, scope, last)
        last = transaction.state, state
        touched = frozenset(
            name
            for name in types
            if earlier.tables.get(name) is not state.tables.get(name)
            and _differs(earlier.tables.get(name), state.tables.get(name))
        )
        steps.append(
            Step(
                transaction.id, transaction.position, transaction.committed_at, touched,
                transaction.names,
            )
        )  # fmt: skip
        found.append(state)
        earlier = state
    timeline = SourceTimeline(source, types, tuple(steps), gap)
    sides = {timeline.side(number): state for number, state in enumerate(found, start=1)}
    sides.pop("after", None)
    return timeline, sides


def _agrees(
    transactions: tuple[Transaction, ...], source: str, before: Capture, after: Capture
) -> bool:
    ends = [p.state for c in (before, after) for p in c.parts if p.reading.source == source]
    if len(ends) != 2:
        return False
    last = transactions[-1].state if transactions else ends[0]
    return last.digest() == ends[1].digest()


def _state(
    transaction: Transaction,
    reading: Reading,
    types: frozenset[str],
    scope: _Scope,
    last: tuple[State, State] | None,
) -> State:
    """The types that the source tells of, as the transaction left them.

    A feed that may have missed transactions has seen this one whole. `last` is the state of the
    transaction before and what this made of it: a table that is the same leads to the same.
    """
    known: dict[str, Table] = {}
    if last is not None:
        tables, made = last[0].tables, last[1].tables
        now = transaction.state.tables
        known = {n: table for n, table in made.items() if tables.get(n) is now.get(n)}
    exact = replace(reading, is_complete=True, cause=None)
    capture = Capture((SourceCapture(exact, transaction.state),))
    return _combine(capture, None, scope, types, known)


def _differs(one: Table | None, two: Table | None) -> bool:
    if one is None or two is None:
        return one is not two
    return (
        one.chunks != two.chunks
        or one.enumeration != two.enumeration
        or (one.type.fields != two.type.fields)
    )
