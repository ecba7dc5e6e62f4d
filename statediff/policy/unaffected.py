"""Clauses that a run leaves as they were: nothing that they read has changed.

Their finding is that of a run that changed nothing, which was judged before. What a clause reads is
what it names (its footprint) together with what it was seen to read in that run. Clauses about the
calls, the answer, the makers of changes or the time in between are never left so: they rest on more
than the two states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.patterns import Condition, Pattern
from statediff.contract.language.context import Memory
from statediff.contract.language.syntax import Read
from statediff.model.verdict import Finding, Judgement, Truth
from statediff.model.view import Ledger

_STATES: Final = frozenset({"before", "after", "delta", "input"})
"""The roots of what the two states and the contract decide alone."""


@dataclass(frozen=True)
class Reuse:
    """What a judgement takes over from that of a run over the same state that changed nothing.

    Its reads are noted for no clause, so that clauses may share them.
    """

    findings: Mapping[str, Finding] = field(default_factory=dict)
    """By clause, of the clauses that the run leaves as they were."""
    fields: dict[frozenset[Read], Any] = field(default_factory=dict)
    """What clauses read of each type, as far as it was asked for."""
    memory: Memory = field(default_factory=Memory)


Touched: TypeAlias = Mapping[str, frozenset[str] | None]
"""The types that a run touched, each with the fields that it changed; None where more changed."""


@dataclass(frozen=True)
class _Rest:
    """A finding, and the types that it rests on."""

    finding: Finding
    types: frozenset[str]
    fields: frozenset[tuple[str, str]] | None
    """(type, field) of all that it reads of them; None where it hangs on more than fields."""

    def outlasts(self, touched: Touched) -> bool:
        """Whether a run that touched these types leaves the finding as it is."""
        if self.fields is None:
            return self.types.isdisjoint(touched)
        for name in self.types.intersection(touched):
            changed = touched[name]
            if changed is None or any((name, field) in self.fields for field in changed):
                return False
        return True


@dataclass(frozen=True)
class Unaffected:
    """The findings of a run that changed nothing, each with what it rests on."""

    findings: tuple[_Rest, ...]

    def by(self, touched: Touched) -> dict[str, Finding]:
        """Those that a run which touched these types leaves as they are, by clause."""
        return {
            rest.finding.clause: rest.finding for rest in self.findings if rest.outlasts(touched)
        }


def unaffected(contract: Contract, still: Judgement, ledger: Ledger) -> Unaffected:
    """What the judgement of a run that changed nothing is good for; `ledger` has its reads."""
    found = {finding.clause: finding for finding in still.findings}
    doubted = {doubt.type for doubt in still.doubts}
    conditions = {
        clause.id: _fields(clause.reads)
        for clause in (*contract.forbid, *contract.require, *contract.claims)
        if isinstance(clause, Condition) and all(read.root != "delta" for read in clause.reads)
    }
    kept = []
    for clause, types in _footprints(contract, doubted):
        looked = {look.type for look in ledger.looks.get(clause, ())}
        looked |= {scan.type for scan in ledger.scans.get(clause, ())}
        if clause in found:
            # What holds shows no row, so that other fields of one are no part of the finding.
            holds = found[clause].truth is Truth.HOLDS
            fields = conditions.get(clause) if holds else None
            kept.append(_Rest(found[clause], types | looked, fields))
    return Unaffected(tuple(kept))


def _fields(reads: frozenset[Read]) -> frozenset[tuple[str, str]]:
    return frozenset((read.type, read.field) for read in reads)


def _footprints(contract: Contract, doubted: set[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """(clause, types that it names) of the clauses that rest on the two states alone."""
    patterns = {pattern.id: pattern for pattern in contract.patterns}
    for clause in (*contract.forbid, *contract.require):
        if clause.during_run or not _is_of_states(clause.reads):
            continue
        if isinstance(clause, Condition):
            yield clause.id, _types(clause.reads)
            continue
        others = [patterns[name] for name in clause.distinct]
        if all(other.by is None and _is_of_states(other.reads) for other in (clause, *others)):
            yield clause.id, _named(clause).union(*map(_named, others))
    for rule in contract.effects:
        if rule.actor is None and _is_of_states(rule.reads):
            yield rule.id, _types(rule.reads) | {rule.type, rule.approval or rule.type}
        if rule.is_judged_for_retries and rule.type not in doubted:
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
