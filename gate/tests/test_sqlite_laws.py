"""A law: what the hook before each change tells is what our reader finds after the commit."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statediff_gate.conformance import require_alike
from statediff_gate.participant import Refused
from statediff_gate.sqlite import SqliteGate

from gate.tests.test_adapters import now
from statediff.model.state import MemoryChunks
from statediff.systems.sqlite.source import SqliteSource

MADE = """
CREATE TABLE plain (id INTEGER PRIMARY KEY, v, w TEXT UNIQUE);
CREATE TABLE named (k TEXT PRIMARY KEY, v REAL) WITHOUT ROWID;
CREATE TABLE texts (k TEXT PRIMARY KEY COLLATE NOCASE, v NUMERIC);
CREATE TABLE child (id INTEGER PRIMARY KEY AUTOINCREMENT, plain REFERENCES plain (id)
  ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE loose (a, b);
CREATE TRIGGER t AFTER UPDATE ON plain BEGIN INSERT INTO loose VALUES (old.v, new.v); END;
CREATE TRIGGER u AFTER DELETE ON named BEGIN UPDATE plain SET v = old.k WHERE id = 1; END;
INSERT INTO plain VALUES (1, 'a', 'x'), (2, 2.5, 'y'), (3, NULL, NULL);
INSERT INTO named VALUES ('a', 1), ('b', 2);
INSERT INTO texts VALUES ('a', 1), ('B', '2');
INSERT INTO child (plain) VALUES (1), (2);
INSERT INTO loose VALUES (1, 1), (1, 1), ('1', 1.0);
"""
NUMBERS = st.sampled_from(["1", "2", "3", "4", "NULL"])
VALUES = st.sampled_from(["NULL", "0", "1", "1.0", "-0.0", "'1'", "'ü'", "X'00'", "1e300", "2.50"])
KEYS = st.sampled_from(["'a'", "'A'", "'b'", "'c'"])
STATEMENTS = st.one_of(
    st.builds("INSERT OR REPLACE INTO plain VALUES ({}, {}, {})".format, NUMBERS, VALUES, KEYS),
    st.builds("UPDATE plain SET v = {} WHERE id = {}".format, VALUES, NUMBERS),
    st.builds("UPDATE OR REPLACE plain SET id = {} WHERE id = {}".format, NUMBERS, NUMBERS),
    st.builds("DELETE FROM plain WHERE id = {}".format, NUMBERS),
    st.builds(
        "INSERT INTO named VALUES ({0}, {1}) ON CONFLICT DO UPDATE SET v = {1}".format, KEYS, VALUES
    ),
    st.builds("DELETE FROM named WHERE k = {}".format, KEYS),
    st.builds("REPLACE INTO texts VALUES ({}, {})".format, KEYS, VALUES),
    st.builds("UPDATE texts SET k = {} WHERE k = {}".format, KEYS, KEYS),
    st.builds("INSERT INTO loose VALUES ({}, {})".format, VALUES, VALUES),
    st.builds("DELETE FROM loose WHERE a IS {}".format, VALUES),
    st.builds("UPDATE loose SET b = {} WHERE a IS {}".format, VALUES, VALUES),
    st.builds("INSERT INTO child (plain) VALUES ({})".format, NUMBERS),
    st.just("DELETE FROM child"),
    st.just("DELETE FROM loose"),
    st.just("CREATE TEMP TABLE IF NOT EXISTS seen AS SELECT * FROM plain"),
    st.just("CREATE TEMP TABLE IF NOT EXISTS loose (id INTEGER PRIMARY KEY AUTOINCREMENT, a, b)"),
    st.just("CREATE VIRTUAL TABLE IF NOT EXISTS temp.words USING fts5 (v)"),
    st.sampled_from(["PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys = 'on'"]),
    st.sampled_from(["PRAGMA query_only = ON", "PRAGMA defer_foreign_keys = ON"]),
)


@settings(max_examples=40)
@given(st.lists(st.lists(STATEMENTS, min_size=1, max_size=5), min_size=1, max_size=4), st.data())
def test_what_is_prepared_is_what_is_there_after_the_commit(
    runs: list[list[str]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.sqlite"
        with sqlite3.connect(path) as made:
            made.executescript(MADE)
        made.close()
        system = SqliteGate("x", path)
        try:
            for statements in runs:
                if data.draw(st.booleans()):
                    system.begin_run()
                system.begin("x")
                for each in statements:
                    try:
                        system.run(each)
                    except Refused:  # e.g. a key that is there: the statement alone is undone
                        continue
                try:
                    prepared = system.prepare()
                except Refused:  # without foreign keys it pointed at what is not there
                    system.abort()
                    continue
                if data.draw(st.booleans()):
                    system.abort()
                    state = system.world("after").state
                else:
                    system.commit()
                    state = prepared.after.state
                read = SqliteSource("x", path).read(MemoryChunks(), now, state).state
                require_alike(state, read, str(statements))
        finally:
            system.close()


REBUILT = (
    "SELECT * FROM plain", "PRAGMA foreign_keys = OFF",
    "CREATE TEMP TABLE kept AS SELECT * FROM plain", "DROP TABLE plain",
    "CREATE TABLE plain (id INTEGER PRIMARY KEY, v, w TEXT UNIQUE, x)",
    "INSERT INTO plain SELECT *, 1 FROM kept",
)  # fmt: skip


def test_a_table_is_built_anew_without_foreign_keys_and_they_are_back_afterwards(
    tmp_path: Path,
) -> None:
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as made:
        made.executescript(MADE)
    with closing(SqliteGate("x", tmp_path / "x.sqlite")) as system:
        system.begin("x")
        for each in REBUILT:
            system.run(each)
        assert "child" not in system.prepare().changes
        system.commit()
        system.begin("x")
        system.run("DELETE FROM plain WHERE id = 1")
        assert len(system.prepare().changes["child"].gone) == 1
        system.abort()
        system.begin("x")
        system.run("PRAGMA foreign_keys = OFF")
        system.run("DELETE FROM plain WHERE id = 1")
        with pytest.raises(Refused, match="rows of child refer to rows of plain that are not"):
            system.prepare()
