"""States, answers, traces and contracts that a command line names.

A state is `PATH`, `URL`, or either after `NAME=`. The plug-ins of the systems say who reads it, and
what the source is called where there is no NAME; `-` is standard input. NAME is the source's
identity. A URL names a running system; its password is in no message and no output.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from statediff.agents.handover import MAX_ANSWER_BYTES, answer_in, read_handed_file
from statediff.capture.feed import Seen, history_of, with_history
from statediff.capture.source import (
    Clock,
    PagedSource,
    Source,
    SourceRuined,
    SourceUnavailable,
    clock,
)
from statediff.capture.store import DiskChunks
from statediff.capture.take import take
from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import EntityRefinement, SchemaFile, load_schema_file
from statediff.errors import InputError, UsageError
from statediff.model.readings import Capture, History, SourceCapture, Transaction
from statediff.model.schema import EntityType, Field, Kind, Schema, merge_schemas
from statediff.model.state import ChunkStore, MemoryChunks, State
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Value, printable
from statediff.packs import sandbox_pack
from statediff.systems.base.plugin import Refinement, StateInput, StateReader
from statediff.systems.base.registry import (
    assumed_types,
    object_types,
    open_state,
    other_reading,
    state_reader,
    state_url_reader,
)
from statediff.systems.base.rows import source_schema
from statediff.systems.base.urls import url_without_password, without_passwords

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The instant of every offline reading: a file does not say when the state it holds was true."""

_NAMED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,99})=(.+)", re.DOTALL)
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}://.*", re.DOTALL)
KEPT_BYTES: Final = 16 * 1024 * 1024
"""Chunks kept in memory beside their files: states are read in order, and seldom twice."""

Refinements = Callable[[str], Refinement | None]
"""The refinement of the schema of each source, by its name; None where there is none."""


def offline_clock() -> datetime:
    """Always the same instant, so that the same files give the same bundle."""
    return EPOCH


@dataclass(frozen=True)
class StateFile:
    """One path or URL that holds a state, and the name of the source it is a state of."""

    source: str
    path: Path
    reader: StateReader
    url: str | None = None
    shown: str = ""
    """The name in messages instead of the path; for a copy, the name of the original."""
    lost: str | None = None
    """Why it could not even be copied: its source is unobserved."""

    @staticmethod
    def parse(text: str) -> StateFile:
        """The state that `[NAME=]PATH` or `[NAME=]URL` names; `UsageError` if there is nothing."""
        found = None if _exists(text) else _NAMED.fullmatch(text)
        name, place = (found[1], found[2]) if found else ("", text)
        path, reader = Path(place), None
        if _URL.fullmatch(place) and not _exists(place):
            reader = state_url_reader(place)
            if reader.path_of is None:
                return StateFile(name or reader.name, Path(), reader, place)
            path = reader.path_of(place)
        if str(path) != "-" and not _exists(str(path)):
            raise UsageError(
                f"{printable(str(path))}: expected a state, found nothing; check the path"
            )
        reader = reader or state_reader(path)
        return StateFile(name or reader.name, path, reader)

    def read_by(self, refinement: Refinement | None) -> Source:
        """The source that reads it on its own."""
        return open_state(self.reader, self.source, self.input(), refinement)

    def named(self, source: Source) -> Source:
        """The source, whose causes call the path what messages call it."""
        return Renamed(source, str(self.path), self.shown) if self.shown else source

    def input(self) -> StateInput:
        """The input of its reader."""
        if self.url is not None:
            return StateInput(Path(), self.label, url=self.url)
        most = self.reader.standard_input_bytes
        if not self.is_stdin or most is None:
            return StateInput(self.path, self.label)
        return StateInput(self.path, self.label, sys.stdin.buffer.read(most + 1))

    @property
    def is_stdin(self) -> bool:
        return self.url is None and str(self.path) == "-"

    @property
    def label(self) -> str:
        """How messages name it."""
        if self.url is not None:
            return url_without_password(self.url)
        return "standard input" if self.is_stdin else self.shown or str(self.path)


def _exists(text: str) -> bool:
    """True if there is such a file; there is none by a name that is too long, or has a NUL."""
    return os.path.exists(text)  # noqa: PTH110 - asked for each state that a kept judge gets


# ---------------------------------------------------------------- schemas


@dataclass(frozen=True)
class _Described:
    """A file's or a sandbox's refinements of the sources that it names."""

    place: str
    names: Sequence[str]
    of: Refinements
    unnamed: str = ""
    """A name that a state may have although nothing describes it: exported tables."""

    def __call__(self, source: str) -> Refinement | None:
        """The refinement of the source's schema."""
        return self.of(source)

    def require_one_of(self, sources: Sequence[str]) -> None:
        """`UsageError` where it describes other sources only, so that nothing of it would count."""
        if not {*self.names, self.unnamed}.isdisjoint(sources) or not sources:
            return
        raise UsageError(
            f"{self.place} describes {', '.join(self.names)}, but the state is called "
            f"{', '.join(map(printable, sources))}; the two names must be one: write "
            f"{self.names[0]}=…, or change the name there"
        )


def unrefined(_source: str) -> None:
    """No source's schema is refined."""


def refinements(schema: Path | None, sandbox: str | None = None) -> Refinements:
    """The refinement of each source: by the schema file, else by the sandbox's pack."""
    if schema is not None:
        file = load_schema_file(schema)
        named = {entity.source for entity in file.content.entities.values()}

        def of_file(source: str) -> Refinement | None:
            return refine(file, source)

        if None in named or not named:
            return of_file
        return _Described(printable(str(schema)), sorted(filter(None, named)), of_file)
    if sandbox is None:
        return unrefined
    pack = sandbox_pack(sandbox)
    found = {source.name: source.refinement() for source in pack.sources}
    if not any(found.values()):
        return found.get
    return _Described(f"the sandbox {pack.name}", list(found), found.get, "tables")


def require_described(refined: Refinements, sources: Sequence[str]) -> None:
    """`UsageError` where all that the refinements say is of sources that are called otherwise."""
    if isinstance(refined, _Described):
        refined.require_one_of(sources)


def schema_of_file(path: Path) -> Schema:
    """The types in the file, as if a source delivered exactly these.

    Types are open: a field that the file does not list may exist, so it is no error to name one.
    """
    file = load_schema_file(path)
    named = {e.source for e in file.content.entities.values() if e.source is not None}
    sources = sorted(named) or ["state"]
    delivered = [_delivered(file, source) for source in sources]
    # Every database lists its tables and settings, so a schema file does not.
    named_types = {name for schema in delivered for name in schema.by_name}
    listed = tuple(replace(t, is_assumed=True) for t in object_types() if t.name not in named_types)
    if listed:
        names = tuple(t.name for t in listed)
        delivered.append(Schema("objects", "0", listed, ((sources[0], names),)))
    # What has one form everywhere, as mail has, a schema file need not describe.
    for source, types in assumed_types().items():
        if not any(each.name in schema.by_name for each in types for schema in delivered):
            one_form = (replace(each, is_assumed=True) for each in types)
            delivered.append(source_schema(source, one_form))
    return merge_schemas(tuple(delivered))


def _delivered(file: SchemaFile, source: str) -> Schema:
    """The schema that one source would deliver; an entity without a source comes from each."""
    entities = file.content.entities.items()
    types = [_entity(n, entity) for n, entity in entities if entity.source in (None, source)]
    ordered = tuple(sorted(types, key=lambda t: t.name))
    catalogue = Schema(source, "0", ordered, ((source, tuple(t.name for t in ordered)),))
    refined = refine(file, source)(catalogue)
    return replace(refined, types=tuple(replace(t, is_open=True) for t in refined.types))


def _entity(name: str, entity: EntityRefinement) -> EntityType:
    columns = {field: refined.column or field for field, refined in entity.fields.items()}
    key = () if entity.key == "none" else (entity.key or ("id",))
    for field in key:
        columns.setdefault(field, field)
    fields = tuple(Field(column, Kind.ANY) for column in columns.values())
    table = entity.table or name
    return EntityType(table, tuple(columns[field] for field in key), fields)


# ---------------------------------------------------------------- captures


class Backed:
    """A source that, while it cannot be asked, is known to deliver what the other side delivers."""

    def __init__(self, source: Source, other: Source) -> None:
        self.name = source.name
        self._source = source
        self._other = other

    def schema(self) -> Schema:
        try:
            return self._source.schema()
        except SourceUnavailable:
            return self._other.schema()

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        return self._source.read(store, clock, like)


@dataclass(frozen=True)
class Renamed:
    """A source whose causes call a path otherwise: a copy's is nobody's but ours."""

    source: Source
    path: str
    shown: str

    @property
    def name(self) -> str:
        return self.source.name

    def schema(self) -> Schema:
        try:
            return self.source.schema()
        except SourceUnavailable as error:
            raise type(error)(self._said(str(error))) from error

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        try:
            part = self.source.read(store, clock, like)
        except SourceUnavailable as error:
            raise type(error)(self._said(str(error))) from error
        return replace(part, spoiled=tuple(map(self._said, part.spoiled)))

    def _said(self, cause: str) -> str:
        return cause.replace(printable(self.path), self.shown)


@dataclass(frozen=True)
class Lost:
    """A source that was read before the run and cannot be read for what the run left of it."""

    name: str
    cause: str

    def schema(self) -> Schema:
        raise SourceRuined(self.cause)

    def read(self, _store: ChunkStore, _clock: Clock, _like: State | None) -> SourceCapture:
        raise SourceRuined(self.cause)


def one_capture(states: Sequence[str], refined: Refinements) -> Capture:
    """The capture that the files hold; `InputError` where one cannot be opened."""
    sources: list[Source] = []
    files = distinct_states(states, "the command line")
    require_described(refined, [file.source for file in files])
    for file in files:
        source = file.read_by(refined(file.source))
        if file.reader.series is None:
            require_schema(source, file)
        sources.append(source)
    return take(sources, *room_and_clock(files), None, "before")


def doubtful_states(*sides: tuple[Sequence[str], Capture]) -> list[str]:
    """A remark on each state that may not be the one that is meant, or not read as it is meant.

    The sides of a source are read alike, so that of the second this is not said again.
    """
    empty = [remark for states, capture in sides for remark in _empty(states, capture)]
    return [*empty, *_otherwise(sides[0][0])]


def _otherwise(states: Sequence[str]) -> Iterator[str]:
    for file in distinct_states(states, "the command line"):
        if file.url is not None or file.is_stdin:
            continue
        if (scheme := other_reading(file.reader, file.path)) is not None:
            place = printable(str(file.path))
            yield (
                f"{place} is read as {file.reader.description}, and most of its files are {scheme};"
                f" write {file.source}={scheme}://{place} to have their records read"
            )


def _empty(states: Sequence[str], capture: Capture) -> Iterator[str]:
    """Each state that was read whole and has no type of its own."""
    whole = {
        part.reading.source: part.state.schema.by_name.keys()
        for part in capture.parts
        if part.reading.is_complete
    }
    for file in distinct_states(states, "the command line"):
        own = {each.name for each in object_types(file.reader)}
        if file.source in whole and whole[file.source] <= own:
            yield (
                f"{printable(file.label)} shows no table and no other type of entity; check the "
                "path if it should"
            )


def room_and_clock(files: Sequence[StateFile]) -> tuple[ChunkStore, Clock]:
    """The store of rows and the clock of the readings: a running system may have any size."""
    if all(file.url is None for file in files):
        return MemoryChunks(), offline_clock
    return temporary_chunks(), clock


def temporary_chunks() -> ChunkStore:
    """A store on disk, whose folder is removed when the store is no longer used."""
    folder = tempfile.mkdtemp(prefix="statediff-states-")
    store = DiskChunks(folder, KEPT_BYTES)
    weakref.finalize(store, shutil.rmtree, folder, ignore_errors=True)
    return store


def capture_pair(
    before: Sequence[str],
    after: Sequence[str],
    refined: Refinements,
    during: Sequence[str] = (),
    *,
    alike: bool = False,
) -> tuple[Capture, Capture]:
    """The captures before and after; all states of a source have one schema.

    `during` names every state that a source was in between, in order; of a source with none
    nothing is known in between. A state that can be opened on one side only leaves its values on
    the other unobserved. With `alike` no run is known to have come between, and a side that looks
    like another kind is a mistake of who named it. `UsageError` for that and where the two sides
    do not name the same sources, `InputError` where a file is not what it claims to be, or cannot
    be opened on either side.
    """
    firsts, seconds = distinct_states(before, "--before"), distinct_states(after, "--after")
    seconds = named_alike(firsts, seconds)
    if [f.source for f in firsts] != [s.source for s in seconds]:
        raise UsageError(
            f"--before gives {_names(firsts)}, --after gives {_names(seconds)}; "
            "give both sides of every source, as NAME=PATH"
        )
    require_described(refined, [first.source for first in firsts])
    between = _between(during, firsts)
    ones: list[Source] = []
    twos: list[Source] = []
    within: list[tuple[str, Sequence[Source]]] = []
    for first, second in zip(firsts, seconds, strict=True):
        if alike:
            _require_one_kind(first, second)
        files = between.get(first.source, ())
        one, two, others = _pair(first, second, refined(first.source), files)
        ones.append(one)
        twos.append(two)
        if files:
            within.append((first.source, others))
    store, clock = room_and_clock((*firsts, *seconds))
    captured = take(ones, store, clock, None, "before")
    last = take(twos, store, clock, captured, "after")
    histories = [_history(source, others, store, captured, last) for source, others in within]
    return captured, with_history(last, histories) if histories else last


def _between(during: Sequence[str], ends: Sequence[StateFile]) -> dict[str, tuple[StateFile, ...]]:
    """The states in between by source, each in the order given."""
    readers = {file.source: file.reader for file in ends}
    found: dict[str, tuple[StateFile, ...]] = {}
    for text in during:
        file = StateFile.parse(text)
        if file.source not in readers:
            raise UsageError(
                f"--during gives a state of {file.source}, --before gives {_names(ends)}; "
                "name the source: NAME=PATH"
            )
        if file.reader is not readers[file.source] or file.is_stdin:
            wanted = readers[file.source].description
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
    return history_of(source, Seen(tuple(transactions)), after, offline_clock, first)


def distinct_states(states: Sequence[str | StateFile], where: str) -> tuple[StateFile, ...]:
    """The states named, sorted by source; `UsageError` where two have one name."""
    parsed = [each if isinstance(each, StateFile) else StateFile.parse(each) for each in states]
    files = tuple(sorted(parsed, key=lambda f: f.source))
    for one, other in itertools.pairwise(files):
        if one.source == other.source:
            raise UsageError(
                f"{where} gives two states named {one.source}; give each source a name: NAME=PATH"
            )
    return files


def named_alike(
    before: tuple[StateFile, ...], after: tuple[StateFile, ...]
) -> tuple[StateFile, ...]:
    """The states after; a single one, called by its kind as that before is, is called as that is.

    Since the run it may look like another kind (`as_of_one_kind`).
    """
    are_named = not all(f.source == f.reader.name for f in (*before, *after))
    if are_named or not len(before) == len(after) == 1 or before[0].source == after[0].source:
        return after
    return (replace(after[0], source=before[0].source),)


def _names(files: Sequence[StateFile]) -> str:
    return ", ".join(file.source for file in files) or "nothing"


def _pair(
    before: StateFile,
    after: StateFile,
    refinement: Refinement | None,
    between: Sequence[StateFile] = (),
) -> tuple[Source, Source, Sequence[Source]]:
    """Readers of the two sides of a source, and of the states in between."""
    reader = before.reader
    after = as_of_one_kind(before, after)
    is_mixed = after.reader is not reader
    if before.is_stdin and after.is_stdin:
        raise UsageError("standard input can be one side only")
    if reader.series is not None and not is_mixed:
        states = [file.input() for file in (before, *between, after)]
        first, *others, last = reader.series(before.source, states, refinement)
        return first, last, others
    one, two = before.read_by(refinement), after.read_by(refinement)
    if isinstance(one, PagedSource):
        pages = one.by_pages()
        one, two = pages, pages.beside(two)
    backed = Backed(one, two), Backed(two, one)
    require_schema(backed[0], before, after)
    return *backed, [file.read_by(refinement) for file in between]


def as_of_one_kind(before: StateFile, after: StateFile) -> StateFile:
    """The state after, by the reader of the state before unless one of the two was captured.

    Since the run a path may look like another kind: a repository without `.git`, a folder in the
    place of a file. `UsageError` where a URL, standard input or a captured state is another kind.
    """
    reader, sides = before.reader, (before, after)
    if after.reader is reader or _may_be_one_system(reader, after.reader):
        return after
    if any(each.url or each.is_stdin or each.reader.is_any_system for each in sides):
        _require_one_kind(before, after)
    return replace(after, reader=reader)


def _require_one_kind(before: StateFile, after: StateFile) -> None:
    one, other = before.reader, after.reader
    if one is not other and not _may_be_one_system(one, other):
        raise UsageError(
            f"{before.source}: one side is {one.description}, the other {other.description}; "
            "both sides of a source are of one kind"
        )


def _may_be_one_system(one: StateReader, other: StateReader) -> bool:
    """A captured state beside the system; not beside files whose schema the two sides decide."""
    return (one.is_any_system and other.series is None) or (
        other.is_any_system and one.series is None
    )


def require_schema(source: Source, *files: StateFile) -> None:
    """The source can say what it delivers; `InputError` names the files and what to do."""
    try:
        source.schema()
    except SourceUnavailable as error:
        named = " and ".join(dict.fromkeys(printable(file.label) for file in files))
        cause, remedy = str(error), "check the file, or end what locks it"
        if files[0].url is not None:
            cause = without_passwords(cause, [file.url for file in files if file.url is not None])
            remedy = "check the URL, its account and password, and that the system is running"
        raise InputError(f"{named}: {files[0].reader.unreadable}: {cause}; {remedy}") from error


# ---------------------------------------------------------------- answers and traces


def answer_from(path: Path | None, form: str = "json") -> Value | NoAnswer:
    """The answer in a file; `InputError` where the file cannot be read as one.

    With `form` text, as the contract's `answer: form`, the file holds prose.
    """
    if path is None:
        return NoAnswer("none was given")
    raw = read_handed_file(path, MAX_ANSWER_BYTES)
    if raw is None:
        raise InputError(f"{printable(str(path))}: expected an answer, found nothing")
    return answer_in(raw, printable(str(path)), form)


def trace_from(path: Path | None, is_complete: bool = False) -> Trace:
    """The trace in a file, in any form that has a reader; `InputError` where it cannot be read.

    With `is_complete`, the caller vouches that it holds every call and no agent wrote it.
    """
    if path is None:
        return Trace(cause="no trace was given")
    from statediff.agents.tracefile import read_trace_file

    return read_trace_file(path, is_vouched=is_complete)
