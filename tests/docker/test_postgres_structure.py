"""Indexes of PostgreSQL that do not have what their tables have are state: `db.structure`."""

from datetime import UTC, datetime

import pytest

psycopg = pytest.importorskip("psycopg")

from statediff.diff import diff  # noqa: E402
from statediff.model.state import MemoryChunks  # noqa: E402
from statediff.packs import PackSource  # noqa: E402
from statediff.systems.postgres.sandbox import PostgresSystem  # noqa: E402
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


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pack")
    (folder / "ddl.sql").write_text(DDL)
    (folder / "seed.sql").write_text(SEED)
    files = {"ddl": folder / "ddl.sql", "seed": folder / "seed.sql"}
    made = PostgresSystem(PackSource("store", "postgres", None, files), (), folder / "own")
    made.start()
    yield made
    made.stop()


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


def test_a_rule_of_a_view_and_a_constraint_that_is_off_are_state(system):
    system.reset()
    (source,) = system.sources()
    store = MemoryChunks()
    with system._running().apart("store") as owner:
        owner.execute("SET search_path = public")
        owner.execute("CREATE VIEW shown AS SELECT * FROM page")
        owner.execute("CREATE TABLE link (page int REFERENCES page)")
        before = source.read(store, now, None).state
        owner.execute("CREATE RULE r AS ON UPDATE TO shown DO INSTEAD DELETE FROM word")
        owner.execute("ALTER TABLE link DISABLE TRIGGER ALL")
        after = source.read(store, now, before).state
    assert {"db.rule", "db.trigger"} <= {d.type for d in diff(before, after).deltas}
