"""The trials that fit a choice, a page at a time: where the dashboard leads to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from statediff.reports.html import words
from statediff.reports.html.cells import cut, name
from statediff.reports.html.page import Kind, render
from statediff.reports.html.words import Sign
from statediff.suite import overview
from statediff.suite.overview import PAGE, Place
from statediff.suite.records import Ended
from statediff.suite.store import Store

KIND: Final = Kind(("report.css", "dashboard.css"))
DAMAGED: Final = words.Sign("fault", "!", "DAMAGED", "What lies there is no bundle of this trial.")
UNFINISHED: Final = words.Sign("fault", "…", "UNFINISHED", "It was begun, and nobody said why not.")
SIGNS: Final = {
    Ended.DIVERGE: words.VERDICTS["DIVERGE"],
    Ended.INCONCLUSIVE: words.VERDICTS["INCONCLUSIVE"],
    Ended.MATCH: words.VERDICTS["MATCH"],
    Ended.FAULT: words.FAULT,
    Ended.DAMAGED: DAMAGED,
    Ended.UNFINISHED: UNFINISHED,
    Ended.NOT_RUN: words.NOT_RUN,
}


@dataclass(frozen=True)
class Entry:
    """One trial of a list."""

    name: str
    sign: Sign
    told: str
    run: str
    link: str
    why: str


@dataclass(frozen=True)
class Choice:
    """Which trials are asked for; None and empty mean all."""

    run: str | None = None
    contract: str | None = None
    agent: str | None = None
    ended: Ended | None = None
    clause: str | None = None

    def link(self, root: str, page: int = 0) -> str:
        """Where these trials are listed; empty where there is no server to ask."""
        if not root:
            return ""
        given = {
            "run": self.run, "contract": self.contract, "agent": self.agent,
            "ended": None if self.ended is None else self.ended.value, "clause": self.clause,
            "page": str(page) if page else None,
        }  # fmt: skip
        chosen = {key: value for key, value in given.items() if value is not None}
        return f"{root}/trials?{urlencode(chosen, errors='replace')}"


@dataclass(frozen=True)
class Trials:
    """A page of the trials that fit a choice."""

    root: str
    chosen: tuple[tuple[str, str], ...]
    first: int
    entries: tuple[Entry, ...]
    back: str
    on: str


def trials_page(store: Store, runs: Sequence[str] | None, chosen: Choice, root: str, page: int,
                names: dict[str, str]) -> str:  # fmt: skip
    """The trials that fit, a page of them; `names` tells the runs' names by their ids."""
    within = runs if chosen.run is None else [chosen.run]
    found = overview.drilled(
        store, runs=within, contract=chosen.contract, agent=chosen.agent, ended=chosen.ended,
        clause=chosen.clause, limit=PAGE + 1, offset=page * PAGE,
    )  # fmt: skip
    told = (
        ("run", None if chosen.run is None else names.get(chosen.run, chosen.run)),
        ("contract", chosen.contract), ("agent", chosen.agent),
        ("verdict", None if chosen.ended is None else SIGNS[chosen.ended].word),
        ("clause", chosen.clause),
    )  # fmt: skip
    return render(
        "trials.html",
        Trials(
            root, tuple((what, name(value)) for what, value in told if value is not None),
            page * PAGE + 1, tuple(_entry(place, root, names) for place in found[:PAGE]),
            chosen.link(root, page - 1) if page else "",
            chosen.link(root, page + 1) if len(found) > PAGE else "",
        ),
        KIND,
    )  # fmt: skip


def _entry(place: Place, root: str, names: dict[str, str]) -> Entry:
    trial = place.trial
    asked = urlencode({"run": trial.run, "name": trial.name}, errors="replace")
    told = f"{trial.contract} {trial.version}, agent {trial.agent or 'unknown'}"
    return Entry(
        name(trial.name), SIGNS[trial.ended], cut(told), name(names.get(trial.run, trial.run)),
        f"{root}/report?{asked}" if trial.ended.has_verdict else "", cut(trial.why),
    )  # fmt: skip
