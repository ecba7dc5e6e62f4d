"""PostgreSQL as a source: all that a database holds, exactly, whatever its owner put into it."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

psycopg = pytest.importorskip("psycopg")

from statediff_postgres.feed import PostgresFeed  # noqa: E402
from statediff_postgres.source import PostgresSource  # noqa: E402
from statediff_postgres.values import MAX_VALUE_BYTES  # noqa: E402

from statediff.contract.document.refinement import refine  # noqa: E402
from statediff.contract.document.schemafile import parse_schema_file  # noqa: E402
from statediff.kernel.diff import diff  # noqa: E402
from statediff.model.schema import Kind  # noqa: E402
from statediff.model.state import Coverage, MemoryChunks  # noqa: E402
from statediff.model.values import ABSENT, Digested, Unobserved, same  # noqa: E402

pytestmark = pytest.mark.docker("postgres")
DDL = "CREATE TABLE item (id int PRIMARY KEY, name text); CREATE TABLE note (body text);"
SEED = "INSERT INTO item VALUES (1, 'a'), (2, 'b'); INSERT INTO note VALUES ('x'), ('x'), (NULL);"


@pytest.fixture
def agent(system):
    system.reset()
    with psycopg.connect(system.url, autocommit=True) as connection:
        yield connection


def now():
    return datetime.now(UTC)


def read(system, like=None):
    (source,) = system.sources()
    return source.read(MemoryChunks(), now, like)


def rows(state, name):
    return [row for _, row in state.tables[name].rows()]


VALUES = [
    ("integer", "-7", Kind.INT, -7),
    ("bigint", "9223372036854775807", Kind.INT, 2**63 - 1),
    ("numeric", "1.50", Kind.DECIMAL, Decimal("1.50")),
    ("numeric", "'NaN'", Kind.DECIMAL, "NaN"),
    ("numeric", "'-Infinity'", Kind.DECIMAL, "-Infinity"),
    ("float8", "'-0'", Kind.FLOAT, -0.0),
    ("float8", "0.1::float8 + 0.2::float8", Kind.FLOAT, 0.1 + 0.2),
    ("float8", "'Infinity'", Kind.FLOAT, float("inf")),
    ("float8", "'NaN'", Kind.FLOAT, float("nan")),
    ("boolean", "true", Kind.BOOL, True),
    ("text", r"E'\t\\N {\"ü\n'", Kind.TEXT, '\t\\N {"ü\n'),
    ("text", r"'\N'", Kind.TEXT, "\\N"),
    ("char(3)", "'a'", Kind.TEXT, "a  "),
    ("bytea", r"'\x00ff'", Kind.BYTES, b"\x00\xff"),
    ("date", "'2024-02-29'", Kind.DATE, date(2024, 2, 29)),
    ("date", "'0044-03-15 BC'", Kind.DATE, "0044-03-15 BC"),
    ("timestamp", "'2024-01-02 03:04:05.6'", Kind.LOCAL_TIMESTAMP,
     datetime(2024, 1, 2, 3, 4, 5, 600000)),  # noqa: DTZ001 - local on purpose
    ("timestamp", "'infinity'", Kind.LOCAL_TIMESTAMP, "infinity"),
    ("timestamptz", "'2024-01-02 03:04:05+02'", Kind.TIMESTAMP,
     datetime(2024, 1, 2, 1, 4, 5, tzinfo=UTC)),
    ("time", "'24:00:00'", Kind.TEXT, "24:00:00"),
    ("interval", "'1 month 30 days'", Kind.TEXT, "1 mon 30 days"),
    ("uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", Kind.TEXT,
     "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("json", """'{"a": 1,  "a": 1.0}'""", Kind.JSON, '{"a": 1,  "a": 1.0}'),
    ("jsonb", """'{"a": [1,1.50,null,"x"]}'""", Kind.JSON, '{"a": [1, 1.50, null, "x"]}'),
    ("jsonb", "'null'", Kind.JSON, "null"),
    ("xml", "'<a>x</a>'", Kind.TEXT, "<a>x</a>"),
    ("int[]", "'{{1,NULL},{3,4}}'", Kind.LIST, ((1, None), (3, 4))),
    ("int[]", "'{}'", Kind.LIST, ()),
    ("int[]", "'[0:1]={1,2}'", Kind.LIST, "[0:1]={1,2}"),
    ("text[]", """array['a,b', 'NULL', NULL, '{x}', 'q"\\', '']""", Kind.LIST,
     ("a,b", "NULL", None, "{x}", 'q"\\', "")),
    ("numeric[]", "'{1.0,1.00}'", Kind.LIST, (Decimal("1.0"), Decimal("1.00"))),
    ("int4range", "'[1,3]'", Kind.TEXT, "[1,4)"),
    ("mood", "'ok'", Kind.TEXT, "ok"),
    ("cents", "1.5", Kind.DECIMAL, Decimal("1.50")),
    ("cents[]", "'{2}'", Kind.LIST, (Decimal("2.00"),)),
    ("pair", "(1, 'x\"y')", Kind.TEXT, '(1,"x""y")'),
    ("bit varying", "B'101'", Kind.TEXT, "101"),
    ("inet", "'10.0.0.1/8'", Kind.TEXT, "10.0.0.1/8"),
]  # fmt: skip


def test_every_type_is_read_exactly_or_kept_as_its_text(system, agent):
    agent.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    agent.execute("CREATE DOMAIN cents AS numeric(12, 2) CHECK (VALUE >= 0)")
    agent.execute("CREATE TYPE pair AS (a int, b text)")
    columns = ", ".join(f"c{n} {entry[0]}" for n, entry in enumerate(VALUES))
    agent.execute(f"CREATE TABLE every (id int PRIMARY KEY, {columns})")
    agent.execute(f"INSERT INTO every VALUES (1, {', '.join(entry[1] for entry in VALUES)})")
    agent.execute("INSERT INTO every (id) VALUES (2)")
    capture = read(system)
    assert capture.reading.is_complete
    types = capture.state.schema.by_name["every"].by_name
    first, second = rows(capture.state, "every")
    for n, (declared, text, kind, value) in enumerate(VALUES):
        assert types[f"c{n}"].kind is kind, declared
        assert same(first[f"c{n}"], value), (declared, text, first[f"c{n}"])
        assert second[f"c{n}"] is None


def test_tables_of_every_shape_are_read_and_rows_without_a_key_are_counted(system, agent):
    long = "ü" * 31
    for statement in (
        f'CREATE TABLE "{long}" ("a ""b" text PRIMARY KEY, item int REFERENCES item (id))',
        f"""INSERT INTO "{long}" VALUES ('z', 1), ('Z', 2), ('é', NULL)""",
        "CREATE TABLE part (id int, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        "CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')",
        "INSERT INTO part VALUES (1, '2024-05-05')",
        "CREATE TABLE child (more text) INHERITS (item)",
        "INSERT INTO child VALUES (9, 'c', 'd')",
        "CREATE UNLOGGED TABLE quick (id int PRIMARY KEY)",
        "INSERT INTO quick VALUES (1)",
        "CREATE TABLE sums (a int, b int GENERATED ALWAYS AS (a * 2) STORED)",
        "INSERT INTO sums VALUES (2)",
        "CREATE VIEW shown AS SELECT 1 AS one",
        "CREATE MATERIALIZED VIEW kept AS SELECT count(*) AS n FROM ONLY item",
        "CREATE TABLE nothing ()",
        "INSERT INTO nothing DEFAULT VALUES",
    ):
        agent.execute(statement)
    state = read(system).state
    assert sorted(str(row["body"]) for row in rows(state, "note")) == ["None", "x", "x"]
    assert [row['a "b'] for row in rows(state, long)] == ["Z", "z", "é"]
    assert state.schema.by_name[long].by_name["item"].reference == "item"
    assert rows(state, "part") == [{"id": 1, "at": date(2024, 5, 5)}]
    assert "part_1" not in state.tables
    assert [row["id"] for row in rows(state, "item")] == [1, 2]
    assert rows(state, "child") == [{"id": 9, "name": "c", "more": "d"}]
    assert rows(state, "quick") == [{"id": 1}]
    assert rows(state, "sums") == [{"a": 2, "b": 4}]
    assert rows(state, "kept") == [{"n": 2}]
    assert "shown" not in state.tables
    assert state.tables["nothing"].row_count == 1
    kinds = {row["name"]: row["kind"] for row in rows(state, "db.table")}
    assert (kinds["part"], kinds["part_1"], kinds["quick"]) == ("partitioned", "partition", "table")
    views = {row["name"]: row["kind"] for row in rows(state, "db.view")}
    assert views == {"shown": "view", "kept": "materialized"}


EVIL = """
CREATE FUNCTION evil() RETURNS boolean LANGUAGE plpgsql VOLATILE AS
  $$ BEGIN RAISE EXCEPTION 'ran as %', current_user; END $$
"""


def test_nothing_that_a_schema_defines_is_run_by_who_reads(system, agent):
    for statement in (
        EVIL,
        "CREATE FUNCTION evil(text) RETURNS text LANGUAGE sql AS 'SELECT evil()::text'",
        "CREATE FUNCTION evil(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT evil()'",
        "CREATE OPERATOR = (FUNCTION = evil, LEFTARG = text, RIGHTARG = text)",
        "CREATE OPERATOR || (FUNCTION = evil, LEFTARG = text, RIGHTARG = text)",
        "CREATE FUNCTION to_jsonb(text) RETURNS text LANGUAGE sql AS 'SELECT evil()::text'",
        "CREATE FUNCTION format_type(oid, int) RETURNS text LANGUAGE sql AS 'SELECT evil()::text'",
        "CREATE TABLE pg_class (x int)",
        "CREATE TYPE pair AS (a int, b text)",
        "CREATE FUNCTION shown(pair) RETURNS text LANGUAGE sql AS 'SELECT evil()::text'",
        "CREATE CAST (pair AS text) WITH FUNCTION shown(pair) AS IMPLICIT",
        "CREATE TABLE trap (id int PRIMARY KEY, p pair, t text DEFAULT evil()::text)",
        "INSERT INTO trap VALUES (1, (1, 'x'), 't')",
        "ALTER TABLE trap ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE trap FORCE ROW LEVEL SECURITY",
        "CREATE POLICY p ON trap USING (evil())",
        "CREATE VIEW v AS SELECT evil()",
        "CREATE RULE r AS ON UPDATE TO trap DO INSTEAD SELECT evil()",
        (
            "CREATE TRIGGER t BEFORE UPDATE ON trap"
            " EXECUTE FUNCTION suppress_redundant_updates_trigger()"
        ),
        "COMMENT ON TABLE trap IS 'boo'",
    ):
        agent.execute(statement)
    capture = read(system)
    assert capture.reading.cause is None
    assert rows(capture.state, "trap") == [{"id": 1, "p": "(1,x)", "t": "t"}]
    assert rows(capture.state, "pg_class") == []
    objects = {
        name: {row["name"] for row in rows(capture.state, f"db.{name}")}
        for name in ("policy", "rule", "trigger", "function", "view", "type")
    }
    assert objects["policy"] == {"p"}
    assert objects["rule"] == {"r"}
    assert objects["trigger"] == {"t"}
    assert "public.evil()" in objects["function"]
    others = {(row["kind"], row["name"]) for row in rows(capture.state, "db.object")}
    assert ("cast", "(public.pair AS pg_catalog.text)") in others
    assert ("operator", "public.||(pg_catalog.text,pg_catalog.text)") in others
    assert ("comment", "table public.trap") in others


SAYS = """
CREATE FUNCTION says() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
  IF current_user <> 'agent' THEN PERFORM set_config('extra_float_digits', '-14', false); END IF;
  RETURN current_user <> 'agent' OR current_setting('agent.sees', true) = 'yes'; END $$
"""


def test_no_index_hides_rows_and_no_function_of_one_is_run_by_who_reads(system, agent):
    """To the agent its index is of no rows; to who reads it would be of all, and the cheapest."""
    for statement in (
        SAYS,
        "CREATE TABLE many (id int PRIMARY KEY, f float8)",
        "CREATE TABLE few (id int PRIMARY KEY, f float8)",
        "CREATE TABLE wide (id int PRIMARY KEY, f float8, t text)",
        "CREATE TABLE cut (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE cut_low PARTITION OF cut FOR VALUES FROM (0) TO (9)",
        "INSERT INTO many SELECT n, 0.1 FROM generate_series(1, 2000) n",
        (
            "INSERT INTO wide SELECT n, 0, string_agg(md5((n * m)::text), '')"
            " FROM generate_series(1, 9) n, generate_series(1, 900) m GROUP BY n"
        ),
        "SET agent.sees = yes",
        "CREATE INDEX ON many (id) WHERE says()",
        "CREATE INDEX ON wide (id) WHERE says()",
        "CREATE INDEX ON cut (id) WHERE says()",
        "CREATE STATISTICS on_few ON (f + says()::int::float8), id FROM few",
        "SET agent.sees = no",
        "INSERT INTO many VALUES (9999, 0.1)",
        "UPDATE many SET f = 0.1000000000000001 WHERE id = 3",
        "INSERT INTO few VALUES (1, 0.1000000000000001)",
        "ANALYZE many",
    ):
        agent.execute(statement)
    capture = read(system)
    found = {row["id"]: row["f"] for row in rows(capture.state, "many")}
    assert (len(found), found[9999], found[3]) == (2001, 0.1, 0.1000000000000001)
    assert rows(capture.state, "few") == [{"id": 1, "f": 0.1000000000000001}]
    for name in ("cut", "wide"):
        told = capture.state.tables[name].enumeration
        assert told.coverage is Coverage.UNOBSERVED
        assert "a function of the database" in told.cause


def test_privileges_settings_sequences_and_large_objects_are_entities(system, agent):
    before = read(system).state
    for statement in (
        "GRANT SELECT (name) ON item TO PUBLIC",
        "REVOKE UPDATE ON item FROM agent",
        "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
        "CREATE SEQUENCE numbers",
        "SELECT setval('numbers', 40, false)",
        "ALTER ROLE agent SET search_path = evil",
        "ALTER ROLE agent PASSWORD 'mine'",
        "SELECT lo_from_bytea(77777, 'hidden')",
    ):
        agent.execute(statement)
    after = read(system, before).state
    grants = {(r["role"], r["object"], r["privilege"]) for r in rows(after, "db.grant")}
    assert grants - {
        (r["role"], r["object"], r["privilege"]) for r in rows(before, "db.grant")
    } == {
        ("public", "column item.name", "SELECT"),
        ("agent", "table item", "without UPDATE"),
        ("public", "to come: r of agent", "SELECT"),
    }
    assert [(r["name"], r["value"]) for r in rows(after, "db.sequence")] == [
        ("numbers", "40 comes first")
    ]
    settings = {r["name"]: r["value"] for r in rows(after, "db.setting")}
    assert settings["role agent search_path"] == "evil"
    passwords = [
        next(r["password"] for r in rows(state, "db.role") if r["name"] == "agent")
        for state in (before, after)
    ]
    assert passwords[0] != passwords[1]
    assert "SCRAM" not in str(passwords)
    (large,) = rows(after, "db.large_object")
    assert (large["id"], large["size_bytes"], large["owner"]) == (77777, 6, "agent")
    names = {r["name"] for r in rows(after, "db.database")}
    assert names == {"postgres", "store"}


def test_what_a_run_does_to_columns_and_tables_shows_against_the_state_before(system, agent):
    before = read(system).state
    for statement in (
        "ALTER TABLE item ADD COLUMN price int",
        "UPDATE item SET price = 5 WHERE id = 1",
        "ALTER TABLE item RENAME COLUMN name TO title",
        "DROP TABLE note",
        "CREATE TABLE fresh (id int PRIMARY KEY)",
    ):
        agent.execute(statement)
    after = read(system, before).state
    first = rows(after, "item")[0]
    assert first["name"] is ABSENT
    assert (first["title"], first["price"]) == ("a", 5)
    assert after.tables["note"].row_count == 0
    assert after.tables["note"].enumeration.is_complete
    assert after.tables["fresh"].enumeration.is_complete


def test_what_is_locked_or_huge_is_unobserved_and_the_rest_stands(system, agent):
    agent.execute("CREATE TABLE big (id int PRIMARY KEY, t text, j jsonb)")
    agent.execute(
        "INSERT INTO big VALUES (1, repeat('x', %s), '{}'), (2, 's', to_jsonb(repeat('y', %s)))",
        (MAX_VALUE_BYTES + 1, MAX_VALUE_BYTES + 1),
    )
    with psycopg.connect(system.url) as other:
        other.execute("LOCK TABLE note IN ACCESS EXCLUSIVE MODE")
        capture = read(system)
    assert not capture.reading.is_complete
    assert "note: unread: it was locked" in capture.reading.cause
    assert capture.state.tables["note"].enumeration.coverage is Coverage.UNOBSERVED
    assert len(rows(capture.state, "item")) == 2
    first, second = rows(capture.state, "big")
    assert first["t"] == Digested.of("x" * (MAX_VALUE_BYTES + 1))
    assert first["j"] == "{}"
    assert second["t"] == "s"
    assert isinstance(second["j"], Unobserved)


def test_wide_values_are_told_by_digest_by_scan_and_by_feed(system, agent):
    agent.execute(
        "CREATE TABLE doc (id int PRIMARY KEY, b bytea, t text, v varchar(20), c char(4))"
    )
    agent.execute("INSERT INTO doc VALUES (1, '\\x00ff', 'ä long text', 'short', 'c')")
    agent.execute("INSERT INTO doc SELECT 2, sha512(x::text::bytea), NULL, '', 'd' FROM now() x")
    text = (
        "schema: docs\nversion: 1.0.0\nentities:\n  doc:\n    fields:\n"
        "      b: {digest_above_bytes: 0}\n      t: {digest_above_bytes: 8}\n"
        "      v: {digest_above_bytes: 0}\n      c: {digest_above_bytes: 0}\n"
    )
    (plain,) = system.sources()
    (feed,) = system.feeds()
    how = refine(parse_schema_file(text.encode(), "schema.yaml"), plain.name)
    source = PostgresSource(plain.name, plain._url, how, plain.own_databases)
    feed = PostgresFeed(source, feed._admin, feed._read_log)
    store = MemoryChunks()
    feed.attach()
    try:
        before = source.read(store, now, None).state
        first, second = rows(before, "doc")
        assert (first["b"], first["t"], first["v"], first["c"]) == (
            Digested.of(b"\0\xff"), Digested.of("ä long text"), Digested.of("short"), "c   ",
        )  # fmt: skip
        assert (second["b"].size_bytes, second["t"], second["v"]) == (64, None, "")
        agent.execute("UPDATE doc SET b = b || '\\x01', t = 'another text' WHERE id = 1")
        agent.execute("UPDATE doc SET b = b, v = '' WHERE id = 2")
        told = feed.establish(store, now, before)
    finally:
        feed.detach()
    after = source.read(store, now, before).state
    assert not told.doubts
    assert told.part.state.digest() == after.digest()
    assert [d.id for d in diff(before, after).deltas] == ["doc[1].b", "doc[1].t"]
    agent.execute("CREATE FUNCTION f(t text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT t'")
    agent.execute("CREATE INDEX by_f ON doc (f(v))")  # whoever plans a query on it may run `f`
    assert rows(source.read(store, now, before).state, "doc") == rows(after, "doc")
