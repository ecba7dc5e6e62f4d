"""A mail outbox in a process of its own, emptied by request and proven empty."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from statediff.capture.feed import Feed
from statediff.capture.source import Source, SourceUnavailable
from statediff.packs import PackSource
from statediff.systems.base.receipt import Drift, SourceProof
from statediff.systems.mail.feed import MailFeed
from statediff.systems.mail.source import MailSource, OutboxProcess, OutboxStatus

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
        """What tells the messages one by one."""
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
