"""Parts of a trial's page that are not in its bundle: its agent's process, and its neighbors.

The neighbors of a trial are known once its run is over, so `relink` writes them into a page again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from statediff.reports.ending import UNKNOWN, AgentRecord
from statediff.reports.html.cells import name
from statediff.reports.html.page import draw

PAGE: Final = "report.html"
_OPENS: Final = '<nav class="beside"'
_CLOSES: Final = "</nav>"


@dataclass(frozen=True)
class Neighbor:
    """A page beside this one: its relative address, and its name."""

    link: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Beside:
    """The agent's process, the run's page, and the trials before and after this one in the run."""

    agent: AgentRecord = UNKNOWN
    run: Neighbor | None = None
    earlier: Neighbor | None = None
    later: Neighbor | None = None


NOTHING: Final = Beside()


def run_neighbor(run: str) -> Neighbor:
    """The page of the run that a trial's page is in."""
    return Neighbor(f"../../{PAGE}", name(run))


def trial_neighbor(folder: str) -> Neighbor:
    """The page of another trial of the run: never outside the run, whatever its folder's name."""
    raw = folder.encode("utf-8", "surrogateescape")  # a name on disk need not be text
    return Neighbor(f"../{quote(raw, safe='')}/{PAGE}", name(folder))


def relink(page: str, beside: Beside) -> str:
    """The page with these links in place of its own; nothing of a run can look like their place."""
    start = page.find(_OPENS)
    end = page.find(_CLOSES, start) + len(_CLOSES)
    links = str(draw("parts.html", "beside", beside))  # text: markup would escape what it joins
    return page if start < 0 else page[:start] + links + page[end:]
