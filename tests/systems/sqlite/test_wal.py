import os
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statediff.systems.sqlite.wal import HEADER_BYTES, read_commits, read_header, read_index


@pytest.fixture(scope="module", params=(512, 4096))
def log(tmp_path_factory, request):
    """The bytes of a log of several commits, and what SQLite's own index said of it."""
    path = tmp_path_factory.mktemp("db") / "a.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in (f"page_size = {request.param}", "journal_mode = WAL"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("CREATE TABLE t (x)")
        for size in (1, 9, 30_000, 3):
            connection.execute("INSERT INTO t VALUES (randomblob(?))", (size,))
        descriptor = os.open(path.with_name("a.db-shm"), os.O_RDONLY)
        index = read_index(descriptor)
        content = path.with_name("a.db-wal").read_bytes()
    os.close(descriptor)
    return content, index


def commits_of(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(content)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        header = read_header(descriptor)
        return [] if header is None else list(read_commits(descriptor, header))
    finally:
        os.close(descriptor)


def test_the_log_ends_where_sqlite_says_with_its_checksum(log, tmp_path_factory):
    content, index = log
    commits = commits_of(content, tmp_path_factory)
    assert len(commits) == 5
    assert (commits[-1].frame, commits[-1].checksum) == (index.frames, index.checksum)
    assert content[16:24] == index.salts


@settings(max_examples=settings.default.max_examples // 2)
@given(st.data())
def test_a_damaged_log_shows_only_the_transactions_before_the_damage(log, tmp_path_factory, data):
    content, _ = log
    whole = commits_of(content, tmp_path_factory)
    at = data.draw(st.integers(0, len(content) - 1))
    damaged = bytearray(content)
    damaged[at] ^= data.draw(st.integers(1, 255))
    page_size = int.from_bytes(content[8:12])
    frame = 1 + (at - HEADER_BYTES) // (24 + page_size)
    expected = [c for c in whole if at >= HEADER_BYTES and c.frame < frame]
    assert commits_of(bytes(damaged), tmp_path_factory) == expected
    assert commits_of(content[:at], tmp_path_factory) == expected


@given(st.binary(max_size=200))
def test_what_is_no_log_has_no_transaction(tmp_path_factory, content):
    assert commits_of(content, tmp_path_factory) == []
