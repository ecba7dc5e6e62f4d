"""Other people's databases: what `.dump` writes loads, and what does not is named with its line."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.errors import SandboxError
from statediff.packs import PackSource
from statediff.systems.sqlite.loading import statements
from statediff.systems.sqlite.sandbox import build_base

RICH = """
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE child (id INTEGER PRIMARY KEY, parent REFERENCES parent(id) NOT NULL);
INSERT INTO child VALUES(1,7);
CREATE TABLE parent (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE,
  shout TEXT GENERATED ALWAYS AS (upper(name)) STORED);
INSERT INTO parent(id, name) VALUES(7,'a;b
-- no comment');
INSERT INTO parent(id, name) VALUES(8,'it''s /* text');
CREATE TABLE "odd ""name;" (k TEXT PRIMARY KEY, v BLOB) WITHOUT ROWID;
INSERT INTO "odd ""name;" VALUES('k',X'00ff');
PRAGMA writable_schema=ON;
INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)
  VALUES('table','words','words',0,'CREATE VIRTUAL TABLE words USING fts5(body)');
CREATE TABLE IF NOT EXISTS 'words_data'(id INTEGER PRIMARY KEY, block BLOB);
INSERT INTO words_data VALUES(1,X'');
INSERT INTO words_data VALUES(10,X'00000000000000');
CREATE TABLE IF NOT EXISTS 'words_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS 'words_content'(id INTEGER PRIMARY KEY, c0);
CREATE TABLE IF NOT EXISTS 'words_docsize'(id INTEGER PRIMARY KEY, sz BLOB);
CREATE TABLE IF NOT EXISTS 'words_config'(k PRIMARY KEY, v) WITHOUT ROWID;
INSERT INTO words_config VALUES('version',4);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('parent',40);
CREATE TRIGGER once AFTER INSERT ON parent BEGIN
  INSERT INTO child(parent) VALUES(NEW.id); -- not while it is loaded;
  SELECT CASE WHEN 1 THEN 2 END;
END;
CREATE VIEW names AS SELECT name FROM parent;
PRAGMA writable_schema=OFF;
COMMIT;
"""


def image(folder: Path, text: str, key: str = "dump") -> tuple[sqlite3.Connection, int]:
    path = folder / "app.sql"
    path.write_text(text, encoding="utf-8")
    base, rows = build_base(PackSource("db", "sqlite", files={key: path}), folder / "made")
    made, connection = base.read(), sqlite3.connect(":memory:")
    connection.deserialize(made[:18] + b"\x01\x01" + made[20:])  # without a log beside it
    return connection, rows


def test_a_dump_loads_whatever_it_holds_and_in_whatever_order(tmp_path: Path) -> None:
    connection, _ = image(tmp_path, RICH)
    with contextlib.closing(connection):
        ask = connection.execute
        assert ask("SELECT * FROM child").fetchall() == [(1, 7)]
        assert ask("SELECT id, shout FROM parent").fetchall() == [
            (7, "A;B\n-- NO COMMENT"), (8, "IT'S /* TEXT"),
        ]  # fmt: skip
        assert ask("SELECT seq FROM sqlite_sequence").fetchall() == [(40,)]
        assert ask('SELECT * FROM "odd ""name;"').fetchall() == [("k", b"\x00\xff")]
        assert ask("SELECT count(*) FROM names").fetchone() == (2,)
        ask("INSERT INTO words VALUES ('hello world')")
        assert ask("SELECT body FROM words WHERE words MATCH 'world'").fetchall()
        ask("INSERT INTO parent(name) VALUES ('c')")
        assert ask("SELECT count(*) FROM child").fetchone() == (2,)


texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=9)


@given(
    st.lists(st.tuples(texts, st.binary(max_size=3), st.none() | st.integers(-9, 9)), max_size=5)
)
def test_what_python_dumps_loads_as_it_was(rows: list[tuple[Any, ...]]) -> None:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as one:
        one.execute("CREATE TABLE t (a TEXT, b BLOB, c INTEGER)")
        one.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        text = "\n".join(one.iterdump())
        with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as other:
            for _, statement in statements(text):
                other.execute(statement)
            assert other.execute("SELECT * FROM t").fetchall() == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE TABLE t (a);\n\n-- so\nINSERT INTO u\nVALUES (1);", r"app\.sql:4: no such table"),
        ("CREATE TABLE t (a);\nINSERT INTO t VALUES ('a", r"app\.sql:2: .*unrecognized token"),
        ("CREATE TABLE t (a); INSERT INTO t VALUES (1, 2);", r"app\.sql:1: table t has 1"),
        (".tables\nSELECT 1;", r"app\.sql:1: near"),
        ("BEGIN;\nCREATE TABLE t (a);", "the dump is cut off"),
        ("BEGIN;\nCREATE TABLE t (a);\nROLLBACK; -- due to errors", "makes no table"),
        ("ATTACH '/tmp/elsewhere' AS e;", r"app\.sql:1: not authorized"),
        ("CREATE TABLE t (a);\nVACUUM INTO '/tmp/elsewhere';", r"app\.sql:2: "),
        ("", "makes no table"),
    ],
)
def test_what_does_not_load_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        image(tmp_path, text)


def test_a_file_that_is_in_use_is_copied_as_it_is_committed(tmp_path: Path) -> None:
    path = tmp_path / "live.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as user:
        user.execute("PRAGMA journal_mode = WAL")
        user.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        user.execute("BEGIN")
        user.execute("INSERT INTO t VALUES (2)")
        _, rows = build_base(PackSource("db", "sqlite", files={"file": path}), tmp_path / "made")
    assert rows == 1
    for content, message in ((b"not a database", "not a database"), (b"", "empty")):
        path.with_name("live.sqlite-wal").unlink(missing_ok=True)
        path.write_bytes(content)
        with pytest.raises(SandboxError, match=message):
            build_base(PackSource("db", "sqlite", files={"file": path}), tmp_path / "other")
