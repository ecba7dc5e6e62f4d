"""The System protocol: one resettable thing of a sandbox, e.g. a database or a mailbox.

A pack's source names its kind (`sqlite`, `smtp`, …); the entry-point group `statediff.systems`
says which class makes systems of that kind. The order is `start`, then for each trial `reset`,
`verify`, `unsettled`; `stop` at any time. What decides what "pristine" means is kept in the
evaluator's memory, never in a file within an agent's reach.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import ClassVar, Final, Protocol, runtime_checkable

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.errors import UsageError
from statediff.packs import PackSource
from statediff.sandbox.receipt import Drift, SourceProof

GROUP: Final = "statediff.systems"


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


def system_kinds() -> Mapping[str, EntryPoint]:
    """Kind → its entry point, of every installed distribution."""
    return _kinds_on(tuple(sys.path))


@cache
def _kinds_on(_path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _loaded(kind: EntryPoint) -> type[System]:
    try:
        made: type[System] = kind.load()
    except ModuleNotFoundError as error:
        if not kind.extras:
            raise
        raise UsageError(
            f"systems of kind {kind.name!r} need {error.name}; "
            f"get it with `pip install statediff[{kind.extras[0]}]`"
        ) from error
    return made


def system_of(source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> System:
    """The system that serves `source`; `UsageError` if its kind or what it is given is unknown."""
    kinds = system_kinds()
    kind = kinds.get(source.kind)
    if kind is None:
        known = ", ".join(sorted(kinds))
        raise UsageError(f"source {source.name!r} is of kind {source.kind!r}; there are: {known}")
    made = _loaded(kind)
    for look in looks:
        if look.kind not in made.LOOKS:
            known = ", ".join(sorted(made.LOOKS)) or "none"
            raise UsageError(
                f"source {look.name!r} is of kind {look.kind!r}; kinds that look at a {source.kind}"
                f" system: {known}"
            )
    unknown = sorted(set(source.files) - set(made.FILES) - {"schema"})
    if unknown:
        raise UsageError(f"source {source.name!r} of kind {source.kind} takes no {unknown[0]!r}")
    missing = sorted(key for key, needed in made.FILES.items() if needed and not source.file(key))
    if missing:
        raise UsageError(f"source {source.name!r} of kind {source.kind} needs `{missing[0]}`")
    return made(source, looks, folder)
