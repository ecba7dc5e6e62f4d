"""The forms in which a SQLite database keeps its instants: SQLite has no type for them.

A form that the state schema states is taken. Else it is found in the state before, from the first
texts of each column: where they are of several forms, the column holds texts. A column without a
text is written as the others of the database are, if these agree, else as SQLite itself writes.
A run changes none of this: what it writes in another form is a text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from statediff.model.instants import NO_FORM, form_of_texts, has_offset
from statediff.model.schema import INSTANTS, EntityType, Field, Kind, Schema
from statediff.systems.relational.schema import quoted
from statediff.systems.sqlite.catalogue import Catalogue, TableEntry, folded

SAMPLED: Final = 1000
"""Texts of a column that are looked at. A text beyond them that is of another form stays one."""
_LONGEST: Final = 64
_OWN_LOCAL: Final = "YYYY-MM-DD hh:mm:ss[.ffffff]"
_OWN_INSTANT: Final = "YYYY-MM-DD hh:mm:ss[.ffffff]+00:00"


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
    known = (written | set(found.values())) - {NO_FORM}
    others = known.pop() if len(known) == 1 else None
    return replace(schema, types=tuple(_stated(t, found, others) for t in schema.types))


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
