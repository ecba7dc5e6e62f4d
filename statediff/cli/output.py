"""Where a command's words go: results to standard output, progress to standard error.

With `--json` standard output holds JSON and nothing else. NO_COLOR turns every style off, not
only colours.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.workspace.paths import shown

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["JsonFlag", "emit", "emit_pretty", "progress", "results", "shown"]

JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")
]


def emit(document: Any) -> None:
    """One JSON object on one line of standard output, at once."""
    from statediff.reports.plain import dumps

    sys.stdout.write(dumps(document) + "\n")
    sys.stdout.flush()


def emit_pretty(document: Any) -> None:
    """One JSON object on standard output, indented for people: for published schemas."""
    import json

    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    sys.stdout.flush()


def results() -> Console:
    """The console on standard output. It interprets no markup."""
    return _console(sys.stdout.isatty(), stderr=False)


def progress() -> Console:
    """The console on standard error."""
    return _console(sys.stderr.isatty(), stderr=True)


def _console(is_terminal: bool, *, stderr: bool) -> Console:
    from rich.console import Console

    class Door(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            # What is printed as it is may hold a name from a bundle, and a name may steer.
            super().print(*(_spelled(o) if isinstance(o, str) else o for o in objects), **options)

        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 - called while it is handled; rich would exit with 1, a verdict

    is_plain = bool(os.environ.get("NO_COLOR")) or not (
        is_terminal or os.environ.get("FORCE_COLOR")
    )
    return Door(
        stderr=stderr, color_system=None if is_plain else "auto", highlight=False, markup=False,
        emoji=False,
    )  # fmt: skip


def _spelled(text: str) -> str:
    """The text, with everything but its line ends that steers a terminal spelled out."""
    from statediff.model.values import printable

    return "\n".join(printable(line) for line in text.split("\n"))
