"""A database's own catalogue, by SQLAlchemy or by the standard's information schema.

A dialect may lag behind the release of SQLAlchemy or of its database, so that parts of its
reflection fail. Columns and the primary key then come from `information_schema`, where the database
has it; a table of which neither is known is unobserved with the cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine.reflection import Inspector

from statediff.model.batches import Row
from statediff.model.explanation import unread_because
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.values import Map, Unobserved, printable
from statediff.systems.base.rows import source_schema
from statediff.systems.relational.urls import TableChoice
from statediff_data.databases.dialects import SCHEMAS, SYSTEM_SCHEMAS

T = TypeVar("T")

TABLE: Final = EntityType(
    "db.table",
    ("name",),
    (
        Field("name", Kind.TEXT, is_nullable=False),
        Field("columns", Kind.LIST),
        Field("key", Kind.LIST),
    ),
)
"""A table. `columns` are maps {name, type, nullable, default} in their order, `type` as the dialect
writes it; `key` names the columns of its primary key."""
VIEW: Final = EntityType(
    "db.view",
    ("name",),
    (Field("name", Kind.TEXT, is_nullable=False), Field("definition", Kind.TEXT)),
)
"""A view and the text that defines it; the view itself is never run."""
SCHEMA: Final = EntityType("db.schema", ("name",), (Field("name", Kind.TEXT, is_nullable=False),))
OBJECT_TYPES: Final = (SCHEMA, TABLE, VIEW)
OBJECT_NAMES: Final = frozenset(t.name for t in OBJECT_TYPES)
MAX_TABLES: Final = 10_000

_WORDS: Final = re.compile(r"[A-Z_]+[A-Z0-9_]*(?: (?:WITH|WITHOUT|TIME|ZONE|VARYING|PRECISION))*")
_KINDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("BOOLEAN", "BOOL"), Kind.BOOL),
    **dict.fromkeys(
        (
            *("INTEGER", "INT", "BIGINT", "SMALLINT", "TINYINT", "MEDIUMINT", "HUGEINT", "INT128"),
            *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "INT2", "INT4", "INT8"),
        ),
        Kind.INT,
    ),
    **dict.fromkeys(("NUMERIC", "DECIMAL", "NUMBER", "DECFLOAT", "MONEY"), Kind.DECIMAL),
    **dict.fromkeys(("FLOAT", "REAL", "DOUBLE", "DOUBLE PRECISION"), Kind.FLOAT),
    **dict.fromkeys(
        ("CHAR", "VARCHAR", "NCHAR", "NVARCHAR", "VARCHAR2", "TEXT", "CLOB", "NCLOB", "STRING"),
        Kind.TEXT,
    ),
    **dict.fromkeys(("CHARACTER", "CHARACTER VARYING", "ENUM", "UUID"), Kind.TEXT),
    **dict.fromkeys(("BLOB", "BINARY", "VARBINARY", "BYTEA", "RAW", "IMAGE"), Kind.BYTES),
    "DATE": Kind.DATE,
    **dict.fromkeys(
        ("TIMESTAMP", "DATETIME", "DATETIME2", "TIMESTAMP WITHOUT TIME ZONE"), Kind.LOCAL_TIMESTAMP
    ),
    **dict.fromkeys(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ", "DATETIMEOFFSET"), Kind.TIMESTAMP),
}


@dataclass(frozen=True)
class Column:
    """A column as the catalogue declares it."""

    name: str
    declared: str
    is_nullable: bool
    default: str | None

    @property
    def kind(self) -> Kind:
        """By the first words of its type; what those do not decide holds any value."""
        text = self.declared.upper()
        words = _WORDS.match(text)
        if words is None or text.rstrip().endswith("]"):
            return Kind.ANY
        return _KINDS.get(words[0], Kind.ANY)


@dataclass(frozen=True)
class TableEntry:
    """A table of the catalogue; `unreadable` says why its rows cannot be read."""

    schema: str | None
    name: str
    type_name: str
    """Its name, with that of its schema where this is another one than the account's own."""
    columns: tuple[Column, ...] = ()
    key: tuple[str, ...] = ()
    references: tuple[tuple[str, str, str], ...] = ()
    """Foreign keys of one column: (column, type of the table, its column)."""
    unreadable: str | None = None

    def has(self, column: str) -> bool:
        return any(each.name == column for each in self.columns)


@dataclass(frozen=True)
class Catalogue:
    """The tables by the names of their types, the rows of each `db.` type, and what is missing."""

    tables: Mapping[str, TableEntry]
    objects: Mapping[str, list[Row]]
    refused: Mapping[str, str]


def read_catalogue(engine: sa.Engine, choice: TableChoice, say: Callable[[str], str]) -> Catalogue:
    """The tables of every schema of the database, or of the chosen one.

    `say` makes a driver's text fit for a message. Raises `sqlalchemy.exc.SQLAlchemyError` where not
    even the names of the tables of the account's own schema can be had.
    """
    inspector = sa.inspect(engine)
    own = inspector.default_schema_name
    refused: dict[str, str] = {}
    schemas = [choice.schema if choice.schema is not None else own]
    if choice.schema is None:
        further, cause = _further_schemas(inspector, own, say)
        schemas += further
        if cause is not None:
            refused |= dict.fromkeys((SCHEMA.name, TABLE.name, VIEW.name), cause)
    names = {}
    for schema in schemas:
        try:
            names[schema] = _names(inspector, schema, "BASE TABLE", inspector.get_table_names)
        except Exception as error:
            if schema == schemas[0]:
                raise
            refused[TABLE.name] = f"the tables of the schema {schema}: {say(str(error))}"
    chosen = [(s, n) for s, found in names.items() for n in found if choice.has(s or "", n)]
    if len(chosen) > MAX_TABLES:
        refused[TABLE.name] = f"{len(chosen)} tables, of which {MAX_TABLES} are read"
    taken = {(s, n): _type_name(s, n, schemas[0]) for s, n in chosen[:MAX_TABLES]}
    tables = {taken[place]: _entry(inspector, *place, taken, say) for place in taken}
    views: list[Row] = []
    for schema in names:
        rows, cause = _views(inspector, schema, schemas[0], say)
        views += rows
        if cause is not None:
            refused.setdefault(VIEW.name, cause)
    objects: dict[str, list[Row]] = {
        SCHEMA.name: [{"name": schema} for schema in schemas if schema is not None],
        TABLE.name: [_table_row(entry) for entry in tables.values()],
        VIEW.name: views,
    }
    return Catalogue(tables, objects, refused)


def _further_schemas(
    inspector: Inspector, own: str | None, say: Callable[[str], str]
) -> tuple[list[str | None], str | None]:
    """The other schemas that are no database's own, and why there may be more."""
    query = SCHEMAS.get(inspector.engine.dialect.name)
    try:
        if query is None:
            found = inspector.get_schema_names()
        else:
            with inspector.engine.connect() as connection:
                found = [str(name) for (name,) in connection.exec_driver_sql(query)]
    except NotImplementedError:  # the dialect knows of no schemas
        return [], None
    except Exception as error:  # noqa: BLE001 - a dialect of a third party may raise anything
        return [], f"the dialect lists no schemas: {say(str(error)) or type(error).__name__}"
    return [*sorted({s for s in found if s != own and s.lower() not in SYSTEM_SCHEMAS})], None


def _names(
    inspector: Inspector, schema: str | None, kind: str, ask: Callable[..., list[str]]
) -> list[str]:
    """The names of what the schema has of that kind."""
    try:
        return sorted(set(ask(schema=schema)))
    except Exception:
        place = {"schema": schema, "kind": kind}
        with inspector.engine.connect() as connection:
            try:
                return sorted({str(name) for (name,) in connection.execute(_NAMES, place)})
            except sa.exc.SQLAlchemyError:
                pass
        raise


def _type_name(schema: str | None, name: str, own: str | None) -> str:
    if schema == own:
        # "here." so that no two tables ever get one name.
        return f"here.{name}" if "." in name else name
    return ".".join(f'"{part}"' if "." in part else part for part in (schema or "", name))


def catalogue_schema(name: str, catalogue: Catalogue) -> Schema:
    """The types of the tables that can be read, and of the schema objects."""
    types = [_entity(entry, catalogue.tables) for entry in catalogue.tables.values()]
    return source_schema(name, sorted((*types, *OBJECT_TYPES), key=lambda t: t.name))


def _entity(entry: TableEntry, tables: Mapping[str, TableEntry]) -> EntityType:
    refers = {
        column: table
        for column, table, to in entry.references
        if table in tables and tables[table].key == (to,)
    }
    fields = tuple(
        Field(c.name, c.kind, is_nullable=c.is_nullable, reference=refers.get(c.name))
        for c in entry.columns
    )
    return EntityType(entry.type_name, entry.key, fields)


def _entry(
    inspector: Inspector,
    schema: str | None,
    name: str,
    types: Mapping[tuple[str | None, str], str],
    say: Callable[[str], str],
) -> TableEntry:
    plain = TableEntry(schema, name, types[schema, name])
    try:
        columns, key = _reflected(inspector, schema, name)
    except Exception as error:  # noqa: BLE001 - a dialect of a third party may raise anything
        try:
            columns, key = _standard(inspector, schema, name)
        except sa.exc.SQLAlchemyError:
            cause = unread_because(f"its columns are not known: {say(str(error))}")
            return replace(plain, unreadable=cause)
    if not columns:
        return replace(plain, unreadable="the catalogue names no column of it")
    found = _attempt(lambda: inspector.get_foreign_keys(name, schema=schema)) or []
    references = tuple(
        (each["constrained_columns"][0], types[target], each["referred_columns"][0])
        for each in found
        if len(each["constrained_columns"]) == 1 == len(each["referred_columns"])
        for target in [(each["referred_schema"] or schema, each["referred_table"])]
        if target in types
    )
    return replace(plain, columns=columns, key=key, references=references)


def _reflected(
    inspector: Inspector, schema: str | None, name: str
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    columns = tuple(
        Column(each["name"], _declared(each["type"]), each["nullable"], _text(each.get("default")))
        for each in inspector.get_columns(name, schema=schema)
    )
    return columns, tuple(inspector.get_pk_constraint(name, schema=schema)["constrained_columns"])


def _standard(
    inspector: Inspector, schema: str | None, name: str
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The same by the views that the SQL standard asks of a database."""
    place = {"schema": schema, "name": name}
    with inspector.engine.connect() as connection:
        columns = connection.execute(_COLUMNS, place).all()
        key = connection.execute(_KEY, place).all()
    return (
        tuple(Column(str(c), str(t), str(n).upper() != "NO", _text(d)) for c, t, n, d in columns),
        tuple(str(column) for (column,) in key),
    )


_NAMES: Final = sa.text(
    "SELECT table_name FROM information_schema.tables "
    "WHERE table_schema = :schema AND table_type = :kind"
)
_COLUMNS: Final = sa.text(
    "SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns "
    "WHERE table_schema = :schema AND table_name = :name ORDER BY ordinal_position"
)
_KEY: Final = sa.text(
    "SELECT k.column_name FROM information_schema.table_constraints c "
    "JOIN information_schema.key_column_usage k ON k.constraint_name = c.constraint_name "
    "AND k.table_schema = c.table_schema AND k.table_name = c.table_name "
    "WHERE c.constraint_type = 'PRIMARY KEY' AND c.table_schema = :schema "
    "AND c.table_name = :name ORDER BY k.ordinal_position"
)


def _declared(declared: Any) -> str:
    # A type that a dialect does not know has no text of its own.
    return str(_attempt(lambda: str(declared)) or type(declared).__name__)


def _text(default: object) -> str | None:
    return None if default is None else str(default)


def _views(
    inspector: Inspector, schema: str | None, own: str | None, say: Callable[[str], str]
) -> tuple[list[Row], str | None]:
    try:
        names = _names(inspector, schema, "VIEW", inspector.get_view_names)
    except Exception as error:  # noqa: BLE001 - as above
        return [], f"the dialect lists no views: {say(str(error)) or type(error).__name__}"
    rows: list[Row] = []
    for name in names:
        text = _attempt(partial(inspector.get_view_definition, name, schema=schema))
        unknown = Unobserved("the dialect does not give the view's text")
        rows.append(
            {
                "name": _type_name(schema, name, own),
                "definition": unknown if text is None else str(text),
            }
        )
    return rows, None


def _table_row(entry: TableEntry) -> Row:
    if entry.unreadable is not None:
        unknown = Unobserved(entry.unreadable)
        return {"name": entry.type_name, "columns": unknown, "key": unknown}
    columns = tuple(
        Map.of(
            {
                "name": c.name,
                "type": printable(c.declared),
                "nullable": c.is_nullable,
                "default": c.default,
            }
        )
        for c in entry.columns
    )
    return {"name": entry.type_name, "columns": columns, "key": entry.key}


def _attempt(ask: Callable[[], T]) -> T | None:
    """The answer; None where a dialect of a third party cannot give it."""
    try:
        return ask()
    except Exception:  # noqa: BLE001 - it may raise anything
        return None
