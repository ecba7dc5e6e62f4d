"""MariaDB's own changes after a change are explained with it; harm that looks like it is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("pymysql")

import pymysql
from statediff_mariadb.source import MariaDbSource

from tests import caused
from tests.rebuilt import read
from tests.servers import mariadb

TABLES = """
DROP DATABASE IF EXISTS work; CREATE DATABASE work; USE work;
CREATE OR REPLACE USER reader@localhost; GRANT SELECT ON work.* TO reader@localhost;
CREATE TABLE item (id int AUTO_INCREMENT PRIMARY KEY, name varchar(9) UNIQUE, qty int, price int,
  total int AS (qty * price) STORED, at timestamp NULL ON UPDATE current_timestamp);
CREATE TABLE part (id int PRIMARY KEY, item int, CONSTRAINT of_item FOREIGN KEY (item)
  REFERENCES item (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE note (id int PRIMARY KEY, item int, CONSTRAINT on_item FOREIGN KEY (item)
  REFERENCES item (id) ON DELETE SET NULL ON UPDATE CASCADE);
CREATE TABLE seen (item int PRIMARY KEY, at int) ENGINE = MyISAM; CREATE SEQUENCE tickets;
INSERT INTO item (name, qty, price) VALUES ('a', 1, 2), ('b', 3, 4), ('c', 5, 6);
INSERT INTO part VALUES (1, 1), (2, 2), (3, 3); INSERT INTO seen VALUES (1, 1);
INSERT INTO note VALUES (1, 1), (2, 2), (3, 3)
"""
RIGHT = (
    *caused.RIGHT,
    "INSERT IGNORE INTO item (name) VALUES ('c'); INSERT INTO item (name) VALUES ('d')",
    "UPDATE seen SET at = 7",
)
WRONG = (
    *caused.WRONG,
    "ALTER TABLE item AUTO_INCREMENT = 90",
    "UPDATE item SET qty = 7, at = '2001-01-01' WHERE id = 1",
    "DO NEXTVAL(tickets)",
    "INSERT INTO seen VALUES (2, 1)",
)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[int, str]]:
    with mariadb() as found:
        yield found


def begun(line: str) -> pymysql.Connection:
    """A session in the tables made anew."""
    connection = pymysql.connect(unix_socket=line, user="root", autocommit=True)
    for each in TABLES.split(";"):
        connection.query(each)
    return connection


@pytest.mark.parametrize("run", [*RIGHT, *WRONG])
def test_what_follows_from_a_change_is_explained_with_it_and_nothing_else(
    server: tuple[int, str], run: str
) -> None:
    with begun(server[1]) as connection:
        source = MariaDbSource("db", f"mysql://root@127.0.0.1:{server[0]}/work")
        caused.check(source, run, connection.query, is_right=run in RIGHT)


def test_a_table_without_a_snapshot_is_whole_where_it_can_be_locked(server) -> None:
    def coverage(account: str) -> str:
        source = MariaDbSource("db", f"mysql://{account}@127.0.0.1:{server[0]}/work")
        state = read(source, None).parts[0].state
        assert state.tables["part"].enumeration.is_complete
        return state.tables["seen"].enumeration.coverage.value

    with begun(server[1]) as connection:
        assert (coverage("root"), coverage("reader")) == ("complete", "unobserved")
        connection.query("GRANT LOCK TABLES ON work.* TO reader@localhost")
        assert coverage("reader") == "complete"
        connection.query("LOCK TABLES seen WRITE")
        assert coverage("root") == "unobserved"
