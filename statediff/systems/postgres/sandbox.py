"""A PostgreSQL server in a container, put back by exchanging its database for a clone made before.

1. `start`: a container; in it the roles, and the database `pristine` from the pack's DDL and seed,
   owned by the agent's role and frozen, so that reading it changes no byte. Then `pg_hba.conf` is
   closed: everybody needs a password.
2. `reset`: what belongs to the whole server is compared with how it was. Where an agent changed
   that, the container is made anew; else its connections are ended, the database is renamed away
   and a clone takes its name. The agent's password is a new one each time.
3. `verify`: the database's files are those of `pristine`, byte for byte, and the server's own
   catalogue is as it was (`postgres_proof`).

The next clone is made, and mostly digested, in the background (`postgres_spares`). What decides
what "pristine" means is in this process's memory; the databases it comes from let nobody connect.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final

import psycopg

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import load_schema_file
from statediff.errors import SandboxError
from statediff.model.schema import Schema
from statediff.packs import PackSource
from statediff.systems.base.folders import make_folder
from statediff.systems.base.receipt import Drift, SourceProof
from statediff.systems.postgres.feed import PostgresFeed
from statediff.systems.postgres.proof import digest_of, shown
from statediff.systems.postgres.server import READER, Server
from statediff.systems.postgres.session import cause_of
from statediff.systems.postgres.source import PostgresSource

METHOD: Final = (
    "sha256 of the database's files, none changed since it was taken, and of the server's roles,"
    " settings and databases"
)
_PROBE_SECONDS: Final = 0.01
_BUSY: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = %s AND pid <> pg_backend_pid() AND usename <> %s
  AND (state IN ('active', 'fastpath function call') OR backend_xid IS NOT NULL)
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
        self._server: Server | None = None

    @property
    def url(self) -> str:
        return self._running().agent_url

    def start(self) -> None:
        """A server runs with a pristine database that nobody has used."""
        if self._server is None:
            make_folder(self._folder)
            self._server = Server(self.source, self.database, self._pack)

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
            with server.as_first(), server.admin() as admin:
                found = server.look(admin, self.database)
        except psycopg.Error as error:
            found = {"server": cause_of(error)}
        expected = server.expected
        drift = tuple(
            Drift(self.source, server.named(label), *shown(label, expected, found))
            for label in sorted(expected.keys() | found.keys())
            if expected.get(label) != found.get(label)
        )
        server.spares.prepare()
        proof = SourceProof(
            self.source, METHOD, digest_of(expected), digest_of(found), server.entities
        )
        return proof, drift

    def feeds(self) -> tuple[Feed, ...]:
        """The server's log tells every commit."""
        server = self._running()
        source = PostgresSource(self.source, server.reader_url, self._refined, server.spares.own)
        return (PostgresFeed(source, lambda seconds: server.apart(seconds=seconds)),)

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

    def failure(self) -> str | None:
        """How others ended its server, or a process of it; None where it served or crashed."""
        return self._running().failure()

    def _running(self) -> Server:
        if self._server is None:
            raise SandboxError(f"{self.source}: its server is not running; start the sandbox first")
        return self._server
