"""What stored values of SQLite mean: decimals, definitions, nodes of R-trees, search indexes.

A column declared DECIMAL or NUMERIC has NUMERIC affinity: SQLite keeps 98.70 as the double nearest
to it, and 100.00 as an integer. What people wrote is the shortest decimal that names this double,
and no two doubles share it, so that nothing is lost; the declared scale pads it with zeros. A
difference below the double's resolution was never stored. Columns of other affinities keep the
double, which is what their type says.

SQLite leaves bytes in such a column as they are. Programs that bind a decimal as the ASCII bytes of
its digits, as Python's are advised to, keep it exactly: it is read as that decimal.

A table that is renamed gets quotes around its name, in its own definition and in others, and keeps
them when it is called as before. A definition that differs in nothing else is the one from before.

An index of FTS5 is kept in segments, which depend on when its rows came and went. What it says is
which term is at which places of which rows; decision 34 says how that is found out.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import blake3

from statediff.model.batches import Row
from statediff.model.schema import Field, Kind
from statediff.model.state import Table
from statediff.systems.base.rows import Convert, converter

DECIMALS: Final = frozenset({"DECIMAL", "DEC", "NUMERIC", "NUMBER", "MONEY"})
"""Declared types of NUMERIC affinity that mean decimal numbers."""
_DECLARED: Final = re.compile(r"\s*(\w+)\s*(?:\(\s*\d+\s*(?:,\s*(\d{1,2})\s*)?\))?\s*")
_DOUBLES: Final = re.compile("REAL|FLOA|DOUB", re.IGNORECASE)
_WRITTEN: Final = re.compile(rb"-?[0-9]{1,40}(\.[0-9]{1,40})?")
_MAX_PADDED: Final = 40
"""Digits before the point; a longer number is no amount, and is not padded."""


def column_reader(field: Field, declared: str) -> Convert | None:
    """How a stored value of this field is read, or None when it is taken as it is."""
    scale = decimal_scale(declared)
    if scale is None and _DOUBLES.search(declared):
        scale = 0  # who states that such a column holds decimals means those that people wrote
    if scale is not None and field.kind is Kind.DECIMAL:
        return lambda stored: written_decimal(stored, scale)
    return converter(field)


def decimal_scale(declared: str) -> int | None:
    """The digits after the point that a decimal column declares, 0 for none; None for others.

    >>> decimal_scale("decimal(12, 2)"), decimal_scale("NUMERIC"), decimal_scale("REAL")
    (2, 0, None)
    """
    found = _DECLARED.fullmatch(declared)
    if found is None or found[1].upper() not in DECIMALS:
        return None
    return int(found[2] or 0)


def written_decimal(stored: Any, scale: int) -> Any:
    """The decimal that a stored number stands for, with at least `scale` digits after the point.

    >>> written_decimal(98.7, 2), written_decimal(100, 2), written_decimal(0.125, 2)
    (Decimal('98.70'), Decimal('100.00'), Decimal('0.125'))
    >>> written_decimal(b"1850", 2), written_decimal(b"5.4000", 2), written_decimal(b"n/a", 2)
    (Decimal('1850.00'), Decimal('5.4000'), b'n/a')
    """
    if type(stored) is float and math.isfinite(stored):
        exact = Decimal(repr(stored))
    elif type(stored) is int:
        exact = Decimal(stored)
    elif type(stored) is bytes and _WRITTEN.fullmatch(stored):
        exact = Decimal(stored.decode())
    else:
        return stored  # null, text, bytes, and the infinities
    sign, digits, exponent = exact.as_tuple()
    if not isinstance(exponent, int) or exact.adjusted() > _MAX_PADDED:
        return exact
    padding = exponent + scale
    if padding <= 0:
        return exact
    return Decimal((sign, (*digits, *([0] * padding)), -scale))


_PIECE: Final = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|$)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|\w+|\s+|.""",
    re.DOTALL,
)
_PLAIN_NAME: Final = re.compile(r'"([A-Za-z_][A-Za-z0-9_]*)"')
_BEFORE_A_TABLE: Final = frozenset(
    {"EXISTS", "FROM", "INTO", "JOIN", "REFERENCES", "TABLE", "UPDATE"}
)
"""Words that a name of a table follows, and no expression, in which `"x"` may be a text."""
_MADE_ON: Final = frozenset({"INDEX", "TRIGGER"})
_KINDS: Final = frozenset({"INDEX", "TABLE", "TRIGGER", "VIEW"})


def as_before(rows: Iterable[Row], before: Table | None) -> list[Row]:
    """The schema objects; a definition with other quotes around names of tables is as before."""
    if before is None or before.type.key != ("name",):
        return list(rows)
    found: list[Row] = []
    for row in rows:
        new = row.get("definition")
        known = before.row((str(row["name"]),)) if _is_quoted(new) else None
        old = None if known is None else known.get("definition")
        is_alike = isinstance(new, str) and isinstance(old, str) and old != new
        is_alike = is_alike and unquoted(str(old)) == unquoted(str(new))
        found.append({**row, "definition": old} if is_alike else row)
    return found


def _is_quoted(definition: object) -> bool:
    return isinstance(definition, str) and '"' in definition


def unquoted(definition: str) -> str:
    """The definition without quotes where a plain name can only be that of a table.

    >>> unquoted('CREATE VIEW v AS SELECT "t"."a", "b" FROM "t" WHERE a IS DISTINCT FROM "b"')
    'CREATE VIEW v AS SELECT t."a", "b" FROM t WHERE a IS DISTINCT FROM "b"'
    """
    return "".join(_unquoted(_PIECE.findall(definition)))


def _unquoted(pieces: list[str]) -> Iterator[str]:
    kind, words = "", ["", ""]
    for piece, after in zip(pieces, [*pieces[1:], ""], strict=True):
        name = _PLAIN_NAME.fullmatch(piece)
        follows = words[-1] in _BEFORE_A_TABLE and words[-2:] != ["DISTINCT", "FROM"]
        # Of an index and a trigger the first ON names the table; any other begins a condition.
        follows |= words[-1] == "ON" and kind in _MADE_ON and words.count("ON") == 1
        yield name[1] if name and (follows or after == ".") else piece
        if not piece.isspace() and not piece.startswith(("--", "/*")):
            words.append(piece.upper())
            kind = kind or (words[-1] if words[-1] in _KINDS else "")


def tree_node(stored: Any, cell_bytes: int) -> Any:
    """The node of an R-tree; what is left behind its last cell, which nothing reads, is zero.

    >>> tree_node(bytes.fromhex("0000 0001 01020304 99"), 4).hex()
    '000000010102030400'
    """
    if type(stored) is not bytes:
        return stored
    end = 4 + int.from_bytes(stored[2:4], "big") * cell_bytes
    return stored[:end] + bytes(max(0, len(stored) - end))


@dataclass(frozen=True)
class SearchIndex:
    """An index of FTS5, as its definition says it is kept."""

    name: str
    """The folded name of its table; its parts are called like it, and by what they hold."""
    columns: int
    detail: str

    @property
    def data(self) -> str:
        """The part with its segments."""
        return f"{self.name}_data"

    @property
    def idx(self) -> str:
        """The part that says on which page of a segment a term is."""
        return f"{self.name}_idx"


INDEX_VERSION: Final = 4
"""Of the form in which an index is kept; a later one may hold more."""
AVERAGES: Final = 1
SEGMENTS: Final = 10
"""The records of the part with the segments that count terms, and that name the segments."""
MAX_INDEX_BYTES: Final = 1024 * 1024
"""A larger index is shown as it is stored: to find out what it says takes about a second a MiB."""
_COLUMN: Final = re.compile(
    r"""\s*(?:\w+|"(?:[^"]|"")*"|'(?:[^']|'')*'|`[^`]*`|\[[^\]]*\])(?:\s+UNINDEXED)?\s*""",
    re.IGNORECASE,
)
_OPTION: Final = re.compile(r"\s*(\w+)\s*=\s*(.*?)\s*", re.DOTALL)
_OPTIONS: Final = frozenset({"content", "content_rowid", "tokenize", "columnsize", "detail"})
"""Those that add nothing else to the index; `prefix` does."""
_DETAILS: Final = frozenset({"full", "column", "none"})


def search_index_of(name: str, arguments: Iterable[str]) -> SearchIndex | None:
    """The index that these arguments of FTS5 make; None where it may hold more than its terms.

    >>> search_index_of("found", ["title", " body UNINDEXED", " content='note'"])
    SearchIndex(name='found', columns=2, detail='full')
    >>> search_index_of("found", ["title", "prefix='2 3'"])
    """
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


def index_content(
    index: SearchIndex, data: Iterable[tuple[int, bytes]], idx: Iterable[tuple[int, bytes, int]]
) -> bytes | None:
    """A digest of every place of every term, as FTS5 itself tells it of these rows.

    None where it finds its index damaged, or finds a term otherwise when it is searched for. It is
    asked in a database in memory, in which there is nothing else.
    """
    names = ", ".join(f"c{at}" for at in range(index.columns))
    digest = blake3.blake3()
    try:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            db.text_factory = bytes
            db.execute(
                f"CREATE VIRTUAL TABLE f USING fts5({names}, content='', detail={index.detail})"
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
                    return None
                digest.update(repr(own).encode())
    except (sqlite3.Error, OverflowError):
        return None
    return digest.digest()
