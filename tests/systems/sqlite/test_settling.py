"""Nothing that an agent writes into a database makes it look as if a write were under way."""

import mmap
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from statediff.errors import SandboxError
from statediff.packs import PackSource
from statediff.systems.sqlite.sandbox import EmbeddedDatabase

HEAD_BYTES = 100


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedDatabase]:
    folder = tmp_path_factory.mktemp("db")
    (folder / "seed.sql").write_text("CREATE TABLE a (x); INSERT INTO a VALUES (1);")
    source = PackSource("db", "sqlite", files={"ddl": folder / "seed.sql"})
    made = EmbeddedDatabase(source, (), folder)
    made.start()
    yield made
    made.stop()


@given(st.integers(0, HEAD_BYTES - 1), st.integers(0, 255), st.booleans())
@example(18, 9, False)
@example(19, 9, True)
def test_no_byte_of_the_head_keeps_a_database_unsettled(
    system: EmbeddedDatabase, at: int, value: int, is_logged: bool
) -> None:
    system.reset()
    if is_logged:
        with closing(sqlite3.connect(system.file)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
    with system.file.open("r+b") as file:
        file.seek(at)
        file.write(bytes([value]))
    assert system.unsettled(time.monotonic()) is None


def _as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


LEFT: dict[str, Callable[[Path], object]] = {
    "an empty file": lambda path: os.truncate(path, 0),
    "half a page": lambda path: os.truncate(path, 512),
    "a folder": _as_folder,
    "a pipe for its log": lambda path: os.mkfifo(f"{path}-wal"),
    "a folder for its journal": lambda path: Path(f"{path}-journal").mkdir(),
    "a journal of nothing": lambda path: Path(f"{path}-journal").write_bytes(b"x" * 600),
    "a log of nothing": lambda path: Path(f"{path}-wal").write_bytes(b"x" * 600),
    "an index without a log": lambda path: Path(f"{path}-shm").write_bytes(b"x" * 32768),
    "nothing": Path.unlink,
    "a link": lambda path: path.rename(path.with_name("b")).with_name(path.name).symlink_to("b"),
}


@pytest.mark.parametrize("left", LEFT)
def test_what_is_in_the_place_of_a_database_is_settled(system: EmbeddedDatabase, left: str) -> None:
    system.reset()
    LEFT[left](system.file)
    assert system.unsettled(time.monotonic()) is None


def test_a_proof_reads_the_file_and_no_base_is_copied_that_was_written_to(in_memory: Path) -> None:
    (in_memory / "seed.sql").write_text("CREATE TABLE a (x); INSERT INTO a VALUES (1);")
    source = PackSource("db", "sqlite", files={"ddl": in_memory / "seed.sql"})
    made = EmbeddedDatabase(source, (), in_memory / "db")
    made.reset()
    assert made.verify()[1] == ()
    with made.file.open("r+b") as file, mmap.mmap(file.fileno(), 100) as mapped:
        assert mapped[:6] == b"SQLite"  # what was read is written without a fault
        mapped[60:64] = b"EVIL"
    assert [drift.what for drift in made.verify()[1]] == ["page 1 of db.sqlite"]
    Path(f"/proc/self/fd/{made.base._file}").write_bytes(b"E")
    with pytest.raises(SandboxError, match="was written to by somebody else"):
        made.reset()
