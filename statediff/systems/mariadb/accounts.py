"""The accounts of a MariaDB between its ends, told by a second server that does as it did.

The log has statements about accounts, not rows. What such a statement does follows from the
accounts there are, the statement and a few settings of its session; so another server of the same
image is given the accounts of the first one, as they were before the run, and the statements in
their order. It is believed only where it begins and ends as the first one does. A statement whose
meaning hangs on more than that (who is logged in, an encoding) leaves the accounts untold.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import pymysql

from statediff.model.batches import Row
from statediff.systems.mariadb.catalogue import rows_of
from statediff.systems.mariadb.log import Logged
from statediff.systems.mariadb.session import Connection, connected, fetched, literal, quoted

SecondServer = Callable[[], AbstractContextManager[str]]
"""A server of the same image and with the same database; its URL is that of its owner."""
ACCOUNTS: Final = ("db.grant", "db.membership", "db.role")
EVALUATORS: Final = frozenset(
    f"'{name}'@'localhost'" for name in ("root", "mysql", "mariadb.sys", "statediff_reader")
)
"""Accounts that no agent has, so that what they may do is no doubt."""
_TABLES: Final = (
    "global_priv", "db", "tables_priv", "columns_priv", "procs_priv", "proxies_priv",
    "roles_mapping",
)  # fmt: skip
_PAST_THE_LOG: Final = """
SELECT grantee FROM information_schema.user_privileges WHERE privilege_type <> 'USAGE'
UNION SELECT grantee FROM information_schema.schema_privileges WHERE 'mysql' LIKE table_schema
UNION SELECT grantee FROM information_schema.table_privileges WHERE table_schema = 'mysql'
UNION SELECT grantee FROM information_schema.column_privileges WHERE table_schema = 'mysql'
UNION SELECT CONCAT('''', user, '''@''', host, '''') FROM mysql.proxies_priv
"""
_SECONDS: Final = 30.0

Stored = Mapping[str, tuple[tuple[Any, ...], ...]]
"""The server's own tables of accounts, as they are."""


@dataclass(frozen=True)
class Accounts:
    """The accounts at some moment, and those that may write past the log."""

    rows: Mapping[str, list[Row]]
    privileged: tuple[str, ...]


def privileged(connection: Connection[Any]) -> tuple[str, ...]:
    """Who may change the log's settings, or the accounts, beside the evaluator."""
    found = {str(who) for (who,) in fetched(connection, _PAST_THE_LOG)}
    return tuple(sorted(found - EVALUATORS))


def stored_accounts(connection: Connection[Any]) -> Stored:
    """What a second server needs to have the same accounts. Raises `pymysql.Error`."""
    return {
        name: tuple(fetched(connection, f"SELECT * FROM mysql.{name}"))  # noqa: S608 - a constant
        for name in _TABLES
    }


def follow(
    server: SecondServer, database: str, stored: Stored, logged: Iterable[tuple[int, Logged]]
) -> dict[int, Accounts] | None:
    """The accounts after each of these transactions, and as 0 before them; None if untold."""
    found: dict[int, Accounts] = {}
    with server() as url:
        try:
            connection, _ = connected(url, _SECONDS)
            with contextlib.closing(connection):
                _store(connection, stored)
                found[0] = _accounts(connection, database)
                for number, transaction in logged:
                    for text in transaction.statements:
                        if not text.isascii() or "CURRENT_" in text.upper():
                            return None
                        _give(connection, transaction, text)
                    found[number] = _accounts(connection, database)
        except (pymysql.Error, OSError):
            return None
    return found


def _accounts(connection: Connection[Any], database: str) -> Accounts:
    connection.query("SET SESSION sql_mode = 'ANSI_QUOTES'")
    return Accounts(rows_of(connection, database, ACCOUNTS), privileged(connection))


def _give(connection: Connection[Any], transaction: Logged, text: str) -> None:
    connection.query(f"SET SESSION sql_mode = {int(dict(transaction.session).get('sql_mode', 0))}")
    if transaction.database:
        connection.query(f"USE {quoted(transaction.database)}")
    connection.query(text)


def _store(connection: Connection[Any], stored: Stored) -> None:
    connection.query("SET SESSION sql_mode = ''")
    for name, rows in stored.items():
        connection.query(f"DELETE FROM mysql.{name}")  # noqa: S608 - a constant
        for row in rows:
            values = ", ".join(map(_literal, row))
            connection.query(f"INSERT INTO mysql.{name} VALUES ({values})")  # noqa: S608 - quoted
    connection.query("FLUSH PRIVILEGES")


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"X'{value.hex()}'" if isinstance(value, bytes) else literal(str(value))
