"""What the write-ahead log of a PostgreSQL 15 server says of each commit: when, and which pages.

The log is read by the server's own `pg_walinspect`, up to a barrier: a message of the evaluator's,
committed with `synchronous_commit` on, so that everything before it has been flushed, whatever the
agent chose for its own commits. Nothing but numbers is taken from it: transactions, files, pages.
What the rows on these pages are, `postgres_past` reads as the server shows them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from statediff.capture.source import SourceUnavailable
from statediff.systems.base.typed import instant
from statediff.systems.postgres.session import Connection

MAX_LOG_BYTES: Final = 1024 * 1024 * 1024
_COMMITS: Final = """
SELECT xid::text::int8, record_type, description, start_lsn::text
FROM pg_get_wal_records_info(%s, %s)
WHERE resource_manager = 'Transaction' AND record_type LIKE 'COMMIT%%' ORDER BY start_lsn
"""
_TOUCHED: Final = r"""
SELECT r.xid::text::int8, m[1] = '0', m[2]::int8, array_agg(DISTINCT m[3]::int8)
FROM pg_get_wal_records_info(%s, %s) r,
  regexp_matches(r.block_ref, 'rel \d+/(\d+)/(\d+) fork main blk (\d+)', 'g') m
WHERE r.xid::text <> '0' AND m[1] IN ('0', %s) GROUP BY 1, 2, 3
"""
_SUBXACTS: Final = re.compile(r"; subxacts:((?: \d+)+)")

File = tuple[bool, int]
"""A file of rows: whether it belongs to the whole server, and its number."""


@dataclass(frozen=True)
class Snapshot:
    """Which transactions one sees: those below `top`, but for the `pending` ones."""

    top: int
    pending: frozenset[int]

    @staticmethod
    def parse(text: str) -> Snapshot:
        """From `pg_current_snapshot`. Raises `SourceUnavailable` beyond the first four billion."""
        _, top, pending = text.split(":")
        if int(top) >= 2**32:
            raise SourceUnavailable("its transaction numbers have begun anew")
        return Snapshot(int(top), frozenset(int(x) for x in pending.split(",") if x))

    def sees(self, xid: int) -> bool:
        """Whether what the transaction committed is visible."""
        return xid < self.top and xid not in self.pending


@dataclass(frozen=True)
class Commit:
    """One committed transaction."""

    xid: int
    parts: frozenset[int]
    """Its own number and those of its subtransactions."""
    lsn: str
    at: datetime | None
    """By the server's clock."""
    touched: Mapping[File, frozenset[int]] = field(default_factory=dict)
    """File → pages on which it changed something."""


def flushed(admin: Connection) -> str:
    """Where the log ended, with everything before that on disk."""
    with admin.pipeline():
        admin.execute("SET synchronous_commit = on")
        admin.execute("SELECT pg_logical_emit_message(true, 'statediff', 'barrier')")
    (position,) = admin.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone() or ("",)
    return str(position)


def commits_between(admin: Connection, start: str, end: str, database: int) -> tuple[Commit, ...]:
    """Every commit in the order of the log, with what it touched of one database and the server.

    Raises `SourceUnavailable` where the log says of a commit less than that.
    """
    if _place(end) - _place(start) > MAX_LOG_BYTES:
        raise SourceUnavailable(f"its log grew by more than {MAX_LOG_BYTES >> 20} MiB")
    with admin.pipeline():
        pages_touched = admin.execute(_TOUCHED, (start, end, str(database)))
        committed = admin.execute(_COMMITS, (start, end))
    touched: dict[int, dict[File, set[int]]] = {}
    for xid, is_shared, file, pages in pages_touched.fetchall():
        touched.setdefault(xid, {})[is_shared, file] = set(pages)
    found = []
    for xid, kind, description, lsn in committed.fetchall():
        if kind != "COMMIT":
            raise SourceUnavailable("a transaction was prepared beforehand and committed later")
        subxacts = _SUBXACTS.search(description)
        parts = frozenset({xid, *map(int, subxacts[1].split() if subxacts else ())})
        pages_of: dict[File, set[int]] = {}
        for part in parts:
            for name, pages in touched.get(part, {}).items():
                pages_of.setdefault(name, set()).update(pages)
        at = _instant(description.partition(";")[0])
        whole = {name: frozenset(pages) for name, pages in pages_of.items()}
        found.append(Commit(xid, parts, lsn, at, whole))
    return tuple(found)


def _instant(text: str) -> datetime | None:
    read = instant(f"{text}:00" if text.endswith("+00") else text, None)
    return read if isinstance(read, datetime) and read.tzinfo is not None else None


def _place(lsn: str) -> int:
    """A place in the log in bytes, of how the server writes it. Raises `SourceUnavailable`."""
    high, _, low = lsn.partition("/")
    try:
        return (int(high, 16) << 32) + int(low, 16)
    except ValueError:
        raise SourceUnavailable("the server does not say where its log ends") from None
