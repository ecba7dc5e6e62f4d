"""The states between two looks at a MariaDB database, read from its log of rows.

1. Forwards from the state before, a type is known until the first transaction that leaves it in
   doubt: a change of its definition, rows that follow others without a word in the log (foreign
   keys), cells that the log does not tell exactly.
2. Backwards from a look after the run, it is known again from the last such transaction on: the log
   has whole rows, so that what a transaction did can be taken back. With one doubt nothing is
   lost; between two of them the type is unobserved, with the cause.
3. What the log takes away must be there as it says, and what it brings must not: a log that does
   not fit the state is no history of it.

Numbers that a table gives out are in no log. Where they differ at the two ends they are unobserved
in between; without a change of definitions they only grow, so that equal ends mean no change.

Accounts are followed on a second server (`follow`). The log has statements about accounts, not
rows. What such a statement does follows from the accounts there are, the statement and a few
settings of its session; so another server of the same image is given the accounts of the first one,
as they were before the run, and the statements in their order. It is believed only where it begins
and ends as the first one does. A statement whose meaning hangs on more than that (who is logged in,
an encoding) leaves the accounts unobserved.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pymysql

from statediff.model.batches import Row
from statediff.model.explanation import by_run
from statediff.model.schema import COUNTERS, EntityType
from statediff.model.state import ChunkStore, State, Table, build_table
from statediff.model.values import Unobserved, key_order, printable, same
from statediff.systems.relational.schema import with_types
from statediff.systems.relational.structure import STRUCTURE
from statediff_mariadb.catalogue import OBJECT_NAMES, Catalogue, rows_of
from statediff_mariadb.changes import (
    Cascade,
    Change,
    Inexact,
    applied,
    gone_of,
    may_follow,
    read_changes,
)
from statediff_mariadb.log import Kind, Logged, RowsChanged
from statediff_mariadb.session import Connection, connected, fetched, literal, quoted

SecondServer = Callable[[], AbstractContextManager[str]]
"""A server of the same image and with the same database; its URL is that of its owner."""
ACCOUNTS: Final = ("db.grant", "db.membership", "db.role")
EVALUATORS: Final = frozenset(
    f"'{name}'@'localhost'" for name in ("root", "mysql", "mariadb.sys", "statediff_reader")
)
"""Accounts that no agent has, so that what they may do is no doubt."""
_TABLES: Final = (
    "global_priv",
    "db",
    "tables_priv",
    "columns_priv",
    "procs_priv",
    "proxies_priv",
    "roles_mapping",
)
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
    """The rows that a second server needs to have the same accounts. Raises `pymysql.Error`."""
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


ACCOUNT: Final = re.compile(
    r"\s*(GRANT|REVOKE|SET\s+PASSWORD|SET\s+DEFAULT\s+ROLE"
    r"|(CREATE|DROP|ALTER|RENAME)\s+(OR\s+REPLACE\s+)?(USER|ROLE))\b",
    re.IGNORECASE,
)
GIVES_RIGHTS: Final = re.compile(r"\b(GRANT|RENAME\s+USER)\b|/\*M?!", re.IGNORECASE)
"""Found anywhere in what may give somebody rights; a comment can hold what is executed."""
_CREATION: Final = re.compile(
    r"\s*CREATE\s+(UNIQUE\s+|FULLTEXT\s+|SPATIAL\s+)?"
    r"(TABLE|INDEX|TRIGGER|VIEW|EVENT|SEQUENCE)\b",
    re.IGNORECASE,
)
_OF_TABLES: Final = re.compile(
    r"\s*((ALTER|DROP|RENAME)\s+(TABLE|INDEX|TRIGGER|VIEW|EVENT|SEQUENCE)|TRUNCATE)\b",
    re.IGNORECASE,
)
"""What changes no account; routines may, for their maker is given rights on them."""
_SAVEPOINT: Final = re.compile(r"\s*(SAVEPOINT|RELEASE\s+SAVEPOINT)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Look:
    """The catalogue's listing at one end of the run."""

    catalogue: Catalogue
    cascades: tuple[Cascade, ...]


@dataclass
class _Doubts:
    """The doubts of each type: the first and the last transaction that left it so, and why."""

    first: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    causes: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, number: int, cause: str) -> None:
        self.first.setdefault(name, number)
        self.last[name] = max(number, self.last.get(name, number))
        self.causes.setdefault(name, cause)


class Replay:
    """One run: first `forwards`, then `backwards` from a look at what is in doubt, then `state`."""

    def __init__(
        self, database: str, before: State, start: Look, logged: Sequence[Logged], store: ChunkStore
    ) -> None:
        self._database = database
        self._before = before
        self._start = start
        self._logged = logged
        self._store = store
        self._types = {t.source_table: t for t in before.schema.types if t.name not in OBJECT_NAMES}
        self._forwards: list[dict[str, Table]] = []
        self._backwards: dict[int, dict[str, Table]] = {}
        self._doubts = _Doubts()
        self._open: dict[str, Table] = {}
        self._cascades = start.cascades
        self.accounts: list[int] = []
        """The transactions that were statements about accounts."""
        self.accounts_are_told = True
        """Whether nothing but these can have changed accounts."""
        self._redefined: list[int] = []
        """The transactions after which the catalogue may be another one."""

    @property
    def doubts(self) -> dict[str, str]:
        """The types that the log does not establish at the end, with the cause."""
        return self._doubts.causes

    # Forwards

    def forwards(self, end: Look) -> None:
        """Each transaction applied to what is known so far. Raises `SourceUnavailable`."""
        self._cascades = tuple(dict.fromkeys((*self._start.cascades, *end.cascades)))
        state = dict(self._before.tables)
        self._forwards = [state]
        for name, table in self._before.tables.items():
            if not table.enumeration.is_complete:
                self.distrust(name, table.enumeration.cause or "it was not read whole before")
        if end.catalogue.at_risk and self._logged:
            self.distrust(STRUCTURE, "indexes are checked at the two ends of a run only")
        for number, transaction in enumerate(self._logged, start=1):
            state = dict(state)
            for text in transaction.statements:
                self._doubt_statement(number, text, rows=bool(transaction.rows))
            changes: dict[str, list[Change]] = {}
            for rows in transaction.rows:
                self._follow(number, rows, changes, state)
            for name in [n for n in state if n in self._doubts.first]:
                del state[name]
            for name, changed in changes.items():
                if name in state:
                    state[name] = applied(state[name], changed)
            self._forwards.append(state)

    def _doubt_statement(self, number: int, text: str, *, rows: bool) -> None:
        shown = printable(" ".join(text.split()[:3]))
        cause = f"no history: {by_run(f'{shown} changed more than its log tells')}"
        if ACCOUNT.match(text):
            touched: Iterable[str] = ACCOUNTS
            self.accounts.append(number)
        elif _SAVEPOINT.match(text):
            return
        elif _CREATION.match(text) and not rows:
            touched = OBJECT_NAMES.difference(ACCOUNTS)
            self._redefined.append(number)
        else:
            touched = self._before.tables.keys() | OBJECT_NAMES
            self._redefined.append(number)
            if _OF_TABLES.match(text):
                touched = frozenset(touched).difference(ACCOUNTS)
            else:
                self.accounts_are_told = False
        for name in touched:
            self._doubts.add(name, number, cause)

    def _follow(
        self,
        number: int,
        rows: RowsChanged,
        changes: dict[str, list[Change]],
        state: dict[str, Table],
    ) -> None:
        if rows.database != self._database:
            if rows.database == "mysql":  # accounts, routines, events
                self._doubt_statement(number, "a write to the tables of mysql", rows=True)
            return
        entity_type = self._types.get(rows.table)
        if entity_type is None:
            # A sequence, or a table made in the run, whose rows are known from its making on.
            self._doubts.add(COUNTERS, number, "no history: sequences give out numbers unlogged")
            return
        name, found = entity_type.name, None
        if name in state and name not in self._doubts.first:
            try:
                found = read_changes(self._database, rows, entity_type, self._start.catalogue)
                changes.setdefault(name, []).extend(found)
            except Inexact as error:
                self._doubts.add(name, number, f"no history: {error}")
        self._cascade(number, rows, found, changes, state)

    def _cascade(
        self,
        number: int,
        rows: RowsChanged,
        found: Sequence[Change] | None,
        changes: dict[str, list[Change]],
        state: dict[str, Table],
    ) -> None:
        """Rows of other tables may follow these: their types are in doubt where some might."""
        if not rows.keys_checked or rows.kind is Kind.WRITE:
            return
        for key in self._cascades:
            follows = key.on_delete if rows.kind is Kind.DELETE else key.on_update
            child = self._types.get(key.child)
            if key.parent != rows.table or not follows or child is None:
                continue
            gone = None if found is None else gone_of(self._types[rows.table], key, found)
            if gone == []:
                continue
            known = None if child.name in self._doubts.first else state.get(child.name)
            if (
                gone is None
                or known is None
                or may_follow(child, key, gone, known, changes.get(child.name, []))
            ):
                self._doubt_followers(number, child, set())

    def _doubt_followers(self, number: int, child: EntityType, seen: set[str]) -> None:
        if child.name in seen:
            return
        seen.add(child.name)
        self._doubts.add(
            child.name, number, "no history: rows that follow others change without being logged"
        )
        for key in self._cascades:
            follower = self._types.get(key.child)
            if key.parent == child.source_table and follower is not None:
                self._doubt_followers(number, follower, seen)

    # Backwards

    def backwards(self, end: State, look: Look) -> None:
        """Read the types in doubt from their state after the run. Raises `SourceUnavailable`."""
        types = {t.source_table: t for t in end.schema.types if t.name not in OBJECT_NAMES}
        state = dict(end.tables)
        for name in state.keys() - self._before.tables.keys():
            for number in self._redefined:
                self._doubts.add(name, number, f"no history: {by_run('it was made in it')}")
        self._backwards[len(self._logged)] = state
        for number in range(len(self._logged), 0, -1):
            state = dict(state)
            changes: dict[str, list[Change]] = {}
            for rows in reversed(self._logged[number - 1].rows):
                entity_type = types.get(rows.table)
                if rows.database != self._database or entity_type is None:
                    continue
                name = entity_type.name
                if name not in state or self._doubts.last.get(name, 0) >= number:
                    continue
                try:
                    found = read_changes(self._database, rows, entity_type, look.catalogue)
                    changes.setdefault(name, []).extend(Change(c.new, c.old) for c in found[::-1])
                except Inexact as error:
                    self._doubts.add(name, number, f"no history: {error}")
            for name in list(state):
                is_whole = state[name].enumeration.is_complete
                if not is_whole or self._doubts.last.get(name, 0) >= number:
                    del state[name]
                elif name in changes:
                    state[name] = applied(state[name], changes[name])
            self._backwards[number - 1] = state

    def unlogged(self, end: State) -> list[str]:
        """The types that are otherwise after the run than the log says, sorted."""
        last = self._forwards[-1]
        return sorted(
            name
            for name in last.keys() & end.tables.keys() - {COUNTERS}
            if last[name].chunks != end.tables[name].chunks
        )

    def tell(self, name: str, tables: Mapping[int, Table]) -> None:
        """The type after these transactions is known otherwise, and stays so until the next."""
        known: Table | None = None
        for number, state in enumerate(self._forwards):
            known = tables.get(number, known)
            if known is not None:
                state[name] = known

    def distrust(self, name: str, cause: str) -> None:
        """Nothing of the type is known but at the ends."""
        self._doubts.first[name], self._doubts.last[name] = 0, len(self._logged)
        self._doubts.causes[name] = cause
        for state in self._forwards:
            state.pop(name, None)

    # What came of it

    def state(self, number: int, end: State) -> State:
        """The state after a transaction; the last one is as `end` in what is in doubt."""
        tables: dict[str, Table] = {}
        forwards, backwards = self._forwards[number], self._backwards.get(number, {})
        for name in self._before.tables.keys() | end.tables.keys():
            if name == COUNTERS:
                continue
            known = forwards.get(name) or backwards.get(name)
            if known is not None:
                tables[name] = known
            elif name in self._before.tables or number >= self._doubts.first[name]:
                known = self._before.tables.get(name) or end.tables[name]
                tables[name] = self._unobserved(known)
        if COUNTERS in self._before.tables:
            is_last = number == len(self._logged)
            if not is_last and COUNTERS not in self._open:
                self._open[COUNTERS] = self._numbers(end.tables[COUNTERS])
            tables[COUNTERS] = end.tables[COUNTERS] if is_last else self._open[COUNTERS]
        base = self._before.schema if number < max(self._redefined, default=0) else end.schema
        schema = replace(
            with_types(base, {name: table.type for name, table in tables.items()}),
            sources=tuple((source, tuple(sorted(tables))) for source, _ in base.sources),
        )
        schema = replace(schema, types=tuple(t for t in schema.types if t.name in tables))
        return State(schema, tables)

    def _unobserved(self, table: Table) -> Table:
        name = table.type.name
        if name not in self._open:
            empty = build_table(table.type, (), self._store, like=table)
            self._open[name] = empty.unobserved(self._doubts.causes[name])
        return self._open[name]

    def _numbers(self, end: Table) -> Table:
        """The numbers that tables give out next, between the ends."""
        table = self._before.tables[COUNTERS]
        if COUNTERS in self._doubts.first:
            return self._unobserved(table)
        after = {key_order(key): row for key, row in end.rows()}
        open_value = Unobserved("no history: numbers are given out without being logged")
        rows = [
            row
            if same(row["value"], after.get(key_order(key), {}).get("value"))
            else {**row, "value": open_value}
            for key, row in table.rows()
        ]
        return build_table(table.type, rows, self._store, like=table)
