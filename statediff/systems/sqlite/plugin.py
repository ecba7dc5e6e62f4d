"""The plug-in of SQLite files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from statediff.errors import InputError, UsageError
from statediff.model.values import printable
from statediff.systems.base.plugin import (
    Refinement,
    StateInput,
    StateReader,
    SystemKind,
    SystemPlugin,
    UrlTools,
    all_named,
    named,
)

if TYPE_CHECKING:
    from statediff.capture.source import Source
    from statediff.systems.base.tool import Tool

_MAGIC: Final = b"SQLite format 3\x00"
_SUFFIXES: Final = frozenset({".db", ".sqlite", ".sqlite3"})


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff.systems.relational.tools import database_tools
    from statediff.systems.sqlite.tools import SqliteDatabase

    return database_tools(source, SqliteDatabase(url), "SQLite", "sqlite")


def _is_database(path: Path) -> bool:
    """By its suffix, as it may be empty or damaged, or else by its first bytes.

    Closing a file drops all locks that this process has on it, so that few are opened.
    """
    if path.suffix in _SUFFIXES:
        return not path.is_dir()
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError as error:
        raise InputError(f"{printable(str(path))}: cannot be read: {error.strerror}") from error


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff.systems.sqlite.source import SqliteSource

    return SqliteSource(name, state.path, refine)


def _path(url: str) -> Path:
    place, _, query = url.partition("?")
    if query:
        raise UsageError(
            f"{printable(place)}: a SQLite file is read whole, and `?{printable(query[:80])}` asks "
            "for something else; leave it out, and `exclude:` in the contract what is not meant"
        )
    return Path(unquote(place.removeprefix("sqlite:///")))


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(name="sqlite", load=named("statediff.systems.sqlite.sandbox:EmbeddedDatabase")),
    ),
    sources=all_named("statediff.systems.sqlite.source:SqliteSource"),
    tools=UrlTools(schemes=frozenset({"sqlite"}), make=_tools),
    states=StateReader(
        name="db",
        description="a SQLite database",
        recognizes=_is_database,
        schemes=frozenset({"sqlite"}),
        path_of=_path,
        source=_source,
        sandbox=lambda _path: ("sqlite", "file"),
        unreadable="cannot be read as a database",
    ),
    object_types=named("statediff.systems.sqlite.object_types:OBJECT_TYPES"),
    faults=named("statediff.systems.sqlite.faults:FAULTS"),
)
