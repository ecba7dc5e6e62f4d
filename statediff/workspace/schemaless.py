"""A state schema made from its file alone, for checking contracts where no state is at hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from statediff.contract.document.refinement import refine
from statediff.contract.document.schema import EntityRefinement
from statediff.contract.document.schemafile import SchemaFile, load_schema_file
from statediff.model.schema import EntityType, Field, Kind, Schema, merge_schemas
from statediff.systems.mail.source import MESSAGE


def listed_schema(path: Path) -> Schema:
    """What the file lists, as if a source delivered exactly that.

    Types are open: a field that the file does not list may exist, so it is no error to name one.
    """
    file = load_schema_file(path)
    named = {e.source for e in file.content.entities.values() if e.source is not None}
    sources = sorted(named) or ["state"]
    delivered = [_delivered(file, source, sources[0]) for source in sources]
    # Mail has one form everywhere, so a schema file need not describe it.
    if not any(MESSAGE.name in schema.by_name for schema in delivered):
        delivered.append(Schema("mail", "0", (MESSAGE,), (("mail", (MESSAGE.name,)),)))
    return merge_schemas(tuple(delivered))


def _delivered(file: SchemaFile, source: str, first: str) -> Schema:
    """What one source would deliver; an entity that names no source comes from the first."""
    types = [
        _entity(name, entity)
        for name, entity in file.content.entities.items()
        if (entity.source or first) == source
    ]
    others = [
        _entity(name, entity)
        for name, entity in file.content.entities.items()
        if entity.source is None and source != first
    ]
    ordered = tuple(sorted(types + others, key=lambda t: t.name))
    catalogue = Schema(source, "0", ordered, ((source, tuple(t.name for t in ordered)),))
    refined = refine(file, source)(catalogue)
    return replace(refined, types=tuple(replace(t, is_open=True) for t in refined.types))


def _entity(name: str, entity: EntityRefinement) -> EntityType:
    columns = {field: told.column or field for field, told in entity.fields.items()}
    key = () if entity.key == "none" else (entity.key or ("id",))
    for field in key:
        columns.setdefault(field, field)
    fields = tuple(Field(column, Kind.ANY) for column in columns.values())
    table = entity.table or name
    return EntityType(table, tuple(columns[field] for field in key), fields)
