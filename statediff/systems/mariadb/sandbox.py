"""A MariaDB server in a container, put back by filling what was changed, or by making it again.

1. `start`: a container, the accounts, the database; what it then is, is what every reset must
   reach (`mariadb_proof`).
2. `reset`: what belongs to the whole server is compared with how it was. Where an agent changed
   that, the container is made anew. Else its connections are ended; tables of which only rows were
   changed are filled again (`mariadb_restore`), and where more was changed, the database is dropped
   and made again. The agent's password is a new one each time.
3. `verify`: digests of the rows, every definition, account, privilege and global variable.

MariaDB copies no database as a whole: the time of a reset follows the size of what was changed.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import quote

import pymysql
from pymysql.constants import CLIENT

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import load_schema_file
from statediff.errors import SandboxError
from statediff.model.schema import Schema
from statediff.packs import PackSource
from statediff.systems.base.folders import make_folder
from statediff.systems.base.receipt import Drift, SourceProof
from statediff.systems.containers.engine import Container, Spec, connect
from statediff.systems.containers.images import image_tag
from statediff.systems.containers.prepared import Kept, Shelf
from statediff.systems.mariadb.feed import MariaDbFeed
from statediff.systems.mariadb.proof import look
from statediff.systems.mariadb.restore import Copies
from statediff.systems.mariadb.session import cause_of, connected, fetched, literal, quoted
from statediff.systems.mariadb.source import MariaDbSource
from statediff.systems.postgres.proof import digest_of

METHOD: Final = (
    "sha256 of every table's rows, definitions, accounts, privileges and global variables"
)
PLACE: Final = "/var/lib/statediff"
"""All that the server may write, but for /tmp."""
SOCKET: Final = "db.sock"
AGENT: Final = "agent"
READER: Final = "statediff_reader"
OWNER: Final = "root"
AGENT_CONNECTIONS: Final = 40
"""At once; the server takes sixty, so that whoever reads always gets in."""
STEP_SECONDS: Final = 60.0
_PROBE_SECONDS: Final = 0.01
_ACCOUNT: Final = f"account {AGENT}@localhost"
_RUNNING: Final = f"""
SELECT COUNT(*) FROM information_schema.processlist
WHERE user = '{AGENT}' AND command NOT IN ('Sleep', 'Daemon')
"""  # noqa: S608 - a constant
_OTHERS: Final = f"""
SELECT id FROM information_schema.processlist WHERE user NOT IN ('{OWNER}', 'system user')
"""  # noqa: S608 - a constant


class MariaDbSystem:
    """A `System`: one database of a server of its own."""

    FILES: ClassVar[Mapping[str, bool]] = {"ddl": True, "seed": True}
    LOOKS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self._pack = source
        self._folder = folder
        self._refined: Callable[[Schema], Schema] | None = None
        if source.schema is not None:
            self._refined = refine(load_schema_file(source.schema), source.name)
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        return self._running().agent_url

    def start(self) -> None:
        """A server runs with a pristine database that nobody has used."""
        if self._server is None:
            make_folder(self._folder)
            self._server = _Server(self.source, self._pack)

    def stop(self) -> None:
        """The container is gone, and all that it held."""
        server, self._server = self._server, None
        if server is not None:
            server.container.remove()

    def sources(self) -> tuple[Source, ...]:
        return (MariaDbSource(self.source, self._running().reader_url, self._refined),)

    def unplug(self, source: str) -> None:
        """The container is gone until the next reset."""
        self._running().container.remove()

    def reset(self) -> None:
        """The database is as at the start; the server is a fresh one where that was needed."""
        make_folder(self._folder)
        if self._server is None or not self._server.restore():
            self.stop()
            self.start()
            if not self._running().restore():
                raise SandboxError(f"{self.source}: a server that was just started is not as new")

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        """What the server is now, and all that is not as in the base."""
        server = self._running()
        try:
            with server.admin() as admin:
                found = look(admin, server.database)
        except (pymysql.Error, OSError) as error:
            found = {"server": cause_of(error)}
        expected = server.expected
        drift = tuple(
            Drift(self.source, label, *_shown(label, expected, found))
            for label in sorted(expected.keys() | found.keys())
            if expected.get(label) != found.get(label)
        )
        proof = SourceProof(
            self.source, METHOD, digest_of(expected), digest_of(found), server.entities
        )
        return proof, drift

    def feeds(self) -> tuple[Feed, ...]:
        """What tells every commit of a run from the server's log."""
        url = self._running().reader_url
        return (MariaDbFeed(self.source, url, self._refined, second=self._second_server),)

    @contextlib.contextmanager
    def _second_server(self) -> Iterator[str]:
        """One more server with a pristine database, for as long as somebody asks it."""
        server = _Server(self.source, self._pack)
        try:
            yield server.owner_url
        finally:
            server.container.remove()

    def unsettled(self, deadline: float) -> str | None:
        """Waits until no statement runs and no transaction that wrote is open; why one is."""
        try:
            with self._running().admin() as admin:
                while True:
                    if not _is_busy(admin):
                        return None
                    if time.monotonic() >= deadline:
                        return "a statement or a write transaction of the agent's is still open"
                    time.sleep(_PROBE_SECONDS)
        except (pymysql.Error, OSError) as error:
            return cause_of(error)

    def failure(self) -> str | None:
        """How others ended its server, which is one process; None where it served or crashed."""
        return self._running().container.ended_by_others(SOCKET)

    def _running(self) -> _Server:
        if self._server is None:
            raise SandboxError(f"{self.source}: its server is not running; start the sandbox first")
        return self._server


@dataclass(frozen=True)
class _Made:
    """What a pack's texts made of a server; the same in every server over its data folder."""

    expected: Mapping[str, str]
    copies: Copies
    secrets: Mapping[str, str] = field(repr=False)
    """The evaluator's own; an agent's is made anew at every reset."""


SHELF: Final[Shelf[_Made]] = Shelf()


class _Server:
    """A container with a database as the pack describes it."""

    def __init__(self, name: str, pack: PackSource) -> None:
        self._name = name
        self.database = re.sub(r"\W", "_", name)
        try:
            self._texts = [pack.files[k].read_text(encoding="utf-8") for k in ("ddl", "seed")]
        except (OSError, UnicodeDecodeError) as error:
            raise SandboxError(f"{name}: its pack cannot be read: {error}") from error
        self._secrets: dict[str, str] = {}
        self._image = image_tag("mariadb")
        try:
            key = (self._image, self.database, *self._texts)
            self.container, made = SHELF.start(key, self._make, self._begin)
        except pymysql.Error as error:
            raise SandboxError(
                f"{name}: {pack.files['ddl']} and {pack.files['seed']} do not make a database: "
                f"{cause_of(error)}"
            ) from error
        self.expected, self._copies = dict(made.expected), made.copies
        self._is_unused = True
        self.entities = sum(
            int(count) for label, count in self.expected.items() if label.startswith("rows of ")
        )

    def _make(self) -> tuple[Container, _Made]:
        """A server with the accounts and the database."""
        self._secrets = dict.fromkeys((OWNER, READER, AGENT), "")
        with self._running(volumes=(PLACE,)) as container:
            expected, copies = self._build()
        known = {role: secret for role, secret in self._secrets.items() if role != AGENT}
        return container, _Made(expected, copies, known)

    def _begin(self, kept: Kept[_Made]) -> Container:
        """A server over what another one wrote, whose agent nobody can be yet."""
        self._secrets = {**kept.facts.secrets, AGENT: ""}
        with self._running(over={PLACE: kept.volume}) as container:
            return container

    @contextlib.contextmanager
    def _running(self, **places: Any) -> Iterator[Container]:
        """A server that answers; it is gone if what is then done with it fails."""
        self.container = connect().run(Spec(self._image, self._name, **places))
        try:
            self.container.await_ready(self._answers)
            yield self.container
        except BaseException:
            self.container.remove()
            raise

    @property
    def agent_url(self) -> str:
        port = self.container.forward(SOCKET)
        return f"mysql://{AGENT}:{self._secrets[AGENT]}@127.0.0.1:{port}/{self.database}"

    @property
    def reader_url(self) -> str:
        return self._url(READER)

    @property
    def owner_url(self) -> str:
        return self._url(OWNER)

    def _url(self, role: str) -> str:
        place = quote(str(self.container.socket(SOCKET)), safe="")
        return f"mysql://{role}:{self._secrets[role]}@/{self.database}?unix_socket={place}"

    @contextlib.contextmanager
    def admin(self) -> Iterator[pymysql.Connection[Any]]:
        """A connection of the server's owner, which no agent can be."""
        connection, _ = connected(self._url(OWNER), STEP_SECONDS)
        with contextlib.closing(connection):
            yield connection

    def _answers(self) -> bool:
        if not self.container.socket(SOCKET).exists():
            return False  # to be refused takes a hundred times as long
        try:
            with self.admin():
                return True
        except (pymysql.Error, OSError):
            return False

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
        with contextlib.closing(
            pymysql.connect(
                unix_socket=str(self.container.socket(SOCKET)), user=AGENT,
                password=self._secrets[AGENT], database=self.database, charset="utf8mb4",
                ssl_disabled=True,
                client_flag=CLIENT.MULTI_STATEMENTS, read_timeout=STEP_SECONDS,
            )
        ) as agent, agent.cursor() as cursor:  # fmt: skip
            for text in self._texts:
                cursor.execute(text)
                while cursor.nextset():
                    pass
            agent.commit()

    def restore(self) -> bool:
        """The database is as at the start; False where the server must be made anew."""
        try:
            with self.admin() as admin:
                if not self._is_unused and not self._puts_back(admin):
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

    def _puts_back(self, admin: pymysql.Connection[Any]) -> bool:
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


def _is_busy(admin: pymysql.Connection[Any]) -> bool:
    """Whether the agent runs a statement, or anybody holds a transaction that wrote."""
    ((running,),) = fetched(admin, _RUNNING)
    # `information_schema.innodb_trx` shows what was so up to 0.1 s ago; the status shows what is.
    ((_, _, status),) = fetched(admin, "SHOW ENGINE INNODB STATUS")
    open_ones = str(status).split("---TRANSACTION")[1:]
    return running != "0" or any("undo log entries" in entry for entry in open_ones)


def _beyond(found: Mapping[str, str], database: str) -> dict[str, str]:
    """What is not in the database itself, but for the agent's password, which resets replace."""
    inside = ("table ", "rows of ", "definition of ", *(
        f"{kind} {database}." for kind in ("trigger", "routine", "event")
    ))  # fmt: skip
    return {
        label: _without_secret(value) if label == _ACCOUNT else value
        for label, value in found.items()
        if not label.startswith(inside) and label != f"database {database}"
    }


def _without_secret(account: str) -> str:
    return re.sub(r'"(authentication_string|password_last_changed)":("[^"]*"|[0-9]+)', "", account)


def _shown(label: str, expected: Mapping[str, str], found: Mapping[str, str]) -> tuple[str, str]:
    """Both sides in short; of what is secret only that they differ."""
    if label.startswith("account "):
        return (
            "as in the base" if label in expected else "nothing",
            "something else" if label in found else "nothing",
        )
    return expected.get(label, "nothing")[:200], found.get(label, "nothing")[:200]
