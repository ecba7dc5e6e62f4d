"""The command line: every command by name. A command parses, calls one function and renders."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typing_extensions import override

from statediff._version import __version__
from statediff.cli.faults import USAGE, Gone, Interrupted, ParserError, exit_code_of
from statediff.cli.options import with_options
from statediff.entrypoints import PLUGINS, PlugIn, plug_ins
from statediff.errors import UsageError
from statediff.extras import EXTRAS, brought
from statediff.sparing import import_sparingly

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
    plugins: Annotated[
        Path | None,
        typer.Option(
            "--plugins", metavar="DIR", help="Load the plug-ins of systems that are files in DIR."
        ),
    ] = None,
) -> None:
    if plugins is not None:
        os.environ[PLUGINS] = str(plugins.absolute())  # for the processes that it starts too
    if context.invoked_subcommand is None:
        sys.stderr.write(context.get_help() + "\n")
        raise typer.Exit(USAGE)


def _entry(function: Callable[..., object]) -> Callable[..., object]:
    """The command as the parser calls it; it neither swallows an interrupt nor a broken pipe."""
    command = with_options(function)

    @functools.wraps(command)
    def call(**options: object) -> object:
        try:
            if function.__name__ in _PLAIN:
                import_sparingly()
            return command(**options)
        except KeyboardInterrupt as error:
            raise Interrupted from error  # the parser would turn it into a silent exit
        except BrokenPipeError as error:
            raise Gone from error  # the parser would turn it into exit code 1, which is DIVERGE

    return call


_COMMANDS: Final[Sequence[tuple[str, str, str]]] = (
    ("demo", "demo", "demo"),
    ("init", "contracts.drafting", "init"),
    ("tasks", "contracts.authoring", "tasks"),
    ("run", "suites.running", "run"),
    ("retry", "suites.retrying", "retry"),
    ("record", "contracts.drafting", "record"),
    ("watch", "states", "watch"),
    ("judge", "judging", "judge"),
    ("capture", "states", "capture"),
    ("diff", "states", "diff"),
    ("check", "contracts.authoring", "check"),
    ("mutate", "contracts.testing", "mutate"),
    ("metatest", "contracts.metatesting", "metatest"),
    ("agree", "contracts.testing", "agree"),
    ("fmt", "contracts.authoring", "fmt"),
    ("show", "evidence.bundles", "show"),
    ("replay", "evidence.bundles", "replay"),
    ("export", "evidence.bundles", "export"),
    ("keygen", "evidence.sealing", "keygen"),
    ("sign", "evidence.sealing", "sign"),
    ("verify", "evidence.sealing", "verify"),
    ("redact", "evidence.sealing", "redact"),
    ("raw", "evidence.sealing", "raw"),
    ("report", "suites.reporting", "report"),
    ("open", "suites.reporting", "open_page"),
    ("runs", "suites.store", "runs"),
    ("stats", "suites.store", "stats"),
    ("schema", "contracts.authoring", "schema"),
    ("doctor", "systems.machine", "doctor"),
)
"""Name, module of this package, function. Nothing is imported for a command that nobody runs."""
_GROUPS: Final[Sequence[tuple[str, str, str]]] = (
    ("sandbox", "Start, reset, prove and stop a sandbox.", "systems.sandboxes"),
    (
        "contract",
        "Release, sign off, compare versions; try what undoes.",
        "contracts.versions",
    ),
    ("store", "Check and tidy the chunks of a run.", "suites.store"),
    ("batch", "Open one rollout of many that were judged at once.", "evidence.batches"),
)
"""Name, help, module of this package, whose `COMMANDS` are in the group."""
_PLAIN: Final = frozenset(("judge", "diff", "show", "replay", "verify", "check"))
"""Commands that read what there is, and run no agent."""
_SECTIONS: Final = {
    "Begin": "demo tasks init watch judge run capture diff check mutate show",
    "Run agents": "retry record sandbox mcp mcp-proxy",
    "Write contracts": "fmt agree schema contract",
    "Look at verdicts": "open report export runs stats store",
    "Stand before systems": "gate hold approve undo",
    "Keep evidence": "replay keygen sign verify attach redact raw expire log batch",
    "Test the evaluator": "metatest doctor lab",
}
"""Heading of `--help` → the commands under it; those of the first are explained there."""
_WIDEST: Final = 120
_NAMES: Final = frozenset(name for name, *_ in (*_COMMANDS, *_GROUPS))


PLUG_INS: Final = "statediff.commands"
"""What installed distributions add: a command by its name, or GROUP.NAME, a function whose
docstring is its help, or a tuple of (name, function); a new group by its name, its help."""
MOVED: Final[Mapping[str, tuple[str, ...]]] = {
    "lint": ("check",),
    "explain": ("check", "--explain"),
} | {
    name: ("lab", name)
    for name in (
        "adjudicate", "agreement", "audit", "bench", "compare", "conformance", "flag", "import",
        "reads", "resolve", "review", "rubric", "study",
    )
}  # fmt: skip
"""A command as it was called → as it is called."""


def _module(name: str) -> Any:
    return importlib.import_module(f"statediff.cli.{name}")


def _plugged() -> tuple[Mapping[str, str], Mapping[str, Mapping[str, PlugIn]]]:
    """Group → help of the groups, and group → name → command, that distributions add."""
    groups: dict[str, str] = {}
    commands: dict[str, dict[str, PlugIn]] = {}
    for name, plug_in in plug_ins(PLUG_INS).items():
        above, _, command = name.rpartition(".")
        if above or not isinstance(about := plug_in.load(), str):
            commands.setdefault(above, {})[command] = plug_in
        else:
            groups[name] = about
    return groups, commands


def _add(above: typer.Typer, name: str, command: object, about: str = "") -> None:
    """The command, or the group of commands with its help, is in the parser."""
    if isinstance(command, tuple):
        group = typer.Typer(rich_markup_mode=None, help=about)
        for inner, function in command:
            _add(group, inner, function)
        above.add_typer(group, name=name)
    elif callable(command):
        above.command(name)(_entry(command))
    else:
        raise UsageError(f"{name}: expected a function, found {type(command).__name__}")


def _about(plug_in: PlugIn) -> str:
    """What the module of a plug-in says that it is."""
    return (importlib.import_module(plug_in.module).__doc__ or "").partition("\n")[0]


class _Sections(TyperGroup):
    """The first commands with what they are for, the others by name; `help` explains them all."""

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except ParserError as error:
            if any(args[0] in EXTRAS[extra] for extra in ("agents", "gate", "lab")):
                told = str(error.message).rstrip(".")  # type: ignore[attr-defined]  # it has one
                error.message = told + brought(args[0])  # type: ignore[attr-defined]  # as above
            raise

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        first, *others = _SECTIONS
        self.write_section(ctx, formatter, first)
        with formatter.section("More; `statediff help` says what each is for"):
            formatter.write_dl([(each, _SECTIONS[each].replace(" ", ", ")) for each in others])

    def write_section(self, ctx: Any, formatter: Any, heading: str) -> None:
        """The commands under one heading, each with its first sentence."""
        found = [(name, self.get_command(ctx, name)) for name in _SECTIONS[heading].split()]
        with formatter.section(heading):
            formatter.write_dl(
                [(name, each.get_short_help_str(_WIDEST * 4)) for name, each in found if each]
            )


def _help(context: typer.Context, command: Annotated[str | None, typer.Argument()] = None) -> None:
    """Say what every command is for, or how one is used."""
    above: Any = context.parent
    group: Any = above.command
    formatter = above.make_formatter()
    if command is None:
        for heading in _SECTIONS:
            group.write_section(above, formatter, heading)
        sys.stdout.write(formatter.getvalue())
        return
    found = group.get_command(above, command)
    if found is None:
        raise UsageError(f"no command is called {command!r}; `statediff help` lists them")
    with found.make_context(command, [], parent=above, resilient_parsing=True) as inner:
        sys.stdout.write(inner.get_help() + "\n")


def parser(names: Collection[str] = _NAMES) -> typer.Typer:
    """The parser of the command line, for these commands and groups of commands."""
    made = typer.Typer(
        name="statediff",
        cls=_Sections,
        help=_HELP,
        invoke_without_command=True,
        add_completion=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": _WIDEST,
        },
    )
    made.callback()(_root)
    made.command("help", hidden=True)(_help)
    for name, module, function in _COMMANDS:
        if name in names:
            made.command(name)(_entry(getattr(_module(module), function)))
    groups = {name: (about, module) for name, about, module in _GROUPS if name in names}
    if not groups and names is not _NAMES:
        return made  # what distributions add is looked for where it may be meant
    abouts, plugged = _plugged()
    for name, about in (*((n, a) for n, (a, _) in groups.items()), *abouts.items()):
        group = typer.Typer(rich_markup_mode=None, help=about)
        own = _module(groups[name][1]).COMMANDS if name in groups else ()
        for inner, command in own:
            _add(group, inner, command)
        for inner, plug_in in sorted(plugged.get(name, {}).items()):
            _add(group, inner, plug_in.load(), _about(plug_in))
        made.add_typer(group, name=name)
    for name, plug_in in plugged.get("", {}).items():
        _add(made, name, plug_in.load(), _about(plug_in))
    return made


def run(arguments: Sequence[str]) -> int:
    """The exit code of one command line; nothing escapes as an exception."""
    options = list(arguments)
    if options and options[0] in MOVED:
        options[:1] = MOVED[options[0]]
        now = " ".join(MOVED[arguments[0]])
        sys.stderr.write(f"`statediff {arguments[0]}` is now `statediff {now}`\n")
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
    gc.set_threshold(400_000, 50, 100)
    code = run(sys.argv[1:])
    gc.freeze()  # the end of a process looks for garbage several times
    sys.exit(code)


if __name__ == "__main__":
    main()
