"""The shared parts of dashboard pages: their kind, how ends are shown, and addresses of a choice.

Addresses are made of our own words and of quoted names; nothing that acts is made from a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from statediff.reports.html import words
from statediff.reports.html.page import Kind
from statediff.reports.html.shares import Share, share_of
from statediff.reports.suites import MEASURES, measured_cells
from statediff.suite.measures import Measures
from statediff.suite.overview import EndCounts, TrialChoice
from statediff.suite.records import Ended
from statediff_lab.reports.pages import TEMPLATES

KIND: Final = Kind(("report.css", "dashboard.css"), forms="'self'", folder=TEMPLATES)
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
_SHOWN: Final = (Ended.MATCH, Ended.INCONCLUSIVE, Ended.DIVERGE)


def ends_share(counted: EndCounts) -> Share:
    """The bar of these trials, verdicts first."""
    rest = [e for e in Ended if e not in _SHOWN]
    return share_of([(SIGNS[e], counted.ended.get(e, 0)) for e in (*_SHOWN, *rest)])


def address(root: str, path: str, given: Mapping[str, str | None]) -> str:
    """The address of a page with these fields; empty where there is no server to ask."""
    if not root:
        return ""
    fields = {key: value for key, value in given.items() if value is not None}
    return f"{root}/{path}" + (f"?{urlencode(fields, errors='replace')}" if fields else "")


@dataclass(frozen=True)
class Choice(TrialChoice):
    """Which trials are asked for, and where they are listed."""

    def fields(self, page: int = 0) -> dict[str, str | None]:
        """The fields of its address; None for what is not chosen."""
        return {
            "run": self.run,
            "domain": self.domain,
            "contract": self.contract,
            "agent": self.agent,
            "ended": None if self.ended is None else self.ended.value,
            "clause": self.clause,
            "code": self.code,
            "levels": self.levels,
            "sort": None if self.sort == "case" else self.sort,
            "down": "1" if self.is_down else None,
            "page": str(page) if page else None,
        }

    def link(self, root: str, page: int = 0) -> str:
        """The address of the list of these trials; empty where there is no server to ask."""
        return address(root, "trials", self.fields(page))


@dataclass(frozen=True)
class MeasuredRow:
    """The measures of one agent's trials in one domain, or of one side of a comparison."""

    title: str
    whose: str
    share: Share
    link: str
    cells: tuple[tuple[str, str], ...]
    """(what, cell)."""


def measured_row(
    title: str, whose: str, counted: EndCounts, measures: Measures, link: str = ""
) -> MeasuredRow:
    """The row of these trials; turns are a cell where there were any."""
    cells = list(zip(MEASURES, measured_cells(measures), strict=True))
    turns = measures.turns
    for what, number in (("first attempt", turns.first), ("after repair", turns.after)):
        cells.append((what, f"{number}/{turns.number}" if turns.number else "–"))
    return MeasuredRow(title, whose, ends_share(counted), link, tuple(cells))
