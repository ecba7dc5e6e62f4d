"""A search index of FTS5 is judged by what it says, not by the segments in which it is kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from statediff.model.values import Map
from statediff.systems.sqlite.catalogue import read_catalogue
from statediff.systems.sqlite.searches import rows_said, search_index
from tests.judged_files import database, judged
from tests.systems.sqlite.sqlite_databases import needs_search

pytestmark = needs_search("fts5")

KEPT: Final = "forbid:\n  - {id: kept, delete: note}\n"
SEED: Final = (
    "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT)",
    """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 800)
    INSERT INTO note SELECT i, printf('note %d of %x', i, i * 7919 % 100003) FROM n""",
)
FOUND: Final = (
    "CREATE VIRTUAL TABLE found USING fts5(body, content='note', content_rowid='id'{})",
    "INSERT INTO found (rowid, body) SELECT id, body FROM note",
)
IN: Final = "INSERT INTO found (rowid, body) VALUES (9000, 'zebra')"
OUT: Final = "INSERT INTO found (found, rowid, body) VALUES ('delete', 9000, 'zebra')"
GONE: Final = (
    "INSERT INTO found (found, rowid, body) SELECT 'delete', id, body FROM note WHERE id = 7"
)
HARMLESS: Final = {
    "a row in and out": (IN, OUT),
    "many rows in and out": (IN, OUT) * 9,
    "a row out and in": (GONE, "INSERT INTO found (rowid, body) SELECT * FROM note WHERE id = 7"),
    "optimized": (IN, OUT, "INSERT INTO found (found) VALUES ('optimize')"),
    "made anew": ("INSERT INTO found (found) VALUES ('rebuild')",),
    "a page that no segment has": ("INSERT INTO found_data VALUES (99, x'00')",),
}
LAST: Final = "(SELECT max(pgno) FROM found_idx)"
HARMS: Final = {
    "a row is not found any more": (GONE,),
    "a row is found that is not there": (IN,),
    "a row is found by another word": (
        GONE, "INSERT INTO found (rowid, body) VALUES (7, 'note 7 of money')",
    ),
    "a term is on another page": (f"UPDATE found_idx SET pgno = pgno - 2 WHERE pgno = {LAST}",),
    "a page begins before its first term": (
        f"UPDATE found_idx SET term = substr(term, 1, length(term) - 1) WHERE pgno = {LAST}",
    ),
    "terms are texts": ("UPDATE found_idx SET term = CAST(term AS TEXT)",),
    "a term is a text that is none": (
        f"UPDATE found_idx SET term = CAST(term || x'ff' AS TEXT) WHERE pgno = {LAST}",
    ),
    "a page is not named": (f"DELETE FROM found_idx WHERE pgno = {LAST}",),
    "a byte of a page": (
        ("UPDATE found_data SET block = substr(block, 1, 90) || x'7f' || substr(block, 92) "
        f"WHERE id & 255 = {LAST} / 2"),
    ),
    "no segment": ("DELETE FROM found_data WHERE id > 10",),
    "other counts": ("UPDATE found_data SET block = x'0101' WHERE id = 1",),
    "ranked otherwise": ("INSERT INTO found (found, rank) VALUES ('rank', 'bm25(9.0)')",),
    "another version": ("UPDATE found_config SET v = 5 WHERE k = 'version'",),
}  # fmt: skip


def verdict(folder: Path, seed: tuple[str, ...], run: tuple[str, ...]) -> str:
    one, two = database(folder / "a.db", *seed), database(folder / "b.db", *seed, *run)
    return judged(folder, KEPT, one, two).verdict.value


@pytest.mark.parametrize("detail", ["", ", detail=column", ", detail='none'"])
def test_what_leaves_the_index_saying_the_same_is_no_change(detail: str, tmp_path: Path) -> None:
    seed = (*SEED, FOUND[0].format(detail), FOUND[1])
    for name, run in HARMLESS.items():
        assert verdict(tmp_path, seed, run) == "MATCH", name
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        (pages,) = connection.execute("SELECT count(*) FROM found_idx").fetchone()
    assert pages > 2


@pytest.mark.parametrize("harm", HARMS)
def test_what_a_search_finds_otherwise_is_a_change(harm: str, tmp_path: Path) -> None:
    assert verdict(tmp_path, (*SEED, FOUND[0].format(""), FOUND[1]), HARMS[harm]) == "DIVERGE"


@pytest.mark.parametrize("option", [", prefix='2'", ", pre='2'", ", tokenize='porter', new=1"])
def test_an_index_that_holds_more_than_its_terms_is_shown_as_it_is_stored(
    option: str, tmp_path: Path
) -> None:
    try:
        seen = verdict(tmp_path, (*SEED, FOUND[0].format(option), FOUND[1]), (IN, OUT))
    except sqlite3.OperationalError:
        pytest.skip("this SQLite knows no such option")
    assert seen == "DIVERGE"


def test_what_is_shown_for_an_index_cannot_be_stored(tmp_path: Path) -> None:
    seed = (*SEED, FOUND[0].format(""), FOUND[1])
    with closing(sqlite3.connect(database(tmp_path / "a.db", *seed))) as connection:
        catalogue = read_catalogue(connection)
        index = search_index(catalogue, "found_data")
        assert index is not None
        shown = rows_said(index, connection, catalogue)
    assert shown is not None
    block = shown["found_data"][1]["block"]
    assert isinstance(block, Map)
    [(name, digest)] = block.items
    assert isinstance(digest, str)
    emptied = ("DELETE FROM found_data WHERE id > 10", "DELETE FROM found_idx")
    for forged in (f"x'{digest}'", f"'{digest}'", f"""'{{"{name}":"{digest}"}}'"""):
        run = (*emptied, f"UPDATE found_data SET block = {forged} WHERE id = 10")
        assert verdict(tmp_path, seed, run) == "DIVERGE"


def test_an_index_within_the_database_is_read_so_too(tmp_path: Path) -> None:
    seed = (
        *SEED,
        'CREATE VIRTUAL TABLE "odd (name" USING fts5("a,b", [c] UNINDEXED, tokenize = "porter")',
        'INSERT INTO "odd (name" SELECT body, id FROM note',
    )
    changed = ('UPDATE "odd (name" SET c = c',)
    assert verdict(tmp_path, seed, changed) == "MATCH"
    assert verdict(tmp_path, seed, ('DELETE FROM "odd (name" WHERE rowid = 3',)) == "DIVERGE"
