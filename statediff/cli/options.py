"""Options and arguments that several commands have, alone and in groups.

A group is a frozen dataclass whose fields are options. A command takes it as one parameter, and
`with_options` shows the parser its fields, where the parameter stands and in their order. A field
may be a group itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, get_type_hints

import typer

if TYPE_CHECKING:
    from statediff.workspace.cases import Chosen

MAX_JOBS: Final = 64


def with_options(command: Callable[..., object]) -> Callable[..., object]:
    """The command as the parser is to see it: in place of each group, the options in it."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hints[name] for name in signature(command).parameters}
    flat = [
        option
        for parameter in signature(command).parameters.values()
        for option in _options(parameter.name, hints[parameter.name], parameter.default)
    ]

    @functools.wraps(command)
    def call(**given: object) -> object:
        return command(**{name: _value(name, hint, given) for name, hint in groups.items()})

    call.__signature__ = Signature(flat)  # type: ignore[attr-defined]  # `inspect` reads it
    call.__annotations__ = {option.name: option.annotation for option in flat}
    return call


def _options(name: str, hint: Any, default: Any) -> Iterator[Parameter]:
    if not is_dataclass(hint):
        for info in getattr(hint, "__metadata__", ()):
            info.readable = False  # the parser says less than what opens the place
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        return
    hints = get_type_hints(hint, include_extras=True)
    for field in fields(hint):
        own = Parameter.empty if field.default is MISSING else field.default
        yield from _options(field.name, hints[field.name], own)


def _value(name: str, hint: Any, given: Mapping[str, object]) -> object:
    if not isinstance(hint, type) or not is_dataclass(hint):
        return given[name]
    hints = get_type_hints(hint, include_extras=True)
    return hint(**{each.name: _value(each.name, hints[each.name], given) for each in fields(hint)})


# ---------------------------------------------------------------- one option or argument


class Tier(StrEnum):
    """Who a copy is for."""

    PUBLIC = "public"
    REVIEWER = "reviewer"
    AUDITOR = "auditor"


JsonFlag: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")
]
RebaseOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--rebase",
        help="External systems were changed on purpose: what the next reset leaves is their base.",
    ),
]
ContractArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="CONTRACT", help="Contract file, its folder, or a pack's name.")
]
ContractArguments: TypeAlias = Annotated[
    list[str],
    typer.Argument(metavar="CONTRACT...", help="Contract files, folders, or packs' names."),
]
InstalledOnly: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--installed-only", help="End well although something was left out: it is not installed."
    ),
]
BundleArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="BUNDLE", help="A bundle's folder, or a trial's with one.")
]
BundleOrRunArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="BUNDLE|RUN", help="A bundle's folder, a trial's, or a run's.")
]
RunArgument: TypeAlias = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
SandboxArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="The sandbox, e.g. `shop`.")
]
VariantOption: TypeAlias = Annotated[
    str, typer.Option("--variant", metavar="VARIANT", help="Which, e.g. `postgres`.")
]
SchemaFileOption: TypeAlias = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="State schema file.")
]
StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where runs are indexed: sqlite:///FILE or postgresql://… "
        "[default: .statediff/store.sqlite].",
    ),
]
KeyOption: TypeAlias = Annotated[
    Path, typer.Option("--key", metavar="KEY", help="The secret key, from `statediff keygen`.")
]
ReviewerKeyOption: TypeAlias = Annotated[
    Path, typer.Option("--key", metavar="KEY", help="The reviewer's secret key, from `keygen`.")
]
TrustOption: TypeAlias = Annotated[
    Path, typer.Option("--trust", metavar="FILE", help="The trust file: whose keys count.")
]
CopyTrustOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--trust", metavar="FILE", help="For a sealed copy: whose keys count."),
]
BrowserOption: TypeAlias = Annotated[
    bool, typer.Option("--open/--no-open", help="Open the page in the browser.")
]
RootsLogOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--log", metavar="LOG", help="Put the roots of the states into this log before judging."
    ),
]
ObserverOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--observer",
        metavar="KEY",
        help="Sign what was captured and recorded with this key, before judging.",
    ),
]
VaultOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--vault", metavar="DIR", help="Where the keys of a kept bundle (.kept) lie."),
]
BundleOutOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Folder for the bundle [default: .statediff/bundles/CONTRACT-DIGEST].",
    ),
]
NetworkOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--network",
        metavar="HOST:PORT",
        help="What an isolated program reaches beside the trial's own systems, e.g. its model's "
        "API; may be given again.",
    ),
]
MaxTurnsOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--max-turns", min=1, max=1000, help="Answers of the model [default: 50]."),
]
ContractsVariantOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--sandbox", metavar="VARIANT", help="Of the contracts' sandboxes, e.g. `postgres`."
    ),
]
MaxCostOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--max-cost", metavar="COST", help="Of all trials together; needs both prices."),
]


# ---------------------------------------------------------------- groups


@dataclass(frozen=True, kw_only=True)
class StatePair:
    """The two states that are compared."""

    before: Annotated[
        list[str],
        typer.Option(
            "--before",
            metavar="[NAME=]STATE",
            help="State before: a path or a URL; once a source.",
        ),
    ]
    after: Annotated[
        list[str],
        typer.Option("--after", metavar="[NAME=]STATE", help="State after, for the same sources."),
    ]


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """A run that was recorded, in place of agents."""

    before: Annotated[
        list[str] | None,
        typer.Option(
            "--before",
            metavar="[NAME=]STATE",
            help="Instead of agents, a recorded run: its state before, once a source.",
        ),
    ] = None
    after: Annotated[
        list[str] | None, typer.Option("--after", metavar="[NAME=]STATE", help="Its state after.")
    ] = None
    answer: Annotated[
        Path | None, typer.Option("--answer", metavar="FILE", help="Its answer, JSON.")
    ] = None

    @property
    def is_whole(self) -> bool:
        """Both states are given, or nothing is."""
        return bool(self.before) == bool(self.after) and (self.answer is None or bool(self.before))


@dataclass(frozen=True, kw_only=True)
class CaseChoice:
    """Which cases of a contract are meant, and with which inputs."""

    cases: Annotated[
        Path | None,
        typer.Option(
            "--cases",
            metavar="FILE",
            help="Inputs, a case a row: JSON lines, CSV or TSV [default: the contract's `cases`].",
        ),
    ] = None
    case: Annotated[
        list[str] | None,
        typer.Option("--case", metavar="PATTERN", help="Only the cases named so."),
    ] = None
    given: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=VALUE", help="An input, in place of the contract's."),
    ] = None

    @property
    def is_given(self) -> bool:
        """Whether any of the options is."""
        return bool(self.cases or self.case or self.given)

    @property
    def chosen(self) -> Chosen:
        """What the options choose."""
        from statediff.workspace.cases import Chosen

        names, given = tuple(self.case or ()), tuple(self.given or ())
        return Chosen(file=self.cases, names=names, given=given)


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """How work of many pieces is done."""

    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="FOLDER",
            help="Keep what each piece of the work gave, and go on from there the next time.",
        ),
    ] = None
    jobs: Annotated[
        int, typer.Option("-j", "--jobs", metavar="N", min=1, max=MAX_JOBS, help="Processes.")
    ] = 1


@dataclass(frozen=True, kw_only=True)
class UserModel:
    """A model that plays the user, in contracts with turns."""

    user_url: Annotated[
        str | None,
        typer.Option(
            "--user-url",
            metavar="URL",
            help="In turns: a model at this OpenAI-compatible endpoint answers the agent's "
            "questions for the user.",
        ),
    ] = None
    user_model: Annotated[
        str | None, typer.Option("--user-model", metavar="NAME", help="With --user-url: which.")
    ] = None
    user_key_env: Annotated[
        str | None,
        typer.Option(
            "--user-key-env",
            metavar="NAME",
            help="With --user-url: the variable that holds its key [default: OPENAI_API_KEY].",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ModelCosts:
    """The key to a model, and what it may cost."""

    key_env: Annotated[
        str | None,
        typer.Option(
            "--key-env", metavar="NAME", help="The variable with the key [default: OPENAI_API_KEY]."
        ),
    ] = None
    price_in: Annotated[
        str | None,
        typer.Option("--price-in", metavar="PRICE", help="Of one million tokens that are sent."),
    ] = None
    price_out: Annotated[
        str | None,
        typer.Option("--price-out", metavar="PRICE", help="Of one million tokens that come back."),
    ] = None
    max_cost: MaxCostOption = None


@dataclass(frozen=True, kw_only=True)
class Scheduling:
    """How many trials are made at once, where, and how often each is tried."""

    workers: Annotated[
        int,
        typer.Option(
            "-j",
            "--jobs",
            min=1,
            max=256,
            help="Trials at once, each in a sandbox of its own; results are shown in order.",
        ),
    ] = 1
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS",
            help="A Dask scheduler, e.g. tcp://host:8786, whose workers make the trials; "
            "or `local`.",
        ),
    ] = None
    retries: Annotated[
        int,
        typer.Option(
            "--retries", min=0, max=100, help="Further attempts where the environment failed."
        ),
    ] = 2


@dataclass(frozen=True, kw_only=True)
class RunPlaces:
    """Where a run is indexed and copied."""

    store: StoreOption = None
    artifacts: Annotated[
        str | None,
        typer.Option(
            "--artifacts",
            metavar="URL",
            help="Copy the run there as it goes on: s3://bucket/runs, file:///srv/runs; by fsspec.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Loudness:
    """How much of a judgement is printed."""

    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Also each clause that holds, in words.")
    ] = False
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Only the verdict, and what comes first.")
    ] = False
    as_json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Where a page is served on this machine, and whether the browser opens it."""

    port: Annotated[
        int,
        typer.Option(
            "--port", help="On 127.0.0.1 [default: any that is free].", show_default=False
        ),
    ] = 0
    start: BrowserOption = True


IdentityOption = Annotated[
    Path | None,
    typer.Option(
        "--identity",
        metavar="FILE",
        help="Of a sealed copy: the auditor's age identity, for what the copy does not show.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class CopyKeys:
    """What it takes to read a sealed copy."""

    trust: CopyTrustOption = None
    vault: VaultOption = None
