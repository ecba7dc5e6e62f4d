"""The report formats that are installed: ours, and those of the group `statediff.reports`.

An entry point names a `ReportFormat`. It is imported when its format is asked for, so that a broken
one is in nobody else's way.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from statediff.entrypoints import plug_ins
from statediff.errors import UsageError
from statediff.model.values import printable
from statediff.reports.formats.format import ReportFormat

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
