"""Changes that a run undid are witnessed with their transaction: SQLite."""

import sqlite3
from contextlib import closing

import pytest

from statediff.systems.sqlite.feed import SqliteFeed
from statediff.systems.sqlite.source import SqliteSource
from tests.systems.sqlite.sqlite_databases import database
from tests.witnessing import DELETED, QUEUED, ROWS, TABLES, run, witnessed

PRIVILEGES = "CREATE TABLE privilege (person INT, role TEXT, PRIMARY KEY (person, role))"
UNDONE = {
    "a privilege": (
        ("INSERT INTO privilege VALUES (2, 'admin')", "DELETE FROM privilege"),
        "create: privilege", "in transaction 1 of shop-db (position ",
    ),
    "a row": (DELETED, "delete: note", "in transaction 1 of shop-db (position "),
    "a message": (
        ("UPDATE note SET body = 'x' WHERE id = 1", *QUEUED,
         "UPDATE note SET body = 'first' WHERE id = 1"),
        "create: queue", "in transaction 2 of shop-db (position ",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("statements", "what", "told"), UNDONE.values(), ids=UNDONE)
def test_what_was_undone_is_witnessed_with_its_transaction(tmp_path, statements, what, told):
    path = database(tmp_path / "a.db", ";\n".join((*TABLES, PRIVILEGES, *ROWS, "")))
    source, feed = SqliteSource("shop-db", path), SqliteFeed("shop-db", path)
    with closing(sqlite3.connect(path, isolation_level=None)) as agent:
        sides = run(source, feed, agent.execute, statements)
    assert witnessed(source, what, sides).startswith(told)
