"""Check the shapes of a bundle's files and of values (R-TRU-3)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .basics import Refused, is_number, need, unbase64

Check = Callable[[Any], None]
WHY = "R-TRU-3"


def text(value: Any) -> None:
    """Refuse what is no text."""
    need(isinstance(value, str), WHY + " text")


def flag(value: Any) -> None:
    """Refuse what is neither true nor false."""
    need(isinstance(value, bool), WHY + " flag")


def number(value: Any) -> None:
    """Refuse what is no number."""
    need(is_number(value), WHY + " number")


def anything(value: Any) -> None:
    """Refuse nothing."""


def array(value: Any) -> None:
    """Refuse what is no array."""
    need(isinstance(value, list), WHY + " array")


def mapping(value: Any) -> None:
    """Refuse what is no object."""
    need(isinstance(value, dict), WHY + " object")


def maybe(check: Check) -> Check:
    """Return a check that allows null, too."""

    def each(value: Any) -> None:
        if value is not None:
            check(value)

    return each


def many(check: Check) -> Check:
    """Return a check of each item of an array."""

    def each(value: Any) -> None:
        array(value)
        for item in value:
            check(item)

    return each


def tuple_of(*checks: Check) -> Check:
    """Return a check of an array of exactly these."""

    def each(value: Any) -> None:
        need(isinstance(value, list) and len(value) == len(checks), WHY + " array of some length")
        for check, item in zip(checks, value, strict=True):
            check(item)

    return each


def shape(**checks: Check) -> Check:
    """Return a check of an object with at least these members."""

    def each(value: Any) -> None:
        mapping(value)
        for name, check in checks.items():
            need(name in value, WHY + " no member " + name)
            check(value[name])

    return each


def dictionary(check: Check) -> Check:
    """Return a check of each member of an object."""

    def each(value: Any) -> None:
        mapping(value)
        for item in value.values():
            check(item)

    return each


_TEXTS = {
    "int": "0|-?[1-9][0-9]{0,4000}",
    "decimal": "-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?",
    "float": ".+",
    "text": "(?s).*",
    "timestamp": "[0-9]{4,}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z",
    "local_timestamp": "[0-9]{4,}-[0-9]{2}-[0-9]{2}T[0-9:.]+",
    "date": "[0-9]{4,}-[0-9]{2}-[0-9]{2}",
    "excluded": "(?s).*",
    "unobserved": "(?s).*",
}


def value(found: Any) -> None:
    """Refuse what is no value."""
    need(isinstance(found, list) and len(found) > 0 and isinstance(found[0], str), WHY + " value")
    kind, rest = found[0], found[1:]
    if kind in ("null", "absent"):
        need(not rest, WHY + " value")
    elif kind == "digest":
        need(len(rest) == 3 and rest[0] in ("text", "bytes"), WHY + " value")
    else:
        need(len(rest) == 1, WHY + " value")
        if kind == "bool":
            flag(rest[0])
        elif kind == "bytes":
            unbase64(rest[0])
        elif kind == "list":
            many(value)(rest[0])
        elif kind == "map":
            fields(rest[0])
        else:
            need(kind in _TEXTS and isinstance(rest[0], str), WHY + " kind of a value")
            need(re.fullmatch(_TEXTS[kind], rest[0]) is not None, WHY + " value")


fields = many(tuple_of(text, value))
key = many(value)


def side(found: Any) -> None:
    """Refuse what is no side of a delta: a value or an entity."""
    mapping(found)
    if "value" in found:
        value(found["value"])
    else:
        need("entity" in found, WHY + " side of a delta")
        fields(found["entity"])


def answer(found: Any) -> None:
    """Refuse what is no document of answer.json."""
    mapping(found)
    need(("none" in found) != ("answer" in found), WHY + " answer")
    if "none" in found:
        text(found["none"])
    else:
        value(found["answer"])


def coverage(found: Any) -> None:
    """Refuse what does not say how an enumeration was covered, and why."""
    need(isinstance(found, list) and len(found) in (2, 3), WHY + " coverage")
    text(found[0])
    maybe(text)(found[1])
    many(text)(found[2] if len(found) > 2 else [])


READING = shape(
    id=text,
    source=text,
    kind=text,
    as_of=value,
    clock=text,
    is_complete=flag,
    digest=maybe(text),
    position=maybe(text),
    cause=maybe(text),
    is_agent_influenced=flag,
    acknowledgement=flag,
)
CAPTURE = many(shape(reading=READING, state=text, entities=number))
LINE = shape(source=text, types=many(text), gap=maybe(text), touched=many(many(text)))
STEP = shape(source=text, id=text, position=text, committed_at=value, state=text)
HISTORY = shape(
    readings=array, transactions=many(STEP), lines=many(LINE), unfollowed=many(tuple_of(text, text))
)
ROW = shape(id=text, side=text, type=text, key=key, presence=text, fields=maybe(fields))
SCAN = shape(id=text, side=text, type=text, fields=many(text), members=many(tuple_of(key, fields)))
FIELD = shape(
    name=text,
    kind=text,
    is_nullable=flag,
    reference=maybe(text),
    column=text,
    zone=maybe(text),
    is_immutable=flag,
)
TYPE = shape(
    name=text,
    key=many(text),
    table=text,
    is_association=flag,
    keys_are_reused=flag,
    deleted_when=maybe(text),
    made_by=text,
    is_open=flag,
    fields=many(FIELD),
)
DELTA = shape(
    id=text,
    op=text,
    type=text,
    key=key,
    path=text,
    before=side,
    after=side,
    raw_before=side,
    raw_after=side,
    label=text,
    evidence=many(text),
    transaction=anything,
    action=anything,
)
FINDING = shape(
    clause=text,
    code=text,
    stage=text,
    truth=text,
    explanation=anything,
    component=text,
    deltas=many(text),
    evidence=many(text),
    missing=array,
    witness=anything,
)
FILES: dict[str, Check] = {
    "answer.json": answer,
    "captures.json": shape(
        before=CAPTURE,
        after=CAPTURE,
        enumerations=many(many(tuple_of(text, text, coverage))),
        refusals=array,
        history=HISTORY,
    ),
    "fragments.json": many(shape(rows=many(ROW), scans=many(SCAN))),
    "index.json": many(
        shape(
            changed=many(tuple_of(text, key)),
            touched=many(tuple_of(text, number, many(tuple_of(text, key)))),
            deltas=dictionary(number),
            hidden=dictionary(number),
            read_sets=dictionary(many(text)),
        )
    ),
    "resolution.json": shape(
        mappings=many(many(shape(type=text, rule=text, before=key, after=key))),
        ambiguous=many(tuple_of(text, text)),
        differ_only_in_opaque_ids=flag,
        doubts=array,
        readings_of=many(tuple_of(text, many(text), many(text))),
    ),
    "schema.json": shape(
        name=text, version=text, types=many(TYPE), sources=many(tuple_of(text, many(text)))
    ),
    "timeline.json": maybe(
        shape(
            reset_verified_at=value,
            agent_started_at=value,
            first_action_at=value,
            agent_finished_at=value,
            settled_at=value,
            unsettled=many(tuple_of(text, text)),
        )
    ),
    "trace.json": shape(
        is_complete=flag,
        cause=text,
        is_agent_influenced=flag,
        actions=array,
        turns=maybe(many(shape(message=text, calls_before=number, reply=answer))),
    ),
    "trial.json": shape(
        id=text,
        sources=many(text),
        agent=text,
        sandbox=maybe(text),
        isolation=text,
        seed=text,
        receipt=anything,
    ),
    "roots.json": shape(
        scanned=many(
            shape(
                source=text,
                type=text,
                side=text,
                salt=text,
                counts=many(number),
                columns=many(tuple_of(text, text, maybe(text))),
            )
        )
    ),
    "judgement.json": shape(
        verdict=text,
        results=mapping,
        clauses=many(shape(clause=text, stage=text, truth=text)),
        findings=many(FINDING),
        metrics=anything,
        deltas=many(DELTA),
        during=anything,
        explained_by=anything,
        hidden=array,
        doubts=array,
    ),
    "manifest.json": shape(
        format=text,
        kernel=text,
        statediff=text,
        trial=text,
        contract=text,
        contract_version=text,
        contract_digest=text,
        schema=text,
        verdict=text,
        resolver=text,
        modules=text,
        rules=array,
        applied=array,
        keeping=mapping,
        files=dictionary(text),
    ),
}


def unique(names: list[str], why: str) -> None:
    """Refuse names that occur twice."""
    need(len(set(names)) == len(names), why)


def check_shapes(documents: dict[str, Any]) -> None:
    """Refuse documents that do not have the shapes of the files."""
    for name, check in FILES.items():
        if name in documents:
            try:
                check(documents[name])
            except Refused as error:
                raise Refused(f"{error} in {name}") from error
    types = documents["schema.json"]["types"]
    unique([entry["name"] for entry in types], WHY + " a type twice")
    for entry in types:
        names = [field["name"] for field in entry["fields"]]
        unique(names, WHY + " a field twice")
        need(set(entry["key"]) <= set(names), WHY + " a key that is no field")
