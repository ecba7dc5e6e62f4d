"""A report format: one form of another tool in which `export` writes a run.

Our formats stand beside this module, each in a module that is named as the format is. Those of
others are behind entry points of the group `statediff.reports`. A format is imported when it is
asked for, so that a broken one is in nobody else's way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any, Final

from statediff.entrypoints import plug_ins
from statediff.errors import UsageError
from statediff.model.values import printable


class Takes(Enum):
    """The input of a format, in the order of the run's trials."""

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


GROUP: Final = "statediff.reports"
OURS: Final = ("junit", "sarif", "markdown", "turns", "github", "otlp")
"""As help lists them. Each is the name of a module beside this one, with the format `FORMAT`."""


def names() -> tuple[str, ...]:
    """Every format: ours, then those of other distributions, sorted."""
    return (*OURS, *(name for name in plug_ins(GROUP) if name not in OURS))


def format_of(name: str) -> ReportFormat:
    """The format; `UsageError` if it is unknown, broken or claimed twice."""
    installed = plug_ins(GROUP).get(name)
    if name in OURS:
        if installed is not None:
            raise UsageError(
                f"{installed}: statediff has a format {name!r} of its own; uninstall it"
            )
        found: object = import_module(f"{__package__}.{name}").FORMAT
    elif installed is not None:
        found = installed.load()
    else:
        raise UsageError(f"no format {printable(name)!r}; there are: {', '.join(names())}")
    where = installed or f"{__package__}.{name}"
    if not isinstance(found, ReportFormat):
        raise UsageError(f"{where}: expected a ReportFormat, found {type(found).__name__}")
    if found.name != name:
        raise UsageError(f"{where}: its format is named {printable(found.name)!r}")
    return found
