"""Keys and references of exported rows, where the benchmark's files declare none.

`systems/tables/source.py` finds fields and their kinds, and the key `id`. Exports of whole
databases also spell keys `user_id`, have rows that only join two others, and refer by name or by
value:

1. Key: `id`; else the type's own name with `_id` or `Id`, if it is there and unique in every row;
   else all such columns together, if they are; else none, and rows are counted. A type of which
   only its key is known is an association.
2. Reference: a column that is called like a type, with or without `_id` or `Id`; else a text column
   called so whose values are all keys of exactly one type. Integers prove nothing: every table
   counts from 1.

All of it follows from the state before and the pack's hints, never from a run, and a pack's schema
file has the last word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.systems.tables.shape import Document, Record

_IDENTIFIER: Final = re.compile(r"(.*[^_])(?:_id|_ID|Id|ID)")


@dataclass(frozen=True)
class Inferred:
    """What the base tells beyond kinds: keys by type, references by type and field."""

    keys: Mapping[str, tuple[str, ...]]
    associations: frozenset[str]
    references: Mapping[tuple[str, str], str]

    def laid_over(self, schema: Schema) -> Schema:
        """The schema with these keys and references in it."""
        return replace(schema, types=tuple(self._typed(entity) for entity in schema.types))

    def _typed(self, entity: EntityType) -> EntityType:
        key = self.keys.get(entity.name, ())
        if not key or any(part not in entity.by_name for part in key):
            key = entity.key
        order = {name: place for place, name in enumerate(key)}
        fields = tuple(
            replace(
                f,
                reference=self.references.get((entity.name, f.name), f.reference),
                is_nullable=f.is_nullable and f.name not in order,
            )
            for f in sorted(entity.fields, key=lambda f: (order.get(f.name, len(order)), f.name))
        )
        return replace(
            entity, key=key, fields=fields, is_association=entity.name in self.associations
        )


def infer(schema: Schema, document: Document) -> Inferred:
    """The keys and references that the records of the document show."""
    keys = {
        entity.name: found
        for entity in schema.types
        if (found := entity.key or _key(entity.name, document.get(entity.name, [])))
    }
    known: dict[str, set[object]] = {
        name: {record.get(key[0]) for record in document.get(name, [])}
        for name, key in keys.items()
        if len(key) == 1
    }
    associations = frozenset(
        entity.name
        for entity in schema.types
        if len(keys.get(entity.name, ())) > 1
        and {f.name for f in entity.fields} == set(keys[entity.name])
    )
    references = {
        (entity.name, f.name): target
        for entity in schema.types
        for f in entity.fields
        if keys.get(entity.name) != (f.name,)
        for target in _targets(f, document.get(entity.name, []), known)
    }
    return Inferred(keys, associations, references)


def _key(name: str, records: Sequence[Record]) -> tuple[str, ...]:
    if not records:
        return ()
    columns = [c for c in records[0] if all(isinstance(r.get(c), str | int) for r in records)]
    own = {word + end for word in _words(name) for end in ("_id", "Id")}
    for column in columns:
        if column in own and _is_unique(records, (column,)):
            return (column,)
    together = tuple(sorted(c for c in columns if _IDENTIFIER.fullmatch(c)))
    return together if len(together) > 1 and _is_unique(records, together) else ()


def _is_unique(records: Sequence[Record], columns: tuple[str, ...]) -> bool:
    return len({tuple(record[c] for c in columns) for record in records}) == len(records)


def _targets(
    field: Field, records: Sequence[Record], known: Mapping[str, set[object]]
) -> Iterator[str]:
    """The one type that the field refers to, or nothing."""
    stem = _IDENTIFIER.fullmatch(field.name)
    spelled = stem[1] if stem else field.name
    named = [name for name in known if spelled in _words(name)]
    if named:
        yield min(named)
    elif stem and field.kind is Kind.TEXT:
        values = {record[field.name] for record in records if record.get(field.name) is not None}
        holding = [name for name, there in known.items() if values and values <= there]
        if len(holding) == 1:
            yield holding[0]


def _words(name: str) -> set[str]:
    """A collection's name, and its singular."""
    ends = (("ies", "y"), ("ses", "s"), ("s", ""))
    return {name, *(name.removesuffix(end) + put for end, put in ends if name.endswith(end))}
