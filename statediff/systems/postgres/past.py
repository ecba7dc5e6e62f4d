"""Moments of the past of a PostgreSQL database, seen by the server's own means.

A transaction of ours, open since a feed was attached, keeps every version of every row. Another one
may then take any snapshot since: the server reads it from a file in `pg_snapshots`, in the form in
which `pg_export_snapshot` would have written it. So what a table, or the catalogue, held after some
commit is asked in SQL, and read by the code that scans.

What does not follow a snapshot is the server's cache of its catalogue: functions such as
`pg_get_viewdef` always speak of now. `fingerprint` tells whether a catalogue's rows were others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from statediff.capture.source import SourceUnavailable
from statediff.model.batches import Row
from statediff.systems.postgres.copy import Copied, cells
from statediff.systems.postgres.queries import CLASS, FIRST_OWN, OWN_REL, REL
from statediff.systems.postgres.rows import TableQuery, is_key
from statediff.systems.postgres.session import Connection
from statediff.systems.postgres.wal import Snapshot

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
_HIDDEN_SCHEMAS: Final = "(SELECT n.oid FROM pg_namespace n WHERE n.nspname ~ '^pg_(toast|temp)')"
_HIDDEN: Final = f"(SELECT r.oid FROM pg_class r WHERE r.relnamespace IN {_HIDDEN_SCHEMAS})"  # noqa: S608 - as above
_SHOWN_SCHEMA: Final = "WHERE c.nspname !~ '^pg_(toast|temp)'"
_COUNTED: Final = (
    "relpages,reltuples,relallvisible,relfrozenxid,relminmxid,relfilenode,reltoastrelid,"
    "relhasindex,relhastriggers,relacl"
)


def _own(number: str, left_out: str, condition: str = "") -> tuple[str, str]:
    """Rows of objects that the server did not come with."""
    left = f"to_jsonb(c) - '{{{left_out}}}'::text[]" if left_out else "c"
    return left, f"WHERE c.{number} >= {FIRST_OWN} {condition}"


_ROWS: Final = {
    "pg_class": _own("oid", _COUNTED, f"AND c.relnamespace NOT IN {_HIDDEN_SCHEMAS}"),
    "pg_attribute": _own("attrelid", "attacl", f"AND c.attrelid NOT IN {_HIDDEN}"),
    "pg_attrdef": _own("adrelid", "", f"AND c.adrelid NOT IN {_HIDDEN}"),
    "pg_index": _own("indexrelid", "", f"AND c.indexrelid NOT IN {_HIDDEN}"),
    "pg_type": _own("oid", "typacl", f"AND c.typnamespace NOT IN {_HIDDEN_SCHEMAS}"),
    "pg_proc": _own("oid", "proacl"),
    "pg_constraint": _own("oid", "", f"AND c.connamespace NOT IN {_HIDDEN_SCHEMAS}"),
    "pg_namespace": ("(c.oid, c.nspname, c.nspowner)", _SHOWN_SCHEMA),
    "pg_depend": (
        "c",
        """WHERE c.classid = 'pg_class'::regclass AND c.deptype IN ('a', 'i')
           AND c.refobjsubid > 0 AND c.objid IN (SELECT s.seqrelid FROM pg_sequence s)""",
    ),
}
"""What a listing may rest on: no counts that the server keeps, no privileges (they are listed for
themselves), nothing that is hidden from listings."""
_NAMES: Final = {
    "pg_authid": ("(c.oid, c.rolname)", ""),
    "pg_proc": ("(c.oid, c.proname, c.pronamespace, c.proargtypes)", ""),
    "pg_type": (
        "(c.oid, c.typname, c.typnamespace)",
        f"WHERE c.typnamespace NOT IN {_HIDDEN_SCHEMAS}",
    ),
    "pg_namespace": ("(c.oid, c.nspname)", _SHOWN_SCHEMA),
}


@dataclass(frozen=True)
class Definition:
    """What a table was at some moment: equal definitions are one table in one set of files."""

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
        listed = self._listed[0]
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
        """Where the sequences lie."""
        return frozenset(row[0] for row in self._listed[1])

    @cached_property
    def _listed(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """What there is of tables and of sequences; asked at once."""
        with self.connection.pipeline():
            tables = self.connection.execute(_DEFINITIONS.encode())
            sequences = self.connection.execute(_SEQUENCE_FILES.encode())
        return tables.fetchall(), sequences.fetchall()

    def fingerprint(self, catalogue: str, *, names_only: bool = False) -> str:
        """A digest of the rows that one table of the catalogue held at that moment.

        With `names_only`, of what the server's functions need to name its objects.
        """
        asked = _NAMES[catalogue] if names_only else _ROWS.get(catalogue, ("c::text", ""))
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
        for known in ("_listed", "definitions", "sequence_files"):
            self.__dict__.pop(known, None)
        self._fingerprints.clear()
        if len(seen.pending) > MAX_PENDING:
            raise SourceUnavailable(
                f"more than {MAX_PENDING} transactions were under way, or given up, at one moment"
            )
        lines = [
            f"vxid:{held.transaction}", f"pid:{held.process}", f"dbid:{held.database}", "iso:2",
            "ro:0", f"xmin:{min((*seen.pending, seen.top))}", f"xmax:{seen.top}", "xcnt:0",
            "sof:0", f"sxcnt:{len(seen.pending)}", *(f"sxp:{x}" for x in sorted(seen.pending)),
            "rec:0",
        ]  # fmt: skip
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
        """What is here and not there. Raises `ValueError` for a row without a key."""
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
