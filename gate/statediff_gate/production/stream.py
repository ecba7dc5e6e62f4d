"""The log of a PostgreSQL server, line by line as it is written: a replication connection.

Each line comes with the position behind it. The slot keeps the log from `kept` on, which its user
moves on once all before is safe; where the connection ends, nothing after it is lost.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Iterator
from typing import Final

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import ExecStatus
from statediff_postgres.session import opened

_START: Final = 'START_REPLICATION SLOT "{slot}" LOGICAL {at} ("include-timestamp" \'1\')'
"""Empty transactions too: else a message comes without the transaction that it is all of."""
_SINCE: Final = 946_684_800
"""Seconds of 2000-01-01, where the server's clock begins."""
_SAY_SECONDS: Final = 5.0


class Stream:
    """The changes that a slot delivers from a position on. Raises `psycopg.Error`."""

    def __init__(self, url: str, slot: str, at: int) -> None:
        self.position = self.kept = at
        """Everything that was committed before was delivered; what the slot may forget."""
        self._is_within = False
        self._connection = opened(
            make_conninfo(url, replication="database", options="-c wal_sender_timeout=0")
        )
        self._line = self._connection.pgconn
        self._said = 0.0
        try:
            self._line.send_query(_START.format(slot=slot, at=lsn_text(at)).encode())
            while self._line.is_busy():
                self._wait(60.0)
            begun = self._line.get_result()
            if begun is None or begun.status != ExecStatus.COPY_BOTH:
                said = b"" if begun is None else begun.error_message
                raise psycopg.OperationalError(said.decode(errors="replace").strip())
        except BaseException:
            self.close()
            raise

    def lines(self, seconds: float) -> Iterator[str | None]:
        """Every line; None where there is none now, at least that often."""
        while True:
            size, taken = self._line.get_copy_data(1)
            if size < 0:
                ended = self._line.get_result()
                said = b"" if ended is None else ended.error_message
                raise psycopg.OperationalError(f"the stream ended: {said.decode(errors='replace')}")
            if size == 0:
                if time.monotonic() - self._said > _SAY_SECONDS:
                    self.confirm()
                if not self._wait(seconds):
                    yield None
                continue
            message = bytes(taken)
            (start,) = struct.unpack_from(">Q", message, 1)
            if message[:1] == b"k":
                if not self._is_within:
                    self.position = max(self.position, start)
                if message[17]:
                    self.confirm()
                yield None  # other databases may keep the server talking for good
                continue
            text = message[25:].decode(errors="surrogateescape")
            if text.startswith(("BEGIN ", "COMMIT ")):
                self._is_within = text.startswith("BEGIN ")
                self.position = self.position if self._is_within else start
            yield text

    def confirm(self, *, asks: bool = False) -> None:
        """Tell the server what it may forget; it may be asked how far it is."""
        now = int((time.time() - _SINCE) * 1e6)
        words = struct.pack(">cQQQQB", b"r", self.position, self.kept, self.kept, now, asks)
        self._line.put_copy_data(words)
        while self._line.flush():
            self._wait(1.0)
        self._said = time.monotonic()

    def close(self) -> None:
        """The slot is free."""
        self._connection.close()

    def _wait(self, seconds: float) -> bool:
        ready = select.select([self._line.socket], [], [], seconds)[0]
        if ready:
            self._line.consume_input()
        return bool(ready)


def lsn_of(text: str) -> int:
    """A position in the log, of how the server writes it."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(position: int) -> str:
    """The position as the server writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"
