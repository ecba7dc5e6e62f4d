"""PostgreSQL's own changes after a change are explained with it; harm that looks like it is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("psycopg")

import psycopg
from statediff_postgres.source import PostgresSource

from tests import caused
from tests.servers import postgres

TABLES = """
CREATE TABLE item (id serial PRIMARY KEY, name text UNIQUE, qty int, price int,
  total int GENERATED ALWAYS AS (qty * price) STORED);
CREATE TABLE part (id int PRIMARY KEY, item int REFERENCES item ON DELETE CASCADE
  ON UPDATE CASCADE);
CREATE TABLE note (id int PRIMARY KEY, item int REFERENCES item ON DELETE SET NULL
  ON UPDATE CASCADE);
CREATE TABLE seen (item int PRIMARY KEY, at int) PARTITION BY RANGE (item);
CREATE TABLE seen_1 PARTITION OF seen DEFAULT; CREATE TABLE told (item int);
CREATE RULE tell AS ON UPDATE TO seen WHERE NEW.at > 90 DO ALSO INSERT INTO told VALUES (NEW.item);
INSERT INTO item (name, qty, price) VALUES ('a', 1, 2), ('b', 3, 4), ('c', 5, 6);
INSERT INTO part VALUES (1, 1), (2, 2), (3, 3); INSERT INTO seen VALUES (1, 1);
INSERT INTO note VALUES (1, 1), (2, 2), (3, 3);
CREATE VIEW dear AS SELECT id, total FROM item WHERE total > 1;
CREATE MATERIALIZED VIEW sums AS SELECT sum(total) AS total, round(avg(total), 2) AS mean FROM dear;
CREATE MATERIALIZED VIEW old AS SELECT count(*) AS n FROM part; INSERT INTO part VALUES (4, 3)
"""
SUMS = "REFRESH MATERIALIZED VIEW sums"
MORE = "UPDATE item SET qty = 9 WHERE id = 1"
RIGHT = (
    *caused.RIGHT,
    "INSERT INTO item (name) VALUES ('c'), ('d') ON CONFLICT DO NOTHING",
    f"{MORE}; {SUMS}; UPDATE item SET qty = 1 WHERE id = 1; {SUMS}",
)
WRONG = (
    *caused.WRONG,
    "UPDATE seen SET at = 99",  # a rule writes
    "SELECT nextval('item_id_seq')",
    "REFRESH MATERIALIZED VIEW old",
    f"{MORE}; REFRESH MATERIALIZED VIEW old",
    f"{MORE}; {SUMS}",
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres() as port:
        place = f"postgresql://postgres@127.0.0.1:{port}"
        with psycopg.connect(f"{place}/postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE base")
        with psycopg.connect(f"{place}/base", autocommit=True) as connection:
            connection.execute(TABLES.encode())
        yield place


@pytest.mark.parametrize("run", [*RIGHT, *WRONG])
def test_what_follows_from_a_change_is_explained_with_it_and_nothing_else(
    url: str, run: str
) -> None:
    with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS work WITH (FORCE)")
        connection.execute("CREATE DATABASE work TEMPLATE base")
    with psycopg.connect(f"{url}/work", autocommit=True) as connection:
        source = PostgresSource("db", f"{url}/work")
        caused.check(source, run, connection.execute, is_right=run in RIGHT)
