"""SQLite's own changes after a change are explained with it; harm that looks like it is not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from statediff.systems.sqlite.source import SqliteSource
from tests import caused

TABLES = """
CREATE TABLE item (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, qty INT, price INT,
  total INT AS (qty * price) STORED);
CREATE TABLE part (id INTEGER PRIMARY KEY, item INT REFERENCES item ON DELETE CASCADE
  ON UPDATE CASCADE);
CREATE TABLE note (id INTEGER PRIMARY KEY, item INT REFERENCES item ON DELETE SET NULL
  ON UPDATE CASCADE);
CREATE TABLE seen (item INTEGER PRIMARY KEY, at INT);
CREATE VIEW dear AS SELECT id, name, total FROM item WHERE total > 1;
CREATE TRIGGER priced INSTEAD OF UPDATE ON dear BEGIN
  UPDATE item SET qty = NEW.total WHERE id = NEW.id; END;
INSERT INTO item (name, qty, price) VALUES ('a', 1, 2), ('b', 3, 4), ('c', 5, 6);
INSERT INTO part VALUES (1, 1), (2, 2), (3, 3); INSERT INTO seen VALUES (1, 1);
INSERT INTO note VALUES (1, 1), (2, 2), (3, 3);
"""
RIGHT = (
    *caused.RIGHT,
    "INSERT OR IGNORE INTO item (name) VALUES ('c'); INSERT INTO item (name) VALUES ('d')",
    "UPDATE dear SET total = 7 WHERE id = 1",
    "DELETE FROM part WHERE id = 2; PRAGMA foreign_keys = OFF; DELETE FROM item WHERE id = 2",
)
WRONG = (
    *caused.WRONG,
    "UPDATE sqlite_sequence SET seq = 90",
    "UPDATE dear SET total = 7 WHERE id = 3",
    "PRAGMA foreign_keys = OFF; DELETE FROM item WHERE id = 2; UPDATE part SET item = 1",
)


@pytest.mark.parametrize("run", [*RIGHT, *WRONG])
def test_what_follows_from_a_change_is_explained_with_it_and_nothing_else(
    tmp_path: Path, run: str
) -> None:
    source = SqliteSource("db", tmp_path / "x.db")
    with closing(sqlite3.connect(source.path, isolation_level=None)) as connection:
        connection.executescript(TABLES)
        connection.execute("PRAGMA foreign_keys = ON")
        caused.check(source, run, connection.execute, is_right=run in RIGHT)
