"""Which of two commits of different sources came first, as a complete log of calls says.

A commit came before another where the call that made it had ended when the call began that made the
other. Nothing is known of the order of what one call made, or of what overlapping calls made, and
neither is it where a clock of whole seconds shows an end and a beginning as one instant. A log that
may lack calls, or that the agent could have written, orders nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from statediff.contract.language.syntax import CALL_TYPE, Read
from statediff.kernel.policy.attribution.claims import Claim
from statediff.model.trace import Trace


class _Made(NamedTuple):
    """The call that made a commit: its id, and from when to when it was under way."""

    call: str
    started_at: datetime
    finished_at: datetime


@dataclass(frozen=True)
class CommitOrder:
    """(source, number of the transaction) → the call that made it, where its time is known."""

    made: Mapping[tuple[str, int], _Made] = field(default_factory=dict)

    def precedes(self, one: tuple[str, int], other: tuple[str, int]) -> bool:
        """Whether one commit is known to have come before the other, of another source or not."""
        if one[0] == other[0]:
            return one[1] < other[1]
        first, then = self.made.get(one), self.made.get(other)
        return first is not None and then is not None and first.finished_at < then.started_at

    def call(self, commit: tuple[str, int]) -> str | None:
        """The id of the call that made the commit; None where that, or its time, is not known."""
        made = self.made.get(commit)
        return None if made is None else made.call


NO_ORDER: Final = CommitOrder()
READS: Final = frozenset(
    Read("trace", CALL_TYPE, name) for name in ("transactions", "started_at", "finished_at")
)
"""What a clause that waits for the order of two sources reads of the log."""


def commit_order(trace: Trace, claims: Mapping[tuple[str, int], Claim]) -> CommitOrder:
    """The order of the commits that recorded calls made."""
    if trace.gap is not None or trace.is_agent_influenced:
        return NO_ORDER
    spans = {
        call.id: _Made(call.id, call.started_at, call.finished_at)
        for call in trace.actions
        if call.started_at is not None
        and call.finished_at is not None
        and call.started_at <= call.finished_at
    }
    made = {commit: spans.get(claim.action or "") for commit, claim in claims.items()}
    return CommitOrder({commit: span for commit, span in made.items() if span is not None})
