"""The whole judgement: every clause of a contract over one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.alternatives import Branch
from statediff.contract.clauses.conduct import Permission
from statediff.kernel.spec.access import decide_access
from statediff.kernel.spec.changes import HOLDS, UNKNOWN, Decided, fails
from statediff.kernel.spec.clauses import (
    Vote,
    all_of,
    decide_answer,
    decide_derived,
    decide_effect,
    decide_frame,
    explanations,
    is_parted,
)
from statediff.kernel.spec.conduct import (
    decide_attempts,
    decide_permission,
    decide_retries,
    decide_step,
    decide_turn,
    own_word,
)
from statediff.kernel.spec.history import Run, counter_votes, decide, frame_within, stretches
from statediff.kernel.spec.values import TRUE
from statediff.model.codes import FindingCode, Truth
from statediff.model.delta import Delta, delta_id

# ---------------------------------------------------------------- the whole judgement

Found: TypeAlias = dict[str, list[Decided]]
"""The findings of each clause, by its id."""


def judge(run: Run) -> Found:
    """Every clause of the contract, with what was found of it; `any_of` stands for its branches."""
    contract, case = run.contract, run.case
    found: Found = {clause.id: [decide(clause, run)] for clause in contract.forbid}
    for rule in contract.effects:
        asked = decide_effect(rule, case)
        found |= {} if asked is None else {rule.id: [asked]}
        found |= {rule.retry_id: [decide_retries(rule, run)]} if rule.is_judged_for_retries else {}
    more: list[Vote] = []
    for kept in contract.derived:
        decided, votes = decide_derived(kept, case)
        found[kept.id] = [decided]
        more += votes
    more += counter_votes(case, _created_beside(run))
    framed = _frame(run, more)
    found |= {"frame": framed} if framed else {}
    found |= {clause.id: [decide(clause, run)] for clause in contract.require}
    for assertion in contract.steps:
        found[assertion.id] = [own_word(decide_step(assertion, run), assertion, run)]
    found |= {gate.id: [decide_turn(gate, run)] for gate in contract.turns}
    for act in contract.actions:
        if isinstance(act, Permission):
            decided = decide_permission(act, run)
            found[act.id] = [decided if act.recorded_only else own_word(decided, act, run)]
        else:
            found[act.id] = [own_word(decide_attempts(act, run), act, run)]
    found |= {"answer": [decide_answer(contract.asked, case.world)]} if contract.asked else {}
    found |= {claim.id: [decide(claim, run)] for claim in contract.claims}
    if contract.access is not None:
        for name, own in decide_access(contract.access, run, _is_right(contract, found)):
            found.setdefault(name, []).extend(own)
    if contract.alternatives is not None:
        truths = [_branch(branch, run, more) for branch in contract.branches]
        found[contract.alternatives.id] = [_alternatives(truths, contract.alternatives.is_disputed)]
    if contract.frame_is_open and _waits_for_parted(run, found):
        parted = [fails(FindingCode.READINGS_PARTED) for d in case.doubts if is_parted(d)]
        found["frame"] = [*found.get("frame", []), *parted]
    return found


def _waits_for_parted(run: Run, found: Found) -> bool:
    """A clause is UNKNOWN that reads a type of which readings parted in the run.

    Access and alternatives are about all types.
    """
    contract, types = run.contract, {d.type for d in run.case.doubts if is_parted(d)}
    clauses = (*contract.forbid, *contract.require, *contract.claims, *contract.assertions)
    reading = {c.id for c in clauses if types & {read.type for read in c.reads}}
    for effect in contract.effects:
        if types & {effect.type, *(read.type for read in effect.reads)}:
            reading.add(effect.id)
    for derived in contract.derived:
        if types & {derived.type, *(read.type for read in derived.reads)}:
            reading.add(derived.id)
    reading |= {rule.retry_id for rule in contract.effects if rule.type in types}
    others = [contract.alternatives, *([] if contract.access is None else contract.access.clauses)]
    reading |= {each.id for each in (*others, contract.access) if types and each is not None}
    return any(all_of(own) is Truth.UNKNOWN for clause, own in found.items() if clause in reading)


def _is_right(contract: Contract, found: Found) -> bool:
    """The answer, or where none is judged what the run was to bring about, is right."""
    answered = [*(c.id for c in contract.claims), *(["answer"] if contract.asked else [])]
    asked = [c.id for c in (*contract.require, *contract.derived)]
    others = [each for name in answered or asked for each in found[name]]
    return bool(others) and all_of(others) is Truth.HOLDS


def _created_beside(run: Run) -> list[Delta]:
    """Entities of counted types that came outside Ω, or in a transaction whose history is asked."""
    schema = run.contract.schema
    asked = {rule.source for rule in run.contract.evidence if rule.needs_history}
    types = [t.name for t in schema.types if t.counter and asked & {*schema.sources_of(t.name)}]
    within = [d for s in stretches(run, types) for c in s.case.changes for d in c.deltas]
    return [*run.hidden, *within]


def _frame(run: Run, more: Sequence[Vote]) -> list[Decided]:
    """The frame at the ends and along the run; what must be read and was not leaves it open."""
    contract = run.contract
    patterns = [*contract.explaining, *(p for b in contract.branches for p in b.explaining)]
    net = {
        delta_id(d.type, d.key, d.place): d
        for d, mask in explanations(patterns, run.case, more)
        if mask == TRUE
    }
    found = [] if contract.frame_is_open else decide_frame(patterns, run.case, more)
    return [*found, *frame_within(run, patterns, net), *[UNKNOWN] * run.missing]


def _branch(branch: Branch, run: Run, more: Sequence[Vote]) -> Truth:
    """A branch, judged whole, with a frame in which the contract's patterns explain, too."""
    patterns = [*run.contract.explaining, *branch.explaining]
    found = [decide(clause, run) for clause in (*branch.forbid, *branch.require)]
    if not run.contract.frame_is_open:
        votes = explanations(patterns, run.case, more)
        net = {delta_id(d.type, d.key, d.place): d for d, mask in votes if mask == TRUE}
        found += [*decide_frame(patterns, run.case, more), *frame_within(run, patterns, net)]
    return all_of(found)


def _alternatives(truths: Sequence[Truth], is_disputed: bool) -> Decided:
    """`any_of` HOLDS if one does; `disputed` only if all do; each FAILS only if all do."""
    if all(truth is Truth.FAILS for truth in truths):
        return fails(FindingCode.NO_BRANCH_HOLDS)
    held = [truth is Truth.HOLDS for truth in truths]
    return HOLDS if (all(held) if is_disputed else any(held)) else UNKNOWN
