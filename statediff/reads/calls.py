"""What an agent read, as recorded: one row a call, kept in columns.

`missing` says that there is no such artifact, `blocked` that the gate refused, `invalid` that the
call could not be understood. Whether a call was allowed is never taken from the record: it is
computed again from the policy, so that a log of an ungated agent is judged by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class CallKind(IntEnum):
    """What a call asked for."""

    SEARCH = 0
    FETCH = 1
    OTHER = 2


class Outcome(IntEnum):
    """What came back."""

    DELIVERED = 0
    BLOCKED = 1
    MISSING = 2
    INVALID = 3


@dataclass(frozen=True)
class ReadCall:
    """One call. `subsystem` is what a search was narrowed to, `artifact` what was fetched."""

    kind: CallKind
    outcome: Outcome = Outcome.DELIVERED
    artifact: str | None = None
    subsystem: str | None = None
    actor: str | None = None
    """Who it was made for; None for the actor of the question."""
    as_of: int | None = None
    """The horizon it asked for; None for that of the question."""
    found: tuple[str, ...] = ()
    """What a search named."""


@dataclass(frozen=True, kw_only=True)
class ReadTrace:
    """All calls of one run, in order, a column each."""

    kinds: tuple[int, ...] = ()
    outcomes: tuple[int, ...] = ()
    artifacts: tuple[str | None, ...] = ()
    subsystems: tuple[str | None, ...] = ()
    actors: tuple[str | None, ...] = ()
    as_of: tuple[int | None, ...] = ()
    found: tuple[tuple[str, ...], ...] = ()
    gap: str | None = None
    """Why there may be calls that are not here; None where nothing could be read unrecorded."""

    @staticmethod
    def of(calls: Iterable[ReadCall], gap: str | None = None) -> ReadTrace:
        """The trace of these calls."""
        rows = tuple(calls)
        return ReadTrace(
            kinds=tuple(int(c.kind) for c in rows),
            outcomes=tuple(int(c.outcome) for c in rows),
            artifacts=tuple(c.artifact for c in rows),
            subsystems=tuple(c.subsystem for c in rows),
            actors=tuple(c.actor for c in rows),
            as_of=tuple(c.as_of for c in rows),
            found=tuple(c.found for c in rows),
            gap=gap,
        )

    def calls(self) -> tuple[ReadCall, ...]:
        """The same, a row each."""
        return tuple(
            ReadCall(CallKind(kind), Outcome(outcome), *rest)
            for kind, outcome, *rest in zip(
                self.kinds, self.outcomes, self.artifacts, self.subsystems, self.actors,
                self.as_of, self.found, strict=True,
            )
        )  # fmt: skip
