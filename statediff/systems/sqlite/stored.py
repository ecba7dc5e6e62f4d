"""The meaning of SQLite's stored values: decimals, definitions, forms of instants, R-tree nodes.

A column declared DECIMAL or NUMERIC has NUMERIC affinity: SQLite keeps 98.70 as the double nearest
to it, and 100.00 as an integer. What people wrote is the shortest decimal that names this double,
and no two doubles share it, so that nothing is lost; the declared scale pads it with zeros. A
difference below the double's resolution was never stored. Columns of other affinities keep the
double, which is what their type says.

SQLite leaves bytes in such a column as they are. Programs that bind a decimal as the ASCII bytes of
its digits, as Python's are advised to, keep it exactly: it is read as that decimal where the column
has such bytes before the run. Elsewhere bytes are no number for who reads the column.

A table that is renamed gets quotes around its name, in its own definition and in others, and keeps
them when it is called as before. A definition that differs in nothing else is the one from before.

SQLite has no type for instants. A form that the state schema states is taken. Else it is found in
the state before, from the first texts of each column: where they are of several forms, the column
holds texts. A column without a text is written as the others of the database are, if these agree,
else as SQLite itself writes. A run changes none of this: what it writes in another form is a text.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from statediff.model.batches import Row
from statediff.model.instants import NO_FORM, form_of_texts, has_offset
from statediff.model.schema import INSTANTS, EntityType, Field, Kind, Schema
from statediff.model.state import Table
from statediff.model.values import Key
from statediff.systems.base.rows import Convert, converter
from statediff.systems.relational.meaning import means_the_same, pieces
from statediff.systems.relational.schema import quoted
from statediff.systems.sqlite.catalogue import DECIMALS, Catalogue, TableEntry
from statediff.systems.sqlite.definitions import folded

_DECLARED: Final = re.compile(r"\s*(\w+)\s*(?:\(\s*\d+\s*(?:,\s*(\d{1,2})\s*)?\))?\s*")
_DOUBLES: Final = re.compile("REAL|FLOA|DOUB", re.IGNORECASE)
_WRITTEN: Final = re.compile(rb"-?[0-9]{1,40}(\.[0-9]{1,40})?")
_MAX_PADDED: Final = 40
"""Digits before the point; a longer number is no amount, and is not padded."""
SAMPLED: Final = 1000
"""Texts of a column that are looked at. A text beyond them that is of another form stays one."""
_LONGEST: Final = 64
DIGITS: Final = "digits"
"""The form of a decimal that is kept as the bytes of its digits."""
_OWN_LOCAL: Final = "YYYY-MM-DD hh:mm:ss[.ffffff]"
_OWN_INSTANT: Final = "YYYY-MM-DD hh:mm:ss[.ffffff]+00:00"


def column_reader(field: Field, declared: str) -> Convert | None:
    """How a stored value of this field is read, or None when it is taken as it is."""
    scale = decimal_scale(declared)
    if scale is None and _DOUBLES.search(declared):
        scale = 0  # who states that such a column holds decimals means those that people wrote
    if scale is not None and field.kind is Kind.DECIMAL:
        are_digits = field.form == DIGITS
        return lambda stored: written_decimal(stored, scale, are_digits=are_digits)
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


def written_decimal(stored: Any, scale: int, *, are_digits: bool = False) -> Any:
    """The decimal that a stored number stands for, with at least `scale` digits after the point.

    >>> written_decimal(98.7, 2), written_decimal(100, 2), written_decimal(0.125, 2)
    (Decimal('98.70'), Decimal('100.00'), Decimal('0.125'))
    >>> [written_decimal(each, 2, are_digits=True) for each in (b"1850", b"5.4000", b"n/a")]
    [Decimal('1850.00'), Decimal('5.4000'), b'n/a']
    """
    if type(stored) is float and math.isfinite(stored):
        exact = Decimal(repr(stored))
    elif type(stored) is int:
        exact = Decimal(stored)
    elif are_digits and type(stored) is bytes and _WRITTEN.fullmatch(stored):
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


_PLAIN_NAME: Final = re.compile(r'"([A-Za-z_][A-Za-z0-9_]*)"')
_BEFORE_A_TABLE: Final = frozenset(
    {"EXISTS", "FROM", "INTO", "JOIN", "REFERENCES", "TABLE", "UPDATE"}
)
"""Words that a name of a table follows, and no expression, in which `"x"` may be a text."""
_MADE_ON: Final = frozenset({"INDEX", "TRIGGER"})
_KINDS: Final = frozenset({"INDEX", "TABLE", "TRIGGER", "VIEW"})


def as_before(rows: Iterable[Row], before: Table | None) -> list[Row]:
    """The schema objects; what is only spelled in another way is as before."""
    if before is None or before.type.key not in (("name",), ("table", "name")):
        return list(rows)
    earlier = dict(before.rows())
    if before.type.name == "db.constraint":
        return _constraints(list(rows), earlier)
    found: list[Row] = []
    for row in rows:
        known = earlier.get(tuple(str(row[name]) for name in before.type.key))
        spelled = {} if known is None else dict(_spelled(row, known))
        found.append({**row, **spelled} if spelled else row)
    return found


def _constraints(rows: list[Row], earlier: Mapping[Key, Row]) -> list[Row]:
    """Constraints by the words that they had before, where new ones mean the same."""
    keys = {(str(row["table"]), str(row["name"])) for row in rows}
    gone = [(str(r["table"]), str(r["name"])) for k, r in earlier.items() if k not in keys]
    found = []
    for row in rows:
        table, name = str(row["table"]), str(row["name"])
        same = None
        if (table, name) not in earlier:
            alike = (
                each
                for each in gone
                if each[0] == table and each[1].split()[0] == name.split(maxsplit=1)[0]
                if means_the_same(f"SELECT {_asked(each[1])}", f"SELECT {_asked(name)}", "sqlite")
            )
            same = next(alike, None)
        if same is not None:
            gone.remove(same)
        found.append(row if same is None else {**row, "name": same[1]})
    return found


def _asked(name: str) -> str:
    """The expression of a check, or of a generated column with that column."""
    return name.partition(" ")[2] if name.startswith("check ") else name.replace(" ", "_", 1)


def _spelled(row: Row, known: Row) -> Iterator[tuple[str, Any]]:
    """The values of the row that are as before but for their spelling."""
    for name in ("definition", "declared_type"):
        new, old = row.get(name), known.get(name)
        if not isinstance(new, str) or not isinstance(old, str) or new == old:
            continue
        if name == "declared_type":
            is_alike = new.upper() == old.upper()
        else:
            is_alike = unquoted(old) == unquoted(new) or means_the_same(old, new, "sqlite")
        if is_alike:
            yield name, old


def unquoted(definition: str) -> str:
    """The definition without quotes where a plain name can only be that of a table.

    >>> unquoted('CREATE VIEW v AS SELECT "t"."a", "b" FROM "t" WHERE a IS DISTINCT FROM "b"')
    'CREATE VIEW v AS SELECT t."a", "b" FROM t WHERE a IS DISTINCT FROM "b"'
    """
    return "".join(_unquoted([*pieces(definition)]))


def _unquoted(pieces: list[str]) -> Iterator[str]:
    kind, words = "", ["", ""]
    for piece, after in zip(pieces, [*pieces[1:], ""], strict=True):
        name = _PLAIN_NAME.fullmatch(piece)
        follows = words[-1] in _BEFORE_A_TABLE and words[-2:] != ["DISTINCT", "FROM"]
        # Of an index and a trigger the first ON names the table; any other begins a condition.
        follows |= words[-1] == "ON" and kind in _MADE_ON and words.count("ON") == 1
        yield name[1] if name and (follows or after == ".") else piece
        if not piece.isspace():
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


def with_forms(
    schema: Schema, catalogue: Catalogue, connection: sqlite3.Connection | None
) -> Schema:
    """The schema whose instants all have a form; without a connection none is looked for."""
    found: dict[tuple[str, str], str] = {}
    if connection is not None:
        for entity_type in schema.types:
            entry = catalogue.tables.get(folded(entity_type.source_table))
            if entry is not None and entry.unreadable is None:
                found.update(_forms(connection, entity_type, entry))
    written = {f.form for t in schema.types for f in t.fields if f.kind in INSTANTS and f.form}
    known = (written | set(found.values())) - {NO_FORM, DIGITS}
    others = known.pop() if len(known) == 1 else None
    stated = replace(schema, types=tuple(_stated(t, found, others) for t in schema.types))
    return stated if connection is None else _with_digits(stated, catalogue, connection)


def _with_digits(schema: Schema, catalogue: Catalogue, connection: sqlite3.Connection) -> Schema:
    """The schema that says which decimals are kept as digits; unknown ones are if any other is."""
    found: dict[tuple[str, str], bool | None] = {}
    for entity_type in schema.types:
        entry = catalogue.tables.get(folded(entity_type.source_table))
        if entry is not None and entry.unreadable is None:
            for field in entity_type.fields:
                column = entry.column(field.source_column)
                if field.kind is Kind.DECIMAL and column is not None and column.is_stored:
                    kinds = _kinds_stored(connection, entry, column.name)
                    found[entity_type.name, field.name] = "blob" in kinds if kinds else None
    if not any(found.values()):
        return schema

    def stated(entity_type: EntityType) -> EntityType:
        fields = (
            f if found.get((entity_type.name, f.name), False) is False else replace(f, form=DIGITS)
            for f in entity_type.fields
        )
        return replace(entity_type, fields=tuple(fields))

    return replace(schema, types=tuple(map(stated, schema.types)))


def _kinds_stored(connection: sqlite3.Connection, entry: TableEntry, column: str) -> set[str]:
    """How the first values of a column are stored; nothing where none can be read."""
    value = f"t.{quoted(column)}"
    try:
        found = connection.execute(
            f"SELECT DISTINCT typeof(v) FROM (SELECT {value} AS v FROM main.{quoted(entry.name)} "  # noqa: S608 - quoted
            f"AS t NOT INDEXED WHERE {value} IS NOT NULL LIMIT {SAMPLED})"
        ).fetchall()
    except sqlite3.Error:
        return set()  # reading will meet the same error and give it as the cause
    return {kind for (kind,) in found}


def _open(entity_type: EntityType) -> list[Field]:
    """The fields whose form nobody stated. Keys and references are kept as they are."""
    return [
        f
        for f in entity_type.fields
        if f.kind in INSTANTS
        and f.form is None
        and f.reference is None
        and f.name not in entity_type.key
    ]


def _forms(
    connection: sqlite3.Connection, entity_type: EntityType, entry: TableEntry
) -> Mapping[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for field in _open(entity_type):
        column = entry.column(field.source_column)
        if column is None or not column.is_stored:
            continue
        value = f"t.{quoted(column.name)}"
        try:
            texts = connection.execute(
                f"SELECT substr({value}, 1, {_LONGEST}) FROM main.{quoted(entry.name)} AS t "  # noqa: S608 - quoted
                f"NOT INDEXED WHERE typeof({value}) = 'text' LIMIT {SAMPLED}"
            ).fetchall()
        except sqlite3.Error:
            continue  # reading will meet the same error and give it as the cause
        if texts:
            found[entity_type.name, field.name] = form_of_texts(
                text for (text,) in texts if isinstance(text, str)
            )
    return found


def _stated(
    entity_type: EntityType, found: Mapping[tuple[str, str], str], others: str | None
) -> EntityType:
    names = {f.name for f in _open(entity_type)}
    if not names:
        return entity_type
    fields = tuple(
        _written(f, found.get((entity_type.name, f.name)) or others or _own(f))
        if f.name in names
        else f
        for f in entity_type.fields
    )
    return replace(entity_type, fields=fields)


def _written(field: Field, form: str) -> Field:
    is_instant = field.kind is Kind.LOCAL_TIMESTAMP and has_offset(form)
    return replace(field, form=form, kind=Kind.TIMESTAMP if is_instant else field.kind)


def _own(field: Field) -> str:
    has_zone = field.kind is Kind.LOCAL_TIMESTAMP or field.zone is not None
    return _OWN_LOCAL if has_zone else _OWN_INSTANT
