"""Search indexes of FTS3 and FTS4 are judged by what they say, as those of FTS5 are."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from statediff.model.batches import Row
from statediff.model.values import Map
from statediff.systems.sqlite.catalogue import read_catalogue
from statediff.systems.sqlite.searches import MAX_INDEX_BYTES, rows_said, search_index
from tests.judged_files import database, judged, sentences
from tests.systems.sqlite.sqlite_databases import needs_search

pytestmark = needs_search("fts4")

KEPT: Final = "forbid:\n  - {id: kept, delete: note}\n"
SERIES: Final = "WITH RECURSIVE n(i) AS (SELECT {} UNION ALL SELECT i + 1 FROM n WHERE i < {})"
MADE: Final = """
INSERT INTO {} (docid, body) SELECT i, printf('note %d of %x', i, i * 7919 % 100003) FROM n"""
NOTES: Final = (
    "PRAGMA page_size = 512",
    "CREATE TABLE note (docid INTEGER PRIMARY KEY, body TEXT)",
    f"{SERIES.format(1, 300)} {MADE.format('note')}",
)
PARTS: Final = ((1, 240), (241, 280), (281, 300))
"""Rows that come together are a segment; the first has nodes above its leaves."""
DEFINITIONS: Final = {
    "fts3": "fts3(body)",
    "fts4": "fts4(body)",
    "with prefixes": 'fts4(body, prefix="1,3", tokenize=porter)',
    "downwards": "fts4(body, order=DESC)",
    "external": 'fts4(content="note", body)',
    "external with prefixes": "fts4(content='note', body, prefix='2', matchinfo='fts3')",
    "contentless": 'fts4(content="", body)',
}


def seed(definition: str) -> tuple[str, ...]:
    parts = (f"{SERIES.format(*part)} {MADE.format('found')}" for part in PARTS)
    # The first merge of FTS3 makes a table.
    merged = "INSERT INTO found (found) VALUES ('merge=1,16')"
    return (*NOTES, f"CREATE VIRTUAL TABLE found USING {definition}", merged, *parts)


IN: Final = "INSERT INTO found (docid, body) VALUES (9000, 'zebra and others')"
OUT: Final = "DELETE FROM found WHERE docid = 9000"
NOTED: Final = "INSERT INTO note VALUES (9000, 'zebra and others')"
UNNOTED: Final = "DELETE FROM note WHERE docid = 9000"
OUT_7: Final = "DELETE FROM found WHERE docid = 7"
ANOTHER_7: Final = "UPDATE note SET body = 'zebra' WHERE docid = 7"
AS_BEFORE_7: Final = "UPDATE note SET body = printf('note 7 of %x', 7 * 7919) WHERE docid = 7"
IN_7: Final = "INSERT INTO found (docid, body) SELECT * FROM note WHERE docid = 7"
HARMLESS: Final = {
    "a row in and out": (NOTED, IN, OUT, UNNOTED),
    "many rows in and out": (NOTED, *(IN, OUT) * 20, UNNOTED),
    "a row out and in": (OUT_7, IN_7),
    "a row is another and as before": (
        OUT_7, ANOTHER_7, IN_7, OUT_7, AS_BEFORE_7, IN_7,
    ),
    "an update there and back": (
        "UPDATE found SET body = 'zebra' WHERE docid = 7",
        "UPDATE found SET body = (SELECT body FROM note WHERE docid = 7) WHERE docid = 7",
    ),
    "made anew": ("INSERT INTO found (found) VALUES ('rebuild')",),
    "optimized": ("INSERT INTO found (found) VALUES ('optimize')",),
    "merged": ("INSERT INTO found (found) VALUES ('merge=500,2')",),
    "merged in part": ("INSERT INTO found (found) VALUES ('merge=1,2')",),
    "merged in parts": ("INSERT INTO found (found) VALUES ('merge=2,2')",) * 3,
}  # fmt: skip
ONLY_INDEX: Final = ("optimized", "merged", "merged in part", "merged in parts")
"""What a table without content can do."""


def segdir(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT * FROM found_segdir ORDER BY level, idx").fetchall()


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_what_leaves_the_index_saying_the_same_is_no_change(kind: str, tmp_path: Path) -> None:
    before = database(tmp_path / "a.db", *seed(DEFINITIONS[kind]))
    for name, run in HARMLESS.items():
        if kind == "contentless" and name not in ONLY_INDEX:
            continue
        if kind.startswith("external") and name == "an update there and back":
            continue  # what an update takes out is what the other table says then
        after = database(tmp_path / "b.db", *seed(DEFINITIONS[kind]), *run)
        assert segdir(before) != segdir(after), name
        assert judged(tmp_path, KEPT, before, after).verdict.value == "MATCH", name


def test_a_row_in_and_out_of_an_empty_index_is_no_change(tmp_path: Path) -> None:
    empty = (*NOTES, "CREATE VIRTUAL TABLE found USING fts4(body)")
    one, two = database(tmp_path / "a.db", *empty), database(tmp_path / "b.db", *empty, IN, OUT)
    assert judged(tmp_path, KEPT, one, two).verdict.value == "MATCH"


# How an index is written


def number(value: int) -> bytes:
    value %= 2**64
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def rows(*of: tuple[int, bytes]) -> bytes:
    """A list of (row id, bytes of its places), in the order given."""
    written, former = b"", 0
    for row, places in of:
        written += number(row - former) + places + b"\0"
        former = row
    return written


def leaf(*terms: tuple[bytes, bytes]) -> bytes:
    """A node of (term, list of rows), in the order given."""
    node = b"\0"
    for at, (term, of) in enumerate(terms):
        node += (b"\0" if at else b"") + number(len(term)) + term + number(len(of)) + of
    return node


FIRST, SECOND, THIRD = number(2), number(3), number(4)
"""The places of a row, as a list of one."""
GONE: Final = b""
HARMS: Final = {
    "a row is not found any more": [(b"7", rows((7, GONE)))],
    "a place is another": [(b"7", rows((7, FIRST)))],
    "another place more": [(b"7", rows((7, SECOND + FIRST)))],
    "a place in another column": [(b"7", rows((7, b"\1\1" + SECOND)))],
    "a term has another name": [(b"7", rows((7, GONE))), (b"money", rows((7, SECOND)))],
    "rows are exchanged": [
        (b"7", rows((7, GONE), (8, SECOND))),
        (b"8", rows((7, SECOND), (8, GONE))),
    ],
    "a row is found that is not there": [(b"money", rows((-5, FIRST)))],
}


@cache
def image(of: str) -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for statement in seed(of):
            db.execute(statement)
        return db.serialize()


def changed(
    run: Callable[[sqlite3.Connection], object] | Iterable[str], of: str, folder: Path
) -> tuple[str, str]:
    """The verdict, and what it says, where a run does this to the index."""
    before, after = folder / "a.db", folder / "b.db"
    before.write_bytes(image(of))
    after.write_bytes(image(of))
    with closing(sqlite3.connect(after, isolation_level=None)) as db:
        if callable(run):
            run(db)
        else:
            for statement in run:
                assert db.execute(statement).rowcount != 0, statement
    done = judged(folder, KEPT, before, after)
    return done.verdict.value, " ".join(sentences(done))


def put(db: sqlite3.Connection, level: int, at: int, root: bytes) -> None:
    """There is a segment more, which is one leaf."""
    db.execute("INSERT INTO found_segdir VALUES (?, ?, 0, 0, 0, ?)", (level, at, root))


@pytest.mark.parametrize("of", ["fts3(body)", "fts4(body)", 'fts4(content="note", body)'])
@pytest.mark.parametrize("harm", HARMS)
def test_what_a_search_finds_otherwise_is_a_change(harm: str, of: str, tmp_path: Path) -> None:
    verdict, told = changed(lambda db: put(db, 0, 5, leaf(*HARMS[harm])), of, tmp_path)
    assert verdict == "DIVERGE"
    assert "found_segdir" in told
    assert "found_segments" not in told  # it says another thing, and says it soundly


def test_what_a_prefix_finds_otherwise_is_a_change(tmp_path: Path) -> None:
    of = DEFINITIONS["with prefixes"]
    segment = leaf((b"n", rows((7, GONE))))
    assert changed(lambda db: put(db, 1024, 5, segment), of, tmp_path)[0] == "DIVERGE"
    # No row has the prefix as a term.
    assert changed(lambda db: put(db, 0, 5, segment), of, tmp_path)[0] == "MATCH"


def root(text: str) -> str:
    return f"UPDATE found_segdir SET root = {text} WHERE start_block > 0"


def block(text: str) -> str:
    return f"UPDATE found_segments SET block = {text} WHERE blockid = 3"


OPTIMIZED: Final = HARMLESS["optimized"][0]
LAST: Final = "SELECT leaves_end_block FROM found_segdir"
UNREAD: Final = leaf((b"zoo", rows((1, FIRST)))).hex()
HOSTILE: Final[Mapping[str, tuple[str, ...]]] = {
    # The node above the leaves is 01 01 01 '1', 02 '25' after one shared byte, and so on.
    "a search is led too far": (root("substr(root, 1, 3) || x'32' || substr(root, 5)"),),
    "a search is led to another leaf": (root("x'0102' || substr(root, 3)"),),
    "a search is led nowhere": (root("x'017f' || substr(root, 3)"),),
    "a search is led to a leaf that no scan reads": (
        OPTIMIZED,
        f"INSERT INTO found_segments SELECT ({LAST}) + 1, x'{UNREAD}'",
        root("root || x'00017a'"),
    ),
    "the same, within the segment": (
        OPTIMIZED,
        f"INSERT INTO found_segments SELECT ({LAST}) + 1, x'{UNREAD}'",
        root("root || x'00017a'"),
        "UPDATE found_segdir SET end_block = end_block + 1 WHERE start_block > 0",
    ),
    "no search is led to a leaf": (root("substr(root, 1, length(root) - 3)"),),
    "a node is too high": (root("x'02' || substr(root, 2)"),),
    "leaves are exchanged": (
        "CREATE TABLE kept AS SELECT * FROM found_segments WHERE blockid IN (3, 4)",
        """UPDATE found_segments SET block = (SELECT block FROM kept WHERE kept.blockid = 7 -
        found_segments.blockid) WHERE blockid IN (3, 4)""",
        "DROP TABLE kept",
    ),
    "a leaf is cut off": (block("substr(block, 1, length(block) - 1)"),),
    "a leaf is longer": (block("block || x'00'"),),
    "a leaf is empty": (block("x''"),),
    "a leaf is nothing": (block("NULL"),),
    "a leaf is a text": (block("'a text'"),),
    "a leaf is gone": ("DELETE FROM found_segments WHERE blockid = 3",),
    "a leaf that no segment has": ("INSERT INTO found_segments VALUES (999, x'00')",),
    "a block far off": ("INSERT INTO found_segments VALUES (9223372036854775807, NULL)",),
    "the end is far off": ("UPDATE found_segdir SET end_block = '99999 5' WHERE start_block > 0",),
    "the end is no number": ("UPDATE found_segdir SET end_block = 'x' WHERE start_block > 0",),
    "the first leaf is left out": (
        "UPDATE found_segdir SET start_block = start_block + 1 WHERE start_block > 0",
    ),
    "the last leaf is left out": (
        "UPDATE found_segdir SET leaves_end_block = leaves_end_block - 1 WHERE start_block > 0",
    ),
    "a segment is twice": (
        """INSERT INTO found_segdir SELECT level, idx + 7, start_block, leaves_end_block, end_block,
        root FROM found_segdir WHERE start_block > 0""",
    ),
    "a segment is not listed": ("DELETE FROM found_segdir WHERE idx = 1",),
    "a root is nothing": ("UPDATE found_segdir SET root = NULL WHERE idx = 1",),
    "a root is a text": ("UPDATE found_segdir SET root = 'a' WHERE idx = 1",),
    "a segment has no level": ("UPDATE found_segdir SET level = NULL WHERE idx = 1",),
    "a segment is of another language": ("UPDATE found_segdir SET level = 1024 WHERE idx = 1",),
    "a segment comes after all others": ("UPDATE found_segdir SET idx = 2147483647 WHERE idx = 1",),
    "a segment is where no merge comes": ("UPDATE found_segdir SET level = 1023 WHERE idx = 1",),
}  # fmt: skip


@pytest.mark.parametrize("harm", HOSTILE)
def test_what_leads_searches_astray_is_a_change(harm: str, tmp_path: Path) -> None:
    verdict, told = changed(HOSTILE[harm], "fts4(body)", tmp_path)
    assert verdict == "DIVERGE"
    assert "found_segdir" in told


BIG: Final = b"\x80" * 9 + b"\x7f"
ODD: Final = {
    "terms out of order": leaf((b"zoo", rows((1, FIRST))), (b"money", rows((1, FIRST)))),
    "a term twice": leaf((b"zoo", rows((1, FIRST))), (b"zoo", rows((2, FIRST)))),
    "a term that is empty": leaf((b"", rows((1, FIRST)))),
    "a term that is cut off": b"\0" + number(200) + b"zoo",
    "a term longer than any": b"\0" + BIG + b"zoo",
    "more shared than there is": leaf((b"a", rows((1, FIRST)))) + b"\5\1b\3" + rows((1, FIRST)),
    "a list that is empty": leaf((b"zoo", b"")),
    "a list that is cut off": b"\0\x03zoo\x7f" + rows((1, FIRST)),
    "a list without an end": leaf((b"zoo", rows((1, FIRST))[:-1])),
    "nothing but zeros": leaf((b"zoo", b"\0\0\0")),
    "a number that is too large": leaf((b"7", BIG + FIRST + b"\0" + b"\1\0")),
    "a number without an end": leaf((b"zoo", b"\x81" * 12)),
    "a number that is written longer": leaf((b"zoo", b"\x81\0" + FIRST + b"\0")),
    "rows beyond the last": leaf((b"7", rows((2**63 - 1, GONE)) + number(9) + FIRST + b"\0")),
    "no place in a column": leaf((b"zoo", rows((1, b"\1\1")))),
    "a row twice": leaf((b"7", rows((7, GONE)) + b"\0" + FIRST + b"\0")),
    "no leaf": b"\1\1",
    "nothing": b"",
    "no term": b"\0",
}  # fmt: skip


@pytest.mark.parametrize("harm", ODD)
def test_a_segment_that_is_not_as_sqlite_writes_it_is_a_change(harm: str, tmp_path: Path) -> None:
    verdict, told = changed(lambda db: put(db, 0, 5, ODD[harm]), "fts4(body)", tmp_path)
    assert verdict == "DIVERGE"
    assert "found_segdir" in told


def test_the_order_of_segments_is_a_change_where_one_hides_another(tmp_path: Path) -> None:
    of, hiding = "fts4(body)", leaf((b"7", rows((7, GONE))))
    assert changed(["UPDATE found_segdir SET idx = 9 - idx"], of, tmp_path)[0] == "MATCH"
    # The oldest is hidden by all others, the newest hides them.
    assert changed(lambda db: put(db, 63, 0, hiding), of, tmp_path)[0] == "MATCH"
    before, after = tmp_path / "a.db", tmp_path / "b.db"
    with closing(sqlite3.connect(before, isolation_level=None)) as db:
        put(db, 0, 5, hiding)
    assert judged(tmp_path, KEPT, before, after).verdict.value == "DIVERGE"


def test_what_is_to_be_merged_next_is_no_state_unless_it_breaks_merging(tmp_path: Path) -> None:
    stored = {
        "x''": "MATCH",
        "x'0003'": "MATCH",
        "x'800800'": "DIVERGE",
        "x'00'": "DIVERGE",
        "x'8003'": "DIVERGE",
        "x'ffffffffffffffff0103'": "DIVERGE",
        "'a'": "DIVERGE",
    }
    for value, verdict in stored.items():
        statement = f"INSERT OR REPLACE INTO found_stat VALUES (1, {value})"
        assert changed([statement], "fts4(body)", tmp_path)[0] == verdict, value
    for value in ("0, x'0102'", "2, 8"):  # other counts, and merging by itself
        statement = f"INSERT OR REPLACE INTO found_stat VALUES ({value})"
        assert changed([statement], "fts4(body)", tmp_path)[0] == "DIVERGE", value


def said(db: sqlite3.Connection, name: str = "found") -> dict[str, list[Row]] | None:
    catalogue = read_catalogue(db)
    index = search_index(catalogue, f"{name}_segdir")
    assert index is not None
    return rows_said(index, db, catalogue)


def test_what_is_shown_for_an_index_cannot_be_stored(tmp_path: Path) -> None:
    def forge(db: sqlite3.Connection) -> None:
        shown = said(db)
        assert shown is not None
        root = shown["found_segdir"][0]["root"]
        assert isinstance(root, Map)
        [(name, digest)] = root.items
        text = json.dumps({name: digest})
        for forged in (bytes.fromhex(str(digest)), text, text.encode()):
            db.execute("DELETE FROM found_segdir")
            db.execute("DELETE FROM found_segments")
            db.execute("INSERT INTO found_segdir VALUES (0, 0, NULL, NULL, NULL, ?)", (forged,))
            assert said(db) is None

    assert changed(forge, "fts4(body)", tmp_path)[0] == "DIVERGE"


@pytest.mark.parametrize("definition", ["fts3(body, order=desc)", "fts4(body /* of a note */)"])
def test_an_index_that_is_defined_otherwise_is_shown_as_it_is_stored(
    definition: str, tmp_path: Path
) -> None:
    row = "INSERT INTO found (body) VALUES ('one')"
    stated = (*NOTES, f"CREATE VIRTUAL TABLE found USING {definition}", row, row)
    before = database(tmp_path / "a.db", *stated)
    after = database(tmp_path / "b.db", *stated, OPTIMIZED)
    assert judged(tmp_path, KEPT, before, after).verdict.value == "DIVERGE"


def test_nodes_above_nodes_are_read_as_well_and_while_they_are_merged() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for statement in seed("fts4(body)"):
            db.execute(statement)
        for part in ((301, 3000), (3001, 5000)):
            db.execute(f"{SERIES.format(*part)} {MADE.format('found')}")
        whole = said(db)
        assert whole is not None
        heights = set()
        for _ in range(8):
            db.execute("INSERT INTO found (found) VALUES ('merge=20,2')")
            heights |= {root[0] for (root,) in db.execute("SELECT root FROM found_segdir")}
            assert said(db) == whole
        assert heights >= {1, 2}
        db.execute(OPTIMIZED)
        assert said(db) == whole
        above = "blockid > (SELECT leaves_end_block FROM found_segdir)"
        nodes = db.execute(f"SELECT * FROM found_segments WHERE {above}").fetchall()
        assert len(nodes) > 1
        for at, node in nodes:
            for other in (nodes[at == nodes[0][0]][1], node[:-1], node[:9] + b"~" + node[10:]):
                db.execute("UPDATE found_segments SET block = ? WHERE blockid = ?", (other, at))
                assert said(db) is None
            db.execute("UPDATE found_segments SET block = ? WHERE blockid = ?", (node, at))
        assert said(db) == whole


def test_a_large_index_is_shown_as_it_is_stored() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute("CREATE VIRTUAL TABLE found USING fts4")
        db.execute("INSERT INTO found VALUES ('one')")
        assert said(db) is not None
        words = " ".join(f"w{at:09}" for at in range(MAX_INDEX_BYTES // 8))
        db.execute("INSERT INTO found VALUES (?)", (words,))
        assert said(db) is None


def test_terms_that_unfold_to_gigabytes_are_not_unfolded() -> None:
    begin, place = b"a" * 400_000, rows((1, FIRST))
    node = leaf((begin, place)) + b"".join(
        number(len(begin) + at) + b"\1b" + number(len(place)) + place for at in range(60_000)
    )
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute("CREATE VIRTUAL TABLE found USING fts4")
        put(db, 0, 0, node)
        assert said(db) is None


# Laws

WORDS: Final = ("alpha", "al", "alp", "beta", "be", "b", "x" * 40, *(f"w{at}" for at in range(400)))
OPTIONS: Final = (
    "", ', prefix="1"', ", prefix='2,4'", ", order=DESC", ", matchinfo=fts3", ", tokenize=porter",
    ', order="desc", prefix="3"', ", notindexed=b", ', languageid="language"',
)  # fmt: skip


def text(draw: random.Random) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(draw.choice((1, 3, 10, 60))))


def work(db: sqlite3.Connection, draw: random.Random, count: int) -> None:
    ids = (lambda: draw.randrange(-5, 60), lambda: draw.randrange(-(2**63), 2**63))
    found = "(SELECT docid FROM found LIMIT 1 OFFSET :n)"
    for _ in range(count):
        statement = draw.choice((
            *("INSERT INTO found (docid, a, b) VALUES (:id, :a, :b)",) * 12,
            f"DELETE FROM found WHERE docid = {found}",
            "DELETE FROM found WHERE docid % 7 = :n % 7",
            f"UPDATE found SET a = :a WHERE docid = {found}",
            "INSERT INTO found (found) VALUES ('optimize')",
            "INSERT INTO found (found) VALUES ('merge=' || :n || ',2')",
            "INSERT INTO found (found) VALUES ('merge=1,' || (2 + :n % 6))",
            "INSERT INTO found (found) VALUES ('automerge=' || (:n % 9))",
            "INSERT INTO found (found) VALUES ('rebuild')",
            "BEGIN", "COMMIT",
        ))  # fmt: skip
        values = {"id": draw.choice(ids)(), "n": draw.randrange(20), "a": text(draw)}
        with suppress(sqlite3.Error):  # a row is there already
            db.execute(statement, values | {"b": text(draw)})
    if db.in_transaction:
        db.execute("COMMIT")


def made(draw: random.Random, count: int) -> tuple[str, sqlite3.Connection]:
    definition = f"{draw.choice(('fts3(a, b)', *(f'fts4(a, b{each})' for each in OPTIONS)))}"
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute(f"PRAGMA page_size = {draw.choice((512, 1024))}")
    db.execute(f"CREATE VIRTUAL TABLE found USING {definition}")
    work(db, draw, count)
    return definition, db


@given(st.integers(0, 2**32))
def test_an_index_says_what_one_says_that_is_made_anew(seed: int) -> None:
    draw = random.Random(seed)
    definition, db = made(draw, draw.choice((5, 30, 80)))
    with closing(db), closing(sqlite3.connect(":memory:", isolation_level=None)) as other:
        other.execute(f"CREATE VIRTUAL TABLE found USING {definition}")
        content = db.execute("SELECT docid, a, b FROM found").fetchall()
        draw.shuffle(content)
        other.execute("BEGIN")
        other.executemany("INSERT INTO found (docid, a, b) VALUES (?, ?, ?)", content)
        other.execute("COMMIT")
        one, two = said(db), said(other)
        assert one is not None
        assert two is not None
        assert one["found_segdir"] == two["found_segdir"]
        (segments,) = db.execute("SELECT count(*) FROM found_segdir").fetchone()
        (blocks,) = db.execute("SELECT count(*) FROM found_segments").fetchone()
        event(f"{min(segments, 3)} segments, {'with' if blocks else 'without'} blocks")


def mutate(db: sqlite3.Connection, draw: random.Random) -> None:
    """One thing that an agent may write into the tables of an index."""
    key, content = draw.choice(
        (("rowid", "found_segdir.root"), ("blockid", "found_segments.block"))
    )
    table, column = content.split(".")
    stored = db.execute(f"SELECT {key}, {column} FROM {table}").fetchall()
    row = draw.randrange(len(stored)) if stored else 0
    kind = draw.randrange(8)
    if not stored or (kind < 4 and not stored[row][1]):
        return
    if kind < 4:
        node = bytearray(stored[row][1])
        at, byte = draw.randrange(len(node)), draw.choice((0, 1, 2, 128, draw.randrange(256)))
        node[at : at + draw.choice((0, 1, 1))] = draw.choice(((byte,), (byte,), ()))
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (node, stored[row][0]))
    elif kind == 4:
        (one, first), (two, second) = stored[row], draw.choice(stored)
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (first, two))
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (second, one))
    elif kind == 5:
        db.execute(f"DELETE FROM {table} WHERE {key} = ?", (stored[row][0],))
    else:
        column = draw.choice(("level", "idx", "start_block", "leaves_end_block", "end_block"))
        by = draw.choice((-2, -1, 1, 2, 1024))
        db.execute(f"UPDATE OR IGNORE found_segdir SET {column} = {column} + {by} "
                   f"WHERE rowid % 3 = {draw.randrange(3)}")  # fmt: skip


def answers(db: sqlite3.Connection) -> Iterable[object]:
    more = ("al*", "b*", "w1*", "a:beta", "b:w5", '"alpha beta"', "beta NEAR/2 w1", "absent", "x*")
    for query in (*WORDS[:60], *more):
        try:
            found = "SELECT docid, matchinfo(found, 'xpc') FROM found WHERE found MATCH ?"
            yield query, db.execute(found, (query,)).fetchall()
        except sqlite3.Error:
            yield query, None


@given(st.integers(0, 2**32))
def test_an_index_that_is_shown_the_same_is_searched_the_same(seed: int) -> None:
    draw = random.Random(seed)
    _, db = made(draw, 40)
    with closing(db):
        content, before = db.serialize(), said(db)
        assert before is not None
        for _ in range(6):
            with closing(sqlite3.connect(":memory:", isolation_level=None)) as other:
                other.deserialize(content)
                mutate(other, draw)
                after = said(other)
                is_same = after == before
                event("shown the same" if is_same else "another" if after else "as stored")
                if is_same and (mutated := other.serialize()) != content:
                    with closing(sqlite3.connect(":memory:")) as one:
                        one.deserialize(mutated)
                        assert [*answers(one)] == [*answers(db)]
