"""Cases counted: distinct ones only, by class and by domain, with exact intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from statediff.meta.exact import Bounds, clopper_pearson
from statediff.meta.metatest import Case, Part
from statediff.meta.naming import EVIDENCE


@dataclass(frozen=True)
class Distinct:
    """Cases that agree in class, contract, entity type, clause and stage: they count once."""

    first: Case
    is_right: bool
    """Whether all of them got what they should."""
    is_named: bool


@dataclass(frozen=True)
class Line:
    """The counts of one class or domain. `interval` is that of caught among faults, at 95 %."""

    name: str
    faults: int
    caught: int
    named: int
    interval: Bounds | None
    stages: tuple[tuple[str, int], ...]
    """Stage of the judgement → how many faults it was the first to catch."""


@dataclass(frozen=True)
class Tally:
    """What a meta-test found; every number counts distinct cases."""

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
    by_class: tuple[Line, ...]
    by_domain: tuple[Line, ...]
    wrong: tuple[Case, ...]
    """The first of each kind that got something else, or was not named."""

    @property
    def interval(self) -> Bounds | None:
        """Of caught among faults."""
        return clopper_pearson(self.caught, self.faults)

    @property
    def twins_interval(self) -> Bounds | None:
        """Of matching among twins."""
        return clopper_pearson(self.twins - self.twins_diverged, self.twins)

    @property
    def is_good(self) -> bool:
        """Whether everything was caught, nothing harmless refused, and nearly all named."""
        return (
            self.caught == self.faults
            and self.twins_diverged == 0
            and self.stage_named == self.stage_cases
            and self.named * 100 >= self.faults * 99
        )


def tally(cases: Iterable[Case]) -> Tally:
    """The counts of the cases, each distinct one once."""
    listed = distinct(cases)
    faults = [each for each in listed if each.first.part is Part.FAULT]
    twins = [each for each in listed if each.first.part is Part.TWIN]
    staged = [each for each in listed if each.first.part is Part.STAGE]
    evidence = [each for each in faults if each.first.kind in EVIDENCE]
    return Tally(
        len(faults), _right(faults), sum(each.is_named for each in faults),
        len(twins), len(twins) - _right(twins),
        len(evidence), _right(evidence),
        len(staged), sum(each.is_named and each.is_right for each in staged),
        _lines(faults, lambda case: case.kind), _lines(faults, lambda case: case.domain),
        tuple(each.first for each in listed if not (each.is_right and each.is_named)),
    )  # fmt: skip


def distinct(cases: Iterable[Case]) -> list[Distinct]:
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


def _lines(faults: Sequence[Distinct], by: Callable[[Case], str]) -> tuple[Line, ...]:
    lines: list[Line] = []
    for name in sorted({by(each.first) for each in faults}):
        own = [each for each in faults if by(each.first) == name]
        stages = [each.first.stage or "none" for each in own]
        lines.append(
            Line(
                name, len(own), _right(own), sum(each.is_named for each in own),
                clopper_pearson(_right(own), len(own)),
                tuple((stage, stages.count(stage)) for stage in sorted(set(stages))),
            )
        )  # fmt: skip
    return tuple(lines)


def _right(some: Sequence[Distinct]) -> int:
    return sum(each.is_right for each in some)
