"""The registry of finding codes: what a clause can yield, at which stage, and what it means.

A code is stable: bundles, `--json` and the tables of runs hold its text. A stage emits members of
`FindingCode`, never text, and `Finding` refuses a code that may not have its stage or its truth.
The site makes its page from here; tests compare the registry with what the stages emit.

A bundle of another version may hold a code that is not here: `meaning_of` returns nothing for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Any, Final, NamedTuple, Self


class Truth(Enum):
    """Strong Kleene truth."""

    __hash__ = object.__hash__  # enumerations hash their names, which takes longer

    HOLDS = "HOLDS"
    FAILS = "FAILS"
    UNKNOWN = "UNKNOWN"


class Stage(Enum):
    """The stages of judgement, in the order of the report [SSD §VII]."""

    __hash__ = object.__hash__  # enumerations hash their names, which takes longer

    FORBID = "forbid"
    FRAME = "frame"
    REQUIRE = "require"
    STEPS = "steps"
    ACTIONS = "actions"
    ANSWER = "answer"
    ACCESS = "access"


class Origin(StrEnum):
    """The reason that kept a clause from being decided."""

    AGENT = "agent"
    """The run wrote more than is judged, or what it did keeps something from being known."""
    ENVIRONMENT = "environment"
    """A system, a reading or the recording of the run does not show it."""
    CONTRACT = "contract"
    """Nothing that is known decides it under the contract as it is written."""


class _Entry(NamedTuple):
    code: str
    stages: Mapping[Truth, tuple[Stage, ...]]
    meaning: str
    note: str = ""
    component: str = "policy"
    is_omission: bool = False
    origin: Origin | None = None


def _violation(
    code: str, *stages: Stage, meaning: str, note: str = "", is_omission: bool = False
) -> _Entry:
    return _Entry(code, {Truth.FAILS: stages}, meaning, note, is_omission=is_omission)


def _question(
    code: str,
    component: str,
    *stages: Stage,
    meaning: str,
    note: str = "",
    origin: Origin = Origin.ENVIRONMENT,
) -> _Entry:
    possible = {Truth.UNKNOWN: stages or tuple(Stage)}
    return _Entry(code, possible, meaning, note, component, origin=origin)


def _ruling(code: str, truth: Truth, *, meaning: str) -> _Entry:
    return _Entry(code=code, stages={truth: ()}, meaning=meaning)


class FindingCode(StrEnum):
    """Every code of a finding of a clause, and of a ruling of `statediff lab reads`."""

    stages: Mapping[Truth, tuple[Stage, ...]]
    """The truths that it may have, and at which stages; no stage where only rulings have it."""
    component: str
    """The pipeline stage that owns the cause: capture, resolve or policy."""
    meaning: str
    """The meaning in plain English, as reports print it."""
    note: str
    """Advice for the author of a contract beyond the meaning; often none."""
    origin: Origin | None
    """The origin of a clause left open with this code, unless its causes say otherwise."""
    is_omission: bool
    """True if it says nothing but that something required was not done.

    What was done too late, too often or wrongly is no omission. Nor is what an answer lacks or
    fails to rest on: to give that answer was an act.
    """

    def __new__(cls, *described: Any) -> Self:
        """The member that an entry describes."""
        entry = _Entry(*described)
        member = str.__new__(cls, entry.code)
        member._value_ = entry.code
        member.stages, member.component, member.origin = entry.stages, entry.component, entry.origin
        member.meaning, member.note, member.is_omission = (
            entry.meaning,
            entry.note,
            entry.is_omission,
        )
        return member

    HOLDS = _Entry(
        code="holds",
        stages={Truth.HOLDS: tuple(Stage)},
        meaning="the clause holds",
    )
    FORBIDDEN_CHANGE = _violation(
        "forbidden-change",
        Stage.FORBID,
        meaning="a change that is forbidden, whatever else explains it",
    )
    FORBIDDEN_CONDITION = _violation(
        "forbidden-condition",
        Stage.FORBID,
        meaning="a condition that must not hold holds",
    )
    UNAUTHORIZED_EFFECT = _violation(
        "unauthorized-effect",
        Stage.FORBID,
        meaning="an effect without the authorization it needs",
    )
    DUPLICATE_EFFECT = _violation(
        "duplicate-effect",
        Stage.FORBID,
        meaning="a repeated call left more such effects than there were different calls",
    )
    UNEXPLAINED_CHANGE = _violation(
        "unexplained-change",
        Stage.FRAME,
        meaning="no clause explains the change",
        note="only `allow` and `require` clauses can",
    )
    HISTORY_BROKEN = _violation(
        "history-broken",
        Stage.FRAME,
        meaning="the run itself ended or destroyed a history that the contract requires",
        note="`history: required` asks for all of it",
    )
    READINGS_PARTED = _violation(
        "readings-parted",
        Stage.FRAME,
        meaning="readings that agreed before the run contradict each other after it",
        note="whichever is right, something changed; `authority` says which one decides",
    )
    MISSING_CHANGE = _violation(
        "missing-change",
        Stage.REQUIRE,
        meaning="fewer changes than required",
        note="too few entities match the clause",
        is_omission=True,
    )
    TOO_MANY_CHANGES = _violation(
        "too-many-changes",
        Stage.REQUIRE,
        meaning="more changes than allowed",
        note="too many entities match the clause",
    )
    DERIVED_WRONG = _violation(
        "derived-wrong",
        Stage.REQUIRE,
        meaning="a field that the system keeps neither equals its expression nor moved with it",
    )
    NO_BRANCH_HOLDS = _violation(
        "no-branch-holds",
        Stage.REQUIRE,
        meaning="none of the ways that the contract accepts was taken",
        note="every branch of `any_of`, or every reading of `disputed`, fails; each says why",
    )
    REQUIREMENT_FAILED = _violation(
        "requirement-failed",
        Stage.REQUIRE,
        meaning="the change is there, but it is not what was required",
        note="`that` fails of the entities, or a condition fails",
    )
    INVARIANT_BROKEN = _violation(
        "invariant-broken",
        Stage.STEPS,
        meaning="what must always hold does not hold in some state of the run",
    )
    STEP_FAILED = _violation(
        "step-failed",
        Stage.STEPS,
        meaning="what must hold at a call, or after it, does not hold",
    )
    EFFECTS_OUT_OF_ORDER = _violation(
        "effects-out-of-order",
        Stage.STEPS,
        meaning="an effect came before the one that must come first",
    )
    TOO_FEW_CALLS = _violation(
        "too-few-calls",
        Stage.STEPS,
        meaning="the agent made fewer such calls than required",
        is_omission=True,
    )
    TOO_MANY_CALLS = _violation(
        "too-many-calls",
        Stage.STEPS,
        meaning="the agent made more such calls than allowed",
    )
    TURN_FAILED = _violation(
        "turn-failed",
        Stage.STEPS,
        meaning="what must hold after a turn does not hold",
        note="the first turn that fails says so",
    )
    ACTION_FORBIDDEN = _violation(
        "action-forbidden",
        Stage.ACTIONS,
        meaning="the agent called a tool, or a class of tools, that is forbidden",
    )
    ACTION_OUTSIDE = _violation(
        "action-outside",
        Stage.ACTIONS,
        meaning="the agent called a tool, or a class of tools, that is not allowed",
    )
    ACTION_UNREPAIRED = _violation(
        "action-unrepaired",
        Stage.ACTIONS,
        meaning="a call failed, and no call of its tool succeeded within the attempts",
        is_omission=True,
    )
    UNDEFINED = _Entry(
        code="undefined",
        stages={
            Truth.FAILS: (Stage.REQUIRE, Stage.STEPS, Stage.ANSWER),
            Truth.UNKNOWN: (Stage.FORBID,),
        },
        meaning="a computation with nothing, null or absent",
        note="such a clause fails; in `forbid` and `allow` it decides nothing, if not by the run",
        origin=Origin.CONTRACT,
    )
    ANSWER_MISSING = _violation(
        "answer-missing",
        Stage.ANSWER,
        meaning="no answer that could be read",
        is_omission=True,
    )
    ANSWER_INVALID = _violation(
        "answer-invalid",
        Stage.ANSWER,
        meaning="an answer of another form than asked for",
        note="it lacks a name, or has a value of another type",
    )
    CLAIM_REFUTED = _violation(
        "claim-refuted",
        Stage.ANSWER,
        meaning="a claim of the answer is not so",
    )
    STATE_INVALID_CORRECT = _violation(
        "state-invalid-correct",
        Stage.ACCESS,
        meaning="what was asked for is right, and was not validly reached",
        note="the findings beside it say why",
    )
    ACCESS_VIOLATION = _violation(
        "access-violation",
        Stage.ACCESS,
        meaning="a call asked for what the actor may not read",
        note="the finding says whether it was refused or leaked",
    )
    SUBSYSTEM_VIOLATION = _violation(
        "subsystem-violation",
        Stage.ACCESS,
        meaning="a search where the actor may not look",
        note="the subsystem is not granted to the actor",
    )
    HORIZON_VIOLATION = _violation(
        "horizon-violation",
        Stage.ACCESS,
        meaning="a call asked for what was not there yet",
        note="the artifact is later than the contract's date",
    )
    UNSEARCHED_ABSENCE = _violation(
        "unsearched-absence",
        Stage.ACCESS,
        meaning="something is denied that was not looked for everywhere",
        note="the declared search space was not covered",
    )
    EVIDENCE_NOT_RETRIEVED = _violation(
        "evidence-not-retrieved",
        Stage.ACCESS,
        meaning="what the answer must rest on was not fetched in time",
        note="it was not fetched at all, only after the answer, or not validly",
    )
    EVIDENCE_NOT_CITED = _violation(
        "evidence-not-cited",
        Stage.ACCESS,
        meaning="what the answer must rest on is not cited",
    )
    HALLUCINATED_CITATION = _violation(
        "hallucinated-citation",
        Stage.ACCESS,
        meaning="a citation of what there is not",
        note="it does not exist, or was not in the window that was offered",
    )
    INVALID_CITATION = _violation(
        "invalid-citation",
        Stage.ACCESS,
        meaning="a citation of what the actor may not read",
        note="or of what was not there yet",
    )
    CITATION_NOT_RETRIEVED = _violation(
        "citation-not-retrieved",
        Stage.ACCESS,
        meaning="a citation of what was never fetched",
    )

    UNOBSERVED = _question(
        "unobserved",
        "capture",
        meaning="a value the clause needs was not observed",
    )
    SOURCE_UNREAD = _question(
        "source-unread",
        "capture",
        meaning="a source could not be read",
    )
    EVIDENCE_MISSING = _question(
        "evidence-missing",
        "capture",
        meaning="a source that must report was never read",
    )
    EVIDENCE_STALE = _question(
        "evidence-stale",
        "policy",
        meaning="a reading outside its window, or too old",
    )
    EVIDENCE_UNSETTLED = _question(
        "evidence-unsettled",
        "policy",
        meaning="a system had not come to rest",
        note="the wait for it had ended",
    )
    EVIDENCE_FORGEABLE = _question(
        "evidence-forgeable",
        "policy",
        meaning="the agent could have made the reading itself",
        note="or the log of its calls",
    )
    EVIDENCE_ACKNOWLEDGEMENT_ONLY = _question(
        "evidence-acknowledgement-only",
        "policy",
        meaning="a system's word instead of a look at its state",
        note="the contract does not accept that word about an effect",
        origin=Origin.CONTRACT,
    )
    EVIDENCE_CONTRADICTORY = _question(
        "evidence-contradictory",
        "resolve",
        meaning="readings differ and none has the authority",
        note="each of them is admissible",
    )
    IDENTITY_AMBIGUOUS = _question(
        "identity-ambiguous",
        "resolve",
        meaning="several ways to pair entities, with different results",
        note="the truth of the clause depends on the pairing",
        origin=Origin.CONTRACT,
    )
    HISTORY_UNOBSERVED = _question(
        "history-unobserved",
        "capture",
        meaning="what happened during the run was not recorded",
        note="or not in which order",
    )
    CONTRACT_AMBIGUITY = _question(
        "contract-ambiguity",
        "policy",
        Stage.REQUIRE,
        meaning="the readings of a disputed task are decided, and differ",
        origin=Origin.CONTRACT,
    )
    TRACE_UNOBSERVED = _question(
        "trace-unobserved",
        "capture",
        meaning="the clause asks for the agent's calls or turns, and the log may lack some",
    )

    WRONG_ANSWER = _ruling(
        "wrong-answer",
        Truth.FAILS,
        meaning="the structured answer is not right enough for its track",
    )
    NOT_A_READ = _ruling(
        "not-a-read",
        Truth.UNKNOWN,
        meaning="a call reads nothing, and only the state after it can judge it",
    )
    UNRECORDED_READS = _ruling(
        "unrecorded-reads",
        Truth.UNKNOWN,
        meaning="calls may be missing from the log",
    )


def check_code(code: object, stage: Stage, truth: Truth) -> None:
    """The code is registered, and may have this truth at this stage: else TypeError, ValueError."""
    if not isinstance(code, FindingCode):
        raise TypeError(f"{code!r} is no FindingCode; add it to statediff/model/codes.py")
    if stage not in code.stages.get(truth, ()):
        raise ValueError(f"the code {code} may not be {truth.value} at the stage {stage.value}")


_MEANINGS: Final = {code.value: code.meaning for code in FindingCode}


_ORIGINS: Final = {code.value: code.origin for code in FindingCode}


def origin_of(code: str) -> Origin | None:
    """The origin of a code that a bundle holds as text; None for a decided or an unknown one."""
    return _ORIGINS.get(code)


def meaning_of(code: str) -> str:
    """The meaning of a code that a bundle holds as text; empty for one of another version."""
    return _MEANINGS.get(code, "")
