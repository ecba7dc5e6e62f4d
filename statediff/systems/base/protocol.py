"""The Sandbox protocol: a resettable set of systems that proves its reset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from statediff.capture.feed import Feed
from statediff.capture.source import Clock, Source
from statediff.systems.base.receipt import Receipt


@dataclass(frozen=True)
class Access:
    """All that an agent is told of a sandbox: where each system is, and a folder of its own."""

    urls: Mapping[str, str]
    """Source → URL, e.g. `{"outbox": "smtp://127.0.0.1:40213"}`."""
    folder: Path


@dataclass(frozen=True)
class Settled:
    """When waiting for quiescence ended, and what had not come to rest or had failed, with causes.

    `failed` are systems that ended, or began again, since the reset: an environment failure.
    """

    settled_at: datetime
    unsettled: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


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
        """What an independent look finds; never assumed, never repaired."""

    def access(self) -> Access:
        """What the agent gets. The evaluator's credentials are not in it."""

    def sources(self) -> tuple[Source, ...]:
        """What the evaluator reads, sorted by name."""

    def feeds(self) -> tuple[Feed, ...]:
        """What sees the run between its ends, sorted by source; none of a system without one.

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
