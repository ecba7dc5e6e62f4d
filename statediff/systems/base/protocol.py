"""The protocols of a system and a sandbox, and the receipt that proves a reset.

A `System` is one resettable thing of a sandbox, e.g. a database or a mailbox. A pack's source names
its kind (`sqlite`, `smtp`, …); the plug-in object of its system (`plugin.py`) says which class
makes systems of that kind. The order is `start`, then for each trial `reset`, `verify`,
`unsettled`; `stop` at any time. The evaluator's memory keeps what "pristine" means, never a file
within an agent's reach.

A `Sandbox` is a resettable set of systems. Its `Receipt` proves the base state by digests in which
capture has no part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Protocol, Self, runtime_checkable

from statediff.capture.feed import Feed
from statediff.capture.source import Clock, Source
from statediff.contract.document.sandboxfile import ToolEntry
from statediff.packs import PackSource
from statediff.systems.base.others import Others

RECEIPT_FORM: Final = "statediff.receipt/1"


@dataclass(frozen=True, order=True)
class Drift:
    """One thing that is not as it was at the base: `what` is a table, a file or the mail."""

    source: str
    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.source}: {self.what}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True)
class SourceProof:
    """The proof of one source: the base's digest, the digest found, and its size."""

    source: str
    method: str
    """How the digest was taken, e.g. `sha256 of the database file`."""
    expected: str
    found: str
    entities: int
    """Entities in the base: rows of the database's tables, messages in the mailbox."""


@dataclass(frozen=True)
class Receipt:
    """A sandbox was looked at after a reset; `proofs` and `drift` are sorted by source.

    `run` refuses a sandbox whose receipt is not `ok`.
    """

    sandbox: str
    version: str
    verified_at: datetime
    proofs: tuple[SourceProof, ...]
    drift: tuple[Drift, ...] = ()
    isolation: str = "none"
    """The boundary between agent and evaluator: `container`, or one of
    `statediff.agents.isolation.KINDS`. `none`: it could reach what the evaluator's user can.
    """
    is_trace_trusted: bool = False
    """The caller answers for the agent's own log of its calls (`trust_trace`)."""
    others: tuple[tuple[str, int], ...] = ()
    """Who worked in it while the agent did, and how many transactions each made."""
    at_large: tuple[str, ...] = ()
    """Earlier trials of which a program may run still, and could have acted in this one."""
    remarks: tuple[tuple[str, str], ...] = ()
    """((source, text), …): what of its base an author may not have meant."""
    boundary: Mapping[str, str] = field(default_factory=dict)
    """Each part of what kept the agent apart: `held`, or why not."""
    endpoints: tuple[str, ...] = ()
    """`HOST:PORT` of all that the agent reached, where its network was its own."""
    refused: tuple[str, ...] = ()
    """The endpoints that it asked for beside them, and did not get."""

    @property
    def ok(self) -> bool:
        """Every source was proven to be in its base state."""
        return (
            not self.drift
            and bool(self.proofs)
            and all(proof.expected == proof.found for proof in self.proofs)
        )

    @property
    def entities(self) -> int:
        return sum(proof.entities for proof in self.proofs)

    def as_json(self) -> dict[str, Any]:
        """The receipt as a document for the run folder."""
        return {
            "form": RECEIPT_FORM,
            "sandbox": self.sandbox,
            "version": self.version,
            "verified_at": self.verified_at.isoformat(),
            "ok": self.ok,
            "isolation": self.isolation,
            **({"trace": "trusted"} if self.is_trace_trusted else {}),
            **({"others": dict(self.others)} if self.others else {}),
            **({"at_large": list(self.at_large)} if self.at_large else {}),
            **({"remarks": [list(each) for each in self.remarks]} if self.remarks else {}),
            **({"boundary": dict(self.boundary)} if self.boundary else {}),
            **({"endpoints": list(self.endpoints)} if self.endpoints else {}),
            **({"refused": list(self.refused)} if self.refused else {}),
            "entities": self.entities,
            "proofs": [asdict(proof) for proof in self.proofs],
            "drift": [asdict(entry) for entry in self.drift],
        }


class System(Protocol):
    """One system of a sandbox, with all the sources that look at it."""

    FILES: ClassVar[Mapping[str, bool]]
    """Which files or folders of the pack it takes beside `schema`, and whether it needs them."""

    # A class may also have `TEXTS`, which says the same of URLs and commands, and `PREFIX`: what
    # the names of its types begin with unless a source says `types`.

    LOOKS: ClassVar[frozenset[str]]
    """Kinds of further sources (`of:` in the pack) that look at a system of this kind."""

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        """Nothing runs yet. `folder` is the system's own: the agent may write it, resets empty it.

        `looks` are the pack's further sources of this system. Raises `SandboxError` where the
        pack's files do not make a base state.
        """

    def start(self) -> None:
        """The system runs; a system that was already started is left as it is."""

    def reset(self) -> None:
        """It is in its base state again, as far as it can tell. Raises `SandboxError`."""

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        """The result of an independent look, and all that is not as in the base; never repaired."""

    @property
    def url(self) -> str:
        """The URL at which an agent reaches it, e.g. `smtp://127.0.0.1:40213`."""

    def sources(self) -> tuple[Source, ...]:
        """The evaluator's sources: the source itself and its `looks`."""

    def feeds(self) -> tuple[Feed, ...]:
        """The feeds of every commit of a run; attached after `verify`, detached before `reset`.

        None of a system that offers no history.
        """

    def unsettled(self, deadline: float) -> str | None:
        """Waits until nothing is in flight; why something is, if `deadline` (monotonic) passes."""

    def unplug(self, source: str) -> None:
        """The source cannot be read any more, for real, until the next reset. Fault injection."""

    def stop(self) -> None:
        """Nothing it started is running any more."""


@runtime_checkable
class Watched(Protocol):
    """A system that knows whether its server served all the time, as those in containers do."""

    def failure(self) -> str | None:
        """Why an agent may have found no server since the last reset; None if it was there."""


@runtime_checkable
class Forkable(Protocol):
    """A system of whose state another one can begin."""

    def keep(self, to: Path) -> None:
        """Copy what it is now to the place, which is free. Raises `SandboxError` or `OSError`."""

    def begin_at(self, kept: Path) -> None:
        """Before its start: its base is what was kept there. It may use up what lies there."""


@runtime_checkable
class Reached(Protocol):
    """A system whose further sources an agent reaches too."""

    @property
    def look_urls(self) -> Mapping[str, str]:
        """Source → URL, of the sources that look at it."""


@runtime_checkable
class ShownBase(Protocol):
    """A system whose base is what a look shows: no file of the sandbox makes it."""

    @property
    def base_digest(self) -> str:
        """The digest of what it was found to be."""


@runtime_checkable
class Served(Protocol):
    """A system that says what its server is and runs in, where a machine has more than one way."""

    @property
    def served_by(self) -> str:
        """The server and its host: `PostgreSQL 16.2 (/usr/lib/…), a process of this machine`."""


@runtime_checkable
class Remarked(Protocol):
    """A system of whose base an author should know more than that it is proven."""

    remarks: tuple[str, ...]
    """Sentences without a full stop, e.g. which later work an agent can read."""


@dataclass(frozen=True)
class Offered:
    """Which tools an agent is offered."""

    verbs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Source → the verbs of its tools; all of them where it is not named."""
    declared: tuple[ToolEntry, ...] = ()
    """Those that the sandbox file declares besides."""
    folder: Path = Path()
    """The folder in which its commands start."""


@dataclass(frozen=True)
class Access:
    """All that an agent gets of a sandbox: where each system is, and a folder of its own."""

    urls: Mapping[str, str]
    """Source → URL, e.g. `{"outbox": "smtp://127.0.0.1:40213"}`."""
    folder: Path
    place: Path | None = None
    """Below it are all of the sandbox's files, `folder` too; None where nobody knows."""
    tools: Offered = field(default_factory=Offered)


@dataclass(frozen=True)
class Settled:
    """When waiting for quiescence ended, and what had not come to rest or had failed, with causes.

    `failed` are systems that ended, or began again, since the reset: an environment failure.
    """

    settled_at: datetime
    unsettled: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


@runtime_checkable
class InPlace(Protocol):
    """A sandbox that may be made of systems that are where they are."""

    @property
    def is_in_place(self) -> bool:
        """True where a new start makes no other systems."""


@runtime_checkable
class Crowded(Protocol):
    """A sandbox in which others may work while the agent does."""

    def others(self, seed: str) -> Others | None:
        """Who works in it as just reset, once they are entered; None where nobody does."""


class Sandbox(Protocol):
    """A set of systems that an agent may change freely, because they can be put back.

    The order is `start`, then for each trial `reset`, `verify`, …, `settle`; `stop` at any time.
    Every method may be called again; all raise `SandboxError` when the machinery fails.
    """

    @property
    def name(self) -> str: ...

    def start(self) -> None:
        """All systems run; a sandbox that was already started is left as it is."""

    def reset(self) -> None:
        """All systems are in their base state again, as far as the sandbox can tell."""

    def verify(self, clock: Clock) -> Receipt:
        """The result of an independent look; never assumed, never repaired."""

    def access(self) -> Access:
        """The agent's access. The evaluator's credentials are not in it."""

    def sources(self) -> tuple[Source, ...]:
        """The evaluator's sources, sorted by name."""

    def feeds(self) -> tuple[Feed, ...]:
        """The feeds of the run between its ends, sorted by source; none of a system without one.

        They are attached after `verify` and detached before the next `reset`.
        """

    def settle(self, clock: Clock, wait_seconds: float = 2.0) -> Settled:
        """Everything in flight has arrived, or the wait is over and says what has not."""

    def unplug(self, source: str) -> None:
        """The source's system is stopped for real, until the next reset. For fault injection."""

    def stop(self) -> None:
        """Nothing the sandbox started is running any more."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
