"""Every document of a bundle has the shape that its codec and the judging stages rely on.

What is checked is what a replay reads. A member that it only compares with what it works out again
needs no shape, and one that no version reads may hold anything. Values and keys are left to
`model.values.decode`.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    TypeAdapter,
    model_validator,
)
from pydantic import ValidationError as Misshapen

from statediff.errors import BundleError
from statediff.model.readings import ReadingKind
from statediff.model.schema import Kind, Purpose
from statediff.model.state import Coverage
from statediff.model.trace import ActionClass
from statediff.model.values import printable

Json: TypeAlias = Any
Text: TypeAlias = StrictStr
Encoded: TypeAlias = list[Any]
"""A value as `model.values.encode` writes it."""
Key: TypeAlias = list[Encoded]
Fields: TypeAlias = list[tuple[Text, Encoded]]
Place: TypeAlias = tuple[Text, Key]
"""(type, key)"""
Count: TypeAlias = Annotated[StrictInt, Field(ge=0)]


def _require_distinct(names: list[str], what: str) -> None:
    """Raises `ValueError` where two of the names are one."""
    if len({*names}) != len(names):
        raise ValueError(f"the same {what} twice")


class _Shape(BaseModel):
    model_config = ConfigDict(defer_build=True)  # only a replay asks


class _Field(_Shape):
    name: Text
    kind: Kind
    is_nullable: StrictBool
    reference: Text | None
    column: Text
    zone: Text | None
    is_immutable: StrictBool
    digest_above_bytes: StrictInt | None = None
    form: Text | None = None
    is_late: StrictBool = False


class _EntityType(_Shape):
    name: Text
    key: list[Text]
    fields_: list[_Field] = Field(alias="fields")
    table: Text
    is_association: StrictBool
    keys_are_reused: StrictBool
    deleted_when: Text | None
    made_by: Text
    is_open: StrictBool
    is_json: StrictBool = False
    is_optional: StrictBool = False
    outside: Text | None = None
    counter: Text | None = None
    holds: Purpose | None = None
    is_late: StrictBool = False

    @model_validator(mode="after")
    def _has_distinct_fields_and_its_key(self) -> Self:
        names = [field.name for field in self.fields_]
        _require_distinct(names, "field")
        _require_distinct(self.key, "field of the key")
        if not {*self.key} <= {*names}:
            raise ValueError("the key names a field that the type does not have")
        return self


class _Schema(_Shape):
    name: Text
    version: Text
    types: list[_EntityType]
    sources: list[tuple[Text, list[Text]]]

    @model_validator(mode="after")
    def _has_distinct_types(self) -> Self:
        _require_distinct([entity_type.name for entity_type in self.types], "type")
        return self


class _Reading(_Shape):
    id: Text
    source: Text
    kind: ReadingKind
    as_of: Encoded
    clock: Text
    is_complete: StrictBool
    digest: Text | None
    position: Text | None
    cause: Text | None
    is_agent_influenced: StrictBool
    acknowledgement: StrictBool


class _Part(_Shape):
    reading: _Reading
    state: Text


class _Transaction(_Shape):
    source: Text
    id: Text
    position: Text
    committed_at: Encoded
    state: Text
    names: list[Text] = []


class _Line(_Shape):
    source: Text
    types: list[Text]
    gap: Text | None
    touched: list[list[Text]]


class _History(_Shape):
    readings: list[_Reading]
    transactions: list[_Transaction]
    lines: list[_Line]
    unfollowed: list[tuple[Text, Text]]


class _StateRoots(_Shape):
    before: Text
    after: Text


_Enumeration: TypeAlias = tuple[Coverage, Text | None] | tuple[Coverage, Text | None, list[Text]]


class _Captures(_Shape):
    before: list[_Part]
    after: list[_Part]
    roots: _StateRoots | None = None
    enumerations: list[list[tuple[Text, Text, _Enumeration]]]
    refusals: Any
    history: _History


class _Mapping(_Shape):
    type: Text
    before: Key
    after: Key


class _Resolution(_Shape):
    mappings: list[list[_Mapping]]
    ambiguous: list[tuple[Text, Text]]
    differ_only_in_opaque_ids: StrictBool
    doubts: Any
    readings_of: list[tuple[Text, list[Text], list[Text]]]


class _Row(_Shape):
    id: Text
    side: Text
    type: Text
    key: Key
    presence: Text
    fields_: Fields | None = Field(alias="fields")


class _Scan(_Shape):
    side: Text
    type: Text
    fields_: list[Text] = Field(alias="fields")
    members: list[tuple[Key, Fields]]


class _Fragments(_Shape):
    rows: list[_Row]
    scans: list[_Scan]


class _Index(_Shape):
    changed: list[Place]
    touched: list[tuple[Text, Count, list[Place]]]


class _Silent(_Shape):
    none: Text


class _Answered(_Shape):
    answer: Encoded


class _Turn(_Shape):
    message: Text
    calls_before: Count
    reply: _Silent | _Answered
    gate: Annotated[StrictInt, Field(ge=1)] | None = None
    attempt: Annotated[StrictInt, Field(ge=1)] = 1
    left: list[tuple[Text, Count]] = []


class _Action(_Shape):
    id: Text
    tool: Text
    action_class: ActionClass = Field(alias="class")
    arguments: Encoded
    result: Encoded
    error: Text | None
    principal: Text | None
    attempt: StrictInt
    started_at: Encoded
    finished_at: Encoded
    effects: list[Text] = []
    parent: Text | None = None
    transactions: list[tuple[Text, Text | None]] = []
    context: tuple[Text, Text, Text] | None = None
    messages: tuple[Text, Text, Text] | None = None


class _Trace(_Shape):
    is_complete: StrictBool
    cause: Text
    is_agent_influenced: StrictBool
    actions: list[_Action]
    turns: list[_Turn] | None
    observed: list[_Action] = []


class _Timeline(_Shape):
    reset_verified_at: Encoded
    agent_started_at: Encoded
    first_action_at: Encoded
    agent_finished_at: Encoded
    settled_at: Encoded
    unsettled: list[tuple[Text, Text]]


Hex: TypeAlias = Annotated[StrictStr, Field(pattern="^([0-9a-f]{2})*$")]
_Head: TypeAlias = tuple[Text, Hex, Hex]
"""(coverage, root of the rows, digest of the columns)"""


class _Opened(_Shape):
    source: Text
    type: Text
    rows: list[tuple[Key, Hex, Hex | None, Hex | None]]


class _Scanned(_Shape):
    source: Text
    type: Text
    side: Text
    salt: Hex
    counts: list[Count]
    columns: list[tuple[Text, Hex, Hex | None]]


class _Roots(_Shape):
    types: list[tuple[Text, Text, _Head | None, _Head | Literal[True] | None]]
    opened: list[_Opened]
    scanned: list[_Scanned]


class EndingShape(_Shape):
    """How a run ended."""

    how: Literal["by-itself", "crashed", "killed", "timed-out"]
    exit_code: StrictInt | None


class _Trial(_Shape):
    id: Text
    sources: list[Text]
    ending: EndingShape | None = None


_SHAPES: Final[dict[str, Any]] = {
    "answer.json": _Silent | _Answered,
    "captures.json": _Captures,
    "fragments.json": list[_Fragments],
    "index.json": list[_Index],
    "resolution.json": _Resolution,
    "roots.json": _Roots,
    "schema.json": _Schema,
    "timeline.json": _Timeline | None,
    "trace.json": _Trace,
    "trial.json": _Trial,
}


def check_shape(document: Json, name: str) -> None:
    """The document is shaped as that file of a bundle; else `BundleError` names the place."""
    try:
        _adapter(name).validate_python(document)
    except Misshapen as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = printable(".".join(str(step) for step in first["loc"]))[:120]
        raise BundleError(f"{name}: {place or 'the whole'}: {first['msg']}") from error


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_SHAPES[name])
