"""Search indexes of FTS5, shown by what they say, however they are kept.

An index is kept in segments, which depend on when its rows came and went. What it says is which
term is at which places of which rows. One that FTS5 finds sound is shown as a digest of that; any
other as it is stored (decision 34). An index of FTS3 or FTS4 cannot be asked where its terms are,
nor whether its searches find them: it is shown as it is stored.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import blake3

from statediff.model.batches import Row
from statediff.model.values import Map
from statediff.systems.relational.schema import quoted
from statediff.systems.sqlite.catalogue import Catalogue, kind_of
from statediff.systems.sqlite.definitions import Uncertain, arguments_of

MAX_INDEX_BYTES: Final = 1024 * 1024
"""A larger index is shown as it is stored: FTS5 takes about a second a MiB to say what is in it."""
_DEFINITION: Final = re.compile(
    r"""CREATE VIRTUAL TABLE\s+(?:\w+|"(?:[^"]|"")*"|'(?:[^']|'')*'|`[^`]*`|\[[^\]]*\])"""
    r"""\s+USING\s+fts5\s*\(.*""",
    re.IGNORECASE | re.DOTALL,
)
_OPTION: Final = re.compile(r"(\w+)\s*=\s*(.*)", re.DOTALL)
_COLUMN: Final = re.compile(
    r"""(?:\w+|"(?:[^"]|"")*"|'(?:[^']|'')*'|`[^`]*`|\[[^\]]*\])(?:\s+UNINDEXED)?""",
    re.IGNORECASE,
)
_OPTIONS: Final = frozenset({"content", "content_rowid", "tokenize", "columnsize", "detail"})
"""Those that add nothing else to the index; `prefix` does."""
_DETAILS: Final = frozenset({"full", "column", "none"})
_TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "data": ("id", "block"),
    "idx": ("segid", "term", "pgno"),
    "config": ("k", "v"),
}
"""The tables that an index is kept in, by the ends of their names, with their columns."""
_VERSION: Final = 4
"""The version of the form in which an index is kept; a later one may hold more."""
_AVERAGES: Final = 1
_SEGMENTS: Final = 10
"""The records of the table with the segments that count terms, and that name the segments."""


class _Unsound(Exception):
    """What is stored does not say one thing, or not in a way that is known here."""


class _Stored:
    """The tables of one index, of which no more than `MAX_INDEX_BYTES` are read in all."""

    def __init__(self, connection: sqlite3.Connection, catalogue: Catalogue, name: str) -> None:
        self._connection, self._tables, self._name = connection, catalogue.tables, name
        self._left = MAX_INDEX_BYTES

    def rows(self, part: str, rest: str = "", /, **kinds: str) -> list[Any]:
        """Rows of a table, past every index: of each column, which kinds of values it may have.

        None of a table that is not there. Raises `_Unsound` and `sqlite3.Error`.
        """
        entry, found = self._tables.get(f"{self._name}_{part}"), list[Any]()
        if entry is None:
            return found
        columns = ", ".join([*kinds, *(f"typeof({column})" for column in kinds)])
        text = f"SELECT {columns} FROM main.{quoted(entry.name)} NOT INDEXED {rest}"  # noqa: S608 - quoted
        for values in self._connection.execute(text):
            row, types = values[: len(kinds)], values[len(kinds) :]
            self._left -= sum(len(each) if isinstance(each, bytes | str) else 8 for each in row)
            if self._left < 0:
                raise _Unsound("it is too large")
            if any(one not in may.split() for one, may in zip(types, kinds.values(), strict=True)):
                raise _Unsound("a value is of another kind")
            found.append(row)
        return found


@dataclass(frozen=True)
class SearchIndex:
    """A search index, as its definition says it is kept.

    >>> SearchIndex.defined("found", ["title", "body UNINDEXED", "content='note'"])
    SearchIndex(name='found', columns=2, detail='full')
    >>> SearchIndex.defined("found", ["title", "prefix='2 3'"])
    """

    name: str
    """The folded name of its table; the tables it is kept in are called like it, and by what they
    hold."""
    columns: int
    detail: str

    @staticmethod
    def defined(name: str, arguments: Iterable[str]) -> SearchIndex | None:
        """The index that these arguments make; None where it may hold more than its terms."""
        columns, detail = 0, "full"
        for argument in arguments:
            option = _OPTION.fullmatch(argument)
            if option is None and _COLUMN.fullmatch(argument):
                columns += 1
            elif option is None or option[1].lower() not in _OPTIONS:
                return None
            elif option[1].lower() == "detail":
                detail = option[2].strip("'\"").lower()
        return SearchIndex(name, columns, detail) if columns and detail in _DETAILS else None

    @property
    def parts(self) -> frozenset[str]:
        """The folded names of the tables that are shown together, as what the index says."""
        return frozenset({f"{self.name}_data", f"{self.name}_idx"})

    def said(
        self, connection: sqlite3.Connection, catalogue: Catalogue
    ) -> dict[str, list[Row]] | None:
        """Rows, by column, for each table of `parts`; None where they are shown as stored.

        In the place of the record that names the segments is a digest of terms and places.
        """
        stored = _Stored(connection, catalogue, self.name)
        try:
            if stored.rows("config", "WHERE +k = 'version'", v="integer") != [(_VERSION,)]:
                return None
            data = stored.rows("data", "ORDER BY +id", id="integer", block="blob")
            idx = stored.rows("idx", segid="integer", term="blob", pgno="integer")
            content = _digest(self._places(data, idx))
        except (_Unsound, sqlite3.Error, OverflowError):
            return None
        shown: list[Row] = [{"id": at, "block": block} for at, block in data if at == _AVERAGES]
        shown.append({"id": _SEGMENTS, "block": content})
        return {f"{self.name}_data": shown, f"{self.name}_idx": []}

    def _places(self, data: Iterable[Any], idx: Iterable[Any]) -> Iterator[object]:
        """Every place of every term, as FTS5 itself tells it of these rows.

        It is asked in a database in memory, in which there is nothing else. Raises where it finds
        its index damaged, or finds a term otherwise when it is searched for.
        """
        names = ", ".join(f"c{at}" for at in range(self.columns))
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            db.text_factory = bytes
            db.execute(
                f"CREATE VIRTUAL TABLE f USING fts5({names}, content='', detail={self.detail})"
            )
            db.execute("DELETE FROM f_data")
            db.execute("DELETE FROM f_idx")
            db.executemany("INSERT INTO f_data VALUES (?, ?)", data)
            db.executemany("INSERT INTO f_idx VALUES (?, ?, ?)", idx)
            db.execute("INSERT INTO f (f) VALUES ('integrity-check')")
            db.execute("CREATE VIRTUAL TABLE said USING fts5vocab(f, instance)")
            told = db.execute("SELECT * FROM said").fetchall()
            for term, places in groupby(told, itemgetter(0)):
                own = list(places)
                found = db.execute("SELECT * FROM said WHERE term = CAST(? AS TEXT)", (term,))
                if found.fetchall() != own:
                    raise _Unsound("a term is found elsewhere when it is searched for")
                yield own


def search_index(catalogue: Catalogue, table: str) -> SearchIndex | None:
    """The search index that is kept in a table of this folded name, among others.

    None also where it is defined or kept otherwise than is known here: then it is any table.
    """
    name, _, part = table.rpartition("_")
    lines = catalogue.lines.get(name, ()) if part in _TABLES else ()
    if len(lines) != 1:
        return None
    kind, _, _, root, sql = lines[0]
    is_known = not root and kind_of(kind) == "table" and isinstance(sql, str)
    if not is_known or _DEFINITION.fullmatch(sql) is None or "--" in sql or "/*" in sql:
        return None
    for each, columns in _TABLES.items():
        entry = catalogue.tables.get(f"{name}_{each}")
        if entry is None or tuple(column.name for column in entry.columns) != columns:
            return None
    try:
        return SearchIndex.defined(name, arguments_of(sql))
    except Uncertain:
        return None


def _digest(content: Iterable[object]) -> Map:
    """The digest of all that an index says: no stored value is shown so."""
    digest = blake3.blake3()
    for each in content:
        digest.update(repr(each).encode())
    return Map.of({"blake3": digest.hexdigest()})
