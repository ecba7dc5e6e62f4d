"""The run between its ends, for a trial at hand and for one out of a bundle alike.

What a transaction changed is worked out from the entities it touched alone, as they were before the
run, before it and after it; so a bundle that holds those gives the same changes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.conduct import AfterCalls, Always, Order
from statediff.contract.clauses.patterns import Pattern
from statediff.diff import Scope, as_diff, changes_of, diff
from statediff.evaluate.contracts import Compiled
from statediff.evidence.fragments import ENDS, Rows
from statediff.evidence.pack import Touched, changed
from statediff.model.batches import Row
from statediff.model.delta import Delta, Diff
from statediff.model.schema import EntityType, Schema
from statediff.model.state import Enumeration, MemoryChunks, RowChange, State, Table
from statediff.model.timelines import SourceTimeline, Timelines
from statediff.model.trace import Trace
from statediff.model.values import ABSENT, Key, key_order
from statediff.model.view import View
from statediff.policy.attribution.changes import is_marked
from statediff.policy.history.intermediate_states import Commit, IntermediateStates
from statediff.policy.judge import label
from statediff.policy.run import states_read


def compared(
    compiled: Compiled,
    before: State,
    after: State,
    readings_of: Iterable[tuple[str, Iterable[str], Iterable[str]]],
) -> Diff:
    """The deltas, hidden deltas and doubts between two states under the contract's ν and Ω."""
    return diff(
        before,
        after,
        compiled.book,
        compiled.boundary,
        rule_names=compiled.book.rules_on,
        evidence={name: (tuple(b), tuple(a)) for name, b, a in readings_of},
    )


def asked(contract: Contract, timelines: Timelines, trace: Trace) -> frozenset[str]:
    """The types of which some clause asks what single transactions changed.

    All of them where the log says which transactions calls made: then every delta has a maker.
    """
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


def followed(contract: Contract) -> frozenset[str]:
    """The sources of which some clause asks what was between the ends, or who changed it."""
    clauses = [*contract.forbid, *contract.require, *contract.allow]
    for branch in contract.branches:
        clauses += (*branch.forbid, *branch.require, *branch.allow)
    types: set[str] = set()
    for clause in clauses:
        if isinstance(clause, Pattern):
            types |= set(clause.types if clause.during_run or clause.by is not None else ())
        elif clause.during_run:
            types |= {read.type for read in clause.reads if read.root == "after"}
    for step in contract.steps:
        if isinstance(step, (Order, Always, AfterCalls)):
            types |= states_read(step)
    schema = contract.schema
    required = {rule.source for rule in contract.evidence if rule.needs_history}
    return frozenset(required).union(*(schema.sources_of(name) for name in types))


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
    scope, schemas = _scope(compiled), _Schemas(compiled.contract.schema)
    found: dict[tuple[str, int], tuple[tuple[str, Key], ...]] = {}
    for line in timelines.lines:
        for number, step in enumerate(line.steps, start=1):
            types = step.touched & wanted
            if types:
                schema = schemas.of(types)
                one, two = (_tables(line, at, schema, states) for at in (number - 1, number))
                names = sorted(schema.by_name)
                changes = as_diff(c for name in names for c in changes_of(name, one, two, scope))
                found[line.source, number] = changed(changes)
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
    scope, schemas = _scope(compiled), _Schemas(compiled.contract.schema)
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
            schema, known = schemas.of(types), places.get((line.source, number), ())
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
        """What was looked up before the last call is looked up again where it is asked for."""
        self._seen, self._seen_before = {}, self._seen

    def between(
        self,
        schema: Schema,
        one: Mapping[str, str],
        two: Mapping[str, str],
        known: Iterable[tuple[str, Key]],
    ) -> Diff:
        """What changed of the known entities; `one` and `two` have the side of each type."""
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


class _Schemas:
    """Parts of a schema, each made once."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._made: dict[frozenset[str], Schema] = {}

    def of(self, names: frozenset[str]) -> Schema:
        """These types alone."""
        if names not in self._made:
            types = tuple(t for t in self._schema.types if t.name in names)
            self._made[names] = replace(self._schema, types=types)
        return self._made[names]


def _scope(compiled: Compiled) -> Scope:
    return Scope(compiled.book, compiled.boundary, compiled.book.rules_on, {})


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
