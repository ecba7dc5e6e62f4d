"""The command line: every command by name. A command parses, calls one function and renders."""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typing_extensions import override

from statediff._version import __version__
from statediff.cli.faults import USAGE, Gone, Interrupted, ParserError, exit_code_of
from statediff.cli.options import RARE, option, with_options
from statediff.entrypoints import PLUGINS, PlugIn, plug_ins
from statediff.errors import UsageError
from statediff.extras import EXTRAS, brought
from statediff.sparing import import_sparingly

_HELP = """\b
Decide, with evidence, whether a run changed the world as its task allowed.
Exit codes: 0 MATCH, 1 DIVERGE, 2 usage, 3 INCONCLUSIVE, 4 fault."""
_MORE = """Exit codes: 0 all MATCH; 1 any DIVERGE; 2 usage or invalid contract; 3 INCONCLUSIVE and
no DIVERGE; 4 harness or evaluator fault; 130 interrupted. `statediff --install-completion` makes
your shell complete commands."""


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"statediff {__version__}\n")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback acts on it
        bool,
        option("", "Print the version and end.", "--version", callback=_version, is_eager=True),
    ] = False,
    plugins: Annotated[
        Path | None,
        option("DIR", "Load the plug-ins of systems that are files in DIR.", "--plugins"),
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
            return command(**options)
        except KeyboardInterrupt as error:
            raise Interrupted from error  # the parser would turn it into a silent exit
        except BrokenPipeError as error:
            raise Gone from error  # the parser would turn it into exit code 1, which is DIVERGE

    return call


_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "demo": ("demo", "demo"),
    "init": ("contracts.drafting", "init"),
    "tasks": ("contracts.authoring", "tasks"),
    "run": ("suites.running", "run"),
    "retry": ("suites.retrying", "retry"),
    "record": ("contracts.drafting", "record"),
    "watch": ("states", "watch"),
    "judge": ("judging", "judge"),
    "capture": ("states", "capture"),
    "diff": ("states", "diff"),
    "check": ("contracts.authoring", "check"),
    "mutate": ("contracts.testing", "mutate"),
    "metatest": ("contracts.metatesting", "metatest"),
    "agree": ("contracts.testing", "agree"),
    "fmt": ("contracts.authoring", "fmt"),
    "show": ("evidence.bundles", "show"),
    "replay": ("evidence.bundles", "replay"),
    "export": ("evidence.bundles", "export"),
    "keygen": ("evidence.sealing", "keygen"),
    "sign": ("evidence.sealing", "sign"),
    "verify": ("evidence.sealing", "verify"),
    "redact": ("evidence.sealing", "redact"),
    "raw": ("evidence.sealing", "raw"),
    "report": ("suites.reporting", "report"),
    "open": ("suites.reporting", "open_page"),
    "runs": ("suites.store", "runs"),
    "stats": ("suites.store", "stats"),
    "schema": ("contracts.authoring", "schema"),
    "doctor": ("systems.machine", "doctor"),
}
"""Name → module of this package, function. No module is imported before its command is run."""
_GROUPS: Final[Mapping[str, tuple[str, str]]] = {
    "sandbox": ("Start, reset, prove and stop a sandbox.", "systems.sandboxes"),
    "contract": ("Release, sign off, compare versions; try what undoes.", "contracts.versions"),
    "store": ("Check and tidy the chunks of a run.", "suites.store"),
    "batch": ("Open one rollout of many that were judged at once.", "evidence.batches"),
}
"""Name → help, module of this package, whose `COMMANDS` are in the group."""
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
_NAMES: Final = frozenset((*_COMMANDS, *_GROUPS))


PLUG_INS: Final = "statediff.commands"
"""Commands that installed distributions add: a command by its name, or GROUP.NAME, a function whose
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


def _add(above: typer.Typer, name: str, command: object, about: str = "") -> None:
    """The command, or the group of commands with its help, is in the parser."""
    if isinstance(command, tuple):
        group = typer.Typer(rich_markup_mode=None, help=about)
        for inner, function in command:
            _add(group, inner, function)
        above.add_typer(group, name=name)
    elif callable(command):
        more = f"Further options: `statediff help {name}`." if vars(command).get(RARE) else None
        above.command(name, epilog=more)(_entry(command))
    else:
        raise UsageError(f"{name}: expected a function, found {type(command).__name__}")


def _add_plugged(above: typer.Typer, name: str, plug_in: PlugIn) -> None:
    """Add a distribution's command to the parser; its module says what a group is for."""
    about = (importlib.import_module(plug_in.module).__doc__ or "").partition("\n")[0]
    _add(above, name, plug_in.load(), about)


def _load(name: str) -> Any:
    """The command, or the group of commands; `KeyError` where nothing installed brings it."""
    above = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    plugged = plug_ins(PLUG_INS)
    if name in _PLAIN:
        import_sparingly()
    if name in _COMMANDS:
        module, function = _COMMANDS[name]
        _add(above, name, getattr(_module(module), function))
    elif name not in _GROUPS and not isinstance(plugged[name].load(), str):
        _add_plugged(above, name, plugged[name])
    else:
        about, module = _GROUPS.get(name) or (str(plugged[name].load()), "")
        group = typer.Typer(rich_markup_mode=None, help=about)
        for inner, command in _module(module).COMMANDS if module else ():
            _add(group, inner, command)
        for full, plug_in in plugged.items():
            if full.startswith(f"{name}."):
                _add_plugged(group, full.partition(".")[2], plug_in)
        above.add_typer(group, name=name)
    return typer.main.get_group(above).commands[name]


class _Loading(Mapping[str, Any]):
    """Every command by name; each is loaded when it is asked for."""

    def __init__(self, loaded: Mapping[str, Any]) -> None:
        self._loaded = dict(loaded)

    @override
    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name)
        return self._loaded[name]

    @override
    def __iter__(self) -> Iterator[str]:
        plugged = (name for name in plug_ins(PLUG_INS) if "." not in name)
        return iter(dict.fromkeys((*_COMMANDS, *_GROUPS, *plugged, *self._loaded)))

    @override
    def __len__(self) -> int:
        return sum(1 for _ in self)


def _summary(name: str) -> str:
    """The first line of what a command says it is for; its module is read and not imported."""
    module, function = _COMMANDS[name]
    file = Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
    body = ast.parse(file.read_bytes()).body
    [found] = [f for f in body if isinstance(f, ast.FunctionDef) and f.name == function]
    return (ast.get_docstring(found) or "").partition("\n")[0]


class _Sections(TyperGroup):
    """The first commands with what they are for, the others by name; `help` explains them all."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = _Loading(self.commands)

    @override
    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)
        for each in found:
            each.hidden = str(each.name).endswith("_completion")  # `help` names them
        return found

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

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
        named = [name for each in others for name in _SECTIONS[each].split()]
        with formatter.section(first):
            formatter.write_dl([(name, _summary(name)) for name in _SECTIONS[first].split()])
        formatter.write_paragraph()
        formatter.write_text(f"`statediff help` lists {len(named)} more commands.")

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
        formatter.write_paragraph()
        formatter.write_text(_MORE)
        sys.stdout.write(formatter.getvalue())
        return
    found = group.get_command(above, command)
    if found is None:
        raise UsageError(f"no command is called {command!r}; `statediff help` lists them")
    for each in found.params:
        each.hidden = each.hidden and not each.help
    found.epilog = None
    with found.make_context(command, [], parent=above, resilient_parsing=True) as inner:
        sys.stdout.write(inner.get_help() + "\n")


def parser() -> typer.Typer:
    """The parser of the command line, with every command that is installed."""
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
    return made


def run(arguments: Sequence[str]) -> int:
    """The exit code of one command line; nothing escapes as an exception."""
    options = list(arguments)
    if options and options[0] in MOVED:
        options[:1] = MOVED[options[0]]
        now = " ".join(MOVED[arguments[0]])
        sys.stderr.write(f"`statediff {arguments[0]}` is now `statediff {now}`\n")
    as_json = "--json" in (options[: options.index("--")] if "--" in options else options)
    return exit_code_of(
        lambda: parser()(args=options, prog_name="statediff", standalone_mode=False),
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
