"""The System protocol: one resettable thing of a sandbox, e.g. a database or a mailbox.

A pack's source names its kind (`sqlite`, `smtp`, …); the plug-in object of its system (`plugin.py`)
says which class makes systems of that kind. The order is `start`, then for each trial `reset`,
`verify`, `unsettled`; `stop` at any time. What decides what "pristine" means is kept in the
evaluator's memory, never in a file within an agent's reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.packs import PackSource
from statediff.systems.base.receipt import Drift, SourceProof


class System(Protocol):
    """One system of a sandbox, with all the sources that look at it."""

    FILES: ClassVar[Mapping[str, bool]]
    """Which files or folders of the pack it takes beside `schema`, and whether it needs them."""

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
        """What an independent look finds, and all that is not as in the base; never repaired."""

    @property
    def url(self) -> str:
        """Where an agent reaches it, e.g. `smtp://127.0.0.1:40213`."""

    def sources(self) -> tuple[Source, ...]:
        """What the evaluator reads: the source itself and its `looks`."""

    def feeds(self) -> tuple[Feed, ...]:
        """What sees every commit of a run; attached after `verify`, detached before `reset`.

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
