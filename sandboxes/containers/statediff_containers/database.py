"""A database of a server of its own: what every such system does.

A `DatabaseServer` is the server with its accounts, in a container or as a process; a
`DatabaseSystem` starts it, puts it back, proves it by what `look` finds, and waits until the
agent's work there has ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.errors import SandboxError
from statediff.packs import PackSource
from statediff.systems.base.folders import make_folder
from statediff.systems.base.protocol import Drift, SourceProof
from statediff_containers.box import Box, Machine
from statediff_containers.prepared import Kept, Shelf

PLACE: Final = "/var/lib/statediff"
"""All that a server in a container may write, but for /tmp."""
AGENT: Final = "agent"
READER: Final = "statediff_reader"
AGENT_CONNECTIONS: Final = 40
"""At once; a server takes sixty, so that a reader always gets in."""
STEP_SECONDS: Final = 60.0
_PROBE_SECONDS: Final = 0.01

Facts = TypeVar("Facts")
AnyServer = TypeVar("AnyServer", bound="DatabaseServer[Any]")


class DatabaseServer(ABC, Generic[Facts]):
    """A server with a database as the pack's texts describe it."""

    SCHEME: ClassVar[str]
    SOCKET: ClassVar[str]
    ERROR: ClassVar[type[Exception]]
    """How the server refuses a statement."""
    FAILURES: ClassVar[tuple[type[Exception], ...]]
    """All that a statement or a connection may raise."""

    container: Box
    """What it runs in."""
    expected: Mapping[str, str]
    """What `look` finds after every reset."""

    def __init__(self, name: str, pack: PackSource, machine: Machine) -> None:
        self._name = name
        self._machine = machine
        self.database = database_name(name)
        self._secrets: dict[str, str] = {}
        self._files = pack.files
        try:
            self._texts = [pack.files[k].read_text(encoding="utf-8") for k in ("ddl", "seed")]
        except (OSError, UnicodeDecodeError) as error:
            raise SandboxError(f"{name}: its pack cannot be read: {error}") from error

    def _start(self, shelf: Shelf[Facts], *key: Hashable) -> Facts:
        """A server runs, made of the texts or over what an equal one wrote."""
        try:
            key = (*self._machine.key, *key, *self._texts)
            self.container, facts = shelf.start(key, self._make, self._begin)
        except self.ERROR as error:
            raise SandboxError(
                f"{self._name}: {self._files['ddl']} and {self._files['seed']} do not make a"
                f" database: {self.cause_of(error)}"
            ) from error
        return facts

    @contextlib.contextmanager
    def _running(self, over: Hashable | None = None) -> Iterator[Box]:
        """A server that answers; it is gone if what is then done with it fails."""
        self.container = self._machine.run(self._name, over)
        try:
            self.container.await_ready(self._answers)
            yield self.container
        except BaseException:
            self.container.remove()
            self._hang_up()
            raise

    def _answers(self) -> bool:
        if not self.container.socket(self.SOCKET).exists():
            return False  # to be refused takes a hundred times as long
        try:
            with self.admin():
                return True
        except self.FAILURES:
            return False

    def _known_secrets(self) -> dict[str, str]:
        """The evaluator's own; an agent's is made anew at every reset."""
        return {role: secret for role, secret in self._secrets.items() if role != AGENT}

    @property
    def agent_url(self) -> str:
        port = self.container.forward(self.SOCKET)
        account = f"{AGENT}:{self._secrets[AGENT]}"
        return f"{self.SCHEME}://{account}@127.0.0.1:{port}/{self.database}"

    @property
    @abstractmethod
    def reader_url(self) -> str: ...

    @property
    @abstractmethod
    def entities(self) -> int:
        """The rows of the pristine database."""

    @abstractmethod
    def cause_of(self, error: Any) -> str:
        """The server's message, fit for a message of ours."""

    @abstractmethod
    def admin(self) -> AbstractContextManager[Any]:
        """A connection of the server's owner, which no agent can be."""

    @abstractmethod
    def _make(self) -> tuple[Box, Facts]:
        """A server with the accounts and the database."""

    @abstractmethod
    def _begin(self, kept: Kept[Facts]) -> Box:
        """A server over what another one wrote."""

    @abstractmethod
    def put_back(self) -> bool:
        """The database is as at the start; False where the server must be made anew."""

    @abstractmethod
    def look(self) -> dict[str, str]:
        """All that `expected` says, as it is now. Raises one of `FAILURES`."""

    @abstractmethod
    def is_busy(self, admin: Any) -> bool:
        """True if a statement runs, or a transaction that wrote is open."""

    @abstractmethod
    def failure(self) -> str | None:
        """How others ended it, or a process of it; None where it served or crashed."""

    def describe(self, label: str) -> str:
        """The subject of a label of `expected`, in words."""
        return label

    def stop(self) -> None:
        """Nothing of it is running."""
        self.container.remove()
        self._hang_up()

    def _hang_up(self) -> None:
        """No connection of the evaluator's is open."""


class DatabaseSystem(ABC, Generic[AnyServer]):
    """A `System`: one database of a server of its own."""

    FILES: ClassVar[Mapping[str, bool]] = {"ddl": True, "seed": True}
    LOOKS: ClassVar[frozenset[str]] = frozenset()
    METHOD: ClassVar[str]
    """How a reset is proven."""
    HIDDEN: ClassVar[tuple[str, ...]]
    """How labels begin of which drift shows only that they differ: they are secret or long."""

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self.database = database_name(source.name)
        self._pack = source
        self._folder = folder
        self._refined = source.refinement()
        self._server: AnyServer | None = None

    @cached_property
    def machine(self) -> Machine:
        """The machine that runs its server; `SandboxError` says why none here can run it."""
        return self._machine()

    @abstractmethod
    def _machine(self) -> Machine: ...

    @property
    def served_by(self) -> str:
        """The kind of its server and of what it runs in, in words."""
        return self.machine.title

    @abstractmethod
    def _new_server(self) -> AnyServer:
        """A server with a pristine database that nobody has used."""

    @abstractmethod
    def sources(self) -> tuple[Source, ...]: ...

    @abstractmethod
    def feeds(self) -> tuple[Feed, ...]: ...

    @property
    def url(self) -> str:
        return self._running().agent_url

    def start(self) -> None:
        """A server runs with a pristine database that nobody has used."""
        if self._server is None:
            make_folder(self._folder)
            self._server = self._new_server()

    def stop(self) -> None:
        """The server is gone, and all that it held."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def unplug(self, source: str) -> None:
        """The server is gone until the next reset."""
        self._running().container.remove()

    def reset(self) -> None:
        """The database is as at the start; the server is a fresh one where that was needed."""
        make_folder(self._folder)
        if self._server is None or not self._server.put_back():
            self.stop()
            self.start()
            if not self._running().put_back():
                raise SandboxError(f"{self.source}: a server that was just started is not as new")

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        """The proof of the server's present state, and all that is not as in the base."""
        server = self._running()
        try:
            found = server.look()
        except server.FAILURES as error:
            found = {"server": server.cause_of(error)}
        expected = server.expected
        drift = tuple(
            Drift(self.source, server.describe(label), *self._in_short(label, expected, found))
            for label in sorted(expected.keys() | found.keys())
            if expected.get(label) != found.get(label)
        )
        proof = SourceProof(
            self.source, self.METHOD, parts_digest(expected), parts_digest(found), server.entities
        )
        return proof, drift

    def unsettled(self, deadline: float) -> str | None:
        """Waits until no statement runs and no transaction that wrote is open; why one is."""
        server = self._running()
        try:
            with server.admin() as admin:
                while server.is_busy(admin):
                    if time.monotonic() >= deadline:
                        return "a statement or a write transaction of the agent's is still open"
                    time.sleep(_PROBE_SECONDS)
        except server.FAILURES as error:
            return server.cause_of(error)
        return None

    def failure(self) -> str | None:
        """How others ended its server, or a process of it; None where it served or crashed."""
        return self._running().failure()

    def _running(self) -> AnyServer:
        if self._server is None:
            raise SandboxError(f"{self.source}: its server is not running; start the sandbox first")
        return self._server

    def _in_short(
        self, label: str, expected: Mapping[str, str], found: Mapping[str, str]
    ) -> tuple[str, str]:
        if label.startswith(self.HIDDEN):
            return (
                "as in the base" if label in expected else "nothing",
                "something else" if label in found else "nothing",
            )
        return expected.get(label, "nothing")[:200], found.get(label, "nothing")[:200]


def database_name(source: str) -> str:
    """The name of a source's database on its server."""
    return re.sub(r"\W", "_", source)


def parts_digest(parts: Mapping[str, str]) -> str:
    """One digest of all the parts."""
    hasher = hashlib.sha256()
    for label in sorted(parts):
        hasher.update(f"{len(label)} {label} {len(parts[label])} {parts[label]}\n".encode())
    return hasher.hexdigest()
