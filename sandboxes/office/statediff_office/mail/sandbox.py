"""A mail outbox in a process of its own, emptied by request and proven empty, and its feed.

The feed has one transaction a message, with the time at which the sink accepted it. The sink keeps
what it accepted, in order, and gives nothing up but all at once, when the evaluator empties it; so
the messages it holds are the history. What cannot be seen is what it did not accept: mail that was
begun and given up, or refused. A message is known by its Message-ID too, as its sender knows it;
two messages with one id are neither known by it.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from statediff.capture.feed import Feed, Seen
from statediff.capture.source import Clock, Source, SourceUnavailable
from statediff.model.batches import Row
from statediff.model.explanation import by_run
from statediff.model.readings import Transaction
from statediff.model.state import ChunkStore, State
from statediff.packs import PackSource
from statediff.systems.base.protocol import Drift, SourceProof
from statediff_office.mail.source import (
    Deliveries,
    MailSource,
    OutboxControl,
    OutboxProcess,
    OutboxStatus,
    accepted_at,
)

METHOD: Final = "sha256 of all messages the outbox holds"
_POLL_SECONDS: Final = 0.01


class EmbeddedOutbox:
    """A `System`: an SMTP server that keeps what it accepts and delivers nothing."""

    FILES: ClassVar[Mapping[str, bool]] = {}
    LOOKS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self.process = OutboxProcess()
        self._feed = MailFeed(source.name, lambda: self.process.control)

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.process.smtp_port}"

    def start(self) -> None:
        if not self.process.is_running:
            self.process.start()

    def stop(self) -> None:
        self.process.stop()

    def reset(self) -> None:
        if self.process.is_running:
            with contextlib.suppress(SourceUnavailable):  # it hangs, e.g. the agent stopped it
                self.process.control.reset()
                return
        self.process.kill()  # reaps one that died by itself
        self.process.start()

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        empty = hashlib.sha256().hexdigest()
        try:
            control = self.process.control
            status = control.status()
            hasher = hashlib.sha256()
            if status.deliveries:
                for message in control.messages():
                    hasher.update(str(sorted(message.items())).encode())
        except SourceUnavailable as error:
            drift = Drift(self.source, "the outbox", "an answer", str(error))
            return SourceProof(self.source, METHOD, empty, "", 0), (drift,)
        found: list[Drift] = []
        if status.deliveries:
            what = f"{status.deliveries} deliveries"
            found.append(Drift(self.source, "mail", "no message", what))
        if status.in_flight:
            what = f"{status.in_flight} in flight"
            found.append(Drift(self.source, "mail", "none in flight", what))
        return SourceProof(self.source, METHOD, empty, hasher.hexdigest(), 0), tuple(found)

    def sources(self) -> tuple[Source, ...]:
        return (MailSource(self.source, self.process.control),)

    def feeds(self) -> tuple[Feed, ...]:
        """The feed that tells the messages one by one."""
        return (self._feed,)

    def unsettled(self, deadline: float) -> str | None:
        while True:
            try:
                status: OutboxStatus = self.process.control.status()
            except SourceUnavailable as error:
                return str(error)  # waiting does not bring back a process that is gone
            if not status.in_flight:
                return None
            if time.monotonic() >= deadline:
                return f"{status.in_flight} messages still in flight"
            time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))

    def unplug(self, source: str) -> None:
        """Its process is killed."""
        self.process.kill()


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
        rows = Deliveries()
        work = 0
        last: State | None = None
        for number, (message, new) in enumerate(
            zip(messages, mail.deliveries(messages), strict=True), 1 - known
        ):
            rows.extend(new)
            if number < 1:
                continue
            work += len(rows)
            if work > MAX_ROWS_TOLD:
                cause = by_run(f"it would take more than {MAX_ROWS_TOLD} rows to tell")
                return Seen(tuple(told), cause)
            if last is None:
                last = mail.state(rows, store, before)
            else:
                last = mail.with_more(last, rows, new)
            name = f"{self._source}/{number}"
            at = accepted_at(message)
            ids = _ids(new.messages)
            position = str(len(rows.messages))
            told.append(Transaction(name, self._source, position, at, last, ids))
        return Seen(tuple(told))

    def detach(self) -> None:
        self._start = None


def _ids(rows: list[Row]) -> tuple[str, ...]:
    """The Message-ID of one message, unless it looks like another kind of name, or is too long."""
    found = rows[0]["message_id"] if rows else None
    is_id = isinstance(found, str) and _ID.fullmatch(found)
    return (str(found),) if is_id else ()
