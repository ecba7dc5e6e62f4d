"""Which transactions a tracker's server made for a request, noted by the server as it commits them.

1. Roundup's connections are `NotedConnection`s. Whoever commits a change holds the database's write
   lock until then, so that nobody else commits: the first transaction in the log after its position
   under the lock is this connection's own, whoever writes to the database besides.
2. A request is handled by one thread, from its beginning to its answer: what is committed in that
   thread in between was made for it, however many requests are in progress (`noting`).
3. The answer names them, as the database's feed does: by the frame of the log that ends each. A
   name that is not certain is `?`. Nothing that a client sends has a part in it.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from statediff.systems.sqlite.marks import LogMarks
from statediff.systems.trackers.headers import UNKNOWN

_LOGGED: Final = "db"
"""The tracker's database by the name of its file; those beside it are its sessions'."""
_level: Final[Any] = vars(sqlite3.Connection)["isolation_level"]


class _Request(threading.local):
    made: list[str] | None = None


_request: Final = _Request()
_logs: Final[dict[str, LogMarks]] = {}
_lock: Final = threading.Lock()
"""Over a commit and both looks at the log. Whoever waits for it keeps nobody who has it waiting:
a commit that has changed something waits for no other lock of the database."""


@contextmanager
def noting() -> Iterator[list[str]]:
    """The list gets the name of each transaction that this thread commits from now on."""
    made: list[str] = []
    _request.made = made
    try:
        yield made
    finally:
        _request.made = None


class NotedConnection(sqlite3.Connection):
    """A connection whose commits are noted, if it is to a tracker's database."""

    def __init__(self, database: str, *given: Any, **named: Any) -> None:
        super().__init__(database, *given, **named)
        self._database = database
        self._changes = 0
        """What it had changed when the last transaction ended."""

    def commit(self) -> None:
        made = _request.made
        try:
            if made is not None and self.in_transaction and Path(self._database).name == _LOGGED:
                made += self._committed()
            else:
                super().commit()
        finally:
            self._changes = self.total_changes

    def rollback(self) -> None:
        super().rollback()
        self._changes = self.total_changes

    @property
    def isolation_level(self) -> Any:
        return _level.__get__(self)

    @isolation_level.setter
    def isolation_level(self, level: Any) -> None:
        if level is None:
            self.commit()  # as the base class would, and Roundup relies upon: unnoted
        _level.__set__(self, level)

    def _committed(self) -> list[str]:
        """Commits; the name of the transaction, if there was one."""
        has_changed = self.total_changes != self._changes
        with _lock:
            log = _logs.setdefault(self._database, LogMarks(_LOGGED, self._database))
            is_readable = True
            try:
                log.note()
            except OSError:
                is_readable = False
            super().commit()
            try:
                new = [mark.name for mark in log.since()] if is_readable else []
            except OSError:
                new = []
        if has_changed and new and new[0] is not None:
            return [new[0]]
        # A change of the schema only is not counted; what is new may be that, or somebody else's.
        return [UNKNOWN] if new or has_changed or not is_readable else []
