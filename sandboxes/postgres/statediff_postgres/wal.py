"""A PostgreSQL server's log between two places, read by a program of the server's own.

`inspected` asks the extension `pg_walinspect`. Where a server was built without that, `Dump` runs
`pg_waldump` over its files and reads what that prints, a record a line. Only such kinds of records
are printed of which no text is a client's to choose: a message that an agent puts into the log
might hold a line like any other. A line of another form is not read as anything.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from statediff.capture.source import SourceUnavailable
from statediff.model.values import printable
from statediff_postgres.session import READ_SECONDS, Connection

Touched: TypeAlias = tuple[int, bool, int, Iterable[int]]
"""A transaction, whether the file is the whole server's, the file, and pages it changed there."""
Committed: TypeAlias = tuple[int, str, str, str]
"""A transaction, the kind of its last record, what that says, and where it begins."""
ReadLog = Callable[[Connection, str, str, int], tuple[list[Touched], list[Committed]]]
"""The owner's connection, from where, to where, and the number of a database → what was touched of
it and of the server, and the commits in their order. Raises `SourceUnavailable`."""

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


def inspected(
    admin: Connection, start: str, end: str, database: int
) -> tuple[list[Touched], list[Committed]]:
    """The pages touched and the commits, as the extension tells them."""
    with admin.pipeline():
        pages_touched = admin.execute(_TOUCHED, (start, end, str(database)))
        committed = admin.execute(_COMMITS, (start, end))
    return pages_touched.fetchall(), committed.fetchall()


_KINDS: Final = (
    *("XLOG", "Transaction", "Storage", "CLOG", "Database", "Tablespace", "MultiXact", "RelMap"),
    *("Standby", "Heap2", "Heap", "Btree", "Hash", "Gin", "Gist", "Sequence", "SPGist", "BRIN"),
    *("CommitTs", "ReplicationOrigin", "Generic"),
)
"""All that PostgreSQL 15 and 16 have, but for `LogicalMessage`, whose prefix anyone chooses."""
_RECORD: Final = re.compile(
    r"rmgr: (\w+) +len \(rec/tot\): +\d+/ *\d+, tx: +(\d+), lsn: ([0-9A-F]+/[0-9A-F]+),"
    r" prev [0-9A-F]+/[0-9A-F]+, desc: (.*)"
)
_PAGE: Final = re.compile(r"blkref #\d+: rel \d+/(\d+)/(\d+) blk (\d+)")
"""Of a main fork: another one is named before the page."""
_BEGINS: Final = re.compile(r"first record is after .*, at .*, skipping over \d+ bytes?")
"""Said where a page begins: its head is no record."""
_COMMIT: Final = re.compile(r"(COMMIT\w*) (.*)")


@dataclass(frozen=True)
class Dump:
    """A `ReadLog` over the files of a server on this machine."""

    program: Path
    """`pg_waldump` of the server's own release."""
    folder: Path
    """Of the log."""
    user: int | None
    """Whose the files are; None where they are our own user's."""

    def __call__(
        self, _admin: Connection, start: str, end: str, database: int
    ) -> tuple[list[Touched], list[Committed]]:
        touched: dict[tuple[int, bool, int], set[int]] = {}
        committed: list[Committed] = []
        for kind, xid, lsn, description in self._records(start, end):
            if xid:
                for where, file, page in _PAGE.findall(description):
                    if where in ("0", str(database)):
                        touched.setdefault((xid, where == "0", int(file)), set()).add(int(page))
            commit = _COMMIT.match(description) if kind == "Transaction" else None
            if commit is not None:
                committed.append((xid, commit[1], commit[2].replace(" UTC", "+00", 1), lsn))
        return [(*key, pages) for key, pages in touched.items()], committed

    def _records(self, start: str, end: str) -> Iterator[tuple[str, int, str, str]]:
        if start == end:
            return
        command = [str(self.program), "-p", str(self.folder), "-s", start, "-e", end]
        command += [f"--rmgr={kind}" for kind in _KINDS]
        environment = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}
        try:
            ran = subprocess.run(
                command,
                env=environment,
                capture_output=True,
                timeout=READ_SECONDS,
                check=False,
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SourceUnavailable(f"its log cannot be read: {error}") from error
        if ran.returncode != 0 or ran.stderr.strip():
            said = printable(ran.stderr.decode(errors="replace").strip()[-200:])
            raise SourceUnavailable(f"its log cannot be read: {said or ran.returncode}")
        lines = ran.stdout.decode(errors="replace").split("\n")[:-1]
        if lines and _BEGINS.fullmatch(lines[0]):
            del lines[0]
        for line in lines:
            record = _RECORD.fullmatch(line)
            if record is None:
                raise SourceUnavailable("its log has a record of a form that nobody knows")
            yield record[1], int(record[2]), record[3], record[4]
