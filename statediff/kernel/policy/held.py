"""Clauses that hold as long as what they read is as it was before the run.

What such a clause reads is what it names, its footprint: types, of a condition over the two states
also fields. One that held of a run which left all of that alone holds of each run that does so.
Clauses about the calls, the answer, the makers of changes or the time in between are never among
them: they rest on more than the two states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.patterns import Condition, Pattern
from statediff.contract.language.syntax import Read
from statediff.kernel.policy.findings import BRIEF, UNEXPLAINED
from statediff.model.columns import are_known_equal
from statediff.model.delta import Diff, Op
from statediff.model.state import Coverage, State, Table
from statediff.model.verdict import ClauseTruth, Finding, Truth

_STATES: Final = frozenset({"before", "after", "delta", "input"})
"""The roots of what the two states and the contract decide alone."""

Touched: TypeAlias = Mapping[str, frozenset[str] | None]
"""The types that a run touched, each with the fields that it changed; None where more changed."""


def touched_by(before: State, after: State, found: Diff) -> Touched:
    """The types and fields that a run touched; `found` is the difference of the two states."""
    touched: dict[str, frozenset[str] | None] = {}
    for name in {*before.tables, *after.tables}:
        one, two = before.tables.get(name), after.tables.get(name)
        if one is not None and one is two and one.is_whole:
            continue
        if (
            one is None
            or two is None
            or not one.enumeration.coverage is two.enumeration.coverage is Coverage.COMPLETE
        ):
            touched[name] = None
        elif not are_known_equal(one, two):
            touched[name] = frozenset()
    for delta in (*found.deltas, *(each.delta for each in found.hidden)):
        known = touched.get(delta.type, frozenset())
        is_of_field = delta.op is Op.UPDATE and delta.path and known is not None
        touched[delta.type] = known | {delta.path} if is_of_field and known is not None else None
    return touched | dict.fromkeys((doubt.type for doubt in found.doubts), None)


def sharing(before: State, after: State) -> State:
    """The state after, whose tables are those before where they are known to hold the same."""
    same: dict[str, Table] = {}
    for name, two in after.tables.items():
        one = before.tables.get(name)
        if one is None or one is two or not are_known_equal(one, two):
            continue
        if (one.type, one.enumeration) == (two.type, two.enumeration):
            same[name] = one
    return State(after.schema, {**after.tables, **same}) if same else after


@dataclass(frozen=True)
class _Footprint:
    """The types that a clause rests on, and their fields; None where it hangs on more of them."""

    types: frozenset[str]
    fields: frozenset[tuple[str, str]] | None

    def outlasts(self, touched: Touched) -> bool:
        """True if a run that touched this changed nothing that the clause reads."""
        if self.fields is None:
            return self.types.isdisjoint(touched)
        for name in self.types.intersection(touched):
            changed = touched[name]
            if changed is None or any((name, field) in self.fields for field in changed):
                return False
        return True


class Held:
    """The clauses of a contract that held of runs from one state before; safe to share."""

    def __init__(self, contract: Contract, whole: Iterable[str]) -> None:
        """`whole` are types in which no field changes alone: a rule reads several together."""
        fields = {
            clause.id: frozenset((read.type, read.field) for read in clause.reads)
            for clause in (*contract.forbid, *contract.require, *contract.claims)
            if isinstance(clause, Condition) and all(read.root != "delta" for read in clause.reads)
        }
        apart = frozenset(whole)
        self._footprints = {
            clause: _Footprint(types, None if types & apart else fields.get(clause))
            for clause, types in _footprints(contract)
        }
        self._found: dict[str, Finding] = {}

    def known(self, touched: Touched) -> dict[str, Finding]:
        """The findings, by clause, of clauses that hold in a run that touched this."""
        found = self._found.copy()  # another thread may learn meanwhile
        return {c: each for c, each in found.items() if self._footprints[c].outlasts(touched)}

    def learn(self, touched: Touched, truths: Iterable[ClauseTruth]) -> None:
        """Keeps the clauses that hold in a run that touched this, and do not read it."""
        for entry in truths:
            clause = entry.clause
            if entry.truth is not Truth.HOLDS or clause in self._found:
                continue
            if clause in self._footprints and self._footprints[clause].outlasts(touched):
                self._found[clause] = BRIEF.holds(clause, entry.stage, UNEXPLAINED)


def _footprints(contract: Contract) -> Iterator[tuple[str, frozenset[str]]]:
    """(clause, types that it names) of the clauses that rest on the two states alone."""
    for clause in (*contract.forbid, *contract.require):
        if clause.during_run or not _is_of_states(clause.reads):
            continue
        if isinstance(clause, Condition):
            yield clause.id, _types(clause.reads)
            continue
        if clause.by is None:
            yield clause.id, _named(clause)
    for rule in contract.effects:
        if rule.actor is None and _is_of_states(rule.reads):
            yield rule.id, _types(rule.reads) | {rule.type}
        if rule.is_judged_for_retries:
            yield rule.retry_id, frozenset({rule.type})
    for derived in contract.derived:
        if _is_of_states(derived.reads):
            yield derived.id, _types(derived.reads) | {derived.type}
    for claim in contract.claims:
        if not claim.during_run and _is_of_states(claim.reads):
            yield claim.id, _types(claim.reads)


def _is_of_states(reads: frozenset[Read]) -> bool:
    return all(read.root in _STATES for read in reads)


def _types(reads: frozenset[Read]) -> frozenset[str]:
    return frozenset(read.type for read in reads if read.type)


def _named(pattern: Pattern) -> frozenset[str]:
    return _types(pattern.reads) | frozenset(pattern.types)
