"""A sandbox made from a pack: systems on this machine, some of them, in a variant, in containers.

Under the work folder lies `systems/` (one folder a system, which the agent may write) and `agent/`
(its own folder), both emptied by every reset. What the evaluator needs to prove a reset, pristine
images and tokens, it keeps in memory: there is no file for an agent to change. What else keeps an
agent from the evaluator is the agent's (`statediff.agents.isolation`), and the receipt says it.
"""

from __future__ import annotations

import contextlib
import os
import time
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from statediff.capture.feed import Feed
from statediff.capture.source import Clock, Source
from statediff.errors import SandboxError, UsageError
from statediff.packs import SandboxPack
from statediff.systems.base.folders import make_folder, remove
from statediff.systems.base.others import Others, SharedSystem, Writer
from statediff.systems.base.protocol import (
    Access,
    Drift,
    Forkable,
    Offered,
    Reached,
    Receipt,
    Remarked,
    Served,
    Settled,
    ShownBase,
    SourceProof,
    System,
    Watched,
)
from statediff.systems.base.registry import system_of
from statediff.total import in_any_case, words_of


class EmbeddedSandbox:
    """The systems of a pack on this machine, in `work`. A context manager: it ends what it began.

    `start` raises `SandboxError` if the pack cannot be built, `ContractError` if its schema file
    cannot be used. With `kept` its base is what another one kept there (`keep`).
    """

    def __init__(self, pack: SandboxPack, work: Path, kept: Path | None = None) -> None:
        self.pack = pack
        self._kept = kept
        self.work = work.absolute()
        self._running: dict[str, System] = {}

    @property
    def name(self) -> str:
        return self.pack.title

    @property
    def agent_folder(self) -> Path:
        """The agent's own folder, empty after a reset."""
        return self.work / "agent"

    @property
    def _folders(self) -> Path:
        return self.work / "systems"

    def start(self) -> None:
        if self._running:
            return
        try:
            with contextlib.suppress(OSError):  # a reset says it
                make_folder(self._folders)
            for source in self.pack.sources:
                if source.of is None:
                    looks = tuple(look for look in self.pack.sources if look.of == source.name)
                    system = system_of(source, looks, self._folders / source.name)
                    self._running[source.name] = system
                    place = None if self._kept is None else self._kept / source.name
                    if isinstance(system, Forkable) and place is not None:
                        system.begin_at(place)
                    system.start()
            self.reset()
        except BaseException:
            with contextlib.suppress(SandboxError):  # why it did not start is what counts
                self.stop()  # nothing half started stays behind, on Ctrl-C neither
            raise

    def reset(self) -> None:
        systems = self._systems()
        try:
            make_folder(self.work)
            make_folder(self._folders)
            for entry in os.scandir(self._folders):
                if entry.name not in systems:
                    remove(Path(entry.path))
            remove(self.agent_folder)
            make_folder(self.agent_folder)
        except OSError as error:
            raise SandboxError(f"{self.name}: {self.work} cannot be put back: {error}") from error
        for system in systems.values():
            system.reset()

    def keep(self, to: Path) -> None:
        """Copy what each system is now to a folder, for another sandbox to begin with.

        A system that cannot be copied is left out while it is in its base, where all begin.
        """
        make_folder(to)
        for name, system in self._systems().items():
            try:
                if isinstance(system, Forkable):
                    system.keep(to / name)
                elif self.pack.is_single or system.verify()[1]:
                    raise SandboxError("it can be forked only while nobody has changed it")
            except (OSError, SandboxError) as error:
                raise SandboxError(f"{self.name}: {name} cannot be forked: {error}") from error

    def verify(self, clock: Clock) -> Receipt:
        proofs: list[SourceProof] = []
        drift: list[Drift] = []
        for system in self._systems().values():
            proof, found = system.verify()
            proofs.append(proof)
            drift.extend(found)
        drift.extend(
            Drift("agent", f"file {left}", "no such file", "left by an earlier trial")
            for left in self._leftovers()
        )
        return Receipt(
            self.name,
            self.pack.version,
            clock(),
            tuple(proofs),
            tuple(sorted(drift)),
            remarks=self.remarks,
        )

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """((source, text), …): what an author may not have meant, sorted by source."""
        return tuple(
            (name, text)
            for name, system in sorted(self._systems().items())
            if isinstance(system, Remarked)
            for text in system.remarks
        )

    def access(self) -> Access:
        urls = {name: system.url for name, system in self._systems().items()}
        for system in self._systems().values():
            urls |= system.look_urls if isinstance(system, Reached) else {}
        tools = {s.name: s.tools for s in self.pack.sources if s.tools is not None}
        offered = Offered(tools, self.pack.tools, self.pack.folder)
        return Access(urls, self.agent_folder, self.work, offered)

    def served_by(self) -> dict[str, str]:
        """Source → what its server is and runs in, of those that say so."""
        return {
            name: system.served_by
            for name, system in sorted(self._systems().items())
            if isinstance(system, Served)
        }

    def bases(self) -> dict[str, str]:
        """Source → the digest of its base, of those that no file of the sandbox makes."""
        return {
            name: system.base_digest
            for name, system in sorted(self._systems().items())
            if isinstance(system, ShownBase)
        }

    @property
    def is_in_place(self) -> bool:
        """True where its systems are where they are."""
        return self.pack.is_single

    def sources(self) -> tuple[Source, ...]:
        found = [source for system in self._systems().values() for source in system.sources()]
        return tuple(sorted(found, key=lambda source: source.name))

    def feeds(self) -> tuple[Feed, ...]:
        found = [feed for system in self._systems().values() for feed in system.feeds()]
        return tuple(sorted(found, key=lambda feed: feed.source))

    def others(self, seed: str) -> Others | None:
        """Who works in it beside the agent, and does not yet; None where nobody does.

        `UsageError` where one is to work in a system in which nobody else can.
        """
        if not self.pack.others:
            return None
        writers: dict[str, Writer] = {}
        for name, entry in self.pack.others.items():
            system = self._systems()[entry.on]
            if not isinstance(system, SharedSystem):
                kind = next(s.kind for s in self.pack.sources if s.name == entry.on)
                raise UsageError(
                    f"{self.name}: {name} is to work in {entry.on}, which is of the kind {kind}; "
                    "others can work in sources of the kind sqlite"
                )
            writers[name] = system.writer()
        return Others(self.pack.others, writers, self.pack.amounts, seed)

    def settle(self, clock: Clock, wait_seconds: float = 2.0) -> Settled:
        deadline = time.monotonic() + wait_seconds
        unsettled: list[tuple[str, str]] = []
        # Servers first: while we wait for them, transactions on files end by themselves.
        for name, system in sorted(
            self._systems().items(), key=lambda entry: (entry[1].url.startswith("sqlite:"), entry)
        ):
            cause = in_any_case(partial(system.unsettled, deadline), words_of)
            if cause is not None:
                looks = (look.name for look in self.pack.sources if look.of == name)
                unsettled += [(each, cause) for each in (name, *looks)]
        # Last: who was killed leaves traces that others clear away only once they have ended.
        failed = [
            (name, failure)
            for name, system in self._systems().items()
            if isinstance(system, Watched)
            and (failure := in_any_case(system.failure, words_of)) is not None
        ]
        return Settled(clock(), tuple(sorted(unsettled)), tuple(sorted(failed)))

    def unplug(self, source: str) -> None:
        """The source's process is killed, or its files removed, until the next reset."""
        systems = self._systems()
        for described in self.pack.sources:
            if described.name == source:
                systems[described.of or source].unplug(source)
                return
        known = ", ".join(described.name for described in self.pack.sources)
        raise SandboxError(f"{self.name} has no source {source!r}; it has: {known}")

    def stop(self) -> None:
        """Every system is stopped, even if stopping another one failed."""
        while self._running:
            _, system = self._running.popitem()
            try:
                system.stop()
            except BaseException:
                self.stop()
                raise

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

    def system(self, name: str) -> System:
        """The running system behind the source called `name`."""
        return self._systems()[name]

    def _systems(self) -> dict[str, System]:
        if not self._running:
            raise SandboxError(f"the sandbox {self.name} is not running; start it first")
        return self._running

    def _leftovers(self) -> list[str]:
        left = [f"agent/{name}" for name in _names(self.agent_folder)]
        known = self._systems()
        return left + [f"systems/{name}" for name in _names(self._folders) if name not in known]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder))
    except OSError as error:
        return [f"(unreadable: {error.strerror})"]
