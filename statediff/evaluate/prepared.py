"""A contract over a state before, worked out once: what is left to each judgement is the change.

Worked out beforehand is all that the contract and the state before decide alone: the bound clauses,
the resolution of that state, the null run, and the judgement of a run that changed nothing, from
which clauses that read nothing of what changed take their finding. What remains is done by the
stages that `evaluate` goes through, over the types that the run touched.

A state after that is not of the same make as the state before (another schema, a reading that may
not be used, a history of the run) is judged by `judgement_of`, as every judgement could be.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from statediff.capture.bounds import BOUNDS, bound_states
from statediff.contract.evaluation.prose import read_answer
from statediff.contract.language.context import Memory
from statediff.diff import Found, Scope, as_diff, changes_of
from statediff.errors import AdapterError, ContractError
from statediff.evaluate.contracts import Compiled, ContractFile, Scoped, compile_contract, schema_of
from statediff.evaluate.trial import (
    NO_ANSWER,
    NO_FACTS,
    NO_TRACE,
    Rest,
    TrialFacts,
    judged,
    judgement_of,
    require_action,
)
from statediff.model.batches import Row
from statediff.model.cells import Layouts
from statediff.model.columns import table_changes
from statediff.model.delta import Doubt
from statediff.model.readings import NO_HISTORY, Capture, Timeline
from statediff.model.schema import Schema
from statediff.model.state import Coverage, RowChange, State, Table
from statediff.model.timelines import Matching, Resolution
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Value, key_order, same
from statediff.model.verdict import Judgement
from statediff.model.view import ChangedView, LastingView, Ledger, RecordingView, StateView, View
from statediff.policy.admission import admit
from statediff.policy.combine import combine
from statediff.policy.history.intermediate_states import IntermediateStates
from statediff.policy.judge import Evidence, judge
from statediff.policy.unaffected import Reuse, Touched, Unaffected, unaffected
from statediff.resolve import resolve

_KEPT: Final = 64
"""How many of a kind are kept: sets of touched types, schemas, ids of readings."""
_Evidence: TypeAlias = Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A contract over a state before, ready to judge any number of states after it.

    Safe to share between threads.
    """

    file: ContractFile
    before: Capture
    facts: TrialFacts = NO_FACTS
    _base: _Base | None = None
    null_run: ContractError | None = None
    """Why no run at all can be judged: one in which nothing happens would match unasked."""

    def judgement(
        self,
        after: Capture,
        *,
        trace: Trace = NO_TRACE,
        answer: Value | NoAnswer = NO_ANSWER,
        timeline: Timeline | None = None,
    ) -> Judgement:
        """The judgement that `evaluate` makes of the same. Raises as that does."""
        base = self._base
        if base is not None and base.fits(after, timeline, self.facts):
            found = base.judgement(after, trace, answer)
            if found is not None:
                return found
        return judgement_of(
            self.file,
            self.before,
            after,
            trace=trace,
            answer=answer,
            timeline=timeline,
            facts=self.facts,
        )


def prepare(file: ContractFile, before: Capture, *, facts: TrialFacts = NO_FACTS) -> Prepared:
    """The contract over the state before.

    Raises nothing: what does not fit the state before may fit it together with a state after it, so
    that a contract's errors come with each judgement.
    """
    base, null_run = None, None
    try:
        base = _base(file, replace(before, history=NO_HISTORY))
    except AdapterError:
        pass
    except ContractError as error:
        null_run = error if error.problems[0].code == "null-run" else None
    return Prepared(file=file, before=before, facts=facts, _base=base, null_run=null_run)


def _base(file: ContractFile, before: Capture) -> _Base | None:
    """What the state before decides alone; None where that is not worth keeping."""
    compiled = compile_contract(file, schema_of(before))
    contract = compiled.contract
    delivering: dict[str, set[str]] = {}
    for part in before.parts:
        for name in part.state.schema.by_name:
            delivering.setdefault(name, set()).add(part.reading.source)
            delivering[name].update(part.state.schema.sources_of(name))
    if any(len(sources) > 1 for sources in delivering.values()):
        return None
    if not all(
        part.reading.is_complete and part.state.tables.keys() <= part.state.schema.by_name.keys()
        for part in before.parts
    ):
        return None
    resolution = resolve(
        before,
        before,
        compiled.identities,
        {name: r.source for r in contract.evidence for name in r.authority},
        {},
        [r.source for r in contract.evidence] or None,
    )
    require_action(file, compiled, resolution, ())
    scoped = Scoped(compiled.book, compiled.boundary, contract.schema)
    scope = Scope(compiled.book, compiled.boundary, compiled.book.rules_on, {})
    stills = tuple(_still(compiled, m, resolution, scoped, scope) for m in resolution.matchings)
    return _Base(
        compiled=compiled,
        before=before,
        resolution=resolution,
        stills=stills,
        scoped=scoped,
        scope=scope,
        paired=frozenset(rule.type for rule in compiled.identities),
        zipped=frozenset(use.type for use in compiled.book.uses if len(use.fields) > 1),
    )


@dataclass(frozen=True)
class _Still:
    """One matching of the state before with itself, and what was found of it."""

    matching: Matching
    view: LastingView
    doubts: tuple[tuple[str, tuple[Doubt, ...]], ...]
    """What is found of types that a run does not touch."""
    restless: frozenset[str]
    """Types of which more is found, so that every run is taken to touch them."""
    unaffected: Unaffected
    memory: Memory
    known: dict[frozenset[Any], Mapping[str, Any]] = field(default_factory=dict)
    """Findings by what a run touched."""

    def reuse(
        self,
        touched: Touched,
        rows: Mapping[str, list[RowChange]],
        fields: dict[Any, Any],
    ) -> Reuse:
        """What is known of a run that touched these types."""
        place = frozenset(touched.items())
        known = self.known.get(place)
        if known is None:
            known = self.unaffected.by(touched)
            if len(self.known) < _KEPT:
                self.known[place] = known
        keys = {name: tuple([row.key for row in found]) for name, found in rows.items()}
        memory = Memory(frozenset(touched), self.memory.kept, self.memory.grounds, keys)
        return Reuse(known, fields, memory)


def _still(
    compiled: Compiled, matching: Matching, resolution: Resolution, scoped: Scoped, scope: Scope
) -> _Still:
    before, after = matching.before, matching.after
    found = {
        name: tuple(changes_of(name, before, after, scope))
        for name in {*before.tables, *after.tables, *before.schema.by_name}
    }
    doubts = {
        name: tuple(each for each in changes if isinstance(each, Doubt))
        for name, changes in found.items()
    }
    view = LastingView(before, scoped)
    ledger = Ledger()
    views: dict[str, View] = {
        "before": RecordingView(view, "before", ledger),
        "after": RecordingView(StateView(after, scoped), "after", ledger),
    }
    moments = _moments(resolution, views)
    rest = Rest((), read_answer(compiled.contract.document.answer, NO_ANSWER))
    whole = as_diff(each for changes in found.values() for each in changes)
    judgement = judged(compiled, moments, whole, rest, ledger)
    memory = Memory()
    evidence = Evidence(  # once more, so that what ranges over the state is remembered
        before=view,
        after=StateView(after, scoped),
        diff=whole,
        answer=rest.answer,
        moments=moments,
        reuse=Reuse(memory=memory),
    )
    judge(compiled.contract, evidence)
    return _Still(
        matching,
        view,
        tuple((name, doubts) for name, doubts in doubts.items() if doubts),
        frozenset(name for name, changes in found.items() if len(changes) > len(doubts[name])),
        unaffected(compiled.contract, judgement, ledger),
        memory,
    )


def _moments(resolution: Resolution, views: Mapping[str, View]) -> IntermediateStates:
    """The moments of a run of which no history is known: its two ends."""
    course = resolution.course
    return IntermediateStates(course, views, {line.source: () for line in course.lines})


@dataclass(frozen=True, kw_only=True)
class _Base:
    """What the contract and the state before decide alone, where nothing is refused."""

    compiled: Compiled
    before: Capture
    resolution: Resolution
    stills: tuple[_Still, ...]
    scoped: Scoped
    scope: Scope
    paired: frozenset[str]
    """The types whose entities are paired by a declared rule."""
    zipped: frozenset[str]
    """The types of which a rule is on several fields together."""
    fields: dict[Any, Any] = field(default_factory=dict)
    schemas: dict[int, Schema] = field(default_factory=dict)
    """Schemas that are equal to one of the state before."""
    evidence: dict[tuple[str, ...], _Evidence] = field(default_factory=dict)
    admitted: dict[Any, bool] = field(default_factory=dict)
    """Whether readings may be used, by what decides that."""
    layouts: Layouts = field(default_factory=Layouts)

    # --- whether this applies ---

    def fits(self, after: Capture, timeline: Timeline | None, facts: TrialFacts) -> bool:
        """Whether the capture is of the same make, and every reading may be used."""
        if len(after.parts) != len(self.before.parts) or after.history != NO_HISTORY:
            return False
        for one, two in zip(self.before.parts, after.parts, strict=True):
            if one.reading.source != two.reading.source or not two.reading.is_complete:
                return False
            if not self._is_alike(one.state, two.state):
                return False
        rules = self.compiled.contract.evidence
        if timeline is not None:
            return not admit(self.before.readings, after.readings, timeline, rules, facts.sources)
        # Without a timeline it is the same of all readings that are alike in this.
        place = (
            facts.sources,
            *(
                (r.source, r.was_read, r.is_agent_influenced, r.acknowledgement)
                for r in after.readings
            ),
        )
        known = self.admitted.get(place)
        if known is None:
            known = not admit(self.before.readings, after.readings, None, rules, facts.sources)
            if len(self.admitted) < _KEPT:
                self.admitted[place] = known
        return known

    def _is_alike(self, one: State, two: State) -> bool:
        """Whether the two states have equal schemas, and tables of the same types."""
        schema = two.schema
        if schema is not one.schema and self.schemas.get(id(schema)) is not schema:
            if schema != one.schema:
                return False
            if len(self.schemas) < _KEPT:
                self.schemas[id(schema)] = schema  # held, so that no other one gets its id
        return one.tables.keys() == two.tables.keys()

    # --- the judgement ---

    def judgement(self, after: Capture, trace: Trace, answer: Value | NoAnswer) -> Judgement | None:
        """The judgement of a capture that fits; None where the run needs more than this has."""
        changed: dict[str, Table] = {}
        for one, two in zip(self.before.parts, after.parts, strict=True):
            types = one.state.schema.by_name, two.state.schema.by_name
            for name, table in two.state.tables.items():
                known = one.state.tables[name]
                if table is known:
                    continue
                # The schemas are equal, so that types are which are theirs.
                is_theirs = known.type is types[0].get(name) and table.type is types[1].get(name)
                if not is_theirs and table.type != known.type:
                    return None
                if not _is_still(known, table):
                    changed[name] = table
            if bound_states(one.state, two.state, BOUNDS)[1] is not two.state:
                return None
        resolution = self._resolution(after, changed)
        if resolution is None:
            return None
        answered = read_answer(self.compiled.contract.document.answer, answer)
        rest = Rest((), answered, trace)
        stills = self.stills
        if len(resolution.matchings) != len(stills):
            stills = self.stills[:1] * len(resolution.matchings)
        readings = self._readings(after)
        judgements = [
            self._judged(still, matching, changed.keys(), rest, readings)
            for still, matching in zip(stills, resolution.matchings, strict=True)
        ]
        return combine(
            self.compiled.contract,
            judgements,
            resolution.ambiguous,
            resolution.differ_only_in_opaque_ids,
        )

    def _resolution(self, after: Capture, changed: Mapping[str, Table]) -> Resolution | None:
        """The resolution of both; None where nothing is known of a type that was paired."""
        if not self.paired.isdisjoint(changed):
            return self._paired(after)
        known = self.resolution
        return Resolution(
            tuple(
                Matching(m.before, State(m.after.schema, {**m.after.tables, **changed}), m.pairs)
                for m in known.matchings
            ),
            known.ambiguous,
            differ_only_in_opaque_ids=known.differ_only_in_opaque_ids,
            course=known.course,
        )

    def _fields_of(self, name: str, rows: Mapping[str, list[RowChange]]) -> frozenset[str] | None:
        """The fields that changed in the rows of a type; None where a row came, went or may have.

        None also where a rule reads several fields together: no field of it changes alone.
        """
        changes = rows.get(name)
        if changes is None or len(changes) > _KEPT or name in self.zipped:
            return None
        found: set[str] = set()
        for change in changes:
            if change.before is None or change.after is None:
                return None
            one, two = change.before, change.after
            found.update(each for each in one if not same(one[each], two[each]))
        return frozenset(found)

    def _paired(self, after: Capture) -> Resolution | None:
        contract = self.compiled.contract
        found = resolve(
            self.before,
            after,
            self.compiled.identities,
            {name: r.source for r in contract.evidence for name in r.authority},
            {},
            [r.source for r in contract.evidence] or None,
        )
        first = self.stills[0].matching.before.tables
        for matching in found.matchings:
            if any(first.get(name) is not table for name, table in matching.before.tables.items()):
                return None
        return found

    def _readings(self, after: Capture) -> _Evidence:
        """The ids of the readings behind each type."""
        ids = tuple(part.reading.id for part in after.parts)
        known = self.evidence.get(ids)
        if known is None:
            known = {
                name: (
                    before,
                    tuple(
                        part.reading.id for part in after.parts if name in part.state.schema.by_name
                    ),
                )
                for name, before, _ in self.resolution.readings_of
            }
            if len(self.evidence) < _KEPT:
                self.evidence[ids] = known
        return known

    def _judged(
        self,
        still: _Still,
        matching: Matching,
        changed: Collection[str],
        rest: Rest,
        readings: _Evidence,
    ) -> Judgement:
        before, after = matching.before.tables, matching.after.tables
        touched = still.restless.union(changed)
        for name in self.paired - touched:
            if not _is_still(still.matching.after.tables[name], after[name]):
                touched |= {name}
        rows: dict[str, list[RowChange]] = {}
        left: dict[str, dict[tuple[Any, ...], Row | None]] = {}
        for name in touched:
            one, two = before.get(name), after.get(name)
            if one is not None and two is not None and _are_comparable(one, two):
                found = rows[name] = list(table_changes(one, two, layouts=self.layouts))
                left[name] = {key_order(change.key): change.after for change in found}
        scope = self.scope.over(readings)
        changes: list[Found] = [
            doubt for name, doubts in still.doubts if name not in touched for doubt in doubts
        ]
        for name in touched:
            changes += changes_of(name, matching.before, matching.after, scope, rows.get(name))
        view = ChangedView(matching.after, self.scoped, still.view, left, touched.difference(left))
        moments = _moments(self.resolution, {"before": still.view, "after": view})
        evidence = Evidence(
            before=still.view,
            after=view,
            diff=as_diff(changes),
            answer=rest.answer,
            trace=rest.trace,
            moments=moments,
            reuse=still.reuse(
                {name: self._fields_of(name, rows) for name in touched}, rows, self.fields
            ),
        )
        return judge(self.compiled.contract, evidence)


def _is_still(before: Table, after: Table) -> bool:
    """Whether two tables of one type hold the same."""
    if before is after:
        return True
    if after.origin is not None and after.origin.leads(before, after):
        return False
    return (
        before.chunks is after.chunks or before.chunks == after.chunks
    ) and before.enumeration == after.enumeration


def _are_comparable(before: Table, after: Table) -> bool:
    """Whether what differs between the tables is found row by row."""
    ends = before.enumeration.coverage, after.enumeration.coverage
    # Where less was seen than before, what was found of the same rows before may not hold.
    is_alike = before.enumeration == after.enumeration
    return is_alike and Coverage.UNOBSERVED not in ends and before.type.key == after.type.key
