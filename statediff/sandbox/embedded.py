"""A sandbox without Docker: a SQLite file and a mail outbox, made from a pack.

Under the work folder lies `systems/` (one folder a database, which the agent writes) and `agent/`
(its own folder), both emptied by every reset. What the evaluator needs to prove a reset, the
pristine images and the outbox's token, it keeps in memory: there is no file for an agent to
change. The agent still runs as the evaluator's user, so the receipt says `isolation: none`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from statediff.capture.source import Clock, Source, SourceUnavailable
from statediff.contract.schemafile import load_schema_file, refine
from statediff.errors import SandboxError
from statediff.model.schema import Schema
from statediff.packs import PackSource, SandboxPack
from statediff.sandbox.database import EmbeddedDatabase, make_folder, remove
from statediff.sandbox.protocol import Access, Settled
from statediff.sandbox.receipt import Drift, Receipt, SourceProof
from statediff.sources.mail import MailSource, OutboxProcess, OutboxStatus
from statediff.sources.sqlite import SqliteSource

MAIL_METHOD: Final = "sha256 of all messages the outbox holds"
_POLL_SECONDS: Final = 0.01


class EmbeddedSandbox:
    """The systems of a pack on this machine, in `work`. A context manager: it ends what it began.

    `start` raises `SandboxError` if the pack cannot be built, `ContractError` if its schema file
    cannot be used.
    """

    def __init__(self, pack: SandboxPack, work: Path) -> None:
        self.pack = pack
        self.work = work.absolute()
        self._databases: dict[str, EmbeddedDatabase] = {}
        self._outboxes: dict[str, OutboxProcess] = {}
        self._sources: dict[str, Source] = {}

    @property
    def name(self) -> str:
        return self.pack.name

    @property
    def agent_folder(self) -> Path:
        """The agent's own folder, empty after a reset."""
        return self.work / "agent"

    @property
    def _systems(self) -> Path:
        return self.work / "systems"

    def start(self) -> None:
        if self._sources:
            return
        try:
            for source in self.pack.sources:
                if source.kind == "sqlite":
                    self._databases[source.name] = self._database(source)
                else:
                    self._outboxes[source.name] = OutboxProcess().start()
            self._sources = {source.name: self._source(source) for source in self.pack.sources}
            self.reset()
        except BaseException:
            self.stop()  # nothing half started stays behind, on Ctrl-C neither
            raise

    def reset(self) -> None:
        self._require_started()
        try:
            make_folder(self.work)
            make_folder(self._systems)
            for entry in os.scandir(self._systems):
                if entry.name not in self._databases:
                    remove(Path(entry.path))
            remove(self.agent_folder)
            make_folder(self.agent_folder)
        except OSError as error:
            raise SandboxError(f"{self.name}: {self.work} cannot be put back: {error}") from error
        for database in self._databases.values():
            database.reset()
        for name in self._outboxes:
            self._reset_outbox(name)

    def verify(self, clock: Clock) -> Receipt:
        self._require_started()
        proofs: list[SourceProof] = []
        drift: list[Drift] = []
        for name in sorted(self._sources):
            proof, found = (
                self._databases[name].verify()
                if name in self._databases
                else self._verify_outbox(name)
            )
            proofs.append(proof)
            drift.extend(found)
        drift.extend(
            Drift("agent", f"file {left}", "no such file", "left by an earlier trial")
            for left in self._leftovers()
        )
        return Receipt(self.name, self.pack.version, clock(), tuple(proofs), tuple(sorted(drift)))

    def access(self) -> Access:
        self._require_started()
        urls = {name: database.url for name, database in self._databases.items()}
        urls |= {
            name: f"smtp://127.0.0.1:{outbox.smtp_port}" for name, outbox in self._outboxes.items()
        }
        return Access(dict(sorted(urls.items())), self.agent_folder)

    def sources(self) -> tuple[Source, ...]:
        self._require_started()
        return tuple(self._sources[name] for name in sorted(self._sources))

    def settle(self, clock: Clock, wait_seconds: float = 2.0) -> Settled:
        self._require_started()
        deadline = time.monotonic() + wait_seconds
        unsettled: list[tuple[str, str]] = []
        # Mail first: while we wait for it, transactions end by themselves.
        for name, outbox in self._outboxes.items():
            cause = _mail_unsettled(outbox, deadline)
            if cause is not None:
                unsettled.append((name, cause))
        for name, database in self._databases.items():
            cause = database.unsettled(deadline)
            if cause is not None:
                unsettled.append((name, cause))
        return Settled(clock(), tuple(sorted(unsettled)))

    def unplug(self, source: str) -> None:
        """The source's process is killed, or its file removed, until the next reset."""
        self._require_started()
        if source in self._outboxes:
            self._outboxes[source].kill()
        elif source in self._databases:
            remove(self._databases[source].file)
        else:
            known = ", ".join(sorted(self._sources))
            raise SandboxError(f"{self.name} has no source {source!r}; it has: {known}")

    def stop(self) -> None:
        for outbox in self._outboxes.values():
            outbox.stop()
        self._outboxes.clear()
        self._databases.clear()
        self._sources.clear()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _require_started(self) -> None:
        if not self._sources:
            raise SandboxError(f"the sandbox {self.name} is not running; start it first")

    def _database(self, source: PackSource) -> EmbeddedDatabase:
        if source.ddl is None or source.seed is None:
            raise SandboxError(f"{self.name}: source {source.name} needs `ddl` and `seed`")
        file = self._systems / source.name / f"{source.name}.sqlite"
        return EmbeddedDatabase(source.name, source.ddl, source.seed, file)

    def _source(self, source: PackSource) -> Source:
        if source.kind == "sqlite":
            refined: Callable[[Schema], Schema] | None = None
            if source.schema is not None:
                refined = refine(load_schema_file(source.schema), source.name)
            return SqliteSource(source.name, self._databases[source.name].file, refined)
        return MailSource(source.name, self._outboxes[source.name].control)

    def _reset_outbox(self, name: str) -> None:
        outbox = self._outboxes[name]
        if outbox.is_running:
            with contextlib.suppress(SourceUnavailable):  # it hangs, e.g. the agent stopped it
                outbox.control.reset()
                return
        outbox.kill()  # reaps one that died by itself
        outbox.start()
        self._sources[name] = MailSource(name, outbox.control)

    def _verify_outbox(self, name: str) -> tuple[SourceProof, tuple[Drift, ...]]:
        empty = hashlib.sha256().hexdigest()
        try:
            control = self._outboxes[name].control
            status = control.status()
            hasher = hashlib.sha256()
            if status.deliveries:
                for message in control.messages():
                    hasher.update(str(sorted(message.items())).encode())
        except SourceUnavailable as error:
            drift = Drift(name, "the outbox", "an answer", str(error))
            return SourceProof(name, MAIL_METHOD, empty, "", 0), (drift,)
        found: list[Drift] = []
        if status.deliveries:
            found.append(Drift(name, "mail", "no message", f"{status.deliveries} deliveries"))
        if status.in_flight:
            found.append(Drift(name, "mail", "none in flight", f"{status.in_flight} in flight"))
        return SourceProof(name, MAIL_METHOD, empty, hasher.hexdigest(), 0), tuple(found)

    def _leftovers(self) -> list[str]:
        left = [f"agent/{name}" for name in _names(self.agent_folder)]
        known = set(self._databases)
        return left + [f"systems/{name}" for name in _names(self._systems) if name not in known]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder))
    except OSError as error:
        return [f"(unreadable: {error.strerror})"]


def _mail_unsettled(outbox: OutboxProcess, deadline: float) -> str | None:
    """Waits until no message is on its way; why not, if `deadline` passes first."""
    while True:
        try:
            status: OutboxStatus = outbox.control.status()
        except SourceUnavailable as error:
            return str(error)  # waiting does not bring back a process that is gone
        if not status.in_flight:
            return None
        if time.monotonic() >= deadline:
            return f"{status.in_flight} messages still in flight"
        time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))
