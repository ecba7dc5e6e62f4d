"""Logs and journals that a run leaves beside a SQLite file: what the next program would read."""

import os
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from statediff.model.state import MemoryChunks
from statediff.systems.sqlite.source import SqliteSource, strange_side_file
from tests.systems.sqlite.sqlite_databases import clock
from tests.systems.sqlite.test_structure import compare, make, run

HARM = "DELETE FROM account WHERE id > 300"
MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"


def side(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def killed(path: Path, *statements: str, mode: str = "DELETE") -> None:
    """A program that did this without an end, and was killed."""
    child = os.fork()
    if not child:
        db = sqlite3.connect(path, isolation_level=None)
        for each in (f"journal_mode = {mode}", "cache_size = 1", "wal_autocheckpoint = 0"):
            db.execute(f"PRAGMA {each}")
        for each in statements:
            db.execute(each)
        os._exit(0)
    os.waitpid(child, 0)


def half_done(path: Path) -> None:
    killed(path, "BEGIN", HARM, "UPDATE small SET note = note || hex(randomblob(3000))")
    assert side(path, "-journal").stat().st_size


def taken_back(path: Path) -> None:
    """The next program that opens the database finds what it was before the right run."""
    other = path.with_name("other")
    shutil.copy(path, other)
    run(other, "UPDATE account SET role = 'admin' WHERE id = 3")
    half_done(other)
    for suffix in ("", "-journal"):
        shutil.copy(side(other, suffix), side(path, suffix))


def in_the_log(path: Path) -> None:
    killed(path, HARM, mode="WAL")
    assert side(path, "-wal").stat().st_size


def not_in_the_log(path: Path, at: int) -> None:
    """Committed frames that SQLite does not believe: of another salt, or another content."""
    in_the_log(path)
    content = bytearray(side(path, "-wal").read_bytes())
    content[at] ^= 1
    side(path, "-wal").write_bytes(content)
    side(path, "-shm").unlink(missing_ok=True)


def named_journal(path: Path) -> None:
    half_done(path)
    name = str(path.with_name("shared")).encode()
    path.with_name("shared").touch()
    with side(path, "-journal").open("ab") as journal:
        journal.write(struct.pack(">I", 2**30 // 4096 + 1) + name)
        journal.write(struct.pack(">II", len(name), sum(name)) + MAGIC)


def journal_of(content: bytes):
    return lambda path: side(path, "-journal").write_bytes(content)


def hidden_by_a_journal(path: Path) -> None:
    run(path, HARM)
    journal_of(b"x" * 5000)(path)


HARMFUL = {
    "frames that are committed, and in the log only": in_the_log,
    "a journal that takes back what was right": taken_back,
    "rows are deleted, and a journal hides it": hidden_by_a_journal,
    "a journal that is shared with another database": named_journal,
}
HARMLESS = {
    "a write that was cut off": half_done,
    "a journal of nothing": journal_of(MAGIC + bytes(600)),
    "a journal that is none": journal_of(b"x" * 5000),
    "an index of a log without one": lambda path: side(path, "-shm").write_bytes(b"x" * 32768),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_what_the_next_program_would_read_is_the_state(tmp_path, name):
    path = make(tmp_path / "a.db")
    found, _ = compare(path, lambda: HARMFUL[name](path))
    assert [d for d in found.deltas if d.type in ("account", "source.db")]
    if HARMFUL[name] is named_journal:
        assert (tmp_path / "shared").exists()  # SQLite removes what such a journal names


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_taken_back_was_never_done(tmp_path, name):
    path = make(tmp_path / "a.db")
    before = path.read_bytes()
    found, after = compare(path, lambda: HARMLESS[name](path))
    assert not [*found.deltas, *found.doubts]
    assert after.parts[0].reading.is_complete
    if name == "a write that was cut off":
        assert path.read_bytes() != before  # nothing is rolled back but in a copy
        assert side(path, "-journal").stat().st_size


@pytest.mark.parametrize("name", [*HARMFUL, *HARMLESS])
def test_what_is_left_beside_the_file_counts_where_a_link_leads_to_it(tmp_path, name):
    path = make(tmp_path / "a.db")
    (tmp_path / "live.db").symlink_to(path)
    found, _ = compare(tmp_path / "live.db", lambda: (HARMFUL | HARMLESS)[name](path))
    assert bool([*found.deltas, *found.doubts]) is (name in HARMFUL)


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_a_pipe_beside_a_file_to_which_a_link_leads_ends_no_evaluator(tmp_path, suffix):
    path = make(tmp_path / "a.db")
    (tmp_path / "live.db").symlink_to(path)
    assert strange_side_file(tmp_path / "live.db") is None
    os.mkfifo(side(path, suffix))
    assert strange_side_file(tmp_path / "live.db") == f"live.db{suffix} is not a file"
    side(path, suffix).unlink()
    found, _ = compare(tmp_path / "live.db", lambda: os.mkfifo(side(path, suffix)))
    assert {d.type for d in found.deltas} == {"source.db"}


@pytest.mark.parametrize("at", [16, 33, 40, 48, 60], ids=str)
def test_frames_that_sqlite_does_not_believe_are_no_rows(tmp_path, at):
    path = make(tmp_path / "a.db", mode="WAL")
    found, _ = compare(path, lambda: not_in_the_log(path, at))
    assert not [*found.deltas, *found.doubts]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM account").fetchone() == (400,)


@pytest.mark.parametrize("how", ["gone", "empty", "cut off"])
def test_a_log_that_the_run_takes_away_takes_its_commits_along(tmp_path, how):
    path = make(tmp_path / "a.db", mode="WAL")
    killed(path, HARM, mode="WAL")
    side(path, "-shm").unlink()
    log = side(path, "-wal")

    def act() -> None:
        if how == "gone":
            log.unlink()
        else:
            os.truncate(log, 0 if how == "empty" else log.stat().st_size - 10)
        side(path, "-shm").unlink(missing_ok=True)

    found, _ = compare(path, act)
    assert {d.type for d in found.deltas} == {"account"}


def test_a_cut_off_write_costs_nobody_a_lock(tmp_path):
    path = make(tmp_path / "a.db")
    code = (
        "import sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)\n"
        "db.execute('BEGIN EXCLUSIVE')"
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN")
        holder.execute("SELECT * FROM small").fetchone()
        journal_of(b"x" * 5000)(path)
        SqliteSource("db", path).read(MemoryChunks(), clock, None)
        side(path, "-journal").unlink()
        assert os.spawnlp(os.P_WAIT, "python3", "python3", "-c", code, str(path))
