"""Changes of rows as SQL, each on the condition that the row is as it was seen.

So what a run did on a copy is done to the system itself, and what it did there is undone: nobody's
later write is overwritten, because a statement that does not touch exactly its one row fails all.
Rows that are made go first to what others refer to, rows that are removed last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

from statediff.errors import UsageError
from statediff.model.batches import Row
from statediff.model.schema import EntityType, Kind, Schema
from statediff.model.values import Absent, Map, Unobserved, printable
from statediff.systems.relational.schema import quoted
from statediff_gate.course import Changes, key_of

SQLITE, POSTGRES, MARIADB = "sqlite", "postgres", "mysql"
_SAME: Final = {SQLITE: "IS", POSTGRES: "IS NOT DISTINCT FROM", MARIADB: "<=>"}


Rewrite: TypeAlias = tuple[str, tuple[Any, ...]]
"""A statement, and what each `?` in it is."""


@dataclass(frozen=True)
class RowEdit:
    """One row as it has to be before, and as it is to become."""

    entity: EntityType
    before: Row | None
    after: Row | None
    fields: tuple[str, ...] = ()
    """The fields that an update sets, whose values before are the condition."""


def edits_of(changes: Changes, schema: Schema) -> list[RowEdit]:
    """The changes of rows of one source, by key. `UsageError` for a type without a key."""
    found: list[RowEdit] = []
    for name, edits in changes.items():
        entity = schema.by_name[name]
        if entity.is_keyless and edits.gone:
            raise UsageError(f"{name}: its rows have no key, so that no one of them can be changed")
        gone = {key_of(entity, row): row for row in edits.gone} if not entity.is_keyless else {}
        for row in edits.come:
            before = None if entity.is_keyless else gone.pop(key_of(entity, row), None)
            fields = () if before is None else tuple(n for n in row if row[n] != before[n])
            found.append(RowEdit(entity, before, row, fields))
        found += [RowEdit(entity, row, None) for row in gone.values()]
    return found


def statements(edits: Iterable[RowEdit], schema: Schema, dialect: str) -> Iterator[Rewrite]:
    """The statement of each edit, with its values, in an order that references allow.

    `UsageError` for a system that takes another SQL, or none.
    """
    if dialect not in _SAME:
        raise UsageError("rows are not written back to a system of this kind")
    rank = _ranks(schema)
    making = [e for e in edits if e.before is None]
    setting = [e for e in edits if e.before is not None and e.after is not None]
    removing = [e for e in edits if e.after is None]
    making.sort(key=lambda each: rank[each.entity.name])
    removing.sort(key=lambda each: -rank[each.entity.name])
    for each in (*making, *setting, *removing):
        yield _statement(each, dialect)


def _statement(edit: RowEdit, dialect: str) -> Rewrite:
    entity, same = edit.entity, _SAME[dialect]
    table = entity.source_table
    name = ".".join(map(quoted, table.split("."))) if dialect == POSTGRES else quoted(table)
    columns = {field.name: field for field in entity.fields}

    def conditions(row: Row, fields: Sequence[str]) -> tuple[str, list[Any]]:
        parts, values = [], []
        if dialect == MARIADB and entity.key:
            fields = entity.key  # it compares by collation: its log tells what was there
        for each in fields:
            column = quoted(columns[each].source_column)
            is_document = dialect == POSTGRES and columns[each].kind is Kind.JSON
            parts.append(f"{column}::text {same} ?" if is_document else f"{column} {same} ?")
            values.append(bound(row[each], dialect))
        return " AND ".join(parts), values

    if edit.before is None:
        row = {n: v for n, v in (edit.after or {}).items() if not isinstance(v, Absent)}
        listed = ", ".join(quoted(columns[n].source_column) for n in row)
        marks = ", ".join("?" for _ in row)
        text = f"INSERT INTO {name} ({listed}) VALUES ({marks})"  # noqa: S608 - quoted, and bound
        return text, tuple(bound(v, dialect) for v in row.values())
    if edit.after is None:
        stored = [n for n, v in edit.before.items() if not isinstance(v, Absent)]
        where, values = conditions(edit.before, stored)
        return f"DELETE FROM {name} WHERE {where}", tuple(values)  # noqa: S608 - as above
    sets = ", ".join(f"{quoted(columns[n].source_column)} = ?" for n in edit.fields)
    where, values = conditions(edit.before, tuple(dict.fromkeys((*entity.key, *edit.fields))))
    new = [bound(edit.after[n], dialect) for n in edit.fields]
    return f"UPDATE {name} SET {sets} WHERE {where}", (*new, *values)  # noqa: S608 - as above


def bound(value: Any, dialect: str) -> Any:
    """The value as the driver binds it. `UsageError` for one that was not wholly observed."""
    if isinstance(value, Unobserved | Absent):
        raise UsageError("a value of the row is not known whole, and cannot be written")
    if value is None or isinstance(value, str):
        return value
    if dialect == MARIADB:
        return value.replace(tzinfo=None) if isinstance(value, datetime) else value
    if dialect == SQLITE:
        if isinstance(value, bool | int | float | bytes):
            return value
        return str(value) if isinstance(value, Decimal) else _text(value)
    return _literal(value)


def _literal(value: Any) -> str:
    """The text of a value as PostgreSQL reads it."""
    match value:
        case bool():
            return "t" if value else "f"
        case bytes():
            return f"\\x{value.hex()}"
        case tuple():
            return "{" + ",".join(_element(each) for each in value) + "}"
        case int() | float() | Decimal():
            return str(value)
        case _:
            return _text(value)


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, tuple):
        return _literal(value)
    text = value if isinstance(value, str) else _literal(value)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text(value: Any) -> str:
    if isinstance(value, datetime | date):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, Map):
        raise UsageError("a value of the row is no plain one, and cannot be written")
    return str(value)


def columns_of(entity: EntityType, row: Row | None) -> dict[str, Any]:
    """The row's values by the names that its source has."""
    return {entity.by_name[name].source_column: value for name, value in (row or {}).items()}


def _ranks(schema: Schema) -> dict[str, int]:
    """Type → how many references deep it lies; those in a circle lie alike."""
    rank = {entity.name: 0 for entity in schema.types}
    for _ in range(len(rank)):
        found = {
            entity.name: max(
                (rank[f.reference] + 1 for f in entity.fields
                 if f.reference in rank and f.reference != entity.name), default=0,
            )
            for entity in schema.types
        }  # fmt: skip
        found = {name: min(each, len(rank)) for name, each in found.items()}
        if found == rank:
            break
        rank = found
    return rank


def named(entity: EntityType, row: Row) -> str:
    """The row in a sentence."""
    return printable(f"{entity.name} {', '.join(str(row[name]) for name in entity.key)}")
