"""A PostgreSQL server in a container, put back by exchanging its database for a clone made before.

1. `start`: a container; in it the roles, and the database `pristine` from the pack's DDL and seed,
   owned by the agent's role and frozen, so that reading it changes no byte. Then `pg_hba.conf` is
   closed: everybody needs a password.
2. `reset`: what belongs to the whole server is compared with how it was. Where an agent changed
   that, the container is made anew; else its connections are ended, the database is renamed away
   and a clone takes its name. The agent's password is a new one each time.
3. `verify`: the database's files are those of `pristine`, byte for byte, and the server's own
   catalogue is as it was (`postgres_proof`).

The next clone is made in the background. What decides what "pristine" means is in this process's
memory; the databases it comes from let nobody connect.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Final

import psycopg
from psycopg import sql

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.contract.schemafile import load_schema_file, refine
from statediff.errors import SandboxError
from statediff.model.schema import Schema
from statediff.packs import PackSource
from statediff.sandbox.containers import MEBIBYTE, Container, Spec, connect
from statediff.sandbox.folders import make_folder
from statediff.sandbox.images import image_tag
from statediff.sandbox.postgres_proof import cluster, digest_of, files_of, names_of
from statediff.sandbox.receipt import Drift, SourceProof
from statediff.sources.postgres import PostgresSource
from statediff.sources.postgres_feed import PostgresFeed
from statediff.sources.postgres_session import cause_of, connected

METHOD: Final = "sha256 of the database's files, and of the server's roles, settings and databases"
DATA: Final = "/var/lib/statediff"
MEMORY_BYTES: Final = 1536 * MEBIBYTE
"""A limit: what was written and not yet brought to disk counts too, and databases are copied."""
SOCKET: Final = ".s.PGSQL.5432"
AGENT: Final = "agent"
READER: Final = "statediff_reader"
PRISTINE: Final = "pristine"
AGENT_CONNECTIONS: Final = 40
"""At once; the server takes sixty, so that whoever reads always gets in."""
STEP_SECONDS: Final = 60.0
BUILD_SECONDS: Final = 600.0
_PROBE_SECONDS: Final = 0.01
_SECRET: Final = "password of role "  # noqa: S105 - a label

_ROLES: Final = """
CREATE ROLE {agent} LOGIN CONNECTION LIMIT {most};
CREATE ROLE {reader} LOGIN BYPASSRLS PASSWORD {secret};
GRANT pg_read_all_data, pg_read_all_settings TO {reader};
REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC;
CREATE DATABASE {pristine};
"""
_OWNERSHIP: Final = """
GRANT SELECT ON pg_catalog.pg_authid, pg_catalog.pg_largeobject, pg_catalog.pg_subscription
  TO {reader};
ALTER SCHEMA public OWNER TO {agent};
SET SESSION AUTHORIZATION {agent};
"""
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


class PostgresSystem:
    """A `System`: one database of a server of its own."""

    FILES: ClassVar[Mapping[str, bool]] = {"ddl": True, "seed": True}
    LOOKS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self.database = re.sub(r"\W", "_", source.name)
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
            self._server = _Server(self.source, self.database, self._pack)

    def stop(self) -> None:
        """The container is gone, and all that it held."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def sources(self) -> tuple[Source, ...]:
        server = self._running()
        return (PostgresSource(self.source, server.reader_url, self._refined, server.own),)

    def unplug(self, source: str) -> None:
        """The container is gone until the next reset."""
        self._running().container.remove()

    def reset(self) -> None:
        """The database is a fresh clone; the server is a fresh one where that was needed."""
        make_folder(self._folder)
        if self._server is None or not self._server.exchange():
            self.stop()
            self.start()
            if not self._running().exchange():
                raise SandboxError(f"{self.source}: a server that was just started is not as new")

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        """What the files and the server are now, and all that is not as in the base."""
        server = self._running()
        try:
            with server.admin() as admin:
                found = server.look(admin, self.database)
        except psycopg.Error as error:
            found = {"server": cause_of(error)}
        expected = server.expected
        drift = tuple(
            Drift(self.source, server.named(label), *_shown(label, expected, found))
            for label in sorted(expected.keys() | found.keys())
            if expected.get(label) != found.get(label)
        )
        server.prepare()
        proof = SourceProof(
            self.source, METHOD, digest_of(expected), digest_of(found), server.entities
        )
        return proof, drift

    def feeds(self) -> tuple[Feed, ...]:
        """The server's log tells every commit."""
        server = self._running()
        source = PostgresSource(self.source, server.reader_url, self._refined, server.own)
        return (PostgresFeed(source, lambda seconds: server.admin(seconds=seconds)),)

    def unsettled(self, deadline: float) -> str | None:
        """Waits until no statement runs and no transaction that wrote is open; why one is."""
        server = self._running()
        try:
            with server.admin() as admin:
                while True:
                    busy = admin.execute(_BUSY, (self.database, READER)).fetchone()
                    if busy is not None and busy[0] == 0:
                        return None
                    if time.monotonic() >= deadline:
                        return "a statement or a write transaction of the agent's is still open"
                    time.sleep(_PROBE_SECONDS)
        except psycopg.Error as error:
            return cause_of(error)

    def _running(self) -> _Server:
        if self._server is None:
            raise SandboxError(f"{self.source}: its server is not running; start the sandbox first")
        return self._server


class _Server:
    """A container with a pristine database and, mostly, a clone of it at hand."""

    def __init__(self, name: str, database: str, pack: PackSource) -> None:
        self._name = name
        self._database = database
        self._secrets = {role: secrets.token_urlsafe(24) for role in ("postgres", READER, AGENT)}
        self._spare: Future[str] | None = None
        self._used: list[str] = []
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"clones of {name}")
        self.own: set[str] = {PRISTINE}
        """Databases that come and go behind the one that is used; exact names, none ever given
        twice, and none forgotten while somebody may still read a list in which it stands."""
        self.container: Container = connect().run(
            Spec(
                image_tag("postgres"),
                name,
                volumes=(DATA,),
                memory_bytes=MEMORY_BYTES,
                shared_memory_bytes=256 * MEBIBYTE,
            )
        )
        try:
            self.container.await_ready(self._answers)
            self._build(pack)
            self.prepare()
        except BaseException as error:
            self.stop()
            if isinstance(error, psycopg.Error):
                raise SandboxError(
                    f"{name}: {pack.files['ddl']} and {pack.files['seed']} do not make a database: "
                    f"{cause_of(error)}"
                ) from error
            raise

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
    def admin(
        self, database: str = "postgres", seconds: float = STEP_SECONDS
    ) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """A connection of the server's owner, which no agent can be."""
        with connected(self._url("postgres", database), seconds) as connection:
            connection.execute("RESET row_security")
            yield connection

    def _answers(self) -> bool:
        try:
            with self.admin():
                return True
        except psycopg.Error:
            return False

    def _build(self, pack: PackSource) -> None:
        names = {
            "agent": sql.Identifier(AGENT),
            "reader": sql.Identifier(READER),
            "pristine": sql.Identifier(PRISTINE),
            "most": sql.Literal(AGENT_CONNECTIONS),
            "secret": sql.Literal(self._secrets[READER]),
        }
        try:
            tables, rows = (pack.files[k].read_text(encoding="utf-8") for k in ("ddl", "seed"))
        except (OSError, UnicodeDecodeError) as error:
            raise SandboxError(f"{self._name}: its pack cannot be read: {error}") from error
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
        with self.admin(PRISTINE, BUILD_SECONDS) as admin:
            admin.execute(sql.SQL(_OWNERSHIP).format(**names))
            admin.execute("SET search_path = public")
            admin.execute(tables.encode())
            admin.execute(b"BEGIN;" + rows.encode() + b";COMMIT")
            self.entities = _count(admin)
            admin.execute("RESET SESSION AUTHORIZATION")
            admin.execute("SET search_path = pg_catalog")
            admin.execute("ANALYZE")
            admin.execute("VACUUM (FREEZE)")
            self._names = names_of(admin)
        with self.admin(seconds=BUILD_SECONDS) as admin:
            admin.execute(f"ALTER DATABASE {PRISTINE} ALLOW_CONNECTIONS false")
            self._clone(admin, self._database)
            admin.execute(f"ALTER DATABASE {self._database} ALLOW_CONNECTIONS true")
            self.expected: dict[str, str] = {}
            self._server_wide = cluster(admin, frozenset(self.own))
            self._files = files_of(admin, PRISTINE)

    def _clone(self, admin: psycopg.Connection[Any], name: str) -> None:
        admin.execute(
            f"CREATE DATABASE {name} TEMPLATE {PRISTINE} STRATEGY file_copy"
            " ALLOW_CONNECTIONS false".encode()
        )

    def prepare(self) -> None:
        """A clone is at hand, or being made."""
        if self._spare is None:
            name = f"spare_{secrets.token_hex(8)}"
            self.own.add(name)
            self._spare = self._worker.submit(self._make_spare, name)

    def _make_spare(self, name: str) -> str:
        with self.admin() as admin:
            while self._used:
                admin.execute(f"DROP DATABASE {self._used[-1]} WITH (FORCE)".encode())
                self._used.pop()
            self._clone(admin, name)
        return name

    def exchange(self) -> bool:
        """The database is a clone that nobody used; False where the server must be made anew."""
        try:
            self.prepare()
            with self.admin() as admin:
                admin.execute(_END)
                now = cluster(admin, frozenset(self.own))
                if _without_agent(now) != _without_agent(self._server_wide):
                    return False
                assert self._spare is not None  # noqa: S101 - `prepare` has seen to it
                spare = self._spare.result(STEP_SECONDS)
                used = f"used_{secrets.token_hex(8)}"
                self.own.add(used)
                self._used.append(used)
                for step in (
                    f"ALTER DATABASE {self._database} ALLOW_CONNECTIONS false",
                    _END,
                    f"ALTER DATABASE {self._database} RENAME TO {used}",
                    f"ALTER DATABASE {spare} RENAME TO {self._database}",
                    f"ALTER DATABASE {self._database} ALLOW_CONNECTIONS true",
                ):
                    admin.execute(step.encode())
                self._spare = None
                self._secrets[AGENT] = secrets.token_urlsafe(24)
                _set_password(admin, AGENT, self._secrets[AGENT])
                self._server_wide = cluster(admin, frozenset(self.own))
                self.expected = {**self._server_wide, **self._labelled(self._files)}
        except (psycopg.Error, TimeoutError):
            return False
        return True

    def look(self, admin: psycopg.Connection[Any], database: str) -> dict[str, str]:
        """All that `expected` says, as it is now."""
        found = cluster(admin, frozenset(self.own))
        return {**found, **self._labelled(files_of(admin, database))}

    def _labelled(self, files: Mapping[str, str]) -> dict[str, str]:
        return {f"file base/{name}": digest for name, digest in files.items()}

    def named(self, label: str) -> str:
        """What a label speaks of, in words: a file by the table that lies in it."""
        number = re.match(r"file base/(\d+)", label)
        if number is None:
            return label
        held = self._names.get(number[1], "a file that is not in the base")
        return f"{held} ({label.removeprefix('file base/')})"

    def stop(self) -> None:
        """Nothing of it is running."""
        self.container.remove()
        self._worker.shutdown(wait=True, cancel_futures=True)


def _without_agent(found: Mapping[str, str]) -> dict[str, str]:
    """The server but for the agent's password, which every reset replaces."""
    return {label: value for label, value in found.items() if label != _SECRET + AGENT}


def _set_password(admin: psycopg.Connection[Any], role: str, secret: str) -> None:
    admin.execute(
        sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(secret))
    )


def _count(admin: psycopg.Connection[Any]) -> int:
    tables = admin.execute(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind = 'r' AND c.oid >= 16384 AND n.nspname !~ '^pg_toast'"
    ).fetchall()
    total = 0
    for names in tables:
        rows = admin.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(*names)))
        total += int((rows.fetchone() or (0,))[0])
    return total


def _shown(label: str, expected: Mapping[str, str], found: Mapping[str, str]) -> tuple[str, str]:
    """Both sides in short; of what is secret or long only that they differ."""
    if label.startswith((_SECRET, "file ")):
        return (
            "as in the base" if label in expected else "nothing",
            "something else" if label in found else "nothing",
        )
    return expected.get(label, "nothing")[:200], found.get(label, "nothing")[:200]
