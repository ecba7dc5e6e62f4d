"""A MariaDB table made anew: other words for one meaning are no change, a lost rule is one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

pytest.importorskip("pymysql")

import pymysql
from statediff_mariadb.source import MariaDbSource

from statediff.model.readings import Capture
from statediff.model.verdict import Verdict
from tests import rebuilt
from tests.rebuilt import read, verdict
from tests.servers import mariadb

TEXT = """
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY,
  name varchar(20) COLLATE utf8mb4_bin NOT NULL DEFAULT 'x', qty int COMMENT 'how many', price int,
  p int, total int AS (qty * price) STORED, at timestamp NULL ON UPDATE current_timestamp,
  CONSTRAINT some CHECK (qty > 0), UNIQUE KEY once (name, qty), KEY i (qty),
  CONSTRAINT of_p FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE) ENGINE = InnoDB;
CREATE VIEW v AS SELECT id, name FROM t WHERE qty > 1;
CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.qty = 2;
INSERT INTO p VALUES (1);
INSERT INTO t (name, qty, price, p) VALUES ('a', 2, 3, 1)
"""
OF_ONE_MEANING = (
    *rebuilt.OF_ONE_MEANING,
    ("CREATE TABLE t (", "create table work.t("),
    ("CREATE TABLE t (", "CREATE TABLE `t` ("),
    ("qty > 0", "(`qty` > 0)"),
    (", price int", ",\n  price integer"),
    (", price int", ", `price` int(11)"),
    ("varchar(20)", "VARCHAR(20) CHARACTER SET utf8mb4"),
    ("REFERENCES p (id)", "REFERENCES work.p (`id`)"),
    ("qty * price", "qty*price"),
    ("AS (qty * price) STORED", "GENERATED ALWAYS AS (qty * price) PERSISTENT"),
    ("UNIQUE KEY once (name, qty)", "unique index once(name,qty)"),
    ("DEFAULT 'x'", 'DEFAULT "x"'),
    ("KEY i (qty)", "INDEX i (qty ASC)"),
    ("KEY i (qty)", "KEY i (qty) USING BTREE"),
    ("SELECT id, name FROM t WHERE qty > 1", "select id,name from work.t where qty>1"),
    ("SELECT id, name FROM t WHERE qty > 1", "SELECT t.id, t.name FROM t WHERE (t.qty > 1)"),
    ("CREATE VIEW v", "CREATE OR REPLACE VIEW work.v"),
    ("current_timestamp", "NOW()"),
    ("ENGINE = InnoDB", "engine innodb"),
)
LOST = (
    *rebuilt.LOST,
    ("CONSTRAINT some CHECK (qty > 0), ", ""),
    (" COLLATE utf8mb4_bin", ""),
    ("utf8mb4_bin", "utf8mb4_unicode_ci"),
    (",\n  CONSTRAINT of_p FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE", ""),
    ("UNIQUE KEY once (name, qty), ", ""),
    ("once (name, qty)", "once (name)"),
    ("price int", "price bigint"),
    ("qty int COMMENT 'how many', price int", "price int, qty int COMMENT 'how many'"),
    (" ON UPDATE current_timestamp", ""),
    ("KEY i (qty)", "KEY i (price)"),
    ("NEW.qty = 2", "NEW.qty = 3"),
    (" COMMENT 'how many'", ""),
)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[int, str]]:
    with mariadb() as found:
        yield found


def made(server: tuple[int, str], old: str, new: str, like: Capture | None) -> Capture:
    port, line = server
    text = TEXT.replace(old, new) if old else TEXT
    assert not old or text != TEXT
    with contextlib.closing(
        pymysql.connect(unix_socket=line, user="root", charset="utf8mb4", autocommit=True)
    ) as connection:
        connection.query("DROP DATABASE IF EXISTS work")
        connection.query("CREATE DATABASE work CHARACTER SET utf8mb4")
        connection.query("USE work")
        for each in text.split(";\n"):
            connection.query(each)
    return read(MariaDbSource("db", f"mysql://root@127.0.0.1:{port}/work"), like)


@pytest.mark.parametrize("expected", [Verdict.MATCH, Verdict.DIVERGE])
def test_a_lost_rule_is_seen_and_other_words_are_no_change(
    server: tuple[int, str], expected: Verdict
) -> None:
    before, words = (
        made(server, "", "", None),
        OF_ONE_MEANING if expected is Verdict.MATCH else LOST,
    )
    found = {each: verdict(before, made(server, *each, before)) for each in words}
    assert [each for each, said in found.items() if said is not expected] == []
