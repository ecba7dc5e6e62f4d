"""The evaluator on trial: every seeded fault must be caught and named, every twin must match.

1. Each reference of a contract must MATCH; `mutate`'s operators seed faults and twins into it.
2. A fault of the world must get DIVERGE, a fault of observation INCONCLUSIVE, a twin MATCH; nothing
   else counts as caught.
3. A fault is named if a finding that does not hold points at the entity that was altered, or at the
   source that was not seen. What was altered is read from the rows, not from the evaluator's diff.
4. Cases are distinct by contract, class, entity type, clause and stage only; those that agree in
   all of these count once, and as caught only if every one of them was.

A fault that the contract's owner lets pass, with reasons in `cases.yaml`, is no fault there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeVar

from statediff.errors import UsageError
from statediff.meta import reads, stagecases
from statediff.meta.mutate import (
    FAULTS,
    TWINS,
    Argued,
    Outcome,
    is_same,
    judged,
    seeded,
    survivor_of,
)
from statediff.meta.naming import EVIDENCE, kind_of, means_the_same, names, target_type, wrong
from statediff.meta.reference import MAX_ROWS, Reference, rebuilt, with_state
from statediff.meta.world import Fault, Operator, World
from statediff.model.readings import SourceCapture
from statediff.model.state import State
from statediff.model.values import Key
from statediff.model.verdict import Stage, Truth, Verdict

SKEW: Final = timedelta(hours=2)
FINE: Final = 50
"""Rows that get a chunk of their own, where rows are delivered one by one."""
T = TypeVar("T")


class Part(StrEnum):
    """What a case is for."""

    FAULT = "fault"
    TWIN = "twin"
    STAGE = "stage"


@dataclass(frozen=True)
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

    @property
    def is_right(self) -> bool:
        """Whether the verdict is the expected one."""
        return self.verdict is self.expected

    @property
    def identity(self) -> tuple[str, ...]:
        """What makes it a case of its own."""
        return (self.part, self.contract, self.kind, self.entity, self.clause, self.stage)


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


def recut(world: World) -> Iterator[Fault]:
    """Twins: the same rows of a type came in other chunks, before or after, or one by one."""
    reference = world.reference
    # A history is told from its own base: a source that has one is cut anew at its end only.
    told = {reading.source for reading in reference.after.history.readings}
    for entity in world.types:
        for name, side, cut in (
            ("other-chunks", reference.after, _halved),
            ("row-chunks", reference.after, _one_by_one),
            ("other-chunks-before", reference.before, _halved),
            ("row-chunks-before", reference.before, _one_by_one),
        ):
            parts = tuple(
                part
                if side is reference.before and part.reading.source in told
                else _recut(part, entity.name, cut)
                for part in side.parts
            )
            if all(new is old for new, old in zip(parts, side.parts, strict=True)):
                continue
            if side is reference.after:
                mutant = reference.with_parts(parts)
            else:
                mutant = replace(reference, before=replace(reference.before, parts=parts))
            sentence = f"{entity.name} is delivered in other chunks"
            yield Fault(name, entity.name, sentence, mutant, is_twin=True)


SEEDED: Final[tuple[Operator, ...]] = (*FAULTS, skewed)
HARMLESS: Final[tuple[Operator, ...]] = (*TWINS, recut)


def tried(
    references: Sequence[Reference], seed: int, argued: Mapping[str, Argued], sample: int = 0
) -> tuple[Case, ...]:
    """Every case of one contract's references; with `sample`, so many of each part and reference.

    Raises `UsageError` if there is no reference or one of them does not MATCH.
    """
    if not references:
        raise UsageError("a meta-test needs at least one reference trial that gets MATCH")
    found: list[Case] = []
    for reference in references:
        judgement = reference.judged()
        if judgement.verdict is not Verdict.MATCH:
            raise UsageError(
                f"{reference.contract.content.contract}: the reference {reference.name} gets "
                f"{judgement.verdict.value}, not MATCH; mend the contract or the reference first"
            )
        world = World(reference, judgement, seed)
        for fault in _some(seeded(world, SEEDED), sample, world.rng):
            case = _fault(fault, world, argued)
            found += () if case is None else (case,)
        found += (_twin(t, world) for t in _some(seeded(world, HARMLESS), sample, world.rng))
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


def _fault(fault: Fault, world: World, argued: Mapping[str, Argued]) -> Case | None:
    """The case; None where the seed changed nothing, or the owner lets it pass."""
    kind = kind_of(fault)
    outcome, judgement = judged(fault, world.reference.name)
    if judgement is not None and kind not in EVIDENCE:
        if is_same(fault, world.reference, world.judgement, judgement):
            return None
        name, field = survivor_of(fault)
        reason = argued.get(name)
        is_argued = reason is not None and (not field or field in reason.fields)
        if is_argued and judgement.verdict is Verdict.MATCH:
            return None
    if kind == "contradictory-sources" and means_the_same(world, fault.mutant):
        return None
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


def _staged(world: World) -> Iterator[Case]:
    for fault in stagecases.omitted(world):
        outcome, judgement = judged(fault, world.reference.name)
        is_named = judgement is not None and any(
            finding.component == "capture" and fault.target in finding.sentence
            for finding in wrong(judgement, Truth.UNKNOWN)
        )
        yield _case(
            Part.STAGE, "capture", world, fault, Verdict.INCONCLUSIVE, outcome, is_named
        )  # fmt: skip
    for fault in stagecases.ambiguous(world):
        outcome, judgement = judged(fault, world.reference.name)
        is_named = judgement is not None and any(
            finding.code == "identity-ambiguous" and fault.target in finding.sentence
            for finding in wrong(judgement, Truth.UNKNOWN)
        )
        yield _case(
            Part.STAGE, "resolve", world, fault, Verdict.INCONCLUSIVE, outcome, is_named
        )  # fmt: skip
    for fault in stagecases.unapproved(world):
        outcome, judgement = judged(fault, world.reference.name)
        is_named = judgement is not None and names(fault, "", world, judgement)
        yield _case(
            Part.STAGE, "canonicalize", world, fault, Verdict.DIVERGE, outcome, is_named
        )  # fmt: skip
    for fault, clauses in stagecases.forbidden(world):
        outcome, judgement = judged(fault, world.reference.name)
        is_named = judgement is not None and any(
            finding.stage is Stage.FORBID and finding.clause in clauses
            for finding in wrong(judgement, Truth.FAILS)
        )
        yield _case(Part.STAGE, "policy", world, fault, Verdict.DIVERGE, outcome, is_named)
    for removal in stagecases.removals(world):
        yield _removed(removal, world)


def _removed(removal: stagecases.Removal, world: World) -> Case:
    """The case of a bundle that lacks an item: it must be refused, or be no pass."""
    content = world.reference.contract.content
    return Case(
        Part.STAGE, "evidence", content.sandbox or "", content.contract, world.reference.name,
        removal.place, f"the bundle lacks {removal.place}", Verdict.INCONCLUSIVE,
        Verdict.INCONCLUSIVE if removal.refused else removal.verdict, "", "replay",
        bool(removal.refused), removal.refused,
    )  # fmt: skip


def _case(
    part: Part, kind: str, world: World, fault: Fault, expected: Verdict, outcome: Outcome,
    is_named: bool,
) -> Case:  # fmt: skip
    content = world.reference.contract.content
    return Case(
        part, kind, content.sandbox or "", content.contract, world.reference.name,
        target_type(fault, world), fault.sentence, expected, outcome.verdict, outcome.clause,
        outcome.stage, is_named, outcome.error,
    )  # fmt: skip


def _recut(
    part: SourceCapture, type_name: str, cut: Callable[[list[Key]], tuple[Key, ...]]
) -> SourceCapture:
    """The source with the type's rows in chunks that begin at the cuts; itself if they do."""
    table = part.state.tables.get(type_name)
    if table is None or not table.enumeration.is_complete or not 1 < table.row_count <= MAX_ROWS:
        return part
    rows = dict(table.rows())
    cuts = cut(list(rows))
    if table.type.is_keyless or cuts == table.partition:
        return part
    made = rebuilt(replace(table, partition=cuts), rows.values())
    return with_state(part, State(part.state.schema, {**part.state.tables, type_name: made}))


def _halved(keys: list[Key]) -> tuple[Key, ...]:
    return (keys[len(keys) // 2],)


def _one_by_one(keys: list[Key]) -> tuple[Key, ...]:
    return tuple(keys[1:FINE])
