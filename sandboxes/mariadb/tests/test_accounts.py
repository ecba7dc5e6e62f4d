"""Five accounts of a MariaDB database: what they may do with it is seen by what they read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

pytest.importorskip("pymysql")

import pymysql
from statediff_mariadb.source import MariaDbSource

from statediff.model.verdict import Verdict
from tests.account_bench import Account
from tests.contract.drafts import LEFT, require_law, tried
from tests.servers import mariadb

ACCOUNTS = ("root", "own", "ro", "one", "tab")
BASE = """
CREATE TABLE customer (id int AUTO_INCREMENT PRIMARY KEY, name varchar(40) NOT NULL,
  mood enum('good', 'bad') DEFAULT 'good', email varchar(40) UNIQUE,
  seen timestamp NOT NULL DEFAULT '2020-01-01 00:00:00' ON UPDATE current_timestamp);
CREATE TABLE invoice (id int AUTO_INCREMENT PRIMARY KEY, customer int, qty int NOT NULL DEFAULT 1,
  price int, total int AS (qty * price) STORED, CONSTRAINT positive CHECK (qty > 0),
  KEY by_customer (customer),
  CONSTRAINT of_customer FOREIGN KEY (customer) REFERENCES customer (id) ON DELETE CASCADE);
CREATE TABLE note (id int AUTO_INCREMENT PRIMARY KEY, body varchar(200), at datetime);
CREATE VIEW rich AS SELECT id, name FROM customer WHERE name <> '';
CREATE SEQUENCE tickets;
CREATE FUNCTION twice(n int) RETURNS int DETERMINISTIC RETURN n * 2;
CREATE PROCEDURE tidy() DELETE FROM note WHERE body = 'never';
CREATE TRIGGER loud BEFORE INSERT ON customer FOR EACH ROW SET NEW.name = upper(NEW.name);
CREATE EVENT later ON SCHEDULE EVERY 9 DAY STARTS '2030-01-01'
  DO DELETE FROM note WHERE body = 'never';
INSERT INTO customer (name, email) VALUES ('ann', 'a@x'), ('bob', 'b@x');
INSERT INTO invoice (customer, qty, price) VALUES (1, 2, 5), (2, 1, 7);
INSERT INTO note (body, at) VALUES ('first', '2020-01-01'), ('second', '2020-01-02')
"""
GRANTS = """
GRANT ALL ON work.* TO own@'127.0.0.1'
GRANT SELECT, SHOW VIEW ON work.* TO ro@'127.0.0.1'
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX ON work.* TO one@'127.0.0.1'
GRANT SELECT, INSERT, UPDATE, DELETE ON work.note TO tab@'127.0.0.1'
"""
HARMS = """
UPDATE customer SET name = 'eve' WHERE id = 1
UPDATE customer SET mood = 'bad' WHERE id = 2
UPDATE customer SET email = NULL WHERE id = 2
UPDATE customer SET seen = '1999-01-01' WHERE id = 1
DELETE FROM customer WHERE id = 1
INSERT INTO customer (name) VALUES ('mallory')
INSERT INTO customer (id, name) VALUES (900, 'mallory')
UPDATE invoice SET qty = 9 WHERE id = 1
UPDATE invoice SET price = price + 1
UPDATE invoice SET customer = 1
DELETE FROM invoice WHERE id = 2
INSERT INTO invoice (customer, price) VALUES (1, 1)
UPDATE note SET body = 'changed' WHERE id = 1
UPDATE note SET at = '2020-05-01' WHERE id = 2
UPDATE note SET id = 70 WHERE id = 1
UPDATE note SET body = concat(body, ' ')
UPDATE note SET body = NULL
DELETE FROM note WHERE id = 2
INSERT INTO note (body) VALUES ('third')
INSERT INTO note (id, body) VALUES (99, 'third')
INSERT INTO note (body, at) VALUES ('old', '1999-01-01')
UPDATE note SET body = 'Second' WHERE body = 'second'
TRUNCATE note
ALTER TABLE customer AUTO_INCREMENT = 900
SELECT nextval(tickets) FROM customer
SELECT setval(tickets, 7000)
ALTER SEQUENCE tickets INCREMENT 7
CREATE SEQUENCE more
DROP SEQUENCE tickets
CREATE TABLE extra (id int PRIMARY KEY)
CREATE TABLE empty_copy LIKE note
DROP TABLE note
RENAME TABLE note TO notes
ALTER TABLE customer ADD COLUMN rank_of int
ALTER TABLE customer DROP COLUMN email
ALTER TABLE customer MODIFY email varchar(40) AFTER id
ALTER TABLE invoice DROP CONSTRAINT positive
ALTER TABLE invoice DROP FOREIGN KEY of_customer
ALTER TABLE customer DROP INDEX email
ALTER TABLE customer MODIFY name varchar(40) NULL
ALTER TABLE customer ALTER mood DROP DEFAULT
ALTER TABLE customer ALTER mood SET DEFAULT 'bad'
ALTER TABLE customer MODIFY name varchar(90) NOT NULL
ALTER TABLE customer MODIFY name varchar(40) COLLATE utf8mb4_bin NOT NULL
ALTER TABLE customer MODIFY name varchar(40) NOT NULL COMMENT 'nobody'
ALTER TABLE customer MODIFY seen timestamp NOT NULL DEFAULT '2020-01-01 00:00:00'
ALTER TABLE customer RENAME COLUMN email TO mail
ALTER TABLE customer MODIFY mood enum('good', 'bad', 'ugly') DEFAULT 'good'
ALTER TABLE customer COMMENT 'sheep'
ALTER TABLE customer CONVERT TO CHARACTER SET latin1
ALTER TABLE invoice MODIFY total int AS (qty * price * 0) STORED
ALTER TABLE note ENGINE = MyISAM
ALTER TABLE note PARTITION BY HASH (id) PARTITIONS 2
DROP INDEX by_customer ON invoice; CREATE INDEX by_customer ON invoice (customer, qty)
CREATE INDEX again ON invoice (qty)
CREATE UNIQUE INDEX only_one ON note (body)
DROP TRIGGER loud
CREATE TRIGGER twice_over BEFORE UPDATE ON customer FOR EACH ROW SET NEW.email = NULL
CREATE OR REPLACE TRIGGER loud BEFORE INSERT ON customer FOR EACH ROW SET NEW.name = 'x'
CREATE TRIGGER planted BEFORE INSERT ON note FOR EACH ROW SET NEW.body = 'x'
CREATE EVENT soon ON SCHEDULE AT current_timestamp + INTERVAL 9 DAY DO DELETE FROM note
DROP EVENT later
ALTER EVENT later DISABLE
ALTER EVENT later DO DELETE FROM note
CREATE OR REPLACE FUNCTION twice(n int) RETURNS int DETERMINISTIC RETURN n * 3
ALTER FUNCTION twice SQL SECURITY INVOKER
CREATE FUNCTION door() RETURNS int DETERMINISTIC RETURN 1
DROP FUNCTION twice
CREATE OR REPLACE PROCEDURE tidy() DELETE FROM note
DROP PROCEDURE tidy
CREATE OR REPLACE VIEW rich AS SELECT id, name FROM customer
CREATE OR REPLACE SQL SECURITY INVOKER VIEW rich AS SELECT id, name FROM customer WHERE name <> ''
CREATE VIEW leak AS SELECT * FROM customer
DROP VIEW rich
ALTER DATABASE work CHARACTER SET latin1
ALTER DATABASE work COMMENT 'mine'
GRANT SELECT ON work.customer TO tab@'127.0.0.1'
GRANT ALL ON work.* TO ro@'127.0.0.1'
REVOKE DELETE ON work.note FROM tab@'127.0.0.1'
GRANT SELECT ON *.* TO tab@'127.0.0.1'
GRANT SUPER ON *.* TO ro@'127.0.0.1'
GRANT EXECUTE ON FUNCTION work.twice TO tab@'127.0.0.1'
CREATE USER backdoor@'%' IDENTIFIED BY 'pw'
CREATE ROLE mighty; GRANT ALL ON work.* TO mighty
ALTER USER tab@'127.0.0.1' IDENTIFIED BY 'known'
ALTER USER ro@'127.0.0.1' ACCOUNT LOCK
DROP USER tab@'127.0.0.1'
SET GLOBAL max_connections = 77
SET GLOBAL event_scheduler = ON
"""
RIGHT = {
    "root": "UPDATE customer SET name = 'anna' WHERE id = 1",
    "own": "DELETE FROM customer WHERE id = 2",
    "ro": "SELECT 1",
    "one": "INSERT INTO invoice (customer, price) VALUES (2, 3)",
    "tab": "INSERT INTO note (body) VALUES ('third')",
}
DONE = {"root": 85, "own": 70, "ro": 0, "one": 45, "tab": 9}
"""How many of the harms each account may do."""


class Server:
    """A server with the database `work`, made anew each time."""

    def __init__(self, port: int, line: str) -> None:
        self.port, self.line = port, line

    def _say(self, statements: str) -> None:
        with contextlib.closing(pymysql.connect(unix_socket=self.line, user="root")) as connection:
            connection.autocommit(True)
            for each in filter(None, map(str.strip, statements.split("; "))):
                connection.query(each)

    def run(self, account: str, statements: str, database: str = "work") -> str | None:
        """Why the server refused, else None."""
        try:
            with contextlib.closing(
                pymysql.connect(
                    host="127.0.0.1", port=self.port, user=account, database=database,
                    charset="utf8mb4", autocommit=True,
                )
            ) as connection, connection.cursor() as cursor:  # fmt: skip
                for each in filter(None, map(str.strip, statements.split("; "))):
                    cursor.execute(each)
        except pymysql.Error as error:
            return str(error)
        return None

    def renew(self) -> None:
        names = ", ".join(f"{name}@'127.0.0.1'" for name in ACCOUNTS[1:])
        self._say(
            f"DROP DATABASE IF EXISTS work; DROP USER IF EXISTS backdoor@'%', {names}; "
            "DROP ROLE IF EXISTS mighty; SET GLOBAL max_connections = DEFAULT; "
            "SET GLOBAL event_scheduler = OFF; CREATE DATABASE work CHARACTER SET utf8mb4; "
            f"CREATE USER {names}"
        )
        assert self.run("root", BASE.replace(";\n", "; ")) is None
        self._say("; ".join(GRANTS.strip().splitlines()))

    def work_elsewhere(self) -> None:
        assert self.run("root", "CREATE DATABASE elsewhere; CREATE ROLE stranger") is None
        far = "CREATE TABLE far (id int); INSERT INTO far VALUES (1)"
        assert self.run("root", f"{far}; GRANT ALL ON elsewhere.* TO stranger", "elsewhere") is None

    def account(self, name: str) -> Account:
        source = MariaDbSource("db", f"mysql://{name}@127.0.0.1:{self.port}/work")
        return Account(name, source, lambda text: self.run(name, text), self.renew)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with mariadb() as (port, line):
        yield Server(port, line)


@pytest.mark.slow
@pytest.mark.parametrize("name", ACCOUNTS)
def test_no_harm_that_an_account_can_do_is_match(server: Server, name: str) -> None:
    account = server.account(name)
    found = account.try_harms(filter(None, HARMS.splitlines()))
    # Who may not read mysql.global_priv reads no password, not even its own: `unread` says so.
    found.pop("ALTER USER tab@'127.0.0.1' IDENTIFIED BY 'known'" if name == "tab" else "", None)
    assert [harm for harm, verdict in found.items() if verdict is Verdict.MATCH] == []
    assert len(found) >= DONE[name], account.refused


@pytest.mark.parametrize("name", ACCOUNTS)
def test_nothing_and_the_right_thing_are_match_beside_a_bystander(
    server: Server, name: str
) -> None:
    try:
        server.account(name).is_right_beside(RIGHT[name], server.work_elsewhere)
    finally:
        server.run("root", "DROP DATABASE elsewhere; DROP ROLE stranger")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_a_draft_of_two_right_runs_matches_a_third_and_no_harm(server: Server, number: int) -> None:
    server.renew()
    server.run(
        "root", f"CREATE DATABASE app{number}; GRANT ALL ON app{number}.* TO own@'127.0.0.1'"
    )
    url = f"mysql://own@127.0.0.1:{server.port}/app{number}"
    require_law(tried(number, form=url, runs=2), LEFT)
