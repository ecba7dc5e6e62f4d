"""The state schema file: logical names and promises laid over what a source's catalogue says.

The models say what may stand in the file. `parse_schema_file` reads it and checks what can be
checked without a catalogue; `refinement.refine` lays it over one. A file may serve several sources
and is applied to one of them at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field as Described

from statediff.contract.document.load import read_bytes
from statediff.contract.document.packed import PACKINGS
from statediff.contract.parts import Identifier, Part, TypeName, Version
from statediff.contract.yaml.reader import Document, NodePath, read_document
from statediff.contract.yaml.shape import as_model
from statediff.errors import ContractError, Problem
from statediff.model.instants import is_form
from statediff.model.schema import SCHEMA_OBJECT_PREFIXES

FieldName = Annotated[
    str,
    Described(
        pattern=r"^[^\x00-\x1f\x7f]{1,200}$",
        description="the name of a field, at most 200 characters",
    ),
]
OwnName = Annotated[
    str,
    Described(
        min_length=1, max_length=200, description="the source's own name, at most 200 characters"
    ),
]
KindName = Literal[
    "bool",
    "int",
    "decimal",
    "float",
    "text",
    "bytes",
    "timestamp",
    "local_timestamp",
    "date",
    "list",
    "map",
    "json",
    "any",
]
Flag = Annotated[bool, Described(description="true or false")]


class FieldRefinement(Part):
    """One field: what the source calls it, and what the catalogue does not say about it."""

    column: OwnName | None = None
    type: KindName | None = None
    zone: Annotated[
        str | None,
        Described(
            min_length=1,
            max_length=100,
            description="the zone of a timestamp stored without one, e.g. Europe/Paris",
        ),
    ] = None
    form: Annotated[
        str | None,
        Described(
            min_length=1,
            max_length=60,
            description="how instants are written as text, e.g. `YYYY-MM-DDThh:mm:ssZ`, or how a "
            f"text is packed: {', '.join(PACKINGS)}",
        ),
    ] = None
    to: TypeName | None = None
    immutable: Flag | None = None
    nullable: Flag | None = None
    digest_above_bytes: Annotated[
        int | None,
        Described(
            ge=0,
            description="a longer text or binary value is captured as size and SHA-256 only; "
            "0 for every one",
        ),
    ] = None
    optional: Annotated[
        bool,
        Described(description="true if the column may be missing: absent until it is added"),
    ] = False


class EntityRefinement(Part):
    """One entity type: its table, key and fields. What is left out, the catalogue decides."""

    table: OwnName | None = None
    source: Identifier | None = None
    optional: Annotated[
        bool, Described(description="true if a source may lack the table, else false")
    ] = False
    key: Annotated[
        Literal["none"] | Annotated[tuple[FieldName, ...], Described(min_length=1)] | None,
        Described(description="a list of field names, or `none` for rows without a key"),
    ] = None
    association: Flag | None = None
    keys_reused: Flag | None = None
    deleted_when: FieldName | None = None
    made_by: Literal["system", "user"] | None = None
    holds: Annotated[
        Literal["permissions", "messages", "history"] | None,
        Described(
            description="what a row is: who may do what (`permissions`), what left the system "
            "(`messages`), or what happened (`history`)"
        ),
    ] = None
    fields: Annotated[
        dict[FieldName, FieldRefinement],
        Described(
            default_factory=dict, description="a mapping of field names to what is known of them"
        ),
    ]


class StateSchemaDocument(Part):
    """A state schema: logical entity types laid over the tables of one or several sources."""

    schema_: Annotated[Identifier, Described(alias="schema")]
    version: Version
    entities: Annotated[
        dict[TypeName, EntityRefinement],
        Described(min_length=1, description="a mapping of entity types to their tables and fields"),
    ]


@dataclass(frozen=True)
class SchemaFile:
    """A state schema file, read and checked as far as it can be without a catalogue."""

    document: Document
    content: StateSchemaDocument


def load_schema_file(path: Path) -> SchemaFile:
    """The state schema in a file. `UsageError`: no readable file; `ContractError`: no schema."""
    return parse_schema_file(read_bytes(path), str(path))


def parse_schema_file(data: bytes, file: str) -> SchemaFile:
    """The state schema in `data`; `file` is the name used in messages."""
    with _PARSING:  # starting many sandboxes at once asks for the same one many times
        return _parse(data, file)


_PARSING: Final = Lock()


@lru_cache(maxsize=16)
def _parse(data: bytes, file: str) -> SchemaFile:
    document = read_document(data, file)
    content = as_model(document, StateSchemaDocument)
    if problems := tuple(_standing_alone(document, content)):
        raise ContractError(problems)
    return SchemaFile(document, content)


def zone_exists(name: str) -> bool:
    """True if `name` is UTC or in the time zone database."""
    try:
        return name == "UTC" or bool(ZoneInfo(name).key)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a folder such as `America`
        return False


def _standing_alone(document: Document, content: StateSchemaDocument) -> Iterator[Problem]:
    for name, entity in content.entities.items():
        at: NodePath = ("entities", name)
        if name.startswith(SCHEMA_OBJECT_PREFIXES) and entity.table not in (None, name):
            yield document.problem(
                at,
                f"expected a name of your own, found `{name}`: names that begin with "
                f"{' or '.join(f'`{p}`' for p in SCHEMA_OBJECT_PREFIXES)} are reserved",
                code="reserved-name",
                at_key=True,
            )
        for field_name, field in entity.fields.items():
            if field.zone is not None and not zone_exists(field.zone):
                yield document.problem(
                    (*at, "fields", field_name, "zone"),
                    f"expected a zone of the time zone database, found `{field.zone}`",
                    code="unknown-zone",
                    hint="e.g. UTC or Europe/Paris",
                )
            if field.form is not None and not is_form(field.form) and field.form not in PACKINGS:
                yield document.problem(
                    (*at, "fields", field_name, "form"),
                    f"expected a form of instants or a packing, found `{field.form}`",
                    code="unknown-form",
                    hint="e.g. `YYYY-MM-DDThh:mm:ssZ`, `YYYY-MM-DD hh:mm:ss[.ffffff]` or `php`",
                )
            if field.optional and field.type is None:
                yield document.problem(
                    (*at, "fields", field_name, "optional"),
                    f"expected `type` with `optional`, found none for `{name}.{field_name}`: "
                    "no catalogue says what a column holds that is not there",
                    code="missing-type",
                    hint="e.g. `type: int`",
                )
        if entity.key not in (None, "none") and len(set(entity.key or ())) < len(entity.key or ()):
            yield document.problem(
                (*at, "key"),
                "expected each field once in a key, found one twice",
                code="duplicate-field",
            )
