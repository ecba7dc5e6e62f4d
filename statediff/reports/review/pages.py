"""The pages of a desk, rendered whole: the list of trials, one trial, and what went wrong.

Addresses are made of our own words, numbers and the quoted filter, never of the run's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final
from urllib.parse import quote

from statediff.reports.html.changes import Change
from statediff.reports.html.page import Kind, render
from statediff.reports.html.trial import Trial
from statediff.reports.html.words import Sign
from statediff.reports.review.desk import Desk, Seen
from statediff.reports.review.form import SIGNS, Form, form_view
from statediff.suite.labels import Labelled

KIND: Final = Kind(("report.css", "review.css"), "review.js", (), "'self'")
PAGE: Final = 100
"""Changes that one page lists."""
QUEUE: Final = 200
"""Trials that one page lists."""
MAX_QUERY: Final = 200


@dataclass(frozen=True)
class Listing:
    """One page of the changes that fit a filter."""

    rows: tuple[Change, ...]
    total: int
    """Changes of the trial, whatever the filter."""
    query: str
    told: str
    back: str
    on: str


@dataclass(frozen=True)
class Missing:
    """What was not observed, and the clause that cannot be decided without it."""

    causes: tuple[str, ...]
    sentence: str
    rule: str
    clause: str


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
    missing: tuple[Missing, ...]
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
            at + 1, f"{root}/{at + 1}",
            None if own is None else SIGNS[own.given.label],
            "" if own is None else f"{own.at:%Y-%m-%d %H:%M}, {own.given.seconds} s",
        )
        for at, own in list(enumerate(labels))[start : start + QUEUE]
    )  # fmt: skip
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


def _listing(trial: Trial, here: str, page: int, query: str) -> Listing:
    every = [row for group in trial.groups for _, chunk in group.chunks for row in chunk]
    query = query.strip()[:MAX_QUERY]
    wanted = query.casefold()
    found = [row for row in every if wanted in _words(row)] if wanted else every
    pages = max(1, -(-len(found) // PAGE))
    page = min(max(page, 0), pages - 1)
    rows = tuple(found[page * PAGE : (page + 1) * PAGE])
    kept = f"&q={quote(query, safe='')}" if query else ""
    at = f"{page * PAGE + 1:,}–{page * PAGE + len(rows):,} of {len(found):,}"
    told = f"{at} that fit" if query else at
    return Listing(
        rows, trial.total, query, told if found else "none fits",
        f"{here}?page={page - 1}{kept}" if page else "",
        f"{here}?page={page + 1}{kept}" if page + 1 < pages else "",
    )  # fmt: skip


def _words(row: Change) -> str:
    sides = (row.before.text, row.after.text)
    return " ".join(
        (row.place, row.path, row.operation, *sides, *row.by, row.standing.word, row.action)
    ).casefold()


def _missing(trial: Trial) -> tuple[Missing, ...]:
    return tuple(
        Missing(finding.missing, finding.sentence, clause.sentence, clause.id)
        for stage in trial.stages
        for clause in stage.clauses
        for finding in clause.findings
        if finding.sign.word == "unknown"
    )


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
