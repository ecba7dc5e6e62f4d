"""Results go to standard output, progress goes to standard error.

With `--json` standard output holds JSON and nothing else. NO_COLOR turns every style off, not
only colours.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final, cast

from rich.console import Console
from rich.text import Text

from statediff.kernel import changes_there_before
from statediff.model.values import printable
from statediff.reports.line import trial_line
from statediff.reports.plain import dumps
from statediff.reports.said import said
from statediff.reports.text import trial_report, verdict_text
from statediff.workspace.inputs import doubtful_states

if TYPE_CHECKING:
    from statediff.cli.options import Loudness
    from statediff.contract.file import ContractFile
    from statediff.evidence.package import Bundle
    from statediff.model.readings import Capture
    from statediff.model.verdict import Judgement
    from statediff.reports.ending import AgentRecord

PIPE_WIDTH: Final = 1000
PATIENCE: Final = 2.0
"""Seconds that nobody needs to be shown anything."""


def emit(document: Any) -> None:
    """One JSON object on one line of standard output, at once."""
    sys.stdout.write(dumps(document) + "\n")
    sys.stdout.flush()


def print_result(document: Any, text: str, *, as_json: bool) -> None:
    """Print a result: the document with `--json`, else the text."""
    if as_json:
        emit(document)
    else:
        say(text)


def print_trial(
    bundle: Bundle, where: str, how: Loudness, agent: AgentRecord | None = None
) -> None:
    """Print what was decided, as loud as is wanted."""
    if how.quiet:
        line = verdict_text(str(bundle.manifest["verdict"]))
        ending = None if agent is None else agent.ending
        say(line.append(f"  {trial_line(bundle, ending)}", "default"))
        return
    results().print(trial_report(bundle, where, agent, whole=how.verbose))


def mark(text: str, *, is_good: bool) -> Text:
    """The text behind a mark that says whether it is good news."""
    mark = Text("✔ ", style="green") if is_good else Text("✘ ", style="bold red")
    return mark.append(text, style="default")


def emit_pretty(document: Any) -> None:
    """One JSON object on standard output, indented for people: for published schemas."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    sys.stdout.flush()


def results() -> Console:
    """The console on standard output. It interprets no markup."""
    return _console(sys.stdout.isatty(), stderr=False)


def progress() -> Console:
    """The console on standard error."""
    return _console(sys.stderr.isatty(), stderr=True)


def say(text: str | Text) -> None:
    """A line on standard output; a terminal wraps it, and nothing else does."""
    results().print(text, soft_wrap=True)


def note(text: str | Text) -> None:
    """A line on standard error."""
    progress().print(text, soft_wrap=True)


def tell_no_page(error: Exception) -> None:
    """Standard error says why there is no page."""
    note(f"no report: {said(error, 2000)}")


def note_doubtful(*sides: tuple[Sequence[str], Capture]) -> None:
    """A line on standard error for each state that may not be the one that is meant."""
    for remark in doubtful_states(*sides):
        note(f"note: {remark}")


def note_unread(file: ContractFile, captured: Capture) -> None:
    """A line on standard error for each source that must report and that no state is called as."""
    there = [part.reading.source for part in captured.parts]
    for name in map(printable, file.content.evidence):
        if name not in there:
            note(
                f"note: the contract's `evidence` names {name}, and no state is called so (there "
                f"is {printable(', '.join(there))}): write {name}=STATE, or correct the contract"
            )


def note_done_before(file: ContractFile, before: Capture, judgement: Judgement) -> None:
    """A line on standard error for each required change that was there before the run."""
    for clause, there in changes_there_before(file, before, judgement).items():
        note(
            f"note: {clause} asks for a change that was there before the run ({there}); put the "
            "state back to what a run begins with, and try again"
        )


@contextmanager
def at_work(what: str = "") -> Iterator[Callable[[str], None]]:
    """Show on a terminal that work goes on, once it takes more than `PATIENCE`.

    The block gets a function that counts one more of what it names. Nothing stays on the screen.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    bar = Progress(*columns, console=progress(), transient=True)
    task = bar.add_task(what, total=None)
    counted = 0

    def count(what: str) -> None:
        nonlocal counted
        counted += 1
        bar.update(task, description=f"{counted:,} {what}")

    begin = threading.Timer(PATIENCE, bar.start)
    begin.daemon = True
    begin.start()
    try:
        yield count
    finally:
        begin.cancel()
        begin.join()
        bar.stop()


def _console(is_terminal: bool, *, stderr: bool) -> Console:
    class Door(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            # What is printed as it is may hold a name from a bundle, and a name may steer.
            super().print(*(_spell_out(o) if isinstance(o, str) else o for o in objects), **options)

        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 - called while it is handled; rich would exit with 1, a verdict

    is_plain = bool(os.environ.get("NO_COLOR")) or not (
        is_terminal or os.environ.get("FORCE_COLOR")
    )
    # A pipe has no width: what reads it finds one thing a line.
    width = None if is_terminal or "COLUMNS" in os.environ else PIPE_WIDTH
    stream = sys.stderr if stderr else sys.stdout
    return Door(
        file=stream if is_terminal else cast("IO[str]", _Trimmed(stream)),
        width=width,
        color_system=None if is_plain else "auto",
        highlight=False,
        markup=False,
        emoji=False,
    )


class _Trimmed:
    """The stream, in which no line ends in spaces: tables fill their columns with them."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(re.sub(" +(?=\n)", "", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _spell_out(text: str) -> str:
    """The text, with everything but its line ends that steers a terminal spelled out."""
    return "\n".join(printable(line) for line in text.split("\n"))
