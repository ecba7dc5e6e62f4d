"""The table of what a bundle holds: each document's shape, by which it is written, read, checked.

The specification's tables and JSON Schema are made of it; where a document is cut into pieces is
`verify.PIECES`, which the verifiers have too. Values are tagged and exact. A member that a replay
only compares with what it works out again is not read, and so not checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from functools import cache, partial
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field as Bounded
from pydantic import StrictInt, TypeAdapter
from typing_extensions import TypedDict

from statediff.errors import BundleError, InputError
from statediff.evidence.canonical import write
from statediff.evidence.shapes import (
    ANYTHING,
    COUNT,
    FLAG,
    NUMBER,
    TEXT,
    Count,
    Encoded,
    Json,
    Member,
    Shape,
    Text,
    check,
    choice,
    each,
    many,
    maybe,
    plain,
    record,
    require_distinct,
    row,
    sparse,
    unread,
    written,
)
from statediff.evidence.shapes import Key as EncodedKey
from statediff.model.codes import FindingCode, Stage, Truth
from statediff.model.delta import Entity, Label, Op
from statediff.model.readings import Capture, Reading, ReadingKind, Timeline
from statediff.model.schema import (
    Counted,
    Effect,
    EntityType,
    Field,
    ForeignKey,
    Kind,
    Purpose,
    Schema,
)
from statediff.model.state import Coverage, Enumeration, beginnings
from statediff.model.trace import (
    Action,
    ActionClass,
    Excerpt,
    Mark,
    NoAnswer,
    RunEnding,
    Trace,
    Turn,
)
from statediff.model.values import Key, Map, Observed, Unobserved, Value, decode, encode, is_value
from statediff.model.verdict import Verdict


def key_document(key: Key) -> Json:
    """The JSON of a key."""
    return [encode(part) for part in key]


def key_from(document: Json) -> Key:
    """The key that `key_document` turned into this JSON."""
    key = tuple(decode(part) for part in document)
    if not all(is_value(part) for part in key):
        raise InputError(f"not the key of an entity: {str(document)[:80]}")
    return key  # type: ignore[return-value]  # checked above


def fields_document(fields: tuple[tuple[str, Observed], ...]) -> Json:
    """The JSON of an entity's fields."""
    return [[name, encode(value)] for name, value in fields]


def fields_from(document: Json) -> dict[str, Observed]:
    """The fields that `fields_document` turned into this JSON."""
    return {str(name): decode(value) for name, value in document}


def _instant(document: Json) -> datetime:
    moment = decode(document)
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InputError(f"not an instant: {str(document)[:80]}")
    return moment


def instant_or_none(document: Json) -> datetime | None:
    """The instant in this JSON, None for its null; `InputError` for anything else."""
    return None if document == ["null"] else _instant(document)


def fraction_document(value: Fraction | None) -> Json:
    """The JSON of a fraction."""
    return None if value is None else f"{value.numerator}/{value.denominator}"


def _side(value: Observed | Entity) -> Json:
    if isinstance(value, Entity):
        return {"entity": fields_document(value.fields)}
    return {"value": encode(value)}


def _arguments_from(document: Json) -> Map | Unobserved:
    found = decode(document)
    if not isinstance(found, (Map, Unobserved)):
        raise InputError(f"not the arguments of a call: {str(document)[:80]}")
    return found


def _excerpt_from(digest: str, characters: str, beginning: str) -> Excerpt:
    if not re.fullmatch("[0-9]{1,20}", characters):
        raise InputError(f"not how long a text is: {characters[:80]}")
    return Excerpt(digest, int(characters), beginning)


def _trace_of(**members: Any) -> Trace:
    found = Trace(**members)
    count = len(found.actions)
    if any(not 0 <= turn.calls_before <= count for turn in found.turns or ()):
        raise InputError(f"a turn begins after more than the {count} calls of the trace")
    return found


def _check_type(entity: Json) -> Json:
    names = [field["name"] for field in entity["fields"]]
    require_distinct(names, "field")
    require_distinct(entity["key"], "field of the key")
    if not {*entity["key"]} <= {*names}:
        raise ValueError("the key names a field that the type does not have")
    return entity


def _check_schema(schema: Json) -> Json:
    require_distinct((entity["name"] for entity in schema["types"]), "type")
    return schema


# --- values ------------------------------------------------------------------------------------

VALUE: Final = Shape("value", lambda: Encoded, encode, decode)
KEY: Final = Shape("key", lambda: EncodedKey, key_document, key_from)
FIELDS: Final = Shape("fields", lambda: list[tuple[Text, Encoded]], fields_document, fields_from)
INSTANT: Final = Shape("value", lambda: Encoded, encode, _instant)
NO_OR_INSTANT: Final = Shape("value", lambda: Encoded, encode, instant_or_none)
FRACTION: Final = Shape("text or null", lambda: Text | None, fraction_document)
SIDE: Final = Shape("{value: value} or {entity: fields}", lambda: Any, _side)
EXPLANATION: Final = Shape("any", lambda: Any, lambda explanation: explanation.document())
PLACES: Final = many(row(TEXT, KEY, words="[type, key]"))
NAMES: Final = many(TEXT)
PAIRS: Final = many(row(TEXT, TEXT))
VERDICT: Final = maybe(choice(Verdict))
Hex = Annotated[Text, Bounded(pattern="^([0-9a-f]{2})*$")]
HEX: Final = plain(Hex, "hex")
POSITIVE: Final = plain(Annotated[StrictInt, Bounded(ge=1)], "number from 1")


# --- what was judged ---------------------------------------------------------------------------

FIELD: Final = record(
    Field,
    each("name column", TEXT), each("reference zone", maybe(TEXT)), {"kind": choice(Kind)},
    each("is_nullable is_immutable", FLAG), sparse("digest_above_bytes", maybe(NUMBER)),
    sparse("form", maybe(TEXT)), sparse("is_late is_stamp", FLAG, default=False),
    sparse("computed_from", NAMES, default=()),
    called="field",
)  # fmt: skip
COUNTED: Final = record(
    Counted, each("counter field", TEXT), each("step start lost", NUMBER), {"rises": FLAG},
)  # fmt: skip
FOREIGN: Final = record(
    ForeignKey,
    {"fields": NAMES, "type": TEXT, "targets": NAMES},
    each("on_delete on_update", choice(Effect)),
)  # fmt: skip
# Where nothing is said, what was written before it could be said stands.
TYPE: Final = record(
    EntityType,
    each("name table made_by", TEXT), {"key": NAMES, "fields": many(FIELD)},
    each("is_association keys_are_reused is_open", FLAG), {"deleted_when": maybe(TEXT)},
    sparse("is_json is_optional is_late", FLAG, default=False),
    sparse("outside counter", maybe(TEXT)), sparse("holds", maybe(choice(Purpose))),
    sparse("counted", many(COUNTED), default=()), sparse("foreign", many(FOREIGN), default=()),
    called="type", check=_check_type,
)  # fmt: skip
SCHEMA: Final = record(
    Schema,
    each("name version", TEXT), {"types": many(TYPE)},
    {"sources": many(row(TEXT, NAMES, words="[source, [type, …]]"))},
    check=_check_schema,
)  # fmt: skip
READING: Final = record(
    Reading,
    each("id source clock", TEXT), {"kind": choice(ReadingKind), "as_of": INSTANT},
    each("is_complete is_agent_influenced acknowledgement", FLAG),
    each("digest position cause", maybe(TEXT)),
    called="reading",
)  # fmt: skip
STATE: Final = Member(TEXT, lambda holder: holder.state.digest())
ENTITIES: Final = Member(COUNT, lambda part: part.state.entity_count, is_read=False)
PART: Final = record(None, {"reading": READING, "state": STATE, "entities": ENTITIES})
TRANSACTION: Final = record(
    dict,
    each("source id position", TEXT), {"committed_at": NO_OR_INSTANT, "state": STATE},
    sparse("names", NAMES, default=()),
)  # fmt: skip
LINE: Final = record(
    None,
    {
        "source": TEXT, "types": Member(NAMES, lambda line: sorted(line.types)),
        "gap": maybe(TEXT),
        "touched": Member(many(NAMES), lambda line: [sorted(step.touched) for step in line.steps]),
    },
)  # fmt: skip
SEEN: Final = record(None, {"readings": many(READING), "transactions": many(TRANSACTION)})
COURSE: Final = record(None, {"lines": many(LINE), "unfollowed": PAIRS})
COVERAGE: Final = Shape(
    "[coverage, cause or null] or [coverage, cause or null, [beginning, …]]",
    lambda: tuple[Coverage, Text | None] | tuple[Coverage, Text | None, list[Text]],
)
ENUMERATION: Final = row(TEXT, TEXT, COVERAGE, words=f"[side, type, {COVERAGE.words}]")
CAPTURES: Final = record(
    None,
    each("before after", many(PART)),
    sparse("roots", maybe(record(None, each("before after", TEXT)))),
    {"enumerations": many(many(ENUMERATION)), "refusals": ANYTHING},
    {"history": record(None, SEEN.members, COURSE.members)},
)  # fmt: skip
MAPPING: Final = record(None, {"type": TEXT}, unread("rule", TEXT), each("before after", KEY))
RESOLUTION: Final = record(
    None,
    {"mappings": many(many(MAPPING)), "ambiguous": PAIRS, "differ_only_in_opaque_ids": FLAG},
    {
        "doubts": ANYTHING,
        "readings_of": many(row(TEXT, NAMES, NAMES, words="[type, [reading, …], [reading, …]]")),
    },
)
ROW: Final = record(
    None, each("id side type presence", TEXT), {"key": KEY, "fields": maybe(FIELDS)}
)
SCAN: Final = record(
    None,
    unread("id", TEXT),
    each("side type", TEXT),
    {"fields": NAMES, "members": many(row(KEY, FIELDS))},
)
FRAGMENTS: Final = record(None, {"rows": many(ROW), "scans": many(SCAN)})
_TOUCHED: Final = row(TEXT, COUNT, PLACES, words=f"[source, number, {PLACES.words}]")
INDEX: Final = record(
    None,
    {"changed": PLACES, "touched": many(_TOUCHED)},
    unread("deltas hidden", plain(dict[Text, Count], "{type: number}")),
    unread("read_sets", plain(dict[Text, list[Text]], "{clause: [text, …]}")),
)
_HEAD: Final = plain(tuple[Text, Hex, Hex], "[text, hex, hex]")
_HEAD_AFTER: Final = plain(
    tuple[Text, Hex, Hex] | Literal[True] | None, f"{_HEAD.words}, true or null"
)
_SIDES: Final = (TEXT, TEXT, maybe(_HEAD), _HEAD_AFTER)
OPENED: Final = record(
    None,
    each("source type", TEXT), unread("nodes", HEX),
    unread("others", many(row(HEX, HEX, words="[path, digest]"))),
    {"rows": many(row(KEY, HEX, maybe(HEX), maybe(HEX), words="[key, salt, before, after]"))},
)  # fmt: skip
SCANNED: Final = record(
    None,
    each("source type side", TEXT), {"salt": HEX, "counts": many(COUNT)},
    {"columns": many(row(TEXT, HEX, maybe(HEX), words="[name, digest, salt or null]"))},
)  # fmt: skip
ROOTS: Final = record(
    None,
    unread("form", TEXT), unread("paths", HEX),
    {"types": many(row(*_SIDES, words="[source, type, before, after]"))},
    {"opened": many(OPENED), "scanned": many(SCANNED)},
)  # fmt: skip


# --- the run -----------------------------------------------------------------------------------

TIMELINE: Final = (
    "reset_verified_at",
    "agent_started_at",
    "first_action_at",
    "agent_finished_at",
    "settled_at",
)
"""The steps of a trial that a timeline dates, in their order."""
TIMES: Final = maybe(
    record(Timeline, each(" ".join(TIMELINE), NO_OR_INSTANT), {"unsettled": PAIRS})
)


class EndingShape(TypedDict):
    """How a run ended."""

    how: Literal["by-itself", "crashed", "killed", "timed-out"]
    exit_code: StrictInt | None


ENDING: Final = record(RunEnding, {"how": TEXT, "exit_code": maybe(NUMBER)}, annotation=EndingShape)
TRIAL: Final = record(
    None,
    {"id": TEXT, "sources": NAMES}, sparse("ending", maybe(ENDING)),
    unread("agent isolation seed", TEXT), unread("sandbox", maybe(TEXT)),
    unread("receipt", ANYTHING),
)  # fmt: skip
_NONE: Final = record(NoAnswer, {"none": Member(TEXT, "cause")})
_GIVEN: Final = record(lambda answer: answer, {"answer": Member(VALUE, lambda answer: answer)})
ANSWER: Final = Shape(
    f"{_NONE.words} or {_GIVEN.words}",
    lambda: _NONE.annotation() | _GIVEN.annotation(),
    lambda answer: (_NONE if isinstance(answer, NoAnswer) else _GIVEN).encode(answer),
    lambda document: (_NONE if "none" in document else _GIVEN).decode(document),
)
MARK: Final = row(TEXT, maybe(TEXT), make=Mark, take=lambda mark: (mark.source, mark.name))
EXCERPT: Final = row(
    TEXT, TEXT, TEXT, make=_excerpt_from,
    take=lambda excerpt: (excerpt.digest, str(excerpt.characters), excerpt.beginning),
)  # fmt: skip
ACTION: Final = record(
    Action,
    each("id tool", TEXT), {"class": Member(choice(ActionClass), "action_class")},
    {"arguments": Shape("value", lambda: Encoded, encode, _arguments_from), "result": VALUE},
    each("error principal", maybe(TEXT)), {"attempt": NUMBER},
    each("started_at finished_at", NO_OR_INSTANT), sparse("effects", NAMES),
    sparse("parent", maybe(TEXT)), sparse("transactions", many(MARK)),
    sparse("context messages", EXCERPT),
    called="action",
)  # fmt: skip
"""The document of an action; a part that nobody recorded has no member."""
_GATED: Final = {
    "attempt": Member(POSITIVE, lambda turn: turn.gate and turn.attempt, is_sparse=True),
    "left": Member(
        many(row(TEXT, COUNT)),
        lambda turn: None if turn.gate is None else turn.left,
        is_sparse=True,
    ),
}
TURN: Final = record(
    Turn,
    {"message": TEXT, "calls_before": COUNT, "reply": ANSWER},
    sparse("gate", POSITIVE),
    _GATED,
)
TRACE: Final = record(
    _trace_of,
    each("is_complete is_agent_influenced", FLAG), {"cause": TEXT, "actions": many(ACTION)},
    {"turns": maybe(many(TURN))}, sparse("observed", many(ACTION), default=()),
)  # fmt: skip


# --- the judgement, which a replay makes again --------------------------------------------------

DELTA: Final = record(
    None,
    each("id type", TEXT), {"op": choice(Op), "key": KEY, "path": Member(TEXT, "place")},
    each("before after raw_before raw_after", SIDE), {"label": choice(Label), "evidence": NAMES},
    each("transaction action", maybe(TEXT)),
    called="delta",
)  # fmt: skip
HIDDEN: Final = record(
    None,
    {"delta": DELTA, "rule": TEXT},
    {"by": Member(TEXT, lambda it: "boundary" if it.by_boundary else "canonicalization")},
)
DOUBT: Final = record(
    None, each("type cause stage source", TEXT), {"key": maybe(KEY), "path": maybe(TEXT)}
)
WITNESS: Final = record(
    None,
    {"rows": many(record(None, each("side type", TEXT), {"key": KEY, "fields": FIELDS}))},
    {
        "comparisons": many(
            record(None, each("text operator", TEXT), each("left right", EXPLANATION))
        )
    },
)
CLAUSE: Final = record(None, {"clause": TEXT, "stage": choice(Stage), "truth": choice(Truth)})
FINDING: Final = record(
    None,
    CLAUSE.members, {"code": choice(FindingCode), "component": TEXT, "explanation": EXPLANATION},
    each("deltas evidence", NAMES), {"missing": Member(many(EXPLANATION), "causes")},
    {"witness": WITNESS},
    called="finding",
)  # fmt: skip
RESULTS: Final = record(None, each("tool task outcome", VERDICT))
JUDGEMENT: Final = record(
    None,
    {"verdict": choice(Verdict), "results": Member(RESULTS, lambda judgement: judgement)},
    {"clauses": many(CLAUSE), "findings": many(FINDING)},
    {"metrics": record(None, each("precision recall forbidden_effect_rate", FRACTION))},
    each("deltas during", many(DELTA)),
    {"explained_by": many(row(TEXT, NAMES, words="[delta, [clause, …]]"))},
    {"hidden": many(HIDDEN), "doubts": many(DOUBT)},
)  # fmt: skip
_ENVELOPE: Final = record(
    None, each("payload payloadType", TEXT),
    {"signatures": many(record(None, each("keyid sig", TEXT)))},
)  # fmt: skip
OBSERVATION: Final = record(
    None,
    {"envelope": _ENVELOPE},
    {"opened": many(plain(list[Any], "[part, salt] or [part, salt, agent]"))},
)
MANIFEST: Final = record(
    None,
    each("format kernel statediff trial contract contract_version contract_digest", TEXT),
    each("schema verdict resolver modules", TEXT), each("rules applied", plain(list[Any], "array")),
    {"keeping": plain(dict[Text, Any], "object"), "files": plain(dict[Text, Hex], "{name: hex}")},
    sparse("undisclosed", plain(dict[Text, Any], "{values: number, digest?: hex}")),
)  # fmt: skip


class Document(NamedTuple):
    """A file of a bundle, and who may see what is left of it when its pieces are cut out."""

    shape: Shape
    is_open: bool = False
    """It has no value of any source: reviewers see it whatever the contract says of sources."""


DOCUMENTS: Final = {
    "answer.json": Document(ANSWER),
    "captures.json": Document(CAPTURES),
    "contract.yaml": Document(TEXT, is_open=True),
    "fragments.json": Document(many(FRAGMENTS)),
    "index.json": Document(many(INDEX)),
    "judgement.json": Document(JUDGEMENT),
    "manifest.json": Document(MANIFEST),
    "observation.json": Document(OBSERVATION, is_open=True),
    "resolution.json": Document(RESOLUTION),
    "roots.json": Document(ROOTS),
    "schema.json": Document(SCHEMA, is_open=True),
    "timeline.json": Document(TIMES, is_open=True),
    "trace.json": Document(TRACE),
    "trial.json": Document(TRIAL),
}
"""Every file of a bundle."""


def check_shape(document: Json, name: str) -> None:
    """The document is shaped as that file of a bundle; else `BundleError` names the place."""
    check(document, adapter_of(name), name)


@cache
def adapter_of(name: str) -> TypeAdapter[Any]:
    """The adapter that checks that file of a bundle, and has its JSON Schema."""
    return TypeAdapter(DOCUMENTS[name].shape.annotation())


delta_document, finding_document = DELTA.encode, FINDING.encode
judgement_document, trace_document = JUDGEMENT.encode, TRACE.encode
judgement_bytes: Final = partial(written, JUDGEMENT)
reading_document, answer_document = READING.encode, ANSWER.encode
timeline_document, ending_document = TIMES.encode, ENDING.encode
reading_from: Final[Callable[[Json], Reading]] = READING.decode
schema_from: Final[Callable[[Json], Schema]] = SCHEMA.decode
answer_from: Final[Callable[[Json], Value | NoAnswer]] = ANSWER.decode
timeline_from: Final[Callable[[Json], Timeline | None]] = TIMES.decode
trace_from: Final[Callable[[Json], Trace]] = TRACE.decode
ending_from: Final[Callable[[Json], RunEnding | None]] = maybe(ENDING).decode


def schema_document(schema: Schema, known: dict[int, Json] | None = None) -> Json:
    """The JSON of a state schema; `known` has that of types, by their identity, and gets others."""
    known = {} if known is None else known
    for entity in schema.types:
        if id(entity) not in known:
            known[id(entity)] = TYPE.encode(entity)
    types = [known[id(entity)] for entity in schema.types]
    return {**SCHEMA.encode(replace(schema, types=())), "types": types}


def trace_lines(trace: Trace) -> bytes:
    """The trace as a trial keeps it: a line on the whole, then one a call."""
    document = trace_document(trace)
    head = {key: value for key, value in document.items() if key != "actions"}
    return b"".join(write(line) + b"\n" for line in (head, *document["actions"]))


def capture_document(capture: Capture) -> Json:
    """The readings of one moment with the digests of the states they delivered."""
    return [PART.encode(part) for part in capture.parts]


def enumeration_document(enumeration: Enumeration) -> Json:
    """The JSON of an enumeration: coverage, cause and, where they are known, `below`."""
    more = [list(enumeration.below)] if enumeration.below else []
    return [enumeration.coverage.value, enumeration.cause, *more]


def enumeration_from(document: Json) -> Enumeration:
    """The enumeration that `enumeration_document` turned into this JSON; else `BundleError`."""
    coverage, below = Coverage(document[0]), tuple(document[2]) if len(document) > 2 else ()
    if below and (coverage is not Coverage.INCOMPLETE or below != beginnings(below)):
        raise BundleError("an enumeration with beginnings of keys that cannot stand so")
    return Enumeration(coverage, document[1], below=below)


def answer_map(answer: Value | NoAnswer) -> dict[str, Value] | NoAnswer:
    """The answer as the judging stage reads it: names to values."""
    if isinstance(answer, NoAnswer):
        return answer
    if isinstance(answer, Map):
        return dict(answer.items)
    return NoAnswer("the answer is not an object with names")
