"""A judgement for a trainer or a guard: a score, and the standing of a run that goes on.

Their words are found when they are read. A `Score` has a reward only where the verdict is decided:
INCONCLUSIVE is never a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from statediff.errors import StatediffError
from statediff.later import Later, later
from statediff.model.codes import Origin, Truth
from statediff.model.explanation import is_by_agent
from statediff.model.verdict import Decision, Finding, Judgement, SoFar, Verdict, leading_failure

REWARDS: Final[Mapping[Verdict, float]] = {Verdict.MATCH: 1.0, Verdict.DIVERGE: 0.0}
"""A verdict that is not decided has none."""


@dataclass(frozen=True, kw_only=True)
class Score(Later):
    """The score of a judged run; the words of `why` are found when they are read.

    It is neither true nor false: a verdict has three values. Compare `verdict`.
    """

    verdict: Verdict
    reward: float | None
    """1.0 for MATCH, 0.0 for DIVERGE, None for INCONCLUSIVE: leave that run out."""
    parts: Mapping[str, float]
    """Section of the contract → the share of its clauses that hold, from 0.0 to 1.0.

    All of a MATCH are 1.0, at least one of a DIVERGE is less; INCONCLUSIVE has none. They are
    beside the reward and never in it.
    """
    why: str
    """The clauses that do not hold; of INCONCLUSIVE first whose doing it is."""

    def __bool__(self) -> bool:
        raise TypeError(
            "a score is neither true nor false: INCONCLUSIVE is no pass and no failure; compare "
            "`.verdict`, or leave the run out where `.reward` is None"
        )


@dataclass(frozen=True, kw_only=True)
class Standing(Later):
    """How a run stands that is not over; the words of `why` are found when they are read.

    It is neither true nor false: a decision has three values. Compare `decision`.
    """

    decision: Decision
    """ALLOW, HOLD or DENY: what a guard does about the net change so far."""
    is_lost: bool
    """No continuation of the run can be MATCH: a trainer may end it. Then the decision is DENY."""
    is_right: bool
    """The states are as the contract wants them at the end; the answer and the calls are aside."""
    why: str
    """Why it is not ALLOW; of a run that is lost, what cannot be made good."""

    def __bool__(self) -> bool:
        raise TypeError(
            "a standing is neither true nor false: compare `.decision` with Decision.ALLOW, HOLD "
            "or DENY, or ask `.is_lost`"
        )


def standing_of(found: SoFar) -> Standing:
    """The standing of a run so far."""
    made = Standing(decision=found.decision, is_lost=found.is_lost, is_right=found.is_right, why="")
    is_plain = found.decision is Decision.ALLOW
    return made if is_plain else later(made, "why", lambda: _why_so_far(found))


def _why_so_far(found: SoFar) -> str:
    """The finding that decides, in words: what cannot be made good before what may be."""
    finding = found.finding
    if finding is not None:
        return f"{finding.clause}: {finding.sentence}"
    first = found.held[0]
    return f"irreversible, and nothing authorizes it: {first.op.value} {first.id}"


def score_of(judgement: Judgement) -> Score:
    """The score of a judgement."""
    verdict = judgement.verdict
    parts = {} if verdict is Verdict.INCONCLUSIVE else shares(judgement)
    made = Score(verdict=verdict, reward=REWARDS.get(verdict), parts=parts, why="")
    return made if verdict is Verdict.MATCH else later(made, "why", lambda: why(judgement))


def shares(judgement: Judgement) -> dict[str, float]:
    """Section → the share of its clauses that hold; what is not known does not hold."""
    found: dict[str, list[bool]] = {}
    for clause in judgement.clauses:
        found.setdefault(clause.stage.value, []).append(clause.truth is Truth.HOLDS)
    return {name: sum(held) / len(held) for name, held in found.items()}


def why(judgement: Judgement) -> str:
    """The first finding that decides the verdict, in words; nothing of a MATCH."""
    if judgement.verdict is Verdict.MATCH:
        return ""
    wanted = Truth.FAILS if judgement.verdict is Verdict.DIVERGE else Truth.UNKNOWN
    open_ = [finding for finding in judgement.open if finding.truth is wanted]
    if not open_:
        return f"{Origin.CONTRACT}: it has no clause"
    if wanted is Truth.FAILS:
        first = leading_failure(open_) or open_[0]
        return f"{first.clause}: {first.sentence}"
    origins = {origin: finding for finding in reversed(open_) if (origin := lies_with(finding))}
    # What the agent caused is said first: nobody else may be blamed for it.
    origin = next((each for each in Origin if each in origins), Origin.CONTRACT)
    finding = origins.get(origin, open_[0])
    return f"{origin}: {finding.clause}: {finding.sentence}"


def lies_with(finding: Finding) -> Origin | None:
    """The origin that kept the clause of a finding from being decided; None for a decided one."""
    if any(map(is_by_agent, (finding.explanation, *finding.causes))):
        return Origin.AGENT
    return finding.code.origin


def unread(error: Exception) -> Score:
    """The score of a run whose state after cannot be read or judged."""
    said = str(error) if isinstance(error, StatediffError) else f"{type(error).__name__}: {error}"
    return Score(
        verdict=Verdict.INCONCLUSIVE, reward=None, parts={}, why=f"{Origin.ENVIRONMENT}: {said}"
    )
