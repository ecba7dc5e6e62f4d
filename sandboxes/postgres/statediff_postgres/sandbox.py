"""A PostgreSQL server of its own, put back by exchanging its database for a clone made before.

1. `start`: a server, in a container or as a process (`postgres.machines`); in it the roles, and the
   database `pristine` from the pack's DDL and seed, owned by the agent's role and frozen, so that
   reading it changes no byte. Then `pg_hba.conf` is closed: everybody needs a password.
2. `reset`: what belongs to the whole server is compared with how it was. Where an agent changed
   that, the server is made anew; else its connections are ended, the database is renamed away
   and a clone takes its name. The agent's password is a new one each time.
3. `verify`: the database's files are those of `pristine`, byte for byte, and the server's own
   catalogue is as it was (`postgres.proof`).

The next clone is made, and mostly digested, in the background (`Spares`). What decides
what "pristine" means is in this process's memory; the databases it comes from let nobody connect.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import psycopg
from psycopg import pq, sql
from statediff_containers.box import Box
from statediff_containers.database import (
    AGENT,
    AGENT_CONNECTIONS,
    READER,
    STEP_SECONDS,
    DatabaseServer,
    DatabaseSystem,
)
from statediff_containers.prepared import STARTS, Kept, Shelf

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.packs import PackSource
from statediff.systems.base.protocol import Drift, SourceProof
from statediff_postgres.feed import PostgresFeed
from statediff_postgres.machines import PostgresMachine, chosen
from statediff_postgres.proof import (
    SECRET,
    Connection,
    Files,
    begun_at,
    cluster,
    count_rows,
    files_of,
    files_since,
    names_of,
    stand_still,
)
from statediff_postgres.session import cause_of, connected, hung_up_after, opened
from statediff_postgres.source import PostgresSource


class PostgresSystem(DatabaseSystem["PostgresServer"]):
    """A `System`: one database of a PostgreSQL server of its own."""

    METHOD: ClassVar = (
        "sha256 of the database's files, none changed since it was taken, and of the server's"
        " roles, settings and databases"
    )
    HIDDEN: ClassVar = (SECRET, "file ")

    def _machine(self) -> PostgresMachine:
        return chosen()

    def _new_server(self) -> PostgresServer:
        return PostgresServer(self.source, self._pack, chosen())

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        """The proof of the present files and server, and all that is not as in the base."""
        proof = super().verify()
        self._running().spares.prepare()
        return proof

    def sources(self) -> tuple[Source, ...]:
        server = self._running()
        return (PostgresSource(self.source, server.reader_url, self._refined, server.own),)

    def as_owner(self) -> AbstractContextManager[Connection]:
        """The database for once, by the server's owner, which no agent can be."""
        server = self._running()
        return server.apart(server.database)

    def feeds(self) -> tuple[Feed, ...]:
        """The server's log tells every commit."""
        server = self._running()
        source = PostgresSource(self.source, server.reader_url, self._refined, server.spares.own)
        return (server.feed(source),)


PRISTINE: Final = "pristine"


@dataclass(frozen=True)
class Spare:
    """A clone that nobody has used, or that is being made."""

    name: str
    made: Future[None]
    files: Future[Files | None]
    wanted: threading.Event

    def known_files(self) -> Files | None:
        """Its files as they were while it stood still; None where it was wanted before."""
        try:
            return self.files.result(STEP_SECONDS)
        except (psycopg.Error, TimeoutError):
            return None


class Spares:
    """One spare at hand at a time; the databases that were used before are dropped meanwhile."""

    def __init__(self, name: str, admin: Callable[[], AbstractContextManager[Connection]]) -> None:
        self.own: set[str] = {PRISTINE}
        """Databases that come and go behind the one that is used; exact names, none ever given
        twice, and none forgotten while somebody may still read a list in which it stands."""
        self._admin = admin
        self._spare: Spare | None = None
        self._used: list[str] = []
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"clones of {name}")

    def prepare(self) -> Spare:
        """A clone is at hand, or being made."""
        if self._spare is None:
            name = f"spare_{secrets.token_hex(8)}"
            self.own.add(name)
            wanted = threading.Event()
            made = self._worker.submit(self._make_at_leisure, name, wanted)
            self._spare = self._new_spare(name, made, wanted)
        return self._spare

    def first(self) -> str:
        """The name of a whole clone, which is at hand once it is adopted."""
        name = f"spare_{secrets.token_hex(8)}"
        self._make(name)
        return name

    def adopt(self, name: str) -> None:
        """The clone so called, which was made before, is at hand."""
        self.own.add(name)
        made: Future[None] = Future()
        made.set_result(None)
        self._spare = self._new_spare(name, made, threading.Event())

    def _new_spare(self, name: str, made: Future[None], wanted: threading.Event) -> Spare:
        return Spare(name, made, self._worker.submit(self._digest, name, wanted), wanted)

    def take(self) -> Spare:
        """The clone, whole; it is the caller's. Raises `psycopg.Error` or `TimeoutError`."""
        spare = self.prepare()
        spare.wanted.set()
        self._spare = None
        spare.made.result(STEP_SECONDS)
        return spare

    def retire(self) -> str:
        """A name for the database that was used until now: it will be dropped under it."""
        name = f"used_{secrets.token_hex(8)}"
        self.own.add(name)
        self._used.append(name)
        return name

    def close(self) -> None:
        """Nothing is being made any more."""
        if self._spare is not None:
            self._spare.wanted.set()
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _make_at_leisure(self, name: str, wanted: threading.Event) -> None:
        STARTS.rest(wanted)
        self._make(name)

    def _make(self, name: str) -> None:
        with self._admin() as admin:
            while self._used:
                admin.execute(f"DROP DATABASE IF EXISTS {self._used[-1]} WITH (FORCE)".encode())
                self._used.pop()
            admin.execute(
                f"CREATE DATABASE {name} TEMPLATE {PRISTINE} STRATEGY file_copy"
                " ALLOW_CONNECTIONS false".encode()
            )

    def _digest(self, name: str, wanted: threading.Event) -> Files | None:
        if wanted.is_set():
            return None
        with self._admin() as admin:
            return stand_still(admin, name, wanted.wait)


BUILD_SECONDS: Final = 600.0
KILLED: Final = int(signal.SIGKILL)
NOTED_SECONDS: Final = 1.0
"""The server's notes come by way of the engine."""
NOTED_LINES: Final = 10_000
_POLL_SECONDS: Final = 0.02
_PING_SECONDS: Final = 10
_NOTE: Final = r"^\S+ \S+ UTC \[{pid}\] LOG:  "
"""Of the server's first process; what an agent says follows a tab, and its errors are not noted."""
_DEATH: Final = r".*\(PID \d+\) (?:was terminated by signal (\d+)|exited with exit code)"
_ASKED: Final = r"received \w+ shutdown request$"
"""Its own processes that end then, some with a code, have died of nothing."""

_ROLES: Final = """
CREATE ROLE {agent} LOGIN CONNECTION LIMIT {most};
CREATE ROLE {reader} LOGIN BYPASSRLS PASSWORD {secret};
GRANT pg_read_all_data, pg_read_all_settings TO {reader};
REVOKE ALL ON DATABASE postgres FROM PUBLIC;
ALTER DATABASE template1 RENAME TO {pristine};
ALTER DATABASE {pristine} IS_TEMPLATE false;
"""
_OWNERSHIP: Final = """
GRANT SELECT ON pg_catalog.pg_authid, pg_catalog.pg_largeobject, pg_catalog.pg_subscription
  TO {reader};
ALTER SCHEMA public OWNER TO {agent};
SET SESSION AUTHORIZATION {agent};
"""
_CHECKS: Final = "GRANT EXECUTE ON FUNCTION bt_index_check(regclass, boolean) TO {reader}"
_HBA: Final = "local all all scram-sha-256"
_BUSY: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = %s AND pid <> pg_backend_pid() AND usename <> %s
  AND (state IN ('active', 'fastpath function call') OR backend_xid IS NOT NULL)
"""
_END: Final = """
SELECT count(pg_terminate_backend(pid, 2000)) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND usename <> current_user
"""


@dataclass(frozen=True)
class Made:
    """The result of a pack's texts on a server; the same in every server over its data folder."""

    entities: int
    names: Mapping[str, str]
    """File → what it holds."""
    files: Mapping[str, str]
    """File of the pristine database → digest."""
    spare: str
    """A clone of it that nobody has used."""
    secrets: Mapping[str, str] = field(repr=False)
    """The evaluator's own; an agent's is made anew at every reset."""


SHELF: Final[Shelf[Made]] = Shelf()


class PostgresServer(DatabaseServer[Made]):
    """A server with a pristine database and, mostly, a clone of it at hand."""

    SCHEME: ClassVar = "postgresql"
    SOCKET: ClassVar = ".s.PGSQL.5432"
    ERROR: ClassVar = psycopg.Error
    FAILURES: ClassVar = (psycopg.Error,)

    def __init__(self, name: str, pack: PackSource, machine: PostgresMachine) -> None:
        super().__init__(name, pack, machine)
        self._runs_on = machine
        self._secrets = {role: secrets.token_urlsafe(24) for role in ("postgres", READER, AGENT)}
        self._secrets |= machine.secrets
        self.spares = Spares(name, self.apart)
        self.own = self.spares.own
        self._used: Spare | None = None
        self._server_wide: dict[str, str] = {}
        self._began = ""
        self.expected = {}
        self._was_looked_at = False
        self._admin: Connection | None = None
        self._made = self._start(SHELF)
        self.spares.adopt(self._made.spare)

    def _make(self) -> tuple[Box, Made]:
        """A server that has a pristine database, of which a clone is at hand."""
        with self._running() as container:
            entities, names = self._build()
            # A clone is made first: unlike a checkpoint, that brings to disk what is not logged.
            spare = self.spares.first()
            with self.admin(BUILD_SECONDS) as admin:
                files = files_of(admin, PRISTINE)
        return container, Made(entities, names, files, spare, self._known_secrets())

    def _begin(self, kept: Kept[Made]) -> Box:
        """A server over what another one wrote."""
        self._hang_up()
        self._secrets |= kept.facts.secrets
        with self._running(kept.written) as container:
            return container

    @property
    def entities(self) -> int:
        """The rows of the pristine database."""
        return self._made.entities

    @property
    def reader_url(self) -> str:
        return self._url(READER, self.database)

    def _url(self, role: str, database: str) -> str:
        folder = str(self.container.socket(self.SOCKET).parent).replace("/", "%2F")
        return f"postgresql://{role}:{self._secrets[role]}@{folder}/{database}"

    @contextlib.contextmanager
    def admin(self, seconds: float = STEP_SECONDS) -> Iterator[Connection]:
        """The connection of the server's owner, which no agent can be; it stays until it fails.

        For putting back and proving; work beside them takes one `apart`.
        """
        kept = self._working_connection()
        with hung_up_after(kept, seconds):
            yield kept

    def _working_connection(self) -> Connection:
        """A connection that works; the server may have ended the one there was."""
        try:
            if self._admin is not None:
                self._admin.execute("SELECT")
                return self._admin
        except psycopg.Error:
            self._hang_up()
        self._admin = opened(self._url("postgres", "postgres"))
        self._admin.execute("RESET row_security")
        return self._admin

    def _hang_up(self) -> None:
        if self._admin is not None:
            self._admin.close()
        self._admin = None

    @contextlib.contextmanager
    def apart(
        self, database: str = "postgres", seconds: float = STEP_SECONDS
    ) -> Iterator[Connection]:
        """A connection of the server's owner for once."""
        with connected(self._url("postgres", database), seconds) as connection:
            connection.execute("RESET row_security")
            yield connection

    def feed(self, source: PostgresSource) -> PostgresFeed:
        """The feed that reads every commit from its log."""
        read_log = self._runs_on.log_of(self.container)
        return PostgresFeed(source, lambda seconds: self.apart(seconds=seconds), read_log)

    def _lets_in(self) -> bool:
        """True if it takes new connections: one that was asked to end keeps those it has."""
        place = f"{self._url('postgres', 'postgres')}?connect_timeout={_PING_SECONDS}"
        return pq.PGconn.ping(place.encode()) == pq.Ping.OK

    def _build(self) -> tuple[int, dict[str, str]]:
        """The roles and the pristine database are made; its rows, and what its files hold."""
        tables, rows = self._texts
        names = {
            "agent": sql.Identifier(AGENT),
            "reader": sql.Identifier(READER),
            "pristine": sql.Identifier(PRISTINE),
            "most": sql.Literal(AGENT_CONNECTIONS),
            "secret": sql.Literal(self._secrets[READER]),
        }
        with self.admin() as admin:
            for step in _ROLES.strip().split("\n"):
                admin.execute(sql.SQL(step).format(**names))
            _set_password(admin, "postgres", self._secrets["postgres"])
            (rules,) = admin.execute("SHOW hba_file").fetchone() or ("",)
            admin.execute(
                sql.SQL("COPY (SELECT {}) TO {}").format(sql.Literal(_HBA), sql.Literal(rules))
            )
            admin.execute("SELECT pg_reload_conf()")
            if "pg_walinspect" in self._runs_on.extensions:
                admin.execute("CREATE EXTENSION pg_walinspect SCHEMA public")
        with self.apart(PRISTINE, BUILD_SECONDS) as admin:
            admin.execute(sql.SQL(_OWNERSHIP).format(**names))
            admin.execute("SET search_path = public")
            admin.execute(tables.encode())
            admin.execute(b"BEGIN;" + rows.encode() + b";COMMIT")
            entities = count_rows(admin)
            admin.execute("RESET SESSION AUTHORIZATION")
            admin.execute("SET search_path = pg_catalog")
            if "amcheck" in self._runs_on.extensions:
                admin.execute("CREATE EXTENSION amcheck SCHEMA pg_catalog")
                admin.execute(sql.SQL(_CHECKS).format(**names))
            admin.execute("ANALYZE")
            admin.execute("VACUUM (FREEZE)")
            held = names_of(admin)
        with self.apart(seconds=BUILD_SECONDS) as admin:
            admin.execute(f"ALTER DATABASE {PRISTINE} ALLOW_CONNECTIONS false")
        return entities, held

    @contextlib.contextmanager
    def as_first(self) -> Iterator[None]:
        """Until it was looked at once it is being started, and what others need later can wait."""
        with contextlib.nullcontext() if self._was_looked_at else STARTS.one():
            yield

    def put_back(self) -> bool:
        """The database is a clone that nobody used; False where the server must be made anew."""
        try:
            with self.as_first(), self.admin() as admin:
                verifier = self._renew_password(admin)
                if self._server_wide:
                    if not self._lets_in():
                        return False
                    if begun_at(admin) != self._began or self.container.is_starved():
                        return False
                    admin.execute(_END)
                    now = cluster(admin, self.own)
                    if _without_agent(now) != _without_agent(self._server_wide):
                        return False
                self._swap(admin)
                self._began = begun_at(admin)
                if not self._server_wide:
                    self._server_wide = cluster(admin, self.own)
                self._server_wide[SECRET + AGENT] = verifier
                self.expected = {**self._server_wide, **_file_labels(self._made.files)}
        except (psycopg.Error, TimeoutError):
            return False
        return True

    def _renew_password(self, admin: Connection) -> str:
        """Nobody knows the agent's password; what the server keeps of it."""
        self._secrets[AGENT] = secrets.token_urlsafe(24)
        return _set_password(admin, AGENT, self._secrets[AGENT])

    def _swap(self, admin: Connection) -> None:
        """The spare has the database's name; nobody is connected to what had it before."""
        self._used = self.spares.take()
        steps = [
            f"ALTER DATABASE {self._used.name} RENAME TO {self.database}",
            f"ALTER DATABASE {self.database} ALLOW_CONNECTIONS true",
        ]
        if self._server_wide:
            admin.execute(f"ALTER DATABASE {self.database} ALLOW_CONNECTIONS false".encode())
            admin.execute(_END)
            steps.insert(0, f"ALTER DATABASE {self.database} RENAME TO {self.spares.retire()}")
        admin.execute("; ".join(steps).encode())

    def look(self) -> dict[str, str]:
        with self.as_first(), self.admin() as admin:
            found = cluster(admin, self.own)
            self._was_looked_at = True
            known = None if self._used is None else self._used.known_files()
            return {**found, **_file_labels(files_since(admin, self.database, known))}

    def is_busy(self, admin: Connection) -> bool:
        busy = admin.execute(_BUSY, (self.database, READER)).fetchone()
        return busy is None or busy[0] != 0

    def cause_of(self, error: Any) -> str:
        return cause_of(error)

    def describe(self, label: str) -> str:
        """The subject of a label, in words: a file by the table that lies in it."""
        number = re.match(r"file base/(\d+)", label)
        if number is None:
            return label
        held = self._made.names.get(number[1], "a file that is not in the base")
        return f"{held} ({label.removeprefix('file base/')})"

    def failure(self) -> str | None:
        """How others ended it, or a process of it, since the last exchange; None if nobody did.

        Where one of its processes dies, all begin again. One that was killed was killed by others;
        one that crashed, or was killed for its memory, may have been made to by its input.
        """
        if self.container.is_starved():
            return None
        cause = self.container.ended_by_others()
        if not self.container.has_ended():
            try:
                # Anyone who is connected stays so in a server that was asked to end: so a new one.
                with self.apart() as admin:
                    if self._began == begun_at(admin):
                        return None
                cause = "its server began again"
            except psycopg.Error as error:
                cause = self._ended_soon() or cause_of(error)
        deaths, was_asked = self._note_deaths()
        if KILLED in deaths:
            return "a process of its server was killed"
        if was_asked and deaths <= {0}:
            return cause or "its server ended"
        return None if deaths else cause

    def _ended_soon(self) -> str | None:
        """How others ended it: a process that was killed closes its doors before it has ended."""
        deadline = time.monotonic() + NOTED_SECONDS
        while not self.container.has_ended() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return self.container.ended_by_others()

    def _note_deaths(self) -> tuple[set[int], bool]:
        """By which signals processes of it died, 0 for a code, and whether it was asked to end."""
        deadline = time.monotonic() + NOTED_SECONDS
        while True:
            log = self.container.log(NOTED_LINES)
            note = _NOTE.format(pid=self.container.pid)
            found = {int(n or 0) for n in re.findall(note + _DEATH, log, re.MULTILINE)}
            was_asked = re.search(note + _ASKED, log, re.MULTILINE) is not None
            if found or was_asked or time.monotonic() >= deadline:
                return found, was_asked
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Nothing of it is running."""
        super().stop()
        self.spares.close()


def _without_agent(found: Mapping[str, str]) -> dict[str, str]:
    """The server but for the agent's password, which every reset replaces."""
    return {label: value for label, value in found.items() if label != SECRET + AGENT}


def _file_labels(files: Mapping[str, str]) -> dict[str, str]:
    return {f"file base/{name}": digest for name, digest in files.items()}


def _set_password(admin: Connection, role: str, secret: str) -> str:
    """The verifier that the server keeps of the password, from which it cannot be known."""
    encrypted = admin.pgconn.encrypt_password(secret.encode(), role.encode(), b"scram-sha-256")
    verifier = encrypted.decode()
    admin.execute(
        sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(verifier))
    )
    return verifier
