"""A state schema file laid over what a source's catalogue says.

Entities are found by table, renamed, their fields renamed and retyped; then references are
rewritten everywhere, keys checked, and every problem is reported at its line and column. Nothing
is removed: tables and columns that the file does not list stay, under their own names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from statediff.contract.document.packed import PACKINGS
from statediff.contract.document.schemafile import (
    EntityRefinement,
    FieldRefinement,
    SchemaFile,
)
from statediff.contract.yaml.reader import NodePath
from statediff.contract.yaml.shape import did_you_mean
from statediff.errors import ContractError, Problem
from statediff.model.instants import has_offset
from statediff.model.schema import INSTANTS, EntityType, Field, Kind, Purpose, Schema


def refine(file: SchemaFile, source: str) -> Callable[[Schema], Schema]:
    """The step from the schema that `source` delivers to the refined one.

    Entities with another `source:` are skipped. The step raises `ContractError` where file and
    catalogue disagree; it takes name and version from the file.
    """

    def refined(schema: Schema) -> Schema:
        return _Refinement(file, source, schema).refined()

    return refined


class _Refinement:
    """One file applied to one source's schema; problems are gathered, then raised together."""

    def __init__(self, file: SchemaFile, source: str, schema: Schema) -> None:
        self.document = file.document
        self.content = file.content
        self.schema = schema
        self.entities = {
            name: entity
            for name, entity in file.content.entities.items()
            if entity.source in (None, source)
        }
        self.source = source
        self.problems: list[Problem] = []

    def refined(self) -> Schema:
        chosen = self._chosen()
        renamed = {found.name: name for name, found in chosen.items()}
        self._check_names(renamed)
        types = [
            self._entity(renamed[t.name], self.entities[renamed[t.name]], t, renamed)
            if t.name in renamed
            else replace(t, fields=tuple(_rename_target(f, renamed) for f in t.fields))
            for t in self.schema.types
        ]
        types = self._tied(types, renamed)
        self._check_references({t.name: t for t in types})
        if self.problems:
            raise ContractError(tuple(self.problems))
        sources = tuple(
            (source, tuple(sorted(renamed.get(name, name) for name in names)))
            for source, names in self.schema.sources
        )
        return Schema(
            self.content.schema_,
            self.content.version,
            tuple(sorted(types, key=lambda t: t.name)),
            sources,
        )

    def _tied(self, types: list[EntityType], renamed: Mapping[str, str]) -> list[EntityType]:
        """The types, whose ties speak of fields and types by their logical names."""
        logical = {
            found.name: {old.name: f.name for old, f in zip(found.fields, t.fields, strict=False)}
            for found, t in zip(self.schema.types, types, strict=True)
        }
        return [
            t.with_names(logical[found.name], logical, renamed)
            for found, t in zip(self.schema.types, types, strict=True)
        ]

    def _problem(
        self, path: NodePath, message: str, code: str, hint: str = "", *, at_key: bool = False
    ) -> None:
        self.problems.append(
            self.document.problem(("entities", *path), message, code=code, hint=hint, at_key=at_key)
        )

    def _twice(self, what: str, path: NodePath, found: str, owner: str, *, at_key: bool) -> None:
        self._problem(
            path,
            f"expected a {what} of its own, found `{found}`, which `{owner}` describes",
            f"{what}-twice",
            at_key=at_key,
        )

    def _clash(self, what: str, path: NodePath, name: str) -> None:
        self._problem(
            path,
            f"expected a name of its own, found `{name}`, the name of a {what} that the file does "
            "not list",
            "name-clash",
            f"list that {what} under another name",
            at_key=True,
        )

    def _no_field(self, path: NodePath, name: str, by_name: Mapping[str, Field]) -> None:
        self._problem(
            path,
            f"`{path[1]}`: expected a field of `{path[0]}`, found `{name}`",
            "unknown-field",
            did_you_mean(name, tuple(by_name)),
        )

    def _chosen(self) -> dict[str, EntityType]:
        """The catalogue's type for each entity of the file, by logical name."""
        by_table = {t.source_table: t for t in self.schema.types}
        chosen: dict[str, EntityType] = {}
        owner: dict[str, str] = {}
        for name, entity in self.entities.items():
            table = entity.table or name
            found = by_table.get(table) or self._declared(table, entity)
            path: NodePath = (name, "table") if entity.table else (name,)
            if found is None:
                if not entity.optional:
                    self._problem(
                        path,
                        f"`{name}`: expected a table of {self.source}, found none named `{table}`",
                        "unknown-table",
                        did_you_mean(table, tuple(by_table))
                        or "write `optional: true` if it may be missing",
                        at_key=not entity.table,
                    )
            elif table in owner:
                self._twice("table", path, table, owner[table], at_key=not entity.table)
            else:
                chosen[name], owner[table] = found, name
        return chosen

    def _declared(self, table: str, entity: EntityRefinement) -> EntityType | None:
        """An optional table that the source lacks, where the file tells key and kinds itself."""
        told = {field.column or name: field for name, field in entity.fields.items()}
        if not (entity.optional and entity.source and entity.key and told):
            return None
        if any(field.type is None for field in told.values()):
            return None
        fields = tuple(Field(n, Kind(f.type), column=n, zone=f.zone) for n, f in told.items())
        made = EntityType(table, (), fields, table=table, is_optional=True)
        delivered = {**dict(self.schema.sources)}
        delivered[self.source] = (*delivered.get(self.source, ()), table)
        types = (*self.schema.types, made)
        self.schema = replace(self.schema, types=types, sources=tuple(sorted(delivered.items())))
        return made

    def _check_names(self, renamed: Mapping[str, str]) -> None:
        kept = {t.name for t in self.schema.types if t.name not in renamed}
        for name in renamed.values():
            if name in kept:
                self._clash("table", (name,), name)

    def _entity(
        self, name: str, entity: EntityRefinement, found: EntityType, renamed: Mapping[str, str]
    ) -> EntityType:
        found = _with_optional(entity, found)
        logical = self._columns(name, entity, found)
        fields = tuple(
            self._field(
                name,
                logical[f.name],
                entity.fields.get(logical[f.name]),
                f,
                renamed,
                is_json=found.is_json,
            )
            for f in found.fields
        )
        by_name = {f.name: f for f in fields}
        counted = tuple(logical.get(k, k) for k in found.key)
        key = self._key(name, entity, counted, by_name)
        return replace(
            found,
            name=name,
            key=key,
            fields=fields,
            table=found.source_table,
            is_association=_or_else(entity.association, found.is_association),
            keys_are_reused=_or_else(entity.keys_reused, found.keys_are_reused),
            deleted_when=self._deletion(name, entity, found, logical, by_name),
            made_by=entity.made_by or found.made_by,
            is_open=False,
            is_optional=entity.optional,
            counter=found.counter if key == counted else None,
            holds=found.holds if entity.holds is None else Purpose(entity.holds),
        )

    def _key(
        self,
        name: str,
        entity: EntityRefinement,
        own: tuple[str, ...],
        by_name: Mapping[str, Field],
    ) -> tuple[str, ...]:
        """The key that the file declares, else the catalogue's `own`."""
        key = own
        if entity.key == "none":
            key = ()
        elif entity.key is not None:
            key = entity.key
            for index, part in enumerate(key):
                if part not in by_name:
                    self._no_field((name, "key", index), part, by_name)
        for part in key:
            if part in by_name and by_name[part].digest_above_bytes is not None:
                self._problem(
                    (name, "fields", part, "digest_above_bytes"),
                    f"`digest_above_bytes`: expected a field outside the key, found `{part}`",
                    "wrong-field",
                )
        return key

    def _deletion(
        self,
        name: str,
        entity: EntityRefinement,
        found: EntityType,
        logical: Mapping[str, str],
        by_name: Mapping[str, Field],
    ) -> str | None:
        """The field that says that an entity is deleted, by its logical name."""
        deleted_when = logical.get(found.deleted_when or "", found.deleted_when)
        if entity.deleted_when is not None:
            deleted_when = entity.deleted_when
            marker = by_name.get(deleted_when)
            if marker is None:
                self._no_field((name, "deleted_when"), deleted_when, by_name)
            elif marker.kind is not Kind.BOOL and not marker.is_nullable:
                self._problem(
                    (name, "deleted_when"),
                    "`deleted_when`: expected a boolean or "
                    f"nullable field, found `{deleted_when}`, {marker.kind.value} and "
                    "never null",
                    "wrong-field",
                    "if the source writes 0 and 1, give it `type: bool`",
                )
        return deleted_when

    def _columns(self, name: str, entity: EntityRefinement, found: EntityType) -> dict[str, str]:
        """The logical name of each of the catalogue's fields."""
        by_column = {f.source_column: f.name for f in found.fields}
        logical = {f.name: f.name for f in found.fields}
        owner: dict[str, str] = {}
        for field_name, field in entity.fields.items():
            column = field.column or field_name
            path: NodePath = (name, "fields", field_name, *(["column"] if field.column else []))
            if column not in by_column:
                self._problem(
                    path,
                    f"`{name}.{field_name}`: expected a column of "
                    f"`{found.source_table}`, found none named `{column}`",
                    "unknown-column",
                    did_you_mean(column, tuple(by_column)),
                    at_key=not field.column,
                )
            elif column in owner:
                self._twice("column", path, column, owner[column], at_key=not field.column)
            else:
                logical[by_column[column]], owner[column] = field_name, field_name
        kept = {f.name for f in found.fields if f.source_column not in owner}
        for field_name in owner.values():
            if field_name in kept:
                self._clash("column", (name, "fields", field_name), field_name)
        return logical

    def _field(
        self,
        entity: str,
        name: str,
        told: FieldRefinement | None,
        found: Field,
        renamed: Mapping[str, str],
        *,
        is_json: bool,
    ) -> Field:
        field = replace(_rename_target(found, renamed), name=name, column=found.source_column)
        if told is None:
            return field
        path: NodePath = (entity, "fields", name)
        kind = Kind(told.type) if told.type else field.kind
        if told.form in PACKINGS:
            if kind not in (Kind.TEXT, Kind.ANY) or told.to or field.reference:
                self._problem(
                    (*path, "form"),
                    f"`form`: expected a text, found `{name}`, which is {kind.value}",
                    "wrong-field",
                )
            return replace(field, kind=Kind.ANY, form=told.form)
        if kind in (Kind.MAP, Kind.LIST) and field.kind in (Kind.TEXT, Kind.JSON) and not is_json:
            kind = Kind.JSON  # objects and lists that the source keeps as text
        if is_json and kind is Kind.INT and field.kind is Kind.DECIMAL:
            kind = Kind.DECIMAL  # in JSON, 5.0 is the whole number 5
        zone = told.zone or field.zone
        if told.zone and not told.type and kind is Kind.LOCAL_TIMESTAMP:
            kind = Kind.TIMESTAMP  # its zone is what it lacked
        self._check_instant(path, name, told, kind, zone)
        if told.to is not None and told.to not in self._known_types(renamed):
            self._problem(
                (*path, "to"),
                f"`to`: expected an entity type, found `{told.to}`",
                "unknown-type",
                did_you_mean(told.to, tuple(sorted(self._known_types(renamed)))),
            )
        if told.digest_above_bytes is not None and (
            kind not in (Kind.TEXT, Kind.BYTES, Kind.ANY) or told.to or field.reference
        ):
            self._problem(
                (*path, "digest_above_bytes"),
                f"`digest_above_bytes`: expected a text or binary field that refers to nothing, "
                f"found `{name}`, {kind.value}",
                "wrong-field",
            )
        return replace(
            field,
            digest_above_bytes=told.digest_above_bytes,
            kind=kind,
            zone=zone if kind is Kind.TIMESTAMP else None,
            form=told.form or field.form,
            reference=told.to or field.reference,
            is_immutable=_or_else(told.immutable, field.is_immutable),
            is_nullable=_or_else(told.nullable, field.is_nullable),
        )

    def _check_instant(
        self, path: NodePath, name: str, told: FieldRefinement, kind: Kind, zone: str | None
    ) -> None:
        """The zone and the form are those of an instant, and do not contradict each other."""
        for key, is_one in (("zone", kind is Kind.TIMESTAMP), ("form", kind in INSTANTS)):
            if getattr(told, key) is not None and not is_one:
                self._problem(
                    (*path, key),
                    f"`{key}`: expected a timestamp, found `{name}`, which is {kind.value}",
                    "wrong-field",
                    "give it `type: timestamp`",
                )
        if told.form is not None and zone is not None and has_offset(told.form):
            self._problem(
                (*path, "form"),
                f"`form`: expected no offset, found `{told.form}`, beside the zone {zone}",
                "wrong-field",
                "leave out `zone`",
            )

    def _known_types(self, renamed: Mapping[str, str]) -> frozenset[str]:
        # Entities of the file that this source lacks may stand in another one.
        here = frozenset(renamed.get(t.name, t.name) for t in self.schema.types)
        return here | frozenset(self.content.entities)

    def _check_references(self, types: Mapping[str, EntityType]) -> None:
        """A reference the file made, or whose target's key it set, points to a single-field key."""
        for entity_type in types.values():
            told = self.entities.get(entity_type.name)
            for field in entity_type.fields:
                target = types.get(field.reference or "")
                if target is None or len(target.key) == 1:
                    continue
                size = "no key" if not target.key else f"a key of {len(target.key)} fields"
                message = (
                    f"expected a type with a key of one field, found `{target.name}` with "
                    f"{size}, to which `{entity_type.name}.{field.name}` refers"
                )
                refined = told.fields.get(field.name) if told else None
                aim = self.entities.get(target.name)
                if refined is not None and refined.to is not None:
                    self._problem(
                        (entity_type.name, "fields", field.name, "to"), message, "wrong-key"
                    )
                elif aim is not None and aim.key is not None:
                    self._problem((target.name, "key"), message, "wrong-key")


def _with_optional(entity: EntityRefinement, found: EntityType) -> EntityType:
    """The type with the optional columns that the catalogue lacks; their values are absent.

    A run may make an optional table without any column that the file tells whole.
    """
    present = {f.source_column for f in found.fields}
    told = [(field.column or name, field) for name, field in entity.fields.items()]
    added = tuple(
        Field(column, Kind(field.type), column=column)
        for column, field in told
        if (field.optional or entity.optional) and field.type is not None and column not in present
    )
    return replace(found, fields=found.fields + added)


def _rename_target(field: Field, renamed: Mapping[str, str]) -> Field:
    """The field with its reference under the logical name of its target."""
    if field.reference is None or field.reference not in renamed:
        return field
    return replace(field, reference=renamed[field.reference])


def _or_else(told: bool | None, found: bool) -> bool:
    return found if told is None else told
