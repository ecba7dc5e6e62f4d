"""Adapters of a gate held to the kit, each on the real system."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import pytest
from statediff_gate.conformance import MADE, TRANSACTIONS, AdapterSuite, named, require_alike
from statediff_gate.journal import Journal
from statediff_gate.mariadb import MariaDbGate
from statediff_gate.participant import Participant, Refused
from statediff_gate.postgres import PostgresGate
from statediff_gate.sqlite import SqliteGate
from statediff_mariadb.session import connected
from statediff_mariadb.source import MariaDbSource
from statediff_postgres.source import PostgresSource

from gate.tests.servers import LOG, ask, programs, server
from statediff.errors import UsageError
from statediff.model.state import MemoryChunks, State
from statediff.systems.sqlite.source import SqliteSource
from tests.servers import mariadb

LOGGED = "CREATE TRIGGER logged AFTER UPDATE ON orders"
INTO = "INSERT INTO audit VALUES (new.status, new.id)"
needs_server = pytest.mark.skipif(programs() is None, reason="no PostgreSQL with test_decoding")


def now() -> datetime:
    return datetime.now(UTC)


class TestSqlite(AdapterSuite):
    transactions: ClassVar = {
        **TRANSACTIONS,
        "replace": ("INSERT OR REPLACE INTO orders VALUES (7, 3, 'again', 1)",),
        "a counter": (
            "CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT)",
            "INSERT INTO counted (v) VALUES ('x')",
        ),
        "a wide value": (f"UPDATE customer SET name = '{'ü' * 300_000}' WHERE id = 1",),
        "bytes": ("UPDATE customer SET email = X'00FF' WHERE id = 1",),
        "a trigger": ("CREATE TRIGGER t AFTER INSERT ON audit BEGIN SELECT 1; END",),
        "statistics": ("ANALYZE",),
    }

    def make(self, tmp_path: Path) -> Path:
        path = tmp_path / "shop.sqlite"
        with sqlite3.connect(path) as made:
            for each in (*MADE, f"{LOGGED} BEGIN {INTO}; END"):
                made.execute(each)
            made.execute("PRAGMA journal_mode = wal")
        made.close()
        return path

    def open(self, place: Path) -> Participant:
        return SqliteGate("shop", place)

    def look(self, place: Path, like: State | None) -> State:
        return SqliteSource("shop", place).read(MemoryChunks(), now, like).state


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server() as url:
        yield url


@needs_server
class TestPostgres(AdapterSuite):
    transactions: ClassVar = {
        **TRANSACTIONS,
        "truncate": ("TRUNCATE pair",),
        "a function": ("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",),
        "a grant": ("GRANT SELECT ON orders TO PUBLIC",),
        "kinds of values": ("INSERT INTO kinds SELECT * FROM more_kinds",),
        "large values": (
            "UPDATE large SET n = 2", "UPDATE large SET body = body || 'x' WHERE id = 1",
        ),
        "a part": ("UPDATE part SET v = 'q' WHERE id = 2", "DELETE FROM part WHERE id = 1"),
        "rows of a savepoint": (("DO $$BEGIN INSERT INTO pair VALUES (9, 'q', 1); EXCEPTION WHEN"
                               " unique_violation THEN NULL; END$$"),),
    }  # fmt: skip

    @pytest.fixture(autouse=True)
    def at(self, url: str) -> None:
        self._url = url

    def make(self, tmp_path: Path) -> str:
        name = f"made_{abs(hash(tmp_path))}"
        ask(self._url, f"CREATE DATABASE {name}")
        place = self._url.replace("/shop", f"/{name}")
        ask(place, *MADE, OWN)
        return place

    def open(self, place: str) -> Participant:
        return PostgresGate("shop", place, place, None, Journal(Path("/nonexistent")))

    def look(self, place: str, like: State | None) -> State:
        return PostgresSource("shop", place).read(MemoryChunks(), now, like).state


OWN = f"""
CREATE FUNCTION logged() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {INTO}; RETURN NULL; END$$;
{LOGGED} FOR EACH ROW EXECUTE FUNCTION logged();
ALTER TABLE audit REPLICA IDENTITY FULL;
CREATE TYPE mood AS ENUM ('sad', 'it''s ok');
CREATE TABLE kinds (id int PRIMARY KEY, b boolean, f float8, d numeric, t timestamptz, l timestamp,
  day date, j jsonb, a text[], m mood, y bytea, bits bit(3), i interval, "odd ""name[" int,
  twice int GENERATED ALWAYS AS (id * 2) STORED);
CREATE TABLE more_kinds AS SELECT 1 AS id, true AS b, 'NaN'::float8 AS f, 12.50::numeric AS d,
  '2026-03-01 10:00:00.5+02'::timestamptz AS t, '2026-03-01 10:00:00'::timestamp AS l,
  '2026-03-01'::date AS day, '{{"a": [1, null, "it''s"]}}'::jsonb AS j,
  ARRAY['x,y', NULL, 'q"'] AS a, 'it''s ok'::mood AS m, '\\x00ff'::bytea AS y,
  B'101'::bit(3) AS bits, '1 day 02:00'::interval AS i, 5 AS odd;
CREATE TABLE large (id int PRIMARY KEY, body text, n int);
ALTER TABLE large ALTER body SET STORAGE EXTERNAL;
INSERT INTO large SELECT n, repeat(md5(n::text), 400), 1 FROM generate_series(1, 2) n;
CREATE TABLE part (id int, region text, v text, PRIMARY KEY (id, region))
  PARTITION BY LIST (region);
CREATE TABLE part_n PARTITION OF part FOR VALUES IN ('n');
CREATE TABLE part_s PARTITION OF part FOR VALUES IN ('s');
INSERT INTO part VALUES (1, 'n', 'a'), (2, 's', 'b');
"""
"""What PostgreSQL alone has: a trigger, kinds of values, large values, partitions."""


STRUCTURE = ("a new table", "a new column", "a table less", "an index", "a view")
ENDS = """COMMIT|{}|/**/ {}|-- x\n{}|#\n{}|/*! {} */|/*M!100100 {} */|(/*!{}*/|/*/ SELECT */ {}
|--\n{}|-- \0{}|EXECUTE IMMEDIATE 'XA END {xid}'|PREPARE p FROM 'XA END {xid}'
|EXECUTE IMMEDIATE 'COMMIT'|BEGIN NOT ATOMIC {}; END|IF 1 THEN {}; END IF
|CASE 1 WHEN 1 THEN {}; END CASE|a: LOOP {}; END LOOP|WHILE 1 DO {}; END WHILE
|REPEAT {}; UNTIL 1 END REPEAT|FOR i IN 1..1 DO {}; END FOR|SELECT 1; {}
|SET STATEMENT max_statement_time = 5 FOR {}|SET/**/STATEMENT sort_buffer_size=9 FOR {}
|SET ROLE NONE|LOCK TABLES pair READ|SET foreign_key_checks = 0|SET @@`check_constraint_checks` = 0
|SET PASSWORD = PASSWORD('x')|CREATE TEMPORARY TABLE pair (id int)""".replace("\n|", "|").split("|")


@pytest.fixture(scope="module")
def maria() -> Iterator[str]:
    with mariadb(*LOG) as (port, _):
        yield f"mysql://root@127.0.0.1:{port}/"


class TestMariaDb(AdapterSuite):
    transactions: ClassVar = {
        **{name: each for name, each in TRANSACTIONS.items() if name not in STRUCTURE},
        "a chain": ("DELETE FROM orders WHERE id = 9", "DELETE FROM customer WHERE id = 3"),
        "null by a key": ("DELETE FROM large WHERE id = 1",),
        "rows of a savepoint": ("CALL undone()", "-- a comment\nSELECT 1"),
        "kinds": ("INSERT INTO large (id, d, j) VALUES (9, 1.50, '{\"a\": 1}')",),
    }  # fmt: skip

    @pytest.fixture(autouse=True)
    def at(self, maria: str) -> None:
        self._url = maria

    def make(self, tmp_path: Path) -> str:
        name = f"made_{abs(hash(tmp_path))}"
        own = (
            "DELETE FROM mysql.db WHERE db LIKE 'test%'", "FLUSH PRIVILEGES",
            f"CREATE DATABASE {name}", f"USE {name}",
            *(each.replace("b TEXT", "b VARCHAR(9)") for each in MADE),
            f"{LOGGED} FOR EACH ROW {INTO}",
            "CREATE TABLE large (id int PRIMARY KEY, d decimal(9, 2), j json)",
            "INSERT INTO large VALUES (1, 1, NULL)",
            ("CREATE TABLE after (id int PRIMARY KEY, large int, FOREIGN KEY (large) REFERENCES"
             " large (id) ON DELETE SET NULL)"),
            "INSERT INTO after VALUES (1, 1), (2, NULL)",
            "CREATE PROCEDURE undone() BEGIN SAVEPOINT s; DELETE FROM pair; ROLLBACK TO s; END",
            "CREATE PROCEDURE unchecked() SET foreign_key_checks = 0",
            f"CREATE USER {name}@localhost", f"GRANT ALL ON {name}.* TO {name}@localhost",
        )  # fmt: skip
        ask(f"{self._url}mysql", *own)
        return self._url + name

    def open(self, place: str) -> Participant:
        account = place.replace("root@", f"{place.rpartition('/')[2]}@")
        return MariaDbGate("shop", place, account, None, Journal(Path("/nonexistent")))

    def look(self, place: str, like: State | None) -> State:
        return MariaDbSource("shop", place).read(MemoryChunks(), now, like).state

    def test_structure_and_what_would_end_it_are_refused(self, place: str) -> None:
        system = self.open(place)
        system.require_account()
        before = self.look(place, None)
        try:
            for each in (*ENDS, *(TRANSACTIONS[name][0] for name in STRUCTURE)):
                name = named(system, "ends")
                system.begin(name)
                system.run("DELETE FROM pair")
                xid = f"'{name}', '{place.rpartition('/')[2]}'"
                with pytest.raises(Refused):
                    system.run(each.format(f"XA END {xid}", xid=xid.replace("'", "''")))
                system.abort()
        finally:
            system.close()
        require_alike(before, self.look(place, before), "structure")

    def test_no_transaction_leaves_a_setting_or_a_table_to_the_next(self, place: str) -> None:
        system = self.open(place)
        system.begin(named(system, "one"))
        system.run("SET profiling = 1, sql_mode = '', @a = 1")
        system.abort()
        system.begin(named(system, "two"))
        assert system.run("SELECT @@profiling, @a").rows == ((0, None),)
        assert system.run("SHOW PROFILES").rows == ()
        system.run("CALL unchecked()")
        assert "turned off" in (system.prepare().doubt or "")
        system.abort()
        table = f"{place.rpartition('/')[2]}.old (id int PRIMARY KEY)"
        with connected(place, 60)[0] as made:
            made.query(f"CREATE TABLE {table} ENGINE=Aria WITH SYSTEM VERSIONING")
        system.begin(named(system, "three"))
        assert "Aria" in (system.prepare().doubt or "")
        system.close()
        with pytest.raises(UsageError, match="Aria"):
            self.open(place).require_account()
