"""A table that is made anew: other words for one meaning are no change, a lost rule is one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from statediff.model.readings import Capture
from statediff.model.verdict import Verdict
from statediff.systems.sqlite.source import SqliteSource
from tests import rebuilt
from tests.rebuilt import read, verdict

TABLE = (
    "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT 'x' COLLATE NOCASE,"
    " qty INT CHECK (qty > 0), price INT, p INT REFERENCES p(id) ON DELETE CASCADE,"
    " total INT AS (qty * price) STORED, UNIQUE (name, qty))"
)
INDEX = "CREATE INDEX i ON t(qty)"
VIEW = "CREATE VIEW v AS SELECT id, name FROM t WHERE qty > 1"
TRIGGER = "CREATE TRIGGER tr AFTER INSERT ON p BEGIN UPDATE t SET qty = 2 WHERE id = NEW.id; END"
OF_ONE_MEANING = (
    *rebuilt.OF_ONE_MEANING,
    ("CREATE TABLE t(", "create table t ("),
    ("CREATE TABLE t(", 'CREATE TABLE "t"('),
    ("qty > 0", "(qty > 0)"),
    ("qty > 0", "[qty] > 0"),
    (", price", ",\n  price"),
    ("price INT", "price INT -- money\n"),
    ("name TEXT", '"name" text'),
    ("REFERENCES p(id)", 'REFERENCES "p"("id")'),
    ("AS (qty * price) STORED", "GENERATED ALWAYS AS (qty * price) STORED"),
    ("qty * price", "(qty)*(price)"),
    ("UNIQUE (name, qty)", "unique(name,qty)"),
    ("DEFAULT 'x'", "DEFAULT ('x')"),
    ("ON t(qty)", "ON t (qty ASC)"),
    ("INDEX i ON t(qty)", 'INDEX if not exists "i" on "t"([qty])'),
    ("SELECT id, name FROM t WHERE qty > 1", "select id,name from t where qty>1"),
    ("SELECT id, name FROM t WHERE qty > 1", "SELECT id, name FROM t WHERE (qty > 1)"),
    ("VIEW v AS", 'VIEW IF NOT EXISTS "v" AS'),
    ("BEGIN UPDATE t SET qty = 2", "BEGIN\n update t set qty=2"),
)
LOST = (
    *rebuilt.LOST,
    (" CHECK (qty > 0)", ""),
    (" COLLATE NOCASE", ""),
    ("NOCASE", "RTRIM"),
    (" REFERENCES p(id) ON DELETE CASCADE", ""),
    (", UNIQUE (name, qty)", ""),
    ("UNIQUE (name, qty)", "UNIQUE (name)"),
    ("price INT", "price TEXT"),
    ("price INT, p INT REFERENCES p(id) ON DELETE CASCADE",
     "p INT REFERENCES p(id) ON DELETE CASCADE, price INT"),
    ("STORED", "VIRTUAL"),
    ("INTEGER PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT"),
    ("ON t(qty)", "ON t(price)"),
    ("qty = 2", "qty = 3"),
)  # fmt: skip


def made(path: Path, old: str, new: str, like: Capture | None) -> Capture:
    every = f"CREATE TABLE p(id INTEGER PRIMARY KEY); {TABLE}; {INDEX}; {VIEW}; {TRIGGER}"
    text = every.replace(old, new)
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{text}; INSERT INTO p VALUES (1)")
        connection.execute("INSERT INTO t(id, name, qty, price, p) VALUES (1, 'a', 2, 3, 1)")
        connection.commit()
    return read(SqliteSource("db", path), like)


@pytest.mark.parametrize("words", [*OF_ONE_MEANING, *LOST])
def test_a_lost_rule_is_seen_and_other_words_are_no_change(
    tmp_path: Path, words: tuple[str, str]
) -> None:
    before = made(tmp_path / "x.db", "", "", None)
    expected = Verdict.DIVERGE if words in LOST else Verdict.MATCH
    assert verdict(before, made(tmp_path / "x.db", *words, before)) is expected
