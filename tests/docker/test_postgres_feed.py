"""The feed of a real PostgreSQL: it ends in what a scan shows, and tells what came between."""

import pytest

psycopg = pytest.importorskip("psycopg")

from tests.docker.postgres_worlds import LONG, agrees, ids, run, world  # noqa: E402

pytestmark = pytest.mark.docker("postgres")


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    made = world(tmp_path_factory.mktemp("pack"))
    made.start()
    yield made
    made.stop()


def test_nothing_done_is_nothing_told(system):
    told, scan = run(system, [])
    assert agrees(told, scan)
    assert told.seen.transactions == ()
    assert told.seen.gap is None
    assert {doubt.type for doubt in told.doubts} == {"quick"}


def test_a_few_changes_are_told_in_their_order(system):
    told, scan = run(
        system,
        [
            "UPDATE item SET name = 'other' WHERE id = 7",
            "BEGIN; DELETE FROM item WHERE id = 8; INSERT INTO item VALUES (999, 'new'); COMMIT",
            "INSERT INTO item VALUES (8, 'again')",
        ],
    )
    assert agrees(told, scan)
    assert told.seen.gap is None
    first, second, third = (t.state for t in told.seen.transactions)
    assert first.tables["item"].row((7,))["name"] == "other"
    assert 8 in ids(first, "item")
    assert 8 not in ids(second, "item")
    assert 999 in ids(second, "item")
    assert third.tables["item"].row((8,))["name"] == "again"
    assert all(t.committed_at is not None for t in told.seen.transactions)


GATES = {
    "values swapped between rows": [
        "UPDATE item SET name = CASE id WHEN 1 THEN 'item 2' ELSE 'item 1' END WHERE id IN (1, 2)"
    ],
    "numeric scale": ["UPDATE item SET price = price::numeric(10, 4) WHERE id = 1"],
    "negative zero": ["UPDATE item SET size = 0 WHERE id = 1", "UPDATE item SET size = '-0'"],
    "unlogged table": ["INSERT INTO quick VALUES (2, 'b')"],
    "sequence": ["SELECT nextval('numbers')"],
    "sequence within a rolled-back transaction": [
        "BEGIN; SELECT nextval('numbers'); SELECT setval('numbers', 77); ROLLBACK"
    ],
    "column added": [
        "INSERT INTO item VALUES (500, 'n')",
        "ALTER TABLE item ADD COLUMN more int DEFAULT 5",
        "UPDATE item SET more = 6 WHERE id = 3",
    ],
    "trigger added": [
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.name = 'by trigger'; RETURN NEW; END $$",
        "CREATE TRIGGER t BEFORE UPDATE ON item FOR EACH ROW EXECUTE FUNCTION f()",
        "UPDATE item SET ok = NULL WHERE id = 4",
    ],
    "duplicate rows without a key": [
        "INSERT INTO note VALUES ('x', 1), ('z', 9)",
        "DELETE FROM note WHERE body = 'y'",
        "DELETE FROM note WHERE ctid = (SELECT min(ctid) FROM note WHERE body = 'x')",
    ],
    "truncate": ["DELETE FROM base", "TRUNCATE item", "INSERT INTO item VALUES (1, 'back')"],
    "rolled-back work": [
        "BEGIN; DELETE FROM item; ROLLBACK",
        "BEGIN; DELETE FROM item WHERE id = 1; SAVEPOINT s; DELETE FROM item; ROLLBACK TO s; COMMIT",
    ],
    "synchronous_commit off": [
        "SET synchronous_commit = off; DELETE FROM item WHERE id < 9",
    ],
    "values outside their row": [
        "UPDATE wide SET n = 9 WHERE id = 1",
        "UPDATE wide SET body = repeat(md5('other'), 500) WHERE id = 2",
        "DELETE FROM wide WHERE id = 3",
    ],
    "names of 63 bytes": [f'UPDATE "{LONG}" SET v = \'b\'', f'INSERT INTO "{LONG}" VALUES (2)'],
    "dropped table": ["DELETE FROM note WHERE n IS NULL", "DROP TABLE note"],
    "table dropped and made again": [
        "DROP TABLE base CASCADE", "CREATE TABLE base (id int PRIMARY KEY, v text)",
        "INSERT INTO base VALUES (1, 'b')",
    ],
    "view": ["CREATE OR REPLACE VIEW shown AS SELECT id, name, ok FROM item"],
    "materialized view": ["DELETE FROM item WHERE id = 1", "REFRESH MATERIALIZED VIEW kept"],
    "generated column": ["UPDATE sums SET a = 9 WHERE a = 1", "INSERT INTO sums (a) VALUES (4)"],
    "partitioned table": [
        "UPDATE part SET v = 'q' WHERE id = 1",
        "UPDATE part SET region = 's' WHERE id = 2",
        "DELETE FROM part_n WHERE id = 4",
    ],
    "partition attached": [
        "CREATE TABLE part_e PARTITION OF part FOR VALUES IN ('e')",
        "INSERT INTO part VALUES (70, 'e', 'v')",
    ],
    "renamed column": [
        "UPDATE item SET name = 'a' WHERE id = 1", "ALTER TABLE item RENAME name TO title",
        "UPDATE item SET title = 'b' WHERE id = 2",
    ],
    "renamed table": ["ALTER TABLE base RENAME TO moved", "INSERT INTO moved VALUES (5, 'v')"],
    "enum value renamed": ["ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'"],
    "name in a value": ["ALTER TABLE item RENAME TO article"],
    "vacuum": ["DELETE FROM item WHERE id > 20", "VACUUM FULL item", "VACUUM FREEZE note"],
    "large object": ["SELECT lo_from_bytea(4242, 'hidden')"],
    "roles and settings": [
        "ALTER ROLE agent SET search_path = evil", "ALTER ROLE agent PASSWORD 'mine'"
    ],
    "made in the run": [
        "CREATE TABLE fresh (id int, v text)", "INSERT INTO fresh VALUES (1, 'a'), (1, 'a')",
        "CREATE UNLOGGED TABLE swift (id int)", "INSERT INTO swift VALUES (1)",
    ],
    "made and gone in the run": [
        "CREATE TABLE fresh (id int)", "INSERT INTO fresh VALUES (1)", "DROP TABLE fresh"
    ],
    "temporary table": [
        "CREATE TEMP TABLE t AS SELECT * FROM item", "INSERT INTO item SELECT 777, name FROM t"
        " WHERE id = 1",
    ],
    "inheritance": ["UPDATE base SET v = 'all'", "DELETE FROM ONLY base"],
    "copy": ["CREATE TABLE c (a int)", "INSERT INTO note SELECT 'x', n FROM generate_series(1, 900) n"],
    "locked rows": ["BEGIN; SELECT * FROM item WHERE id < 50 FOR UPDATE; COMMIT"],
    "unlogged made logged": ["ALTER TABLE quick SET LOGGED", "INSERT INTO quick VALUES (9, 'z')"],
    "logged made unlogged": ["ALTER TABLE base SET UNLOGGED", "INSERT INTO base VALUES (9, 'z')"],
    "replication role": ["SET session_replication_role = replica"],
}  # fmt: skip


@pytest.mark.parametrize("name", GATES)
def test_what_a_scan_shows_a_feed_has_established(system, name):
    try:
        told, scan = run(system, GATES[name])
    except psycopg.errors.InsufficientPrivilege:
        assert name == "replication role"  # only a superuser may
        return
    assert agrees(told, scan)
    assert told.seen.gap is None
