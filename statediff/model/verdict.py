"""Truth, findings, verdicts and the numbers beside them (docs/design.md §3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, StrEnum
from fractions import Fraction

from statediff.later import Later
from statediff.model.codes import FindingCode, Stage, Truth, check_code
from statediff.model.delta import Delta, Doubt, HiddenDelta
from statediff.model.explanation import Explanation
from statediff.model.sentences import sentence
from statediff.model.values import Key, Observed

__all__ = [
    "RESULT_OF_STAGE",
    "ClauseTruth",
    "Comparison",
    "Finding",
    "Judgement",
    "Metrics",
    "Result",
    "Stage",
    "Truth",
    "Verdict",
    "Witness",
    "WitnessRow",
    "leading_failure",
]


class Verdict(StrEnum):
    """The answer to a trial; see `policy.judge.fold`. Each equals its name as text."""

    MATCH = "MATCH"
    DIVERGE = "DIVERGE"
    INCONCLUSIVE = "INCONCLUSIVE"


class Result(Enum):
    """The three results beside the verdict [TV §3.6]; each folds its own clauses."""

    __hash__ = object.__hash__  # enumerations hash their names, which takes longer

    TOOL = "tool"
    TASK = "task"
    OUTCOME = "outcome"


RESULT_OF_STAGE = {
    Stage.FORBID: Result.OUTCOME,
    Stage.FRAME: Result.OUTCOME,
    Stage.REQUIRE: Result.OUTCOME,
    Stage.STEPS: Result.OUTCOME,
    Stage.ACTIONS: Result.TOOL,
    Stage.ANSWER: Result.TASK,
    Stage.ACCESS: Result.TASK,
}


@dataclass(frozen=True)
class WitnessRow:
    """A fragment of state that shows a finding: `side` is before, after or trace (a call)."""

    side: str
    type: str
    key: Key
    fields: tuple[tuple[str, Observed], ...]


@dataclass(frozen=True)
class Comparison:
    """Both sides of a comparison that decided a clause, as text of the contract and as values."""

    text: str
    left: Explanation
    right: Explanation
    operator: str


@dataclass(frozen=True)
class Witness:
    """The small state fragment and comparisons that show a finding; small, not proven minimal."""

    rows: tuple[WitnessRow, ...] = ()
    comparisons: tuple[Comparison, ...] = ()


@dataclass(frozen=True)
class Finding(Later):
    """What a clause yielded.

    `code` is stable (docs/findings.md); `holds` where nothing is wrong. `causes` names each
    observation that UNKNOWN waits for. `TypeError` for a code that is not registered,
    `ValueError` for one that may not have this truth at this stage.
    """

    clause: str
    code: FindingCode
    stage: Stage
    truth: Truth
    explanation: Explanation
    _: KW_ONLY
    deltas: tuple[str, ...] = field(default_factory=tuple)
    evidence: tuple[str, ...] = field(default_factory=tuple)
    witness: Witness = field(default_factory=Witness)
    causes: tuple[Explanation, ...] = ()
    rank: int = 0
    """Order among findings of one stage: irreversible before conditional before reversible."""

    def __post_init__(self) -> None:
        """Refuse a code that the registry does not have for this stage and truth."""
        check_code(self.code, self.stage, self.truth)

    @property
    def component(self) -> str:
        """The pipeline stage that owns the cause: capture, resolve or policy."""
        return self.code.component

    @property
    def sentence(self) -> str:
        """The explanation in English."""
        return sentence(self.explanation)

    @property
    def missing(self) -> tuple[str, ...]:
        """The causes in English."""
        return tuple(map(sentence, self.causes))


@dataclass(frozen=True)
class Metrics:
    """[SSD eqs. 5–6], exact; None where undefined. The paper's text swaps the first two names."""

    precision: Fraction | None
    recall: Fraction | None
    forbidden_effect_rate: Fraction


@dataclass(frozen=True)
class ClauseTruth:
    """The truth of one clause after all its findings."""

    clause: str
    stage: Stage
    truth: Truth
    is_about_calls: bool = False
    """Whether a step is about the calls alone, so that it tells of the tools, not of the world."""

    @property
    def result(self) -> Result:
        """The one of the three results that the clause belongs to."""
        return Result.TOOL if self.is_about_calls else RESULT_OF_STAGE[self.stage]


@dataclass(frozen=True, kw_only=True)
class Judgement(Later):
    """Everything policy decided about one trial."""

    verdict: Verdict
    tool: Verdict | None
    task: Verdict | None
    outcome: Verdict | None
    """None where the contract has no clause of that result."""
    clauses: tuple[ClauseTruth, ...]
    findings: tuple[Finding, ...]
    metrics: Metrics
    deltas: tuple[Delta, ...]
    explained_by: tuple[tuple[str, tuple[str, ...]], ...] = field(default_factory=tuple)
    """(delta id, clauses that explain it), in delta order."""
    hidden: tuple[HiddenDelta, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    during: tuple[Delta, ...] = ()
    """What single transactions changed, as far as findings name it; no part of the net deltas."""

    def truth_of(self, clause: str) -> Truth:
        for entry in self.clauses:
            if entry.clause == clause:
                return entry.truth
        raise KeyError(clause)


def leading_failure(findings: Iterable[Finding]) -> Finding | None:
    """The failing finding to read first: a near miss of what is required goes before the frame.

    A witness is worked out when somebody asks, so nothing but a frame that fails first asks.
    """
    fails = [finding for finding in findings if finding.truth is Truth.FAILS]
    if not fails or fails[0].stage is not Stage.FRAME:
        return fails[0] if fails else None
    near = (f for f in fails if f.stage is Stage.REQUIRE and f.witness.comparisons)
    return next(near, fails[0])
