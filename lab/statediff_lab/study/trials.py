"""The trials of a study: labelled runs, and what each evaluator says of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pydantic import TypeAdapter

from statediff.meta.checkpoint import Form
from statediff.meta.reference import Reference
from statediff.meta.world import Fault, Untried, World
from statediff.model.verdict import Judgement, Verdict
from statediff_lab.labels import Component, Failure, Label

EXPECTED: Final[Mapping[Label, Verdict]] = {
    Label.CORRECT: Verdict.MATCH,
    Label.INCORRECT: Verdict.DIVERGE,
    Label.UNRESOLVABLE: Verdict.INCONCLUSIVE,
}
"""The verdict that a label asks for."""


class Origin(StrEnum):
    """The origin of a run and its label."""

    SEEDED = "seeded"
    """A right run, or one altered by the fault engine: the label holds by construction."""
    LIVE = "live"
    """An agent ran in its sandbox; the label is what `cases.yaml` says it must get."""
    IMPORTED = "imported"
    """A public benchmark's run, with the label that its later human corrections agree on."""
    LABELLED = "labelled"
    """A public benchmark's run, with the label that blind passes settled."""
    HARMED = "harmed"
    """A public benchmark's passing run with harm seeded beside the task."""
    REVIEWED = "reviewed"
    """A trial of a run folder; the label is what its reviewers settled."""


@dataclass(frozen=True)
class Gold:
    """The right runs of a task, for evaluators that compare with one. The first is *the* gold."""

    runs: tuple[Reference, ...]


@dataclass(frozen=True, kw_only=True)
class StudyCase:
    """One labelled run: what it is of, and how it came about."""

    domain: str
    task: str
    name: str
    origin: Origin
    kind: str
    """Its fault class, its twin's operator, or `right-run`."""
    sentence: str
    label: Label


@dataclass(frozen=True, kw_only=True)
class LabelledCase(StudyCase):
    """One labelled run, and all that an evaluator may look at."""

    run: Reference
    gold: Gold
    is_variant: bool = False
    """True if only the representation differs from a right run."""
    world: World | None = None
    """The right run that `fault` was seeded into; None where nothing was seeded."""
    fault: Fault | None = None
    judgement: Judgement | None = None
    """What the whole judge makes of it, where that is known already."""
    untried: tuple[Untried, ...] = ()
    """Of a right run: what nothing seeded into it tries."""


@dataclass(frozen=True)
class EvaluatorOpinion:
    """One evaluator's opinion of one case, and where it sends its reader."""

    verdict: Verdict
    entities: int = 0
    """Distinct entities that a reader must look at."""
    actions: int = 0
    """Calls that a reader must look at."""
    hits: bool | None = None
    """Whether they include what was altered; None where nothing was, or nobody knows what."""
    shows: bool = False
    """True if what the evaluator keeps shows what it may have got wrong."""


@dataclass(frozen=True)
class Look:
    """The label of a reviewer who saw only what one evaluator shows."""

    evaluator: str
    seconds: int
    is_right: bool
    """The label is the one that was settled by those who saw everything."""


@dataclass(frozen=True, kw_only=True)
class ScoredCase(StudyCase):
    """A case with the opinions on it. Small: captures are gone."""

    is_variant: bool
    opinions: Mapping[str, EvaluatorOpinion]
    """By evaluator; one that could not judge the case is not in it."""
    errors: Mapping[str, str]
    """By evaluator: why it could not."""
    seconds: tuple[int, ...] = ()
    """How long each review of it took, where reviewers recorded that."""
    looks: tuple[Look, ...] = ()
    told: tuple[tuple[Component | None, bool | None, tuple[Failure, ...]], ...] = ()
    """What reviewers say failed in the evaluator: stage, correctable or not, kinds [TV §3.4]."""
    untried: tuple[Untried, ...] = ()
    """Of a right run: what nothing seeded into it tries."""


def scored_from(told: Mapping[str, Any]) -> ScoredCase:
    """The scored case that `asdict` wrote, by way of JSON."""
    return TypeAdapter(ScoredCase).validate_python(told)


SCORED: Final[Form[ScoredCase]] = Form("study", scored_from)
