"""A PostgreSQL server in a container: its roles, its databases, and who may sign in."""

from __future__ import annotations

import contextlib
import re
import secrets
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg import pq, sql

from statediff.errors import SandboxError
from statediff.packs import PackSource
from statediff.systems.containers.engine import MEBIBYTE, Container, Spec, connect
from statediff.systems.containers.images import image_tag
from statediff.systems.containers.prepared import STARTS, Kept, Shelf
from statediff.systems.postgres.clones import PRISTINE, STEP_SECONDS, Spare, Spares
from statediff.systems.postgres.proof import (
    SECRET,
    Connection,
    begun_at,
    cluster,
    count_rows,
    files_of,
    files_since,
    names_of,
)
from statediff.systems.postgres.session import cause_of, connected, hung_up_after, opened

PLACE: Final = "/var/lib/statediff"
"""All that the server may write."""
DATA: Final = f"{PLACE}/data"
MEMORY_BYTES: Final = 1536 * MEBIBYTE
"""A limit: what was written and not yet brought to disk counts too, and databases are copied."""
SOCKET: Final = ".s.PGSQL.5432"
AGENT: Final = "agent"
READER: Final = "statediff_reader"
AGENT_CONNECTIONS: Final = 40
"""At once; the server takes sixty, so that whoever reads always gets in."""
BUILD_SECONDS: Final = 600.0
KILLED: Final = int(signal.SIGKILL)
NOTED_SECONDS: Final = 1.0
"""The server's notes come by way of the engine."""
NOTED_LINES: Final = 10_000
_POLL_SECONDS: Final = 0.02
_PING_SECONDS: Final = 10
_DEATH: Final = re.compile(
    r"^\S+ \S+ UTC \[1\] LOG:  .*\(PID \d+\)"
    r" (?:was terminated by signal (\d+)|exited with exit code)",
    re.MULTILINE,
)
"""What process 1 notes; what an agent says follows a tab, and its errors are not noted at all."""
_ASKED: Final = re.compile(r"^\S+ \S+ UTC \[1\] LOG:  received \w+ shutdown request$", re.MULTILINE)
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
_HBA: Final = "local all all scram-sha-256"
_END: Final = """
SELECT count(pg_terminate_backend(pid, 2000)) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND usename <> current_user
"""


@dataclass(frozen=True)
class Made:
    """What a pack's texts made of a server; the same in every server over its data folder."""

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


class Server:
    """A container with a pristine database and, mostly, a clone of it at hand."""

    def __init__(self, name: str, database: str, pack: PackSource) -> None:
        self._name = name
        self._database = database
        self._secrets = {role: secrets.token_urlsafe(24) for role in ("postgres", READER, AGENT)}
        self.spares = Spares(name, self.apart)
        self.own = self.spares.own
        self._used: Spare | None = None
        self._server_wide: dict[str, str] = {}
        self._begun = ""
        self.expected: dict[str, str] = {}
        self._was_looked_at = False
        self._admin: Connection | None = None
        try:
            self._texts = tuple(pack.files[k].read_text(encoding="utf-8") for k in ("ddl", "seed"))
        except (OSError, UnicodeDecodeError) as error:
            raise SandboxError(f"{name}: its pack cannot be read: {error}") from error
        self._image = image_tag("postgres")
        try:
            key = (self._image, *self._texts)
            self.container, self._made = SHELF.start(key, self._make, self._begin)
        except psycopg.Error as error:
            raise SandboxError(
                f"{name}: {pack.files['ddl']} and {pack.files['seed']} do not make a"
                f" database: {cause_of(error)}"
            ) from error
        self.spares.adopt(self._made.spare)

    def _make(self) -> tuple[Container, Made]:
        """A server that has a pristine database, of which a clone is at hand."""
        with self._running(volumes=(PLACE,)) as container:
            entities, names = self._build()
            # A clone is made first: unlike a checkpoint, that brings to disk what is not logged.
            spare = self.spares.first()
            with self.admin(BUILD_SECONDS) as admin:
                files = files_of(admin, PRISTINE)
        known = {role: secret for role, secret in self._secrets.items() if role != AGENT}
        return container, Made(entities, names, files, spare, known)

    def _begin(self, kept: Kept[Made]) -> Container:
        """A server over what another one wrote."""
        self._let_go()
        self._secrets |= kept.facts.secrets
        with self._running(over={PLACE: kept.volume}) as container:
            return container

    @contextlib.contextmanager
    def _running(self, **places: Any) -> Iterator[Container]:
        """A server that answers; it is gone if what is then done with it fails."""
        self.container = connect().run(
            Spec(
                self._image,
                self._name,
                memory_bytes=MEMORY_BYTES,
                shared_memory_bytes=256 * MEBIBYTE,
                **places,
            )
        )
        try:
            self.container.await_ready(self._answers)
            yield self.container
        except BaseException:
            self.container.remove()
            self._let_go()
            raise

    @property
    def entities(self) -> int:
        """The rows of the pristine database."""
        return self._made.entities

    @property
    def agent_url(self) -> str:
        port = self.container.forward(SOCKET)
        return f"postgresql://{AGENT}:{self._secrets[AGENT]}@127.0.0.1:{port}/{self._database}"

    @property
    def reader_url(self) -> str:
        return self._url(READER, self._database)

    def _url(self, role: str, database: str) -> str:
        folder = str(self.container.socket(SOCKET).parent).replace("/", "%2F")
        return f"postgresql://{role}:{self._secrets[role]}@{folder}/{database}"

    @contextlib.contextmanager
    def admin(self, seconds: float = STEP_SECONDS) -> Iterator[Connection]:
        """The connection of the server's owner, which no agent can be; it stays until it fails.

        For whoever puts back and proves; who works beside them takes one `apart`.
        """
        kept = self._kept()
        with hung_up_after(kept, seconds):
            yield kept

    def _kept(self) -> Connection:
        """A connection that works; the server may have ended the one there was."""
        try:
            if self._admin is not None:
                self._admin.execute("SELECT")
                return self._admin
        except psycopg.Error:
            self._let_go()
        self._admin = opened(self._url("postgres", "postgres"))
        self._admin.execute("RESET row_security")
        return self._admin

    def _let_go(self) -> None:
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

    def _lets_in(self) -> bool:
        """Whether it takes new connections: one that was asked to end keeps those it has."""
        place = f"{self._url('postgres', 'postgres')}?connect_timeout={_PING_SECONDS}"
        return pq.PGconn.ping(place.encode()) == pq.Ping.OK

    def _answers(self) -> bool:
        if not self.container.socket(SOCKET).exists():
            return False  # to be refused takes a hundred times as long
        try:
            with self.admin():
                return True
        except psycopg.Error:
            return False

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
            admin.execute(
                sql.SQL("COPY (SELECT {}) TO {}").format(
                    sql.Literal(_HBA), sql.Literal(f"{DATA}/pg_hba.conf")
                )
            )
            admin.execute("SELECT pg_reload_conf()")
            admin.execute("CREATE EXTENSION pg_walinspect SCHEMA public")
        with self.apart(PRISTINE, BUILD_SECONDS) as admin:
            admin.execute(sql.SQL(_OWNERSHIP).format(**names))
            admin.execute("SET search_path = public")
            admin.execute(tables.encode())
            admin.execute(b"BEGIN;" + rows.encode() + b";COMMIT")
            entities = count_rows(admin)
            admin.execute("RESET SESSION AUTHORIZATION")
            admin.execute("SET search_path = pg_catalog")
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

    def exchange(self) -> bool:
        """The database is a clone that nobody used; False where the server must be made anew."""
        try:
            with self.as_first(), self.admin() as admin:
                verifier = self._renew_password(admin)
                if self._server_wide:
                    if not self._lets_in():
                        return False
                    if begun_at(admin) != self._begun or self.container.is_starved():
                        return False
                    admin.execute(_END)
                    now = cluster(admin, self.own)
                    if _without_agent(now) != _without_agent(self._server_wide):
                        return False
                self._swap(admin)
                self._begun = begun_at(admin)
                if not self._server_wide:
                    self._server_wide = cluster(admin, self.own)
                self._server_wide[SECRET + AGENT] = verifier
                self.expected = {**self._server_wide, **_labelled(self._made.files)}
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
            f"ALTER DATABASE {self._used.name} RENAME TO {self._database}",
            f"ALTER DATABASE {self._database} ALLOW_CONNECTIONS true",
        ]
        if self._server_wide:
            admin.execute(f"ALTER DATABASE {self._database} ALLOW_CONNECTIONS false".encode())
            admin.execute(_END)
            steps.insert(0, f"ALTER DATABASE {self._database} RENAME TO {self.spares.retired()}")
        admin.execute("; ".join(steps).encode())

    def look(self, admin: psycopg.Connection[Any], database: str) -> dict[str, str]:
        """All that `expected` says, as it is now."""
        found = cluster(admin, self.own)
        self._was_looked_at = True
        known = None if self._used is None else self._used.known_files()
        return {**found, **_labelled(files_since(admin, database, known))}

    def named(self, label: str) -> str:
        """What a label speaks of, in words: a file by the table that lies in it."""
        number = re.match(r"file base/(\d+)", label)
        if number is None:
            return label
        held = self._made.names.get(number[1], "a file that is not in the base")
        return f"{held} ({label.removeprefix('file base/')})"

    def failure(self) -> str | None:
        """How others ended it, or a process of it, since the last exchange; None if nobody did.

        Where one of its processes dies, all begin again. One that was killed was killed by others;
        one that crashed, or was killed for its memory, may have been made to by what it was told.
        """
        if self.container.is_starved():
            return None
        cause = self.container.ended_by_others()
        if not self.container.has_ended():
            try:
                # Whoever is connected stays so in a server that was asked to end: so a new one.
                with self.apart() as admin:
                    if self._begun == begun_at(admin):
                        return None
                cause = "its server began again"
            except psycopg.Error as error:
                cause = cause_of(error)
        deaths, was_asked = self._noted()
        if KILLED in deaths:
            return "a process of its server was killed"
        if was_asked and deaths <= {0}:
            return cause or "its server ended"
        return None if deaths else cause

    def _noted(self) -> tuple[set[int], bool]:
        """By which signals processes of it died, 0 for a code, and whether it was asked to end."""
        deadline = time.monotonic() + NOTED_SECONDS
        while True:
            log = self.container.log(NOTED_LINES)
            found = {int(number or 0) for number in _DEATH.findall(log)}
            was_asked = _ASKED.search(log) is not None
            if found or was_asked or time.monotonic() >= deadline:
                return found, was_asked
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Nothing of it is running."""
        self.container.remove()
        self._let_go()
        self.spares.close()


def _without_agent(found: Mapping[str, str]) -> dict[str, str]:
    """The server but for the agent's password, which every reset replaces."""
    return {label: value for label, value in found.items() if label != SECRET + AGENT}


def _labelled(files: Mapping[str, str]) -> dict[str, str]:
    return {f"file base/{name}": digest for name, digest in files.items()}


def _set_password(admin: Connection, role: str, secret: str) -> str:
    """What the server keeps of it, from which it cannot be told."""
    encrypted = admin.pgconn.encrypt_password(secret.encode(), role.encode(), b"scram-sha-256")
    verifier = encrypted.decode()
    admin.execute(
        sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(verifier))
    )
    return verifier
