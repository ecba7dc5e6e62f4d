"""Truth, findings, verdicts, the numbers beside them, how a run stands (docs/design.md §3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import Enum, StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Final

from statediff.model.codes import FindingCode, Stage, Truth, check_code
from statediff.model.delta import Delta, Doubt, HiddenDelta
from statediff.model.explanation import Explanation
from statediff.model.sentences import sentence
from statediff.model.values import Key, Observed

__all__ = [
    "FOR_GOOD",
    "RESULT_OF_STAGE",
    "SO_FAR",
    "ClauseTruth",
    "Comparison",
    "Decision",
    "Explained",
    "Finding",
    "Judgement",
    "Metrics",
    "Moment",
    "Result",
    "SoFar",
    "Stage",
    "Truth",
    "Verdict",
    "Witness",
    "WitnessRow",
    "is_own",
    "leading_failure",
    "own_name",
]


class Verdict(StrEnum):
    """The answer to a trial; see `kernel.policy.findings`. Each equals its name as text."""

    MATCH = "MATCH"
    DIVERGE = "DIVERGE"
    INCONCLUSIVE = "INCONCLUSIVE"


class Decision(StrEnum):
    """The decision of a guard on a run that is not over, by its net change so far.

    DENY: something is forbidden, or nothing explains it. HOLD: an effect lacks its authorization,
    an irreversible change has none at all, or something is not decided. Else ALLOW.
    """

    ALLOW = "allow"
    HOLD = "hold"
    DENY = "deny"


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
class Finding:
    """The outcome of a clause.

    `code` is stable (`statediff.model.codes`); `holds` where nothing is wrong. `causes` names each
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
    """True if a step is about the calls alone, so that it tells of the tools, not of the world."""

    @cached_property
    def result(self) -> Result:
        """The one of the three results that the clause belongs to."""
        return Result.TOOL if self.is_about_calls else RESULT_OF_STAGE[self.stage]


MAX_CALLS_SHOWN: Final = 50
"""Calls of which one clause has a finding each."""
OF_COUNTERS: Final = "frame/counter"
"""The explanation of a counter that follows the rows: no clause of a contract."""
OF_CATALOGUE: Final = "frame/catalogue"
"""The explanation of a change that the database makes after another one: `clauses.causes`."""


@dataclass(frozen=True, kw_only=True)
class Explained:
    """The explanation of a judgement."""

    findings: tuple[Finding, ...]
    metrics: Metrics
    explained_by: tuple[tuple[str, tuple[str, ...]], ...]
    """(delta id, clauses that explain it), in delta order."""
    during: tuple[Delta, ...]
    """The changes of single transactions that findings name; no part of the net deltas."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Judgement:
    """Everything policy decided about one trial."""

    verdict: Verdict
    tool: Verdict | None
    task: Verdict | None
    outcome: Verdict | None
    """None where the contract has no clause of that result."""
    clauses: tuple[ClauseTruth, ...]
    deltas: tuple[Delta, ...]
    hidden: tuple[HiddenDelta, ...]
    doubts: tuple[Doubt, ...]
    explain: Callable[[], Explained] = field(repr=False)
    explain_open: Callable[[], tuple[Finding, ...]] | None = field(default=None, repr=False)
    """Makes the findings that do not hold, where that takes less work than all of them."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Judgement) and self._all == other._all

    def __hash__(self) -> int:
        return hash(self.clauses)

    @property
    def _all(self) -> tuple[object, ...]:
        decided = self.verdict, self.tool, self.task, self.outcome, self.clauses, self.deltas
        return *decided, self.hidden, self.doubts, self.explained

    @cached_property
    def explained(self) -> Explained:
        """The explanation, worked out when it is first read."""
        return self.explain()

    @cached_property
    def open(self) -> tuple[Finding, ...]:
        """The findings that do not hold."""
        if self.explain_open is not None:
            return self.explain_open()
        return tuple(each for each in self.findings if each.truth is not Truth.HOLDS)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.explained.findings

    @property
    def metrics(self) -> Metrics:
        return self.explained.metrics

    @property
    def explained_by(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return self.explained.explained_by

    @property
    def during(self) -> tuple[Delta, ...]:
        return self.explained.during

    @property
    def failed(self) -> tuple[str, ...]:
        """The clauses that do not hold, in report order."""
        return tuple(entry.clause for entry in self.clauses if entry.truth is not Truth.HOLDS)

    def truth_of(self, clause: str) -> Truth:
        for entry in self.clauses:
            if entry.clause == clause:
                return entry.truth
        raise KeyError(clause)


def leading_failure(findings: Iterable[Finding]) -> Finding | None:
    """The failing finding to read first: a near miss of what is required goes before the frame."""
    fails = [finding for finding in findings if finding.truth is Truth.FAILS]
    if not fails or fails[0].stage is not Stage.FRAME:
        return fails[0] if fails else None
    near = (f for f in fails if f.stage is Stage.REQUIRE and f.witness.comparisons)
    return next(near, fails[0])


# ---------------------------------------------------------------- a run that is not over

FOR_GOOD: Final = "for good/"
"""Begins the id of a clause about what no end of the run can make good."""
SO_FAR: Final = "so far/"
"""Begins the id of the alternatives without what their branches require."""


def is_own(clause: str) -> bool:
    """True if it is a clause of the contract, as it stands there."""
    return not clause.startswith((SO_FAR, FOR_GOOD))


def own_name(clause: str) -> str:
    """The clause as the contract calls it."""
    return clause.removeprefix(FOR_GOOD).removeprefix(SO_FAR)


@dataclass(frozen=True, kw_only=True)
class SoFar:
    """How a run stands that is not over."""

    decision: Decision
    is_lost: bool
    """No continuation of the run can be MATCH."""
    is_right: bool
    """The states are as the contract wants them at the end."""
    held: tuple[Delta, ...]
    """Irreversible changes that no satisfied `authorized_by` covers."""
    judgement: Judgement
    deciding: tuple[str, ...]
    """The clauses that decide it, those violated for good first; none where only `held` does."""

    @property
    def finding(self) -> Finding | None:
        """The finding that decides, under its clause's own name; None where only `held` does."""
        if not self.deciding:
            return None
        first = next(f for f in self.judgement.open if f.clause == self.deciding[0])
        return replace(first, clause=own_name(first.clause))

    @property
    def broken(self) -> tuple[str, ...]:
        """The clauses of the contract that the states violate, as they are."""
        entries = self.judgement.clauses
        return tuple(e.clause for e in entries if e.truth is Truth.FAILS and is_own(e.clause))


@dataclass(frozen=True, kw_only=True)
class Moment:
    """How a run stood after one of its transactions."""

    source: str
    number: int
    """Which of the source's transactions, from 1."""
    position: str
    """The source's own name for it."""
    is_right: bool
    broken: tuple[str, ...]
    """The clauses that the states violated then."""
    lost: tuple[str, ...]
    """The clauses that no end could make good any more."""
