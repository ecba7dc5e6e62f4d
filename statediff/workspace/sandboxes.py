"""Drafts of a sandbox of one's own, from states at hand or from what is in a folder.

A SQLite file, a folder of tables and a folder of files are copied beside the sandbox file: the base
must not change while the application runs. A dump, a repository and a database at a URL are named.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from statediff.capture.source import clock
from statediff.contract.document.load import read_bytes
from statediff.contract.document.schemafile import load_schema_file
from statediff.errors import InputError, SandboxError, UsageError
from statediff.model.values import printable
from statediff.packs import SANDBOX_FILE, SandboxPack
from statediff.systems.base.known_bases import forget_bases
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.systems.base.urls import password_variable, url_without_password
from statediff.systems.external.sandbox import ExternalSystem, base_document
from statediff.workspace import folders
from statediff.workspace.contracts import SCHEMA_FILE
from statediff.workspace.drafts import require_new
from statediff.workspace.inputs import StateFile

_DATABASES: Final = (".db", ".sqlite", ".sqlite3")
_DUMP: Final = ".sql"
_VARIABLES: Final = {"postgres": "PGPASSWORD", "mariadb": "MYSQL_PWD"}
"""Variables in which servers' own clients look for a password."""
MOST_FOUND: Final = 20


@dataclass(frozen=True)
class OwnSource:
    """A source of a sandbox that is being drafted."""

    name: str
    kind: str
    key: str
    place: str
    """A path, or a URL."""
    is_copied: bool = False
    types: str | None = None
    """The name of its source where the state is read by its path."""


def own_sources(states: Sequence[str], *, is_external: bool = False) -> tuple[OwnSource, ...]:
    """The sources that the states make; `UsageError` where one makes none, or two have one name."""
    found = tuple(_own_source(text, is_external=is_external) for text in states)
    for source in found:
        if sum(other.name == source.name for other in found) > 1:
            raise UsageError(f"two states are named {source.name}; give each a name: NAME=PATH")
    return found


def states_in(folder: Path) -> tuple[str, ...]:
    """The states in a folder: its databases, its dumps, and the repository that it is."""
    found = [
        f"{_name_of(path)}={path}"
        for path in sorted(folder.iterdir())
        if path.is_file() and path.suffix.lower() in (*_DATABASES, _DUMP)
    ]
    if (folder / ".git").exists():
        found.append(f"repo={folder}")
    return tuple(found[:MOST_FOUND])


def write_sandbox(
    out: Path,
    sources: Sequence[OwnSource],
    *,
    has_schema: bool = False,
    schema: Path | None = None,
    commands: Mapping[str, str] | None = None,
) -> list[str]:
    """The sandbox file and what it copies are in the folder; their paths as messages show them.

    `has_schema` says that a schema file is there, `schema` is one to copy.
    """
    copies = {source.name: _copy_name(source) for source in sources if source.is_copied}
    if schema is not None:
        load_schema_file(schema)  # before anything is written
        copies[SCHEMA_FILE] = SCHEMA_FILE
    require_new(out, [SANDBOX_FILE, *copies.values()])
    lines = ["# Every trial begins with this, proven anew. Commit it with its files.", "sources:"]
    for number, source in enumerate(sources):
        lines += [f"  {source.name}:", f"    kind: {source.kind}"]
        lines += [f"    {source.key}: {_written(source, copies, out)}"]
        lines += [f"    types: {source.types}"] if source.types else []
        if commands and number:
            lines += [f"    of: {sources[0].name}"]
        elif commands:
            lines += [f"    {key}: {json.dumps(text)}" for key, text in commands.items()]
        lines += [f"    schema: {SCHEMA_FILE}"] if has_schema or schema else []
    out.mkdir(parents=True, exist_ok=True)
    if schema is not None:
        folders.write_file(out / SCHEMA_FILE, read_bytes(schema))
    for source in (each for each in sources if each.name in copies):
        _copy(Path(source.place), out / copies[source.name])
    folders.write_file(out / SANDBOX_FILE, ("\n".join(lines) + "\n").encode())
    return [folders.shown(out / name) for name in sorted((SANDBOX_FILE, *copies.values()))]


def _own_source(text: str, *, is_external: bool) -> OwnSource:
    name, equals, place = text.partition("=")
    path = Path(place if equals and not Path(text).exists() else text)
    if path.suffix.lower() == _DUMP and path.is_file() and not is_external:
        return OwnSource(
            name if path != Path(text) else _name_of(path), "sqlite", "dump", str(path)
        )
    file = StateFile.parse(text)
    if is_external:
        url = file.url or text.partition("=")[2] or text
        return OwnSource(file.source, "external", "url", url)
    if file.is_stdin or file.reader.sandbox is None:
        raise UsageError(
            f"{printable(file.label)}: {file.reader.description} makes no sandbox; expected a "
            "database, a dump, a folder, a repository or a folder of tables"
        )
    kind, key = file.reader.sandbox(file.path)
    if kind == "tables" and not file.path.is_dir():
        raise UsageError(f"{printable(file.label)}: put the tables into a folder of their own")
    is_copied = key in ("file", "tree")
    return OwnSource(
        file.source, kind, key, file.url or str(file.path), is_copied, file.reader.sandbox_types
    )


def _name_of(path: Path) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in path.stem)
    return kept.strip("-_") or "db"


def _copy_name(source: OwnSource) -> str:
    return f"{source.name}.sqlite" if source.key == "file" else source.name


def _written(source: OwnSource, copies: Mapping[str, str], out: Path) -> str:
    if source.name in copies:
        return json.dumps(copies[source.name])
    if source.place.startswith("tables://"):
        place = Path(source.place.removeprefix("tables://")).absolute()
        return json.dumps(f"tables://{os.path.relpath(place, out.absolute())}")
    if "://" in source.place:
        plain = url_without_password(source.place)
        if plain == source.place.partition("?")[0]:
            return json.dumps(source.place)
        variable = _VARIABLES.get(source.kind, password_variable(source.name))
        asked = "".join(source.place.partition("?")[1:])
        return f"{json.dumps(plain + asked)}  # its password is taken from {variable}"
    return json.dumps(os.path.relpath(Path(source.place).absolute(), out.absolute()))


def _copy(place: Path, to: Path) -> None:
    try:
        if place.is_dir():
            shutil.copytree(place, to, symlinks=True)
            return
        with (
            contextlib.closing(
                sqlite3.connect(f"{place.absolute().as_uri()}?mode=ro", uri=True)
            ) as source,
            contextlib.closing(sqlite3.connect(to)) as target,
        ):
            source.backup(target)
    except (OSError, shutil.Error, sqlite3.Error) as error:
        raise InputError(f"{printable(str(place))}: cannot be copied: {error}") from error


def pin_base(pack: SandboxPack) -> tuple[str, ...]:
    """The `base:` files of its external systems say what their bases are now.

    `UsageError` where none of them has one. A base that was pinned before counts no more.
    """
    wanted = {s.name: s.files["base"] for s in pack.sources if "base" in s.files}
    if not wanted:
        raise UsageError(
            f"{pack.name}: no source has a `base:`; add `base: base.json` to an external one"
        )
    forget_bases(pack)
    unpinned = tuple(
        replace(s, files={k: v for k, v in s.files.items() if k != "base"}) for s in pack.sources
    )
    with (
        tempfile.TemporaryDirectory(prefix="statediff-") as work,
        EmbeddedSandbox(replace(pack, sources=unpinned), Path(work)) as sandbox,
    ):
        receipt = sandbox.verify(clock)
        if not receipt.ok:
            raise SandboxError(f"{pack.name}: the reset is not proven: {receipt.drift[0]}")
        for name, path in wanted.items():
            system = sandbox.system(name)
            if isinstance(system, ExternalSystem):
                folders.write_file(path, base_document(system.digests))
    return tuple(folders.shown(path) for path in wanted.values())
