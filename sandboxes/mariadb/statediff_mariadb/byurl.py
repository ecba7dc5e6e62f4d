"""Copies of a database of a MariaDB server that runs already, made by its own statements.

MariaDB copies no database as a whole. Its sequences, tables, rows, routines, views, triggers and
events are made again by what the server shows of them, with the name of the copy where a definition
names the database itself. Whether that made the same is not assumed: our capture compares.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit, urlunsplit

import pymysql
from pymysql.charset import charset_by_name

from statediff.capture.source import Source
from statediff.systems.relational.byurl import STEP_SECONDS, DatabaseByUrl
from statediff.systems.relational.urls import split_choice
from statediff_mariadb.naming import renamed
from statediff_mariadb.session import (
    Connection,
    cause_of,
    connected,
    fetched,
    literal,
    quoted,
)
from statediff_mariadb.source import MariaDbSource

_TABLES: Final = """
SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = {db}
ORDER BY table_name
"""
_COLUMNS: Final = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = {db} AND COALESCE(generation_expression, '') = ''
ORDER BY table_name, ordinal_position
"""
_ROUTINES: Final = """
SELECT routine_type, routine_name FROM information_schema.routines WHERE routine_schema = {db}
ORDER BY routine_type, routine_name
"""
_TRIGGERS: Final = """
SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = {db}
ORDER BY event_object_table, action_timing, event_manipulation, action_order
"""
_EVENTS: Final = """
SELECT event_name FROM information_schema.events WHERE event_schema = {db} ORDER BY event_name
"""
_CHARACTERS: Final = """
SELECT default_character_set_name, default_collation_name FROM information_schema.schemata
WHERE schema_name = {db}
"""
_BUSY: Final = """
SELECT COUNT(*) FROM information_schema.processlist
WHERE db = {db} AND id <> CONNECTION_ID() AND command NOT IN ('Sleep', 'Daemon')
"""
_OPEN: Final = """
SELECT COUNT(*) FROM information_schema.innodb_trx t
JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = {db}
"""
_SESSIONS: Final = """
SELECT id FROM information_schema.processlist WHERE db = {db} AND id <> CONNECTION_ID()
"""


class MariaDbByUrl(DatabaseByUrl):
    """A `System`: copies of one database of a MariaDB server."""

    FAILURES: ClassVar = (pymysql.Error, OSError)
    ACCOUNT_VARIABLE: ClassVar = "MYSQL_PWD"

    @contextlib.contextmanager
    def admin(self) -> Iterator[Connection[Any]]:
        url = urlunsplit(urlsplit(split_choice(self._url)[0])._replace(path="/"))
        connection, _ = connected(url, STEP_SECONDS)
        with contextlib.closing(connection):
            yield connection

    def copy(self, admin: Connection[Any], name: str, to: str) -> None:
        ((characters, collation),) = fetched(admin, _CHARACTERS, name) or [("utf8mb4", "")]
        collate = f" COLLATE {_text(collation)}" if collation else ""
        admin.query(f"CREATE DATABASE {quoted(to)} CHARACTER SET {_text(characters)}{collate}")
        admin.query(f"USE {quoted(to)}")
        ((usual,),) = fetched(admin, "SELECT @@sql_mode")
        admin.query("SET foreign_key_checks = 0, unique_checks = 0")
        try:
            self._copy_tables(admin, name, to)
            for kind, routine in fetched(admin, _ROUTINES, name):
                self._make(admin, f"{_text(kind)} ", _text(routine), name, to)
            self._copy_views(admin, name, to)
            for (trigger,) in fetched(admin, _TRIGGERS, name):
                self._make(admin, "TRIGGER ", _text(trigger), name, to)
            for (event,) in fetched(admin, _EVENTS, name):
                self._make(admin, "EVENT ", _text(event), name, to)
        finally:
            admin.query(f"SET sql_mode = {literal(_text(usual))}")
            admin.query("SET foreign_key_checks = 1, unique_checks = 1")

    def _copy_tables(self, admin: Connection[Any], name: str, to: str) -> None:
        columns: dict[str, list[str]] = {}
        for table, column in fetched(admin, _COLUMNS, name):
            columns.setdefault(_text(table), []).append(quoted(_text(column)))
        kinds = [(_text(t), _text(kind)) for t, kind in fetched(admin, _TABLES, name)]
        kinds.sort(key=lambda entry: entry[1] != "SEQUENCE")  # defaults of columns may use them
        admin.query("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
        for table, kind in kinds:
            if kind == "VIEW":
                continue
            place = f"{quoted(name)}.{quoted(table)}"
            made = "SEQUENCE" if kind == "SEQUENCE" else "TABLE"
            shown = fetched(admin, f"SHOW CREATE {made} {place}")
            admin.query(renamed(_text(shown[0][1]), name, to))
            if kind == "SEQUENCE":
                ((value,),) = fetched(admin, f"SELECT next_not_cached_value FROM {place}")  # noqa: S608 - quoted
                fetched(admin, f"SELECT SETVAL({quoted(table)}, {int(value)}, 0)")
                continue
            listed = ", ".join(columns[table])
            admin.query(f"INSERT INTO {quoted(table)} ({listed}) SELECT {listed} FROM {place}")  # noqa: S608 - quoted

    def _copy_views(self, admin: Connection[Any], name: str, to: str) -> None:
        """One view may need another, in whatever order they are listed."""
        left = [_text(t) for t, kind in fetched(admin, _TABLES, name) if _text(kind) == "VIEW"]
        while left:
            failed, refusal = [], None
            for view in left:
                try:
                    self._make(admin, "VIEW ", view, name, to)
                except pymysql.Error as error:
                    failed.append(view)
                    refusal = error
            if refusal is not None and len(failed) == len(left):
                raise refusal
            left = failed

    def _make(self, admin: Connection[Any], kind: str, thing: str, name: str, to: str) -> None:
        """The view, routine, trigger or event is in the copy too."""
        with admin.cursor() as cursor:
            cursor.execute(f"SHOW CREATE {kind}{quoted(name)}.{quoted(thing)}")
            names = [column[0] for column in cursor.description or ()]
            shown = dict(zip(names, cursor.fetchone() or (), strict=True))
        if (mode := shown.get("sql_mode")) is not None:
            admin.query(f"SET sql_mode = {literal(_text(mode))}")
        statement = next(
            _text(value)
            for column, value in shown.items()
            if column.startswith("Create ") or column == "SQL Original Statement"
        )
        collation = shown.get("Database Collation")
        with _as_client(admin, shown), _in_collation(admin, to, collation):
            encoding = _encoding(_text(shown.get("character_set_client", "utf8mb4")))
            admin.query(renamed(statement, name, to).encode(encoding, "surrogateescape"))

    def drop(self, admin: Connection[Any], name: str) -> None:
        for (thread,) in fetched(admin, _SESSIONS, name):
            with contextlib.suppress(pymysql.Error):  # it ended by itself
                admin.query(f"KILL {int(thread)}")
        admin.query(f"DROP DATABASE IF EXISTS {quoted(name)}")

    def databases(self, admin: Connection[Any]) -> list[str]:
        return [_text(name) for (name,) in fetched(admin, "SHOW DATABASES")]

    def busy(self, admin: Connection[Any]) -> str | None:
        running = int(fetched(admin, _BUSY, self.trials)[0][0])
        with contextlib.suppress(pymysql.Error):  # without the right PROCESS: only what runs shows
            running += int(fetched(admin, _OPEN, self.trials)[0][0])
        return "a statement or a transaction of the agent's is still open" if running else None

    def reader(self, url: str) -> Source:
        plain, tables = split_choice(url)
        return MariaDbSource(self.source, plain, self._refined, tables=tables)

    def cause_of(self, error: Any) -> str:
        return cause_of(error)


@contextlib.contextmanager
def _as_client(admin: Connection[Any], shown: dict[str, Any]) -> Iterator[None]:
    """The session is as that of the client that made a thing, which the server keeps with it."""
    if "character_set_client" not in shown:
        yield
        return
    characters = literal(_text(shown["character_set_client"]))
    collation = literal(_text(shown["collation_connection"]))
    admin.query(f"SET character_set_client = {characters}, collation_connection = {collation}")
    try:
        yield
    finally:
        admin.query("SET NAMES utf8mb4")


@contextlib.contextmanager
def _in_collation(admin: Connection[Any], database: str, collation: Any) -> Iterator[None]:
    """The database has the collation that it had when a thing was made, and then its own again."""
    ((_, usual),) = fetched(admin, _CHARACTERS, database)
    is_other = collation is not None and _text(collation) != _text(usual)
    if is_other:
        admin.query(f"ALTER DATABASE {quoted(database)} COLLATE {_text(collation)}")
    try:
        yield
    finally:
        if is_other:
            admin.query(f"ALTER DATABASE {quoted(database)} COLLATE {_text(usual)}")


def _encoding(characters: str) -> str:
    """Python's name of a character set of the server's."""
    found = charset_by_name(characters)
    return str(found.encoding or "utf8")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
