"""The feed of a real PostgreSQL: it ends in what a scan shows, and tells what came between."""

from dataclasses import replace

import pytest

psycopg = pytest.importorskip("psycopg")

from statediff_postgres import feed as postgres_feed  # noqa: E402
from statediff_postgres.past import commits_between  # noqa: E402

from sandboxes.postgres.tests.docker.postgres_worlds import LONG, Watched, agrees, ids, run, world  # noqa: E402
from statediff.capture.source import SourceUnavailable, SourceUnfollowed  # noqa: E402
from statediff.model.explanation import by_run  # noqa: E402
from statediff.model.state import Coverage  # noqa: E402

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
        """CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.name = 'by trigger'; RETURN NEW; END $$""",
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
        "BEGIN; DELETE FROM item WHERE id = 1; SAVEPOINT s; DELETE FROM item",
        "ROLLBACK TO s; COMMIT",
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
    "tables that exchanged their names": [
        "ALTER TABLE base RENAME TO aside", "ALTER TABLE note RENAME TO base",
        "ALTER TABLE aside RENAME TO note", "DELETE FROM base",
    ],
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
        "CREATE TEMP TABLE t AS SELECT * FROM item",
        "INSERT INTO item SELECT 777, name FROM t WHERE id = 1",
    ],
    "inheritance": ["UPDATE base SET v = 'all'", "DELETE FROM ONLY base"],
    "many rows": ["INSERT INTO note SELECT 'x', n FROM generate_series(1, 900) n"],
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


def test_a_page_that_the_log_leaves_out_is_found_by_looking_at_pages(system, monkeypatch):
    def blind(*given):
        return tuple(replace(commit, touched={}) for commit in commits_between(*given))

    system.reset()
    watched = Watched(system)
    watched.feed.check_pages()
    with psycopg.connect(system.url, autocommit=True) as agent:
        agent.execute("SET synchronous_commit = off; DELETE FROM part WHERE id = 1")
    monkeypatch.setattr(postgres_feed, "commits_between", blind)
    with pytest.raises(SourceUnavailable, match="rows of part changed on pages that its log"):
        watched.end()


def test_pages_that_hold_no_other_rows_are_no_reason_to_doubt(system):
    system.reset()
    watched = Watched(system)
    watched.feed.check_pages()
    with psycopg.connect(system.url, autocommit=True) as agent:
        for statement in (
            "BEGIN; DELETE FROM item; INSERT INTO note VALUES ('gone', 1); ROLLBACK",
            "BEGIN; SELECT * FROM item WHERE id < 90 FOR UPDATE; COMMIT",
            "VACUUM (FREEZE) wide", "UPDATE item SET name = name WHERE id = 1",
        ):  # fmt: skip
            agent.execute(statement)
    told, scan = watched.end()
    assert agrees(told, scan)
    assert {doubt.type for doubt in told.doubts} == {"quick"}


def told_of(system, *statements):
    told, scan = run(system, statements)
    assert agrees(told, scan)
    assert told.seen.gap is None
    return [t.state for t in told.seen.transactions]


def grants(state):
    return {(r["role"], r["object"], r["privilege"]) for _, r in state.tables["db.grant"].rows()}


def test_a_privilege_that_was_held_for_a_moment_is_witnessed(system):
    states = told_of(
        system,
        "GRANT SELECT ON item TO PUBLIC",
        "UPDATE item SET name = 'seen' WHERE id = 1",
        "REVOKE SELECT ON item FROM PUBLIC",
        "UPDATE item SET name = 'hidden' WHERE id = 1",
    )
    leak = ("public", "table item", "SELECT")
    assert [leak in grants(state) for state in states] == [True, True, False, False]


def test_a_role_that_was_held_for_a_moment_is_witnessed(system):
    system.reset()
    watched = Watched(system)
    with system._running().admin() as owner:
        owner.execute("GRANT pg_read_all_data TO agent")
        owner.execute("ALTER ROLE agent CREATEDB")
        owner.execute("REVOKE pg_read_all_data FROM agent")
        owner.execute("ALTER ROLE agent NOCREATEDB")
    told, scan = watched.end()
    assert agrees(told, scan)
    first, second, third, _ = (t.state for t in told.seen.transactions)
    assert first.tables["db.membership"].row(("pg_read_all_data", "agent")) is not None
    assert second.tables["db.role"].row(("agent",))["may_create_databases"] is True
    assert third.tables["db.membership"].row(("pg_read_all_data", "agent")) is None
    assert third.tables["db.role"].row(("agent",))["may_create_databases"] is True


def test_a_setting_and_a_large_object_of_a_moment_are_witnessed(system):
    first, second, third, fourth = told_of(
        system,
        "ALTER ROLE agent SET search_path = evil",
        "ALTER ROLE agent RESET search_path",
        "SELECT lo_from_bytea(4242, 'hidden')",
        "SELECT lo_unlink(4242)",
    )
    name = ("role agent search_path",)
    assert first.tables["db.setting"].row(name)["value"] == "evil"
    assert second.tables["db.setting"].row(name) is None
    assert third.tables["db.large_object"].row((4242,))["size_bytes"] == 6
    assert fourth.tables["db.large_object"].row((4242,)) is None


def test_a_row_deleted_and_made_again_is_witnessed(system):
    for table, columns in (("note", "body, n"), ("item", "id, name, price, size, ok")):
        counts = [
            state.tables[table].row_count
            for state in told_of(
                system,
                f"CREATE TEMP TABLE copy AS SELECT {columns} FROM {table}",
                f"DELETE FROM {table}",
                f"INSERT INTO {table} SELECT * FROM copy",
            )
        ]
        assert 0 in counts
        assert counts[0] == counts[-1] > 0


def test_a_trigger_that_was_off_for_a_moment_is_known_to_be_off_there(system):
    told = told_of(
        system,
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
        "CREATE TRIGGER t BEFORE DELETE ON item FOR EACH ROW EXECUTE FUNCTION f()",
        "ALTER TABLE item DISABLE TRIGGER t",
        "DELETE FROM item WHERE id = 1",
        "ALTER TABLE item ENABLE TRIGGER t",
    )
    coverage = [state.tables["db.trigger"].enumeration.coverage for state in told]
    assert coverage[2] is coverage[3] is Coverage.INCOMPLETE
    assert ids(told[2], "db.trigger", "enabled") == ids(told[3], "db.trigger", "enabled") == ["D"]
    assert coverage[1] is coverage[4] is Coverage.COMPLETE
    assert all(state.tables["item"].enumeration.is_complete for state in told)
    assert [len(ids(state, "item")) for state in told] == [300, 300, 300, 299, 299]


def test_a_table_truncated_in_the_run_is_empty_at_that_moment_and_unobserved_before(system):
    written, emptied, filled = told_of(
        system, "DELETE FROM item WHERE id = 1", "TRUNCATE item", "INSERT INTO item VALUES (1)"
    )
    assert written.tables["item"].enumeration.coverage is Coverage.UNOBSERVED
    assert "truncated" in written.tables["item"].enumeration.cause
    assert (emptied.tables["item"].row_count, filled.tables["item"].row_count) == (0, 1)


def test_a_write_to_an_unlogged_table_that_was_undone_is_not_taken_for_nothing(system):
    (between,) = told_of(
        system, "INSERT INTO quick VALUES (2, 'b')", "DELETE FROM quick WHERE id = 2"
    )[:1]
    assert between.tables["quick"].enumeration.coverage is Coverage.UNOBSERVED


def test_two_transactions_at_once_are_told_in_the_order_of_their_commits(system):
    system.reset()
    watched = Watched(system)
    with (
        psycopg.connect(system.url, autocommit=True) as one,
        psycopg.connect(system.url, autocommit=True) as other,
        psycopg.connect(system.url, autocommit=True) as open_still,
    ):
        open_still.execute("BEGIN; DELETE FROM item WHERE id = 5")
        one.execute("BEGIN; DELETE FROM item WHERE id = 1")
        other.execute("BEGIN; DELETE FROM item WHERE id = 2")
        other.execute("COMMIT")
        one.execute("COMMIT")
        told, scan = watched.end()
    assert agrees(told, scan)
    first, second = (t.state for t in told.seen.transactions)
    assert (1 in ids(first, "item"), 2 in ids(first, "item")) == (True, False)
    assert (1 in ids(second, "item"), 5 in ids(second, "item")) == (False, True)


def test_whoever_waits_for_old_snapshots_does_not_wait_for_a_feed(system):
    system.reset()
    watched = Watched(system)
    with psycopg.connect(system.url, autocommit=True) as agent:
        agent.execute("SET statement_timeout = '60s'")
        agent.execute("CREATE INDEX CONCURRENTLY by_name ON item (name)")
    with pytest.raises(SourceUnavailable, match="let go"):
        watched.end()


def test_a_feed_whose_transaction_was_ended_cannot_tell(system):
    system.reset()
    watched = Watched(system)
    with system._running().admin() as owner:
        owner.execute(
            "SELECT pg_terminate_backend(%s)", (watched.feed._hold.past.info.backend_pid,)
        )
    with pytest.raises(SourceUnavailable):
        watched.end()


def test_more_transactions_than_are_told_are_the_runs_doing(system, monkeypatch):
    monkeypatch.setattr("statediff_postgres.intermediate.MAX_TRANSACTIONS", 1)
    told, scan = run(system, ["UPDATE item SET name = 'x'", "UPDATE item SET name = 'y'"])
    assert agrees(told, scan)
    assert told.seen.gap == by_run("there are more than 1 transactions")


def test_a_log_that_grows_too_much_is_the_runs_doing(system, monkeypatch):
    monkeypatch.setattr("statediff_postgres.past.MAX_LOG_BYTES", 1)
    with pytest.raises(SourceUnfollowed, match=r"^caused by the run: its log grew"):
        run(system, ["UPDATE item SET name = 'x'"])


def test_nothing_of_a_feed_is_left(system):
    system.reset()
    watched = Watched(system)
    with system._running().admin() as owner:
        slots = "SELECT count(*) FROM pg_replication_slots"
        assert owner.execute(slots).fetchone() == (1,)
        watched.feed.detach()
        watched.feed.detach()
        assert owner.execute(slots).fetchone() == (0,)
        left = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        assert owner.execute(left).fetchone() == (0,)
    system.reset()
    _, drift = system.verify()
    assert drift == ()


MOVE_AND_UNDO = ["BEGIN", "SELECT nextval('numbers')", "ROLLBACK"]
RENAME = ["UPDATE item SET name = 'named' WHERE id = 1"]


@pytest.mark.parametrize(
    ("statements", "named"),
    [
        (RENAME, [True]),
        (["INSERT INTO note SELECT 'n', nextval('numbers')"], [True]),
        # The log does not tell whose number that was, and one state shows both.
        ([*MOVE_AND_UNDO, *RENAME], [False]),
        ([*RENAME, *MOVE_AND_UNDO], [False]),
        # With a state between, the number is nobody's and the changes are each one's own.
        ([*MOVE_AND_UNDO, *RENAME, "UPDATE note SET n = 7 WHERE body = 'y'"], [True, True]),
        (MOVE_AND_UNDO, [False]),
    ],
)
def test_a_transaction_has_its_number_for_a_name_where_its_changes_are_surely_its(
    system, statements, named
):
    told, _ = run(system, statements)
    assert told.seen.gap is None
    names = [transaction.names for transaction in told.seen.transactions]
    assert [bool(found) for found in names] == named
    assert all(found[0].isdigit() for found in names if found)
    assert len(set(names)) == len(names)
