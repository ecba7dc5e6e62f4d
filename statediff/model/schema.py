"""The state schema: entity types, their keys, fields and references, independent of the system.

A schema is read from a source's catalogue and refined by file
(`contract/document/schemafile.py`), so that one contract runs on every variant of a pack. Types
whose names begin with `db.` describe schema objects of a database; they are ordinary entity types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from decimal import Decimal
from enum import Enum
from functools import cached_property
from typing import Any, Final

from statediff.model.values import Absent, Digested, Excluded, Observed, Unobserved


class Kind(Enum):
    """The kind of value a field holds where the source keeps its promise."""

    BOOL = "bool"
    INT = "int"
    DECIMAL = "decimal"
    FLOAT = "float"
    TEXT = "text"
    BYTES = "bytes"
    TIMESTAMP = "timestamp"
    LOCAL_TIMESTAMP = "local_timestamp"
    DATE = "date"
    LIST = "list"
    MAP = "map"
    JSON = "json"
    """A JSON document, kept as the text that the source has; compared by `json@1`."""
    ANY = "any"


INSTANTS: Final = frozenset({Kind.TIMESTAMP, Kind.LOCAL_TIMESTAMP})


NESTED: Final = frozenset({Kind.JSON, Kind.MAP, Kind.LIST, Kind.ANY})
"""The kinds of value that may have something inside."""


@dataclass(frozen=True)
class Field:
    """One typed attribute. `column` is the source's own name for it."""

    name: str
    kind: Kind
    _: KW_ONLY
    is_nullable: bool = True
    reference: str | None = None
    """The entity type whose (single-field) key this field holds."""
    column: str = ""
    zone: str | None = None
    """The zone of a timestamp that the source stores without one; declared, never guessed."""
    form: str | None = None
    """How the source writes the field's instants as text; see `model.instants`. Of a field of any
    kind how the application packs what is in its texts; see `contract.document.packed`."""
    stored: Kind | None = field(default=None, compare=False)
    """The one kind of what the source stores before the run, where its values say their kind: how
    they are read follows from it, and a value that was read is the same without it."""
    is_immutable: bool = False
    digest_above_bytes: int | None = None
    """A longer text or binary value is captured by its digest; None leaves that to the source."""
    is_late: bool = False
    """The state before does not have it, so that no name which fits that state means it."""
    computed_from: tuple[str, ...] = ()
    """The fields of its row that the system computes it from; none where somebody writes it."""
    is_stamp: bool = False
    """The system writes the moment into it whenever another field of its row is changed."""

    @property
    def source_column(self) -> str:
        return self.column or self.name


class Purpose(Enum):
    """The purpose of a type's rows: it decides how much a change of them weighs by default."""

    PERMISSIONS = "permissions"
    """Who may do what: roles, grants, memberships. Every change is a change of permissions."""
    MESSAGES = "messages"
    """Rows that left the system: one that is created cannot be taken back."""
    HISTORY = "history"
    """Rows about the past: they are added; one that is changed or removed is lost."""


MAIL_TYPES: Final = frozenset({"message", "message_header", "message_part"})
"""A letter, and what it carries beside its text and its envelope."""
_HOLDS_BY_NAME: Final = {
    **dict.fromkeys(("db.role", "db.grant", "db.membership"), Purpose.PERMISSIONS),
    **dict.fromkeys(MAIL_TYPES, Purpose.MESSAGES),
}
"""The purpose of types for which no schema states one."""


class Effect(Enum):
    """The effect of a system on rows that refer to one that goes, or whose key changes."""

    NOTHING = "nothing"
    CASCADE = "cascade"
    SET_NULL = "set null"


@dataclass(frozen=True)
class ForeignKey:
    """Fields that hold those of a row of another type, and what the system does with them."""

    fields: tuple[str, ...]
    type: str
    targets: tuple[str, ...]
    on_delete: Effect = Effect.NOTHING
    on_update: Effect = Effect.NOTHING

    @property
    def acts(self) -> bool:
        """True if a change of one row changes rows that refer to it."""
        return Effect.NOTHING not in (self.on_delete, self.on_update) or (
            self.on_delete is not self.on_update
        )


@dataclass(frozen=True)
class Rules:
    """A system's rules for a type's rows, beside null in a field that is not nullable."""

    foreign: tuple[ForeignKey, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    """Fields of which no two rows have the same values, but for null."""
    checks: tuple[str, ...] = ()
    """Conditions of a row, in the words of SQLite's SQL over its fields."""


LOST_NUMBERS: Final = 32
"""Numbers that one run may take from a counter without a row that has them: a rollback, a conflict
and a session that ends each lose some."""


@dataclass(frozen=True)
class Counted:
    """A field whose numbers come from a counter, the `db.sequence` entity `counter`."""

    counter: str
    field: str
    step: int = 1
    start: int = 1
    """The first number; a counter that gave none yet holds null."""
    lost: int = LOST_NUMBERS
    """How many numbers may be lost in one run."""
    rises: bool = False
    """The counter holds the number that comes next, and a greater number in a row raises it."""

    def of_field(self, name: str) -> Counted:
        """The same for a field of another name."""
        return replace(self, field=name)

    @property
    def sign(self) -> int:
        return 1 if self.step > 0 else -1


@dataclass(frozen=True)
class EntityType:
    """One type of entity. With an empty `key` rows have none and are counted as a multiset."""

    name: str
    key: tuple[str, ...]
    fields: tuple[Field, ...]
    _: KW_ONLY
    table: str = ""
    """The source's own name for the collection."""
    is_association: bool = False
    """Rows of a pure association table: their creation is a `link`, their deletion an `unlink`."""
    keys_are_reused: bool = False
    deleted_when: str | None = None
    """Name of a field that says whether the entity is softly deleted; see `marks_deletion`."""
    made_by: str = "user"
    is_open: bool = False
    """No entity was seen, so its fields are not known: any name may be asked for, of any kind."""
    is_json: bool = False
    """Rows are JSON objects, so that a number in them is what it is however it is written."""
    is_optional: bool = False
    """The source may lack the collection; then there is no entity. Else its lack is no answer."""
    outside: str | None = None
    """Why the type is outside Ω; None where it is inside."""
    counter: str | None = None
    """The key of the `db.sequence` entity that holds the highest key ever inserted here."""
    counted: tuple[Counted, ...] = ()
    """Fields whose numbers come from other counters, which lose some; see `clauses.causes`."""
    foreign: tuple[ForeignKey, ...] = ()
    """References by which a change of another row changes or removes rows of this type."""
    holds: Purpose | None = None
    """As the state schema says; None: see `holding`."""
    is_late: bool = False
    """As that of a field."""
    rules: Rules | None = field(default=None, compare=False)
    """For those who plant harm; None where the source does not say. No judgement reads it."""
    is_assumed: bool = field(default=False, compare=False)
    """True where the description of the state does not list it; a source may have it all the same.
    """

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Worked out once: of wide schemas every judgement asks it of each type."""
        return hash((self.name, self.key, self.fields))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_hash"}

    @property
    def source_table(self) -> str:
        return self.table or self.name

    @property
    def purpose(self) -> Purpose | None:
        """The purpose of its rows: by the state schema, else by the name of the type."""
        return self.holds or _HOLDS_BY_NAME.get(self.name)

    @cached_property
    def by_name(self) -> dict[str, Field]:
        return {f.name: f for f in self.fields}

    @cached_property
    def late(self) -> frozenset[str]:
        """The fields that the state before does not have."""
        return frozenset(f.name for f in self.fields if f.is_late)

    @cached_property
    def immutable(self) -> frozenset[str]:
        """The fields that no entity changes."""
        return frozenset(f.name for f in self.fields if f.is_immutable)

    def kept_bytes(self, field: Field, most: int) -> int:
        """How long a value of the field may be to be captured itself; identities always are."""
        if field.digest_above_bytes is None or field.name in self.key or field.reference:
            return most
        return min(field.digest_above_bytes, most)

    def with_ties(
        self,
        computed: Mapping[str, tuple[str, ...]],
        counted: Iterable[Counted] = (),
        foreign: Iterable[ForeignKey] = (),
        stamps: Collection[str] = (),
        rules: Rules | None = None,
    ) -> EntityType:
        """The type with what the catalogue ties its rows to; `computed` by the names of fields.

        Of the foreign keys those act that do something to rows.
        """
        fields = self.fields
        if computed or stamps:
            fields = tuple(
                replace(f, computed_from=computed.get(f.name, ()), is_stamp=f.name in stamps)
                for f in fields
            )
        acting = tuple(key for key in foreign if key.acts)
        return replace(self, fields=fields, counted=tuple(counted), foreign=acting, rules=rules)

    def with_names(
        self,
        own: Mapping[str, str],
        of_types: Mapping[str, Mapping[str, str]],
        types: Mapping[str, str],
    ) -> EntityType:
        """The type whose ties use other names: its fields, those of each type, and the types."""
        if not (self.foreign or self.counted or self.rules) and not any(
            f.computed_from for f in self.fields
        ):
            return self

        def renamed(foreign: Iterable[ForeignKey]) -> tuple[ForeignKey, ...]:
            return tuple(
                replace(
                    each,
                    fields=tuple(own.get(name, name) for name in each.fields),
                    type=types.get(each.type, each.type),
                    targets=tuple(of_types.get(each.type, {}).get(n, n) for n in each.targets),
                )
                for each in foreign
            )

        is_same = all(name == new for name, new in own.items())
        rules = self.rules and Rules(
            renamed(self.rules.foreign),
            tuple(tuple(own.get(n, n) for n in names) for names in self.rules.unique),
            self.rules.checks if is_same else (),
        )
        return replace(
            self,
            fields=tuple(
                replace(f, computed_from=tuple(own.get(name, name) for name in f.computed_from))
                for f in self.fields
            ),
            counted=tuple(c.of_field(own.get(c.field, c.field)) for c in self.counted),
            foreign=renamed(self.foreign),
            rules=rules,
        )

    @property
    def is_keyless(self) -> bool:
        return not self.key


@dataclass(frozen=True)
class Schema:
    """All entity types of a state, sorted by name; names are distinct."""

    name: str
    version: str
    types: tuple[EntityType, ...]
    sources: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())
    """Which source delivers which types: ((source, (type, …)), …)."""

    @cached_property
    def by_name(self) -> dict[str, EntityType]:
        return {t.name: t for t in self.types}

    @cached_property
    def tied(self) -> frozenset[str]:
        """The types of which a change may follow from another one; see `clauses.causes`."""
        found = {
            t.name
            for t in self.types
            if t.foreign or any(f.computed_from or f.is_stamp for f in t.fields)
        }
        return frozenset(found | ({COUNTERS} if any(t.counted for t in self.types) else set()))

    @cached_property
    def is_in_order(self) -> bool:
        """True if it has names, and its types, sources and what these deliver are sorted."""
        named = [[t.name for t in self.types], [source for source, _ in self.sources]]
        named += [list(types) for _, types in self.sources]
        return bool(self.name and self.version) and all(n == sorted(set(n)) for n in named)

    @cached_property
    def _sources_by_type(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for source, types in self.sources:
            for name in dict.fromkeys(types):
                found[name] = (*found.get(name, ()), source)
        return found

    def sources_of(self, type_name: str) -> tuple[str, ...]:
        return self._sources_by_type.get(type_name, ())


_ALIVE: Final = frozenset({"", "0", "false"})


def marks_deletion(cell: Observed) -> bool:
    """True if a `deleted_when` field with this content says that its entity is deleted.

    Null, false, zero, the empty text and the texts `0` and `false` say that it is not. What was not
    observed says nothing; a content of which only the digest is known is not empty.
    """
    match cell:
        case Digested():
            return True
        case None | Absent() | Excluded() | Unobserved():
            return False
        case str():
            return cell.strip().lower() not in _ALIVE
        case bool() | int() | float() | Decimal():
            return cell != 0
        case _:
            return True


SCHEMA_OBJECT_PREFIXES = ("db.", "git.", "source.")
"""Reserved beginnings of type names: schema objects and repository objects."""
COUNTERS = "db.sequence"
"""The type of a system's counters, one entity each, by name."""
COUNT = "value"
"""The field of a counter that holds what it stands at."""


def merge_schemas(schemas: tuple[Schema, ...]) -> Schema:
    """One schema over several sources; sources of one type must agree on its key.

    Schemas that are all the same and in order are that one.
    """
    distinct: list[Schema] = []
    for schema in schemas:
        if schema not in distinct:
            distinct.append(schema)
    if len(distinct) == 1 and distinct[0].is_in_order:
        return distinct[0]
    types: dict[str, EntityType] = {}
    sources: dict[str, set[str]] = {}
    for schema in distinct:
        for entity_type in schema.types:
            known = types.setdefault(entity_type.name, entity_type)
            if known.key != entity_type.key:
                raise ValueError(f"sources disagree on the key of {entity_type.name}")
            if known.fields != entity_type.fields:
                extra = tuple(f for f in entity_type.fields if f.name not in known.by_name)
                types[entity_type.name] = replace(
                    known,
                    fields=known.fields + extra,
                    is_open=known.is_open and entity_type.is_open,
                    is_json=known.is_json and entity_type.is_json,
                    outside=known.outside if entity_type.outside else None,
                    holds=known.holds or entity_type.holds,
                )
        for source, names in schema.sources:
            sources.setdefault(source, set()).update(names)
    ordered = tuple(types[name] for name in sorted(types))
    name = "+".join(dict.fromkeys(s.name for s in schemas)) or "empty"
    version = "+".join(dict.fromkeys(s.version for s in schemas)) or "0"
    delivered = tuple((source, tuple(sorted(sources[source]))) for source in sorted(sources))
    return Schema(name, version, ordered, delivered)
