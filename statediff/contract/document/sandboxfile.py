"""The sandbox file: which systems a sandbox has, of what each is made, and how it is put back.

A pack's `pack.yaml` and a project's `sandbox.yaml` are the same document. The model says what may
stand in it; which keys a source takes is decided by its kind, where the system is made.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, model_validator
from pydantic import Field as Described

from statediff.contract.clauses.conduct import ActionClassName
from statediff.contract.document.load import read_bytes
from statediff.contract.parts import Duration, Identifier, Part, Version
from statediff.contract.yaml.reader import Document, read_document
from statediff.contract.yaml.shape import as_model

Text = Annotated[str, Described(min_length=1, max_length=4000)]
FileName = Annotated[
    str,
    Described(
        min_length=1, max_length=4000, description="the path of a file or folder, from this file"
    ),
]
Url = Annotated[
    str,
    Described(
        min_length=1,
        max_length=4000,
        description="a URL of a state, or its path from this file",
    ),
]
Command = Annotated[
    str,
    Described(
        min_length=1,
        max_length=4000,
        description="a command, started in the folder of this file and without a shell",
    ),
]
ALL: Final = "all"
Keep = Annotated[
    Literal["all"] | tuple[Text, ...],
    Described(description="`all`, or a list of branches, tags and references of a repository"),
]
"""Which references of a repository are copied beside what leads to its base."""
Sentences = Annotated[tuple[Text, ...], Described(description="a list of sentences")]


class SourceEntry(Part):
    """One source: its kind, and what it is made of. A kind of a plug-in may take further keys."""

    model_config = ConfigDict(extra="allow")

    kind: Annotated[
        str,
        Described(
            min_length=1,
            max_length=100,
            description="the kind of system, e.g. sqlite, postgres, mariadb, files, git, smtp or "
            "external",
        ),
    ]
    of: Identifier | None = None
    schema_: Annotated[FileName | None, Described(alias="schema")] = None
    file: FileName | None = None
    dump: FileName | None = None
    ddl: FileName | None = None
    seed: FileName | None = None
    tree: FileName | None = None
    repository: FileName | None = None
    url: Url | None = None
    agent_url: Url | None = None
    up: Command | None = None
    reset: Command | None = None
    down: Command | None = None
    timeout: Duration | None = None
    base: FileName | None = None
    keep: Keep | None = None
    types: Annotated[
        Identifier | None, Described(description="what the names of its types begin with, e.g. git")
    ] = None
    tools: (
        Annotated[
            tuple[Identifier, ...],
            Described(description="a list of tools, e.g. [query]; none else is offered"),
        ]
        | None
    ) = None


ToolName = Annotated[
    str,
    Described(
        pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$",
        description="a name of letters, digits and `_`, at most 63",
    ),
]
ArgumentName = Annotated[str, Described(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]
ArgumentType = Literal["text", "int", "number", "bool"]
Statement = Annotated[
    str,
    Described(
        min_length=1,
        max_length=20000,
        description="one SQL statement; `:name` is the argument of that name",
    ),
]
MARK: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|(?<![:\w]):([a-z_][a-z0-9_]*)|(\?)")
"""A quoted text, an argument in SQL (group 1), or a mark of the driver (group 2)."""
BRACED: Final = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
"""An argument in a path or a body."""


class ToolArgument(Part):
    """One argument of a tool."""

    type: ArgumentType
    description: Text | None = None
    one_of: Annotated[
        tuple[str | int, ...] | None, Described(min_length=1, description="a list of values")
    ] = None
    optional: Annotated[
        bool, Described(description="true: it may be left out, and is null then")
    ] = False


class HttpCall(Part):
    """A request to the system at the source's URL; `{name}` is the argument of that name."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    path: Annotated[
        str, Described(pattern=r"^[^?#\s]{0,1000}$", description="a path below the source's URL")
    ]
    query: Annotated[
        dict[str, str],
        Described(default_factory=dict, description="a mapping of parameters to their values"),
    ]
    body: Annotated[
        dict[str, Any] | None, Described(description="an object that is sent as JSON")
    ] = None

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text in which an argument may be named."""
        return (self.path, *self.query.values(), *_texts(self.body))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)


REFERENCE: Final = re.compile(r"\{([a-z_][a-z0-9_]*(?:\.[A-Za-z0-9_]+)*)\}")
"""`{argument}`, `{result}`, or what is inside: `{result.refund.id}`."""
Told = str | int | bool | None


class Acknowledged(Part):
    """The effect of a call of the tool that succeeded: one entity, by its fields.

    A value is `{argument}`, `{result}` or a part of it, or a value of its own.
    """

    create: Identifier | None = None
    update: Identifier | None = None
    delete: Identifier | None = None
    values: Annotated[
        dict[str, Told],
        Described(min_length=1, description="a mapping of fields to what the call says of them"),
    ]

    @model_validator(mode="after")
    def _is_one(self) -> Acknowledged:
        if sum(each is not None for each in (self.create, self.update, self.delete)) != 1:
            raise ValueError("needs one of create, update and delete")
        return self

    @property
    def operation(self) -> Literal["create", "update", "delete"]:
        """The operation that was done."""
        return "create" if self.create else "update" if self.update else "delete"

    @property
    def type(self) -> str:
        """The type of the entity."""
        return self.create or self.update or self.delete or ""

    @staticmethod
    def reference(written: Told) -> tuple[str, ...] | None:
        """The argument or `result`, and the steps inside it; None of a value of its own."""
        found = REFERENCE.fullmatch(written) if isinstance(written, str) else None
        return None if found is None else tuple(found[1].split("."))


class ToolEntry(Part):
    """A tool that agents of the sandbox are offered: what it is called, and what it does."""

    name: ToolName
    description: Text
    arguments: Annotated[
        dict[ArgumentName, ArgumentType | ToolArgument],
        Described(
            default_factory=dict,
            description="a mapping of arguments to their types or more of them",
        ),
    ]
    class_: Annotated[ActionClassName, Described(alias="class")]
    permission: Annotated[
        Literal["granted", "denied"],
        Described(description="denied: it is offered, and every call of it is refused"),
    ] = "granted"
    on: Identifier | None = None
    sql: Statement | Annotated[tuple[Statement, ...], Described(min_length=1)] | None = None
    http: HttpCall | None = None
    command: Command | None = None
    acknowledges: Acknowledged | None = None

    @model_validator(mode="after")
    def _does_one_thing(self) -> ToolEntry:
        ways = [way for way in ("sql", "http", "command") if getattr(self, way) is not None]
        if len(ways) != 1:
            raise ValueError(f"needs one of sql, http and command, found {len(ways)}")
        if (self.on is None) != (ways == ["command"]):
            raise ValueError("`on` names the source of `sql` and `http`, and goes with no command")
        if self.command is not None:
            try:
                shlex.split(self.command)
            except ValueError as error:
                raise ValueError(f"the command cannot be split: {error}") from error
        if self.class_ == "read" and len(self.statements) > 1:
            raise ValueError("a tool of class read has one statement")
        _refuse_unknown(self.statements, self.arguments.keys())
        if self.acknowledges is not None and self.class_ == "read":
            raise ValueError("a tool of class read changes nothing that it could acknowledge")
        unknown = sorted((self.used | self._told) - self.arguments.keys())
        if unknown:
            raise ValueError(f"there is no argument `{unknown[0]}`")
        return self

    @property
    def statements(self) -> tuple[str, ...]:
        return (self.sql,) if isinstance(self.sql, str) else self.sql or ()

    @property
    def _told(self) -> frozenset[str]:
        """The arguments that its acknowledgement names."""
        written = () if self.acknowledges is None else self.acknowledges.values.values()
        named = (Acknowledged.reference(each) for each in written)
        return frozenset(steps[0] for steps in named if steps is not None) - {"result"}

    @property
    def used(self) -> frozenset[str]:
        """The arguments that what it does names."""
        found = {m[1] for each in self.statements for m in MARK.finditer(each) if m[1]}
        texts = () if self.http is None else self.http.texts
        return frozenset(found.union(*(BRACED.findall(text) for text in texts)))


class Draw(Part):
    """How a value is chosen each time: one of a list, a number from a range, a row of a query."""

    one_of: Annotated[
        tuple[str | int, ...] | None, Described(min_length=1, description="a list of values")
    ] = None
    from_: Annotated[int | None, Described(alias="from")] = None
    to: int | None = None
    sql: Statement | None = None

    @model_validator(mode="after")
    def _is_one_way(self) -> Draw:
        ways = [self.one_of is not None, self.from_ is not None, self.sql is not None]
        if sum(ways) != 1 or (self.from_ is None) != (self.to is None):
            raise ValueError("needs one of `one_of`, `from` with `to`, and `sql`")
        if self.from_ is not None and self.to is not None and self.to < self.from_:
            raise ValueError("`to` is less than `from`")
        return self


class OperationEntry(Part):
    """One transaction of somebody beside the agent, with values chosen at random."""

    draw: Annotated[
        dict[ArgumentName, Statement | Draw],
        Described(
            default_factory=dict,
            description="a mapping of arguments to how each is chosen; a text is a query of SQL, "
            "whose first column is chosen from",
        ),
    ]
    sql: Statement | Annotated[tuple[Statement, ...], Described(min_length=1)]
    weight: Annotated[
        int, Described(ge=1, le=1000, description="how often it is done beside others")
    ] = 1

    @model_validator(mode="after")
    def _names_what_it_draws(self) -> OperationEntry:
        known: set[str] = set()
        for name, draw in self.draw.items():
            query = draw if isinstance(draw, str) else draw.sql
            _refuse_unknown((query,) if query else (), known)
            known.add(name)
        _refuse_unknown(self.statements, known)
        return self

    @property
    def statements(self) -> tuple[str, ...]:
        return (self.sql,) if isinstance(self.sql, str) else self.sql


def _refuse_unknown(statements: Iterable[str], known: AbstractSet[str]) -> None:
    for statement in statements:
        for found in MARK.finditer(statement):
            if found[2]:
                raise ValueError("an argument is `:name`, not `?`")
            if found[1] and found[1] not in known:
                raise ValueError(f"there is no argument `{found[1]}`")


class OtherEntry(Part):
    """Somebody who works in the sandbox while the agent does."""

    on: Identifier
    per_second: Annotated[
        float, Described(gt=0, le=1000, description="operations in a second, on average")
    ] = 20.0
    operations: Annotated[
        dict[Identifier, OperationEntry],
        Described(min_length=1, description="a mapping of operations to what each of them does"),
    ]


Sources = Annotated[
    dict[Identifier, SourceEntry],
    Described(description="a mapping of sources to their kinds and what they are made of"),
]


class VariantEntry(Part):
    """The same sources, served by other systems."""

    real: Sentences | None = None
    simulated: Sentences | None = None
    sources: Sources = Described(default_factory=dict)


class SandboxDocument(Part):
    """A sandbox: its sources, and where their base states come from."""

    sandbox: Identifier | None = None
    version: Version = "0.0.0"
    about: Text = ""
    real: Sentences = ()
    simulated: Sentences = ()
    sources: Annotated[Sources, Described(min_length=1)]
    tools: Annotated[
        tuple[ToolEntry, ...],
        Described(description="a list of tools of its own that agents are offered"),
    ] = ()
    others: Annotated[
        dict[Identifier, OtherEntry],
        Described(
            default_factory=dict,
            description="a mapping of who else works in it while the agent does, to what they do",
        ),
    ]
    amounts: Annotated[
        tuple[Annotated[str, Described(pattern=r"^[^.\s]+(\.[^.\s]+)?\.[^.\s]+$")], ...],
        Described(
            description="a list of fields, TYPE.FIELD, to which several add, e.g. product.stock"
        ),
    ] = ()
    variants: Annotated[
        dict[Identifier, VariantEntry],
        Described(default_factory=dict, description="a mapping of variants to their sources"),
    ]


def load_sandbox_file(path: Path) -> tuple[Document, SandboxDocument]:
    """The sandbox in a file. `UsageError`: no readable file; `ContractError`: no sandbox."""
    data = read_bytes(path)
    with _READING:  # many sandboxes that start at once read the same file many times
        return _read(data, str(path))


_READING: Final = Lock()


@lru_cache(maxsize=16)
def _read(data: bytes, file: str) -> tuple[Document, SandboxDocument]:
    document = read_document(data, file)
    return document, as_model(document, SandboxDocument)
