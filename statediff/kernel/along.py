"""The run between its ends, for a trial at hand and for one out of a bundle alike.

What a transaction changed is worked out from the entities it touched alone, as they were before the
run, before it and after it; so a bundle that holds those gives the same changes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.conduct import Order
from statediff.contract.clauses.patterns import Pattern
from statediff.evidence.fragments import ENDS, Rows
from statediff.evidence.pack import Touched, changed
from statediff.kernel.contracts import Compiled
from statediff.kernel.diff import Scope, as_diff, changes_of
from statediff.kernel.policy.admission import Refusal
from statediff.kernel.policy.attribution import attribution, is_marked
from statediff.kernel.policy.history import Commit, CommitOrder, IntermediateStates, commit_order
from statediff.kernel.policy.judge import Evidence, Rest, judge, label
from statediff.kernel.policy.so_far import contract_so_far, stand
from statediff.model.batches import Row
from statediff.model.delta import Delta, Diff, Doubt, HiddenDelta
from statediff.model.explanation import unread_because
from statediff.model.schema import EntityType, Schema
from statediff.model.state import Enumeration, MemoryChunks, RowChange, State, Table
from statediff.model.timelines import SourceTimeline, Timelines
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import ABSENT, Key, key_order
from statediff.model.verdict import Moment, own_name
from statediff.model.view import View

TO_COME: Final = NoAnswer(unread_because("the run is not over"))
"""The answer of a run that goes on."""


def asked(contract: Contract, timelines: Timelines, trace: Trace) -> frozenset[str]:
    """The types of which some clause asks what single transactions changed.

    All of them where the log says which transactions calls made: then every delta has a maker.
    """
    contract = contract.at_end or contract
    if is_marked(trace):
        return frozenset().union(*(line.types for line in timelines.lines))
    clauses = [*contract.forbid, *contract.require]
    clauses += (c for branch in contract.branches for c in (*branch.forbid, *branch.require))
    found = {n for c in clauses if isinstance(c, Pattern) and c.during_run for n in c.types}
    for step in contract.steps:
        if isinstance(step, Order):
            found |= {step.first.type, step.then.type}
    required = {rule.source for rule in contract.evidence if rule.needs_history}
    return frozenset(found).union(*(x.types for x in timelines.lines if x.source in required))


@dataclass(frozen=True)
class Whole:
    """The states of a trial by the name of their side, as rows to look up."""

    states: Mapping[str, State]

    def enumeration(self, side: str, type_name: str) -> Enumeration | None:
        table = self.states[side].tables.get(type_name)
        return None if table is None else table.enumeration

    def row(self, side: str, type_name: str, key: Key) -> Row | None:
        table = self.states[side].tables.get(type_name)
        if table is None:
            return None
        return table.row(key) if side in ENDS else table.lone_row(key)


def touched(
    compiled: Compiled, timelines: Timelines, states: Mapping[str, State], trace: Trace
) -> Touched:
    """The entities that each transaction touched, found by comparing whole tables by their chunks.

    Of the types that some clause asks about; of the others, none.
    """
    wanted = asked(compiled.contract, timelines, trace)
    scope, part = compiled.scope, _parts_of(compiled.contract.schema)
    found: dict[tuple[str, int], tuple[tuple[str, Key], ...]] = {}
    for line in timelines.lines:
        for number, step in enumerate(line.steps, start=1):
            types = step.touched & wanted
            if types:
                schema = part(types)
                one, two = (_tables(line, at, schema, states) for at in (number - 1, number))
                found[line.source, number] = changed(scope.diff(one, two))
    return {place: entities for place, entities in found.items() if entities}


def moments_of(
    compiled: Compiled,
    timelines: Timelines,
    views: Mapping[str, View],
    rows: Rows,
    places: Touched,
    trace: Trace,
) -> IntermediateStates:
    """The moments of the run, with what each transaction changed of the entities it touched."""
    wanted = asked(compiled.contract, timelines, trace)
    scope, part = compiled.scope, _parts_of(compiled.contract.schema)
    commits: dict[str, tuple[Commit, ...]] = {}
    for line in timelines.lines:
        ids = (f"during/{line.source}",)
        compare = _Entities(rows, scope.over(dict.fromkeys(wanted, (ids, ids))))
        steps = []
        for number, step in enumerate(line.steps, start=1):
            types = step.touched & wanted
            if not types:
                steps.append(Commit(Diff(()), Diff(())))
                continue
            schema, known = part(types), places.get((line.source, number), ())
            start, old, new = (_sides(line, at, schema) for at in (0, number - 1, number))
            own = compare.between(schema, old, new, known)
            # What was written for the first time had been as it was before the run.
            so_far = own if start == old else compare.between(schema, start, new, known)
            compare.forget()
            name = f"{line.source} {number}"
            steps.append(
                Commit(
                    _by(label(compiled.contract, own), name),
                    _by(label(compiled.contract, so_far), f"{line.source} up to {number}"),
                )
            )
        commits[line.source] = tuple(steps)
    return IntermediateStates(timelines, views, commits)


class _Entities:
    """Entities compared between two sides, as whole states would be; a row is looked up once."""

    def __init__(self, rows: Rows, scope: Scope) -> None:
        self._rows, self._scope = rows, scope
        self._store = MemoryChunks()
        self._seen: dict[tuple[str, str, Key], Row | None] = {}
        self._seen_before: dict[tuple[str, str, Key], Row | None] = {}

    def forget(self) -> None:
        """Forget what was looked up before the last call."""
        self._seen, self._seen_before = {}, self._seen

    def between(
        self,
        schema: Schema,
        one: Mapping[str, str],
        two: Mapping[str, str],
        known: Iterable[tuple[str, Key]],
    ) -> Diff:
        """The changes of the known entities; `one` and `two` have the side of each type."""
        changes: dict[str, list[RowChange]] = {}
        for name, key in known:
            if name in schema.by_name:
                entity = schema.by_name[name]
                pair = (self._row(sides[name], entity, key) for sides in (one, two))
                change = RowChange(key, *pair)
                if change[1:] != (None, None):
                    changes.setdefault(name, []).append(change)
        for rows in changes.values():
            rows.sort(key=lambda change: key_order(change.key))
        before, after = (self._empty(schema, sides) for sides in (one, two))
        return as_diff(
            found
            for name in sorted(schema.by_name)
            for found in changes_of(name, before, after, self._scope, changes.get(name, ()))
        )

    def _row(self, side: str, entity: EntityType, key: Key) -> Row | None:
        """With each field of the type, in its order."""
        place = side, entity.name, key
        if place not in self._seen:
            if place in self._seen_before:
                self._seen[place] = self._seen_before[place]
            else:
                row = self._rows.row(*place)
                fields = () if row is None else entity.by_name
                whole = {name: (row or {}).get(name, ABSENT) for name in fields}
                self._seen[place] = None if row is None else whole
        return self._seen[place]

    def _empty(self, schema: Schema, sides: Mapping[str, str]) -> State:
        """How completely each type was read on its side, without rows."""
        tables: dict[str, Table] = {}
        for entity in schema.types:
            enumeration = self._rows.enumeration(sides[entity.name], entity.name)
            if enumeration is not None:
                tables[entity.name] = Table(entity, (), (), self._store, enumeration)
        return State(schema, tables)


# ---------------------------------------------------------------- how the run stood


def stands(
    contract: Contract,
    moments: IntermediateStates,
    refusals: tuple[Refusal, ...],
    trace: Trace,
) -> Iterator[Moment]:
    """How the run stood after each transaction, in their order; nothing where that is not known.

    Where nobody knows the order of two sources' transactions, each source is followed by itself:
    that tells when the run was lost, and never that it was right. What the clauses about calls and
    answers say is not part of it.
    """
    lines, changed = moments.course.lines, asked(contract, moments.course, trace)
    touched = frozenset[str]().union(*(step.touched for line in lines for step in line.steps))
    followed = frozenset[str]().union(*(line.types for line in lines if line.gap is None))
    if not (touched <= changed and contract.schema.by_name.keys() <= followed):
        return
    open_ = contract_so_far(replace(contract, steps=(), turns=(), actions=(), access=None))
    order = commit_order(trace, attribution(trace, moments.course, {}).claims)
    made = _in_order(lines, order)
    if made is not None:
        yield from _followed(open_, moments, made, refusals, trace)
        return
    for line in lines:
        alone = replace(moments, course=replace(moments.course, lines=_apart(lines, line)))
        for moment in _followed(open_, alone, [line] * len(line.steps), refusals, trace):
            yield replace(moment, is_right=False, broken=())


def _in_order(lines: Sequence[SourceTimeline], order: CommitOrder) -> list[SourceTimeline] | None:
    """The line of each transaction, in the order in which they came; None where nobody knows."""
    numbers = {line.source: 1 for line in lines}
    found: list[SourceTimeline] = []
    while ahead := [line for line in lines if numbers[line.source] <= len(line.steps)]:
        places = {line.source: (line.source, numbers[line.source]) for line in ahead}
        first = next((line for line in ahead if _is_first(line, places, order)), None)
        if first is None:
            return None
        found.append(first)
        numbers[first.source] += 1
    return found


def _is_first(
    line: SourceTimeline, places: Mapping[str, tuple[str, int]], order: CommitOrder
) -> bool:
    """True where the line's next transaction is known to precede those of all others."""
    own = places[line.source]
    return all(order.precedes(own, other) for other in places.values() if other != own)


_ORDER: Final = "the order of the sources' transactions is not known"


def _apart(lines: Iterable[SourceTimeline], one: SourceTimeline) -> tuple[SourceTimeline, ...]:
    """The lines, where nothing is known of others than one but that they moved."""
    return tuple(
        line if line is one or not line.steps else replace(line, steps=(), gap=_ORDER)
        for line in lines
    )


def _followed(
    contract: Contract,
    moments: IntermediateStates,
    made: Iterable[SourceTimeline],
    refusals: tuple[Refusal, ...],
    trace: Trace,
) -> Iterator[Moment]:
    """How the run stood after each of these transactions; `contract` is one of a run so far."""
    numbers = {line.source: 0 for line in moments.course.lines if line.gap is None}
    for line in made:
        number = numbers[line.source] = numbers[line.source] + 1
        found = stand(contract, judge(contract, _as_it_was(moments, numbers, refusals, trace)))
        yield Moment(
            source=line.source,
            number=number,
            position=line.steps[number - 1].position,
            is_right=found.is_right,
            broken=found.broken,
            lost=tuple(map(own_name, found.deciding)) if found.is_lost else (),
        )


def _as_it_was(
    moments: IntermediateStates,
    numbers: Mapping[str, int],
    refusals: tuple[Refusal, ...],
    trace: Trace,
) -> Evidence:
    """The evidence as it was after these transactions: the changes by then, and their history."""
    lines = tuple(
        replace(line, steps=line.steps[: numbers.get(line.source, 0)])
        for line in moments.course.lines
    )
    now = moments.where(numbers)
    commits = {line.source: moments.commits[line.source][: len(line.steps)] for line in lines}
    there = replace(
        moments,
        course=replace(moments.course, lines=lines),
        views={**moments.views, "after": now},
        commits=commits,
    )
    rest = Rest(refusals, TO_COME, trace)
    return Evidence(moments=there, diff=_standing(commits.values()), rest=rest, explains=False)


def _standing(commits: Iterable[Sequence[Commit]]) -> Diff:
    """The net change that these transactions left: of each entity, what the last one left."""
    last: dict[object, Diff] = {}
    made = [commit for each in commits for commit in each]
    for commit in made:
        for diff in (commit.own, commit.so_far):
            places: Iterable[Delta | Doubt]
            places = (*diff.deltas, *(h.delta for h in diff.hidden), *diff.doubts)
            last.update((_entity(place), commit.so_far) for place in places)
    deltas: list[Delta] = []
    hidden: list[HiddenDelta] = []
    doubts: list[Doubt] = []
    for diff in (commit.so_far for commit in made):
        deltas += [_net(d) for d in diff.deltas if last[_entity(d)] is diff]
        hidden += [
            replace(h, delta=_net(h.delta)) for h in diff.hidden if last[_entity(h.delta)] is diff
        ]
        doubts += [d for d in diff.doubts if last[_entity(d)] is diff]
    deltas.sort(key=lambda d: (d.type, key_order(d.key), d.place))
    return Diff(tuple(deltas), tuple(hidden), tuple(doubts))


def _net(delta: Delta) -> Delta:
    return replace(delta, transaction=None)


def _entity(place: Delta | Doubt) -> object:
    return place.type, None if place.key is None else key_order(place.key)


def _parts_of(schema: Schema) -> Callable[[frozenset[str]], Schema]:
    """The schema of some of the types alone, each made once."""

    @cache
    def part(names: frozenset[str]) -> Schema:
        return replace(schema, types=tuple(t for t in schema.types if t.name in names))

    return part


def _by(found: Diff, transaction: str) -> Diff:
    def named(delta: Delta) -> Delta:
        return replace(delta, transaction=transaction)

    return replace(
        found,
        deltas=tuple(named(d) for d in found.deltas),
        hidden=tuple(replace(h, delta=named(h.delta)) for h in found.hidden),
    )


def _sides(timeline: SourceTimeline, number: int, schema: Schema) -> dict[str, str]:
    return {t.name: timeline.side_of(t.name, number) for t in schema.types}


def _tables(
    timeline: SourceTimeline, number: int, schema: Schema, states: Mapping[str, State]
) -> State:
    """These types as the step left them."""
    tables = {
        t.name: states[timeline.side_of(t.name, number)].tables.get(t.name) for t in schema.types
    }
    return State(schema, {name: table for name, table in tables.items() if table is not None})
