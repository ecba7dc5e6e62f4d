"""Which pages of PostgreSQL's tables changed since a position of the log, as the pages say it.

Every page begins with the position up to which the log tells of it (its LSN). A checkpoint puts all
pages on disk; then the server's owner reads the first eight bytes of each page of each file, which
costs little beside reading rows, and asks nothing of the log or of the database that is watched.

What it trusts: that whatever changes a row sets its page's LSN, as everything that is logged does.
Hint bits, freezing and vacuum may set it too: more pages then, never fewer. Unlogged tables say
nothing, and a file that was begun anew is another file: both are scanned (`postgres_delta`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from statediff.capture.source import SourceUnavailable
from statediff.model.schema import EntityType
from statediff.model.values import printable
from statediff.systems.postgres.delta import Delta
from statediff.systems.postgres.past import lines
from statediff.systems.postgres.session import Connection

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
