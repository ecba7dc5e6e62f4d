"""A state before that is kept, so that many states after are compared with it.

It is read when it is kept: whatever happens to the object, the file or the system later, it stays
what it was. Every pair of captures is the one that a single judgement of the two states has.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import is_
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from statediff.capture.source import Clock, PagedSource, PageReader, Source
from statediff.capture.take import take
from statediff.errors import InputError, UsageError
from statediff.model.readings import Capture, SourceCapture
from statediff.model.schema import Schema
from statediff.model.state import ChunkStore, MemoryChunks
from statediff.model.state import State as ReadState
from statediff.systems.base.live import kept_input, named_as_given
from statediff.systems.base.plugin import KeptPairs, Refinement, StateInput
from statediff.systems.base.registry import open_state
from statediff.systems.functions.plugin import tables_as_json, url_of
from statediff.systems.tables.columns import Odd
from statediff.systems.tables.kept import Changes, KeptTables
from statediff.systems.tables.source import TablesSource
from statediff.workspace import inputs

T = TypeVar("T")

Tables: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""A state as plain JSON: `{type: [record, …]}`."""
Place: TypeAlias = str | Path | Callable[[], Tables]
"""A state as the command line names it, `PATH`, `URL` or `NAME=PATH`, or a function that returns
tables."""
State: TypeAlias = Tables | Place | Sequence[str | Path | inputs.StateFile]
"""Tables, or a place, one or one a source."""
After: TypeAlias = State | Sequence[Mapping[str, Any]]
"""The same, or what changed: deltas as plain JSON, as `changes` gives them."""


class Kept(Protocol):
    """A state before, kept."""

    is_portable: bool
    """True if another process can have it: it can be pickled then."""

    untyped: frozenset[str]
    """The sources whose types both states of a run decide."""

    def known(self) -> Capture | None:
        """The state before, captured, where that was read; None where it is only kept."""

    def brief(self, after: Any) -> Any:
        """All that another process needs of a state after for `captures`."""

    def captures(self, after: Any) -> tuple[Capture, Capture]:
        """The captures before and after. Raises as the reading of two states does."""


def keep(before: State, schema: str | Path | None, sandbox: str | None) -> Kept:
    """The state, as it is now. `UsageError` or `InputError` where it cannot be read."""
    refined = Refined(None if schema is None else Path(schema), sandbox)
    if isinstance(before, Mapping):
        return _Tables(before, refined)
    return KeptPlaces(before, refined)


@dataclass(frozen=True)
class Refined:
    """The refinement of each source's schema: by a schema file, or by the pack of a sandbox."""

    schema: Path | None
    sandbox: str | None

    def __call__(self, source: str) -> Any:
        return inputs.refinements(self.schema, self.sandbox)(source)

    def require_described(self, sources: Sequence[str]) -> None:
        """`UsageError` where all that it says is of sources that are called otherwise."""
        inputs.require_described(inputs.refinements(self.schema, self.sandbox), sources)


class _Tables:
    """Tables that were handed over: plain objects, or what only their JSON text can say."""

    is_portable = True
    untyped = frozenset({"tables"})

    def __init__(self, before: Tables, refined: Refined) -> None:
        refined.require_described(["tables"])
        self._refined = refined
        self._plain: KeptTables | None = None
        self._content: bytes | None = None
        self._read: Capture | None = None
        try:
            self._plain = self._keep(before)
        except Odd:
            self._content = as_json(before, "before")
            # `InputError` now, and not later
            self._read = tables_pair(self._content, self._content, refined)[0]
            with contextlib.suppress(Odd):
                self._plain = self._keep(json.loads(self._content))

    def _keep(self, before: Any) -> KeptTables:
        return KeptTables("tables", before, self._refined("tables"), inputs.offline_clock)

    def known(self) -> Capture | None:
        """The tables as they are by themselves."""
        return self._read if self._plain is None else self._plain.captures(Changes({}))[0]

    def brief(self, after: Any) -> Any:
        """The differences in a state after, where these say all of it; else the state."""
        if isinstance(after, Changes):
            return after
        if is_deltas(after):
            if self._plain is None:
                raise InputError("deltas need a state before of plain objects; give whole states")
            return self._plain.changes_by(after)
        if self._plain is not None:
            with contextlib.suppress(Odd):
                return self._plain.changes(after)
        return after

    def captures(self, after: Any) -> tuple[Capture, Capture]:
        """`UsageError` where the state after is no tables; `Odd` of `Changes` that are not all."""
        found = self.brief(after)
        if isinstance(found, Changes) and self._plain is not None:
            try:
                return self._plain.captures(found)
            except Odd:
                if found is after:
                    raise
                if is_deltas(after):
                    raise InputError("the deltas hold what JSON does not; give states") from None
        if not isinstance(after, Mapping):
            raise UsageError(ALIKE)
        before = self._content
        if before is None:
            before = as_json(self.load(), "before")
        return tables_pair(before, as_json(after, "after"), self._refined)

    def load(self) -> Any:
        """The tables, made anew."""
        return self._plain.load() if self._plain is not None else json.loads(self._content or b"")

    def __reduce__(self) -> tuple[Any, ...]:
        return _Tables, (self.load(), self._refined)


class KeptPlaces:
    """Paths, URLs and functions: read, or copied where both states make the schema."""

    def brief(self, after: Any) -> Any:
        """The names of its files. `InputError` of what another process would see otherwise."""
        if isinstance(after, str | Path):
            return after
        if isinstance(after, Mapping) or not all(isinstance(each, str | Path) for each in after):
            raise InputError("only the process that has the state can read it")
        return after

    def __init__(self, before: Any, refined: Refined) -> None:
        self._names = names_of(before)
        self._is_elsewhere = False
        files = inputs.distinct_states(self._names, "the state before")
        refined.require_described([file.source for file in files])
        self._places = {file.source: _KeptPlace(file, refined(file.source)) for file in files}
        self.untyped = frozenset(file.source for file in files if file.reader.series is not None)
        self._refined = refined
        self._before: tuple[list[SourceCapture], Capture] | None = None
        are_names = all(isinstance(name, str) for name in self._names)
        self.is_portable = are_names and all(map(_is_whole_file, self._places.values()))

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.is_portable:
            raise TypeError("only tables, and files that are read on their own, can be pickled")
        return _read_elsewhere, (self._names, self._refined, self.content())

    def content(self) -> list[tuple[Any, ...]]:
        """The digest and schema of each source, to compare with those of another process."""
        read = [place.source.part for place in self._places.values() if place.source is not None]
        return [(part.reading.source, part.reading.digest, part.state.schema) for part in read]

    def known(self) -> Capture | None:
        """The capture before; None where a place is only copied."""
        sources = [place.source for place in self._places.values()]
        read = [source for source in sources if source is not None]
        if len(read) < len(sources):
            return None
        return self._first(read, *inputs.room_and_clock([p.file for p in self._places.values()]))

    def captures(self, after: Any) -> tuple[Capture, Capture]:
        """`UsageError` where the state after is of other sources, or tables."""
        with named_as_given(self._copies):
            return self._captured(after)

    def _copies(self) -> list[StateInput]:
        return [place.copy for place in self._places.values() if place.copy is not None]

    def _captured(self, after: Any) -> tuple[Capture, Capture]:
        if isinstance(after, Mapping):
            raise UsageError(ALIKE)
        files = inputs.distinct_states(names_of(after), "the state after")
        if self._is_elsewhere and not all(map(_is_file, files)):
            raise InputError("only the process that began can read it")
        files = inputs.named_alike(tuple(p.file for p in self._places.values()), files)
        if [file.source for file in files] != list(self._places):
            names = ", ".join(self._places), ", ".join(file.source for file in files)
            raise UsageError(f"the state before is of {names[0]}, the state after of {names[1]}")
        pairs = [self._places[file.source].pair(file) for file in files]
        known = [place.file for place in self._places.values()]
        store, clock = inputs.room_and_clock((*known, *files))
        before = self._first([one for one, _ in pairs], store, clock)
        return before, take([two for _, two in pairs], store, clock, before, "after")

    def _first(self, sources: Sequence[Source], store: ChunkStore, clock: Clock) -> Capture:
        """The capture before, the same object as long as what was read is."""
        parts = [one.part for one in sources if isinstance(one, _Read)]
        is_read = len(parts) == len(sources)
        if is_read and self._before is not None and all(map(is_, self._before[0], parts)):
            return self._before[1]
        before = take(sources, store, clock, None, "before")
        if is_read:
            self._before = parts, before
        return before


def _read_elsewhere(
    names: list[str], refined: Refined, content: list[tuple[Any, ...]]
) -> KeptPlaces:
    """The state before, read again by another process. `InputError` where it is not as it was."""
    found = KeptPlaces(names, refined)
    if not found.is_portable or found.content() != content:
        raise InputError("the state before is not what it was when it was read")
    found._is_elsewhere = True  # noqa: SLF001 - one of this module
    return found


def _is_file(file: inputs.StateFile) -> bool:
    """True if every process of the machine reads the same of it: no URL, no function, no pipe."""
    return file.url is None and not file.is_stdin


def _is_whole_file(place: _KeptPlace) -> bool:
    """True if the place is such a file, and all of it was read when it was kept."""
    part = None if place.source is None else place.source.part
    return _is_file(place.file) and part is not None and part.reading.is_complete


class _KeptPlace:
    """One place: its source as it was read, or its copy."""

    def __init__(self, file: inputs.StateFile, refinement: Refinement | None) -> None:
        self.file = file
        self._refinement = refinement
        self.copy: StateInput | None = None
        self._pairs: KeptPairs | None = None
        self.source: _Read | None = None
        self._reader: PageReader | None = None
        if file.reader.series is not None:
            folder = tempfile.mkdtemp(prefix="statediff-before-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self.copy = kept_input(file.reader, file.input(), Path(folder))
            if file.reader.kept is not None:
                self._pairs = file.reader.kept(
                    file.source, self.copy, refinement, inputs.offline_clock
                )
            return
        source = file.read_by(refinement)
        inputs.require_schema(source, file)
        if isinstance(source, PagedSource):
            source = self._reader = source.by_pages()
        [part] = take([source], *inputs.room_and_clock([file]), None, "before").parts
        self.source = _Read(part)

    def pair(self, after: inputs.StateFile) -> tuple[Source, Source]:
        """Readers of the two sides."""
        if after.lost is not None:
            one = self.source or self._again()
            return one, inputs.Backed(inputs.Lost(after.source, after.lost), one)
        after = inputs.as_of_one_kind(self.file, after)
        series = self.file.reader.series
        is_alike = self.file.reader is after.reader
        if self._pairs is not None and is_alike and (found := self._pairs(after.input())):
            return _Read(found[0].parts[0]), _Read(found[1].parts[0])
        if self.copy is not None and series is not None and self.file.reader is after.reader:
            one, two = series(self.file.source, (self.copy, after.input()), self._refinement)
            return one, after.named(two)
        one = self.source or self._again()
        two = after.read_by(self._refinement)
        two = after.named(two if self._reader is None else self._reader.beside(two))
        return one, inputs.Backed(two, one)

    def _again(self) -> Source:
        """A reader of the state before, from its copy where there is one."""
        state = self.copy or self.file.input()
        return open_state(self.file.reader, self.file.source, state, self._refinement)


@dataclass(frozen=True)
class _Read:
    """A source that was read."""

    part: SourceCapture

    @property
    def name(self) -> str:
        return self.part.reading.source

    def schema(self) -> Schema:
        return self.part.state.schema

    def read(self, _store: ChunkStore, _clock: Clock, _like: ReadState | None) -> SourceCapture:
        return self.part


def is_deltas(after: Any) -> bool:
    """True if a state is given by what changed: a list of objects, or an empty one."""
    if not isinstance(after, list | tuple):
        return False
    return not after or any(isinstance(each, Mapping) for each in after)


ALIKE = "give both states as tables, or both as files"


def tables_pair(
    before: bytes, after: bytes, refined: inputs.Refinements
) -> tuple[Capture, Capture]:
    """The captures of two states in JSON."""
    refine, store = refined("tables"), MemoryChunks()
    one = TablesSource("tables", before, refine, after, "after")
    two = TablesSource("tables", after, refine, before, "before", is_after=True)
    captured = take([one], store, inputs.offline_clock, None, "before")
    return captured, take([two], store, inputs.offline_clock, captured, "after")


def captures(
    before: State,
    after: State,
    schema: str | Path | None,
    sandbox: str | None,
    during: Sequence[str | Path] = (),
    *,
    alike: bool = False,
) -> tuple[Capture, Capture]:
    """The captures before and after, read once; `alike` as in `inputs.capture_pair`."""
    refined = Refined(None if schema is None else Path(schema), sandbox)
    are_tables = isinstance(before, Mapping), isinstance(after, Mapping)
    if during and any(are_tables):
        raise UsageError("states in between are files: give all states as files")
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return _Tables(before, refined).captures(after)
    if any(are_tables):
        raise UsageError(ALIKE)
    between = names_of(during)
    return inputs.capture_pair(names_of(before), names_of(after), refined, between, alike=alike)


def names_of(state: Any) -> list[Any]:
    """Places as a command line names them, or as `StateFile`."""
    if isinstance(state, (str, Path)) or callable(state):
        return [place_of(state)]
    return [each if isinstance(each, inputs.StateFile) else str(each) for each in state]


def place_of(place: Place) -> str:
    """A place as a command line names it."""
    return url_of(place) if callable(place) else str(place)


def as_json(tables: Tables, side: str) -> bytes:
    """The tables as JSON, as those that a function returns. `InputError` where they are none."""
    is_after = side == "after"  # what a run can write there is read, and never our caller's fault
    try:
        try:
            text = json.dumps(tables, ensure_ascii=is_after, allow_nan=is_after)
        except (RecursionError, ValueError):
            if not is_after:
                raise
            text = _written(tables)
        return text.encode("utf-8")
    except TypeError:
        return tables_as_json(f"the state {side}", tables)
    except (ValueError, RecursionError, UnicodeEncodeError) as error:
        raise InputError(f"the state {side}: expected tables as JSON holds them: {error}") from None


def _written(value: Any) -> str:
    """The JSON of a value beyond the library's encoder: nested deeper, or a longer number."""
    pieces: list[str] = []
    open_: set[int] = set()
    waiting: list[tuple[str, Any]] = [("value", value)]
    while waiting:
        what, each = waiting.pop()
        if what == "text":
            pieces.append(each)
        elif what == "end":
            open_.remove(each)
        elif isinstance(each, Mapping | list | tuple):
            if id(each) in open_:
                raise ValueError("Circular reference detected")
            open_.add(id(each))
            waiting += [("end", id(each)), *reversed(list(_parts(each)))]
        elif type(each) is int:
            pieces.append(str(Decimal(each)))  # of any length, which `str` of an integer refuses
        else:
            pieces.append(json.dumps(each))
    return "".join(pieces)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts that an object or an array is written as, in order."""
    is_object = isinstance(value, Mapping)
    between = "{" if is_object else "["
    for each in value:
        yield "text", between
        if is_object:
            if not isinstance(each, str):
                raise TypeError(f"keys must be texts, not {type(each).__name__}")
            yield "text", f"{json.dumps(each)}:"
        yield "value", value[each] if is_object else each
        between = ","
    if between != ",":
        yield "text", between
    yield "text", "}" if is_object else "]"
