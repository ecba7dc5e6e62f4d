"""The evaluator on trial: every seeded fault must be caught and named, every twin must match.

1. Each reference of a contract must MATCH; `mutate`'s operators seed faults and twins into it.
2. Beside each distinct fault stands its harmless twin: the same place, described in another way.
3. A fault of the world must get DIVERGE, a fault of observation INCONCLUSIVE, a twin MATCH; nothing
   else counts as caught.
4. A fault is named if a finding that does not hold points at the entity that was altered, or at the
   source that was not seen. What was altered is read from the rows, not from the evaluator's diff.
5. Cases are distinct by contract, class, entity type, clause and stage only; those that agree in
   all of these count once, and as caught only if every one of them was. A twin beside a fault is as
   distinct as the fault.

A fault that the contract's owner lets pass, with reasons in `cases.yaml`, is no fault there, nor is
a seed that alters nothing within the boundary. Neither is ever decided by what the evaluator says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeVar

from statediff.contract.document.contract import ContractDocument
from statediff.errors import UsageError
from statediff.evidence.documents import finding_document
from statediff.meta import read_faults, stage_cases
from statediff.meta.cases import Cases
from statediff.meta.evidence_faults import clock_skew, keyless_listing
from statediff.meta.fault_classes import (
    EVIDENCE_CLASSES,
    class_of,
    findings_of,
    means_nothing,
    names,
    names_ambiguous,
    target_type,
)
from statediff.meta.mutate import (
    HARMS,
    Argued,
    FaultOutcome,
    is_argued,
    judge_fault,
    seed_faults,
)
from statediff.meta.reference import Reference
from statediff.meta.twins import TWINS, twin_of
from statediff.meta.world import Fault, Operator, Untried, World, in_order, worlds
from statediff.model.components import component_of
from statediff.model.verdict import Finding, Judgement, Stage, Truth, Verdict
from statediff.statistics.binomial import Rounding, Share, clopper_pearson

ANY: Final[frozenset[str]] = frozenset()
T = TypeVar("T")


class Part(StrEnum):
    """The purpose of a case."""

    FAULT = "fault"
    TWIN = "twin"
    STAGE = "stage"
    UNTRIED = "untried"
    """No case: `number` of `kind` that no fault tries, and `sentence` says why."""


@dataclass(frozen=True, kw_only=True)
class MetaCase:
    """One judged case. `verdict` None where the evaluator refused to judge it."""

    part: Part
    kind: str
    """Its fault class, its twin's operator, or the stage of the evaluator that it is about."""
    domain: str
    contract: str
    reference: str
    entity: str
    """The type that was altered; the source for what was not seen."""
    sentence: str
    expected: Verdict
    verdict: Verdict | None
    clause: str
    stage: str
    is_named: bool
    error: str = ""
    beside: tuple[str, ...] = ()
    """The fault that a twin stands beside: its class, type, clause and stage."""
    codes: tuple[str, ...] = ()
    """The codes of all findings that do not hold, sorted."""
    number: int = 1

    @property
    def is_right(self) -> bool:
        """True if the verdict is the expected one."""
        return self.verdict is self.expected

    @property
    def identity(self) -> tuple[str, ...]:
        """The parts that make it a case of its own."""
        return (
            self.part,
            self.contract,
            self.kind,
            self.entity,
            self.clause,
            self.stage,
            *self.beside,
        )


def case_of(document: Mapping[str, Any]) -> MetaCase:
    """The case that `asdict` wrote, by way of JSON."""
    verdict = document["verdict"]
    return MetaCase(
        **{
            **document,
            "part": Part(document["part"]),
            "expected": Verdict(document["expected"]),
            "verdict": None if verdict is None else Verdict(verdict),
            "beside": tuple(document["beside"]),
            "codes": tuple(document["codes"]),
        }
    )


SEEDED: Final[tuple[Operator, ...]] = (*HARMS, clock_skew, keyless_listing)
"""Not what an allow clause permits: by the contract it is right, however loose that is."""
UNUSED: Final = "allow clauses that a run does not use"
PERMITTED: Final = "what they permit is right by the contract; `mutate` tries it"


def metatest(
    references: Sequence[Reference], seed: int, argued: Mapping[str, Argued], sample: int = 0
) -> tuple[MetaCase, ...]:
    """Every case of one contract's references; with `sample`, so many of each part and reference.

    Raises `UsageError` if there is no reference or one of them does not MATCH.
    """
    if not references:
        raise UsageError("a meta-test needs at least one reference trial that gets MATCH")
    found: list[MetaCase] = []
    seen: set[tuple[str, ...]] = set()
    for world in worlds(references, seed):
        for fault in _some(seed_faults(world, SEEDED), sample, world):
            case = fault_case(fault, world, argued)
            if case is None:
                continue
            found.append(case)
            if case.identity not in seen:
                found.append(beside_case(twin_of(fault, world), case, world))
            seen.add(case.identity)
        found += (_twin_case(t, world) for t in _some(seed_faults(world, TWINS), sample, world))
        read = _some(read_faults.faults(world), sample, world)
        found += (_read_case(fault, world) for fault in read)
        found += (_twin_case(t, world) for t in _some(read_faults.twins(world), sample, world))
        found += _some(_stage_cases(world), sample, world)
        world.leave(UNUSED, PERMITTED, len(world.unused))
        found += _untried_cases(world)
    return tuple(found)


def _some(listed: Iterable[T], sample: int, world: World) -> Iterable[T]:
    """All of them, one at a time; or so many picked by the seed, in their order."""
    if not sample:
        return listed
    known = list(listed)
    picked = world.rng.sample(range(len(known)), min(sample, len(known)))
    world.leave("seeded cases", "the sample leaves them out", len(known) - len(picked))
    return [known[at] for at in sorted(picked)]


def _untried_cases(world: World) -> Iterator[MetaCase]:
    """The gaps that no fault of this reference tries, each with its number."""
    for each in in_order(world.untried):
        yield untried_case(world.reference, each)


def untried_case(reference: Reference, gap: Untried) -> MetaCase:
    """No case, but a gap that no fault tries."""
    content = reference.contract.content
    return MetaCase(
        part=Part.UNTRIED,
        kind=gap.what,
        domain=domain_of(content),
        contract=content.contract,
        reference=reference.name,
        entity="",
        sentence=gap.why,
        expected=Verdict.MATCH,
        verdict=Verdict.MATCH,
        clause="",
        stage="",
        is_named=True,
        number=gap.number,
    )


def fault_case(fault: Fault, world: World, argued: Mapping[str, Argued]) -> MetaCase | None:
    """The case; None where the seed altered nothing, or the owner lets such a fault pass."""
    kind = class_of(fault)
    is_evidence = kind in EVIDENCE_CLASSES
    if means_nothing(fault, world) or (not is_evidence and is_argued(fault, argued)):
        return None
    outcome, judgement = judge_fault(fault, world.reference.name)
    expected = Verdict.INCONCLUSIVE if is_evidence else Verdict.DIVERGE
    is_named = judgement is not None and names(fault, kind, world, judgement)
    return _case(Part.FAULT, kind, target_type(fault, world), expected, outcome, is_named)


def _read_case(fault: Fault, world: World) -> MetaCase:
    """The case of a fault of what was read."""
    outcome, judgement = judge_fault(fault, world.reference.name)
    is_named = judgement is not None and read_faults.is_named(fault, judgement)
    entity, expected = target_type(fault, world), read_faults.expected_verdict(fault)
    return _case(Part.FAULT, fault.operator, entity, expected, outcome, is_named)


def _twin_case(fault: Fault, world: World) -> MetaCase:
    outcome, _ = judge_fault(fault, world.reference.name)
    entity = target_type(fault, world)
    return _case(Part.TWIN, fault.operator, entity, Verdict.MATCH, outcome, is_named=True)


def beside_case(twin: Fault, case: MetaCase, world: World) -> MetaCase:
    """The case of the harmless twin that stands beside a fault, at the same place."""
    made = _twin_case(twin, world)
    return replace(made, kind=case.kind, beside=(case.kind, case.entity, case.clause, case.stage))


def stage_faults(world: World) -> Iterator[tuple[str, Fault, frozenset[str]]]:
    """Stage, the fault seeded for it, and the clauses that may report it (`ANY`: none is named)."""
    yield from (("capture", fault, ANY) for fault in stage_cases.unread_sources(world))
    yield from (("resolve", fault, ANY) for fault in stage_cases.alike_entities(world))
    yield from (("canonicalize", fault, ANY) for fault in stage_cases.unapproved_spellings(world))
    yield from (
        ("policy", fault, clauses) for fault, clauses in stage_cases.forbidden_writes(world)
    )


def bound_faults(world: World) -> Iterator[tuple[str, Fault]]:
    """Stage, and what is seeded to reach one of its bounds: too much to store in a corpus."""
    yield from (("canonicalize", fault) for fault in stage_cases.digested_texts(world))
    yield from (("diff", fault) for fault in stage_cases.altered_in_other_chunks(world))
    yield from (("diff", fault) for fault in stage_cases.incomparable_rows(world))


def stage_case(stage: str, fault: Fault, clauses: frozenset[str], world: World) -> MetaCase:
    """The case of something seeded for one stage."""
    outcome, judgement = judge_fault(fault, world.reference.name)
    is_named = judgement is not None and _names_stage(stage, fault, clauses, world, judgement)
    is_seen = stage in ("capture", "resolve") or fault.operator in _BOUNDS
    expected = Verdict.INCONCLUSIVE if is_seen else Verdict.DIVERGE
    return _case(Part.STAGE, stage, target_type(fault, world), expected, outcome, is_named)


_BOUNDS: Final = frozenset({"digested-text", "incomparable-rows"})
"""Faults that a stage cannot decide, and says so; nothing is wrong with what was captured."""


def _names_stage(
    stage: str, fault: Fault, clauses: frozenset[str], world: World, judgement: Judgement
) -> bool:
    if fault.operator in _BOUNDS:
        return any(
            component_of(finding_document(finding)) == stage and fault.target in finding.sentence
            for finding in findings_of(judgement, Truth.UNKNOWN)
        )
    match stage:
        case "capture":
            return any(
                finding.component == "capture" and fault.target in finding.sentence
                for finding in findings_of(judgement, Truth.UNKNOWN)
            )
        case "resolve":
            return names_ambiguous(fault.target, judgement)
        case "canonicalize" | "diff":
            return names(fault, "", world, judgement)
        case _:
            return any(
                finding.stage is Stage.FORBID and finding.clause in clauses
                for finding in findings_of(judgement, Truth.FAILS)
            )


def _stage_cases(world: World) -> Iterator[MetaCase]:
    yield from (
        stage_case(stage, fault, clauses, world) for stage, fault, clauses in stage_faults(world)
    )
    yield from (stage_case(stage, fault, ANY, world) for stage, fault in bound_faults(world))
    yield from (removal_case(removal, world) for removal in stage_cases.removals(world))


def removal_case(removal: stage_cases.Removal, world: World) -> MetaCase:
    """The case of a bundle that lacks an item: it must be refused, or be no pass."""
    content = world.reference.contract.content
    return MetaCase(
        part=Part.STAGE,
        kind="evidence",
        domain=domain_of(content),
        contract=content.contract,
        reference=world.reference.name,
        entity=removal.place,
        sentence=f"the bundle lacks {removal.place}",
        expected=Verdict.INCONCLUSIVE,
        verdict=Verdict.INCONCLUSIVE if removal.refused else removal.verdict,
        clause="",
        stage="replay",
        is_named=bool(removal.refused),
        error=removal.refused,
    )


def domain_of(content: ContractDocument) -> str:
    """The sandbox; of a contract without one, what its name begins with."""
    return content.sandbox or content.contract.partition("/")[0]


def _case(
    part: Part, kind: str, entity: str, expected: Verdict, outcome: FaultOutcome, is_named: bool
) -> MetaCase:
    content = outcome.fault.mutant.contract.content
    return MetaCase(
        part=part,
        kind=kind,
        domain=domain_of(content),
        contract=content.contract,
        reference=outcome.reference,
        entity=entity,
        sentence=outcome.fault.sentence,
        expected=expected,
        verdict=outcome.verdict,
        clause=outcome.clause,
        stage=outcome.stage,
        is_named=is_named,
        error=outcome.error,
        codes=outcome.codes,
    )


def live_case(fault: Fault, reference: str, named: Callable[[Finding], bool]) -> MetaCase:
    """The case of a run that really went wrong; it is named if such a finding fails."""
    outcome, judgement = judge_fault(fault, reference)
    is_named = judgement is not None and any(map(named, findings_of(judgement, Truth.FAILS)))
    return _case(
        Part.FAULT, fault.operator, fault.target, Verdict.DIVERGE, outcome, is_named=is_named
    )


def faulty_agent_cases(trials: Iterable[Reference], cases: Cases) -> Iterator[MetaCase]:
    """The case of each faulty agent's trial, named after its agent.

    It is named if a finding that fails is of the stage, clause and code that `cases.yaml` tells.
    """
    wanted = {wrong.agent: wrong for wrong in cases.faulty}
    for trial in trials:
        wrong = wanted[trial.name]
        told = (wrong.clause, wrong.code, wrong.stage)
        kind = f"agent:{cases.drift.get(wrong.agent, 'faulty')}"
        yield live_case(Fault(kind, wrong.agent, wrong.why, trial), "", partial(_says, told))


def _says(told: tuple[str, str, str], finding: Finding) -> bool:
    return (finding.clause, finding.code.value, finding.stage.value) == told


@dataclass(frozen=True)
class Distinct:
    """Cases that agree in class, contract, entity type, clause and stage: they count once."""

    first: MetaCase
    is_right: bool
    """True if all of them got what they should."""
    is_named: bool


@dataclass(frozen=True)
class TallyLine:
    """The counts of one class or domain. `interval` is that of caught among faults, at 95 %."""

    name: str
    faults: int
    caught: int
    named: int
    interval: Share | None
    stages: tuple[tuple[str, int], ...]
    """Stage of the judgement → how many faults it was the first to catch."""


@dataclass(frozen=True, kw_only=True)
class Tally:
    """The findings of a meta-test; every number counts distinct cases."""

    faults: int
    caught: int
    named: int
    twins: int
    twins_diverged: int
    evidence_faults: int
    inconclusive: int
    """Evidence faults that got INCONCLUSIVE."""
    stage_cases: int
    stage_named: int
    by_class: tuple[TallyLine, ...]
    by_domain: tuple[TallyLine, ...]
    wrong: tuple[MetaCase, ...]
    """The first of each kind that got something else, or was not named."""
    untried: tuple[Untried, ...] = ()
    """The gaps that no fault tries, over all references."""

    @property
    def interval(self) -> Share | None:
        """The interval of the share of faults that were caught."""
        return _interval(self.caught, self.faults)

    @property
    def twins_interval(self) -> Share | None:
        """The interval of the share of twins that matched."""
        return _interval(self.twins - self.twins_diverged, self.twins)

    @property
    def is_good(self) -> bool:
        """True if everything was caught, nothing harmless refused, and nearly all named."""
        return (
            self.caught == self.faults
            and self.twins_diverged == 0
            and self.stage_named == self.stage_cases
            and self.named * 100 >= self.faults * 99
        )


def tally(cases: Iterable[MetaCase]) -> Tally:
    """The counts of the cases, each distinct one once."""
    known = list(cases)
    left: Counter[tuple[str, str]] = Counter()
    for case in known:
        if case.part is Part.UNTRIED:
            left[case.kind, case.sentence] += case.number
    listed = distinct(case for case in known if case.part is not Part.UNTRIED)
    faults = [each for each in listed if each.first.part is Part.FAULT]
    twins = [each for each in listed if each.first.part is Part.TWIN]
    stage_faults = [each for each in listed if each.first.part is Part.STAGE]
    evidence = [each for each in faults if each.first.kind in EVIDENCE_CLASSES]
    return Tally(
        faults=len(faults),
        caught=_right(faults),
        named=sum(each.is_named for each in faults),
        twins=len(twins),
        twins_diverged=len(twins) - _right(twins),
        evidence_faults=len(evidence),
        inconclusive=_right(evidence),
        stage_cases=len(stage_faults),
        stage_named=sum(each.is_named and each.is_right for each in stage_faults),
        by_class=_lines(faults, lambda case: case.kind),
        by_domain=_lines(faults, lambda case: case.domain),
        wrong=tuple(each.first for each in listed if not (each.is_right and each.is_named)),
        untried=in_order(left),
    )


def distinct(cases: Iterable[MetaCase]) -> list[Distinct]:
    """The distinct cases in the order of their identities; as first, one that went wrong."""
    found: dict[tuple[str, ...], Distinct] = {}
    for case in cases:
        known = found.get(case.identity)
        if known is None:
            found[case.identity] = Distinct(case, case.is_right, case.is_named)
            continue
        is_worse = known.is_right and known.is_named and not (case.is_right and case.is_named)
        found[case.identity] = Distinct(
            case if is_worse else known.first,
            known.is_right and case.is_right,
            known.is_named and case.is_named,
        )
    return [found[identity] for identity in sorted(found)]


def _lines(faults: Sequence[Distinct], by: Callable[[MetaCase], str]) -> tuple[TallyLine, ...]:
    lines: list[TallyLine] = []
    for name in sorted({by(each.first) for each in faults}):
        own = [each for each in faults if by(each.first) == name]
        stages = [each.first.stage or "none" for each in own]
        lines.append(
            TallyLine(
                name,
                len(own),
                _right(own),
                sum(each.is_named for each in own),
                _interval(_right(own), len(own)),
                tuple((stage, stages.count(stage)) for stage in sorted(set(stages))),
            )
        )
    return tuple(lines)


def _interval(good: int, of: int) -> Share | None:
    return clopper_pearson(good, of, rounding=Rounding.NEAREST) if of else None


def _right(some: Sequence[Distinct]) -> int:
    return sum(each.is_right for each in some)
