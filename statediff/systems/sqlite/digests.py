"""Values that stay in a SQLite file, told by size and SHA-256: read in pieces, never held whole."""

from __future__ import annotations

import codecs
import hashlib
import sqlite3
from contextlib import closing
from functools import cached_property
from typing import Final

from statediff.model.values import Digested, Unobserved
from statediff.systems.relational.schema import quoted
from statediff.systems.sqlite.catalogue import TableEntry

_PIECE_BYTES: Final = 1024 * 1024
_ROW_IDS: Final = ("rowid", "_rowid_", "oid")


def size_of(column: str) -> str:
    """SQL: how many bytes a text or blob has; null for any other value."""
    return (
        f"CASE typeof({column}) WHEN 'blob' THEN length({column}) "
        f"WHEN 'text' THEN length(CAST({column} AS BLOB)) END"
    )


def kept(column: str, most: int) -> str:
    """SQL: the value, unless it has more than `most` bytes."""
    return f"CASE WHEN coalesce({size_of(column)}, 0) > {most} THEN NULL ELSE {column} END"


class Digests:
    """Over one connection, in its read transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @cached_property
    def _is_utf8(self) -> bool:
        (encoding,) = self._connection.execute("PRAGMA main.encoding").fetchone()
        return bool(encoding == "UTF-8")

    def row_id(self, entry: TableEntry) -> str | None:
        """A name by which the table tells its row ids; None where it has none, or all are taken."""
        for name in _ROW_IDS:
            if entry.column(name) is None:
                try:
                    self._connection.execute(
                        f"SELECT t.{name} FROM main.{quoted(entry.name)} AS t LIMIT 0"  # noqa: S608 - quoted
                    )
                except sqlite3.Error:
                    return None
                return name
        return None

    def of(
        self, table: str, column: str, row_id: int | None, stored_as: str, size: int
    ) -> Unobserved:
        """What is known of a text or blob of `size` bytes; its digest, wherever it can be read."""
        is_text = stored_as == "text"
        if row_id is not None and (self._is_utf8 or not is_text):
            try:
                return self._read(table, column, row_id, is_text, size)
            except sqlite3.Error:
                pass  # of a column that is not opened so, e.g. one that is computed
        return Unobserved(f"value of {size} bytes exceeds the capture limit")

    def _read(self, table: str, column: str, row_id: int, is_text: bool, size: int) -> Digested:
        hasher = hashlib.sha256()
        decoder = codecs.getincrementaldecoder("utf-8")()
        with closing(
            self._connection.blobopen(table, column, row_id, readonly=True, name="main")
        ) as stored:
            while piece := stored.read(_PIECE_BYTES):
                hasher.update(piece)
                try:
                    if is_text:
                        decoder.decode(piece)
                except UnicodeDecodeError:
                    is_text = False  # it is captured as its bytes, however long it is
        try:
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            is_text = False
        return Digested("text" if is_text else "bytes", size, hasher.hexdigest())
