"""A real PostgreSQL in a container: put back, proven, and found wanting where it was changed."""

import time
from datetime import UTC, datetime

import pytest

psycopg = pytest.importorskip("psycopg")

from statediff_containers.database import AGENT_CONNECTIONS, PLACE  # noqa: E402
from statediff_postgres.sandbox import PostgresSystem  # noqa: E402

from sandboxes.containers.tests.docker.logical import logical_types  # noqa: E402
from statediff.capture.source import SourceUnavailable  # noqa: E402
from statediff.model.state import MemoryChunks  # noqa: E402
from statediff.packs import sandbox_pack  # noqa: E402

pytestmark = pytest.mark.docker("postgres")

DDL = """
CREATE TABLE item (id serial PRIMARY KEY, name text NOT NULL);
CREATE TABLE note (item int REFERENCES item (id), body text);
"""
SEED = "INSERT INTO item (name) VALUES ('a'), ('b'); INSERT INTO note VALUES (1, 'x');"


def now():
    return datetime.now(UTC)


@pytest.fixture
def fresh(system):
    system.reset()
    proof, drift = system.verify()
    assert drift == ()
    assert proof.expected == proof.found
    assert proof.entities == 3
    return system


def as_agent(system, *statements):
    with psycopg.connect(system.url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def as_owner(system, *statements):
    with system._running().admin() as connection:
        for statement in statements:
            connection.execute(statement)


def drifted(system):
    proof, drift = system.verify()
    assert (proof.expected == proof.found) is not bool(drift)
    return {entry.what for entry in drift}


def test_what_an_agent_changes_is_found_by_the_proof_and_gone_after_a_reset(fresh):
    as_agent(
        fresh,
        "UPDATE note SET body = 'y'",
        "BEGIN",
        "INSERT INTO item (name) VALUES ('rolled back')",
        "ROLLBACK",
        "SELECT lo_from_bytea(0, 'hidden')",
        "CREATE VIEW v AS SELECT 1 AS one",
    )
    found = {entry.partition(" (")[0] for entry in drifted(fresh)}
    assert {"table note", "sequence item_id_seq", "table pg_rewrite"} <= found
    assert {"table pg_largeobject", "table pg_largeobject_metadata"} <= found
    fresh.reset()
    assert drifted(fresh) == set()


def test_a_sequence_alone_is_found(fresh):
    as_agent(fresh, "SELECT nextval('item_id_seq')")
    assert [entry.partition(" (")[0] for entry in drifted(fresh)] == ["sequence item_id_seq"]


def test_bytes_changed_behind_the_server_are_found_though_size_and_time_are_put_back(fresh):
    server = fresh._running()
    deadline = time.monotonic() + 30
    while not server.spares.prepare().files.done():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    fresh.reset()
    known = server._used.known_files()
    assert known is not None
    assert known.touched
    assert drifted(fresh) == set()
    with server.admin() as admin:
        oid, node = admin.execute(
            "SELECT d.oid, %s::text FROM pg_database d WHERE datname = 'store'",
            [next(n for n, held in server._made.names.items() if held == "table note")],
        ).fetchone()
    file = f"{PLACE}/data/base/{oid}/{node}"
    script = (
        f"touch -r {file} /tmp/then; printf x | dd of={file} bs=1 seek=8000 conv=notrunc;"
        f" touch -r /tmp/then {file}"
    )
    server.container.check("sh", "-c", script, user="65531:65531")
    assert {entry.partition(" (")[0] for entry in drifted(fresh)} == {"table note"}


def test_a_clone_wanted_before_it_was_digested_is_digested_in_its_trial(fresh):
    for _ in range(2):
        fresh.reset()
        assert drifted(fresh) == set()
    as_agent(fresh, "UPDATE note SET body = 'y'")
    assert {entry.partition(" (")[0] for entry in drifted(fresh)} >= {"table note"}


def test_the_owners_connection_is_opened_anew_where_the_server_ended_it(fresh):
    server = fresh._running()
    with server.admin() as admin:
        pid = admin.info.backend_pid
    with server.apart() as other:
        other.execute("SELECT pg_terminate_backend(%s, 2000)", [pid])
    assert fresh.unsettled(time.monotonic() + 5) is None
    assert drifted(fresh) == set()


def test_what_outlives_a_database_is_found_and_the_server_is_made_anew(fresh):
    before = fresh._running().container
    as_agent(fresh, "ALTER ROLE agent PASSWORD 'mine'", "ALTER ROLE agent SET search_path = evil")
    assert drifted(fresh) == {"password of role agent", "setting of role agent in (all databases)"}
    fresh.reset()
    assert drifted(fresh) == set()
    assert fresh._running().container is not before


def test_what_only_a_superuser_can_change_is_found(fresh):
    as_owner(
        fresh,
        "ALTER SYSTEM SET work_mem = '77MB'",
        "CREATE DATABASE beside TEMPLATE pristine",
        "CREATE ROLE second LOGIN",
        "GRANT pg_read_all_data TO agent",
        "ALTER DATABASE store SET work_mem = '77MB'",
        "ALTER ROLE agent SUPERUSER",
    )
    assert drifted(fresh) >= {
        "file postgresql.auto.conf",
        "database beside",
        "role second",
        "membership of agent in pg_read_all_data",
        "setting of role (all) in store",
        "role agent",
    }
    fresh.reset()
    assert drifted(fresh) == set()


def test_an_ordinary_reset_keeps_the_server_and_gives_the_agent_another_password(fresh):
    before, url = fresh._running().container, fresh.url
    as_agent(fresh, "DELETE FROM note")
    fresh.reset()
    assert fresh._running().container is before
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    as_agent(fresh, "SELECT 1")


def test_reading_changes_nothing_that_the_proof_looks_at(fresh):
    (source,) = fresh.sources()
    reading = source.read(MemoryChunks(), now, None).reading
    assert reading.is_complete
    as_agent(fresh, "SELECT * FROM item")
    assert drifted(fresh) == set()


def test_the_agent_reaches_no_database_but_its_own_and_no_file(fresh):
    for database in ("postgres", "template1", "pristine"):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(fresh.url.rpartition("/")[0] + f"/{database}")
    for statement in (
        "COPY item TO PROGRAM 'cat > /tmp/out'",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT rolpassword FROM pg_authid",
        "CREATE SCHEMA elsewhere",
        "CREATE DATABASE mine",
        "SET ROLE statediff_reader",
    ):
        with pytest.raises(psycopg.Error):
            as_agent(fresh, statement)


def test_an_open_write_is_waited_for_and_named_when_the_wait_is_over(fresh):
    assert fresh.unsettled(time.monotonic()) is None
    with psycopg.connect(fresh.url) as connection:
        connection.execute("UPDATE note SET body = 'z'")
        assert "still open" in fresh.unsettled(time.monotonic() + 0.1)
    assert fresh.unsettled(time.monotonic()) is None


def test_an_agent_that_takes_every_connection_it_can_get_does_not_keep_the_evaluator_out(fresh):
    taken = [psycopg.connect(fresh.url) for _ in range(AGENT_CONNECTIONS)]
    with pytest.raises(psycopg.OperationalError, match="too many connections for role"):
        psycopg.connect(fresh.url)
    (source,) = fresh.sources()
    assert source.read(MemoryChunks(), now, None).reading.is_complete
    for connection in taken:
        connection.close()


def test_a_connection_kept_open_does_not_outlive_the_reset(fresh):
    with psycopg.connect(fresh.url, autocommit=True) as connection:
        connection.execute("UPDATE note SET body = 'z'")
        fresh.reset()
        assert drifted(fresh) == set()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("UPDATE note SET body = 'z'")


def test_a_server_that_was_unplugged_cannot_be_read_until_the_next_reset(fresh):
    (source,) = fresh.sources()
    fresh.unplug("store")
    with pytest.raises(SourceUnavailable):
        source.read(MemoryChunks(), now, None)
    assert fresh.unsettled(time.monotonic()) is not None
    _, drift = fresh.verify()
    assert drift
    fresh.reset()
    assert drifted(fresh) == set()
    (source,) = fresh.sources()
    assert source.read(MemoryChunks(), now, None).reading.is_complete


@pytest.mark.parametrize("pack", ["shop", "accounts"])
def test_the_logical_types_are_those_of_the_embedded_variant(tmp_path, pack):
    (embedded,) = (s for s in sandbox_pack(pack).sources if s.kind == "sqlite")
    (served,) = (s for s in sandbox_pack(pack, "postgres").sources if s.kind == "postgres")
    from statediff.systems.sqlite.sandbox import EmbeddedDatabase  # noqa: PLC0415

    one = EmbeddedDatabase(embedded, (), tmp_path / "one")
    one.reset()
    other = PostgresSystem(served, (), tmp_path / "other")
    other.start()
    try:
        other.reset()
        found = [s.sources()[0].read(MemoryChunks(), now, None).state for s in (one, other)]
    finally:
        other.stop()
    expected, actual = map(logical_types, found)
    assert actual == expected
    for name in expected:
        rows = [dict(state.tables[name].rows()) for state in found]
        assert rows[0] == rows[1], name
