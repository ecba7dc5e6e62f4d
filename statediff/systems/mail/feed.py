"""Every state of an outbox: one transaction a message, with the time at which the sink accepted it.

The sink keeps what it accepted, in order, and gives nothing up but all at once, when the evaluator
empties it; so the messages it holds are the history. What cannot be seen is what it did not accept:
mail that was begun and given up, or refused. A message is known by its Message-ID too, as whoever
sent it knows it; two messages with one id are neither known by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from statediff.capture.feed import Seen
from statediff.capture.source import Clock, SourceUnavailable
from statediff.model.batches import Row
from statediff.model.readings import Transaction
from statediff.model.state import ChunkStore, State
from statediff.systems.mail.source import MailSource, OutboxControl, accepted_at

_ID: Final = re.compile(r"<[!-;=?-~]{1,300}>")
MAX_ROWS_TOLD: Final = 500_000
"""Deliveries in all states together: about a thousand messages, a few seconds' work."""


@dataclass(frozen=True)
class _Start:
    """The outbox when the feed was attached."""

    control: OutboxControl
    resets: int
    messages: list[dict[str, Any]]


class MailFeed:
    """A `Feed` of one outbox; `control` says where it is: a reset may replace its process."""

    def __init__(self, source: str, control: Callable[[], OutboxControl]) -> None:
        self._source = source
        self._control = control
        self._start: _Start | None = None

    @property
    def source(self) -> str:
        return self._source

    def attach(self) -> None:
        control = self._control()
        self._start = _Start(control, control.status().resets, control.messages())

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        start = self._start
        if start is None:
            raise SourceUnavailable(f"no feed of {self._source} is attached")
        messages = start.control.messages()
        known = len(start.messages)
        if start.control.status().resets != start.resets or messages[:known] != start.messages:
            return Seen((), "the outbox was emptied since")
        mail = MailSource(self._source, start.control)
        told: list[Transaction] = []
        rows: list[Row] = []
        work = 0
        for number, (message, new) in enumerate(
            zip(messages, mail.deliveries(messages), strict=True), 1 - known
        ):
            rows.extend(new)
            if number < 1:
                continue
            work += len(rows)
            if work > MAX_ROWS_TOLD:
                return Seen(tuple(told), f"it would take more than {MAX_ROWS_TOLD} rows to tell")
            state = mail.state(rows, store, before)
            name = f"{self._source}/{number}"
            at = accepted_at(message)
            ids = _ids(new)
            told.append(Transaction(name, self._source, str(len(rows)), at, state, ids))
        return Seen(tuple(told))

    def detach(self) -> None:
        self._start = None


def _ids(rows: list[Row]) -> tuple[str, ...]:
    """The Message-ID of one message, unless it looks like another kind of name, or is too long."""
    found = rows[0]["message_id"] if rows else None
    is_id = isinstance(found, str) and _ID.fullmatch(found)
    return (str(found),) if is_id else ()
