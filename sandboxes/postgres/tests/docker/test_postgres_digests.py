"""A table of which the server tells by digests what changed is what reading all of it shows."""

import random
from contextlib import contextmanager

import pytest

psycopg = pytest.importorskip("psycopg")

from statediff_postgres import digests as postgres_digests  # noqa: E402
from statediff_postgres.source import PostgresSource  # noqa: E402

from sandboxes.postgres.tests.docker.postgres_worlds import now, world  # noqa: E402
from sandboxes.postgres.tests.docker.test_postgres_feed_laws import IS_FUZZ, RUNS, step  # noqa: E402
from statediff.model import bulk  # noqa: E402
from statediff.model.state import MemoryChunks  # noqa: E402

pytestmark = pytest.mark.docker("postgres")
TOP = 2**63 - 1
STEPS = 40 if IS_FUZZ else 8
DDL = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE wide (id int PRIMARY KEY, body text, n int);
ALTER TABLE wide ALTER body SET STORAGE EXTERNAL;
CREATE TABLE t (t int PRIMARY KEY, sent text, "record_send" text, x numeric, d float8, low0 text);
CREATE TABLE far (id bigint PRIMARY KEY, v text);
CREATE TABLE pair (a smallint, b bigint, v text, PRIMARY KEY (b, a));
CREATE TABLE kinds (id int PRIMARY KEY, a bytea, b jsonb, c int[], d interval, e timestamptz,
  f uuid, g inet, h char(4), i numeric[], j time, k bit(3), l json, m date);
CREATE TABLE named (code text PRIMARY KEY, v int);
CREATE TABLE mooded (id int PRIMARY KEY, how mood);
"""
SEED = """
INSERT INTO wide SELECT n, '', n FROM generate_series(1, 24) n;
INSERT INTO t SELECT n, 's', 'r', 1, 0, '' FROM generate_series(1, 160) n;
INSERT INTO far SELECT n * 10, 'v' FROM generate_series(-10, 10) n;
INSERT INTO pair SELECT n % 5, n / 5, 'v' FROM generate_series(1, 40) n;
INSERT INTO kinds SELECT n, '\\x00', '{"a": 1.0}', '{1,NULL}', '1 day', '2024-01-01 00:00:00Z',
  'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '10.0.0.1', 'a', '{1.0}', '00:00', B'101',
  '{"a":1}', '2024-01-01' FROM generate_series(1, 160) n;
INSERT INTO named SELECT 'n' || n, n FROM generate_series(1, 20) n;
INSERT INTO mooded SELECT n, 'ok' FROM generate_series(1, 20) n;
"""


class Run:
    """A run from a base that was read, and how each later reading came by its tables."""

    def __init__(self, system, agent, monkeypatch):
        self._system, self._store = system, MemoryChunks()
        self.agent = agent
        (self._source,) = system.sources()
        self.anew: dict[str, int] = {}
        """Table → how many chunks were read anew; a table that was read whole is not there."""
        compared = postgres_digests.Digests.compared

        def noted(digests, query, like):
            found = compared(digests, query, like)
            if found is not None:
                self.anew[query.relation.name] = len(found.changed)
            return found

        monkeypatch.setattr(postgres_digests.Digests, "compared", noted)
        self.again()

    def same(self, *statements: str):
        """The state by digests after the statements, which is the state by reading all rows."""
        for each in statements:
            self.agent.execute(each)
        self.anew.clear()
        told = self._source.read(self._store, now, self.before.state)
        url = self._system._running().reader_url
        own = self._source.own_databases
        whole = PostgresSource("store", url, None, own, reads_all=True)
        read = whole.read(self._store, now, self.before.state)
        assert told.state == read.state
        assert told.reading.digest == read.reading.digest
        assert told.reading.cause == read.reading.cause
        assert told.state.digest() == read.state.digest()
        return told.state

    def again(self):
        """The base is as it is now."""
        self.before = self._source.read(self._store, now, None)

    def anew_after(self, table: str, *statements: str) -> int | None:
        """How many of its chunks are read anew after these; None where all of it is."""
        self.same(*statements)
        return self.anew.get(table)


@contextmanager
def begun(system, monkeypatch):
    monkeypatch.setattr(bulk, "CHUNK_KEYS", 4)
    monkeypatch.setattr(postgres_digests, "LEAST_CHUNKS", 2)
    system.reset()
    with psycopg.connect(system.url, autocommit=True) as agent:
        yield Run(system, agent, monkeypatch)


@pytest.fixture
def run(system, monkeypatch):
    with begun(system, monkeypatch) as made:
        yield made


def test_only_chunks_that_changed_are_read_and_rows_outside_all_of_them_are_found(run):
    assert run.anew_after("far", "SELECT 1") == 0
    assert run.anew_after("far", f"INSERT INTO far VALUES ({-TOP - 1}, 'low')") == 1
    assert run.anew_after("far", f"INSERT INTO far VALUES ({TOP}, 'high')") == 2
    assert run.anew_after("far", "DELETE FROM far WHERE id < -1000 OR id > 1000") == 0
    assert run.anew_after("far", "UPDATE far SET id = 5 WHERE id = 0") == 1
    assert run.anew_after("pair", "UPDATE pair SET v = 'w' WHERE (a, b) = (1, 4)") == 1
    assert run.anew_after("pair", "UPDATE pair SET a = -32768, b = 9 WHERE (a, b) = (1, 4)") == 2
    assert run.anew_after("far", "UPDATE far SET v = 'all'") is None
    assert run.anew_after("far", "TRUNCATE far") is None
    again = "INSERT INTO far SELECT n * 10, 'v' FROM generate_series(10, -10, -1) n"
    assert run.anew_after("far", again) == 0, "the same rows in other places are the same"
    # Of a chunk that grew the server digests the first rows only: that is no digest of it.
    assert run.anew_after("far", "INSERT INTO far SELECT n, 'x' FROM generate_series(1, 9) n") == 1
    run.before = run._source.read(run._store, now, run.before.state)
    assert run.anew_after("far", "DELETE FROM far WHERE id = 9") == 1
    assert run.anew_after("far", "UPDATE far SET v = 'y' WHERE id = 8") == 1


CHANGES = {
    "t": [
        "x = 1.0", "d = '-0'", "d = 'NaN'", "x = 'NaN'", "sent = NULL", "sent = ''",
        "sent = 'r', record_send = 's'", "low0 = ' '", "low0 = NULL, sent = ''",
    ],
    "kinds": [
        "a = '\\x0000'", "b = '{\"a\": 1.00}'", "c = '[0:1]={1,NULL}'", "c = '{1,0}'",
        "c = '{{1}}'", "d = '24:00:00'", "e = '2024-01-01 00:00:00.000001Z'", "f = NULL",
        "g = '10.0.0.1/31'", "h = 'b'", "i = '{1.00}'", "j = '24:00'", "k = B'100'",
        "l = '{\"a\": 1}'", "m = 'infinity'", "e = 'infinity'",
    ],
}  # fmt: skip


@pytest.mark.parametrize("table", CHANGES)
def test_a_value_that_is_written_otherwise_is_a_change_though_it_may_equal(run, table):
    key = "t" if table == "t" else "id"
    for at, change in enumerate(CHANGES[table]):
        run.agent.execute(f"UPDATE {table} SET {change} WHERE {key} = {4 * at + 1}")
    assert run.anew_after(table, "SELECT 1") == len(CHANGES[table])


def test_values_outside_their_rows_are_digested_and_those_too_large_are_as_they_were(run):
    body = "UPDATE wide SET body = repeat(md5('x'), 9000), n = 0"
    run.agent.execute(body)
    run.again()
    assert run.anew_after("wide", "SELECT 1") == 0
    change = "UPDATE wide SET body = overlay(body PLACING '!' FROM 200000) WHERE id = 5"
    assert run.anew_after("wide", change) == 1
    assert run.anew_after("wide", "UPDATE wide SET body = repeat('x', 17000000) WHERE id = 5") == 1


ALTERED = [
    "ALTER TABLE {0} DROP CONSTRAINT {0}_pkey",
    "ALTER TABLE {0} ADD COLUMN more int",
    "ALTER TABLE {0} ALTER COLUMN v TYPE varchar(20)",
    "ALTER TABLE {0} RENAME COLUMN v TO w",
    "ALTER TABLE {0} RENAME TO near",
    "ALTER TABLE {0} ALTER COLUMN id TYPE numeric",
    "ALTER TABLE {0} DROP CONSTRAINT {0}_pkey, ADD PRIMARY KEY (other, id)",
    "CREATE DOMAIN small AS bigint; ALTER TABLE {0} ALTER COLUMN other TYPE small",
    "CREATE TABLE low (LIKE {0}); DROP TABLE {0}; ALTER TABLE low RENAME TO {0}",
]


def test_a_table_without_what_a_digest_needs_is_read_whole(run):
    names = [f"far{at}" for at in range(len(ALTERED) + 1)]
    for name in names:
        run.agent.execute(f"CREATE TABLE {name} AS SELECT id, v, id AS other FROM far")
        run.agent.execute(f"ALTER TABLE {name} ADD PRIMARY KEY (id, other)")
    run.again()
    run.same()
    assert run.anew.keys() >= set(names)
    assert not run.anew.keys() & {"named", "mooded"}, "text, and a type of the database"
    run.same(*(each.format(name) for each, name in zip(ALTERED, names, strict=False)))
    assert run.anew.keys() & {*names, "near", "low"} == {names[-1]}


def test_nothing_that_an_agent_defines_takes_part(run):
    attacks = [
        "CREATE FUNCTION public.record_send(t) RETURNS bytea LANGUAGE sql AS $$SELECT ''::bytea$$",
        (
            "CREATE FUNCTION public.record_send(record) RETURNS bytea LANGUAGE plpgsql"
            " AS $$BEGIN RETURN ''; END$$"
        ),
        "CREATE FUNCTION public.sha256(bytea) RETURNS bytea LANGUAGE sql AS $$SELECT ''::bytea$$",
        "CREATE FUNCTION same(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false'",
        "CREATE OPERATOR public.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = public.same)",
        "CREATE OPERATOR public.>= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = public.same)",
        "CREATE AGGREGATE public.string_agg(bytea, bytea) (SFUNC = byteacat_, STYPE = bytea)",
        "ALTER ROLE agent SET search_path = public, pg_catalog",
        "CREATE CAST (t AS bytea) WITH INOUT AS IMPLICIT",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
        "CREATE POLICY most ON t USING (t <> 2)",
        "CREATE STATISTICS public.lies ON sent, low0 FROM t",
        "ALTER TABLE t ALTER COLUMN t SET STATISTICS 0",
        "CREATE INDEX ON t (t) WHERE t < 0",
        "ALTER TABLE t ADD CONSTRAINT low CHECK (t < 150) NOT VALID",
        "ANALYZE t",
        "CREATE TEMP TABLE t (LIKE public.t)",
    ]
    for each in attacks:
        with_failures(run.agent, each)
    assert run.anew_after("t", "SELECT 1") == 0
    assert run.anew_after("t", "UPDATE public.t SET sent = 'lie' WHERE t = 40") == 1
    assert run.anew_after("t", "UPDATE public.t SET t = -5 WHERE t = 150") == 3


def with_failures(agent, statement):
    try:
        agent.execute(statement)
    except psycopg.Error:
        assert "byteacat_" in statement or "CAST" in statement, statement


@contextmanager
def owner(system):
    """The server's owner, in the database that is watched."""
    url = system._running()._url("postgres", system.database)
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize(
    ("change", "back"),
    [
        ("ALTER TYPE int8 SET (SEND = public.lie)", "ALTER TYPE int8 SET (SEND = int8send)"),
        (
            (
                "CREATE OR REPLACE FUNCTION pg_catalog.sha256(bytea) RETURNS bytea LANGUAGE sql"
                " IMMUTABLE STRICT AS $$SELECT pg_catalog.sha224($1)$$"
            ),
            (
                "CREATE OR REPLACE FUNCTION pg_catalog.sha256(bytea) RETURNS bytea IMMUTABLE"
                " STRICT PARALLEL SAFE LEAKPROOF LANGUAGE internal AS 'sha256_bytea'"
            ),
        ),
    ],
)
def test_what_was_digested_by_other_functions_of_the_server_is_not_believed(
    run, system, change, back
):
    assert run.anew_after("far", "SELECT 1") == 0
    with owner(system) as admin:
        admin.execute("CREATE FUNCTION public.lie(int8) RETURNS bytea LANGUAGE internal IMMUTABLE"
                      " STRICT AS 'int8send'")  # fmt: skip
        admin.execute(change)
        try:
            assert run.anew_after("far", "SELECT 1") is None
        finally:
            admin.execute(back)


def test_a_server_that_refuses_a_digest_is_read_whole(run, monkeypatch):
    monkeypatch.setattr(postgres_digests, "_PLANNED", ("statement_timeout = 1",))
    monkeypatch.setattr(
        postgres_digests, "_statement", lambda *_: "SELECT 0, 1, pg_sleep(1)::text::bytea"
    )
    assert run.anew_after("far", "UPDATE far SET v = 'w' WHERE id = 0") is None


@pytest.fixture(scope="module")
def varied(tmp_path_factory):
    made = world(tmp_path_factory.mktemp("pack"))
    made.start()
    yield made
    made.stop()


@pytest.mark.timeout(7200 if IS_FUZZ else 180)
@pytest.mark.parametrize("seed", range(1000, 1000 + (RUNS if IS_FUZZ else 1)))
def test_after_random_transactions_digests_tell_what_reading_all_tells(varied, monkeypatch, seed):
    with begun(varied, monkeypatch) as run:
        try_transactions(run, seed)


def try_transactions(run, seed):
    draw = random.Random(seed)
    done, by_digest = [], 0
    for _ in range(STEPS):
        done.append(step(run.agent, draw))
        try:
            state = run.same()
        except AssertionError as error:
            raise AssertionError(done) from error
        by_digest += len(run.anew)
        if draw.random() < 0.3:  # a later base is as good
            run.before = run._source.read(run._store, now, run.before.state)
            assert run.before.state == state
    assert by_digest > STEPS
