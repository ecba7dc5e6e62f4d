"""Readings: who observed what, when, by which clock, and how completely.

A `Capture` is a state plus the readings that produced it. Collecting one decides nothing about
correctness [SSD §VII].
"""

from __future__ import annotations

from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import Final, TypeAlias

from statediff.later import Later
from statediff.model.state import State

TRIAL_CLOCK: Final = "trial"
"""The one clock by which ages are measured."""


class ReadingKind(Enum):
    """How much was read: the whole, or only the changes."""

    SCAN = "scan"
    FEED = "feed"


@dataclass(frozen=True)
class Reading(Later):
    """One observation of a source. `id` is the evidence id that deltas and findings cite."""

    id: str
    source: str
    kind: ReadingKind
    _: KW_ONLY
    as_of: datetime
    """Aware UTC instant, by `clock`, whose state the reading shows."""
    clock: str
    is_complete: bool
    digest: str | None
    position: str | None = None
    """LSN, commit, change number: whatever orders this source's states, if anything does."""
    cause: str | None = None
    """Why the reading is incomplete or failed; None when complete."""
    is_agent_influenced: bool = False
    """The agent could forge the reading itself (not merely write to the system it shows)."""
    acknowledgement: bool = False
    """A system's word that it did something, rather than a look at its state."""

    @cached_property
    def was_read(self) -> bool:
        """True if there is a state of which it has the digest."""
        return self.is_later("digest") or self.digest is not None

    def cited_as(self, evidence: str) -> Reading:
        """The same under another id."""
        found = copy(self)
        vars(found)["id"] = evidence
        return found


@dataclass(frozen=True)
class Transaction:
    """One committed transaction of the run, in order: what `during: run` clauses range over."""

    id: str
    source: str
    position: str
    committed_at: datetime | None
    state: State
    names: tuple[str, ...] = ()
    """Other names under which its maker may know it: a transaction id, a message's id."""


NO_FEED: Final = "no change feed was attached"


@dataclass(frozen=True)
class History:
    """The transactions of the run, by source; what is not known of a source is unknown, not empty.

    `readings` has one feed reading for each source with a feed, sorted by source; a complete one
    says that its transactions are all there were. `transactions` stand in commit order within a
    source; nothing is said of the order of two sources' commits.
    """

    readings: tuple[Reading, ...] = ()
    transactions: tuple[Transaction, ...] = ()

    def of(self, source: str) -> tuple[Transaction, ...]:
        """The transactions of one source, in commit order."""
        return tuple(t for t in self.transactions if t.source == source)

    def gap(self, source: str) -> str | None:
        """Why the source may have been in other states as well; None if that is known not."""
        for reading in self.readings:
            if reading.source != source:
                continue
            if reading.is_agent_influenced:
                return "forgeable: the agent could have made this reading itself"
            return None if reading.is_complete else reading.cause or "the feed is incomplete"
        return NO_FEED


NO_HISTORY: Final = History()


PathFact: TypeAlias = tuple[int, int, int] | None
"""Mode with kind, owner and group of what is at a path; None of what cannot be looked at."""
PathFacts: TypeAlias = tuple[tuple[str, PathFact], ...]
"""((path, fact), …), from the top."""


@dataclass(frozen=True)
class SourceCapture:
    """The delivery of one source: its state and the one reading behind it."""

    reading: Reading
    state: State
    spoiled: tuple[str, ...] = ()
    """The types that the source's content keeps from being read, though they were read before the
    run.
    """
    place: PathFacts = field(default=(), compare=False, repr=False)
    """The facts of the paths that the source was read at before the run; empty where it has none.
    """
    seconds: float | None = field(default=None, compare=False, repr=False)
    """The processor time of reading it before the run, in seconds; None where nobody measured it.
    """


@dataclass(frozen=True)
class Capture:
    """Everything captured at one moment: one `SourceCapture` per source, sorted by source name."""

    parts: tuple[SourceCapture, ...]
    history: History = NO_HISTORY
    """The history since the capture before; of a capture after only."""

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        return tuple(part.reading for part in self.parts)


@dataclass(frozen=True)
class Timeline:
    """When the steps of the trial happened, on the trial's own recorded clock (aware UTC).

    `None` means the step did not happen or was not recorded; freshness rules that need it are then
    undecidable and their values unobserved. Offline judgements (`judge`) have no timeline at all.
    """

    reset_verified_at: datetime | None = None
    agent_started_at: datetime | None = None
    first_action_at: datetime | None = None
    agent_finished_at: datetime | None = None
    settled_at: datetime | None = None
    unsettled: tuple[tuple[str, str], ...] = ()
    """((source, cause), …): sources that were not quiescent when the wait ended."""
