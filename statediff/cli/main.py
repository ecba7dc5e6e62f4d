"""The command line: every command by name. A command parses, calls one function and renders."""

from __future__ import annotations

import functools
import gc
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from types import FrameType
from typing import Annotated, Final

import typer

from statediff._version import __version__
from statediff.cli import bundles, comparing, demo, drafting, explaining, judging, linting, opening
from statediff.cli.contracts import agreeing, formatting, mutating, recording, schemas, versions
from statediff.cli.evidence import adjudicating, logs, retention, reviewing, sealing
from statediff.cli.faults import USAGE, Gone, Interrupted, guarded
from statediff.cli.suites import exporting, flagging, listing, reporting, retrying, running, storing
from statediff.cli.systems import doctor, sandboxes, serving
from statediff.cli.validity import (
    benching,
    conforming,
    importing,
    metatesting,
    reads,
    rubric,
    studying,
)

_HELP = """Decide, with evidence, whether an agent's run changed the world the way its task allowed.

Exit codes: 0 all MATCH; 1 any DIVERGE; 2 usage or invalid contract; 3 INCONCLUSIVE and no
DIVERGE; 4 harness or evaluator fault; 130 interrupted."""


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"statediff {__version__}\n")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback acts on it
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        sys.stderr.write(context.get_help() + "\n")
        raise typer.Exit(USAGE)


def _interruptible(command: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(command)
    def called(*args: object, **kwargs: object) -> object:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt as error:
            raise Interrupted from error  # the parser would turn it into a silent exit
        except BrokenPipeError as error:
            raise Gone from error  # the parser would turn it into exit code 1, which is DIVERGE

    return called


_COMMANDS: tuple[tuple[str, Callable[..., object]], ...] = (
    ("demo", demo.demo),
    ("init", drafting.init),
    ("run", running.run),
    ("retry", retrying.retry),
    ("record", recording.record),
    ("mcp", serving.mcp),
    ("mcp-proxy", serving.mcp_proxy),
    ("judge", judging.judge),
    ("capture", comparing.capture),
    ("diff", comparing.diff),
    ("lint", linting.lint),
    ("mutate", mutating.mutate),
    ("metatest", metatesting.metatest),
    ("study", studying.study),
    ("agree", agreeing.agree),
    ("explain", explaining.explain),
    ("fmt", formatting.fmt),
    ("show", bundles.show),
    ("replay", bundles.replay),
    ("export", exporting.export),
    ("keygen", sealing.keygen),
    ("sign", sealing.sign),
    ("verify", sealing.verify),
    ("redact", sealing.redact),
    ("raw", retention.raw),
    ("expire", retention.expire),
    ("review", reviewing.review),
    ("adjudicate", adjudicating.adjudicate),
    ("resolve", adjudicating.resolve),
    ("flag", flagging.flag),
    ("agreement", adjudicating.agreement),
    ("rubric", rubric.rubric),
    ("import", importing.import_runs),
    ("report", reporting.report),
    ("open", opening.open_pages),
    ("runs", listing.runs),
    ("stats", listing.stats),
    ("compare", listing.compare),
    ("schema", schemas.schema),
    ("bench", benching.bench),
    ("doctor", doctor.doctor),
)
_GROUPS: tuple[tuple[str, str, Sequence[tuple[str, Callable[..., object]]]], ...] = (
    ("sandbox", "Start, reset, prove and stop a sandbox.", sandboxes.COMMANDS),
    ("contract", "Release, sign off and compare versions.", versions.COMMANDS),
    ("store", "Check and tidy the chunks of a run.", storing.COMMANDS),
    ("log", "Keep verdicts where every change is noticed.", logs.COMMANDS),
    ("reads", "Judge reads: was the answer validly reachable?", reads.COMMANDS),
    ("conformance", "Test other programs by what ours must do.", conforming.COMMANDS),
)
_NAMES: Final = frozenset((*(name for name, _ in _COMMANDS), *(name for name, *_ in _GROUPS)))


def _made_of(names: Collection[str]) -> typer.Typer:
    """The program with these commands and groups of commands."""
    made = typer.Typer(
        name="statediff", help=_HELP, invoke_without_command=True, add_completion=False,
        rich_markup_mode=None, pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    made.callback()(_root)
    for name, command in _COMMANDS:
        if name in names:
            made.command(name)(_interruptible(command))
    for name, about, commands in _GROUPS:
        if name in names:
            group = typer.Typer(rich_markup_mode=None, help=about)
            for inner, command in commands:
                group.command(inner)(_interruptible(command))
            made.add_typer(group, name=name)
    return made


app = _made_of(_NAMES)


def run(arguments: Sequence[str]) -> int:
    """The exit code of one command line; nothing escapes as an exception."""
    options = list(arguments)
    # The library reads the options of all commands before it runs one, a tenth of a second long.
    chosen = _made_of(options[:1]) if _NAMES.intersection(options[:1]) else app
    as_json = "--json" in (options[: options.index("--")] if "--" in options else options)
    return guarded(
        lambda: chosen(args=options, prog_name="statediff", standalone_mode=False),
        as_json=as_json,
    )


def _end(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """The program: it ends with the exit code of its command."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its escape, not an exception.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a text stream
    signal.signal(signal.SIGTERM, _end)
    # A hundred thousand rows hold no garbage; looking for it took a fifth of what `compare` takes.
    gc.set_threshold(100_000, 50, 100)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
