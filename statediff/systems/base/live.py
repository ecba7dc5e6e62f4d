"""A place that is read as it is now: a path or URL that a run may change between two readings.

A file whose form says nothing of types, e.g. CSV, is read after a run with a copy of what it was
before it, so that both states have one schema.

What kind of file a path is is state as well. Who follows a link reads and writes elsewhere from the
run on, whatever is there now: a path that became one is ruined (`_moved`), and read all the same.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from statediff.capture.source import (
    Clock,
    PlacedSource,
    SessionLister,
    Source,
    SourceRuined,
    SourceUnavailable,
)
from statediff.errors import InputError, UsageError
from statediff.model.readings import SourceCapture
from statediff.model.schema import Schema
from statediff.model.state import ChunkStore, Coverage, State, build_table
from statediff.model.values import printable
from statediff.systems.base.folders import is_of_the_path
from statediff.systems.base.plugin import Refinement, StateInput, StateReader
from statediff.systems.base.registry import open_state


class LiveSource:
    """Reads the place anew each time. What a run left unreadable is ruined, never empty."""

    def __init__(
        self,
        name: str,
        reader: StateReader,
        place: Callable[[], StateInput],
        refinement: Refinement | None = None,
    ) -> None:
        self._name = name
        self._reader = reader
        self._place = place
        self._refinement = refinement
        self._kept: Path | None = None
        self._earlier: StateInput | None = None
        self._later: StateInput | None = None
        self._last: Source | None = None
        self._opened: Source | None = None
        self._stood: _Standing | None = None
        """The path as it was before the run; None of what is no path."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def places(self) -> tuple[Path, ...]:
        """The path and those that its reader names beside it; none of what is no path."""
        found = self._place()
        if found.content is not None or found.url is not None:
            return ()
        opened = self._opened
        beside = opened.places if isinstance(opened, PlacedSource) else ()
        return (found.path, *(path for path in beside if path != found.path))

    def schema(self) -> Schema:
        with self._named():
            if self._opened is None:
                self._opened = self._open(None)
            return self._opened.schema()

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        stands = _standing(self._place())
        if like is None:
            self._stood = stands
        with self._named():
            self._opened = self._open(like)
            part = self._opened.read(store, clock, like)
        if like is not None and self._reader.series is not None:
            part = _keyed_as(like, part, store)
        moved = () if like is None else tuple(_moved(self._stood, stands))
        if like is None or self._reader.series is None:
            return replace(part, spoiled=(*part.spoiled, *moved)) if moved else part
        return replace(part, spoiled=(*part.spoiled, *moved, *_missing(like, part.state)))

    def sessions(self) -> tuple[str, ...]:
        """Sessions of others, where the system shows them."""
        opened = self._opened or self._open(None)
        return opened.sessions() if isinstance(opened, SessionLister) else ()

    def pair(self) -> tuple[Source, Source] | None:
        """The sources of the kept state before and of what is there now, both for one schema.

        None where no state is kept, since the place itself says its schema.
        """
        if self._reader.series is None or self._earlier is None:
            return None
        self._later = self._place()
        if self._reader.keep is not None:
            with suppress(InputError):  # reading it says why
                self._later = self._reader.keep(self._later)
        return self.pair_again(self._refinement)

    def pair_again(self, refinement: Refinement | None) -> tuple[Source, Source] | None:
        """The pair that was there, under another refinement."""
        if self._reader.series is None or self._earlier is None or self._later is None:
            return None
        later = self._later
        last = LiveSource(self._name, self._reader, lambda: later, refinement)
        last._stood, last._earlier = self._stood, self._earlier
        try:
            first, last._last = self._reader.series(self._name, (self._earlier, later), refinement)
        except InputError:  # as above
            both = (self._earlier, self._earlier)
            first = self._reader.series(self._name, both, refinement)[0]
        last._opened = first
        return first, last

    def _open(self, like: State | None) -> Source:
        place = self._place()
        if self._reader.series is None:
            return open_state(self._reader, self._name, place, self._refinement)
        if like is None or self._earlier is None:
            self._earlier = earlier = self._keep(place)
            return self._reader.series(self._name, (earlier, earlier), self._refinement)[0]
        if self._last is not None:
            return self._last
        try:
            return self._reader.series(self._name, (self._earlier, place), self._refinement)[1]
        except InputError as error:
            why, said = error.__cause__, f"what the run left cannot be read: {error}"
            if isinstance(why, OSError) and not is_of_the_path(why):
                raise SourceUnavailable(said) from error
            raise SourceRuined(said) from error

    def _named(self) -> AbstractContextManager[None]:
        return named_as_given(lambda: () if self._earlier is None else (self._earlier,))

    def _keep(self, place: StateInput) -> StateInput:
        if self._kept is None:
            self._kept = Path(tempfile.mkdtemp(prefix="statediff-before-"))
            weakref.finalize(self, shutil.rmtree, self._kept, ignore_errors=True)
        for earlier in self._kept.iterdir():  # of the trial before, which nothing reads any more
            shutil.rmtree(earlier, ignore_errors=True)
        return kept_input(self._reader, place, self._kept)


@dataclass(frozen=True)
class _Standing:
    """A path as it stands, without following it."""

    links: tuple[Path, ...]
    """The path and the folders above it, as far as they are links."""
    file: tuple[int, int] | None
    """Device and number of a regular file."""
    is_shared: bool
    """True if the file has other names."""


def _standing(place: StateInput) -> _Standing | None:
    if place.content is not None or place.url is not None:
        return None
    path = place.path.absolute()
    try:
        links = tuple(each for each in (path, *path.parents) if each.is_symlink())
        found = os.lstat(path)
    except (OSError, ValueError):
        return None  # it cannot be read either
    is_file = stat.S_ISREG(found.st_mode)
    number = (found.st_dev, found.st_ino) if is_file else None
    return _Standing(links, number, is_file and found.st_nlink > 1)


def _moved(before: _Standing | None, after: _Standing | None) -> Iterator[str]:
    """Paths that became another kind of file; programs write a file in place of a file."""
    if before is None or after is None:
        return
    for each in sorted({*before.links} ^ {*after.links}):
        what = "became a link" if each in after.links else "is a link no more"
        yield f"{printable(each.name)} {what}"
    if after.is_shared and not before.is_shared and after.file != before.file:
        yield "another file's name was given to it"


def kept_input(reader: StateReader, place: StateInput, within: Path) -> StateInput:
    """The place as it is now, which no run can change, under its own name in a folder within."""
    if place.content is not None:
        return place
    if reader.keep is not None:
        return reader.keep(place)
    to = Path(tempfile.mkdtemp(dir=within)) / (place.path.absolute().name or "tables")
    try:
        if place.path.is_dir():
            shutil.copytree(place.path, to, ignore=_not_files)
        else:
            shutil.copyfile(place.path, to)
    except (OSError, shutil.Error) as error:
        raise InputError(f"{place.label}: cannot be read: {error}") from error
    return StateInput(to, place.label)


def _keyed_as(before: State, part: SourceCapture, store: ChunkStore) -> SourceCapture:
    """The reading, with nothing known of a type that got another key than it had.

    Of a type without rows before, only the run's rows say what names them.
    """
    known, types, tables = before.schema.by_name, [], dict(part.state.tables)
    causes = []
    for found in part.state.schema.types:
        wanted = known.get(found.name, found)
        if wanted.key == found.key:
            types.append(found)
            continue
        key = ", ".join(wanted.key) or "no field"
        cause = (
            f"{printable(found.name)} was empty before the run and its rows are named by {key}, "
            "which not all rows of the run have; write `key: none` for it in a state schema"
        )
        types.append(wanted)
        tables[found.name] = build_table(wanted, (), store).unobserved(cause)
        causes.append(cause)
    if not causes:
        return part
    state = State(replace(part.state.schema, types=tuple(types)), tables)
    gap = part.reading.cause or causes[0]
    reading = replace(part.reading, is_complete=False, cause=gap, digest=state.digest())
    return replace(part, state=state, reading=reading, spoiled=(*part.spoiled, *causes))


@contextmanager
def named_as_given(kept: Callable[[], Iterable[StateInput]]) -> Iterator[None]:
    """Errors show the caller's name for an input, and not the path of the copy kept of it."""
    try:
        yield
    except (InputError, UsageError) as error:
        said = str(error)
        for each in kept():
            said = said.replace(str(each.path), printable(each.label))
        if said == str(error):
            raise
        raise type(error)(said) from error.__cause__


def _missing(before: State, after: State) -> Iterator[str]:
    """Types that had rows and are not there: nobody but the run writes to the place."""
    for name, table in before.tables.items():
        seen = after.tables[name].enumeration if name in after.tables else None
        if table.row_count and seen is not None and seen.coverage is Coverage.UNOBSERVED:
            yield seen.cause or name


def _not_files(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not Path(folder, name).is_file()]
