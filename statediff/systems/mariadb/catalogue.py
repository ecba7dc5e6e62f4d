"""What a MariaDB database says of itself, as entity types and as rows of the `db.` types."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from statediff.model.batches import KEYLESS_KEY, Row
from statediff.model.schema import SCHEMA_OBJECT_PREFIXES, EntityType, Field, Kind, Schema
from statediff.model.values import printable
from statediff.systems.mariadb import objects
from statediff.systems.mariadb.session import Connection, fetched, quoted

OBJECT_TYPES: Final = tuple(listing.type for listing in objects.LISTINGS)
OBJECT_NAMES: Final = frozenset(t.name for t in OBJECT_TYPES)
_INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
_BYTES: Final = frozenset(
    {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit", "geometry",
     "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
     "geometrycollection"}
)  # fmt: skip
_KINDS: Final = {
    **dict.fromkeys(_INTEGERS, Kind.INT),
    **dict.fromkeys(_BYTES, Kind.BYTES),
    "decimal": Kind.DECIMAL, "float": Kind.FLOAT, "double": Kind.FLOAT, "date": Kind.DATE,
    "datetime": Kind.LOCAL_TIMESTAMP, "timestamp": Kind.TIMESTAMP,
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column as the catalogue declares it."""

    name: str
    data_type: str
    declared: str
    is_required: bool
    is_virtual: bool

    @property
    def kind(self) -> Kind:
        if self.declared == "tinyint(1)":
            return Kind.BOOL  # what BOOLEAN is written as; other numbers in it stay numbers
        return _KINDS.get(self.data_type, Kind.TEXT)


@dataclass(frozen=True)
class TableEntry:
    """A table of the catalogue. `unreadable` says why its rows may not be read."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    references: dict[str, tuple[str, str]]
    unreadable: str | None

    def column(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)


@dataclass(frozen=True)
class Catalogue:
    """Everything the catalogue told: `tables` by name, and the rows of each `db.` type."""

    tables: dict[str, TableEntry]
    objects: dict[str, list[Row]]


def read_catalogue(connection: Connection[Any], database: str) -> Catalogue:
    """The catalogue as it is now. Raises `pymysql.Error`."""
    columns: dict[str, list[Column]] = {}
    for table, name, data_type, declared, required, _, virtual in fetched(
        connection, objects.COLUMNS, database
    ):
        column = Column(name, data_type, declared, required == "1", virtual == "1")
        columns.setdefault(table, []).append(column)
    keys: dict[str, list[str]] = {}
    references: dict[str, dict[str, list[tuple[str, str, str]]]] = {}
    for table, column_name, schema, target, target_column, constraint in fetched(
        connection, objects.KEYS, database
    ):
        if constraint == "PRIMARY":
            keys.setdefault(table, []).append(column_name)
        elif schema == database:
            parts = references.setdefault(table, {}).setdefault(constraint, [])
            parts.append((column_name, target, target_column))
    tables = {
        name: TableEntry(
            name,
            tuple(columns.get(name, ())),
            tuple(keys.get(name, ())),
            {p[0][0]: p[0][1:] for p in references.get(name, {}).values() if len(p) == 1},
            None
            if engine == "InnoDB"
            else f"its engine, {printable(str(engine))}, has no snapshot",
        )
        for name, kind, engine in fetched(connection, objects.TABLES, database)
        if kind != "SEQUENCE"
    }
    listed = rows_of(connection, database, OBJECT_NAMES)
    for row in listed["db.column"]:
        key, name = keys.get(str(row["table"]), []), str(row["name"])
        row["key_position"] = key.index(name) + 1 if name in key else 0
        row["declared_type"] = _declared(str(row["declared_type"]))
    for name, kind, _ in fetched(connection, objects.TABLES, database):
        if kind == "SEQUENCE":
            place = f"{quoted(database)}.{quoted(name)}"
            ((value,),) = fetched(connection, f"SELECT next_not_cached_value FROM {place}")  # noqa: S608 - quoted
            listed["db.sequence"].append({"name": name, "value": int(value)})
    return Catalogue(tables, listed)


def rows_of(
    connection: Connection[Any], database: str, names: Collection[str]
) -> dict[str, list[Row]]:
    """The rows of these `db.` types, as the server lists them. Raises `pymysql.Error`."""
    return {
        listing.type.name: [
            {
                f.name: _plain(f.kind, value)
                for f, value in zip(listing.type.fields, row, strict=True)
            }
            for row in fetched(connection, listing.query, database)
        ]
        for listing in objects.LISTINGS
        if listing.type.name in names
    }


def _declared(column_type: str) -> str:
    """A column's type as standard SQL calls it: the width of a whole number means nothing."""
    plain = re.sub(r"(int)\([0-9]+\)", r"\1", column_type)
    if plain.startswith(("enum(", "set(")):
        return plain  # what stands in the brackets are values
    return "INTEGER" if plain == "int" else plain.upper()


def _plain(kind: Kind, text: Any) -> Any:
    if text is None:
        return None
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    if kind is Kind.BOOL:
        return text == "1"
    return int(text) if kind is Kind.INT else text


def _type_name(table: str) -> str:
    return f"here.{table}" if table.startswith((*SCHEMA_OBJECT_PREFIXES, "here.")) else table


def catalogue_schema(name: str, catalogue: Catalogue) -> Schema:
    """The schema as the catalogue declares it, before any refinement."""
    types = [_entity_type(entry, catalogue) for entry in catalogue.tables.values()]
    types.extend(OBJECT_TYPES)
    ordered = tuple(sorted(types, key=lambda t: t.name))
    return Schema(name, "0", ordered, ((name, tuple(t.name for t in ordered)),))


def _entity_type(entry: TableEntry, catalogue: Catalogue) -> EntityType:
    fields = tuple(
        Field(
            f"{c.name}_" if c.name.startswith(KEYLESS_KEY) else c.name,
            c.kind,
            is_nullable=not c.is_required,
            reference=_target(entry.references.get(c.name), catalogue),
            column=c.name,
        )
        for c in entry.columns
        if not c.is_virtual
    )
    key = tuple(f.name for name in entry.key for f in fields if f.source_column == name)
    is_association = len(key) == 2 and len(fields) == 2 and all(f.reference for f in fields)
    return EntityType(
        _type_name(entry.name), key, fields, table=entry.name, is_association=is_association
    )


def _target(reference: tuple[str, str] | None, catalogue: Catalogue) -> str | None:
    if reference is None:
        return None
    target = catalogue.tables.get(reference[0])
    if target is None or target.key != (reference[1],):
        return None
    return _type_name(target.name)
