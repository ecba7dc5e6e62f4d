"""The Feed protocol: every state that a source passed through during a run, in its order.

A feed is attached before the capture before and read after the capture after. It is trusted no
further than it can be checked: `attach` shows the state it starts from and `finish` ends in the
state it arrived at, so that whoever uses it can compare both ends with the two scans. A feed that
disagrees with a scan, or cannot vouch for having seen every commit, is a gap with a cause; the
history is then unknown, never empty (docs/design.md §3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from statediff.capture.source import Clock
from statediff.model.readings import Transaction
from statediff.model.state import ChunkStore, State


@dataclass(frozen=True)
class Seen:
    """What a feed saw between `attach` and `finish`."""

    transactions: tuple[Transaction, ...]
    """In commit order; each holds the source's whole state after it, sharing chunks that did not
    change. The last one's state is what the source was in when the feed was read."""
    gap: str | None = None
    """Why there may have been more; None if these are all, and every one of them is exact."""


class Feed(Protocol):
    """Sees every commit of one source between two moments. Watching must not change the source."""

    @property
    def source(self) -> str:
        """The source whose states it tells, e.g. `shop-db`."""

    def attach(self) -> None:
        """Whatever is committed from now on will be seen, or a gap reported by `finish`.

        Raises `SourceUnavailable` with the cause where the system offers no feed.
        """

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        """All commits since `attach`; `before` is the source's state then, whose chunks are shared.

        Raises `SourceUnavailable` if it can no longer be read. The feed stays attached until
        `detach`.
        """

    def detach(self) -> None:
        """Nothing of the feed is left on the source; may be called at any time, and again."""
