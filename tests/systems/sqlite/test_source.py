import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.capture.source import SourceUnavailable
from statediff.capture.store import DiskChunks
from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import parse_schema_file
from statediff.errors import UsageError
from statediff.model.schema import Kind
from statediff.model.state import Coverage, MemoryChunks, State
from statediff.model.values import ABSENT, Digested, Map, same
from statediff.systems.sqlite.scan import MAX_VALUE_BYTES
from statediff.systems.sqlite.source import SqliteSource, open_database
from statediff.workspace.inputs import StateFile
from tests.judged_files import database, judged
from tests.systems.sqlite.sqlite_databases import clock


def made(path: Path, script: str = "", *rows: tuple[str, tuple[object, ...]]) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    for statement, values in rows:
        connection.execute(statement, values)
    connection.commit()
    connection.close()
    return path


def capture(path: Path, like: State | None = None, refine=None):
    return SqliteSource("db", path, refine).read(MemoryChunks(), clock, like)


def state_of(path: Path, like: State | None = None, refine=None) -> State:
    return capture(path, like, refine).state


def rows(state: State, name: str):
    return list(state.tables[name].rows())


# Keys and references


def test_every_kind_of_primary_key_and_reference_is_read_from_the_catalogue(tmp_path):
    schema = SqliteSource(
        "db",
        made(
            tmp_path / "a.db",
            """
        CREATE TABLE team (code TEXT PRIMARY KEY NOT NULL) WITHOUT ROWID;
        CREATE TABLE person (id INTEGER PRIMARY KEY, team TEXT REFERENCES TEAM (Code));
        CREATE TABLE line (a INT NOT NULL, b INT NOT NULL, n INT, PRIMARY KEY (b, a));
        CREATE TABLE member (person INT NOT NULL REFERENCES person, team TEXT NOT NULL
            REFERENCES team (code), PRIMARY KEY (person, team));
        CREATE TABLE far (id INTEGER PRIMARY KEY, a INT, b INT,
            FOREIGN KEY (a, b) REFERENCES line (a, b), FOREIGN KEY (a) REFERENCES gone (x));
    """,
        ),
    ).schema()
    keys = {n: t.key for n, t in schema.by_name.items() if not n.startswith("db.")}
    assert keys == {
        "team": ("code",),
        "person": ("id",),
        "line": ("b", "a"),
        "member": ("person", "team"),
        "far": ("id",),
    }
    assert schema.by_name["person"].by_name["team"].reference == "team"
    assert [f.reference for f in schema.by_name["member"].fields] == ["person", "team"]
    assert [n for n, t in schema.by_name.items() if t.is_association] == ["db.membership", "member"]
    assert all(f.reference is None for f in schema.by_name["far"].fields)


def test_a_table_without_a_key_is_a_multiset(tmp_path):
    path = made(tmp_path / "a.db", "CREATE TABLE t (x); INSERT INTO t VALUES (1), (1), (2)")
    state = state_of(path)
    assert state.tables["t"].type.is_keyless
    assert sorted(row["x"] for _, row in rows(state, "t")) == [1, 1, 2]


def test_a_primary_key_that_is_null_somewhere_is_no_key(tmp_path):
    path = made(
        tmp_path / "a.db",
        """CREATE TABLE t (k TEXT PRIMARY KEY, x);
        INSERT INTO t VALUES (NULL, 1), (NULL, 1), ('a', 2)""",
    )
    state = state_of(path)
    assert state.tables["t"].type.is_keyless
    assert state.tables["t"].row_count == 3
    assert SqliteSource("db", path).schema() == state.schema


def test_null_keys_that_appear_later_make_the_type_incomplete_and_never_change_its_key(tmp_path):
    path = made(
        tmp_path / "a.db", "CREATE TABLE t (k TEXT PRIMARY KEY); INSERT INTO t VALUES ('a')"
    )
    before = state_of(path)
    made(path, "INSERT INTO t VALUES (NULL)")
    once = capture(path, before)
    assert [key for key, _ in rows(once.state, "t")] == [(None,), ("a",)]
    assert once.reading.is_complete
    made(path, "INSERT INTO t VALUES (NULL)")
    twice = capture(path, before)
    table = twice.state.tables["t"]
    assert table.type.key == ("k",)
    assert table.enumeration.coverage is Coverage.INCOMPLETE
    assert [key for key, _ in table.rows()] == [("a",)]
    assert twice.reading.cause == "t: 2 rows share keys with each other"


# Values

CELLS = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=8))
def test_any_mixture_of_values_comes_back_exactly(tmp_path_factory, cells):
    path = made(
        tmp_path_factory.mktemp("db") / "a.db",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, any_, i INT, r BLOB)",
        *[("INSERT INTO t VALUES (?, ?, ?, ?)", (n, a, b, b)) for n, (a, b) in enumerate(cells)],
    )
    connection = sqlite3.connect(path)
    expected = connection.execute("SELECT id, any_, i, r FROM t ORDER BY id").fetchall()
    connection.close()
    state = state_of(path)
    assert len(rows(state, "t")) == len(cells)
    for (_, row), stored in zip(rows(state, "t"), expected, strict=True):
        assert all(same(a, b) for a, b in zip(row.values(), stored, strict=True))
    assert state_of(path).digest() == state.digest()
    assert state_of(path, state).digest() == state.digest()


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"]))
        | st.binary()
        | st.integers(-9, 9)
        | st.floats(allow_nan=False),
        unique_by=lambda k: (type(k) in (int, float), k),
    )
)
def test_keys_of_any_kind_are_all_there_in_order(tmp_path_factory, keys):
    path = made(
        tmp_path_factory.mktemp("db") / "a.db",
        "CREATE TABLE t (k PRIMARY KEY NOT NULL COLLATE NOCASE) WITHOUT ROWID",
        *[("INSERT OR IGNORE INTO t VALUES (?)", (k,)) for k in keys],
    )
    connection = sqlite3.connect(path)
    (count,) = connection.execute("SELECT count(*) FROM t").fetchone()
    connection.close()
    assert state_of(path).tables["t"].row_count == count


def test_text_that_is_not_utf_8_is_kept_as_one_of_these_bytes_even_in_a_key(tmp_path):
    path = made(
        tmp_path / "a.db",
        """CREATE TABLE t (k TEXT PRIMARY KEY, v TEXT);
        INSERT INTO t VALUES ('é', 'fine'), (CAST(x'41ff' AS TEXT), CAST(x'ff00' AS TEXT)),
        ('b', 'nul' || char(0) || 'inside')""",
    )
    assert rows(state_of(path), "t") == [
        (("b",), {"k": "b", "v": "nul\0inside"}),
        (("é",), {"k": "é", "v": "fine"}),
        ((key := Map.of({"text": b"A\xff"}),), {"k": key, "v": Map.of({"text": b"\xff\x00"})}),
    ]


def test_declared_kinds_are_read_where_exact_and_other_values_stay(tmp_path):
    path = made(
        tmp_path / "a.db",
        """
        CREATE TABLE t (id INTEGER PRIMARY KEY, ok BOOLEAN, at DATETIME, day DATE, price DECIMAL);
        INSERT INTO t VALUES (1, 1, '2024-03-01 10:00:00', '2024-03-01', 12),
            (2, 2, 'then', '2024-02-30', 12.5), (3, 'x', 1709287200, NULL, 'x')""",
    )
    found = [tuple(row.values())[1:] for _, row in rows(state_of(path), "t")]
    assert found == [
        (True, datetime(2024, 3, 1, 10), date(2024, 3, 1), 12),  # noqa: DTZ001 - local
        (2, "then", "2024-02-30", Decimal("12.5")),
        ("x", 1709287200, None, "x"),
    ]
    assert type(found[0][0]) is bool


def test_a_refinement_renames_declares_zones_and_reads_text_as_decimals(tmp_path):
    path = made(
        tmp_path / "a.db",
        """
        CREATE TABLE tbl_orders (order_id INTEGER PRIMARY KEY, at TEXT, price TEXT);
        INSERT INTO tbl_orders VALUES (1, '2024-03-01 10:00:00', '12.50')""",
    )

    def refine(schema):
        t = schema.by_name["tbl_orders"]
        key, at, price = t.fields
        t = replace(
            t,
            name="order",
            key=("id",),
            fields=(
                replace(key, name="id"),
                replace(at, kind=Kind.TIMESTAMP, zone="+02:00"),
                replace(price, name="amount", kind=Kind.DECIMAL),
                replace(price, name="lost", column="no_such_column"),
            ),
        )
        return replace(schema, types=(t,))

    ((key, row),) = rows(state_of(path, refine=refine), "order")
    assert key == (1,)
    assert row == {
        "id": 1,
        "at": datetime(2024, 3, 1, 8, tzinfo=UTC),
        "amount": Decimal("12.50"),
        "lost": ABSENT,
    }


def test_a_refinement_that_names_no_table_does_not_read_as_empty(tmp_path):
    path = made(tmp_path / "a.db", "CREATE TABLE t (id INTEGER PRIMARY KEY)")

    def refine(schema):
        return replace(schema, types=(replace(schema.by_name["t"], table="typo"),))

    found = capture(path, refine=refine)
    assert found.state.tables["t"].enumeration.coverage is Coverage.UNOBSERVED
    assert found.reading.cause == "t: there is no table typo"


def test_a_huge_value_is_known_by_its_digest_and_its_row_stays(tmp_path):
    size = MAX_VALUE_BYTES + 1
    path = made(
        tmp_path / "a.db",
        f"""CREATE TABLE t (id INTEGER PRIMARY KEY, b, c TEXT);
        INSERT INTO t VALUES (1, zeroblob({size}), 'x'), (2, x'01', 'y'),
        (3, zeroblob(1), CAST(zeroblob({size}) AS TEXT));
        CREATE TABLE k (k BLOB PRIMARY KEY NOT NULL);
        INSERT INTO k VALUES (zeroblob({size})), (x'01')""",
    )
    found = capture(path)
    assert [(r["b"], r["c"]) for _, r in rows(found.state, "t")] == [
        (Digested.of(bytes(size)), "x"),
        (b"\x01", "y"),
        (b"\x00", Digested.of("\0" * size)),
    ]
    assert found.state.tables["t"].enumeration.is_complete
    keys = [row["k"] for _, row in rows(found.state, "k")]
    assert sorted(keys, key=str) == sorted([b"\x01", Digested.of(bytes(size))], key=str)
    assert found.reading.is_complete


# Schema objects


def test_schema_objects_settings_and_sequences_are_entities(tmp_path):
    state = state_of(
        made(
            tmp_path / "a.db",
            """
        CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, x INT NOT NULL DEFAULT 5);
        INSERT INTO t (x) VALUES (1), (2);
        CREATE INDEX i ON t (x); CREATE VIEW v AS SELECT * FROM t;
        CREATE TRIGGER g AFTER DELETE ON t BEGIN SELECT 1; END; PRAGMA user_version = 3""",
        )
    )
    assert rows(state, "db.sequence") == [(("t",), {"name": "t", "value": 2})]
    assert dict(rows(state, "db.setting"))[("user_version",)]["value"] == 3
    assert dict(rows(state, "db.index"))[("i",)]["definition"] == "CREATE INDEX i ON t (x)"
    assert [k for k, _ in rows(state, "db.view")] == [("v",)]
    assert dict(rows(state, "db.trigger"))[("g",)]["table"] == "t"
    column = dict(rows(state, "db.column"))[("t", "x")]
    assert (column["declared_type"], column["is_required"], column["default"]) == ("INT", True, "5")
    for name in ("db.role", "db.grant", "db.membership"):
        assert state.tables[name].enumeration.is_complete
        assert state.tables[name].row_count == 0


def test_nothing_the_database_defines_is_evaluated(tmp_path):
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.create_function("ours", 1, lambda x: x, deterministic=True)
    connection.executescript("""
        CREATE TABLE t (id INTEGER PRIMARY KEY, d AS (ours(id)) VIRTUAL, s AS (id + 1) STORED);
        INSERT INTO t (id) VALUES (1);
        CREATE VIEW bomb AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c)
            SELECT * FROM c;
        CREATE VIEW broken AS SELECT no_such_function(1);
        CREATE VIRTUAL TABLE words USING fts5(z);
        INSERT INTO words VALUES ('hello')""")
    connection.close()
    started = time.perf_counter()
    found = capture(path)
    assert time.perf_counter() - started < 5
    assert rows(found.state, "t") == [((1,), {"id": 1, "s": 2})]
    assert dict(rows(found.state, "db.column"))[("t", "d")]["generated"] == "virtual"
    assert found.state.tables["words"].enumeration.cause == "a virtual table is not evaluated"
    assert dict(rows(found.state, "db.table"))[("words",)]["kind"] == "virtual"
    assert rows(found.state, "words_content")[0][1]["c0"] == "hello"
    assert "bomb" not in found.state.tables


@pytest.mark.parametrize(
    "table", ["fts5vocab(words, 'row')", "fts5vocab('words', instance)", "dbstat"]
)
def test_a_virtual_table_that_shows_what_others_hold_is_outside(tmp_path, table):
    """Its rows are unobserved: a contract about the rest of the file is decided all the same."""
    seed = (
        "CREATE TABLE t (id INTEGER PRIMARY KEY)",
        "CREATE VIRTUAL TABLE words USING fts5(z)",
        f"CREATE VIRTUAL TABLE shown USING {table}",
    )
    before = database(tmp_path / "a.db", *seed)
    kept = "forbid:\n  - {id: kept, delete: t}\n"
    for run, verdict in (
        ("SELECT 1", "MATCH"),
        ("INSERT INTO words VALUES ('hello')", "DIVERGE"),
        ("DROP TABLE shown", "DIVERGE"),
    ):
        after = database(tmp_path / "b.db", *seed, run)
        assert judged(tmp_path, kept, before, after).verdict.value == verdict, run


def test_a_module_or_collation_that_is_not_here_does_no_harm(tmp_path):
    path = made(
        tmp_path / "a.db", "CREATE TABLE t (id TEXT PRIMARY KEY); INSERT INTO t VALUES ('a')"
    )
    connection = sqlite3.connect(path)
    connection.create_collation("odd", lambda a, b: (a < b) - (a > b))
    connection.executescript("""
        CREATE TABLE o (k TEXT COLLATE odd PRIMARY KEY NOT NULL, x TEXT COLLATE odd);
        INSERT INTO o VALUES ('a', 'b'), ('c', 'd');
        PRAGMA writable_schema = ON;
        INSERT INTO sqlite_schema VALUES ('table', 'm', 'm', 0, 'CREATE VIRTUAL TABLE m USING x(y)')
    """)
    connection.close()
    state = state_of(path)
    assert [k for k, _ in rows(state, "o")] == [("a",), ("c",)]
    assert state.tables["m"].enumeration.coverage is Coverage.UNOBSERVED


@pytest.mark.parametrize("spelled", [str.upper, str.encode])
def test_what_works_is_listed_however_its_kind_is_spelled(tmp_path, spelled):
    path = made(
        tmp_path / "a.db", "CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 0)"
    )
    before = state_of(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("""
            CREATE TRIGGER own AFTER INSERT ON t BEGIN UPDATE t SET x = 'changed'; END;
            CREATE TABLE hidden (id INTEGER PRIMARY KEY); INSERT INTO hidden VALUES (7);
            PRAGMA writable_schema = ON""")
        for kind, name in (("trigger", "own"), ("table", "hidden")):
            connection.execute(
                "UPDATE sqlite_schema SET type = ? WHERE name = ?", (spelled(kind), name)
            )
        connection.commit()
    with closing(sqlite3.connect(path)) as anybody:
        anybody.execute("INSERT INTO t VALUES (2, 0)")
        assert anybody.execute("SELECT x FROM t").fetchall() == [("changed",)] * 2
    after = state_of(path, before)
    assert [key for key, _ in rows(after, "db.trigger")] == [("own",)]
    assert [key for key, _ in rows(after, "hidden")] == [(7,)]


@pytest.mark.parametrize(
    ("update", "name", "kind"),
    [
        ("type = 'tAble'", "t", "table, entered with type 'tAble'"),
        ("type = CAST(type AS BLOB)", "t", "table, entered with type b'table'"),
        ("tbl_name = 'T'", "t", "table, entered with tbl_name 'T'"),
        ("type = 'Index'", "by_x", "unknown: index, entered with type 'Index'"),
        (
            "type = 'VIEW', tbl_name = 'V'",
            "v",
            "unknown: view, entered with type 'VIEW' and tbl_name 'V'",
        ),
        ("type = 'Trigger'", "own", "unknown: trigger, entered with type 'Trigger'"),
        ("type = 'Table'", "sqlite_stat1", "table, entered with type 'Table'"),
    ],
)
def test_what_is_entered_otherwise_than_sqlite_does_is_seen(tmp_path, update, name, kind):
    """Programs that make copies ask for what is called `table`, and would leave it out."""
    path = made(
        tmp_path / "a.db",
        """
        CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 0);
        CREATE INDEX by_x ON t (x); CREATE VIEW v AS SELECT x FROM t;
        CREATE TRIGGER own AFTER INSERT ON t BEGIN DELETE FROM t; END; ANALYZE""",
    )
    before = state_of(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(f"UPDATE sqlite_schema SET {update} WHERE name = ?", (name,))
        connection.commit()
    after = state_of(path, before)
    entered = {key[0]: row["kind"] for key, row in rows(after, "db.table")}
    assert entered == {"t": "table"} | {name: kind}
    assert [key for key, _ in rows(after, "t")] == [(1,)]


@pytest.mark.parametrize("name", ["by_x", "t"])
def test_a_message_that_is_not_utf_8_is_damage_and_no_fault_of_the_evaluator(tmp_path, name):
    """SQLite says which function it does not know, in the bytes that the run wrote."""
    path = made(
        tmp_path / "a.db",
        """
        CREATE TABLE t (id INTEGER PRIMARY KEY, x, y AS (lower(x)));
        INSERT INTO t (id, x) VALUES (1, 0);
        CREATE INDEX by_x ON t (lower(x))""",
    )
    before = state_of(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, 'lower', CAST(x'6c6f7765f2' AS TEXT)) "
            "WHERE name = ?",
            (name,),
        )
        connection.commit()
    after = state_of(path, before)
    assert after.digest() != before.digest()


def test_strange_names_are_read_and_never_collide(tmp_path):
    state = state_of(
        made(
            tmp_path / "a.db",
            """
        CREATE TABLE "a""b; DROP" ("#" INT, "#_" INT, "x""y" INT, "select" INT);
        INSERT INTO "a""b; DROP" VALUES (1, 2, 3, 4);
        CREATE TABLE "db.table" (x); CREATE TABLE "main.db.table" (x);
        INSERT INTO "db.table" VALUES (1)""",
        )
    )
    ((_, row),) = rows(state, 'a"b; DROP')
    assert row == {"#_": 1, "#__": 2, 'x"y': 3, "select": 4}
    assert state.tables["main.db.table"].row_count == 1
    assert state.tables["main.main.db.table"].row_count == 0
    assert state.tables["db.table"].row_count == 3


# What changes during a run


def test_a_dropped_table_is_complete_and_empty(tmp_path):
    path = made(
        tmp_path / "a.db", "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)"
    )
    before = state_of(path)
    made(path, "DROP TABLE t")
    after = state_of(path, before)
    assert after.tables["t"].enumeration.is_complete
    assert after.tables["t"].row_count == 0
    assert ("t",) not in dict(rows(after, "db.table"))


@pytest.mark.parametrize(
    ("declared", "stored"), [("INTEGER", 7), ("TEXT", "7")], ids=["as promised", "otherwise"]
)
def test_an_optional_column_is_absent_until_it_is_added_and_keeps_its_kind(
    tmp_path, declared, stored
):
    text = (
        b"schema: s\nversion: 1.0.0\nentities:\n  t: {fields: {n: {type: int, optional: true}}}\n"
    )
    refined = refine(parse_schema_file(text, "s.yaml"), "db")
    path = made(
        tmp_path / "a.db", "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)"
    )
    before = state_of(path, refine=refined)
    assert rows(before, "t") == [((1,), {"id": 1, "n": ABSENT})]
    made(path, f"ALTER TABLE t ADD COLUMN N {declared}")
    added = state_of(path, before, refined)
    assert rows(added, "t") == [((1,), {"id": 1, "n": None})]
    made(path, "UPDATE t SET n = 7")
    after = state_of(path, before, refined)
    assert rows(after, "t") == [((1,), {"id": 1, "n": stored})]
    assert after.schema.by_name["t"].by_name["n"].kind is Kind.INT


def test_a_table_whose_key_column_is_gone_is_unobserved(tmp_path):
    path = made(tmp_path / "a.db", "CREATE TABLE t (id INTEGER PRIMARY KEY, x)")
    before = state_of(path)
    made(path, "DROP TABLE t; CREATE TABLE t (uid INTEGER PRIMARY KEY, x)")
    after = capture(path, before)
    assert after.reading.cause == "t: its key column id is gone"
    assert after.state.tables["t"].enumeration.coverage is Coverage.UNOBSERVED


def test_a_change_touches_only_its_own_chunk(tmp_path):
    path = made(
        tmp_path / "a.db",
        """CREATE TABLE t (id INTEGER PRIMARY KEY, x);
        WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 20000)
        INSERT INTO t SELECT x, x FROM c""",
    )
    store = DiskChunks(tmp_path / "chunks")
    source = SqliteSource("db", path)
    before = source.read(store, clock, None).state
    made(path, "DELETE FROM t WHERE id = 5; INSERT INTO t VALUES (30000, 1)")
    after = source.read(store, clock, before).state
    one, two = (s.tables["t"].chunks for s in (before, after))
    assert [a == b for a, b in zip(one, two, strict=True)] == [False, True, True, True, False]


# Consistency


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_the_read_is_one_snapshot_and_leaves_the_file_as_it_was(tmp_path, mode):
    path = made(
        tmp_path / "a b%41?#.db",
        f"""PRAGMA journal_mode = {mode};
        CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)""",
    )
    content = path.read_bytes()
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO t VALUES (2)")
    assert [k for k, _ in rows(state_of(path), "t")] == [(1,)]  # uncommitted is not state
    writer.execute("COMMIT")
    state = state_of(path)
    assert [k for k, _ in rows(state, "t")] == [(1,), (2,)]  # committed is, in the log or not
    assert dict(rows(state, "db.storage"))[("journal_mode",)]["value"] == mode
    if mode == "wal":
        assert path.read_bytes() == content
    writer.close()
    settled = path.read_bytes()
    state_of(path)
    assert path.read_bytes() == settled


# What cannot be read


def unavailable(path: Path) -> str:
    with pytest.raises(SourceUnavailable) as caught:
        capture(path)
    with pytest.raises(SourceUnavailable):
        SqliteSource("db", path).schema()
    return str(caught.value)


def test_a_missing_file_a_folder_and_a_nul_in_the_path_have_clear_causes(tmp_path):
    assert unavailable(tmp_path / "no.db") == "no.db cannot be opened: No such file or directory"
    assert not (tmp_path / "no.db").exists()
    assert unavailable(tmp_path).endswith("is not a file")
    assert "null byte" in unavailable(tmp_path / "a\0b.db")


def test_a_url_that_asks_for_a_part_of_a_file_is_refused_and_not_read_whole(tmp_path):
    path = tmp_path / "app.sqlite"
    sqlite3.connect(path).close()
    with pytest.raises(UsageError, match="a SQLite file is read whole"):
        StateFile.parse(f"db=sqlite:///{path}?tables=user")


def test_a_file_that_is_no_database_has_a_clear_cause(tmp_path):
    (tmp_path / "a.db").write_bytes(b"This is not a database. " * 100)
    assert unavailable(tmp_path / "a.db") == "the file is not a SQLite database"


def test_a_locked_database_is_unavailable_after_two_seconds(tmp_path):
    path = made(tmp_path / "a.db", "CREATE TABLE t (x)")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    started = time.perf_counter()
    with pytest.raises(SourceUnavailable, match="locked for more than 2 s"):
        capture(path)
    assert time.perf_counter() - started < 4
    holder.close()


def test_a_damaged_catalogue_makes_the_source_unavailable(tmp_path):
    path = made(tmp_path / "a.db", "CREATE TABLE t (x)")
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    assert "damaged" in unavailable(path)


def test_a_damaged_page_spoils_its_own_table_only(tmp_path):
    path = made(
        tmp_path / "a.db",
        """CREATE TABLE good (id INTEGER PRIMARY KEY, x);
        CREATE TABLE torn (id INTEGER PRIMARY KEY, x);
        CREATE TABLE gone (id INTEGER PRIMARY KEY, x);
        WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 500)
        INSERT INTO torn SELECT x, 'torn-' || hex(zeroblob(20)) || x FROM c;
        INSERT INTO good SELECT id, x FROM torn; INSERT INTO gone SELECT id, x FROM torn""",
    )
    connection = sqlite3.connect(path)
    (root,) = connection.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'gone'"
    ).fetchone()
    pages = [
        p
        for (p,) in connection.execute(
            "SELECT pageno FROM dbstat WHERE name = 'torn' AND pagetype = 'leaf' ORDER BY path"
        )
    ]
    connection.close()
    content = bytearray(path.read_bytes())
    for page in (root, pages[len(pages) // 2]):
        content[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    found = capture(path)
    coverage = {n: found.state.tables[n].enumeration.coverage for n in ("good", "torn", "gone")}
    assert coverage == {
        "good": Coverage.COMPLETE,
        "torn": Coverage.INCOMPLETE,
        "gone": Coverage.UNOBSERVED,
    }
    assert 0 < found.state.tables["torn"].row_count < 500
    assert found.state.tables["good"].row_count == 500
    assert not found.reading.is_complete
    assert "torn: the database is damaged" in str(found.reading.cause)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 12_000), st.binary(min_size=1, max_size=9)), max_size=6))
def test_damage_anywhere_is_never_a_crash(tmp_path_factory, edits):
    folder = tmp_path_factory.mktemp("db")
    path = made(
        folder / "a.db",
        """CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT, y BOOLEAN);
        CREATE TABLE m (x); INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 0);
        INSERT INTO m VALUES (1), (1), (x'00')""",
    )
    content = bytearray(path.read_bytes())
    for at, patch in edits:
        content[at : at + len(patch)] = patch
    path.write_bytes(content)
    before = state_of(made(folder / "b.db", "CREATE TABLE t (id INTEGER PRIMARY KEY)"))
    for like in (None, before):
        try:
            found = capture(path, like)
        except SourceUnavailable:
            continue
        assert found.reading.is_complete == (found.reading.cause is None)


def test_pages_that_point_at_each_other_end(tmp_path):
    path = made(
        tmp_path / "a.db",
        """PRAGMA page_size = 512;
        CREATE TABLE t (x); WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT
        20000) INSERT INTO t SELECT 'row' || x FROM c""",
    )
    connection = sqlite3.connect(path)
    inner = connection.execute(
        "SELECT pageno, path FROM dbstat WHERE name = 't' AND pagetype = 'internal'"
    ).fetchall()
    connection.close()
    (root,) = [p for p, where in inner if where == "/"]
    below = [p for p, where in inner if where.count("/") == 2]
    content = bytearray(path.read_bytes())
    for page in [root, *below[:1]]:  # every child pointer of the root is its first inner child
        start = (page - 1) * 512
        cells = int.from_bytes(content[start + 3 : start + 5], "big")
        for cell in range(cells):
            at = start + 12 + 2 * cell
            pointer = int.from_bytes(content[at : at + 2], "big")
            child = below[0] if page == root else below[1]
            content[start + pointer : start + pointer + 4] = child.to_bytes(4, "big")
    path.write_bytes(content)
    started = time.perf_counter()
    capture(path)
    assert time.perf_counter() - started < 20


@pytest.mark.parametrize("is_logged", [False, True])
def test_a_write_ahead_log_in_a_folder_that_nobody_may_write_is_read(
    is_logged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.defpath)  # where anybody finds the program that copies
    with TemporaryDirectory(prefix="statediff-export-") as made:
        folder = Path(made)
        path = folder / "app.sqlite"
        writer = sqlite3.connect(path, isolation_level=None)
        writer.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;"
            "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2);"
        )
        if is_logged:
            shutil.copyfile(path, folder / "copy.sqlite")
            shutil.copyfile(f"{path}-wal", folder / "copy.sqlite-wal")
        writer.close()
        if is_logged:
            (folder / "copy.sqlite").rename(path)
            (folder / "copy.sqlite-wal").rename(f"{path}-wal")
        files = {each.name: each.read_bytes() for each in folder.iterdir()}
        assert (f"{path.name}-wal" in files) is is_logged
        for each in folder.iterdir():
            each.chmod(0o444)
        folder.chmod(0o555)
        try:
            with unprivileged(), closing(open_database(path)) as connection:
                assert connection.execute("SELECT id FROM t").fetchall() == [(1,), (2,)]
        finally:
            folder.chmod(0o755)
        assert {each.name: each.read_bytes() for each in folder.iterdir()} == files


@contextmanager
def unprivileged() -> Iterator[None]:
    """Run as an account that may do what the modes of files say; root may do anything."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
