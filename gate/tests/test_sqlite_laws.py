"""A law: what the hook before each change tells is what our reader finds after the commit."""

import sqlite3
import tempfile
from pathlib import Path

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
                system.begin()
                for each in statements:
                    try:
                        system.run(each)
                    except Refused:  # e.g. a key that is there: the statement alone is undone
                        continue
                prepared = system.prepare("x")
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
