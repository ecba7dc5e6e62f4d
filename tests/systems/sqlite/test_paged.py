"""A SQLite database read by the pages that changed shows what a whole scan shows, or says no."""

import sqlite3
import struct
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from statediff.capture.source import SourceUnavailable
from statediff.kernel.diff import diff
from statediff.model import state
from statediff.model.state import MemoryChunks
from statediff.systems.sqlite import source as sqlite_source
from statediff.systems.sqlite.scan import Scan
from statediff.systems.sqlite.source import SqliteSource
from tests.systems.sqlite.sqlite_databases import clock, database
from tests.systems.sqlite.test_feed_laws import BASE, STEPS, execute

LEAF = 13


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


@pytest.fixture
def pages(tmp_path):
    """A database of a few tables, read once by pages; the file, the reader and what it read."""
    path = database(tmp_path / "a.db", BASE, 4096, 0)
    source, store = SqliteSource("db", path), MemoryChunks()
    with closing(source.by_pages()) as reader:
        yield path, source, store, reader, reader.read(store, clock, None).state


@settings(max_examples=settings.default.max_examples // 6)  # each takes a third of a second
@given(
    st.lists(STEPS, max_size=20),
    st.sampled_from((512, 4096)),
    st.sampled_from((0, 1, 2)),
    st.sampled_from((8, state.CHUNK_KEYS)),
    st.sampled_from(("WAL", "DELETE")),
)
def test_what_is_read_by_pages_is_what_a_scan_reads(
    tmp_path_factory, steps, page_size, auto_vacuum, chunk_keys, mode
):
    path = database(tmp_path_factory.mktemp("db") / "a.db", BASE, page_size, auto_vacuum)
    changed(path, f"PRAGMA journal_mode = {mode}")
    source, store = SqliteSource("db", path), MemoryChunks()
    with (
        patch.object(state, "CHUNK_KEYS", chunk_keys),
        closing(source.by_pages()) as reader,
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as one,
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as other,
    ):
        before = reader.read(store, clock, None).state
        assert before.digest() == source.read(store, clock, None).state.digest()
        for at, (which, statement, *numbers) in enumerate(steps, 1):
            execute((one, other)[which], statement, *numbers)
            if at % 7 and at != len(steps):
                continue
            with suppress(SourceUnavailable):
                scan = source.read(store, clock, before)
                try:
                    told = reader.read_changed(store, clock, before)
                except SourceUnavailable as refusal:
                    event(str(refusal))
                    break
                assert told.state == scan.state
                assert told.reading.digest == scan.reading.digest
                event("read by pages")


def test_only_the_tables_of_which_many_rows_changed_are_read(pages):
    path, source, store, reader, before = pages
    changed(path, "UPDATE a SET y = 'new' WHERE id > 5", "DELETE FROM d")
    with patch.object(Scan, "table", autospec=True, side_effect=Scan.table) as tables:
        after = reader.read_changed(store, clock, before).state
    read = {call.args[1].name for call in tables.mock_calls}
    assert read == {"a"}, "pages tell the few rows of the other"
    assert {d.type for d in diff(before, after).deltas} == {"a", "d"}
    assert after.digest() == source.read(store, clock, before).state.digest()


def test_what_nobody_touched_is_not_read_at_all(pages):
    path, _, store, reader, before = pages
    changed(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    with patch.object(Scan, "table", side_effect=AssertionError):
        assert reader.read_changed(store, clock, before).state.digest() == before.digest()


def test_what_was_undone_since_the_first_reading_by_pages_is_no_change(pages):
    path, _, store, reader, before = pages
    changed(path, "UPDATE a SET y = 'new' WHERE id = 5", "UPDATE d SET rowid = rowid + 99")
    assert reader.read_changed(store, clock, before).state.digest() != before.digest()
    changed(path, "UPDATE d SET rowid = rowid - 99")
    source = SqliteSource("db", path)
    rows = dict(before.tables["a"].rows())
    changed(path, f"UPDATE a SET y = '{rows[5,]['y']}' WHERE id = 5")
    by_pages = reader.read_changed(store, clock, before).state
    assert by_pages.digest() == before.digest() == source.read(store, clock, before).state.digest()


def test_a_page_that_is_written_behind_the_back_of_the_counters_is_seen(tmp_path):
    path = database(tmp_path / "a.db", BASE, 4096, 0)
    changed(path, "PRAGMA journal_mode = DELETE")
    source, store = SqliteSource("db", path), MemoryChunks()
    with closing(source.by_pages()) as reader:
        before = reader.read(store, clock, None).state
        told = path.stat()
        content = path.read_bytes()
        assert content.count(b"row 77") == 1
        path.write_bytes(content.replace(b"row 77", b"row 78"))
        assert path.stat().st_size == told.st_size
        found = diff(before, reader.read_changed(store, clock, before).state)
    assert [d.id for d in found.deltas] == ["a[77].y"]


def misplaced(content: bytes, row_id: int, new: int) -> bytes:
    """The row of that number has another one, in the place where it stood."""
    page_size = struct.unpack_from(">H", content, 16)[0]
    for start in range(page_size, len(content), page_size):
        if content[start] != LEAF:
            continue
        (cells,) = struct.unpack_from(">H", content, start + 3)
        for at in struct.unpack_from(f">{cells}H", content, start + 8):
            place = start + at + 1  # behind the size, which is one byte
            if content[place : place + 2] == two_bytes(row_id):
                return content[:place] + two_bytes(new) + content[place + 2 :]
    raise AssertionError(f"no row {row_id}")


def two_bytes(number: int) -> bytes:
    return bytes((number >> 7 | 0x80, number & 0x7F))


@pytest.mark.parametrize("and_its_schema", [False, True])
def test_a_row_in_the_place_of_another_is_seen_where_no_search_finds_it(tmp_path, and_its_schema):
    script = (
        "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT); WITH RECURSIVE n (i) AS (VALUES (1) "
        "UNION ALL SELECT i + 1 FROM n WHERE i < 16000) INSERT INTO t SELECT i, 'x' FROM n;"
        "DELETE FROM t WHERE id = 15000"
    )
    path = database(tmp_path / "a.db", script, 4096, 0)
    changed(path, "PRAGMA journal_mode = DELETE")
    source, store = SqliteSource("db", path), MemoryChunks()
    with closing(source.by_pages()) as reader:
        before = reader.read(store, clock, None).state
        path.write_bytes(misplaced(path.read_bytes(), 500, 15000))
        with closing(sqlite3.connect(path)) as anybody:
            assert anybody.execute("SELECT 1 FROM t WHERE id = 15000").fetchall() == []
            assert anybody.execute("SELECT id FROM t WHERE +id = 15000").fetchall() == [(15000,)]
        if and_its_schema:  # then all is read once, and parts of it afterwards
            changed(path, "CREATE TABLE other (x)")
            reader.read_changed(store, clock, before)
            changed(path, "UPDATE t SET x = 'y' WHERE id = 4")
        after = reader.read_changed(store, clock, before).state
    assert {d.id for d in diff(before, after).deltas if d.type == "t"} >= {"t[500]", "t[15000]"}
    assert after == source.read(store, clock, before).state


def test_what_cannot_be_told_by_pages_is_refused_with_the_cause(pages, monkeypatch):
    path, source, store, reader, before = pages
    other = source.read(store, clock, None).state
    changed(path, "INSERT INTO c VALUES (1, zeroblob(9000))")
    with pytest.raises(SourceUnavailable, match="were not kept"):
        reader.read_changed(store, clock, source.read(store, clock, None).state)
    with monkeypatch.context() as patched:
        patched.setattr(sqlite_source, "MAX_CHANGED_BYTES", 4096)
        with pytest.raises(SourceUnavailable, match="most of its pages"):
            reader.read_changed(store, clock, other)
    changed(path, "PRAGMA journal_mode = DELETE")
    with pytest.raises(SourceUnavailable, match="journal mode"):
        reader.read_changed(store, clock, before)
    path.unlink()
    with pytest.raises(SourceUnavailable):
        reader.read_changed(store, clock, before)
    reader.close()
    with pytest.raises(SourceUnavailable, match="were not kept"):
        reader.read_changed(store, lambda: datetime.now(UTC), before)
