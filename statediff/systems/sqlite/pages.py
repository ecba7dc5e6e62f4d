"""Files of our own with all pages of a database: as a transaction shows them, or rolled back."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from statediff.capture.source import SourceRuined, SourceUnavailable

_MAGIC: Final = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_SIDES: Final = ("-journal", "-wal")
_COPY_SECONDS: Final = 300


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

    It is what the next program that opens the database finds. Raises `SourceRuined` where SQLite
    cannot take it back, `SourceUnavailable` where somebody writes.
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
            connection.execute("PRAGMA trusted_schema = OFF")
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


class _Passing(sqlite3.Connection):
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
                ["cp", "--", folder / f"{name}{suffix}", f"{target}{suffix}"],  # noqa: S607
                check=True,
                capture_output=True,
                timeout=_COPY_SECONDS,
            )


def _names_another(journal: Path) -> bool:
    """Whether the journal ends with the name of one that it shares with other databases."""
    with journal.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        if stream.tell() <= len(_MAGIC):
            return False
        stream.seek(-len(_MAGIC), os.SEEK_END)
        return stream.read() == _MAGIC
