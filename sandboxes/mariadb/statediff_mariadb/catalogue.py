"""A MariaDB server's catalogue, as entity types and as rows of the `db.` types.

`LISTINGS` has one query for each type of schema object, account or setting. `information_schema`
and the tables of `mysql` are read; nothing a schema defines is run. `{db}` is the database that is
observed, as a string. Other databases appear by name only.
"""

# ruff: noqa: S608 - every query is built of text in this file
from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from statediff.model.batches import KEYLESS_KEY, Row
from statediff.model.schema import SCHEMA_OBJECT_PREFIXES, EntityType, Field, Kind, Schema
from statediff.model.values import printable
from statediff.systems.base.rows import source_schema
from statediff.systems.relational.structure import STRUCTURE_TYPE
from statediff_mariadb.naming import unnamed
from statediff_mariadb.rights import (
    INSTEAD,
    OWN_PRIVILEGES,
    local,
    missing,
    rights_of,
    scoped,
    seen,
)
from statediff_mariadb.session import Connection, cause_of, fetched, quoted
from statediff_mariadb.structure import INDEXED
from statediff_mariadb.ties import Ties, read_ties


@dataclass(frozen=True)
class Listing:
    """One `db.` type and the query for its rows, whose columns are the type's fields in order."""

    type: EntityType
    query: str


def _text(name: str, *, optional: bool = False, to: str | None = None) -> Field:
    return Field(name, Kind.TEXT, is_nullable=optional, reference=to)


def _flag(name: str) -> Field:
    return Field(name, Kind.BOOL, is_nullable=False)


def _number(name: str) -> Field:
    return Field(name, Kind.INT, is_nullable=False)


_NAME: Final = _text("name")
_TABLE: Final = _text("table", to="db.table")
_DEFINITION: Final = _text("definition", optional=True)
_HERE: Final = "table_schema = {db}"

TABLES: Final = f"""
SELECT table_name, table_type, engine FROM information_schema.tables
WHERE {_HERE} AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE')
ORDER BY table_name
"""
_LOCKED: Final = frozenset({"Aria", "ARCHIVE", "CSV", "MEMORY", "MyISAM"})
"""Engines without a snapshot, whose rows are all in the server."""
# JSON is another name of longtext with a check, which is quoted as the session quotes names.
COLUMNS: Final = f"""
SELECT table_name, column_name, CASE WHEN EXISTS (
    SELECT * FROM information_schema.check_constraints c
    WHERE c.constraint_schema = {{db}} AND c.table_name = columns.table_name
      AND c.check_clause IN (
        CONCAT('json_valid(`', REPLACE(columns.column_name, '`', '``'), '`)'),
        CONCAT('json_valid("', REPLACE(columns.column_name, '"', '""'), '")'))
  ) THEN 'json' ELSE data_type END, column_type, is_nullable = 'NO', column_key = 'PRI',
  generation_expression IS NOT NULL AND extra LIKE 'VIRTUAL%%'
FROM information_schema.columns WHERE {_HERE} ORDER BY table_name, ordinal_position
"""
KEYS: Final = """
SELECT table_name, column_name, referenced_table_schema, referenced_table_name,
  referenced_column_name, constraint_name
FROM information_schema.key_column_usage WHERE table_schema = {db}
ORDER BY table_name, constraint_name, ordinal_position
"""

# A password's hash is kept as its digest only: it must not be found in a bundle.
_WITHOUT_HASH: Final = (
    "JSON_REMOVE(priv, '$.authentication_string', '$.password_last_changed', '$.auth_or')"
)
_PRIVILEGES: Final = f"""
{OWN_PRIVILEGES}UNION ALL
SELECT CONCAT(user, '@', host), CONCAT('routine ', db, '.', routine_name), proc_priv, 'NO'
FROM mysql.procs_priv
UNION ALL
SELECT CONCAT(user, '@', host), CONCAT('proxy for ', proxied_user, '@', proxied_host), 'PROXY',
  IF(with_grant, 'YES', 'NO')
FROM mysql.proxies_priv
"""

LISTINGS: Final = (
    Listing(
        EntityType(
            "db.column",
            ("table", "name"),
            (
                _TABLE,
                _NAME,
                _number("position"),
                _text("declared_type"),
                _flag("is_required"),
                _text("default", optional=True),
                _number("key_position"),
                _text("generated", optional=True),
                _text("collation", optional=True),
                _text("extra"),
            ),
        ),
        f"""SELECT c.table_name, c.column_name, c.ordinal_position - 1,
              c.column_type,
              c.is_nullable = 'NO', NULLIF(c.column_default, 'NULL'), 0,
              c.generation_expression, c.collation_name,
              CONCAT_WS(' ', NULLIF(c.extra, ''), NULLIF(c.column_comment, ''))
            FROM information_schema.columns c JOIN information_schema.tables t
              USING (table_schema, table_name)
            WHERE c.{_HERE} AND t.table_type <> 'VIEW'""",
    ),
    Listing(
        EntityType("db.constraint", ("table", "name"), (_TABLE, _NAME, _DEFINITION)),
        """SELECT table_name, constraint_name, CONCAT('CHECK ', check_clause)
           FROM information_schema.check_constraints WHERE constraint_schema = {db}
           UNION ALL
           SELECT r.table_name, r.constraint_name, CONCAT('FOREIGN KEY (',
             (SELECT GROUP_CONCAT(k.column_name ORDER BY k.ordinal_position)
              FROM information_schema.key_column_usage k WHERE k.table_schema = {db}
              AND k.table_name = r.table_name AND k.constraint_name = r.constraint_name),
             ') REFERENCES ', IF(r.unique_constraint_schema = {db}, '',
             CONCAT(r.unique_constraint_schema, '.')), r.referenced_table_name, ' (',
             (SELECT GROUP_CONCAT(k.referenced_column_name ORDER BY k.ordinal_position)
              FROM information_schema.key_column_usage k WHERE k.table_schema = {db}
              AND k.table_name = r.table_name AND k.constraint_name = r.constraint_name),
             ') ON UPDATE ', r.update_rule, ' ON DELETE ', r.delete_rule)
           FROM information_schema.referential_constraints r WHERE r.constraint_schema = {db}""",
    ),
    Listing(
        EntityType("db.database", ("name",), (_NAME, _text("encoding"), _text("collate"))),
        """SELECT schema_name, default_character_set_name,
             CONCAT_WS(' ', default_collation_name, NULLIF(schema_comment, ''))
           FROM information_schema.schemata""",
    ),
    Listing(
        EntityType("db.event", ("name",), (_NAME, _text("definer"), _text("status"), _DEFINITION)),
        """SELECT event_name, definer, status, CONCAT_WS(' ', execute_at, interval_value,
             interval_field, starts, ends, on_completion, event_definition, time_zone, sql_mode,
             database_collation, NULLIF(event_comment, ''))
           FROM information_schema.events WHERE event_schema = {db}""",
    ),
    Listing(
        EntityType(
            "db.function",
            ("name",),
            (_NAME, _text("kind"), _text("definer"), _DEFINITION, _text("security")),
        ),
        """SELECT CONCAT(LOWER(type), ' ', name), LOWER(type), definer,
             CONCAT_WS(' ', param_list, returns, body_utf8, sql_data_access,
             IF(is_deterministic = 'YES', 'DETERMINISTIC', NULL), sql_mode,
             db_collation, NULLIF(comment, '')), security_type
           FROM mysql.proc WHERE db = {db}""",
    ),
    Listing(
        EntityType(
            "db.grant",
            ("role", "object", "privilege"),
            (
                _text("role", to="db.role"),
                _text("object"),
                _text("privilege"),
                _text("may_pass_on"),
            ),
        ),
        f"""SELECT REPLACE(grantee, '''', ''), object, privilege_type, MAX(is_grantable)
            FROM ({_PRIVILEGES}) given
            GROUP BY 1, 2, 3""",
    ),
    Listing(
        EntityType("db.index", ("table", "name"), (_TABLE, _NAME, _DEFINITION, _flag("is_unique"))),
        f"""SELECT table_name, index_name, CONCAT(MAX(index_type), ' (', GROUP_CONCAT(
              CONCAT(column_name, COALESCE(CONCAT('(', sub_part, ')'), ''), ' ',
              COALESCE(collation, '')) ORDER BY seq_in_index), ')',
              IF(MAX(ignored) = 'YES', ' ignored', ''), MAX(CONCAT(' ', index_comment))),
              MAX(non_unique) = 0
            FROM information_schema.statistics WHERE {_HERE} GROUP BY table_name, index_name""",
    ),
    Listing(
        EntityType(
            "db.membership",
            ("role", "member"),
            (_text("role", to="db.role"), _text("member", to="db.role"), _flag("is_admin")),
            is_association=True,
        ),
        """SELECT CONCAT(role, '@'), CONCAT(user, '@', host), MAX(admin_option = 'Y')
           FROM mysql.roles_mapping GROUP BY 1, 2""",
    ),
    Listing(
        EntityType(
            "db.role", ("name",), (_NAME, _text("attributes"), _text("password", optional=True))
        ),
        f"""SELECT CONCAT(user, '@', host), {_WITHOUT_HASH},
              SHA2(CONCAT_WS(' ', JSON_VALUE(priv, '$.authentication_string'),
              JSON_QUERY(priv, '$.auth_or')), 256)
            FROM mysql.global_priv""",
    ),
    Listing(
        EntityType("db.sequence", ("name",), (_NAME, Field("value", Kind.ANY))),
        f"""SELECT table_name, auto_increment FROM information_schema.tables
            WHERE {_HERE} AND auto_increment IS NOT NULL""",
    ),
    Listing(
        EntityType("db.setting", ("name",), (_NAME, Field("value", Kind.ANY))),
        """SELECT LOWER(variable_name), global_value FROM information_schema.system_variables
           WHERE global_value IS NOT NULL AND global_value_origin <> 'COMPILE-TIME'
           UNION ALL
           SELECT 'database character set', CONCAT(default_character_set_name, ' ',
             default_collation_name) FROM information_schema.schemata WHERE schema_name = {db}""",
    ),
    Listing(
        EntityType(
            "db.table",
            ("name",),
            (
                _NAME,
                _text("kind"),
                _DEFINITION,
                _text("engine", optional=True),
                _text("collation", optional=True),
                _text("comment"),
            ),
        ),
        f"""SELECT table_name, LOWER(REPLACE(table_type, 'BASE ', '')), NULLIF(CONCAT_WS(' ',
              NULLIF(create_options, ''), (SELECT GROUP_CONCAT(CONCAT_WS(' ', partition_name,
              subpartition_name, partition_method, partition_expression, subpartition_method,
              subpartition_expression, partition_description) ORDER BY
              partition_ordinal_position, subpartition_ordinal_position SEPARATOR ', ')
              FROM information_schema.partitions p WHERE p.{_HERE}
              AND p.table_name = t.table_name AND partition_name IS NOT NULL)), ''),
              engine, table_collation, table_comment
            FROM information_schema.tables t WHERE {_HERE} AND table_type <> 'VIEW'""",
    ),
    Listing(
        EntityType("db.trigger", ("name",), (_NAME, _TABLE, _DEFINITION, _text("definer"))),
        """SELECT trigger_name, event_object_table, CONCAT_WS(' ', action_timing,
             event_manipulation, action_order, sql_mode, action_statement,
             database_collation), definer
           FROM information_schema.triggers WHERE trigger_schema = {db}""",
    ),
    Listing(
        EntityType("db.view", ("name",), (_NAME, _DEFINITION, _text("definer"), _text("security"))),
        f"""SELECT table_name, CONCAT_WS(' ', view_definition, NULLIF(check_option, 'NONE'),
              algorithm), definer, security_type
            FROM information_schema.views WHERE {_HERE}""",
    ),
)


OBJECT_TYPES: Final = (*(listing.type for listing in LISTINGS), STRUCTURE_TYPE)
OBJECT_NAMES: Final = frozenset(t.name for t in OBJECT_TYPES)
_SEQUENCE: Final = (
    "next_not_cached_value, minimum_value, maximum_value, start_value, increment, cache_size,"
    " cycle_option"
)
_INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
_BYTES: Final = frozenset(
    {
        "binary",
        "varbinary",
        "tinyblob",
        "blob",
        "mediumblob",
        "longblob",
        "bit",
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
    }
)
_KINDS: Final = {
    **dict.fromkeys(_INTEGERS, Kind.INT),
    **dict.fromkeys(_BYTES, Kind.BYTES),
    "json": Kind.JSON,
    "decimal": Kind.DECIMAL,
    "float": Kind.FLOAT,
    "double": Kind.FLOAT,
    "date": Kind.DATE,
    "datetime": Kind.LOCAL_TIMESTAMP,
    "timestamp": Kind.TIMESTAMP,
}


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
    is_locked: bool = False
    """Whether a session that locks it keeps every other one from writing it."""

    def column(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)


@dataclass(frozen=True)
class Catalogue:
    """Everything that the catalogue lists: `tables` by name, and the rows of each `db.` type."""

    tables: dict[str, TableEntry]
    objects: dict[str, list[Row]]
    refused: dict[str, str] = field(default_factory=dict)
    """The `db.` types that this account may not list, or not whole, each with the cause."""
    at_risk: tuple[str, ...] = ()
    """Tables that have an index over a value which is computed when it is asked for."""
    ties: Ties = field(default_factory=Ties)


_DENIED: Final = frozenset({1044, 1142, 1143, 1227, 1370})


def read_catalogue(
    connection: Connection[Any], database: str, *, is_shared: bool = False
) -> Catalogue:
    """The catalogue as it is now. Raises `pymysql.Error`.

    Of a server that `is_shared` by other databases, only what is this database's.
    """
    columns: dict[str, list[Column]] = {}
    for table, name, data_type, declared, required, _, virtual in fetched(
        connection, COLUMNS, database
    ):
        column = Column(name, data_type, declared, required == "1", virtual == "1")
        columns.setdefault(table, []).append(column)
    keys: dict[str, list[str]] = {}
    references: dict[str, dict[str, list[tuple[str, str, str]]]] = {}
    for table, column_name, schema, target, target_column, constraint in fetched(
        connection, KEYS, database
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
            engine in _LOCKED,
        )
        for name, kind, engine in fetched(connection, TABLES, database)
        if kind != "SEQUENCE"
    }
    listed, refused = _listings(connection, database, is_shared=is_shared)
    for row in listed["db.column"]:
        key, name = keys.get(str(row["table"]), []), str(row["name"])
        row["key_position"] = key.index(name) + 1 if name in key else 0
        row["declared_type"] = _standard_type(str(row["declared_type"]))
    for name, kind, _ in fetched(connection, TABLES, database):
        if kind == "SEQUENCE":
            place = f"{quoted(database)}.{quoted(name)}"
            ((value, *made),) = fetched(connection, f"SELECT {_SEQUENCE} FROM {place}")
            listed["db.sequence"].append({"name": name, "value": int(value)})
            for row in listed["db.table"]:
                if row["name"] == name:
                    row["definition"] = " ".join(map(str, made))
    for row in listed["db.sequence"]:
        row["value"] = int(str(row["value"]))
    names = {name: [c.name for c in entry.columns] for name, entry in tables.items()}
    ties = read_ties(connection, database, names)
    return Catalogue(tables, listed, refused, _at_risk(connection, database, tables), ties)


def _at_risk(
    connection: Connection[Any], database: str, tables: Mapping[str, TableEntry]
) -> tuple[str, ...]:
    computed = {
        (entry.name, column.name)
        for entry in tables.values()
        for column in entry.columns
        if column.is_virtual and entry.unreadable is None
    }
    if not computed:
        return ()
    indexed = {(table, name) for table, name in fetched(connection, INDEXED, database)}
    return tuple(sorted({table for table, _ in computed & indexed}))


def _listings(
    connection: Connection[Any], database: str, *, is_shared: bool
) -> tuple[dict[str, list[Row]], dict[str, str]]:
    """The rows of each `db.` type, and why some may not be listed, or not whole.

    An account that may read `mysql.global_priv` sees all; another one what its rights say.
    """
    import pymysql  # noqa: PLC0415 - what the catalogue lists is asked for without a driver

    rights = rights_of(connection, database)
    makes = rights.has("CREATE USER")
    listed: dict[str, list[Row]] = {}
    refused: dict[str, str] = {}
    sees_all = True
    # Whether the accounts may be listed decides how the others are.
    for listing in sorted(LISTINGS, key=lambda each: each.type.name != "db.role"):
        name, query = listing.type.name, listing.query
        if is_shared:
            query = scoped(name, query, makes_accounts=makes)
        try:
            if not sees_all and name in INSTEAD:
                raise pymysql.err.OperationalError(1142, "")
            listed[name] = _rows(connection, listing.type, query, database)
        except pymysql.MySQLError as error:
            if not connection.open or error.args[:1] not in {(code,) for code in _DENIED}:
                raise
            sees_all = sees_all and name != "db.role"
            instead = INSTEAD.get(name)
            if instead is None:
                listed[name], refused[name] = [], cause_of(error)
                continue
            listed[name] = _rows(connection, listing.type, instead, database)
        if is_shared and name == "db.grant":
            listed[name] = [local(row, database) for row in listed[name]]
        if not sees_all:
            listed[name] = [seen(name, row, rights) for row in listed[name]]
    return listed, refused if sees_all else {**missing(rights), **refused}


def rows_of(
    connection: Connection[Any], database: str, names: Collection[str]
) -> dict[str, list[Row]]:
    """The rows of these `db.` types, as the server lists them. Raises `pymysql.Error`."""
    return {
        listing.type.name: _rows(connection, listing.type, listing.query, database)
        for listing in LISTINGS
        if listing.type.name in names
    }


def _rows(connection: Connection[Any], entity: EntityType, query: str, database: str) -> list[Row]:
    return [
        {
            f.name: _in_place(f.name, _plain(f.kind, value), database)
            for f, value in zip(entity.fields, row, strict=True)
        }
        for row in fetched(connection, query, database)
    ]


def _in_place(field: str, value: Any, database: str) -> Any:
    """A definition without the name of its database, which is another one in a copy."""
    return unnamed(value, database) if field == "definition" and value is not None else value


def _standard_type(column_type: str) -> str:
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
    plain = {name: _entity_type(entry, catalogue) for name, entry in catalogue.tables.items()}
    types = [catalogue.ties.of(name, entity, plain.get) for name, entity in plain.items()]
    types.extend(OBJECT_TYPES)
    return source_schema(name, sorted(types, key=lambda t: t.name))


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
