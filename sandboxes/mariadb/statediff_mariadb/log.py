"""The transactions of a MariaDB server's log between two moments, in commit order.

The log of rows (`binlog_format=ROW`) is read as a replica would read it. Each transaction has a
number one above the last one's, so that a log that was begun anew, cut or written around shows.
The log is complete up to the number that the server named before it was read: a transaction is in
the log before anybody can see what it did.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final

import pymysql
from pymysqlreplication import BinLogStreamReader, event, row_event

from statediff.capture.source import SourceUnavailable, SourceUnfollowed
from statediff.model.values import printable
from statediff_mariadb.session import Connection, cause_of, connected, fetched, literal

MAX_TRANSACTIONS: Final = 10_000
MAX_BYTES: Final = 256 * 1024 * 1024
"""Bytes of rows in all transactions together."""
_SETTINGS: Final = {
    "log_bin": "1",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "log_bin_compress": "0",
}
_ATTEMPTS: Final = 20
_NO_KEYS_CHECKED: Final = 2
_XA: Final = 64 | 128
_SILENT: Final = (
    event.FormatDescriptionEvent,
    event.RotateEvent,
    event.MariadbGtidListEvent,
    event.MariadbBinLogCheckPointEvent,
    event.MariadbAnnotateRowsEvent,
    event.HeartbeatLogEvent,
    row_event.TableMapEvent,
)
_BROKEN: Final = (struct.error, LookupError, ValueError, TypeError, AttributeError, AssertionError)
"""What the reader of the log raises for an event that is not as it expects one."""


@dataclass(frozen=True)
class Place:
    """The end of a log: the number of its last transaction, and where in its files that is."""

    domain: int
    server: int
    number: int
    file: str = field(default="", compare=False)
    offset: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.number}"


class Kind(Enum):
    """The kind of an event's change to rows."""

    WRITE = "write"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True)
class RowsChanged:
    """Rows of one table as an event holds them, not read yet (`mariadb_cells.Layout`)."""

    database: str
    table: str
    kind: Kind
    columns: list[Any]
    content: bytes
    bitmaps: tuple[bytes, ...]
    keys_checked: bool


@dataclass(frozen=True)
class Logged:
    """One transaction: rows, or a statement that was written down as such."""

    place: Place
    committed_at: datetime
    rows: tuple[RowsChanged, ...] = ()
    statements: tuple[str, ...] = ()
    """Whatever no rows show; `undone` work and two-phase commits are named here too."""
    database: str = field(default="", compare=False)
    prepared: str | None = None
    """The name of a transaction that is prepared, and not committed yet."""
    session: tuple[tuple[str, Any], ...] = ()
    """What the log says of the session that gave the statement."""


def check_settings(connection: Connection[Any]) -> None:
    """The server logs whole rows of every table. Raises `SourceUnavailable`, `pymysql.Error`."""
    names = ", ".join(f"@@global.{name}" for name in _SETTINGS)
    (found,) = fetched(connection, f"SELECT {names}")
    for (name, expected), value in zip(_SETTINGS.items(), found, strict=True):
        if value != expected:
            raise SourceUnavailable(
                f"its server has {name} = {printable(str(value))}, and must have {expected}"
            )
    (status,) = fetched(connection, "SHOW MASTER STATUS")
    if any(status[2:4]):
        raise SourceUnavailable("its server keeps some databases out of its log")


def last_in_log(connection: Connection[Any]) -> Place:
    """The last transaction that is in the log now. Raises `SourceUnavailable`, `pymysql.Error`."""
    ((text,),) = fetched(connection, "SELECT @@global.gtid_binlog_pos")
    try:
        domain, server, number = (int(part) for part in str(text).split("-"))
    except ValueError as error:
        raise SourceUnavailable("its server has not one log, but several or none") from error
    return Place(domain, server, number)


def end_of_log(connection: Connection[Any]) -> Place:
    """The last transaction in the log, and where in its files that is. Raises as `last_in_log`."""
    for _ in range(_ATTEMPTS):
        place = last_in_log(connection)
        (status,) = fetched(connection, "SHOW MASTER STATUS")
        if last_in_log(connection) == place:  # both tell of one moment
            return replace(place, file=str(status[0]), offset=int(status[1]))
    raise SourceUnavailable("its log grew without a pause")


def check_kept(connection: Connection[Any], start: Place, end: Place) -> None:
    """The log that had its end at `start` goes on to `end`.

    Raises `SourceUnavailable` where it was begun anew or cut, `pymysql.Error`.
    """
    ((found,),) = fetched(
        connection, f"SELECT BINLOG_GTID_POS({literal(start.file)}, {start.offset})"
    )
    if found != str(start) or end.number < start.number:
        raise SourceUnavailable(f"its log is no longer the one that had its end at {start}")


class LogReader:
    """The log after `start`, read as a replica reads it.

    One that waits keeps its connections: what comes later is read by asking it again.
    """

    def __init__(self, url: str, start: Place, seconds: float, *, waits: bool = False) -> None:
        self.place = start
        self._lines = (connected(url, seconds)[0] for _ in range(2))
        self._reader = BinLogStreamReader(
            {},
            secrets.randbelow(1 << 31) + 1_000_000_000,
            is_mariadb=True,
            auto_position=str(start),
            blocking=waits,
            filter_non_implemented_events=False,
            enable_logging=False,
            pymysql_wrapper=self._connect,
        )

    def _connect(self, **settings: Any) -> Any:
        """One for the log and one beside it; never another, which would begin at the start."""
        for connection in self._lines:
            if settings.get("cursorclass") is not None:
                connection.cursorclass = settings["cursorclass"]
            return connection
        raise SourceUnavailable("its server ended the log that was read")

    def close(self) -> None:
        self._reader.close()

    def until(self, end: Place) -> Iterator[Logged]:
        """The transactions that were not read yet, up to `end`. Raises `SourceUnavailable`."""
        size, count = 0, 0
        is_open: Logged | None = None
        is_alone = False
        if replace(end, number=self.place.number) != self.place or end.number < self.place.number:
            raise SourceUnavailable(f"its log ends with {end}, before {self.place}")
        while self.place.number < end.number or is_open is not None:
            found = _next(self._reader)
            if found is None:
                raise SourceUnavailable(f"its log ends before its transaction {end}")
            if isinstance(found, event.MariadbGtidEvent):
                self.place = _following(found, self.place)
                if (count := count + 1) > MAX_TRANSACTIONS:
                    raise SourceUnfollowed(f"there are more than {MAX_TRANSACTIONS} transactions")
                at = datetime.fromtimestamp(found.timestamp, UTC)
                is_open = Logged(self.place, at, statements=("XA",) if found.flags & _XA else ())
                is_alone = bool(found.flags & 1)
            elif isinstance(found, _SILENT):
                continue
            elif is_open is None:
                raise SourceUnavailable("its log holds something that is in no transaction")
            elif isinstance(found, row_event.RowsEvent):
                rows = _rows(found)
                if (size := size + len(rows.content)) > MAX_BYTES:
                    raise SourceUnfollowed(f"its log holds more than {MAX_BYTES >> 20} MiB")
                is_open = replace(is_open, rows=(*is_open.rows, rows))
            elif isinstance(found, event.XidEvent | event.XAPrepareEvent):
                if isinstance(found, event.XAPrepareEvent) and not found.one_phase:
                    is_open = replace(is_open, prepared=found.xid)
                yield is_open
                is_open = None
            elif isinstance(found, event.QueryEvent):
                text = str(found.query)
                if text != "COMMIT":
                    is_open = _with_statement(is_open, found)
                if is_alone or text in ("COMMIT", "ROLLBACK"):
                    yield is_open
                    is_open = None
            else:
                raise SourceUnavailable(f"its log holds an event of type {found.event_type}")


def _next(reader: BinLogStreamReader) -> Any:
    try:
        return reader.fetchone()
    except (pymysql.Error, OSError) as error:
        raise SourceUnavailable(f"its log: {cause_of(error)}") from error
    except (*_BROKEN, NotImplementedError) as error:
        raise SourceUnavailable("its log holds an event that cannot be read") from error


def _following(found: Any, place: Place) -> Place:
    there = Place(found.domain_id, found.server_id, found.gtid_seq_no)
    if there != Place(place.domain, place.server, place.number + 1):
        raise SourceUnavailable(
            f"its log goes on with {there} after {place}: it was not kept whole"
        )
    return there


def _rows(found: Any) -> RowsChanged:
    kinds: dict[type, Kind] = {
        row_event.WriteRowsEvent: Kind.WRITE,
        row_event.UpdateRowsEvent: Kind.UPDATE,
        row_event.DeleteRowsEvent: Kind.DELETE,
    }
    kind = kinds.get(type(found))
    if kind is None:
        raise SourceUnfollowed("its log holds parts of rows only")
    bitmaps: tuple[bytes, ...] = (found.columns_present_bitmap,)
    if kind is Kind.UPDATE:
        bitmaps = (found.columns_present_bitmap, found.columns_present_bitmap2)
    content = found.packet.read(found.event_size - found.packet.read_bytes)
    are_checked = not found.flags & _NO_KEYS_CHECKED
    return RowsChanged(
        found.schema, found.table, kind, found.columns, content, bitmaps, keys_checked=are_checked
    )


def _with_statement(logged: Logged, found: Any) -> Logged:
    return replace(
        logged,
        statements=(*logged.statements, str(found.query)),
        database=found.schema.decode("utf-8", "backslashreplace"),
        session=_session(found),
    )


def _session(found: Any) -> tuple[tuple[str, Any], ...]:
    names = ["sql_mode", "flags2", "user", "host", "character_set_client", "collation_connection",
             "collation_server"]  # fmt: skip
    return tuple((name, getattr(found, name)) for name in names if hasattr(found, name))
