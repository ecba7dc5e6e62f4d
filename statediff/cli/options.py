"""Options and arguments that several commands have, alone and in groups.

A group is a frozen dataclass whose fields are options. A command takes it as one parameter, and
`with_options` shows the parser its fields, where the parameter stands and in their order. A field
may be a group itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import StrEnum
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    TypeAlias,
    TypeVar,
    get_args,
    get_type_hints,
)

import typer

if TYPE_CHECKING:
    from statediff.workspace.cases import Chosen

MAX_JOBS: Final = 64
OPTION: Final = "option"
"""The option of a group's field, in its metadata."""
RARE: Final = "rare"
"""The names of a command's options that few people need, in its attributes."""
Made = TypeVar("Made", bound=Callable[..., object])


def with_options(command: Callable[..., object]) -> Callable[..., object]:
    """The command as the parser is to see it: in place of each group, the options in it."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hints[name] for name in signature(command).parameters}
    flat = [
        option
        for parameter in signature(command).parameters.values()
        for option in _options(parameter.name, hints[parameter.name], parameter.default)
    ]
    rare = vars(command).get(RARE, ())
    flat = [_hidden(option) if option.name in rare else option for option in flat]

    @functools.wraps(command)
    def call(**given: object) -> object:
        return command(**{name: _value(name, hint, given) for name, hint in groups.items()})

    call.__signature__ = Signature(flat)  # type: ignore[attr-defined]  # `inspect` reads it
    call.__annotations__ = {option.name: option.annotation for option in flat}
    return call


def rarely(*names: str) -> Callable[[Made], Made]:
    """A command of which `statediff help COMMAND` shows these options, and `--help` does not."""

    def mark(command: Made) -> Made:
        vars(command)[RARE] = frozenset(names)
        return command

    return mark


def _hidden(option: Parameter) -> Parameter:
    base, *infos = get_args(option.annotation)
    [info] = map(copy, infos)
    info.hidden = True
    return option.replace(annotation=Annotated[base, info])


def _options(name: str, hint: Any, default: Any) -> Iterator[Parameter]:
    if not is_dataclass(hint):
        for info in getattr(hint, "__metadata__", ()):
            info.readable = False  # the parser says less than what opens the place
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        return
    hints = get_type_hints(hint, include_extras=True)
    for each in fields(hint):
        own = Parameter.empty if each.default is MISSING else each.default
        kind = hints[each.name]
        if made := each.metadata.get(OPTION):
            if made.default is ...:  # typer keeps the first name here, once a hint holds it
                made.default = f"--{each.name.replace('_', '-')}"
            kind = Annotated[kind, made]
        yield from _options(each.name, kind, own)


def _value(name: str, hint: Any, given: Mapping[str, object]) -> object:
    if not isinstance(hint, type) or not is_dataclass(hint):
        return given[name]
    hints = get_type_hints(hint, include_extras=True)
    return hint(**{each.name: _value(each.name, hints[each.name], given) for each in fields(hint)})


def option(metavar: str, about: str, *names: str, **more: Any) -> Any:
    """An option, for `Annotated`; it is named as its parameter is where no name is given."""
    return typer.Option(*names, metavar=metavar or None, help=about, **more)


def argument(metavar: str, about: str) -> Any:
    """An argument, for `Annotated`."""
    return typer.Argument(metavar=metavar, help=about)


def opt(metavar: str, about: str, *names: str, default: Any = None, **more: Any) -> Any:
    """A field of a group that is an option, named as it is; `...` makes it required."""
    known = {} if default is ... else {"default": default}
    return field(**known, metadata={OPTION: option(metavar, about, *names, **more)})


def flag(about: str, *names: str) -> Any:
    """A field of a group that is false unless its option is given."""
    return opt("", about, *names, default=False)


def old(*, default: Any = None, **more: Any) -> Any:
    """An option that another way says now: it is read, and no help shows it."""
    return opt("", "", default=default, hidden=True, **more)


# ---------------------------------------------------------------- one option or argument


class Tier(StrEnum):
    """Who a copy is for."""

    PUBLIC = "public"
    REVIEWER = "reviewer"
    AUDITOR = "auditor"


JsonFlag: TypeAlias = Annotated[
    bool, option("", "Print JSON on standard output, and nothing else there.", "--json")
]
RebaseOption: TypeAlias = Annotated[
    bool,
    option(
        "",
        "External systems were changed on purpose: what the next reset leaves is their base.",
        "--rebase",
    ),
]
ContractArgument: TypeAlias = Annotated[
    str, argument("CONTRACT", "Contract file, its folder, or a pack's name.")
]
ContractArguments: TypeAlias = Annotated[
    list[str], argument("CONTRACT...", "Contract files, folders, or packs' names.")
]
InstalledOnly: TypeAlias = Annotated[
    bool,
    option(
        "",
        "Do not end with 4 because contracts were left out, as their systems are not installed.",
        "--installed-only",
    ),
]
BundleArgument: TypeAlias = Annotated[
    Path, argument("BUNDLE", "A bundle's folder, or a trial's with one.")
]
BundleOrRunArgument: TypeAlias = Annotated[
    Path, argument("BUNDLE|RUN", "A bundle's folder, a trial's, or a run's.")
]
RunArgument: TypeAlias = Annotated[Path, argument("RUN", "The folder of a run.")]
SandboxArgument: TypeAlias = Annotated[str, argument("NAME", "The sandbox, e.g. `shop`.")]
VariantOption: TypeAlias = Annotated[str, option("VARIANT", "Which, e.g. `postgres`.", "--variant")]
SchemaFileOption: TypeAlias = Annotated[
    Path | None, option("FILE", "State schema file.", "--schema")
]
StoreOption: TypeAlias = Annotated[
    str | None,
    option(
        "URL",
        "Where runs are indexed: sqlite:///FILE or postgresql://… "
        "[default: .statediff/store.sqlite].",
        "--store",
    ),
]
KeyOption: TypeAlias = Annotated[
    Path, option("KEY", "The secret key, from `statediff keygen`.", "--key")
]
ReviewerKeyOption: TypeAlias = Annotated[
    Path, option("KEY", "The reviewer's secret key, from `keygen`.", "--key")
]
TrustOption: TypeAlias = Annotated[
    Path, option("FILE", "The trust file: whose keys count.", "--trust")
]
CopyTrustOption: TypeAlias = Annotated[
    Path | None, option("FILE", "For a sealed copy: whose keys count.", "--trust")
]
BrowserOption: TypeAlias = Annotated[
    bool, option("", "Open the page in the browser.", "--open/--no-open")
]
RootsLogOption: TypeAlias = Annotated[
    Path | None, option("LOG", "Put the roots of the states into this log before judging.", "--log")
]
ObserverOption: TypeAlias = Annotated[
    Path | None,
    option("KEY", "Sign what was captured and recorded by this key, unjudged.", "--observer"),
]
VaultOption: TypeAlias = Annotated[
    Path | None, option("DIR", "Where the keys of a kept bundle (.kept) lie.", "--vault")
]
BundleOutOption: TypeAlias = Annotated[
    Path | None,
    option("DIR", "Folder for the bundle [default: .statediff/bundles/CONTRACT-DIGEST].", "--out"),
]
NetworkOption: TypeAlias = Annotated[
    list[str] | None,
    option(
        "HOST:PORT",
        "What an isolated program reaches beside the trial's own systems, e.g. its model's "
        "API; may be given again.",
        "--network",
    ),
]
MaxTurnsOption: TypeAlias = Annotated[
    int | None, option("", "Answers of the model [default: 50].", "--max-turns", min=1, max=1000)
]
ContractsVariantOption: TypeAlias = Annotated[
    str, option("VARIANT", "Of the contracts' sandboxes, e.g. `postgres`.", "--sandbox")
]
MaxCostOption: TypeAlias = Annotated[
    str | None, option("COST", "Of all trials together; needs both prices.", "--max-cost")
]


# ---------------------------------------------------------------- groups


@dataclass(frozen=True, kw_only=True)
class StatePair:
    """The two states that are compared."""

    before: list[str] = opt(
        "[NAME=]STATE", "State before: a path or a URL; once a source.", default=...
    )
    after: list[str] = opt("[NAME=]STATE", "State after, for the same sources.", default=...)


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """A run that was recorded, in place of agents."""

    before: list[str] | None = opt(
        "[NAME=]STATE", "Instead of agents, a recorded run: its state before, once a source."
    )
    after: list[str] | None = opt("[NAME=]STATE", "Its state after.")
    answer: Path | None = opt("FILE", "Its answer, JSON.")

    @property
    def is_whole(self) -> bool:
        """Both states are given, or nothing is."""
        return bool(self.before) == bool(self.after) and (self.answer is None or bool(self.before))


@dataclass(frozen=True, kw_only=True)
class CaseChoice:
    """The chosen cases of a contract, and their inputs."""

    cases: Path | None = opt(
        "FILE", "Inputs, a case a row: JSON lines, CSV or TSV [default: the contract's `cases`]."
    )
    case: list[str] | None = opt("PATTERN", "Only the cases named so.")
    given: list[str] | None = opt("NAME=VALUE", "An input, in place of the contract's.", "--input")

    @property
    def is_given(self) -> bool:
        """True if any of the options is."""
        return bool(self.cases or self.case or self.given)

    @property
    def chosen(self) -> Chosen:
        """The chosen cases."""
        from statediff.workspace.cases import Chosen

        names, given = tuple(self.case or ()), tuple(self.given or ())
        return Chosen(file=self.cases, names=names, given=given)


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """How work of many pieces is done."""

    keep: Path | None = opt(
        "FOLDER", "Keep what each piece of the work gave, and go on from there the next time."
    )
    jobs: int = opt("N", "Processes.", "-j", "--jobs", default=1, min=1, max=MAX_JOBS)


@dataclass(frozen=True, kw_only=True)
class ModelCosts:
    """The key to a model, and what it may cost."""

    key_env: str | None = opt("NAME", "The variable with the key [default: OPENAI_API_KEY].")
    price_in: str | None = opt("PRICE", "Of one million tokens that are sent.")
    price_out: str | None = opt("PRICE", "Of one million tokens that come back.")
    max_cost: MaxCostOption = None


@dataclass(frozen=True, kw_only=True)
class Scheduling:
    """How many trials are made at once, where, and how often each is tried."""

    workers: int = opt(
        "",
        "Trials at once, each in a sandbox of its own; results are shown in order.",
        "-j",
        "--jobs",
        default=1,
        min=1,
        max=256,
    )
    scheduler: str | None = opt(
        "ADDRESS",
        "A Dask scheduler, e.g. tcp://host:8786, whose workers make the trials; or `local`.",
    )
    retries: int = opt(
        "", "Further attempts where the environment failed.", default=2, min=0, max=100
    )


@dataclass(frozen=True, kw_only=True)
class RunPlaces:
    """The places where a run is indexed and copied."""

    store: StoreOption = None
    artifacts: str | None = opt(
        "URL", "Copy the run there as it goes on: s3://bucket/runs, file:///srv/runs; by fsspec."
    )


@dataclass(frozen=True, kw_only=True)
class Loudness:
    """How much of a judgement is printed."""

    verbose: bool = flag("Also each clause that holds, in words.", "-v", "--verbose")
    quiet: bool = flag("Only the verdict, and what comes first.", "-q", "--quiet")
    as_json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """The port of a page on this machine; the browser may open it."""

    port: int = opt("", "On 127.0.0.1 [default: any that is free].", default=0, show_default=False)
    start: BrowserOption = True


IdentityOption = Annotated[
    Path | None,
    option(
        "FILE",
        "Of a sealed copy: the auditor's age identity, for what the copy does not show.",
        "--identity",
    ),
]


@dataclass(frozen=True, kw_only=True)
class CopyKeys:
    """The keys that read a sealed copy."""

    trust: CopyTrustOption = None
    vault: VaultOption = None
