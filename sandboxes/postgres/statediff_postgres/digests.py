"""Which chunks of a table are what they were, by a digest that the server makes of their rows.

1. Right after a table was read whole, in the same snapshot, the server is asked for the SHA-256 of
   the rows of each chunk: of all that the statement which read them delivers, in the binary form of
   the types' own `send` functions. That form is injective: each column has its type and its length,
   NULL has a length of its own, numerics keep their scale, floats their bits, arrays their bounds.
2. A later reading asks for the same of the key ranges of these chunks. Equal digests are equal rows
   (SHA-256 withstands an adversary), which read as the same chunk; other ranges are read.

What is remembered is a pair: these rows, read so, are that chunk. It holds for ever, whatever
happens to the database; what "so" depends on (the statement, the columns' types, the schema, the
server and its own functions, this module's form) is part of what it is remembered under.

Only what an agent cannot redefine takes part: functions and operators of `pg_catalog`, named so,
over types whose numbers are the server's own, and a key of whole numbers whose index is the primary
key's. `digestible` says where that is so; elsewhere, and wherever the server refuses, the table is
read whole. The order of rows within a chunk is no matter of trust: another order of the same rows
has another digest, and the chunk is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final
from weakref import WeakKeyDictionary

import psycopg

from statediff.model.state import ChunkStore, Table
from statediff_postgres.rows import TableQuery
from statediff_postgres.session import Connection

FORM: Final = 1
"""Raised by each change of what is digested."""
LEAST_CHUNKS: Final = 8
"""A smaller table is read at once."""
MOST_RUNS: Final = 64
"""Ranges of chunks that are read one by one; a table with more of them is read as a whole."""
DIGEST_SECONDS: Final = 100
_BUILT_IN: Final = """
SELECT pg_catalog.encode(pg_catalog.sha256(pg_catalog.string_agg(
  pg_catalog.convert_to(s.line, 'UTF8'), '\\x0a' ORDER BY s.line)), 'hex')
FROM (
  SELECT p.oid::text || ' ' || p.prolang || ' ' || p.prosrc || ' ' || coalesce(p.probin, '') AS line
  FROM pg_catalog.pg_proc p WHERE p.oid < 16384
  UNION ALL
  SELECT t.oid::text || ' ' || t.typsend::oid || ' ' || t.typoutput::oid
  FROM pg_catalog.pg_type t WHERE t.oid < 16384
  UNION ALL
  SELECT a.aggfnoid::oid::text || ' ' || a.aggtransfn::oid || ' ' || a.aggfinalfn::oid
  FROM pg_catalog.pg_aggregate a WHERE a.aggfnoid::oid < 16384
  UNION ALL
  SELECT o.oid::text || ' ' || o.oprname || ' ' || o.oprcode::oid
  FROM pg_catalog.pg_operator o WHERE o.oid < 16384
) s
"""
"""The functions that the server came with: only its superuser could have replaced one."""
_PLANNED: Final = (
    "enable_seqscan = off",
    "enable_bitmapscan = off",  # one pass by the index of the key
    f"statement_timeout = {DIGEST_SECONDS * 1000}",
)

_known: WeakKeyDictionary[ChunkStore, dict[tuple[str, str], bytes]] = WeakKeyDictionary()
"""Per chunk store: (how rows are read, chunk) → the digest of rows that read so."""


@dataclass(frozen=True)
class Digest:
    """The server's digest of the rows of one chunk, or of as many as were asked for."""

    rows: int
    sha256: bytes


@dataclass(frozen=True)
class Compared:
    """A table, and which of its chunks are no longer known to be what they were."""

    like: Table
    digests: tuple[Digest, ...]
    """One a chunk, of what lies between its cut points now."""
    changed: tuple[int, ...]
    """The places of the chunks that are to be read, ascending."""

    @cached_property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """The first and the last place of each run of neighbours among them."""
        found: list[tuple[int, int]] = []
        for at in self.changed:
            if found and found[-1][1] == at - 1:
                found[-1] = found[-1][0], at
            else:
                found.append((at, at))
        return tuple(found)

    @cached_property
    def _bounds(self) -> list[int]:
        """The places of the cut points that limit a changed chunk."""
        ends = {at + side for at in self.changed for side in (-1, 0)}
        return sorted(ends & set(range(len(self.like.partition))))

    @property
    def cut(self) -> Table:
        """How the rows of the changed chunks are to be cut."""
        return replace(self.like, partition=tuple(self.like.partition[at] for at in self._bounds))

    def joined(self, read: Table) -> Table:
        """The whole table: `read`, cut so, in the places of the changed chunks."""
        chunks = list(self.like.chunks)
        place = {bound: at for at, bound in enumerate(self._bounds)}
        for at in self.changed:
            chunks[at] = read.chunks[place.get(at, len(place))]
        return replace(read, chunks=tuple(chunks), partition=self.like.partition)


class Digests:
    """The digests that one reading, in one snapshot, asks the server of its tables' chunks."""

    def __init__(self, connection: Connection, store: ChunkStore) -> None:
        self._connection = connection
        self._store = store
        self._known = _known.setdefault(store, {})

    def compared(self, query: TableQuery, like: Table) -> Compared | None:
        """The part of `like` to be read anew; None where all of it is."""
        if not _is_worth_it(query, like) or like.store is not self._store:
            return None
        way = self._way(query)
        known = [self._known.get((way, ref.digest)) for ref in like.chunks]
        if 2 * known.count(None) > len(known):
            return None
        digests = self._of(query, like)
        if digests is None:
            return None
        changed = tuple(
            at
            for at, (one, other) in enumerate(zip(known, digests, strict=True))
            if one is None or one != other.sha256
        )
        compared = Compared(like, digests, changed)
        is_little = 2 * len(changed) <= len(known) and len(compared.runs) <= MOST_RUNS
        return compared if is_little else None

    def learn(
        self, query: TableQuery, table: Table, digests: tuple[Digest, ...] | None = None
    ) -> None:
        """A later reading need not read what was read in this snapshot."""
        if not _is_worth_it(query, table):
            return
        way = self._way(query)
        found = digests or self._of(query, table)
        if found is None:
            return
        for digest, ref in zip(found, table.chunks, strict=True):
            if digest.rows == ref.rows:  # else it is one of the first rows only
                self._known[way, ref.digest] = digest.sha256

    @cached_property
    def _server(self) -> str:
        """The server's release and its own functions."""
        (found,) = self._connection.execute(_BUILT_IN.encode()).fetchone() or ("",)
        return f"{self._connection.info.server_version} {found}"

    def _way(self, query: TableQuery) -> str:
        """All that decides what rows read as, and what their digest is."""
        way = (FORM, self._server, query.text, query.bulk.type, query.types)
        return hashlib.sha256(repr(way).encode()).hexdigest()

    def _of(self, query: TableQuery, table: Table) -> tuple[Digest, ...] | None:
        """One a chunk; None where the server refuses. Nothing that is set here stays."""
        connection = self._connection
        connection.execute("SAVEPOINT digests")
        try:
            connection.execute("; ".join(f"SET LOCAL {each}" for each in _PLANNED).encode())
            rows = connection.execute(_statement(query, table).encode()).fetchall()
        except psycopg.Error:
            if connection.broken:
                raise
            rows = []
        finally:
            if not connection.broken:
                connection.execute("ROLLBACK TO digests")
        found = {at: Digest(rows, sha256) for at, rows, sha256 in rows}
        if found.keys() != set(range(len(table.chunks))):
            return None
        return tuple(found[at] for at in range(len(table.chunks)))


def _is_worth_it(query: TableQuery, table: Table) -> bool:
    return query.is_digestible and len(table.chunks) >= LEAST_CHUNKS


def _statement(query: TableQuery, table: Table) -> str:
    """SQL: the place of each chunk, how many rows it has, and their digest."""
    cuts, most = table.partition, [ref.rows + 1 for ref in table.chunks]
    parts = range(len(query.key))
    columns = [*zip(*cuts[:-1], strict=True), *zip(*cuts[1:], strict=True)] or [()] * 2 * len(parts)
    arrays = ", ".join(_array(numbers) for numbers in (*columns, most[1:-1]))
    names = ", ".join([*(f"low{n}" for n in parts), *(f"high{n}" for n in parts)])
    low, high = ([f"r.{side}{n}" for n in parts] for side in ("low", "high"))
    first, last = ([f"'{part!r}'::pg_catalog.int8" for part in cuts[at]] for at in (0, -1))
    return f"""
SELECT 0, d.* FROM LATERAL ({_digest(query, None, first, str(most[0]))}) d
UNION ALL
SELECT r.at::pg_catalog.int4, d.* FROM unnest({arrays}) WITH ORDINALITY r({names}, most, at),
  LATERAL ({_digest(query, low, high, "r.most")}) d
UNION ALL
SELECT {len(cuts)}, d.* FROM LATERAL ({_digest(query, last, None, str(most[-1]))}) d
"""  # noqa: S608 - numbers, and names of this function


def _array(numbers: Sequence[object]) -> str:
    return f"'{{{','.join(map(str, numbers))}}}'::pg_catalog.int8[]"


def _digest(
    query: TableQuery, low: Sequence[str] | None, high: Sequence[str] | None, most: str
) -> str:
    """SQL: the number and the digest of the rows between two keys.

    One row more than the chunk had is enough to know that it is another: what an agent puts between
    two cut points does not fill the server's memory. Nor do wide values: they go row by row.
    """
    sent = f"pg_catalog.record_send(ROW({', '.join(query.columns)}))"
    if query.is_guarded:
        sent = f"pg_catalog.sha256({sent})"
    return f"""
SELECT pg_catalog.count(*), pg_catalog.sha256(
  coalesce(pg_catalog.string_agg(x.sent, ''::pg_catalog.bytea), ''::pg_catalog.bytea))
FROM (SELECT {sent} AS sent {query.between(low, high)} LIMIT {most}) x"""  # noqa: S608 - as above
