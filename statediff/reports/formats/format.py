"""A report format: one form of another tool in which `export` writes a run.

An object of it stands in the module that is named as the format is, or behind an entry point of the
group `statediff.reports` (`registry.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from statediff.reports.plain import dumps


class Takes(Enum):
    """What a format is given of a run, in the order of its trials."""

    TRIALS = "trials"
    """An `Exported` for each trial that has a folder, also one without a verdict."""
    TURNS = "turns"
    """A `statediff/turn/1` object for each turn of each trial that was judged."""
    SPANS = "spans"
    """A document of OTLP for each scheduled trial."""


@dataclass(frozen=True, kw_only=True)
class ReportFormat:
    """One form of `export --as`."""

    name: str
    takes: Takes
    write: Callable[[Sequence[Any], int], str]
    """The text, from what it takes and the number of scheduled trials that were never run.

    The agent influenced what is said of a trial: the text is escaped as the form asks."""


def json_lines(objects: Iterable[Any], _not_run: int) -> str:
    """Each object as a line of JSON."""
    return "".join(dumps(each) + "\n" for each in objects)
