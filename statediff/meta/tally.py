"""Cases counted: distinct ones only, by class and by domain, with exact intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from statediff.meta.fault_classes import EVIDENCE
from statediff.meta.metatest import Case, Part
from statediff.statistics.binomial import Rounding, Share, clopper_pearson


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
    interval: Share | None
    stages: tuple[tuple[str, int], ...]
    """Stage of the judgement → how many faults it was the first to catch."""


@dataclass(frozen=True, kw_only=True)
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
    def interval(self) -> Share | None:
        """Of caught among faults."""
        return _interval(self.caught, self.faults)

    @property
    def twins_interval(self) -> Share | None:
        """Of matching among twins."""
        return _interval(self.twins - self.twins_diverged, self.twins)

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
        faults=len(faults),
        caught=_right(faults),
        named=sum(each.is_named for each in faults),
        twins=len(twins),
        twins_diverged=len(twins) - _right(twins),
        evidence_faults=len(evidence),
        inconclusive=_right(evidence),
        stage_cases=len(staged),
        stage_named=sum(each.is_named and each.is_right for each in staged),
        by_class=_lines(faults, lambda case: case.kind),
        by_domain=_lines(faults, lambda case: case.domain),
        wrong=tuple(each.first for each in listed if not (each.is_right and each.is_named)),
    )


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
                _interval(_right(own), len(own)),
                tuple((stage, stages.count(stage)) for stage in sorted(set(stages))),
            )
        )  # fmt: skip
    return tuple(lines)


def _interval(good: int, of: int) -> Share | None:
    return clopper_pearson(good, of, rounding=Rounding.NEAREST) if of else None


def _right(some: Sequence[Distinct]) -> int:
    return sum(each.is_right for each in some)
