"""Indexes of PostgreSQL that do not have what their tables have are state: `db.structure`."""

import re
from datetime import UTC, datetime

import pytest

psycopg = pytest.importorskip("psycopg")

from statediff_postgres import queries  # noqa: E402
from statediff_postgres.catalogue import read_catalogue  # noqa: E402

from statediff.kernel.diff import diff  # noqa: E402
from statediff.model.state import MemoryChunks  # noqa: E402
from statediff.systems.relational.structure import STRUCTURE  # noqa: E402

pytestmark = pytest.mark.docker("postgres")
BODY = "CREATE OR REPLACE FUNCTION slug(t text) RETURNS text IMMUTABLE LANGUAGE sql AS "
RIGHT, OTHER = f"{BODY} $$SELECT lower(t)$$", f"{BODY} $$SELECT 'hidden'$$"
DDL = f"""
CREATE TABLE page (id int PRIMARY KEY, title text NOT NULL);
{RIGHT};
CREATE INDEX by_slug ON page (slug(title));
CREATE TABLE word (id int PRIMARY KEY, w text);
"""
SEED = """
INSERT INTO page SELECT n, 'Page ' || n FROM generate_series(1, 50) n;
INSERT INTO word SELECT n, 'w' || n FROM generate_series(1, 50) n;
"""
HARMFUL = {
    "a row is written under another function": (
        OTHER, "UPDATE page SET title = 'Page x' WHERE id = 7", RIGHT,
    ),
    "an index over a function that fails since": (
        f"{BODY} $$SELECT (1 / (length(t) - length(t)))::text$$",
    ),
}  # fmt: skip
HARMLESS = {
    "rows come, change and go": (
        "INSERT INTO page VALUES (51, 'New')", "UPDATE page SET title = 'Other' WHERE id = 3",
        "DELETE FROM page WHERE id = 4", "REINDEX TABLE page",
    ),
    "an index over a function is made": ("CREATE INDEX more ON word (slug(w))",),
}  # fmt: skip


def now() -> datetime:
    return datetime.now(UTC)


def compared(system, statements):
    """The diff of two scans, and of what the feed establishes with the first."""
    system.reset()
    (source,), (feed,) = system.sources(), system.feeds()
    store = MemoryChunks()
    feed.attach()
    try:
        before = source.read(store, now, None).state
        with psycopg.connect(system.url, autocommit=True) as agent:
            for statement in statements:
                agent.execute(statement)
        by_scan = source.read(store, now, before).state
        told = feed.establish(store, now, before)
    finally:
        feed.detach()
    assert told.part.state.tables[STRUCTURE] == by_scan.tables[STRUCTURE]
    return diff(before, by_scan), by_scan.tables[STRUCTURE]


@pytest.mark.parametrize("name", HARMFUL)
def test_what_an_index_lost_in_a_run_is_a_change(system, name):
    found, table = compared(system, HARMFUL[name])
    assert table.enumeration.is_complete
    assert [row["object"] for _, row in table.rows()] == ["by_slug"]
    assert [d for d in found.deltas if d.type == STRUCTURE]


@pytest.mark.parametrize("name", HARMLESS)
def test_ordinary_work_leaves_indexes_sound(system, name):
    found, table = compared(system, HARMLESS[name])
    assert table.enumeration.is_complete
    assert not [d for d in (*found.deltas, *found.doubts) if d.type == STRUCTURE]


def test_an_index_that_no_check_knows_is_unobserved(system):
    found, table = compared(system, ("CREATE INDEX by_hash ON page USING hash (slug(title))",))
    assert "is no B-tree" in str(table.enumeration.cause)
    assert [d for d in found.doubts if d.type == STRUCTURE]


MADE = """
CREATE FUNCTION less(text, text) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT $1 < $2';
CREATE FUNCTION compared(text, text) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1';
CREATE OPERATOR <<< (LEFTARG = text, RIGHTARG = text, FUNCTION = less);
CREATE OPERATOR FAMILY kin USING btree;
CREATE TEXT SEARCH CONFIGURATION words (COPY = simple);
CREATE TEXT SEARCH DICTIONARY plain (TEMPLATE = simple);
CREATE DOMAIN small AS int CONSTRAINT is_small CHECK (VALUE < 100);
CREATE TYPE span AS RANGE (subtype = float8);
CREATE SEQUENCE numbers;
CREATE TABLE link (id int PRIMARY KEY, page int REFERENCES page);
CREATE VIEW shown AS SELECT * FROM page;
CREATE POLICY own ON page USING (id > 0);
CREATE PUBLICATION told FOR TABLE page;
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE FUNCTION seen() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE TRIGGER note BEFORE INSERT ON page FOR EACH ROW EXECUTE FUNCTION noted();
CREATE EVENT TRIGGER watch ON ddl_command_end EXECUTE FUNCTION seen();
CREATE FOREIGN DATA WRAPPER wrapper;
CREATE SERVER far FOREIGN DATA WRAPPER wrapper;
CREATE FOREIGN TABLE away (id int) SERVER far;
CREATE USER MAPPING FOR PUBLIC SERVER far;
"""
ALTERED = """
ALTER OPERATOR FAMILY kin USING btree ADD OPERATOR 1 <<< (text, text)
ALTER OPERATOR FAMILY kin USING btree ADD FUNCTION 1 (text, text) compared(text, text)
ALTER TEXT SEARCH CONFIGURATION words ALTER MAPPING FOR asciiword WITH plain
UPDATE pg_collation SET collversion = '1' WHERE collname = 'C.utf8'
UPDATE pg_database SET datcollversion = '9' WHERE datname = current_database()
ALTER TABLE page DISABLE TRIGGER note
ALTER TABLE link DISABLE TRIGGER ALL
ALTER EVENT TRIGGER watch ENABLE REPLICA
ALTER POLICY own ON page USING (true)
ALTER TABLE page FORCE ROW LEVEL SECURITY
CREATE RULE r AS ON UPDATE TO shown DO INSTEAD DELETE FROM word
UPDATE pg_rewrite SET ev_enabled = 'D' WHERE ev_class = 'shown'::regclass AND rulename = '_RETURN'
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC
ALTER PUBLICATION told SET TABLE page WHERE (id > 3)
ALTER DOMAIN small RENAME CONSTRAINT is_small TO was_small
ALTER DOMAIN small ADD CONSTRAINT more CHECK (VALUE > 0) NOT VALID
UPDATE pg_range SET rngsubdiff = 'float8mi'::regproc WHERE rngtypid = 'span'::regtype
ALTER TABLE page REPLICA IDENTITY USING INDEX page_pkey
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'page_pkey'::regclass
ALTER SEQUENCE numbers OWNER TO agent
ALTER SEQUENCE numbers SET UNLOGGED
ALTER TABLE page ALTER title SET STATISTICS 7
ALTER TABLE page ALTER title SET (n_distinct = 3)
ALTER TABLE page ALTER title SET STORAGE EXTERNAL
ALTER TABLE page SET (toast.autovacuum_enabled = off)
ALTER FOREIGN TABLE away OPTIONS (ADD x 'y')
ALTER USER MAPPING FOR PUBLIC SERVER far OPTIONS (ADD a 'b')
ALTER INDEX page_pkey DEPENDS ON EXTENSION plpgsql
ALTER EXTENSION plpgsql ADD TABLE link
GRANT EXECUTE ON FUNCTION pg_read_file(text) TO agent
GRANT SELECT ON pg_authid TO agent
ALTER FUNCTION pg_catalog.lower(text) SECURITY DEFINER
GRANT CREATE ON TABLESPACE pg_default TO agent
ALTER LANGUAGE plpgsql OWNER TO agent
COMMENT ON ROLE agent IS 'x'
""".strip().splitlines()
KEPT = (
    "VACUUM FULL",
    "VACUUM FREEZE",
    "ANALYZE",
    "CLUSTER page USING page_pkey",
    "REINDEX SYSTEM store",
    "REINDEX TABLE CONCURRENTLY page",
    "CREATE TEMP TABLE passing (id int)",
)


@pytest.fixture(scope="module")
def server(system):
    """The owner's connection, and a function that reads the catalogue as it is now."""
    system.reset()
    running = system._running()
    with (
        running.apart(running.database) as owner,
        psycopg.connect(running.reader_url, autocommit=True) as reader,
    ):
        reader.execute("SET search_path = pg_catalog")
        reader.execute("SET jit = off")
        owner.execute("SET search_path = public")
        owner.execute("SET allow_system_table_mods = on")
        owner.execute(MADE)

        def objects():
            found = read_catalogue(reader).objects
            return {name: sorted(map(str, rows)) for name, rows in found.items()}

        def in_one_look():
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            try:
                return objects()
            finally:
                reader.execute("ROLLBACK")

        yield owner, in_one_look


def test_what_keeps_a_server_in_order_changes_nothing_in_the_catalogue(server):
    owner, objects = server
    before = objects()
    for statement in KEPT:
        owner.execute(statement)
        assert objects() == before, statement


def test_nothing_that_an_owner_can_alter_is_left_out_of_the_catalogue(server):
    owner, objects = server
    unseen, now = [], objects()
    for statement in ALTERED:
        before = now
        owner.execute(statement)
        now = objects()
        unseen += [statement] * (now == before)
    assert not unseen, unseen


NOT_READ = {
    "pg_init_privs",
    "pg_seclabel",
    "pg_shdepend",
    "pg_shseclabel",
    "pg_statistic",
    "pg_statistic_ext_data",
    "pg_subscription_rel",
}
"""What the server makes of the rest, counts, or has only with a module of its own."""
BY_FUNCTION = frozenset({"pg_partitioned_table"})
"""What a function of the server tells that a listing calls."""


def test_every_catalogue_of_the_server_is_read_or_known_not_to_be(server):
    owner, _ = server
    found = owner.execute(
        "SELECT relname::text FROM pg_class WHERE relkind = 'r'"
        " AND relnamespace = 'pg_catalog'::regnamespace"
    ).fetchall()
    asked = " ".join(listing.query for listing in queries.LISTINGS)
    read = set(re.findall(r"\bpg_[a-z_]+\b", asked)) | BY_FUNCTION
    assert {name for (name,) in found} - read == NOT_READ
