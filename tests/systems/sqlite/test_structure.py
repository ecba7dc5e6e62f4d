"""The structure of a SQLite file is state: what disagrees after a run is a change."""

import os
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from statediff import Judge, Verdict
from statediff.capture.source import SourceUnavailable
from statediff.capture.take import take
from statediff.kernel.diff import diff
from statediff.kernel.resolve import resolve
from statediff.model.state import Coverage, MemoryChunks, Table
from statediff.systems.relational.structure import STRUCTURE
from statediff.systems.sqlite import scan
from statediff.systems.sqlite.feed import SqliteFeed
from statediff.systems.sqlite.source import SqliteSource
from tests.systems.sqlite.sqlite_databases import clock

PAGE = 4096
DDL = """
CREATE TABLE account (id INTEGER PRIMARY KEY, email TEXT NOT NULL, role TEXT, n INT CHECK (n >= 0));
CREATE UNIQUE INDEX by_email ON account (email);
CREATE INDEX by_role ON account (role);
CREATE INDEX by_n ON account (n);
CREATE TABLE pair (a TEXT, b TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID;
CREATE TABLE small (id INTEGER PRIMARY KEY, note TEXT);
"""


def make(path: Path, *more: str, mode: str = "DELETE") -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"PRAGMA page_size={PAGE}; PRAGMA journal_mode={mode}; {DDL}")
        numbers = range(1, 401)
        db.executemany(
            "INSERT INTO account VALUES (?, ?, ?, ?)",
            ((n, f"user{n}@example.org", f"role{n % 7}", n * 37 % 401) for n in numbers),
        )
        db.executemany("INSERT INTO pair VALUES (?, ?)", ((f"a{n:03}", f"b{n}") for n in numbers))
        db.executemany("INSERT INTO small VALUES (?, ?)", ((n, "x" * 30) for n in range(1, 9)))
        for statement in more:
            db.execute(statement)
        db.commit()
    return path


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement).fetchall()


def root(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchone()[
            0
        ]


def write(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def definition(path: Path, name: str, sql: str) -> tuple[str, ...]:
    """Statements that put another definition in the place of an object's, without its entries."""
    version = "PRAGMA schema_version"
    with closing(sqlite3.connect(path)) as db:
        (now,) = db.execute(version).fetchone()
    return (
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_schema SET sql = '{sql}' WHERE name = '{name}'",
        f"{version} = {now + 1}",
        "PRAGMA writable_schema = OFF",
    )


def hide_a_row(path: Path) -> None:
    run(path, *definition(path, "by_role", "CREATE INDEX by_role ON account (role) WHERE id <> 7"))
    run(path, "REINDEX by_role")
    run(path, *definition(path, "by_role", "CREATE INDEX by_role ON account (role)"))


def swap_cells(path: Path, name: str) -> None:
    start = (root(path, name) - 1) * PAGE
    content = path.read_bytes()
    kind = content[start]
    at = start + (12 if kind in (2, 5) else 8)
    if kind in (2, 5):  # the first child, which is a leaf
        cell = start + struct.unpack_from(">H", content, at)[0]
        start = (struct.unpack_from(">I", content, cell)[0] - 1) * PAGE
        at = start + 8
    one, other = content[at : at + 2], content[at + 2 : at + 4]
    write(path, at, other + one)


def free_a_live_page(path: Path) -> None:
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(struct.pack(">III", 0, 1, root(path, "small")).ljust(PAGE, b"\0"))
    counter = path.read_bytes()[24:28]
    write(path, 28, struct.pack(">III", size // PAGE + 1, size // PAGE + 1, 2))
    write(path, 92, counter)


def swap_roots(path: Path) -> None:
    one, other = root(path, "by_role"), root(path, "by_n")
    run(
        path,
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_schema SET rootpage = CASE name WHEN 'by_role' THEN {other} ELSE {one} END"
        " WHERE name IN ('by_role', 'by_n')",
    )


def unindexed_function(path: Path) -> None:
    """An index over a function that only the agent's own program has."""
    with closing(sqlite3.connect(path)) as db:
        db.create_function("mine", 1, lambda value: value, deterministic=True)
        db.execute("CREATE INDEX by_mine ON account (mine(email))")
        db.commit()


HARMFUL: dict[str, Callable[[Path], None]] = {
    "a row is taken out of an index": hide_a_row,
    "two cells of a leaf of a table change places": lambda path: swap_cells(path, "account"),
    "two cells of a leaf of an index change places": lambda path: swap_cells(path, "by_email"),
    "two cells of a small table change places": lambda path: swap_cells(path, "small"),
    "two keys of a table without row ids change places": lambda path: swap_cells(path, "pair"),
    "a live root page is on the free list": free_a_live_page,
    "the roots of two indexes change places": swap_roots,
    "the file can only be read": lambda path: write(path, 18, b"\3"),
    "the file is of two formats": lambda path: write(path, 18, b"\2"),
    "an index over an unknown function": unindexed_function,
    "a page belongs to nobody": lambda path: run(
        path, "PRAGMA writable_schema = ON", "DELETE FROM sqlite_schema WHERE name = 'by_n'"
    ),
}
HARMLESS = {
    "nothing": (),
    "vacuum": ("VACUUM",),
    "reindex": ("REINDEX",),
    "optimize": ("PRAGMA optimize",),
    "incremental vacuum": ("PRAGMA incremental_vacuum",),
    "the page size stays": (f"PRAGMA page_size = {PAGE}", "VACUUM"),
    "rows come and go": (
        "INSERT INTO account VALUES (900, 'new@example.org', 'role1', 4)",
        "DELETE FROM account WHERE id < 200",
        "DELETE FROM account WHERE id = 900",
    ),
    "many rows": (
        "INSERT INTO pair SELECT a || n.id || o.id, b FROM pair, small AS n, small AS o",
        "DROP INDEX by_n",
    ),
}


def compare(path: Path, act: Callable[[], None]):
    """The diff of what `act` does to the file, and the capture after it."""
    source, store = SqliteSource("db", path), MemoryChunks()
    before = take([source], store, clock, None, "before")
    assert before.parts[0].reading.is_complete, before.parts[0].reading.cause
    act()
    after = take([source], store, clock, before, "after")
    (matching,) = resolve(before, after).matchings
    return diff(matching.before, matching.after), after


@pytest.mark.parametrize("name", HARMFUL)
def test_what_disagrees_after_a_run_is_a_change(tmp_path, name):
    path = make(tmp_path / "a.db")
    found, after = compare(path, lambda: HARMFUL[name](path))
    created = [d for d in found.deltas if d.type == STRUCTURE]
    assert created, found
    assert after.parts[0].state.tables[STRUCTURE].enumeration.is_complete


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
@pytest.mark.parametrize("name", HARMLESS)
def test_what_sqlite_does_is_no_change_of_structure(tmp_path, name, mode):
    path = make(tmp_path / "a.db", mode=mode)
    found, after = compare(path, lambda: run(path, *HARMLESS[name]))
    assert not [d for d in found.deltas if d.type == STRUCTURE]
    assert not [d for d in found.doubts if d.type == STRUCTURE]
    assert after.parts[0].state.tables[STRUCTURE].enumeration.is_complete


def test_a_missing_entry_names_its_index_and_its_page(tmp_path):
    path = make(tmp_path / "a.db")
    _, after = compare(path, lambda: hide_a_row(path))
    rows = [row for _, row in after.parts[0].state.tables[STRUCTURE].rows()]
    assert {(row["object"], row["page"]) for row in rows} == {("by_role", root(path, "by_role"))}


def test_what_was_unsound_before_is_unobserved(tmp_path):
    path = make(tmp_path / "a.db")
    hide_a_row(path)
    store = MemoryChunks()
    source = SqliteSource("db", path)
    before = source.read(store, clock, None).state
    after = source.read(store, clock, before).state
    for state in (before, after):
        enumeration = state.tables[STRUCTURE].enumeration
        assert enumeration.coverage is Coverage.INCOMPLETE
        assert "not known to be sound before" in str(enumeration.cause)
    assert diff(before, after).doubts


def unknown(path: Path) -> None:
    """Indexes over what only the agent's own program has."""
    with closing(sqlite3.connect(path)) as db:
        db.create_function("mine", 1, lambda value: value and value[::-1], deterministic=True)
        db.create_collation("turned", lambda one, other: (one < other) - (one > other))
        db.execute("CREATE UNIQUE INDEX by_mine ON account (mine(email))")
        db.execute("CREATE INDEX by_turned ON account (role COLLATE turned, n)")
        db.commit()


def problems(table: Table) -> list[str]:
    return [str(row["problem"]) for _, row in table.rows()]


MISSING = "no such collation sequence: turned"
HARMS_BESIDE: dict[str, Callable[[Path], None]] = {
    "a row": hide_a_row, "cells": lambda path: swap_cells(path, "by_email"), "roots": swap_roots,
}  # fmt: skip


@pytest.mark.parametrize("harm", HARMS_BESIDE)
def test_what_is_unknown_from_the_beginning_is_not_checked_and_all_else_is(tmp_path, harm):
    path = make(tmp_path / "a.db")
    unknown(path)
    found, after = compare(path, lambda: None)
    told = problems(after.parts[0].state.tables[STRUCTURE])
    assert told == [
        "not checked: the index by_mine of the table account, for unknown function: mine()",
        f"not checked: the index by_turned of the table account, for {MISSING}",
    ]
    assert not found.deltas
    found, after = compare(path, lambda: HARMS_BESIDE[harm](path))
    assert [d for d in found.deltas if d.type == STRUCTURE]


@pytest.mark.parametrize(
    "line",
    [
        "name = NULL WHERE name = 'by_turned'",
        "name = CAST(x'ff' AS TEXT) WHERE name = 'by_turned'",
        "sql = sql || char(0) || ' COLLATE \"a' || char(0) || 'b\"' WHERE name = 'by_turned'",
        "rootpage = 'two' WHERE name = 'by_turned'",
    ],
)
@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_an_odd_line_about_the_unknown_is_a_change_and_stops_nobody(tmp_path, line, mode):
    path = make(tmp_path / "a.db", mode=mode)
    unknown(path)
    odd = ("PRAGMA writable_schema = ON", f"UPDATE sqlite_schema SET {line}")
    source, store, feed = SqliteSource("db", path), MemoryChunks(), SqliteFeed("db", path)
    with closing(source.by_pages()) as reader:
        before = take([reader], store, clock, None, "before")
        if mode == "WAL":
            feed.attach()
        try:
            run(path, *odd, "UPDATE small SET note = 'y' WHERE id = 1")
            with suppress(sqlite3.Error, UnicodeDecodeError):  # SQLite may refuse the file
                run(path, "UPDATE small SET note = 'z' WHERE id = 1")
            if mode == "WAL":
                feed.finish(store, clock, before.parts[0].state)
        finally:
            feed.detach()
        after = take([source], store, clock, before, "after").parts[0]
        with suppress(SourceUnavailable):
            by_pages = reader.read_changed(store, clock, before.parts[0].state)
            assert by_pages.state.digest() == after.state.digest()
    assert after.state.digest() != before.parts[0].state.digest()


def test_an_index_over_the_unknown_has_the_rows_of_its_table(tmp_path):
    path = make(tmp_path / "a.db")
    unknown(path)
    content, key = path.read_bytes(), b"role3"
    start = (root(path, "by_turned") - 1) * PAGE
    at = content.index(key, start)  # of an entry, and of no row
    found, after = compare(path, lambda: write(path, at, b"roleX"))
    assert [d for d in found.deltas if d.type == STRUCTURE]
    told = " ".join(problems(after.parts[0].state.tables[STRUCTURE]))
    assert "1 entries are of no row in index by_turned" in told
    assert "1 rows are missing in index by_turned" in told


def test_an_unknown_collation_hides_no_other_damage(tmp_path):
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(make(path))) as db:
        db.create_collation("mine", lambda one, other: (one > other) - (one < other))
        db.execute("CREATE INDEX by_mine ON small (note COLLATE mine)")
        db.commit()
    free_a_live_page(path)
    table = SqliteSource("db", path).read(MemoryChunks(), clock, None).state.tables[STRUCTURE]
    assert "reference to page" in " ".join(problems(table))


@pytest.mark.parametrize("views", [1, 9])
def test_no_view_hides_a_page_on_the_free_list(tmp_path, views):
    path = make(tmp_path / "a.db", *(f"CREATE VIEW v{n} AS SELECT 1" for n in range(views)))
    found, after = compare(path, lambda: free_a_live_page(path))
    assert [d for d in found.deltas if d.type == STRUCTURE]
    assert after.parts[0].state.tables[STRUCTURE].enumeration.is_complete


def test_a_sound_file_with_views_and_a_map_of_pages_is_sound(tmp_path):
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as db:
        long = "/*" + "x" * 9000 + "*/"
        db.executescript(
            f"PRAGMA auto_vacuum = FULL; {DDL} CREATE VIEW v AS SELECT 1 {long};"
            "CREATE VIRTUAL TABLE words USING fts5(w); INSERT INTO words VALUES ('a')"
        )
    table = SqliteSource("db", path).read(MemoryChunks(), clock, None).state.tables[STRUCTURE]
    assert table.enumeration.is_complete
    assert not table.row_count


def test_the_check_leaves_the_locks_of_sqlite_alone(tmp_path):
    path = make(tmp_path / "a.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN")
        holder.execute("SELECT * FROM small").fetchone()
        SqliteSource("db", path).read(MemoryChunks(), clock, None)
        code = (
            "import sqlite3, sys\n"
            "db = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)\n"
            "db.execute('BEGIN EXCLUSIVE')"
        )
        assert os.spawnlp(os.P_WAIT, "python3", "python3", "-c", code, str(path))


def ruin(path: Path, kind: str) -> None:
    if kind == "cut off":
        os.truncate(path, 100)
    elif kind == "header":
        write(path, 0, b"\0" * 100)
    elif kind == "text":
        path.write_text("nothing to see here\n" * 1000)
    else:
        path.unlink()
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "loop":
            path.symlink_to(path.name)


@pytest.mark.parametrize("kind", ["cut off", "header", "text", "gone", "folder", "pipe", "loop"])
def test_a_database_that_the_run_made_unreadable_changed(tmp_path, kind):
    path = make(tmp_path / "a.db")
    found, after = compare(path, lambda: ruin(path, kind))
    assert [d for d in found.deltas if d.type in ("source.db", STRUCTURE)]
    assert not after.parts[0].reading.is_complete


@pytest.mark.parametrize("kind", ["cut off", "header", "text", "gone"])
def test_it_changed_too_where_a_part_of_it_was_not_read_before(tmp_path, kind):
    path = make(tmp_path / "a.db")
    run(path, "CREATE VIRTUAL TABLE letters USING fts5(words)")
    found, _ = compare(path, lambda: run(path, "UPDATE small SET note = 'y' WHERE id = 1"))
    assert {d.type for d in found.deltas} == {"small"}
    assert not [doubt for doubt in found.doubts if doubt.type.startswith("source.")]
    found, after = compare(path, lambda: ruin(path, kind))
    assert [d for d in found.deltas if d.type in ("source.db", STRUCTURE)]
    assert not after.parts[0].reading.is_complete


@pytest.mark.parametrize("number", [5, 9])
def test_a_counter_that_the_run_made_twice_changed(tmp_path, number):
    path = make(tmp_path / "a.db")
    run(path, "CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT)")
    run(path, "INSERT INTO counted VALUES (9)")
    statement = f"INSERT INTO sqlite_sequence VALUES ('counted', {number})"
    found, after = compare(path, lambda: run(path, statement))
    [delta] = found.deltas
    assert (delta.type, delta.key) == (
        "source.db",
        ("db.sequence: 2 rows share keys with each other",),
    )
    assert not after.parts[0].reading.is_complete


def test_a_locked_database_is_unobserved(tmp_path):
    path = make(tmp_path / "a.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        found, _ = compare(path, lambda: holder.execute("BEGIN EXCLUSIVE") and None)
    assert not found.deltas
    assert found.doubts


def test_a_commit_that_leaves_disorder_is_seen_in_the_history(tmp_path):
    path = make(tmp_path / "a.db", mode="WAL")
    source, store, feed = SqliteSource("db", path), MemoryChunks(), SqliteFeed("db", path)
    before = source.read(store, clock, None).state
    feed.attach()
    try:
        run(path, "UPDATE small SET note = 'y' WHERE id = 1")
        hide_a_row(path)
        run(path, "REINDEX by_role")
        seen = feed.finish(store, clock, before)
    finally:
        feed.detach()
    assert seen.gap is None
    counts = [t.state.tables[STRUCTURE].row_count for t in seen.transactions]
    assert counts[0] == counts[-1] == 0
    assert max(counts) == 2
    assert seen.transactions[-1].state.digest() == source.read(store, clock, before).state.digest()


ODD = {
    "strict types, and a unique index with nulls": (
        (
            "CREATE TABLE s (id INTEGER PRIMARY KEY, n INT, r REAL, t TEXT, a ANY) STRICT;"
            "CREATE UNIQUE INDEX s_n ON s (n); CREATE INDEX s_r ON s (r, a)"
        ),
        "INSERT INTO s VALUES (9, NULL, 3, 'x', x'00'), (10, NULL, 3.5, 'y', 7)",
        False,
    ),
    "comments, brackets and quotes in the text of an index": (
        (
            "CREATE TABLE c (a TEXT, b); CREATE INDEX c_a ON c (/* a, b */ substr(a, 1, 3)"
            " COLLATE RTRIM DESC, -- (x\n \"b\" ASC) WHERE b IS NOT NULL AND a <> ')'"
        ),
        "INSERT INTO c VALUES ('abcd', 1), ('ab ', 2), (')', 3), ('q', NULL)",
        False,
    ),
    "an index over a computed column": (
        (
            "CREATE TABLE g (id INTEGER PRIMARY KEY, a, b AS (a * 2) VIRTUAL NOT NULL);"
            "CREATE INDEX g_b ON g (b)"
        ),
        "INSERT INTO g (a) VALUES (4), (5)",
        False,
    ),
    "rows that are older than a column": (
        (
            "CREATE TABLE d (a); INSERT INTO d VALUES (1), (2);"
            "ALTER TABLE d ADD COLUMN n INT DEFAULT 7; CREATE INDEX d_n ON d (n)"
        ),
        "UPDATE d SET a = 3 WHERE a = 1",
        False,
    ),
    "no name is left for row ids": (
        "CREATE TABLE r (rowid, _rowid_, oid); CREATE INDEX r_o ON r (oid)",
        "INSERT INTO r VALUES (1, 2, 3)",
        True,
    ),
    "numbers that are given out": (
        "CREATE TABLE n (id INTEGER PRIMARY KEY AUTOINCREMENT, a UNIQUE)",
        "INSERT INTO n (a) VALUES (2), ('2'), (NULL), (NULL)",
        False,
    ),
    "texts in UTF-16": (
        "PRAGMA encoding = 'UTF-16'; CREATE TABLE u (a TEXT PRIMARY KEY)",
        "INSERT INTO u VALUES ('\u00e4')",
        True,
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_work_on_odd_tables_is_followed_or_the_whole_file_is_checked(tmp_path, name):
    ddl, work, is_checked_whole = ODD[name]
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(ddl)
    source, store = SqliteSource("db", path), MemoryChunks()
    with closing(source.by_pages()) as reader:
        before = reader.read(store, clock, None).state
        assert before.tables[STRUCTURE].enumeration.is_complete
        run(path, work)
        with patch.object(scan, "check", wraps=scan.check) as check:
            after = reader.read_changed(store, clock, before).state
        assert check.called is is_checked_whole
    assert after.digest() == source.read(store, clock, before).state.digest()
    assert not after.tables[STRUCTURE].row_count


KEEPS = """
CREATE TABLE t (id INTEGER PRIMARY KEY, q INT, p REAL, note TEXT,
  total INT GENERATED ALWAYS AS (q * p) STORED, words TEXT AS (p) STORED,
  "a b" TEXT AS (upper(note) || ',' /* (a */ || q) STORED, seen INT AS (q + 1));
INSERT INTO t (id, q, p, note) VALUES (1, 2, 0.1 + 0.2, 'x'), (2, 4, 5, NULL);
"""
QUANTITY = """
{contract: t/raise, version: 1.0.0, owner: me, intent: Raise the quantity.,
 require: [{id: q, update: t, where: it.id == 1, set: {q: 7}}]}
"""


@pytest.mark.parametrize("column", ["", "total", "words", "a b"])
def test_a_kept_value_that_nothing_computes_is_no_work_of_the_database(tmp_path, column):
    """Its base may change and does; that explains what SQLite makes of it, and nothing else."""
    before, after = tmp_path / "before.db", tmp_path / "after.db"
    with closing(sqlite3.connect(before)) as db:
        db.executescript(KEEPS)
    shutil.copy(before, after)
    run(after, "UPDATE t SET q = 7 WHERE id = 1")
    if column:
        made = KEEPS[1:].partition(";")[0]
        plain = made.partition("total")[0] + 'total INT, words TEXT, "a b" TEXT)'
        run(after, *definition(after, "t", plain))
        run(after, f'UPDATE t SET "{column}" = 999 WHERE id = 1')
        run(after, *definition(after, "t", made.replace("'", "''")))
    judge, expected = Judge(QUANTITY, before), Verdict.DIVERGE if column else Verdict.MATCH
    assert judge.judge(after).verdict is judge.score(after).verdict is expected
