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
from statediff.cli import demo, states
from statediff.cli.contracts import authoring, drafting, testing, versions
from statediff.cli.evidence import bundles, labels, logs, sealing
from statediff.cli.faults import USAGE, Gone, Interrupted, exit_code_of
from statediff.cli.options import with_options
from statediff.cli.suites import reporting, running, store
from statediff.cli.systems import machine, sandboxes, serving
from statediff.cli.validity import conforming, importing, metatesting, reads, rubric, studying

Commands = Sequence[tuple[str, Callable[..., object]]]

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


def _entry(function: Callable[..., object]) -> Callable[..., object]:
    """The command as the parser calls it; it neither swallows an interrupt nor a broken pipe."""
    command = with_options(function)

    @functools.wraps(command)
    def call(**options: object) -> object:
        try:
            return command(**options)
        except KeyboardInterrupt as error:
            raise Interrupted from error  # the parser would turn it into a silent exit
        except BrokenPipeError as error:
            raise Gone from error  # the parser would turn it into exit code 1, which is DIVERGE

    return call


_COMMANDS: Commands = (
    ("demo", demo.demo),
    ("init", drafting.init),
    ("tasks", authoring.tasks),
    ("run", running.run),
    ("retry", running.retry),
    ("record", drafting.record),
    ("mcp", serving.mcp),
    ("mcp-proxy", serving.mcp_proxy),
    ("watch", states.watch),
    ("judge", states.judge),
    ("capture", states.capture),
    ("diff", states.diff),
    ("lint", authoring.lint),
    ("mutate", testing.mutate),
    ("metatest", metatesting.metatest),
    ("study", studying.study),
    ("agree", testing.agree),
    ("explain", authoring.explain),
    ("fmt", authoring.fmt),
    ("show", bundles.show),
    ("replay", bundles.replay),
    ("export", bundles.export),
    ("keygen", sealing.keygen),
    ("sign", sealing.sign),
    ("verify", sealing.verify),
    ("redact", sealing.redact),
    ("raw", sealing.raw),
    ("expire", sealing.expire),
    ("review", labels.review),
    ("adjudicate", labels.adjudicate),
    ("resolve", labels.resolve),
    ("flag", labels.flag),
    ("agreement", labels.agreement),
    ("rubric", rubric.rubric),
    ("import", importing.import_runs),
    ("report", reporting.report),
    ("open", reporting.open_pages),
    ("runs", store.runs),
    ("stats", store.stats),
    ("compare", store.compare),
    ("schema", authoring.schema),
    ("bench", machine.bench),
    ("doctor", machine.doctor),
)
_GROUPS: Sequence[tuple[str, str, Commands]] = (
    ("sandbox", "Start, reset, prove and stop a sandbox.", sandboxes.COMMANDS),
    (
        "contract",
        "Release, sign off, compare versions; try what undoes.",
        versions.COMMANDS,
    ),
    ("store", "Check and tidy the chunks of a run.", store.COMMANDS),
    ("log", "Keep verdicts where every change is noticed.", logs.COMMANDS),
    ("reads", "Judge reads: was the answer validly reachable?", reads.COMMANDS),
    ("conformance", "Test other programs by what ours must do.", conforming.COMMANDS),
)
_NAMES: Final = frozenset((*(name for name, _ in _COMMANDS), *(name for name, *_ in _GROUPS)))


def parser(names: Collection[str] = _NAMES) -> typer.Typer:
    """The parser of the command line, for these commands and groups of commands."""
    made = typer.Typer(
        name="statediff",
        help=_HELP,
        invoke_without_command=True,
        add_completion=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_root)
    for name, command in _COMMANDS:
        if name in names:
            made.command(name)(_entry(command))
    for name, about, commands in _GROUPS:
        if name in names:
            group = typer.Typer(rich_markup_mode=None, help=about)
            for inner, command in commands:
                group.command(inner)(_entry(command))
            made.add_typer(group, name=name)
    return made


def run(arguments: Sequence[str]) -> int:
    """The exit code of one command line; nothing escapes as an exception."""
    options = list(arguments)
    # The library reads the options of all commands before it runs one, a tenth of a second long.
    names = options[:1] if _NAMES.intersection(options[:1]) else _NAMES
    as_json = "--json" in (options[: options.index("--")] if "--" in options else options)
    return exit_code_of(
        lambda: parser(names)(args=options, prog_name="statediff", standalone_mode=False),
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
