"""The default boundary of every SQLite database: what is outside, and what is not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from statediff import api
from tests.judged_files import database, judged, sentences

SEED = (
    "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT)",
    "CREATE INDEX by_body ON note (body)",
    """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
    INSERT INTO note SELECT i, 'note ' || (i % 7) FROM n""",
)
FTS = (
    "CREATE VIRTUAL TABLE found USING fts5(body, content='note', content_rowid='id')",
    "INSERT INTO found (rowid, body) SELECT id, body FROM note",
)
KEPT = "forbid:\n  - {id: kept, delete: note}\n"


def verdict(folder: Path, seed: tuple[str, ...], *run: str, body: str = KEPT) -> str:
    one = database(folder / "a.db", *seed)
    two = database(folder / "b.db", *seed, *run)
    done = judged(folder, body, one, two)
    assert api.replay(done) is done.verdict
    return done.verdict.value


@pytest.mark.parametrize(
    "run",
    [
        ("ANALYZE",),
        ("SELECT * FROM note WHERE body = 'note 3'", "PRAGMA optimize"),
        ("ANALYZE note", "ANALYZE"),
    ],
)
def test_statistics_are_outside(run: tuple[str, ...], tmp_path: Path) -> None:
    assert verdict(tmp_path, SEED, *run) == "MATCH"
    with closing(sqlite3.connect(tmp_path / "b.db")) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_stat1").fetchone() == (1,)
    assert verdict(tmp_path, (*SEED, "ANALYZE"), "DROP TABLE sqlite_stat1") == "MATCH"


@pytest.mark.parametrize(
    "run",
    [
        ("ANALYZE", "CREATE TABLE more (n)"),
        ("ANALYZE", "DELETE FROM note WHERE id = 1"),
        ("PRAGMA user_version = 7",),
    ],
)
def test_all_else_stays_inside(run: tuple[str, ...], tmp_path: Path) -> None:
    assert verdict(tmp_path, SEED, *run) == "DIVERGE"


def test_a_table_of_statistics_that_sqlite_did_not_make_is_a_table(tmp_path: Path) -> None:
    one = database(tmp_path / "a.db", *SEED)
    two = database(tmp_path / "b.db", *SEED, "ANALYZE")
    with closing(sqlite3.connect(two)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema SET sql = 'CREATE TABLE sqlite_stat1(tbl,idx,stat,x)' "
            "WHERE name = 'sqlite_stat1'"
        )
        connection.commit()
    done = judged(tmp_path, KEPT, one, two)
    assert done.verdict.value == "DIVERGE"
    assert any("db.table sqlite_stat1" in sentence for sentence in sentences(done))


def test_opening_a_file_in_wal_mode_is_outside(tmp_path: Path) -> None:
    assert verdict(tmp_path, SEED, "PRAGMA journal_mode = WAL") == "MATCH"


@pytest.mark.parametrize("module", ["fts5(body)", "fts4(body)", "rtree(id, low, high)"])
def test_an_index_table_that_nobody_touched_is_no_question(module: str, tmp_path: Path) -> None:
    seed = (*SEED, f"CREATE VIRTUAL TABLE found USING {module}")
    assert verdict(tmp_path, seed) == "MATCH"
    if "body" in module:
        seed = (*seed, "INSERT INTO found (rowid, body) SELECT id, body FROM note")
        assert verdict(tmp_path, seed) == "MATCH"
        assert verdict(tmp_path, seed, "DELETE FROM found WHERE rowid = 3") == "DIVERGE"
        assert verdict(tmp_path, seed, "DROP TABLE found") == "DIVERGE"


def test_an_index_over_another_table_that_nobody_touched(tmp_path: Path) -> None:
    assert verdict(tmp_path, (*SEED, *FTS)) == "MATCH"
    emptied = "INSERT INTO found (found) VALUES ('delete-all')"
    assert verdict(tmp_path, (*SEED, *FTS), emptied) == "DIVERGE"


PAIR = (
    "CREATE TABLE pair (k TEXT PRIMARY KEY, body TEXT)",
    "INSERT INTO pair VALUES ('a', 'x'), ('b', 'y')",
)
EXCHANGED = tuple(
    f"UPDATE pair SET _rowid_ = {to} WHERE _rowid_ = {at}" for at, to in ((1, 9), (2, 1), (9, 2))
)
ROW_IDS = {
    "search over its content": ("CREATE VIRTUAL TABLE found USING fts5(body, content='pair')",),
    "search over its content, of old": (
        'CREATE VIRTUAL TABLE found USING fts4(content="pair", body)',
    ),
    "a view": ("CREATE VIEW numbered AS SELECT RowId AS number, body FROM Pair",),
    "a trigger": (
        "CREATE VIRTUAL TABLE found USING fts5(body, content='')",
        """CREATE TRIGGER kept AFTER INSERT ON pair BEGIN
            INSERT INTO found (rowid, body) VALUES (new.rowid, new.body); END""",
    ),
}


@pytest.mark.parametrize("found_by", ROW_IDS)
def test_row_ids_by_which_something_else_finds_rows_are_state(
    found_by: str, tmp_path: Path
) -> None:
    seed, body = (*PAIR, *ROW_IDS[found_by]), KEPT.replace("note", "pair")
    assert verdict(tmp_path, seed, *EXCHANGED, body=body) == "DIVERGE"
    assert verdict(tmp_path, seed, body=body) == "MATCH"
    assert verdict(tmp_path, seed, "VACUUM", body=body) == "MATCH"
    assert verdict(tmp_path, PAIR, *EXCHANGED, body=body) == "MATCH", "nobody has them"


def test_a_run_that_makes_such_an_index_changes_no_row(tmp_path: Path) -> None:
    body = KEPT.replace("note", "pair") + "allow:\n  - {id: made, create: [db.table, db.view]}\n"
    assert verdict(tmp_path, PAIR, *ROW_IDS["a view"], body=body) == "MATCH"


ROOMS = (
    "CREATE VIRTUAL TABLE rooms USING rtree_i32(id, a, b, c, d, +name TEXT)",
    "INSERT INTO rooms VALUES (1, 0, 1, 0, 1, 'x'), (2, 5, 6, 5, 6, 'y')",
)


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (
            ("INSERT INTO rooms VALUES (3, 8, 9, 8, 9, 'z')", "DELETE FROM rooms WHERE id = 3"),
            "MATCH",
        ),
        (("UPDATE rooms SET b = 2 WHERE id = 1",), "DIVERGE"),
        (("UPDATE rooms SET name = 'z' WHERE id = 1",), "DIVERGE"),
        (
            ("UPDATE rooms_node SET data = substr(data, 1, 3) || x'01' || substr(data, 5)",),
            "DIVERGE",
        ),
    ],
)
def test_what_is_left_behind_the_last_cell_of_an_r_tree_is_no_state(
    run: tuple[str, ...], found: str, tmp_path: Path
) -> None:
    assert verdict(tmp_path, (*SEED, *ROOMS), *run) == found


def test_what_a_comment_says_of_r_trees_is_nothing_and_costs_nothing(tmp_path: Path) -> None:
    said = "/* " + "USING rtree( " * 70_000 + "*/"
    seed = (
        *SEED,
        f"CREATE VIRTUAL TABLE rooms {said} USING fts4",
        "CREATE TABLE rooms_node (nodeno INTEGER PRIMARY KEY, data BLOB)",
        "INSERT INTO rooms_node VALUES (1, x'0000000001020304')",
    )
    hidden = "UPDATE rooms_node SET data = x'0000000009090909'"
    assert verdict(tmp_path, seed) == "MATCH"
    assert verdict(tmp_path, seed, hidden) == "DIVERGE"


def test_a_table_in_its_place_is_seen(tmp_path: Path) -> None:
    run = ("DROP TABLE found", "CREATE TABLE found (body)", "INSERT INTO found VALUES ('x')")
    assert verdict(tmp_path, (*SEED, *FTS), *run) == "DIVERGE"


def test_the_bundle_says_what_was_outside(tmp_path: Path) -> None:
    one = database(tmp_path / "a.db", *SEED)
    two = database(tmp_path / "b.db", *SEED, "ANALYZE", "PRAGMA journal_mode = WAL")
    done = judged(tmp_path, KEPT, one, two)
    types = done.bundle.document("schema.json")["types"]
    outside = {t["name"]: t["outside"] for t in types if "outside" in t}
    assert set(outside) == {"db.statistics", "db.statistics_sample", "db.storage"}
    shown = str(done.document)
    assert "default: db.statistics (it changes plans" in shown
    assert "default: db.storage" in shown


NAMED = (
    *SEED,
    "CREATE TABLE word (id INTEGER PRIMARY KEY, note INTEGER REFERENCES note (id), text)",
    "CREATE INDEX short ON note (body) WHERE note.body < 'n'",
    "CREATE VIEW bodies AS SELECT note.body FROM note JOIN word ON word.note = note.id",
    """CREATE TRIGGER words AFTER INSERT ON note BEGIN
    INSERT INTO word (note) SELECT note.id FROM note; UPDATE note SET body = 'x' WHERE 0; END""",
)
BACK = ("ALTER TABLE note RENAME TO other", "ALTER TABLE other RENAME TO note")


def test_a_table_renamed_and_renamed_back_is_no_change(tmp_path: Path) -> None:
    assert verdict(tmp_path, NAMED, *BACK) == "MATCH"
    with closing(sqlite3.connect(tmp_path / "b.db")) as connection:
        texts = [text for (text,) in connection.execute("SELECT sql FROM sqlite_schema")]
    assert sum('"note"' in text for text in texts) == 6, "its own definition and five others"
    assert verdict(tmp_path, NAMED, *BACK, "UPDATE note SET body = '' WHERE id = 3") == "DIVERGE"
    assert verdict(tmp_path, NAMED, BACK[0]) == "DIVERGE"


@pytest.mark.parametrize(
    "view",
    [
        'CREATE VIEW v AS SELECT id FROM note WHERE body = "x"',
        'CREATE VIEW v AS SELECT body IS DISTINCT FROM "x" FROM note',
        'CREATE VIEW v AS SELECT n.id FROM note n JOIN note m ON "x" = n.body',
        'CREATE VIEW v AS SELECT "x" FROM note',
    ],
)
def test_quotes_that_may_make_a_text_of_a_name_are_a_change(view: str, tmp_path: Path) -> None:
    """Without its quotes a text is the name of a column: here of one that there is not."""
    before = database(tmp_path / "a.db", *SEED, view.replace('"', ""))
    after = database(tmp_path / "b.db", *SEED, view)
    assert judged(tmp_path, KEPT, before, after).verdict.value == "DIVERGE"
    assert judged(tmp_path, KEPT, after, before).verdict.value == "DIVERGE"
