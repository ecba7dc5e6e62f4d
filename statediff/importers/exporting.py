"""States and schemas of imported runs, in the files that every command reads."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final

from statediff.importers.pack import composed
from statediff.model.readings import Capture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.values import Map, Observed, is_value, show

_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def schema_yaml(name: str, schema: Schema) -> bytes:
    """The schema as a state schema file that says all it says: keys, kinds, references."""
    sources = {entity: source for source, names in schema.sources for entity in names}
    return composed(
        {"schema": re.sub(r"[^a-z0-9_-]+", "-", name.lower()) or "imported", "version": "1.0.0"},
        {"entities": {t.name: _entity(t, sources.get(t.name, "")) for t in schema.types}},
    )


def _entity(entity: EntityType, source: str) -> dict[str, Any]:
    told: dict[str, Any] = {"table": entity.source_table, "optional": True}
    if source:
        told["source"] = source
    told["key"] = list(entity.key) or "none"
    if entity.is_association:
        told["association"] = True
    if entity.deleted_when is not None:
        told["deleted_when"] = entity.deleted_when
    fields = {f.name: _field(f) for f in entity.fields if _FIELD.fullmatch(f.name)}
    return {**told, "fields": fields} if fields else told


def _field(field: Field) -> dict[str, Any]:
    told: dict[str, Any] = {"type": field.kind.value, "nullable": field.is_nullable}
    if field.source_column != field.name:
        told["column"] = field.source_column
    if field.reference is not None:
        told["to"] = field.reference
    if field.kind is Kind.TIMESTAMP and field.zone is not None:
        told["zone"] = field.zone
    return told


def tables_json(capture: Capture) -> tuple[tuple[str, bytes], ...]:
    """The captured state of each source as plain JSON tables: (source, content)."""
    return tuple(
        (
            part.reading.source,
            _written(
                {
                    table.type.source_table: [
                        {
                            f.source_column: row[f.name]
                            for f in table.type.fields
                            if is_value(row[f.name])
                        }
                        for _, row in table.rows()
                    ]
                    for _, table in sorted(part.state.tables.items())
                }
            ).encode(),
        )
        for part in capture.parts
    )


def _written(value: Observed | dict[str, Any] | list[Any]) -> str:
    """The value as JSON; a decimal digit for digit, which no double would keep."""
    match value:
        case dict():
            inside = (f"{json.dumps(k)}: {_written(v)}" for k, v in value.items())
            return "{" + ", ".join(inside) + "}"
        case Map(items):
            return "{" + ", ".join(f"{json.dumps(k)}: {_written(v)}" for k, v in items) + "}"
        case list() | tuple():
            return "[" + ", ".join(_written(item) for item in value) + "]"
        case Decimal():
            return format(value, "f")
        case None | bool() | int() | str():
            return json.dumps(value)
        case _:
            return json.dumps(show(value, 10_000))
