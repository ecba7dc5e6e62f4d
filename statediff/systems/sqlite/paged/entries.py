"""The entries of a row in the indexes of a table, and their order, as SQLite itself computes it.

The entries of a row are asked for in SQL, past every index: the columns and expressions of each
index and the condition of a partial one, evaluated by SQLite in the caller's read-only connection.
What cannot be asked so is `Uncertain`: the caller checks the whole file instead.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from statediff.systems.relational.schema import quoted
from statediff.systems.sqlite.definitions import Uncertain, folded, parts_of
from statediff.systems.sqlite.paged.btree import NULL, Tangled, Value, record

Entry = tuple[Value, ...]
_EXPRESSION: Final = -2
_ROW_ID_NAMES: Final = ("rowid", "_rowid_", "oid")
_DESCENDING_FORMAT: Final = 4
"""The form of the schema from which on SQLite sorts downwards where an index says so."""
_UTF8: Final = 1


@dataclass(frozen=True)
class Index:
    """An index, or the tree of a table without row ids."""

    root: int
    terms: tuple[str, ...]
    """SQL for each value of an entry."""
    order: tuple[tuple[str, bool], ...]
    """(collation, whether downwards) of each value that entries are sorted by."""
    unique: int
    """How many of the first values may not be twice; 0 for any."""
    condition: str | None = None
    """SQL: which rows have an entry; None for all."""
    are_row_ids = False

    @cached_property
    def _sortable(self) -> dict[bytes, Entry]:
        return {}

    def key(self, content: bytes) -> Entry:
        """The part of an entry that it is compared by. Raises `Tangled`."""
        found = self._sortable.get(content)
        if found is None:
            values = record(content)
            if len(values) != len(self.terms):
                raise Tangled("an entry has another number of values than its index")
            found = tuple(
                _collated(value, collation)
                for value, (collation, _) in zip(values, self.order, strict=False)
            )
            self._sortable[content] = found
        return found

    def precedes(self, one: bytes, other: bytes) -> bool:
        first, second = self.key(one), self.key(other)
        for at, (left, right) in enumerate(zip(first, second, strict=True)):
            if self.unique and at == self.unique and NULL not in first[:at]:
                return False  # the same key twice
            if left != right:
                return (left < right) is not self.order[at][1]
        return False

    def forget(self) -> None:
        """Nothing of a commit is kept."""
        self._sortable.clear()


def _collated(value: Value, collation: str) -> Value:
    kind, content = value
    if kind != 2 or not isinstance(content, bytes) or collation == "BINARY":
        return value
    if collation == "NOCASE" and b"\0" not in content:
        return kind, content.lower()
    if collation == "RTRIM":
        return kind, content.rstrip(b" ")
    raise Tangled(f"the order {collation} is not known here")


@dataclass(frozen=True)
class Plain:
    """How the records of a table with row ids are read: they hold all its columns, in order."""

    alias: int | None
    """Place of the column that is the row id: its records hold null there."""
    are_reals: tuple[bool, ...]
    """Which columns show the whole numbers they hold as reals."""
    places: tuple[tuple[int, tuple[int, ...]], ...] | None
    """(root, place of each value of its entries) of each index; -1 of the row id. None where an
    index computes or leaves out something."""

    def values(self, row_id: int, values: Entry) -> Entry:
        """The stored values of each column, of those of a record. Raises `Uncertain`."""
        if len(values) != len(self.are_reals):
            raise Uncertain("a row is shorter than its table")
        if self.alias is not None:
            return (*values[: self.alias], (1, row_id), *values[self.alias + 1 :])
        return values


@dataclass(frozen=True)
class TableIndexes:
    """A table with its indexes; `primary` is the tree of one without row ids."""

    name: str
    primary: Index | None
    indexes: tuple[Index, ...]
    columns: tuple[tuple[str, str, bool], ...]
    """(name, which kinds of values it may have, whether it is required) of each column."""
    row_id: str | None
    key_columns: tuple[tuple[int, str], ...] = ()
    """The key columns of a table without row ids: (place in its entries, column)."""
    key_index: str | None = None
    """The name by which SQLite knows the tree of a table without row ids."""
    hidden_by: str | None = None
    """Why entries cannot be asked for."""
    plain: Plain | None = None
    """How a row's record tells its entries; None where only SQLite can."""
    _queries: dict[str, str] = field(default_factory=dict, compare=False)

    def plain_entries(self, rows: Iterable[tuple[int, Entry]]) -> dict[int, Counter[Entry]]:
        """The same, for row ids with the values of their records, where the table is plain."""
        if self.plain is None or self.plain.places is None:
            raise Uncertain("only SQLite can tell its entries")
        found: dict[int, Counter[Entry]] = {index.root: Counter() for index in self.indexes}
        for row_id, stored in rows:
            values = self.plain.values(row_id, stored)
            for column, is_real, value in zip(
                self.columns, self.plain.are_reals, values, strict=True
            ):
                _check_stored(column, is_real, value)
            for root, places in self.plain.places:
                found[root][tuple((1, row_id) if at < 0 else values[at] for at in places)] += 1
        return found

    def entries(
        self, connection: sqlite3.Connection, rows: Iterable[Any]
    ) -> dict[int, Counter[Entry]]:
        """Root of each index → its entries for these rows: row ids, or whole entries of `primary`.

        Raises `Uncertain`, `Tangled` and `sqlite3.Error`.
        """
        if self.hidden_by is not None:
            raise Uncertain(self.hidden_by)
        found: dict[int, Counter[Entry]] = {index.root: Counter() for index in self.indexes}
        former, connection.text_factory = connection.text_factory, _as_text
        try:
            for row in rows:
                values = self._asked(connection, row)
                at = len(self.columns)
                for column, kind in zip(self.columns, values, strict=False):
                    _check_kind(column, kind)
                for index in self.indexes:
                    entry = tuple(map(_value, values[at : at + len(index.terms)]))
                    at += len(index.terms) + 1
                    if values[at - 1]:
                        found[index.root][entry] += 1
        finally:
            connection.text_factory = former
        return found

    def _asked(self, connection: sqlite3.Connection, row: Any) -> tuple[Any, ...]:
        if self.primary is None:
            where, values = f"{self.row_id} = ?", (row,)
        else:
            stored = record(row)
            key = [(column, stored[at]) for at, column in self.key_columns]
            where = " AND ".join(
                f"{column} = {'CAST(? AS TEXT)' if kind == 2 else '?'}" for column, (kind, _) in key
            )
            values = tuple(content for _, (_, content) in key)  # type: ignore[assignment]  # values of a record
        query = self._queries.get(where)
        if query is None:
            query = self._queries[where] = f"{self._selection} WHERE {where}"
        found = connection.execute(query, values).fetchall()
        if len(found) != 1:
            raise Uncertain(f"a row of {self.name} is not found by its key")
        return found[0]  # type: ignore[no-any-return]  # as SQLite gives it

    @cached_property
    def _selection(self) -> str:
        terms = [_kind_of(column) for column in self.columns]
        for index in self.indexes:
            terms += index.terms
            terms.append("1" if index.condition is None else f"(({index.condition}) IS TRUE)")
        path = "NOT INDEXED" if self.key_index is None else f"INDEXED BY {quoted(self.key_index)}"
        return f"SELECT {', '.join(terms) or '1'} FROM main.{quoted(self.name)} {path}"  # noqa: S608 - quoted


CATALOGUE: Final = TableIndexes(
    name="sqlite_schema",
    primary=None,
    indexes=(),
    columns=(
        *((quoted(name), "words", False) for name in ("type", "name", "tbl_name")),
        (quoted("rootpage"), "numeric", False),
        (quoted("sql"), "words", False),
    ),
    row_id="rowid",
    plain=Plain(None, (False,) * 5, ()),
)
"""The table of the catalogue."""

_LIKE_A_NUMBER: Final = re.compile(rb"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")


def _kind_of(column: tuple[str, str, bool]) -> str:
    name, allowed, _ = column
    if allowed == "numeric":  # a text in it may not look like a number
        return f"CASE typeof({name}) WHEN 'text' THEN {name} ELSE CAST(typeof({name}) AS BLOB) END"
    return f"CAST(typeof({name}) AS BLOB)"


def _check_kind(column: tuple[str, str, bool], told: Any) -> None:
    """Raises `Uncertain` where a value might be one that its column may not have."""
    if isinstance(told, tuple):
        is_fine = _LIKE_A_NUMBER.fullmatch(told[1]) is None
    else:
        is_fine = _is_allowed(column, bytes(told).decode())
    if not is_fine:
        raise Uncertain(f"a value of {column[0]} may be of a wrong kind")


def _is_allowed(column: tuple[str, str, bool], kind: str) -> bool:
    _, allowed, is_required = column
    if kind == "null":
        return not is_required
    if allowed == "words":
        return kind not in ("integer", "real")
    return allowed in ("numeric", "any", kind)


def _check_stored(column: tuple[str, str, bool], is_real: bool, value: Value) -> None:
    """The same, of a value as it is stored."""
    kind, content = value
    if kind == 2 and column[1] == "numeric":
        _check_kind(column, value)
        return
    is_float = kind == 1 and (is_real or isinstance(content, float))
    if not _is_allowed(column, "real" if is_float else _KINDS[kind]):
        raise Uncertain(f"a value of {column[0]} may be of a wrong kind")


_KINDS: Final = ("null", "integer", "text", "blob")


def _as_text(content: bytes) -> tuple[int, bytes]:
    return 2, content


def _value(told: Any) -> Value:
    if told is None:
        return NULL
    if isinstance(told, tuple):
        return told
    return (3 if isinstance(told, bytes) else 1, told)


# How a database describes its indexes


def read_indexes(
    connection: sqlite3.Connection, header: bytes, roots: Mapping[str, int]
) -> dict[str, TableIndexes]:
    """Each table by its name, with its indexes. `roots` has the root of each name.

    `header` is that of the file. What is not as SQLite describes it is `hidden_by` its cause.
    """
    listed = connection.execute("PRAGMA main.table_list").fetchall()
    found: dict[str, TableIndexes] = {}
    for _schema, name, kind, _columns, is_without, is_strict, *_ in listed:
        if isinstance(name, str) and name in roots and kind in ("table", "shadow"):
            try:
                found[name] = _table(connection, name, roots, bool(is_without), bool(is_strict))
                _check_known(header, found[name], kind)
            except Uncertain as error:
                root = roots[name]
                hollow = Index(root, (), (), 0) if is_without else None
                found[name] = TableIndexes(name, hollow, (), (), None, hidden_by=str(error))
    return found


def _check_known(header: bytes, table: TableIndexes, kind: str) -> None:
    if int.from_bytes(header[56:60], "big") != _UTF8:
        raise Uncertain("its texts are not UTF-8")
    trees = (*table.indexes, *([] if table.primary is None else [table.primary]))
    is_down = any(down for tree in trees for _, down in tree.order)
    if is_down and int.from_bytes(header[44:48], "big") < _DESCENDING_FORMAT:
        raise Uncertain("its format sorts no index downwards")
    if kind == "shadow" and sqlite3.sqlite_version_info >= (3, 44):
        raise Uncertain("its module has checks of its own")


def _table(
    connection: sqlite3.Connection,
    name: str,
    roots: Mapping[str, int],
    is_without: bool,
    is_strict: bool,
) -> TableIndexes:
    described = connection.execute(f"PRAGMA main.table_xinfo({quoted(name)})").fetchall()
    if not all(isinstance(row[1], str) and isinstance(row[2], str) for row in described):
        raise Uncertain("a name is not UTF-8")
    columns = tuple(
        (
            quoted(row[1]),
            _strict(row[2]) if is_strict else _allowed(row[2]),
            bool(row[3] or (is_without and row[5])),
        )
        for row in described
    )
    taken = {folded(row[1]) for row in described}
    row_id = next((each for each in _ROW_ID_NAMES if each not in taken), None)
    primary: Index | None = None
    keys: tuple[tuple[int, str], ...] = ()
    key_index: str | None = None
    has_key_index = False
    indexes: list[Index] = []
    for _, index, is_unique, origin, *_ in connection.execute(
        f"PRAGMA main.index_list({quoted(name)})"
    ).fetchall():
        if not isinstance(index, str):
            raise Uncertain("a name is not UTF-8")
        is_primary = is_without and origin == "pk"
        has_key_index |= origin == "pk"
        root = roots.get(name if is_primary else index)
        parts = connection.execute(f"PRAGMA main.index_xinfo({quoted(index)})").fetchall()
        if root is None or not parts:
            raise Uncertain("an index has no tree")
        one = _index(connection, index, root, parts, row_id, bool(is_unique), is_primary)
        if is_primary:
            primary, key_index = one, index
            keys = tuple((at, one.terms[at]) for at in range(one.unique))
        else:
            indexes.append(one)
    if (primary is None) is is_without or (row_id is None and not is_without):
        raise Uncertain("its rows have no name to be asked for by")
    plain = None if is_without else _plain(described, columns, indexes, row_id, has_key_index)
    return TableIndexes(
        name, primary, tuple(indexes), columns, row_id, keys, key_index, plain=plain
    )


def _plain(
    described: list[tuple[Any, ...]],
    columns: tuple[tuple[str, str, bool], ...],
    indexes: list[Index],
    row_id: str | None,
    has_key_index: bool,
) -> Plain | None:
    if any(row[6] for row in described):
        return None
    key = [at for at, row in enumerate(described) if row[5]]
    is_alias = len(key) == 1 and described[key[0]][2].upper() == "INTEGER" and not has_key_index
    at_of: dict[str | None, int] = {
        row_id: -1,
        **{name: at for at, (name, _, _) in enumerate(columns)},
    }
    is_simple = not any(index.condition for index in indexes) and all(
        term in at_of for index in indexes for term in index.terms
    )
    return Plain(
        key[0] if is_alias else None,
        tuple(is_real(row[2]) for row in described),
        tuple((index.root, tuple(at_of[term] for term in index.terms)) for index in indexes)
        if is_simple
        else None,
    )


def is_real(declared: str) -> bool:
    """True if a column of that type has the affinity of reals."""
    name = declared.upper()
    if any(word in name for word in ("INT", "CHAR", "CLOB", "TEXT", "BLOB")):
        return False
    return any(word in name for word in ("REAL", "FLOA", "DOUB"))


def _index(
    connection: sqlite3.Connection,
    name: str,
    root: int,
    parts: list[tuple[Any, ...]],
    row_id: str | None,
    is_unique: bool,
    is_primary: bool,
) -> Index:
    sql = connection.execute(
        "SELECT sql FROM main.sqlite_schema WHERE type = 'index' AND name = ?", (name,)
    ).fetchone()
    written: list[str] = []
    condition = None
    if sql is not None and isinstance(sql[0], str):
        written, condition = parts_of(sql[0])
    terms: list[str] = []
    for at, column, stored, *_ in parts:
        if column == _EXPRESSION:
            if at >= len(written):
                raise Uncertain("an expression of an index is not found")
            terms.append(f"({written[at]})")
        elif column >= 0 and isinstance(stored, str):
            terms.append(quoted(stored))
        elif row_id is not None:
            terms.append(row_id)
        else:
            raise Uncertain("its rows have no name to be asked for by")
    key = sum(1 for part in parts if part[5])
    sorted_by = parts[:key] if is_primary else parts
    order = tuple((str(part[4]).upper(), bool(part[3])) for part in sorted_by)
    return Index(root, tuple(terms), order, key if is_unique or is_primary else 0, condition)


def _allowed(declared: str) -> str:
    """Which values a check of the file wants in a column of that declared type."""
    name = declared.upper()
    if "INT" not in name and any(word in name for word in ("CHAR", "CLOB", "TEXT")):
        return "words"
    is_free = "INT" not in name and (not name or "BLOB" in name)
    return "any" if is_free else "numeric"


def _strict(declared: str) -> str:
    name = declared.upper()
    return {"INT": "integer", "ANY": "any"}.get(name, name.lower())


def all_trees(table: TableIndexes) -> Collection[Index]:
    """The indexes, and the table where it is one."""
    return table.indexes if table.primary is None else (table.primary, *table.indexes)
