"""The form of a label: what it offers, and what was said in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from statediff.errors import UsageError
from statediff.reports.html.words import Sign
from statediff.suite.labels import Given, Labelled
from statediff.suite.review_terms import Cause, Component, Failure, Label

Sent = Mapping[str, Sequence[str]]
"""Name of a field → what was sent for it."""

FIELDS: Final = frozenset({"label", "cause", "stage", "correctable", "failure", "note"})
SIGNS: Final = {
    Label.CORRECT: Sign("match", "✓", "correct", "the run did what was asked and nothing else"),
    Label.INCORRECT: Sign("diverge", "✗", "incorrect", "it did not, or did more"),
    Label.UNRESOLVABLE: Sign("inconclusive", "?", "unresolvable", "nobody can tell from this"),
}
_CAUSES: Final = {
    Cause.AGENT: "The agent failed",
    Cause.EVALUATOR: "The evaluator failed",
    Cause.CONTRACT: "The contract is ambiguous",
    Cause.ENVIRONMENT: "The environment failed",
}
_CORRECTABLE: Final = {"yes": True, "no": False}


@dataclass(frozen=True)
class Option:
    """One thing to choose."""

    value: str
    meaning: str
    chosen: bool
    closed: bool = False
    style: str = ""


@dataclass(frozen=True, kw_only=True)
class Form:
    """The form as it stands; without `causes` it asks for the label alone."""

    title: str
    promise: str
    problem: str
    labels: tuple[Option, ...]
    causes: tuple[Option, ...]
    stages: tuple[Option, ...]
    correctable: tuple[Option, ...]
    failures: tuple[Option, ...]
    is_deep: bool
    note: str


def form_view(own: Labelled | None, is_blind: bool, problem: str, draft: Sent) -> Form:
    """The form for a trial with or without a label, filled with what was sent and refused."""
    sent = draft or ({} if own is None else _again(own.given))
    is_fixed = own is not None and own.given.blind
    asks_why = own is not None or not is_blind
    chosen = _one(sent, "label")
    promise = "Signed with your key and kept beside the bundle."
    if own is None and is_blind:
        promise += " Then the verdict shows, and this label stands."
    elif is_fixed:
        promise = "Your label was given blind and stands; you may say why."
    return Form(
        title="Your label",
        promise=promise,
        problem=problem,
        labels=tuple(
            Option(x.value, s.meaning, x.value == chosen, is_fixed and x.value != chosen, s.style)
            for x, s in SIGNS.items()
        ),
        causes=(
            Option("", "Nobody's, or not said", not _one(sent, "cause")),
            *(Option(c.value, told, c.value == _one(sent, "cause")) for c, told in _CAUSES.items()),
        )
        if asks_why
        else (),
        stages=tuple(Option(c.value, c.value, c.value == _one(sent, "stage")) for c in Component),
        correctable=tuple(Option(w, w, w == _one(sent, "correctable")) for w in _CORRECTABLE),
        failures=tuple(
            Option(f.value, f.value.replace("-", " "), f.value in sent.get("failure", ()))
            for f in Failure
        ),
        is_deep=bool(_one(sent, "stage") or _one(sent, "correctable") or sent.get("failure")),
        note=_one(sent, "note"),
    )


def given_from(sent: Sent) -> Given:
    """What a form says; time and blindness are not its to say. `UsageError` names the field."""
    unknown = sorted(set(sent) - FIELDS)
    if unknown:
        raise UsageError(f"the form has no field {unknown[0][:40]!r}")
    doubled = [name for name, values in sent.items() if len(values) > 1 and name != "failure"]
    if doubled:
        raise UsageError(f"{doubled[0]} was sent more than once")
    try:
        cause, stage = _one(sent, "cause"), _one(sent, "stage")
        correctable = _one(sent, "correctable")
        return Given(
            Label(_one(sent, "label")), 0, blind=False,
            cause=Cause(cause) if cause else None, stage=Component(stage) if stage else None,
            is_correctable=_CORRECTABLE[correctable] if correctable else None,
            note=_one(sent, "note").replace("\r\n", "\n").strip(),
            failures=tuple(sorted({Failure(each) for each in sent.get("failure", ())})),
        )  # fmt: skip
    except (ValueError, KeyError) as error:
        raise UsageError(f"choose what the run was: {error}") from error


def _again(given: Given) -> dict[str, Sequence[str]]:
    correctable = {True: "yes", False: "no", None: ""}[given.is_correctable]
    return {
        "label": [given.label.value], "cause": ["" if given.cause is None else given.cause.value],
        "stage": ["" if given.stage is None else given.stage.value], "correctable": [correctable],
        "failure": [each.value for each in given.failures], "note": [given.note],
    }  # fmt: skip


def _one(sent: Sent, name: str) -> str:
    return next(iter(sent.get(name, ())), "")
