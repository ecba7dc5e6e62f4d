"""What a command line names: states, answers, traces and contracts, as files.

A state is `PATH` or `NAME=PATH`. A SQLite database is known by its first bytes (or, where it is
empty or damaged, by its suffix) and is called `db`; a git repository is called `repo`, another
folder `files`; everything else is plain JSON tables and is called `tables`; `-` is JSON tables on
standard input. NAME is the source's identity.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Final

from statediff.agents.handover import (
    MAX_ANSWER_BYTES,
    read_handed_file,
)
from statediff.agents.tracefile import read_trace_file
from statediff.capture.feed import Seen
from statediff.capture.history import history_of, with_history
from statediff.capture.source import Clock, Source, SourceUnavailable
from statediff.capture.take import take
from statediff.contract.refinement import refine
from statediff.contract.schemafile import SchemaFile, load_schema_file
from statediff.errors import InputError, UsageError
from statediff.model.readings import Capture, History, SourceCapture, Transaction
from statediff.model.schema import Schema
from statediff.model.state import ChunkStore, MemoryChunks, State
from statediff.model.strictjson import read_json
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Value, printable
from statediff.packs import sandbox_names, sandbox_pack
from statediff.sources.sqlite import SqliteSource
from statediff.sources.strictjson import MAX_BYTES, read_document
from statediff.sources.tables import TablesSource

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The instant of every offline reading: a file does not say when the state it holds was true."""

_NAMED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,99})=(.+)", re.DOTALL)
_MAGIC: Final = b"SQLite format 3\x00"
_SUFFIXES: Final = frozenset({".db", ".sqlite", ".sqlite3"})

Refinement = Callable[[Schema], Schema]
Refinements = Callable[[str], Refinement | None]
"""The refinement of the schema of each source, by its name; None where there is none."""


def offline_clock() -> datetime:
    """Always the same instant, so that the same files give the same bundle."""
    return EPOCH


class StateKind(Enum):
    """What a path holds; the value is what the source is called where no name is given."""

    DATABASE = "db"
    TABLES = "tables"
    REPOSITORY = "repo"
    FOLDER = "files"


_NAMES: Final = {
    StateKind.DATABASE: "a SQLite database",
    StateKind.TABLES: "JSON tables",
    StateKind.REPOSITORY: "a git repository",
    StateKind.FOLDER: "a folder",
}


@dataclass(frozen=True)
class StateFile:
    """One path that holds a state, and the name of the source it is a state of."""

    source: str
    path: Path
    kind: StateKind

    @staticmethod
    def parse(text: str) -> StateFile:
        """What `PATH` or `NAME=PATH` names; `UsageError` if there is nothing."""
        found = None if _exists(text) else _NAMED.fullmatch(text)
        name, path = (found[1], Path(found[2])) if found else ("", Path(text))
        if str(path) != "-" and not _exists(str(path)):
            raise UsageError(
                f"{printable(str(path))}: expected a state, found nothing; check the path"
            )
        kind = _kind(path)
        return StateFile(name or kind.value, path, kind)

    def read_by(self, refinement: Refinement | None) -> Source:
        """The source that reads it; JSON tables are read together with their other side."""
        match self.kind:
            case StateKind.DATABASE:
                return SqliteSource(self.source, self.path, refinement)
            case StateKind.REPOSITORY:
                from statediff.sources.git import GitSource

                return GitSource(self.source, self.path.absolute(), refinement)
            case StateKind.FOLDER:
                from statediff.sources.files import FilesSource

                return FilesSource(self.source, self.path.absolute(), refinement)
            case StateKind.TABLES:
                return TablesSource(self.source, self.content(), refinement)

    def content(self) -> bytes:
        """The bytes of JSON tables."""
        if not self.is_stdin:
            return read_document(self.path)
        return sys.stdin.buffer.read(MAX_BYTES + 1)

    @property
    def is_stdin(self) -> bool:
        return str(self.path) == "-"

    @property
    def label(self) -> str:
        """How messages name the file."""
        return "standard input" if self.is_stdin else str(self.path)


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        return False


def _kind(path: Path) -> StateKind:
    if path.is_dir():
        is_bare = all((path / name).exists() for name in ("HEAD", "objects", "refs"))
        is_repository = is_bare or (path / ".git").exists()
        return StateKind.REPOSITORY if is_repository else StateKind.FOLDER
    return StateKind.DATABASE if _is_database(path) else StateKind.TABLES


def _is_database(path: Path) -> bool:
    if str(path) == "-" or not path.is_file():
        return path.suffix in _SUFFIXES
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except OSError as error:
        raise InputError(f"{printable(str(path))}: cannot be read: {error.strerror}") from error
    return start == _MAGIC or path.suffix in _SUFFIXES


# ---------------------------------------------------------------- schemas


def refinements(schema: Path | None, sandbox: str | None = None) -> Refinements:
    """What the schema file says of each source; without one, what the sandbox's pack says."""
    if schema is not None:
        file = load_schema_file(schema)
        return lambda source: refine(file, source)
    if sandbox is None or sandbox not in sandbox_names():
        return lambda _source: None
    files: dict[str, SchemaFile] = {
        source.name: load_schema_file(source.schema)
        for source in sandbox_pack(sandbox).sources if source.schema is not None
    }  # fmt: skip
    return lambda source: refine(files[source], source) if source in files else None


# ---------------------------------------------------------------- captures


class _Backed:
    """A source that, while it cannot be asked, is known to deliver what the other side delivers."""

    def __init__(self, source: Source, other: Source) -> None:
        self._source = source
        self._other = other

    @property
    def name(self) -> str:
        return self._source.name

    def schema(self) -> Schema:
        try:
            return self._source.schema()
        except SourceUnavailable:
            return self._other.schema()

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        return self._source.read(store, clock, like)


def one_capture(states: Sequence[str], refined: Refinements) -> Capture:
    """The capture that the files hold; `InputError` where a database cannot be opened."""
    sources: list[Source] = []
    for file in _distinct(states, "the command line"):
        source = file.read_by(refined(file.source))
        if file.kind is StateKind.DATABASE:
            _require_schema(source, file)
        sources.append(source)
    return take(sources, MemoryChunks(), offline_clock, None, "before")


def capture_pair(
    before: Sequence[str], after: Sequence[str], refined: Refinements, during: Sequence[str] = ()
) -> tuple[Capture, Capture]:
    """The captures before and after; all states of a source have one schema.

    `during` names every state that a source was in between, in order; of a source with none
    nothing is known in between. A database that can be opened on one side only leaves its values on
    the other unobserved. `UsageError` where the two sides do not name the same sources,
    `InputError` where a file is not what it claims to be, or where a database cannot be opened.
    """
    firsts, seconds = _distinct(before, "--before"), _distinct(after, "--after")
    if [f.source for f in firsts] != [s.source for s in seconds]:
        raise UsageError(
            f"--before gives {_names(firsts)}, --after gives {_names(seconds)}; "
            "give both sides of every source, as NAME=PATH"
        )
    between = _between(during, firsts)
    ones: list[Source] = []
    twos: list[Source] = []
    within: list[tuple[str, Sequence[Source]]] = []
    for first, second in zip(firsts, seconds, strict=True):
        files = between.get(first.source, ())
        one, two, others = _pair(first, second, refined(first.source), files)
        ones.append(one)
        twos.append(two)
        if files:
            within.append((first.source, others))
    store = MemoryChunks()
    captured = take(ones, store, offline_clock, None, "before")
    last = take(twos, store, offline_clock, captured, "after")
    told = [_history(source, others, store, captured, last) for source, others in within]
    return captured, with_history(last, told) if told else last


def _between(during: Sequence[str], ends: Sequence[StateFile]) -> dict[str, tuple[StateFile, ...]]:
    """The states in between by source, each in the order given."""
    kinds = {file.source: file.kind for file in ends}
    found: dict[str, tuple[StateFile, ...]] = {}
    for text in during:
        file = StateFile.parse(text)
        if file.source not in kinds:
            raise UsageError(
                f"--during gives a state of {file.source}, --before gives {_names(ends)}; "
                "name the source: NAME=PATH"
            )
        if file.kind is not kinds[file.source] or file.is_stdin:
            wanted = _NAMES[kinds[file.source]]
            raise UsageError(
                f"--during {printable(file.label)}: expected {wanted} in a file, as --before gives "
                f"for {file.source}"
            )
        found[file.source] = (*found.get(file.source, ()), file)
    return found


def _history(
    source: str, within: Sequence[Source], store: ChunkStore, before: Capture, after: Capture
) -> History:
    """The states in between as transactions; the last of all left the state after."""
    first, last = (
        next(p.state for p in each.parts if p.reading.source == source) for each in (before, after)
    )
    states: list[State] = []
    for each in within:
        try:
            states.append(each.read(store, offline_clock, first).state)
        except SourceUnavailable as error:
            raise InputError(
                f"--during: state {len(states) + 1} of {source} cannot be read: {error}"
            ) from error
    if states[-1].digest() != last.digest():
        states.append(last)
    transactions = (
        Transaction(f"{source}/{number}", source, "", None, state)
        for number, state in enumerate(states, start=1)
    )
    return history_of(source, Seen(tuple(transactions)), after, offline_clock)


def _distinct(states: Sequence[str], where: str) -> tuple[StateFile, ...]:
    files = tuple(sorted((StateFile.parse(text) for text in states), key=lambda f: f.source))
    for one, other in itertools.pairwise(files):
        if one.source == other.source:
            raise UsageError(
                f"{where} gives two states named {one.source}; give each source a name: NAME=PATH"
            )
    return files


def _names(files: Sequence[StateFile]) -> str:
    return ", ".join(file.source for file in files) or "nothing"


def _pair(
    before: StateFile,
    after: StateFile,
    refinement: Refinement | None,
    between: Sequence[StateFile] = (),
) -> tuple[Source, Source, Sequence[Source]]:
    """What reads the two sides of a source, and the states in between."""
    if before.kind is not after.kind:
        raise UsageError(
            f"{before.source}: one side is {_NAMES[before.kind]}, the other {_NAMES[after.kind]}; "
            "both sides of a source are of one kind"
        )
    if before.kind in (StateKind.REPOSITORY, StateKind.FOLDER):
        others = [file.read_by(refinement) for file in between]
        return before.read_by(refinement), after.read_by(refinement), others
    if before.kind is StateKind.DATABASE:
        one, two = before.read_by(refinement), after.read_by(refinement)
        backed = _Backed(one, two), _Backed(two, one)
        _require_schema(backed[0], before, after)
        return *backed, [file.read_by(refinement) for file in between]
    if before.is_stdin and after.is_stdin:
        raise UsageError("standard input can be one side only")
    first, second = before.content(), after.content()
    along = [(file.label, file.content()) for file in between]
    if along:
        along = [(before.label, first), *along, (after.label, second)]
    others = [
        TablesSource(file.source, file.path, refinement, is_after=True, along=along)
        for file in between
    ]
    return (
        TablesSource(
            before.source, _named(before, first), refinement, second, after.label, along=along
        ),
        TablesSource(
            after.source, _named(after, second), refinement, first, before.label,
            is_after=True, along=along,
        ),
        others,
    )  # fmt: skip


def _named(file: StateFile, content: bytes) -> Path | bytes:
    """The path, so that messages name it; bytes where there is none."""
    return content if file.is_stdin else file.path


def _require_schema(source: Source, *files: StateFile) -> None:
    try:
        source.schema()
    except SourceUnavailable as error:
        named = " and ".join(dict.fromkeys(printable(file.label) for file in files))
        raise InputError(
            f"{named}: cannot be read as a database: {error}; check the file, or end what locks it"
        ) from error


# ---------------------------------------------------------------- answers and traces


def answer_from(path: Path | None) -> Value | NoAnswer:
    """The answer in a file; `InputError` where the file cannot be read as one."""
    if path is None:
        return NoAnswer("none was given")
    raw = read_handed_file(path, MAX_ANSWER_BYTES)
    if raw is None:
        raise InputError(f"{printable(str(path))}: expected an answer, found nothing")
    return read_json(raw, printable(str(path)), max_bytes=MAX_ANSWER_BYTES)


def trace_from(path: Path | None, is_complete: bool = False) -> Trace:
    """The trace in a file, in any form that has a reader; `InputError` where it cannot be read.

    With `is_complete`, whoever asks vouches that it holds every call and no agent wrote it.
    """
    if path is None:
        return Trace(cause="no trace was given")
    return read_trace_file(path, is_vouched=is_complete)
