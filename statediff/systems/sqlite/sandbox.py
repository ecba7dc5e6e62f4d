"""A SQLite file that is put back by a copy and proven by its bytes.

The pristine image is built when the sandbox starts (about 3 ms for `shop`): of DDL and seed, of a
dump, or as a copy of a database file. It is kept where it has no name (`base.pristine`), so that no
file within an agent's reach decides what "pristine" means. It is in WAL mode, so that a feed can
see what is committed during a run (`sqlite.feed`). The proof is a SHA-256 over the file's bytes,
its kind, its mode and its neighbours in the folder; it uses nothing that captures state.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.errors import SandboxError
from statediff.model.schema import Schema
from statediff.packs import PackSource
from statediff.systems.base.folders import discard, make_folder, remove
from statediff.systems.base.pristine import Pristine, folder_near
from statediff.systems.base.protocol import Drift, SourceProof
from statediff.systems.sqlite.copy import with_log, without_log
from statediff.systems.sqlite.feed import SqliteFeed
from statediff.systems.sqlite.loading import copy_file, load_dump, run_script
from statediff.systems.sqlite.scan import is_of_the_file
from statediff.systems.sqlite.source import (
    SqliteSource,
    stands_on_link,
    strange_side_file,
    write_in_progress,
)
from statediff.systems.sqlite.writer import SqliteWriter

PAGE_BYTES: Final = 4096
FILE_MODE: Final = 0o600
METHOD: Final = "sha256 of the database file, its mode and the files beside it"
_PROBE_SECONDS: Final = 0.01


class EmbeddedDatabase:
    """A `System`: one SQLite file in a folder of its own."""

    FILES: ClassVar[Mapping[str, bool]] = {
        "file": False,
        "dump": False,
        "ddl": False,
        "seed": False,
    }
    LOOKS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self.file = folder / f"{source.name}.sqlite"
        with folder_near(folder) as near:
            self.base, self.entities = build_base(source, near / "base")
        refined = self._refinement(source)
        self._read = SqliteSource(source.name, self.file, refined, in_place=True)
        self._feed = SqliteFeed(source.name, self.file, refined)

    def _refinement(self, source: PackSource) -> Callable[[Schema], Schema] | None:
        """Refines the catalogue's schema to the logical one; None: it is the catalogue's."""
        return source.refinement()

    @property
    def url(self) -> str:
        return f"sqlite:///{self.file}"

    def start(self) -> None:
        """Nothing runs: the file is opened by its user."""

    def stop(self) -> None:
        """Nothing runs."""

    def sources(self) -> tuple[Source, ...]:
        return (self._read,)

    def feeds(self) -> tuple[Feed, ...]:
        """The feeds of every commit of a run; attached after `verify`, detached before `reset`."""
        return (self._feed,)

    def writer(self) -> SqliteWriter:
        """A connection of somebody beside the agent."""
        try:
            return SqliteWriter(self.source, self.file)
        except sqlite3.Error as error:
            raise SandboxError(f"{self.source}: nobody can write to it: {error}") from error

    def keep(self, to: Path) -> None:
        """The place holds what is committed in the file now."""
        if not self._is_in_place() or strange_side_file(self.file) is not None:
            raise SandboxError(f"{self.source}: there is no database at {self.file}")
        copy_file(self.file, to)

    def begin_at(self, kept: Path) -> None:
        """The base is what was kept there, of this system or of another one."""
        self.base, self.entities = taken(kept)

    def unplug(self, source: str) -> None:
        """The file is gone until the next reset."""
        remove(self.file)
        self._read.is_unplugged = True

    def reset(self) -> None:
        """The file is the pristine image, alone in its folder; open handles keep the old file."""
        try:
            make_folder(self.file.parent)
            folder = os.open(self.file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                is_folder = self.file.is_dir() and not self.file.is_symlink()
                for name in os.listdir(folder):  # noqa: PTH208 - an open folder has no path
                    if name != self.file.name or is_folder:
                        discard(name, folder)
                self.base.copy(folder, self.file.name, FILE_MODE)
            finally:
                os.close(folder)
            self._read.is_unplugged = False
        except OSError as error:
            raise SandboxError(
                f"{self.source}: the database could not be put back at {self.file}: {error}"
            ) from error

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        """The file as it is now, and everything about it that is not as in the base."""
        drift = [
            self._drift(f"file {name}", "no such file", found) for name, found in self._neighbours()
        ]
        digest = ""
        try:
            status = self.file.lstat()
            if not stat.S_ISREG(status.st_mode):
                what = f"file {self.file.name}"
                drift.append(self._drift(what, "a regular file", "another kind"))
            else:
                mode = stat.S_IMODE(status.st_mode)
                if mode != FILE_MODE:
                    expected, found = f"mode {FILE_MODE:04o}", f"mode {mode:04o}"
                    drift.append(self._drift(f"file {self.file.name}", expected, found))
                opened = os.open(self.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                with os.fdopen(opened, "rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                    if digest != self.base.digest:
                        file.seek(0)
                        drift.extend(self._content_drift(file.read()))
        except OSError as error:
            found = str(error.strerror)
            drift.append(self._drift(f"file {self.file.name}", "a readable file", found))
        proof = SourceProof(self.source, METHOD, self.base.digest, digest, self.entities)
        return proof, tuple(drift)

    def unsettled(self, deadline: float) -> str | None:
        """Waits until nobody holds a write transaction; why not, if `deadline` passes first."""
        while True:
            try:
                if self._read.is_unplugged:
                    return "the database file is gone"
                if not self._is_in_place() or strange_side_file(self.file) is not None:
                    return None  # nobody writes to what is no database: reading says what it is
                cause = write_in_progress(self.file)
            except sqlite3.Error as error:
                code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
                if is_of_the_file(error) or code & 0xFF == sqlite3.SQLITE_READONLY:
                    return None  # as above
                return f"the database cannot be opened: {error}"
            if cause is None or time.monotonic() >= deadline:
                return cause
            time.sleep(min(_PROBE_SECONDS, max(0.0, deadline - time.monotonic())))

    def _is_in_place(self) -> bool:
        return self.file.is_file() and not stands_on_link(self.file)

    def _neighbours(self) -> list[tuple[str, str]]:
        try:
            entries = sorted(os.scandir(self.file.parent), key=lambda entry: entry.name)
        except OSError:
            return []  # the file itself cannot be read either, and that is reported
        found = {
            entry.name: entry.stat(follow_symlinks=False)
            for entry in entries
            if entry.name != self.file.name
        }
        log, index = (found.get(self.file.name + suffix) for suffix in ("-wal", "-shm"))
        if log and index and not log.st_size and all(stat.S_ISREG(s.st_mode) for s in (log, index)):
            # What any reader leaves: the first to open the file clears such an index.
            del found[self.file.name + "-wal"], found[self.file.name + "-shm"]
        return [(name, f"{status.st_size} bytes") for name, status in found.items()]

    def _content_drift(self, content: bytes) -> list[Drift]:
        """The drift of the content, where the digest differs."""
        image = self.base.read()
        if hashlib.sha256(image).hexdigest() != self.base.digest:
            return [self._drift("the base", "as it was made", "written to by somebody else")]
        if content == image:
            return [self._drift(f"file {self.file.name}", "at rest", "changed while it was read")]
        by_table = [
            self._drift(f"table {name}", expected, found)
            for name, expected, found in differing_tables(image, content)
        ]
        if by_table:
            return by_table
        pages = range(0, max(len(content), len(image)), PAGE_BYTES)
        first = next(
            at for at in pages if content[at : at + PAGE_BYTES] != image[at : at + PAGE_BYTES]
        )
        what = f"page {first // PAGE_BYTES + 1} of {self.file.name}"
        return [self._drift(what, "the pristine page", "other bytes")]

    def _drift(self, what: str, expected: str, found: str) -> Drift:
        return Drift(self.source, what, expected, found)


def build_base(source: PackSource, place: Path) -> tuple[Pristine, int]:
    """The pristine database, and how many rows its tables hold; the place is free for a file."""
    given = [key for key in ("file", "dump", "ddl") if key in source.files]
    if len(given) != 1:
        key = given[1] if given else "kind"
        raise source.problem(key, "a SQLite database is made of one of `file`, `dump` or `ddl`")
    if "seed" in source.files and given != ["ddl"]:
        raise source.problem("seed", "`seed` goes with `ddl`")
    path = source.files[given[0]]
    try:
        if given == ["file"]:
            copy_file(path, place)
        else:
            with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
                made.execute(f"PRAGMA page_size = {PAGE_BYTES}")
                if given == ["dump"]:
                    load_dump(made, path)
                else:
                    _load_seed(made, source)
                place.write_bytes(made.serialize())
        return taken(place)
    except (sqlite3.Error, MemoryError) as error:
        raise SandboxError(f"{source.name}: {path} does not make a database: {error}") from error


def taken(place: Path) -> tuple[Pristine, int]:
    """The database at the place as a base that has a log, and how many rows its tables hold."""
    with place.open("r+b") as file:
        head = file.read(PAGE_BYTES)
        file.seek(0)
        file.write(with_log(head))
    with contextlib.closing(
        sqlite3.connect(f"{place.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    ) as connection:
        names = connection.execute(_TABLES).fetchall()
        entities = sum(_count(connection, name) for (name,) in names)
    return Pristine(place), entities


def _load_seed(connection: sqlite3.Connection, source: PackSource) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    run_script(connection, source.files["ddl"])
    if (seed := source.file("seed")) is not None:
        connection.execute("BEGIN")
        run_script(connection, seed)
        connection.execute("COMMIT")
    dangling = connection.execute("PRAGMA foreign_key_check").fetchall()
    if dangling:
        raise SandboxError(f"{source.name}: the seed's {dangling[0][0]} refers to nothing")


def _count(connection: sqlite3.Connection, table: str) -> int:
    try:
        return int(connection.execute(_COUNT.format(table)).fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # a virtual table whose module is not here


_TABLES: Final = (
    "SELECT replace(name, '\"', '\"\"') FROM sqlite_schema"
    " WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
)
_COUNT: Final = 'SELECT count(*) FROM "{}"'


def differing_tables(expected: bytes, found: bytes) -> list[tuple[str, str, str]]:
    """The tables and schema objects that differ; empty if the bytes are not a database."""
    try:
        before, after = _contents(expected), _contents(found)
    except sqlite3.Error:
        return []
    nothing = ("no such table", "")
    return [
        (name, before.get(name, nothing)[0], after.get(name, nothing)[0])
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _contents(image: bytes) -> dict[str, tuple[str, str]]:
    """Table → (a short description, digest of its definition and rows)."""
    found: dict[str, tuple[str, str]] = {}
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(without_log(image))
        connection.text_factory = bytes
        schema = connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2"
        ).fetchall()
        for kind, name, *rest in schema:
            if kind != b"table":
                label = f"sqlite_schema ({kind.decode()} {name.decode(errors='replace')})"
                found[label] = ("as defined", repr(rest))
        for (table,) in connection.execute(_TABLES).fetchall():
            plain = table.decode(errors="replace")
            hasher = hashlib.sha256()
            rows = 0
            with contextlib.suppress(sqlite3.OperationalError):  # a module that is not here
                for row in connection.execute(f'SELECT * FROM "{plain}"'):  # noqa: S608 — quoted by _TABLES
                    hasher.update(repr(row).encode())
                    rows += 1
            definition = [rest for kind, name, *rest in schema if name == table]
            hasher.update(repr(definition).encode())
            digest = hasher.hexdigest()
            found[plain] = (f"{rows} rows, digest {digest[:12]}", digest)
    return found
