"""The types in the records of states: fields, kinds, keys and references.

What a contract can name follows from the state before, so that no run can make a contract invalid.
A state is summed up type by type (`Seen`), so that records which say nothing new need not be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from statediff.model.instants import NO_FORM, form_of_texts
from statediff.model.schema import INSTANTS, EntityType, Field, Kind, Schema
from statediff.model.values import ABSENT, Map
from statediff.systems.tables.columns import columns_of
from statediff.systems.tables.shape import Document, Record

ID: Final = "id"
RESIDUE: Final = "table.residue"
"""The type of how the records of files are spelled: quotes, ends of lines, order."""
BESIDE: Final = "table.beside"
"""The type of what files say beside their records, each part by its digest."""
_LAYOUT: Final = "programs write records in another order and spelling"
Kinds = frozenset[Kind | None]
"""Kinds of values; None is that of null."""
UNKEYED: Final[Kinds] = frozenset({None, Kind.LIST, Kind.MAP})
"""Kinds that identify nothing."""
Records = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Seen:
    """The records of one type in one state, by what they say of it."""

    total: int
    kinds: Mapping[str, Kinds]
    """The kinds of the values of each field."""
    partial: frozenset[str]
    """Fields that some record lacks."""
    is_keyed: bool
    """True if every record has an id that identifies it."""

    @staticmethod
    def of(records: Sequence[Record]) -> Seen:
        """The findings about these records."""
        kinds: dict[str, frozenset[Kind | None]] = {}
        partial = set()
        for field, column in columns_of(records).items():
            types = set(map(type, column))
            if type(ABSENT) in types:
                partial.add(field)
            kinds[field] = frozenset(_kind_of(each) for each in types - {type(ABSENT)})
        is_keyed = not records or (ID in kinds and ID not in partial and not kinds[ID] & UNKEYED)
        return Seen(len(records), kinds, frozenset(partial), is_keyed)


NOTHING: Final = Seen(0, {}, frozenset(), is_keyed=True)


def infer_schema(name: str, *documents: Document, bases: int = 1) -> Schema:
    """One schema for all the documents, the base first: types and fields by name, `id` in front.

    The first `bases` documents are the base: the state before, and what else is known of it.

    A field's kind is the one kind all its values have (integers beside decimals are decimals); null
    says nothing. Where values of several kinds stand, it is the one kind of those in the base: what
    a run wrote in another kind is a value, and no reason to type the field anew. It is `any` where
    these are a mixture, and where the base has no value. A type that the base does not name is no
    type that a field refers to by its name.
    """
    sides = [{n: Seen.of(records) for n, records in each.items()} for each in documents]
    names = {type_name for side in sides for type_name in side}
    known = {type_name for side in sides[:bases] for type_name in side}
    types = [infer_type(n, [side.get(n, NOTHING) for side in sides], bases) for n in names]
    return schema_over(name, [replace(t, is_late=t.name not in known) for t in types])


def schema_over(name: str, types: Iterable[EntityType]) -> Schema:
    """The schema of a source that delivers the types, which now refer to each other."""
    found = sorted(types, key=lambda entity: entity.name)
    keyed = {entity.name for entity in found if entity.key and not entity.is_late}
    referring = tuple(replace(entity, fields=_referring(entity, keyed)) for entity in found)
    return Schema(name, "0", referring, ((name, tuple(entity.name for entity in found)),))


def with_forms(schema: Schema, documents: Sequence[Records]) -> Schema:
    """The schema whose instants all have a form: the stated one, else that of all texts.

    It is that of the first document in which the field has a text, the state before; where there
    is no text at all, or no one form, the field holds texts.
    """
    return replace(schema, types=tuple(_with_forms(t, documents) for t in schema.types))


def _with_forms(entity_type: EntityType, documents: Sequence[Records]) -> EntityType:
    open_ = [f for f in entity_type.fields if f.kind in INSTANTS and f.form is None]
    if not open_:
        return entity_type
    forms = {f.name: _form_in(entity_type.source_table, f.source_column, documents) for f in open_}
    return replace(
        entity_type,
        fields=tuple(replace(f, form=forms.get(f.name, f.form)) for f in entity_type.fields),
    )


def _form_in(table: str, column: str, documents: Sequence[Records]) -> str:
    for document in documents:
        texts = [r[column] for r in document.get(table, ()) if isinstance(r.get(column), str)]
        if texts:
            return form_of_texts(str(text) for text in texts)
    return NO_FORM


def fits(entity_type: EntityType, record: Record) -> bool:
    """True if a type that was inferred without the record would be the same inferred with it."""
    known = entity_type.by_name
    return (
        not entity_type.is_open
        and record.keys() <= known.keys()
        and all(part in record for part in entity_type.key)
        and all(
            f.is_nullable
            if (value := record.get(f.name)) is None
            else _one_kind(frozenset({f.kind, _kind_of(type(value))})) is f.kind
            for f in entity_type.fields
            if f.name not in entity_type.key or f.name in record
        )
    )


def infer_type(type_name: str, sides: Sequence[Seen], bases: int = 1) -> EntityType:
    """The type of which the states say so much, the base first; it refers to no other yet."""
    names = {field for side in sides for field in side.kinds}
    is_keyed = sides[0].is_keyed
    if not sides[0].total:  # then a run's records have keys where any has one
        ids = [side.kinds[ID] for side in sides if ID in side.kinds]
        is_keyed = not any(side.total for side in sides) or any(kinds - UNKEYED for kinds in ids)
    if is_keyed:
        names.add(ID)
    fields = tuple(
        _field(name, sides, bases) for name in sorted(names, key=lambda field: (field != ID, field))
    )
    key = (ID,) if is_keyed else ()
    return EntityType(
        type_name,
        key,
        fields,
        is_open=not sides[0].total,
        is_json=True,
        is_optional=type_name in (BESIDE, RESIDUE),
        outside=_LAYOUT if type_name == RESIDUE else None,
    )


def _field(name: str, sides: Sequence[Seen], bases: int) -> Field:
    by_side: list[Kinds] = [side.kinds.get(name, frozenset()) for side in sides]
    kinds = frozenset[Kind | None]().union(*by_side) or frozenset({None})
    is_partial = any(
        name in side.partial or (side.total and name not in side.kinds) for side in sides
    )
    base = frozenset[Kind | None]().union(*by_side[:bases])
    return Field(
        name,
        _kind_on_sides(kinds, by_side[:bases]),
        stored=_one_kind(base) if base - {None} else None,
        is_nullable=None in kinds or is_partial,
        is_late=any(by_side) and not any(by_side[:bases]),
    )


def _referring(entity: EntityType, keyed: set[str]) -> tuple[Field, ...]:
    """The fields, those that are called like a keyed type referring to it."""
    return tuple(
        replace(f, reference=f.name) if f.name in keyed and f.name not in entity.key else f
        for f in entity.fields
    )


def _kind_on_sides(kinds: Kinds, bases: Sequence[Kinds]) -> Kind:
    """The one kind of all, else that of the base; `any` where the base has no value."""
    base = next((here for here in bases if here - {None}), frozenset[Kind | None]())
    whole = _one_kind(kinds)
    return whole if whole is not Kind.ANY and base else _one_kind(base)


def _one_kind(kinds: Kinds) -> Kind:
    known = kinds - {None}
    if known == {Kind.INT, Kind.DECIMAL}:
        return Kind.DECIMAL
    one = next(iter(known)) if len(known) == 1 else None
    return Kind.ANY if one is None else one


_KINDS: Final[Mapping[type, Kind | None]] = {
    type(None): None,
    bool: Kind.BOOL,
    int: Kind.INT,
    str: Kind.TEXT,
    tuple: Kind.LIST,
    Map: Kind.MAP,
    bytes: Kind.BYTES,
}


def _kind_of(kind: type) -> Kind | None:
    return _KINDS.get(kind, Kind.DECIMAL)
