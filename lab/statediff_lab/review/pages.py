"""The pages of a desk, rendered whole: the list of trials, one trial, and what went wrong.

Addresses are made of our own words, numbers and the quoted filter, never of the run's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final
from urllib.parse import quote

from statediff.errors import UsageError
from statediff.reports.html.changes import View
from statediff.reports.html.page import Kind, render
from statediff.reports.html.words import Sign
from statediff_lab.labels import Cause, Component, Failure, Label, Labelled, Review
from statediff_lab.reports.pages import TEMPLATES
from statediff_lab.review.desk import Desk, Seen

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


def given_from(sent: Sent) -> Review:
    """The review in a form; time and blindness are not its to say. `UsageError` names the field."""
    unknown = sorted(set(sent) - FIELDS)
    if unknown:
        raise UsageError(f"the form has no field {unknown[0][:40]!r}")
    doubled = [name for name, values in sent.items() if len(values) > 1 and name != "failure"]
    if doubled:
        raise UsageError(f"{doubled[0]} was sent more than once")
    try:
        cause, stage = _one(sent, "cause"), _one(sent, "stage")
        correctable = _one(sent, "correctable")
        return Review(
            Label(_one(sent, "label")),
            0,
            blind=False,
            cause=Cause(cause) if cause else None,
            stage=Component(stage) if stage else None,
            is_correctable=_CORRECTABLE[correctable] if correctable else None,
            note=_one(sent, "note").replace("\r\n", "\n").strip(),
            failures=tuple(sorted({Failure(each) for each in sent.get("failure", ())})),
        )
    except (ValueError, KeyError) as error:
        raise UsageError(f"choose what the run was: {error}") from error


def _again(given: Review) -> dict[str, Sequence[str]]:
    correctable = {True: "yes", False: "no", None: ""}[given.is_correctable]
    return {
        "label": [given.label.value],
        "cause": ["" if given.cause is None else given.cause.value],
        "stage": ["" if given.stage is None else given.stage.value],
        "correctable": [correctable],
        "failure": [each.value for each in given.failures],
        "note": [given.note],
    }


def _one(sent: Sent, name: str) -> str:
    return next(iter(sent.get(name, ())), "")


KIND: Final = Kind(("report.css", "review.css"), "review.js", (), "'self'", TEMPLATES)
PAGE: Final = 100
"""Changes that one page lists."""
QUEUE: Final = 200
"""Trials that one page lists."""
MAX_QUERY: Final = 200


@dataclass(frozen=True)
class Listing:
    """One page of the changes that fit a filter."""

    rows: list[View]
    total: int
    """Changes of the trial, whatever the filter."""
    query: str
    told: str
    back: str
    on: str


@dataclass(frozen=True, kw_only=True)
class Signed:
    """A label as its reviewer sees it again."""

    who: str
    sign: Sign
    at: str
    seconds: int
    blind: bool
    cause: str
    failures: tuple[str, ...]
    note: str


@dataclass(frozen=True, kw_only=True)
class CasePage:
    """Everything the page of one trial shows."""

    root: str
    here: str
    number: int
    total: int
    done: int
    before: str
    after: str
    seen: Seen
    listing: Listing
    missing: list[View]
    signed: Signed | None
    others: tuple[Signed, ...]
    form: Form


@dataclass(frozen=True)
class Entry:
    """One trial in the list."""

    number: int
    link: str
    sign: Sign | None
    told: str


@dataclass(frozen=True, kw_only=True)
class DeskPage:
    """Everything the list of trials shows."""

    is_blind: bool
    lead: str
    total: int
    done: int
    counts: tuple[tuple[Sign, int], ...]
    seconds: str
    start: str
    first: int
    offset: int
    cases: tuple[Entry, ...]
    back: str
    on: str


@dataclass(frozen=True)
class Trouble:
    """A page that says what went wrong, and where to go on."""

    title: str
    why: str
    root: str


def case_page(
    desk: Desk,
    number: int,
    root: str,
    page: int = 0,
    query: str = "",
    problem: str = "",
    draft: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The page of a trial (counted from 0), with what a refused form held; `BundleError`."""
    seen = desk.look(number)
    here, total = f"{root}/{number + 1}", len(desk.cases)
    own = desk.label(number)
    labels = desk.labels()
    return render(
        "review.html",
        CasePage(
            root=root,
            here=here,
            number=number + 1,
            total=total,
            done=sum(each is not None for each in labels),
            before=f"{root}/{number}" if number else "",
            after=f"{root}/{number + 2}" if number + 1 < total else "",
            seen=seen,
            listing=_listing(seen.trial, here, page, query),
            missing=_missing(seen.trial),
            signed=None if own is None else _signed(own),
            others=tuple(_signed(each) for each in desk.others(number)),
            form=form_view(own, desk.is_blind, problem, draft or {}),
        ),
        KIND,
    )


def desk_page(desk: Desk, root: str, page: int = 0) -> str:
    """The list of trials; nothing of what is in them."""
    desk.leave()
    labels = desk.labels()
    signed = [each for each in labels if each is not None]
    first = next((at for at, each in enumerate(labels) if each is None), None)
    pages = max(1, -(-len(labels) // QUEUE))
    page = min(max(page, 0), pages - 1)
    start = page * QUEUE
    lead = (
        "Say of each run whether it was right, before you see what statediff says."
        if desk.is_blind
        else "Say of each run whether it was right; where the verdict is wrong, say whose fault."
    )
    shown = tuple(
        Entry(
            at + 1,
            f"{root}/{at + 1}",
            None if own is None else SIGNS[own.given.label],
            "" if own is None else f"{own.at:%Y-%m-%d %H:%M}, {own.given.seconds} s",
        )
        for at, own in list(enumerate(labels))[start : start + QUEUE]
    )
    counts = tuple(
        (sign, n)
        for label, sign in SIGNS.items()
        if (n := sum(each.given.label is label for each in signed))
    )
    return render(
        "desk.html",
        DeskPage(
            is_blind=desk.is_blind,
            lead=lead,
            total=len(labels),
            done=len(signed),
            counts=counts,
            seconds=f"{median(each.given.seconds for each in signed):g}" if signed else "",
            start="" if first is None else f"{root}/{first + 1}",
            first=0 if first is None else first + 1,
            offset=start,
            cases=shown,
            back=f"{root}/?page={page - 1}" if page else "",
            on=f"{root}/?page={page + 1}" if page + 1 < pages else "",
        ),
        KIND,
    )


def trouble_page(title: str, why: str, root: str) -> str:
    """A page that says what went wrong; `root` is empty where there is nowhere to go."""
    return render("trouble.html", Trouble(title, why, root), KIND)


def _listing(trial: View, here: str, page: int, query: str) -> Listing:
    changes = trial["changes"]
    every = [row for group in changes["groups"] for _, chunk in group["chunks"] for row in chunk]
    query = query.strip()[:MAX_QUERY]
    wanted = query.casefold()
    found = [row for row in every if wanted in _words(row)] if wanted else every
    pages = max(1, -(-len(found) // PAGE))
    page = min(max(page, 0), pages - 1)
    rows = found[page * PAGE : (page + 1) * PAGE]
    kept = f"&q={quote(query, safe='')}" if query else ""
    at = f"{page * PAGE + 1:,}–{page * PAGE + len(rows):,} of {len(found):,}"
    told = f"{at} that fit" if query else at
    return Listing(
        rows,
        changes["total"],
        query,
        told if found else "none fits",
        f"{here}?page={page - 1}{kept}" if page else "",
        f"{here}?page={page + 1}{kept}" if page + 1 < pages else "",
    )


def _words(row: View) -> str:
    sides = (row["before"].text, row["after"].text)
    names = (row["place"], row["path"], row["operation"], *sides, *row["by"])
    return " ".join((*names, row["standing"].word, row["action"])).casefold()


def _missing(trial: View) -> list[View]:
    """Facts that were not observed, each with the clause that cannot be decided without it."""
    return [
        {**finding, "rule": clause["sentence"], "clause": clause["id"]}
        for stage in trial["stages"]
        for clause in stage["clauses"]
        for finding in clause["findings"]
        if finding["sign"].word == "unknown"
    ]


def _signed(own: Labelled) -> Signed:
    given = own.given
    return Signed(
        who=own.reviewer,
        sign=SIGNS[given.label],
        at=f"{own.at:%Y-%m-%d %H:%M:%S} UTC",
        seconds=given.seconds,
        blind=given.blind,
        cause="" if given.cause is None else given.cause.value,
        failures=tuple(each.value for each in given.failures),
        note=given.note,
    )
