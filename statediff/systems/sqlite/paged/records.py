"""Rows as a scan shows them, read from the records of a page: a few rows, without a statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from statediff.model.batches import Row
from statediff.model.schema import EntityType
from statediff.model.state import Table
from statediff.systems.relational.schema import is_key, quoted
from statediff.systems.sqlite.catalogue import ROW_IDS, Catalogue
from statediff.systems.sqlite.definitions import Uncertain, folded
from statediff.systems.sqlite.paged.btree import ReadPage, Value, record
from statediff.systems.sqlite.paged.entries import Plain, TableIndexes, is_real
from statediff.systems.sqlite.paged.preserved import Difference, Stored
from statediff.systems.sqlite.scan import Query, text_value
from statediff.systems.sqlite.searches import search_index

_FEW_ROWS: Final = 64
"""So many rows are read from their records however small the table is."""
MANY: Final = 4
"""The part of a file or table beyond which, and beyond a few changes, it is read whole."""
_ROW_ID: Final = -1
_MOST_BYTES: Final = 64 * 1024
"""The most bytes of a row that is read from its record."""


def are_few(difference: Difference, table: Table) -> bool:
    """True if so few rows of the table are others that it need not be read whole."""
    count = len(difference.gone) + len(difference.new)
    return count <= _FEW_ROWS or count <= table.row_count // MANY


def row_reader(each: EntityType, catalogue: Catalogue, table: TableIndexes) -> RowReader | None:
    """The reader of a type's rows from their records; None where a scan has to tell."""
    entry = catalogue.tables.get(folded(each.source_table))
    has_limits = any(f.digest_above_bytes is not None for f in each.fields)
    if entry is None or has_limits or search_index(catalogue, folded(each.source_table)):
        return None
    query = Query(each, entry, False, None)
    at_of = {folded(column.name): at for at, column in enumerate(entry.columns)}
    if table.plain is not None:
        are_reals = table.plain.are_reals
    elif table.primary is None or any(column.hidden for column in entry.columns):
        return None
    else:  # its rows are entries, with the columns of the key first
        terms = {quoted(column.name): folded(column.name) for column in entry.columns}
        order = [terms.get(term, "") for term in table.primary.terms]
        if set(order) != at_of.keys() or len(order) != len(at_of):
            return None
        are_reals = tuple(is_real(entry.columns[at_of[name]].declared) for name in order)
        at_of = {name: at for at, name in enumerate(order)}
    row_id = dict.fromkeys(ROW_IDS, _ROW_ID) if entry.has_row_ids else {}
    if len(at_of) != len(are_reals) or not {*each.key} <= {*query.names}:
        return None
    columns = (folded(each.by_name[name].source_column) for name in query.names)
    places = tuple((row_id | at_of)[column] for column in columns)
    return RowReader(query, table.plain, are_reals, places)


@dataclass(frozen=True)
class RowReader:
    """Rows of one type as a scan shows them, read from their records."""

    query: Query
    plain: Plain | None
    """None for a table without row ids, whose rows are the entries themselves."""
    are_reals: tuple[bool, ...]
    places: tuple[int, ...]
    """The place of each queried column in a record; `_ROW_ID` of the row id."""

    def rows(self, stored: Mapping[Any, Stored | None], read: ReadPage, usable: int) -> list[Row]:
        """The rows. Raises `Uncertain` where only a scan can tell."""
        found: list[Row] = []
        for row_id, each in stored.items():
            values = self._values(row_id, each, read, usable)
            shown = [
                row_id if at == _ROW_ID else _shown(values[at], self.are_reals[at])
                for at in self.places
            ]
            row = self.query.row(shown, None)
            if not all(is_key(row[name]) for name in self.query.key):
                raise Uncertain("a key is none")
            found.append(row)
        return found

    def _values(
        self, row_id: Any, stored: Stored | None, read: ReadPage, usable: int
    ) -> tuple[Value, ...]:
        length = len(row_id) if stored is None else stored.length
        if length > _MOST_BYTES:
            raise Uncertain("a row is too long")
        if self.plain is not None and stored is not None:
            return self.plain.values(row_id, stored.values(read, usable))
        values = record(row_id)
        if self.plain is not None or len(values) != len(self.are_reals):
            raise Uncertain("a row is shorter than its table")
        return values


def _shown(value: Value, is_real: bool) -> Any:
    kind, content = value
    if kind == 2:
        return text_value(content)  # type: ignore[arg-type]  # a text's bytes
    if kind == 1:
        return float(content) if is_real else content
    return None if kind == 0 else content
