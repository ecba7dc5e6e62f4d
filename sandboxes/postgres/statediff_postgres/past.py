"""The past that a PostgreSQL server still shows: its log, its snapshots, and the pages touched.

1. The log (`commits_between`): a program of the server's own (`postgres.wal`) reads it up to a
   barrier, a message of the evaluator's that is committed with `synchronous_commit` on. So
   everything before the barrier has been flushed, whatever the agent chose for its own commits.
   Nothing but numbers is taken from the log: transactions, files, pages.
2. Snapshots (`Look`): a transaction of ours, open since a feed was attached, keeps every version of
   every row. Another one may then take any snapshot since: the server reads it from a file in
   `pg_snapshots`, in the form in which `pg_export_snapshot` would have written it. So what a table,
   or the catalogue, held after some commit is asked in SQL, and read by the code that scans. The
   server's cache of its catalogue follows no snapshot: functions such as `pg_get_viewdef` always
   speak of now. `fingerprint` tells whether a catalogue's rows were others.
3. Deltas (`Delta`): the rows on touched pages are read at both moments; what is on one side only is
   the table's delta. That holds while the table is in the same files and has the same columns, and
   while nothing that decides how a value is written has changed: `Delta.doubt` says where not.
4. Pages by themselves (`check_pages`): every page begins with the position up to which the log
   tells of it (its LSN). A checkpoint puts all pages on disk; then the server's owner reads the
   first eight bytes of each page, which costs little beside reading rows, and asks nothing of the
   log. It trusts that whatever changes a row sets its page's LSN, as everything that is logged
   does. Hint bits, freezing and vacuum may set it too: more pages then, never fewer. Unlogged
   tables say nothing, and a file that was begun anew is another file: both are scanned.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import numpy as np
import psycopg

from statediff.capture.source import SourceUnavailable, SourceUnfollowed
from statediff.model.batches import Row
from statediff.model.explanation import by_run
from statediff.model.patch import patched
from statediff.model.schema import EntityType
from statediff.model.state import Table
from statediff.model.values import printable
from statediff.systems.base.rows import instant
from statediff.systems.relational.schema import is_key
from statediff_postgres.catalogue import RUNS_FUNCTIONS, Catalogue
from statediff_postgres.fingerprints import NAMES, ROWS, WHOLE
from statediff_postgres.naming import CLASS, OWN_REL, REL
from statediff_postgres.rows import TableQuery
from statediff_postgres.session import Connection, Copied, cause_of, cells
from statediff_postgres.wal import ReadLog

MAX_LOG_BYTES: Final = 1024 * 1024 * 1024
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
        """True if what the transaction committed is visible."""
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
    """The log's end, with everything before that on disk."""
    with admin.pipeline():
        admin.execute("SET synchronous_commit = on")
        admin.execute("SELECT pg_logical_emit_message(true, 'statediff', 'barrier')")
    (position,) = admin.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone() or ("",)
    return str(position)


def commits_between(
    admin: Connection, log: ReadLog, start: str, end: str, database: int
) -> tuple[Commit, ...]:
    """Every commit in the order of the log, with what it touched of one database and the server.

    Raises `SourceUnavailable` where the log says of a commit less than that.
    """
    if _place(end) - _place(start) > MAX_LOG_BYTES:
        raise SourceUnfollowed(f"its log grew by more than {MAX_LOG_BYTES >> 20} MiB")
    pages_touched, committed = log(admin, start, end, database)
    touched: dict[int, dict[File, set[int]]] = {}
    for xid, is_shared, file, pages in pages_touched:
        touched.setdefault(xid, {})[is_shared, file] = set(pages)
    found = []
    for xid, kind, description, lsn in committed:
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


MAX_PENDING: Final = 3_000
"""Transactions that a snapshot may except by number; the server takes 65 for each connection."""
_RANGES_AT_ONCE: Final = 48
_GAP: Final = 3
"""Pages between two touched ones that are read along, rather than begin anew."""
_FILE: Final = "00000000-0000FEED-1"
_DEFINITIONS: Final = f"""
SELECT c.oid::int8, {REL}, c.relkind::text, c.relpersistence::text, c.relfilenode::int8,
  (SELECT encode(sha256(convert_to(string_agg(concat_ws(',', a.attnum, a.attname, a.atttypid,
    a.atttypmod, a.attnotnull, a.attisdropped, a.attmissingval::text), ';' ORDER BY a.attnum),
    'UTF8')), 'hex')
   FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0),
  (SELECT string_agg(concat_ws(',', i.indkey::text, i.indisvalid, i.indnkeyatts), ';')
   FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary),
  (SELECT array_agg(h.inhparent::int8) FROM pg_inherits h WHERE h.inhrelid = c.oid),
  c.relispartition
FROM {CLASS} WHERE c.relkind IN ('r', 'p', 'm', 'f') AND {OWN_REL} ORDER BY c.oid
"""  # noqa: S608 - built of text in this package


_SEQUENCE_FILES: Final = "SELECT relfilenode::int8 FROM pg_class WHERE relkind = 'S'"


@dataclass(frozen=True)
class Definition:
    """A table's definition at some moment: equal ones are one table in one set of files."""

    oid: int
    kind: str
    shape: tuple[str | None, ...]
    """Its columns and its key, digested."""
    files: tuple[tuple[int, int], ...]
    """(number of the table or partition, file), in their order."""
    is_unlogged: bool


class Look:
    """A connection inside a transaction that sees one moment."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._fingerprints: dict[tuple[str, bool], str] = {}

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """Every table by its name as a type, but for partitions."""
        listed = self._listing[0]
        parts: dict[int, list[int]] = {}
        for oid, _, _, _, _, _, _, parents, is_partition in listed:
            if is_partition:
                for parent in parents or ():
                    parts.setdefault(parent, []).append(oid)
        rows = {row[0]: row for row in listed}

        def below(oid: int) -> Iterator[int]:
            yield oid
            for part in parts.get(oid, ()):
                yield from below(part)

        found = {}
        for oid, name, kind, _, _, _, _, _, is_partition in listed:
            if not is_partition:
                whole = [rows[each] for each in below(oid)]
                found[name] = Definition(
                    oid,
                    kind,
                    tuple(text for row in whole for text in (row[5], row[6])),
                    tuple((row[0], row[4]) for row in whole),
                    any(row[3] == "u" for row in whole),
                )
        return found

    @cached_property
    def sequence_files(self) -> frozenset[int]:
        """The files of the sequences."""
        return frozenset(row[0] for row in self._listing[1])

    @cached_property
    def _listing(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The lists of tables and of sequences; both asked at once."""
        with self.connection.pipeline():
            tables = self.connection.execute(_DEFINITIONS.encode())
            sequences = self.connection.execute(_SEQUENCE_FILES.encode())
        return tables.fetchall(), sequences.fetchall()

    def fingerprint(self, catalogue: str, *, names_only: bool = False) -> str:
        """A digest of the rows that one table of the catalogue held at that moment.

        With `names_only`, of what the server's functions need to name its objects.
        """
        asked = NAMES[catalogue] if names_only else ROWS.get(catalogue, WHOLE)
        if (catalogue, names_only) not in self._fingerprints:
            if not re.fullmatch(r"pg_[a-z_]+", catalogue):
                raise SourceUnavailable(f"{catalogue!r} is no table of the catalogue")
            row, condition = asked
            digest = f"sha256(convert_to(({row})::text, 'UTF8'))"
            (found,) = self.connection.execute(
                "SELECT encode(sha256(coalesce(string_agg(row, '' ORDER BY row), '')), 'hex')"  # noqa: S608 - matched
                f" FROM (SELECT {digest} AS row"
                f" FROM pg_catalog.{catalogue} c {condition}) r".encode()
            ).fetchone() or ("",)
            self._fingerprints[catalogue, names_only] = str(found)
        return self._fingerprints[catalogue, names_only]

    def enter(self, admin: Connection, held: Held, seen: Snapshot) -> None:
        """Its connection sees another moment now."""
        self.connection.execute("ROLLBACK")
        for known in ("_listing", "definitions", "sequence_files"):
            self.__dict__.pop(known, None)
        self._fingerprints.clear()
        if len(seen.pending) > MAX_PENDING:
            raise SourceUnfollowed(
                f"more than {MAX_PENDING} transactions were under way, or given up, at one moment"
            )
        lines = [
            f"vxid:{held.transaction}",
            f"pid:{held.process}",
            f"dbid:{held.database}",
            "iso:2",
            "ro:0",
            f"xmin:{min((*seen.pending, seen.top))}",
            f"xmax:{seen.top}",
            "xcnt:0",
            "sof:0",
            f"sxcnt:{len(seen.pending)}",
            *(f"sxp:{x}" for x in sorted(seen.pending)),
            "rec:0",
        ]
        place = f"{held.folder}/pg_snapshots/{_FILE}"
        values = ", ".join(f"('{line}')" for line in lines)
        admin.execute(f"COPY (VALUES {values}) TO '{place}'".encode())
        self.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self.connection.execute(f"SET TRANSACTION SNAPSHOT '{_FILE}'".encode())


def lines(
    looks: Sequence[Look], query: TableQuery, pages: Iterable[tuple[int, int]]
) -> list[Lines]:
    """The rows on the pages (number of the table or partition, page), as each look sees them.

    All are asked before the first answers. Raises `psycopg.Error`; each connection can be used on.
    """
    found: list[Counter[bytes]] = [Counter() for _ in looks]
    conditions = _conditions(pages)
    for at in range(0, len(conditions), _RANGES_AT_ONCE):
        text = query.where(conditions[at : at + _RANGES_AT_ONCE])
        with ExitStack() as stack:
            asked = [stack.enter_context(closing(Copied(look.connection, text))) for look in looks]
            for counter, copies in zip(found, asked, strict=True):
                counter.update(copies)
    return [Lines(counter) for counter in found]


@dataclass(frozen=True)
class Lines:
    """Rows as the server writes them, each with how often it is there."""

    found: Counter[bytes]

    def rows_beside(self, other: Lines, query: TableQuery) -> list[Row]:
        """The rows that are here and not there. Raises `ValueError` for a row without a key."""
        rows = []
        more = (
            (line, n - other.found[line]) for line, n in self.found.items() - other.found.items()
        )
        for line in (line for line, n in more for _ in range(n)):
            row = query.row(cells(line))
            if not all(is_key(row[name]) for name in query.key):
                raise ValueError("a row has no key, or one beyond the capture limit")
            rows.append(row)
        return rows


@dataclass(frozen=True)
class Held:
    """The transaction that keeps the past."""

    transaction: str
    process: int
    database: int
    folder: str
    """The server's data folder."""


def _conditions(pages: Iterable[tuple[int, int]]) -> Sequence[str]:
    """Ranges of pages as conditions on `t`, that exclude each other."""
    found: list[list[int]] = []
    for table, page in sorted(set(pages)):
        if found and found[-1][0] == table and page - found[-1][2] <= _GAP:
            found[-1][2] = page
        else:
            found.append([table, page, page])
    return [
        f"t.tableoid = {table} AND t.ctid >= '({first},0)' AND t.ctid < '({last + 1},0)'"
        for table, first, last in found
    ]


NAMED_OIDS: Final = frozenset({24, 1033, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096})
"""Types whose values are written with names of the catalogue, e.g. `regclass` and `aclitem`."""
VALUES_CHANGED: Final = by_run("the catalogue by which its values are written was changed")
SILENT: Final = frozenset(
    {
        "pg_statistic",
        "pg_statistic_ext_data",
        "pg_largeobject",
        "pg_largeobject_metadata",
        "pg_database",
        "pg_depend",
        "pg_shdepend",
        "pg_description",
        "pg_init_privs",
    }
)
"""Tables of the catalogue by which no value of a row is written."""


class Delta:
    """The reportable changes of each table between the first and the last moment of a run.

    `commits` are all there were; `catalogues` names the files of the catalogue's own tables.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        first: Look,
        last: Look,
        commits: tuple[Commit, ...],
        catalogues: Mapping[File, str],
    ) -> None:
        self.catalogue = catalogue
        self.first = first
        self.last = last
        self.commits = commits
        self.catalogues = catalogues
        self._queries: dict[str, TableQuery] = {}

    def touched(self, commit: Commit) -> frozenset[str]:
        """The tables of the catalogue that the commit wrote."""
        return frozenset(self.catalogues[f] for f in commit.touched if f in self.catalogues)

    def query(self, entity_type: EntityType) -> TableQuery:
        """How its rows are read; the type is as it is after the run."""
        name = entity_type.name
        if name not in self._queries:
            entry = self.catalogue.tables[entity_type.source_table]
            self._queries[name] = TableQuery(entity_type, entry)
        return self._queries[name]

    def doubt(self, entity_type: EntityType, like: Table | None) -> str | None:
        """Why no delta establishes the table; None if one does."""
        name = entity_type.source_table
        now, then = self.last.definitions.get(name), self.first.definitions.get(name)
        if like is None:
            return by_run("the table is new")
        if not like.enumeration.is_complete:
            return "it was not read whole before the run"
        if now is None or then is None or name not in self.catalogue.tables:
            return by_run("the table was made or dropped in it")
        if now.is_unlogged or then.is_unlogged:
            return "it is unlogged: no log tells of its rows"
        if now.kind == "f":
            return "it is a foreign table"
        if now.oid != then.oid:
            return by_run("another table has its name now")
        if now.files != then.files:
            return by_run("it was rewritten, truncated or cut into other partitions")
        if now != then or like.type.fields != entity_type.fields:
            return by_run("its columns or its key are others now")
        if self.query(entity_type).relation.runs_functions:
            return RUNS_FUNCTIONS
        changed = frozenset().union(*map(self.touched, self.commits)) - SILENT
        if changed and self.needs_catalogue(entity_type):
            return VALUES_CHANGED
        return None

    def needs_catalogue(self, entity_type: EntityType) -> bool:
        """True if values of its rows are written with what the catalogue says."""
        columns = self.catalogue.tables[entity_type.source_table].columns
        return any(c.type.is_own or c.type.oid in NAMED_OIDS for c in columns)

    def pages(self, definition: Definition, commits: Iterable[Commit]) -> set[tuple[int, int]]:
        """(table or partition, page) of every page of the table that the commits touched."""
        return {
            (oid, page)
            for commit in commits
            for oid, file in definition.files
            for page in commit.touched.get((False, file), ())
        }

    def table(
        self,
        entity_type: EntityType,
        base: Table,
        start: Look,
        end: Look,
        commits: Iterable[Commit],
    ) -> Table | str:
        """The table at `end`, if it was `base` at `start`; or why that cannot be known."""
        pages = self.pages(self.last.definitions[entity_type.source_table], commits)
        if not pages:
            return base
        query = self.query(base.type)
        try:
            then, now = lines((start, end), query, pages)
            # Most rows of a touched page are as they were: only the others are taken apart.
            return patched(base, then.rows_beside(now, query), now.rows_beside(then, query))
        except ValueError as error:
            return f"its delta does not fit the state before: {error}"
        except UnicodeDecodeError:
            return "a value is not UTF-8"
        except psycopg.Error as error:
            if start.connection.broken or end.connection.broken:
                raise
            return cause_of(error)


PAGES_AT_ONCE: Final = 2048
_SEGMENT_PAGES: Final = 131_072
"""Of one file; the following ones are numbered."""
_PATHS: Final = """
SELECT c.oid::int8, pg_relation_filepath(c.oid), pg_relation_size(c.oid, 'main')
FROM pg_class c WHERE c.oid = ANY(%s::oid[]) AND pg_relation_filepath(c.oid) IS NOT NULL
"""
_HEADERS: Final = """
SELECT string_agg(substring(f.content FROM p * %s::int + 1 FOR 8), ''::bytea ORDER BY p)
FROM (SELECT pg_read_binary_file(%s, %s::int8 * %s::int8, %s::int8 * %s::int8, false) AS content) f,
  generate_series(0, octet_length(f.content) / %s::int - 1) p
"""


def check_pages(
    delta: Delta, entity_type: EntityType, admin: Connection, now: Connection, since: str
) -> None:
    """Every page of the table that holds other rows than before is one that some commit touched.

    Raises `SourceUnavailable` where one is not: what the log says of this run is not all.
    """
    definition = delta.last.definitions[entity_type.source_table]
    beyond = changed_pages(admin, now, (oid for oid, _ in definition.files), since)
    silent = beyond - delta.pages(definition, delta.commits)
    if not silent:
        return
    query = delta.query(entity_type)
    then, there = lines((delta.first, delta.last), query, silent)
    if then.found != there.found:
        name = printable(entity_type.name)
        raise SourceUnavailable(f"rows of {name} changed on pages that its log does not name")


def changed_pages(
    admin: Connection, now: Connection, tables: Iterable[int], since: str
) -> set[tuple[int, int]]:
    """(table or partition, page) of every page whose LSN is beyond `since`.

    `admin` is the server's owner, in any database; `now` is in the one that holds the tables.
    """
    admin.execute("CHECKPOINT")
    found = now.execute(_PATHS, (sorted(tables),)).fetchall()
    (told,) = admin.execute("SELECT current_setting('block_size')::int").fetchone() or (0,)
    start = _position(since)
    pages: set[tuple[int, int]] = set()
    for oid, path, size in found:
        for first in range(0, size // told, PAGES_AT_ONCE):
            segment, at = divmod(first, _SEGMENT_PAGES)
            name = f"{path}.{segment}" if segment else path
            count = min(PAGES_AT_ONCE, _SEGMENT_PAGES - at)
            (content,) = admin.execute(
                _HEADERS.encode(), (told, name, at, told, count, told, told)
            ).fetchone() or (None,)
            expected = min(count, size // told - first)
            if content is None or len(content) < 8 * expected:
                raise SourceUnavailable("a file of its tables is shorter than the server says")
            halves = np.frombuffer(content, np.dtype("<u4")).reshape(-1, 2).astype(np.uint64)
            positions = (halves[:, 0] << np.uint64(32)) | halves[:, 1]
            pages.update((oid, first + int(n)) for n in np.flatnonzero(positions > start))
    return pages


def _position(lsn: str) -> np.uint64:
    high, _, low = lsn.partition("/")
    return np.uint64((int(high, 16) << 32) + int(low, 16))
