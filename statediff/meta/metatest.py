"""The evaluator on trial: every seeded fault must be caught and named, every twin must match.

1. Each reference of a contract must MATCH; `mutate`'s operators seed faults and twins into it.
2. Beside each distinct fault stands its harmless twin: the same place, told in another way.
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

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar

from statediff.contract.document.contract import ContractDocument
from statediff.errors import UsageError
from statediff.meta import reads, stagecases
from statediff.meta.equivalents import twin_of
from statediff.meta.fault_classes import (
    EVIDENCE,
    alters_nothing,
    kind_of,
    means_the_same,
    names,
    names_ambiguous,
    target_type,
    wrong,
)
from statediff.meta.mutate import (
    FAULTS,
    TWINS,
    Argued,
    Outcome,
    is_argued,
    judged,
    seeded,
)
from statediff.meta.reference import Reference
from statediff.meta.unkeyed import unkeyed
from statediff.meta.world import Fault, Operator, World
from statediff.model.readings import SourceCapture
from statediff.model.verdict import Judgement, Stage, Truth, Verdict

SKEW: Final = timedelta(hours=2)
ANY: Final[frozenset[str]] = frozenset()
T = TypeVar("T")


class Part(StrEnum):
    """What a case is for."""

    FAULT = "fault"
    TWIN = "twin"
    STAGE = "stage"


@dataclass(frozen=True, kw_only=True)
class Case:
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
    """Of a twin beside a fault: that fault's class, type, clause and stage."""
    codes: tuple[str, ...] = ()
    """The codes of all findings that do not hold, sorted."""

    @property
    def is_right(self) -> bool:
        """Whether the verdict is the expected one."""
        return self.verdict is self.expected

    @property
    def identity(self) -> tuple[str, ...]:
        """What makes it a case of its own."""
        return (
            self.part, self.contract, self.kind, self.entity, self.clause, self.stage, *self.beside
        )  # fmt: skip


def case_of(told: Mapping[str, Any]) -> Case:
    """The case that `asdict` told, by way of JSON."""
    verdict = told["verdict"]
    return Case(**{
        **told, "part": Part(told["part"]), "expected": Verdict(told["expected"]),
        "verdict": None if verdict is None else Verdict(verdict),
        "beside": tuple(told["beside"]), "codes": tuple(told["codes"]),
    })  # fmt: skip


def skewed(world: World) -> Iterator[Fault]:
    """A source's clock runs behind: its reading after claims an instant before the run's end."""
    timeline = world.reference.timeline
    if timeline is None:
        return
    for part in world.reference.after.parts:
        early = replace(part.reading, as_of=part.reading.as_of - SKEW)
        parts = tuple(
            SourceCapture(early, part.state) if each is part else each
            for each in world.reference.after.parts
        )
        sentence = f"{part.reading.source}'s clock is two hours behind"
        mutant = world.reference.with_parts(parts)
        yield Fault("clock-skew", part.reading.source, sentence, mutant)


SEEDED: Final[tuple[Operator, ...]] = (*FAULTS, skewed, unkeyed)


def tried(
    references: Sequence[Reference], seed: int, argued: Mapping[str, Argued], sample: int = 0
) -> tuple[Case, ...]:
    """Every case of one contract's references; with `sample`, so many of each part and reference.

    Raises `UsageError` if there is no reference or one of them does not MATCH.
    """
    if not references:
        raise UsageError("a meta-test needs at least one reference trial that gets MATCH")
    found: list[Case] = []
    seen: set[tuple[str, ...]] = set()
    for reference in references:
        judgement = reference.judged()
        if judgement.verdict is not Verdict.MATCH:
            raise UsageError(
                f"{reference.contract.content.contract}: the reference {reference.name} gets "
                f"{judgement.verdict.value}, not MATCH; mend the contract or the reference first"
            )
        world = World(reference, judgement, seed)
        for fault in _some(seeded(world, SEEDED), sample, world.rng):
            case = fault_case(fault, world, argued)
            if case is None:
                continue
            found.append(case)
            if case.identity not in seen:
                found.append(beside_case(twin_of(fault, world), case, world))
            seen.add(case.identity)
        found += (_twin(t, world) for t in _some(seeded(world, TWINS), sample, world.rng))
        found += (_read(fault, world) for fault in _some(reads.faults(world), sample, world.rng))
        found += (_twin(t, world) for t in _some(reads.twins(world), sample, world.rng))
        found += _some(_staged(world), sample, world.rng)
    return tuple(found)


def _some(listed: Iterable[T], sample: int, rng: random.Random) -> Iterable[T]:
    """All of them, one at a time; or so many picked by the seed, in their order."""
    if not sample:
        return listed
    known = list(listed)
    picked = rng.sample(range(len(known)), min(sample, len(known)))
    return [known[at] for at in sorted(picked)]


def fault_case(fault: Fault, world: World, argued: Mapping[str, Argued]) -> Case | None:
    """The case; None where the seed altered nothing, or the owner lets such a fault pass."""
    kind = kind_of(fault)
    if kind not in EVIDENCE and (alters_nothing(fault, world) or is_argued(fault, argued)):
        return None
    if kind == "contradictory-sources" and means_the_same(world, fault.mutant):
        return None
    outcome, judgement = judged(fault, world.reference.name)
    expected = Verdict.INCONCLUSIVE if kind in EVIDENCE else Verdict.DIVERGE
    is_named = judgement is not None and names(fault, kind, world, judgement)
    return _case(Part.FAULT, kind, world, fault, expected, outcome, is_named)


def _read(fault: Fault, world: World) -> Case:
    """The case of a fault of what was read."""
    outcome, judgement = judged(fault, world.reference.name)
    is_named = judgement is not None and reads.is_named(fault, judgement)
    return _case(
        Part.FAULT, fault.operator, world, fault, reads.expected(fault), outcome, is_named
    )  # fmt: skip


def _twin(fault: Fault, world: World) -> Case:
    outcome, _ = judged(fault, world.reference.name)
    return _case(Part.TWIN, fault.operator, world, fault, Verdict.MATCH, outcome, is_named=True)


def beside_case(twin: Fault, case: Case, world: World) -> Case:
    """The case of the harmless twin that stands beside a fault, at the same place."""
    made = _twin(twin, world)
    return replace(made, kind=case.kind, beside=(case.kind, case.entity, case.clause, case.stage))


def staged(world: World) -> Iterator[tuple[str, Fault, frozenset[str]]]:
    """Stage, what is seeded for it, and which clauses may say so, where only some may."""
    yield from (("capture", fault, ANY) for fault in stagecases.omitted(world))
    yield from (("resolve", fault, ANY) for fault in stagecases.ambiguous(world))
    yield from (("canonicalize", fault, ANY) for fault in stagecases.unapproved(world))
    yield from (("policy", fault, clauses) for fault, clauses in stagecases.forbidden(world))


def stage_case(stage: str, fault: Fault, clauses: frozenset[str], world: World) -> Case:
    """The case of something seeded for one stage."""
    outcome, judgement = judged(fault, world.reference.name)
    is_named = judgement is not None and _names_stage(stage, fault, clauses, world, judgement)
    is_seen = stage in ("capture", "resolve")
    expected = Verdict.INCONCLUSIVE if is_seen else Verdict.DIVERGE
    return _case(Part.STAGE, stage, world, fault, expected, outcome, is_named)


def _names_stage(
    stage: str, fault: Fault, clauses: frozenset[str], world: World, judgement: Judgement
) -> bool:
    match stage:
        case "capture":
            return any(
                finding.component == "capture" and fault.target in finding.sentence
                for finding in wrong(judgement, Truth.UNKNOWN)
            )
        case "resolve":
            return names_ambiguous(fault.target, judgement)
        case "canonicalize":
            return names(fault, "", world, judgement)
        case _:
            return any(
                finding.stage is Stage.FORBID and finding.clause in clauses
                for finding in wrong(judgement, Truth.FAILS)
            )


def _staged(world: World) -> Iterator[Case]:
    yield from (stage_case(stage, fault, clauses, world) for stage, fault, clauses in staged(world))
    yield from (removed_case(removal, world) for removal in stagecases.removals(world))


def removed_case(removal: stagecases.Removal, world: World) -> Case:
    """The case of a bundle that lacks an item: it must be refused, or be no pass."""
    content = world.reference.contract.content
    return Case(
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
    part: Part, kind: str, world: World, fault: Fault, expected: Verdict, outcome: Outcome,
    is_named: bool,
) -> Case:  # fmt: skip
    content = world.reference.contract.content
    return Case(
        part=part,
        kind=kind,
        domain=domain_of(content),
        contract=content.contract,
        reference=world.reference.name,
        entity=target_type(fault, world),
        sentence=fault.sentence,
        expected=expected,
        verdict=outcome.verdict,
        clause=outcome.clause,
        stage=outcome.stage,
        is_named=is_named,
        error=outcome.error,
        codes=outcome.codes,
    )
