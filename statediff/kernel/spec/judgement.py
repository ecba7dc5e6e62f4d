"""The whole judgement: every clause of a contract over one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.conduct import Permission
from statediff.contract.clauses.patterns import Pattern
from statediff.kernel.spec.access import decide_access
from statediff.kernel.spec.changes import UNKNOWN, Decided, Vote, all_of, fails, is_parted
from statediff.kernel.spec.run import Run, unless
from statediff.kernel.spec.values import TRUE
from statediff.model.codes import Truth
from statediff.model.delta import Delta, delta_id

Found: TypeAlias = dict[str, list[Decided]]
"""The findings of each clause, by its id."""


def judge(run: Run) -> Found:
    """Every clause of the contract, with what was found of it; `any_of` stands for its branches."""
    contract, case = run.contract, run.case
    found: Found = {clause.id: [run.decide(clause)] for clause in contract.forbid}
    for rule in contract.effects:
        asked = case.effect(rule)
        found |= {} if asked is None else {rule.id: [asked]}
        found |= {rule.retry_id: [run.retries(rule)]} if rule.is_judged_for_retries else {}
    more: list[Vote] = []
    for kept in contract.derived:
        decided, votes = case.derived(kept)
        found[kept.id], more = [decided], [*more, *votes]
    more += case.counter_votes(_created_beside(run))
    branches = [p for branch in contract.branches for p in branch.explaining]
    framed = [*_frame(run, [*contract.explaining, *branches], more), *[UNKNOWN] * run.missing]
    found |= {"frame": framed} if framed else {}
    found |= {clause.id: [run.decide(clause)] for clause in contract.require}
    for assertion in contract.steps:
        found[assertion.id] = [run.own_word(run.step(assertion), assertion)]
    found |= {gate.id: [run.turn(gate)] for gate in contract.turns}
    for act in contract.actions:
        if isinstance(act, Permission):
            decided = run.permission(act)
            found[act.id] = [decided if act.recorded_only else run.own_word(decided, act)]
        else:
            found[act.id] = [run.own_word(run.attempts(act), act)]
    found |= {"answer": [case.answered(contract.asked)]} if contract.asked else {}
    found |= {claim.id: [run.decide(claim)] for claim in contract.claims}
    if contract.access is not None:
        for name, own in decide_access(contract.access, run, _is_right(contract, found)):
            found.setdefault(name, []).append(own)
    if contract.alternatives is not None:
        truths = []
        for branch in contract.branches:  # judged whole, the contract's patterns explain, too
            whole = [run.decide(clause) for clause in (*branch.forbid, *branch.require)]
            if not contract.frame_is_open:
                whole += _frame(run, [*contract.explaining, *branch.explaining], more)
            truths.append(all_of(whole))
        found[contract.alternatives.id] = [_either(truths, contract.alternatives.is_disputed)]
    if contract.frame_is_open and _waits_for_parted(run, found):
        parted = [fails("READINGS_PARTED") for d in case.doubts if is_parted(d)]
        found["frame"] = [*found.get("frame", []), *parted]
    return found


def _waits_for_parted(run: Run, found: Found) -> bool:
    """A clause is UNKNOWN that reads a type of which readings parted in the run.

    Access and alternatives are about all types.
    """
    contract, types = run.contract, {d.type for d in run.case.doubts if is_parted(d)}
    clauses = (*contract.forbid, *contract.require, *contract.claims, *contract.assertions)
    reading = {x.id for x in clauses if types & {read.type for read in x.reads}}
    rules: tuple[Any, ...] = (*contract.effects, *contract.derived)
    reading |= {x.id for x in rules if types & {x.type, *(read.type for read in x.reads)}}
    reading |= {rule.retry_id for rule in contract.effects if rule.type in types}
    access = () if contract.access is None else (contract.access, *contract.access.clauses)
    others: tuple[Any, ...] = (contract.alternatives, *access)
    reading |= {each.id for each in others if types and each is not None}
    return any(all_of(own) is Truth.UNKNOWN for clause, own in found.items() if clause in reading)


def _is_right(contract: Contract, found: Found) -> bool:
    """The answer, or where none is judged what the run was to bring about, is right."""
    answered = [*(claim.id for claim in contract.claims), *(["answer"] if contract.asked else [])]
    asked = [each.id for each in (*contract.require, *contract.derived)]
    others = [each for name in answered or asked for each in found[name]]
    return bool(others) and all_of(others) is Truth.HOLDS


def _created_beside(run: Run) -> list[Delta]:
    """Entities of counted types that came outside Ω, or in a transaction whose history is asked."""
    schema = run.contract.schema
    asked = {rule.source for rule in run.contract.evidence if rule.needs_history}
    types = [t.name for t in schema.types if t.counter and asked & {*schema.sources_of(t.name)}]
    within = [d for s in run.stretches(types) for x in s.case.changes for d in x.deltas]
    return [*run.hidden, *within]


def _frame(run: Run, patterns: Sequence[Pattern], more: Sequence[Vote]) -> list[Decided]:
    """The frame at the ends and, of a run that is over, along it."""
    votes = run.case.explanations(patterns, more)
    net = {delta_id(d.type, d.key, d.place): d for d, mask in votes if mask == TRUE}
    found = [] if run.contract.frame_is_open else run.case.frame(patterns, more)
    return found if run.contract.at_end else [*found, *run.frame_within(patterns, net)]


def _either(truths: Sequence[Truth], is_disputed: bool) -> Decided:
    """`any_of` HOLDS if one does; `disputed` only if all do; each FAILS only if all do."""
    if all(truth is Truth.FAILS for truth in truths):
        return fails("NO_BRANCH_HOLDS")
    held = [truth is Truth.HOLDS for truth in truths]
    return unless(not (all(held) if is_disputed else any(held)))
