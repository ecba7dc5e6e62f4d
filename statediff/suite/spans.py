"""Each call by itself: valid, permitted, authorized, and its effects as they may be [STA].

The end of a run says whether the world is right; a call's row says whether this step was. Neither
overrides the other, and where they disagree that is the diagnosis. Nothing is judged anew: a row is
what the clauses found of this call, so a bundle of any version has it.

* valid: the call ended without an error, and a contract that bounds repairs holds of it;
* permitted: the clauses about tools and classes of calls; no cell without such a clause;
* authorized: effects that need an authorization, of a call that changed something;
* matched: each change that the call made is explained by a clause and breaks none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from statediff.model.codes import FindingCode, Stage, Truth
from statediff.model.explanation import Reason
from statediff.model.sentences import sentence
from statediff.model.trace import ActionClass

Json = Any
HOLDS: Final = Truth.HOLDS.value
FAILS: Final = Truth.FAILS.value
UNKNOWN: Final = Truth.UNKNOWN.value
QUESTIONS: Final = ("valid", "permitted", "authorized", "matched")
_RISING: Final = (HOLDS, UNKNOWN, FAILS)
_OF_EFFECTS: Final = frozenset(
    stage.value for stage in (Stage.FORBID, Stage.FRAME, Stage.REQUIRE, Stage.STEPS)
)


@dataclass(frozen=True)
class Span:
    """One call and the truth of each question about it; None where no clause asks."""

    call: str
    tool: str
    valid: str
    permitted: str | None
    authorized: str | None
    matched: str | None
    breaks: tuple[str, ...]
    """The clauses that fail on it."""

    @property
    def truths(self) -> tuple[tuple[str, str | None], ...]:
        """Each question with its truth, in the order of `QUESTIONS`."""
        return tuple((name, getattr(self, name)) for name in QUESTIONS)

    @property
    def truth(self) -> str:
        """The worst of them."""
        found = [truth for _, truth in self.truths if truth is not None]
        return max(found, key=_RISING.index)


@dataclass(frozen=True)
class SpanCounts:
    """The calls of a trial: how many, and how many are wrong or not known to be right."""

    number: int = 0
    wrong: int = 0
    unknown: int = 0

    @staticmethod
    def of(spans: Iterable[Span]) -> SpanCounts:
        """The counts of these calls."""
        truths = [span.truth for span in spans]
        return SpanCounts(len(truths), truths.count(FAILS), truths.count(UNKNOWN))

    def __str__(self) -> str:
        """How many, and how many are not right, such as `1 wrong, 2 not known, of 12`."""
        counts = ((self.wrong, "wrong"), (self.unknown, "not known"))
        bad = ", ".join(f"{number:,} {what}" for number, what in counts if number)
        return f"{bad}, of {self.number:,}" if bad else f"{self.number:,}"


class Callers:
    """The calls that the findings of a bundle are about, by their ids."""

    def __init__(self, judgement: Json, trace: Json, history: Json) -> None:
        observed = trace.get("observed", [])
        self.listed: list[Json] = [*trace["actions"], *observed]
        self.by_id: Mapping[str, Json] = {str(action["id"]): action for action in self.listed}
        self.observed = {str(action["id"]) for action in observed}
        deltas = (*judgement["deltas"], *judgement["during"])
        self.maker: Mapping[str, str] = {
            d["id"]: d["action"] for d in deltas if d["action"] is not None
        }
        self._left: dict[str, list[str]] = {}
        for delta in judgement["deltas"]:
            if delta["action"] is not None:
                self._left.setdefault(_entity(delta), []).append(delta["action"])
        self._moments = dict(_moments(self.listed, history))

    def about(self, finding: Json) -> tuple[str, ...]:
        """Who left its changes, calls it names, and who left what its witnesses show."""
        ids = [self.maker.get(name) for name in finding["deltas"]]
        ids += [name if name in self.by_id else None for name in finding["evidence"]]
        rows = finding["witness"]["rows"]
        ids += [self._moments.get(row["side"]) for row in rows]
        if not any(ids):
            ids += [maker for row in rows for maker in self._left.get(_entity(row), ())]
        return tuple(dict.fromkeys(i for i in ids if i is not None))


def spans(judgement: Json, trace: Json, history: Json) -> tuple[Span, ...]:
    """A row for each recorded call, in order; none of what a system's history alone tells."""
    callers = Callers(judgement, trace, history)
    about: dict[str, list[Json]] = {}
    for finding in judgement["findings"]:
        for call in callers.about(finding):
            about.setdefault(call, []).append(finding)
    asked = _Asked(judgement, callers)
    made: dict[str, list[str]] = {}
    for delta in judgement["deltas"]:
        if (maker := callers.maker.get(delta["id"])) is not None:
            made.setdefault(maker, []).append(delta["id"])
    return tuple(
        asked.span(action, about.get(str(action["id"]), []), made.get(str(action["id"]), []))
        for action in trace["actions"]
    )


class _Asked:
    """The questions about calls in the clauses of a judgement."""

    def __init__(self, judgement: Json, callers: Callers) -> None:
        findings = judgement["findings"]
        actions = [f for f in findings if f["stage"] == Stage.ACTIONS.value]
        self._of_tools = bool(actions)
        self._open = any(f["truth"] == UNKNOWN and not callers.about(f) for f in actions)
        self._of_authority = any(
            f["code"] == FindingCode.UNAUTHORIZED_EFFECT or _says_authorized(f) for f in findings
        )
        self._explained = {delta for delta, clauses in judgement.get("explained_by", ()) if clauses}

    def span(self, action: Json, about: list[Json], made: list[str]) -> Span:
        """The row of one call: `about` are the findings about it, `made` its changes by id."""
        failing = [f for f in about if f["truth"] == FAILS]
        unrepaired = any(f["code"] == FindingCode.ACTION_UNREPAIRED for f in failing)
        return Span(
            call=str(action["id"]),
            tool=str(action["tool"]),
            valid=FAILS if action["error"] is not None or unrepaired else HOLDS,
            permitted=self._permitted(about),
            authorized=self._authorized(failing, made),
            matched=self._matched(action, failing, made),
            breaks=tuple(dict.fromkeys(str(f["clause"]) for f in failing)),
        )

    def _permitted(self, about: list[Json]) -> str | None:
        if not self._of_tools:
            return None
        found: list[str] = [
            f["truth"]
            for f in about
            if f["stage"] == Stage.ACTIONS.value and f["code"] != FindingCode.ACTION_UNREPAIRED
        ]
        return max((UNKNOWN if self._open else HOLDS, *found), key=_RISING.index)

    def _authorized(self, failing: list[Json], made: list[str]) -> str | None:
        if any(f["code"] == FindingCode.UNAUTHORIZED_EFFECT for f in failing):
            return FAILS
        return HOLDS if self._of_authority and made else None

    def _matched(self, action: Json, failing: list[Json], made: list[str]) -> str | None:
        if any(
            f["stage"] in _OF_EFFECTS and f["code"] != FindingCode.UNAUTHORIZED_EFFECT
            for f in failing
        ):
            return FAILS
        if made:
            return HOLDS if self._explained.issuperset(made) else UNKNOWN
        is_read = action["class"] == ActionClass.READ.value
        return None if is_read or action.get("transactions") is not None else UNKNOWN


_AUTHORIZED: Final = Reason.ALL_AUTHORIZED()


def _says_authorized(finding: Json) -> bool:
    """True if it is of a clause about authorization that holds, worded or as a bundle has it."""
    told = finding.get("explanation")
    return bool(
        told == _AUTHORIZED.document() if told else finding["sentence"] == sentence(_AUTHORIZED)
    )


def _entity(place: Json) -> str:
    return json.dumps([place["type"], place["key"]])


def _moments(actions: Iterable[Json], history: Json) -> Iterator[tuple[str, str]]:
    """The name of each state that a transaction left → the one call that says it made that."""
    claimed: dict[tuple[str, str], set[str]] = {}
    for action in actions:
        for source, name in action.get("transactions", ()):
            if name is not None:
                claimed.setdefault((source, name), set()).add(str(action["id"]))
    numbers: dict[str, int] = {}
    for entry in history["transactions"]:
        source = entry["source"]
        numbers[source] = numbers.get(source, 0) + 1
        names = (entry["id"], entry["position"], *entry.get("names", ()))
        who = set().union(*(claimed.get((source, name), set()) for name in names))
        if len(who) == 1:
            yield f"moment {numbers[source]} of {source}", who.pop()
