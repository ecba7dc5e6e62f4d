"""A PostgreSQL database's catalogue, as entity types and as rows of the `db.` types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from statediff.model.batches import KEYLESS_KEY, Row
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.systems.base.rows import source_schema
from statediff.systems.relational.schema import MAY_WRITE, quoted
from statediff.systems.relational.structure import SOUND, STRUCTURE_TYPE, Checked
from statediff_postgres import queries
from statediff_postgres.naming import FIRST_OWN
from statediff_postgres.rights import listings, readings
from statediff_postgres.structure import AT_RISK, WRITTEN, Risk
from statediff_postgres.ties import NO_TIES, TIES, Ties, ties
from statediff_postgres.values import PgType, kind_of

Connection = psycopg.Connection[tuple[Any, ...]]
ELSEWHERE: Final = "a foreign table: its rows are in another server"
RUNS_FUNCTIONS: Final = "to plan a statement on it would run a function of the database"
OBJECT_TYPES: Final = (*(listing.type for listing in queries.LISTINGS), STRUCTURE_TYPE)
OBJECT_NAMES: Final = frozenset(t.name for t in OBJECT_TYPES)
_RELATIONS: Final = (queries.PLANNED, queries.TABLES)


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A table as it was found: its number tells it from another that took its name."""

    oid: int
    schema: str
    name: str
    type_name: str
    kind: str
    """`pg_class.relkind`: r, p, m or f."""
    outside_bytes: int
    """How much of its values lies outside its rows; large values always do."""
    unreadable: str | None = None
    runs_functions: bool = False
    """True if the server runs functions of the database when it plans a statement on the table; an
    index whose condition is such a function need not have all the rows that it says it has.
    """

    @property
    def quoted(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def only(self) -> str:
        """How its own rows are named; those of a partitioned table are in its partitions."""
        return self.quoted if self.kind == "p" else f"ONLY {self.quoted}"


@dataclass(frozen=True)
class Column:
    """A column as it is stored."""

    name: str
    type: PgType
    is_required: bool


@dataclass(frozen=True)
class TableEntry:
    """A table with its columns; `references` maps a column to a table's number and its column."""

    relation: Relation
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    references: dict[str, tuple[int, str]]

    def column(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)


@dataclass(frozen=True)
class Catalogue:
    """Everything that the catalogue lists: `tables` by name, and the rows of each `db.` type."""

    tables: dict[str, TableEntry]
    objects: dict[str, list[Row]]
    refused: dict[str, str]
    """The `db.` types that this account may not list, each with the server's reason."""
    at_risk: tuple[Risk, ...] = ()
    """Indexes whose entries rest on what was written in the database."""
    checked: Checked = SOUND
    """What is wrong with them."""
    ties: Ties = NO_TIES


def relations(connection: Connection) -> tuple[Relation, ...]:
    """Every table there is, but for partitions: their rows are those of the whole."""
    return _relations(*_ask_all(connection, _RELATIONS))


def _relations(
    planned_on: list[tuple[Any, ...]], listed: list[tuple[Any, ...]]
) -> tuple[Relation, ...]:
    found = []
    planned = {oid for (oid,) in planned_on}
    for oid, schema, name, type_name, kind, is_partition, outside, has_foreign, blind in listed:
        if is_partition:
            continue
        cause = None
        if blind and kind != "f":
            cause = MAY_WRITE
        elif kind == "f" or has_foreign:
            cause = "a foreign table is not read: its rows are in another server"
        elif oid in planned and kind != "r":
            cause = RUNS_FUNCTIONS
        found.append(
            Relation(
                oid=oid,
                schema=schema,
                name=name,
                type_name=type_name,
                kind=kind,
                outside_bytes=outside,
                unreadable=cause,
                runs_functions=oid in planned,
            )
        )
    return tuple(found)


def read_catalogue(connection: Connection, *, is_shared: bool = False) -> Catalogue:
    """The catalogue, inside the caller's transaction. Raises `psycopg.Error`.

    Of a server that `is_shared` by other databases, only what is this database's.
    """
    types, stored, keyed, referring, sequences, written, *related = _ask_all(
        connection,
        (
            queries.TYPES,
            queries.COLUMNS,
            queries.KEYS,
            queries.REFERENCES,
            queries.SEQUENCES,
            WRITTEN,
            *_RELATIONS,
            *TIES,
        ),
    )
    related, tied = related[:2], related[2:]
    bases = {oid: (is_domain, base, element) for oid, is_domain, base, element in types}
    columns: dict[int, list[Column]] = {}
    for table, name, oid, declared, required, is_builtin in stored:
        shown = declared.upper() if is_builtin else declared
        columns.setdefault(table, []).append(Column(name, _type(oid, shown, bases), required))
    keys = {table: tuple(names) for table, names in keyed}
    references: dict[int, dict[str, tuple[int, str]]] = {}
    for table, column, target, target_column in referring:
        references.setdefault(table, {})[column] = (target, target_column)
    tables = {
        r.type_name: TableEntry(
            r, tuple(columns.get(r.oid, ())), keys.get(r.oid, ()), references.get(r.oid, {})
        )
        for r in _relations(*related)
    }
    listed, refused = _listings(connection, is_shared=is_shared)
    _add_starts(connection, sequences, listed["db.sequence"])
    at_risk = connection.execute(AT_RISK.encode()).fetchall() if written[0][0] else ()
    risks = tuple(Risk(*row) for row in at_risk)
    return Catalogue(tables, listed, refused, risks, ties=ties(tied))


def _ask_all(connection: Connection, asked: Iterable[str]) -> list[list[tuple[Any, ...]]]:
    """The answers to several queries, all of them sent before the first answer is waited for."""
    with connection.pipeline():
        cursors = [connection.execute(query.encode()) for query in asked]
    return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


def _listings(
    connection: Connection, *, is_shared: bool
) -> tuple[dict[str, list[Row]], dict[str, str]]:
    """The rows of each `db.` type, and why some may not be listed.

    What the account may not read is listed as every account may read it.
    """
    asked = listings(is_shared=is_shared)
    names = {each.type.name: [f.name for f in each.type.fields] for each in queries.LISTINGS}
    listed: dict[str, list[Row]] = {}
    refused: dict[str, str] = {}
    try:
        _, *found = _ask_all(connection, ["SAVEPOINT listing", *asked.values()])
        for name, rows in zip(asked, found, strict=True):
            listed[name] = [dict(zip(names[name], row, strict=True)) for row in rows]
        return listed, refused
    except psycopg.errors.InsufficientPrivilege:
        connection.execute("ROLLBACK TO listing")
    instead = readings(is_shared=is_shared)
    for name, query in asked.items():
        listed[name] = []
        reading = instead.get(name)
        try:
            if reading is None:
                rows = connection.execute(query.encode()).fetchall()
                listed[name] = [dict(zip(names[name], row, strict=True)) for row in rows]
            else:
                rows = connection.execute(reading.query.encode()).fetchall()
                listed[name] = [reading.row(names[name], row) for row in rows]
        except psycopg.errors.InsufficientPrivilege as error:
            connection.execute("ROLLBACK TO listing")
            refused[name] = str(error.diag.message_primary)
        else:
            connection.execute("SAVEPOINT listing")
    return listed, refused


def _add_starts(
    connection: Connection, sequences: list[tuple[Any, ...]], listed: list[Row]
) -> None:
    """Add the number that an unused sequence will give first, where that is not its start.

    The server tells that only to who reads the sequence under its name. Nobody can give that name
    to something else now: that the last values were asked for holds every sequence.
    """
    untouched = {str(row["name"]): row for row in listed if row["value"] is None}
    for name, schema, plain, start in sequences:
        row = untouched.get(name)
        if row is not None:
            first = connection.execute(
                f"SELECT last_value FROM {quoted(schema)}.{quoted(plain)}".encode()  # noqa: S608 - quoted
            ).fetchone()
            if first is not None and first[0] != start:
                row["value"] = f"{first[0]} comes first"


def _type(oid: int, declared: str, bases: dict[int, tuple[bool, int, int]]) -> PgType:
    is_array, is_own = False, oid >= FIRST_OWN
    while oid in bases:
        is_domain, base, element = bases[oid]
        if not is_domain:
            if is_array:
                break
            is_array = True
        oid = base if is_domain else element
    return PgType(oid, declared, is_array, is_own or oid >= FIRST_OWN)


def catalogue_schema(name: str, catalogue: Catalogue) -> Schema:
    """The schema as the catalogue declares it, before any refinement."""
    by_oid = {entry.relation.oid: entry for entry in catalogue.tables.values()}
    plain = {oid: _entity_type(entry, by_oid) for oid, entry in by_oid.items()}
    types = [catalogue.ties.of(oid, entity, plain.get) for oid, entity in plain.items()]
    types.extend(OBJECT_TYPES)
    return source_schema(name, sorted(types, key=lambda t: t.name))


def _entity_type(entry: TableEntry, by_oid: dict[int, TableEntry]) -> EntityType:
    fields = tuple(
        Field(
            f"{column.name}_" if column.name.startswith(KEYLESS_KEY) else column.name,
            kind_of(column.type),
            is_nullable=not column.is_required,
            reference=_target(entry.references.get(column.name), by_oid),
            column=column.name,
        )
        for column in entry.columns
    )
    key = tuple(f.name for name in entry.key for f in fields if f.source_column == name)
    if any(f.kind in (Kind.LIST, Kind.JSON, Kind.ANY) for f in fields if f.name in key):
        key = ()  # a list or document as a key: its rows are counted instead
    is_association = len(key) == 2 and len(fields) == 2 and all(f.reference for f in fields)
    name = entry.relation.type_name
    outside = ELSEWHERE if entry.relation.kind == "f" else None
    return EntityType(name, key, fields, table=name, is_association=is_association, outside=outside)


def _target(reference: tuple[int, str] | None, by_oid: dict[int, TableEntry]) -> str | None:
    if reference is None:
        return None
    target = by_oid.get(reference[0])
    if target is None or target.key != (reference[1],):
        return None
    return target.relation.type_name
