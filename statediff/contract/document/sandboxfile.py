"""The sandbox file: which systems a sandbox has, of what each is made, and how it is put back.

A pack's `pack.yaml` and a project's `sandbox.yaml` are the same document. The model says what may
stand in it; which keys a source takes is decided by its kind, where the system is made.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Annotated, Final

from pydantic import ConfigDict
from pydantic import Field as Described

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
    tools: (
        Annotated[
            tuple[Identifier, ...],
            Described(description="a list of tools, e.g. [query]; none else is offered"),
        ]
        | None
    ) = None


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
    sources: Annotated[
        dict[Identifier, SourceEntry],
        Described(
            min_length=1,
            description="a mapping of sources to their kinds and what they are made of",
        ),
    ]
    variants: Annotated[
        dict[Identifier, VariantEntry],
        Described(default_factory=dict, description="a mapping of variants to their sources"),
    ]


def load_sandbox_file(path: Path) -> tuple[Document, SandboxDocument]:
    """The sandbox in a file. `UsageError`: no readable file; `ContractError`: no sandbox."""
    data, file = read_bytes(path), str(path)
    with _READING:  # many sandboxes that start at once read the same file many times
        if _read.get(file, (b"",))[0] != data:
            document = read_document(data, file)
            _read[file] = (data, document, as_model(document, SandboxDocument))
        _, document, content = _read[file]
        return document, content


_READING: Final = Lock()
_read: Final[dict[str, tuple[bytes, Document, SandboxDocument]]] = {}
