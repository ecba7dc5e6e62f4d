"""The shape of a state schema file: what may stand in it, before any catalogue is known."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field as Described

from statediff.contract.document.parts import Identifier, Part, TypeName, Version

FieldName = Annotated[
    str,
    Described(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}$",
        description="the name of a field (letters, digits and `_`)",
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
