"""A MariaDB server in a container, put back by filling what was changed, or by making it again.

1. `start`: a container, the accounts, the database; what it then is, is what every reset must
   reach (`mariadb.proof`).
2. `reset`: what belongs to the whole server is compared with how it was. Where an agent changed
   that, the container is made anew. Else its connections are ended; tables of which only rows were
   changed are filled again (`Copies`), and where more was changed, the database is dropped
   and made again. The agent's password is a new one each time.
3. `verify`: digests of the rows, every definition, account, privilege and global variable.

MariaDB copies no database as a whole: the time of a reset follows the size of what was changed.

The copies of tables lie in the server's own database `mysql`, which no agent may read or write.
What is put back is compared at once; where that fails, the whole database is made again, and either
way the proof of the reset decides.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from urllib.parse import quote

import pymysql
from pymysql import Connection
from pymysql.constants import CLIENT
from statediff_containers.box import Box, Machine
from statediff_containers.database import (
    AGENT,
    AGENT_CONNECTIONS,
    PLACE,
    READER,
    STEP_SECONDS,
    DatabaseServer,
    DatabaseSystem,
)
from statediff_containers.engine import Containers
from statediff_containers.images import image_tag
from statediff_containers.prepared import Kept, Shelf

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.packs import PackSource
from statediff_mariadb.feed import MariaDbFeed
from statediff_mariadb.proof import definition_of, look, rows_of
from statediff_mariadb.session import cause_of, connected, fetched, literal, quoted
from statediff_mariadb.source import MariaDbSource

_NEXT_NUMBER: Final = re.compile(r" AUTO_INCREMENT=(\d+)")
_TRIGGERS: Final = """
SELECT event_object_table, trigger_name, sql_mode FROM information_schema.triggers
WHERE trigger_schema = {db} ORDER BY event_object_table, action_timing, event_manipulation,
  action_order
"""
_COLUMNS: Final = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = {db} AND COALESCE(generation_expression, '') = ''
ORDER BY table_name, ordinal_position
"""


class Copies:
    """The rows of every table as they are now, and what it takes to bring them back."""

    def __init__(self, admin: Connection[Any], database: str, base: Mapping[str, str]) -> None:
        self._database = database
        self._base = base
        self._columns: dict[str, list[str]] = {}
        for table, column in fetched(admin, _COLUMNS, database):
            self._columns.setdefault(_text(table), []).append(quoted(_text(column)))
        tables = sorted(label[6:] for label in base if label.startswith("table "))
        self._copies = {name: f"mysql.statediff_base_{n}" for n, name in enumerate(tables)}
        for name, copy in self._copies.items():
            admin.query(f"DROP TABLE IF EXISTS {copy}")
            admin.query(
                f"CREATE TABLE {copy} ENGINE=InnoDB SELECT {', '.join(self._columns[name])}"  # noqa: S608 - quoted
                f" FROM {self._place(name)}"
            )
        self._triggers = [
            (_text(table), _text(name), _text(mode), self._trigger_statement(admin, _text(name)))
            for table, name, mode in fetched(admin, _TRIGGERS, database)
        ]

    def restore(self, admin: Connection[Any], found: Mapping[str, str]) -> bool:
        """Every table is as in the base; False where rows are not all that was changed."""
        changed = {
            label
            for label in self._base.keys() | found.keys()
            if self._base.get(label) != found.get(label) and not label.startswith("account ")
        }
        tables = set()
        for label in changed:
            kind, _, name = label.rpartition(" ")
            if kind not in ("table", "rows of", "definition of") or name not in self._copies:
                return False
            base, now = self._base.get(label, ""), found.get(label, "")
            if kind == "definition of" and _numberless(base) != _numberless(now):
                return False
            tables.add(name)
        if not tables:
            return True
        admin.query("SET foreign_key_checks = 0, unique_checks = 0")
        try:
            with self._no_triggers(admin, tables):
                for name in sorted(tables):
                    self._fill(admin, name)
        finally:
            admin.query("SET foreign_key_checks = 1, unique_checks = 1")
        return all(self._is_base(admin, name) for name in tables)

    def _fill(self, admin: Connection[Any], name: str) -> None:
        place, columns = self._place(name), ", ".join(self._columns[name])
        admin.query("BEGIN")
        admin.query(f"DELETE FROM {place}")  # noqa: S608 - quoted
        admin.query(f"INSERT INTO {place} ({columns}) SELECT {columns} FROM {self._copies[name]}")  # noqa: S608 - quoted
        admin.query("COMMIT")
        number = _NEXT_NUMBER.search(self._base[f"definition of {name}"])
        if (
            number is not None
            and definition_of(admin, self._database, name) != (self._base[f"definition of {name}"])
        ):
            admin.query(f"ALTER TABLE {place} AUTO_INCREMENT = {number[1]}")

    @contextlib.contextmanager
    def _no_triggers(self, admin: Connection[Any], tables: set[str]) -> Iterator[None]:
        """Yields without triggers: a write sets off nothing; then every trigger is there again."""
        triggers = [entry for entry in self._triggers if entry[0] in tables]
        for _, name, _, _ in triggers:
            admin.query(f"DROP TRIGGER {self._place(name)}")
        yield
        admin.query(f"USE {quoted(self._database)}")
        ((usual,),) = fetched(admin, "SELECT @@sql_mode")
        for _, _, mode, statement in triggers:
            admin.query(f"SET sql_mode = '{mode}'")
            admin.query(statement)
        admin.query(f"SET sql_mode = '{_text(usual)}'")

    def _trigger_statement(self, admin: Connection[Any], trigger: str) -> str:
        shown = fetched(admin, f"SHOW CREATE TRIGGER {self._place(trigger)}")
        return _text(shown[0][2])

    def _is_base(self, admin: Connection[Any], name: str) -> bool:
        return (
            rows_of(admin, self._database, name) == self._base[f"table {name}"]
            and definition_of(admin, self._database, name) == self._base[f"definition of {name}"]
        )

    def _place(self, name: str) -> str:
        return f"{quoted(self._database)}.{quoted(name)}"


def _numberless(definition: str) -> str:
    return _NEXT_NUMBER.sub("", definition)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


OWNER: Final = "root"
_ACCOUNT: Final = f"account {AGENT}@localhost"
_RUNNING: Final = f"""
SELECT COUNT(*) FROM information_schema.processlist
WHERE user = '{AGENT}' AND command NOT IN ('Sleep', 'Daemon')
"""  # noqa: S608 - a constant
_OTHERS: Final = f"""
SELECT id FROM information_schema.processlist WHERE user NOT IN ('{OWNER}', 'system user')
"""  # noqa: S608 - a constant


class MariaDbSystem(DatabaseSystem["MariaDbServer"]):
    """A `System`: one database of a MariaDB server of its own."""

    METHOD: ClassVar = (
        "sha256 of every table's rows, definitions, accounts, privileges and global variables"
    )
    HIDDEN: ClassVar = ("account ",)

    def _machine(self) -> Machine:
        return Containers(image_tag("mariadb"), PLACE)

    def _new_server(self) -> MariaDbServer:
        return MariaDbServer(self.source, self._pack, self.machine)

    def sources(self) -> tuple[Source, ...]:
        url = self._running().reader_url
        return (MariaDbSource(self.source, url, self._refined, may_mark=True),)

    def feeds(self) -> tuple[Feed, ...]:
        """The feed that tells every commit of a run from the server's log."""
        url = self._running().reader_url
        return (MariaDbFeed(self.source, url, self._refined, second=self._second_server),)

    @contextlib.contextmanager
    def _second_server(self) -> Iterator[str]:
        """One more server with a pristine database, for as long as somebody asks it."""
        server = self._new_server()
        try:
            yield server.owner_url
        finally:
            server.stop()


@dataclass(frozen=True)
class _Made:
    """The result of a pack's texts on a server; the same in every server over its data folder."""

    expected: Mapping[str, str]
    copies: Copies
    secrets: Mapping[str, str] = field(repr=False)
    """The evaluator's own; an agent's is made anew at every reset."""


SHELF: Final[Shelf[_Made]] = Shelf()


class MariaDbServer(DatabaseServer[_Made]):
    """A container with a database as the pack describes it."""

    SCHEME: ClassVar = "mysql"
    SOCKET: ClassVar = "db.sock"
    ERROR: ClassVar = pymysql.Error
    FAILURES: ClassVar = (pymysql.Error, OSError)

    def __init__(self, name: str, pack: PackSource, machine: Machine) -> None:
        super().__init__(name, pack, machine)
        made = self._start(SHELF, self.database)
        self.expected, self._copies = dict(made.expected), made.copies
        self._is_unused = True
        self._entities = sum(
            int(count) for label, count in self.expected.items() if label.startswith("rows of ")
        )

    @property
    def entities(self) -> int:
        return self._entities

    def _make(self) -> tuple[Box, _Made]:
        """A server with the accounts and the database."""
        self._secrets = dict.fromkeys((OWNER, READER, AGENT), "")
        with self._running() as container:
            expected, copies = self._build()
        return container, _Made(expected, copies, self._known_secrets())

    def _begin(self, kept: Kept[_Made]) -> Box:
        """A server over what another one wrote, whose agent nobody can be yet."""
        self._secrets = {**kept.facts.secrets, AGENT: ""}
        with self._running(kept.written) as container:
            return container

    @property
    def reader_url(self) -> str:
        return self._url(READER)

    @property
    def owner_url(self) -> str:
        return self._url(OWNER)

    def _url(self, role: str) -> str:
        place = quote(str(self.container.socket(self.SOCKET)), safe="")
        return f"mysql://{role}:{self._secrets[role]}@/{self.database}?unix_socket={place}"

    @contextlib.contextmanager
    def admin(self) -> Iterator[pymysql.Connection[Any]]:
        """A connection of the server's owner, which no agent can be."""
        connection, _ = connected(self._url(OWNER), STEP_SECONDS)
        with contextlib.closing(connection):
            yield connection

    def _build(self) -> tuple[dict[str, str], Copies]:
        with self.admin() as admin:
            for (host,) in fetched(admin, "SELECT host FROM mysql.global_priv WHERE user = 'root'"):
                if host != "localhost":
                    admin.query(f"DROP USER root@{literal(host)}")
            for role in (AGENT, READER):
                self._secrets[role] = secrets.token_urlsafe(24)
                admin.query(
                    f"CREATE USER {role}@localhost IDENTIFIED BY '{self._secrets[role]}'"
                    f" WITH MAX_USER_CONNECTIONS {AGENT_CONNECTIONS}"
                )
            admin.query(f"GRANT ALL ON {quoted(self.database)}.* TO {AGENT}@localhost")
            admin.query(
                f"GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, SHOW DATABASES, BINLOG MONITOR,"
                f" REPLICATION SLAVE ON *.* TO {READER}@localhost"
            )
            self._set_password(admin, OWNER)
            self._load(admin)
            expected = look(admin, self.database)
            return expected, Copies(admin, self.database, expected)

    def _set_password(self, admin: pymysql.Connection[Any], role: str) -> None:
        self._secrets[role] = secrets.token_urlsafe(24)
        admin.query(f"SET PASSWORD FOR {role}@localhost = PASSWORD('{self._secrets[role]}')")

    def _load(self, admin: pymysql.Connection[Any]) -> None:
        """The database is as the pack says, and the agent has a password that nobody knows yet."""
        admin.query(f"DROP DATABASE IF EXISTS {quoted(self.database)}")
        admin.query(f"CREATE DATABASE {quoted(self.database)}")
        self._set_password(admin, AGENT)
        with (
            contextlib.closing(
                pymysql.connect(
                    unix_socket=str(self.container.socket(self.SOCKET)),
                    user=AGENT,
                    password=self._secrets[AGENT],
                    database=self.database,
                    charset="utf8mb4",
                    ssl_disabled=True,
                    client_flag=CLIENT.MULTI_STATEMENTS,
                    read_timeout=STEP_SECONDS,
                )
            ) as agent,
            agent.cursor() as cursor,
        ):
            for text in self._texts:
                cursor.execute(text)
                while cursor.nextset():
                    pass
            agent.commit()

    def put_back(self) -> bool:
        """The database is as at the start; False where the server must be made anew."""
        try:
            with self.admin() as admin:
                if not self._is_unused and not self._restore(admin):
                    return False
                self._is_unused = False
                self._set_password(admin, AGENT)
                account = dict(
                    fetched(
                        admin,
                        "SELECT CONCAT('account ', user, '@', host), priv FROM mysql.global_priv",
                    )
                )[_ACCOUNT]
                self.expected = {**self.expected, _ACCOUNT: account}
        except (pymysql.Error, OSError):
            return False
        return True

    def look(self) -> dict[str, str]:
        with self.admin() as admin:
            return look(admin, self.database)

    def is_busy(self, admin: pymysql.Connection[Any]) -> bool:
        """True if the agent runs a statement, or anybody holds a transaction that wrote."""
        ((running,),) = fetched(admin, _RUNNING)
        # `information_schema.innodb_trx` shows what was so up to 0.1 s ago; the status, what is.
        ((_, _, status),) = fetched(admin, "SHOW ENGINE INNODB STATUS")
        open_ones = str(status).split("---TRANSACTION")[1:]
        return running != "0" or any("undo log entries" in entry for entry in open_ones)

    def cause_of(self, error: Any) -> str:
        return cause_of(error)

    def failure(self) -> str | None:
        """How others ended it, which is one process; None where it served or crashed."""
        return self.container.ended_by_others(self.SOCKET)

    def _restore(self, admin: pymysql.Connection[Any]) -> bool:
        """Rows and definitions are as at the start; False where more than they was changed."""
        for (thread,) in fetched(admin, _OTHERS):
            with contextlib.suppress(pymysql.Error):  # it ended by itself
                admin.query(f"KILL {int(thread)}")
        now = look(admin, self.database)
        if _beyond(now, self.database) != _beyond(self.expected, self.database):
            return False
        if not self._copies.restore(admin, now):
            self._load(admin)
        return True


def _beyond(found: Mapping[str, str], database: str) -> dict[str, str]:
    """The labels beyond the database itself, but for the agent's password, which resets replace."""
    inside = (
        "table ",
        "rows of ",
        "definition of ",
        *(f"{kind} {database}." for kind in ("trigger", "routine", "event")),
    )
    return {
        label: _without_secret(value) if label == _ACCOUNT else value
        for label, value in found.items()
        if not label.startswith(inside) and label != f"database {database}"
    }


def _without_secret(account: str) -> str:
    return re.sub(r'"(authentication_string|password_last_changed)":("[^"]*"|[0-9]+)', "", account)
