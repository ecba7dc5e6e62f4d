"""Connections to a database, and files of our own with all of its pages.

A file has the pages as a transaction shows them, or rolled back.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from statediff.capture.source import SourceRuined, SourceUnavailable

P = ParamSpec("P")
T = TypeVar("T")

_own: Final = threading.local()
_MAGIC: Final = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_SIDES: Final = ("-journal", "-wal")
_COPY_SECONDS: Final = 300


def _reporting(function: Callable[P, T]) -> Callable[P, T]:
    """The function, of which a message or a name that is not UTF-8 is an error of SQLite's.

    The driver decodes what SQLite says of a statement that fails, and the names of its columns.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except UnicodeDecodeError as error:
            said = sqlite3.DatabaseError(error.object.decode("utf-8", "backslashreplace"))
            said.sqlite_errorcode = sqlite3.SQLITE_ERROR
            said.sqlite_errorname = "SQLITE_ERROR"
            raise said from error

    return call


class _Cursor(sqlite3.Cursor):
    execute = _reporting(sqlite3.Cursor.execute)
    executescript = _reporting(sqlite3.Cursor.executescript)
    fetchall = _reporting(sqlite3.Cursor.fetchall)
    fetchmany = _reporting(sqlite3.Cursor.fetchmany)
    fetchone = _reporting(sqlite3.Cursor.fetchone)


class FileConnection(sqlite3.Connection):
    """A connection whose statements raise nothing but `sqlite3.Error` for what is in the file."""

    stand_ins: frozenset[str] = frozenset()
    """Functions and collations that only an application has, with a stand-in; see `stand_in`."""

    def cursor(self, factory: Any = _Cursor) -> Any:
        return super().cursor(factory)

    def execute(self, *statement: Any) -> sqlite3.Cursor:
        cursor: sqlite3.Cursor = self.cursor()
        return cursor.execute(*statement)

    def executescript(self, script: str, /) -> sqlite3.Cursor:
        cursor: sqlite3.Cursor = self.cursor()
        return cursor.executescript(script)


_INNOCUOUS: Final = 0x200000
_DIRECT_ONLY: Final = 0x080000
_WITHOUT_EFFECT: Final = re.compile(
    "->>?|json(_[a-z_]+)?|bm25|fts5|fts5_source_id|highlight|snippet|match|matchinfo|offsets|optimize"
    "|rtree(check|depth|node)"
)
"""Functions that SQLite did not mark as harmless before 3.41, and that only compute something."""


@cache
def schema_trust() -> str:
    """`PRAGMA trusted_schema` so that definitions call what has no effects, and nothing else.

    SQLite before 3.41 refuses JSON in an index or a column to a schema that is not trusted: it may
    be where no function of this SQLite has effects.
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        listed = connection.execute("SELECT name, flags FROM pragma_function_list").fetchall()
    is_harmless = bool(listed) and all(
        flags & (_INNOCUOUS | _DIRECT_ONLY) or _WITHOUT_EFFECT.fullmatch(name)
        for name, flags in listed
    )
    return f"PRAGMA trusted_schema={'ON' if is_harmless else 'OFF'}"


_MISSING: Final = re.compile(
    r"no such collation sequence: (?P<collation>.+)|(?:unknown|no such) function: "
    r"(?P<function>\w+).*|no query solution",
    re.DOTALL,
)
_COLLATE: Final = re.compile(r"""\bCOLLATE\s+("(?:[^"]|"")+"|\w+)""", re.IGNORECASE)


_OWN: Final = frozenset({"BINARY", "NOCASE", "RTRIM"})
"""The collations that SQLite has itself."""


def is_missing(error: sqlite3.Error) -> bool:
    """True if SQLite misses what only an application has."""
    return _MISSING.fullmatch(str(error)) is not None


def stand_in(connection: sqlite3.Connection, error: sqlite3.Error) -> str | None:
    """Let something stand in for what only an application has and the error asks for.

    Two texts are then equal only where their bytes are, and two results where all arguments are.
    None where the error is another. What is sorted or computed by it may not be believed.
    """
    missing = _MISSING.fullmatch(str(error))
    if missing is None or not isinstance(connection, FileConnection):
        return None
    if (function := missing["function"]) is not None:
        new = {function}
        connection.create_function(function, -1, lambda *given: repr(given), deterministic=True)
    else:  # a table that is the index itself has "no query solution"
        listed = connection.execute("SELECT sql FROM main.sqlite_schema").fetchall()
        named = _COLLATE.findall("\n".join(str(sql) for (sql,) in listed))
        names = {name.strip('"').replace('""', '"') for name in named}
        names.update(filter(None, [missing["collation"]]))
        new = {name for name in names if name.upper() not in _OWN} - connection.stand_ins
        for name in new:
            with suppress(sqlite3.Error, ValueError):  # of a name that is none
                connection.create_collation(name, lambda one, other: (one > other) - (one < other))
        connection.execute("PRAGMA writable_schema=RESET")  # the schema is read anew
    connection.stand_ins |= new
    return missing[0] if new else None


def page_size(image: bytes | bytearray) -> int:
    """The bytes of a page, from the head of the file."""
    told = int.from_bytes(image[16:18], "big")
    return 65536 if told == 1 else told


def shown_blocks(connection: sqlite3.Connection) -> Iterator[memoryview]:
    """All pages that the connection's read transaction shows, some at a time.

    What is yielded is good until the next is asked for. They are read past SQLite where the file
    alone holds them. Raises `sqlite3.Error`, `OSError`.
    """
    path: str = connection.execute("PRAGMA database_list").fetchall()[0][2]
    descriptor = None if not path or has_log(path) else own_descriptor(path)
    if descriptor is None:
        yield memoryview(connection.serialize())
        return
    # Memory that was written before: new pages of it take longer to get than to fill.
    room: memoryview = vars(_own).pop("room", None) or memoryview(bytearray(BLOCK_BYTES))
    offset = 0
    while count := os.preadv(descriptor, [room], offset):
        yield room[:count]
        offset += count
    _own.room = room


def has_log(path: str) -> bool:
    """True if there may be pages in a log: it is empty or not there when all are in the file."""
    try:
        return os.stat(f"{path}-wal").st_size > 0  # noqa: PTH116 - the hot path of a comparison
    except FileNotFoundError:
        return False


def own_descriptor(path: str) -> int | None:
    """A descriptor by which this process has the file open; None where none is found.

    Where a process closes one of its own, all locks that it has on the file are gone, those of
    SQLite included: so the one that SQLite has is read by.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - the hot path of a comparison
        spare = os.dup(0)
        os.close(spare)
        # SQLite took the lowest free number before, so its own is not far below the next.
        near = range(spare - 1, max(spare - 4, 2), -1)
        for number in chain(near, _descriptors()):
            with suppress(OSError):
                if os.path.samestat(status, os.fstat(number)):
                    return number
    except (OSError, ValueError):
        pass
    return None


def _descriptors() -> Iterator[int]:
    """All that this process has."""
    yield from map(int, os.listdir(_DESCRIPTORS))  # noqa: PTH208 - a number is no path


_DESCRIPTORS: Final = "/dev/fd"
BLOCK_BYTES: Final = 1024 * 1024


@contextmanager
def page_file(connection: sqlite3.Connection) -> Iterator[Path]:
    """A copy of the database, write-ahead log included. Raises `sqlite3.Error`, `OSError`."""
    with tempfile.TemporaryDirectory(prefix="statediff-pages-") as folder:
        path = Path(folder) / "pages"
        with closing(sqlite3.connect(path, isolation_level=None)) as target:
            for pragma in ("journal_mode = OFF", "synchronous = OFF"):
                target.execute(f"PRAGMA {pragma}")
            connection.backup(target)
        yield path


def rolled_back(path: Path) -> sqlite3.Connection:
    """A connection to a copy in which the interrupted write is taken back; closing removes it.

    It is what the next program finds that opens the database and may write it. Raises
    `SourceRuined` where SQLite cannot take it back, `SourceUnavailable` where somebody writes.
    """
    folder = Path(tempfile.mkdtemp(prefix="statediff-rolled-back-"))
    try:
        copy = folder / "copy"
        before = _stamps(path)
        _copy(path.absolute().parent, path.name, copy)
        if _stamps(path) != before:
            raise SourceUnavailable("its journal is being written")
        if _names_another(copy.with_name(f"{copy.name}-journal")):
            # SQLite would follow that name, and might remove what it finds there.
            raise SourceRuined("an interrupted write names another journal")
        with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
            connection.execute(schema_trust())
            connection.execute("PRAGMA schema_version").fetchall()
        opened = sqlite3.connect(
            f"{copy.as_uri()}?mode=ro", uri=True, isolation_level=None, factory=_Passing
        )
        opened.folder = folder
        return opened
    except subprocess.SubprocessError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise SourceUnavailable("an interrupted write cannot be copied") from error
    except sqlite3.Error as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise SourceRuined("an interrupted write cannot be rolled back") from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


class _Passing(FileConnection):
    """A connection to a file that goes when it is closed."""

    folder: Path | None = None

    def close(self) -> None:
        super().close()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def _stamps(path: Path) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for suffix in ("", *_SIDES):
        try:
            each = path.with_name(path.name + suffix).stat()
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((each.st_size, each.st_mtime_ns))
    return found


def _copy(folder: Path, name: str, target: Path) -> None:
    """The file and its side files, by a process of their own.

    Where this one closed a descriptor of the file, all locks that it has on the file would be gone.
    """
    for suffix in ("", *_SIDES):
        if (folder / f"{name}{suffix}").exists():
            subprocess.run(
                ["cp", "--", folder / f"{name}{suffix}", f"{target}{suffix}"],  # noqa: S607 - Debian's, on the PATH
                check=True,
                capture_output=True,
                timeout=_COPY_SECONDS,
            )
            Path(f"{target}{suffix}").chmod(0o600)  # it was copied with the mode of the file


def _names_another(journal: Path) -> bool:
    """True if the journal ends with the name of one that it shares with other databases."""
    if not journal.exists():
        return False
    with journal.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        if stream.tell() <= len(_MAGIC):
            return False
        stream.seek(-len(_MAGIC), os.SEEK_END)
        return stream.read() == _MAGIC
