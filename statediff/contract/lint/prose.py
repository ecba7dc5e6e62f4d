"""Text for people: a part of it that is tested, and one that is required and that nobody reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from statediff.contract.clauses.patterns import Pattern
from statediff.contract.language.syntax import (
    AnswerOf,
    Call,
    Canonical,
    FieldOf,
    Node,
    ScalarT,
    Variable,
    walk,
)
from statediff.contract.language.written import asks_for_words, says_something, text_of
from statediff.contract.lint.subject import MAX_ENTITIES, PASSING, Expression, Subject
from statediff.errors import Problem
from statediff.model.delta import Op
from statediff.model.schema import EntityType, Field, Kind, Purpose
from statediff.model.verdict import Stage

HEADINGS: Final = frozenset({"subject", "summary", "title"})
"""Names of fields that head a text."""
TEXTS: Final = frozenset(
    {
        "answer",
        "body",
        "comment",
        "content",
        "description",
        "explanation",
        "message",
        "note",
        "notes",
        "reason",
        "reply",
        "text",
    }
)
"""Names of fields that hold a text, and of things that are one."""
PROSE: Final = HEADINGS | TEXTS
"""Names of fields that hold prose."""

_EXACT: Final = frozenset({"to", "sender", "name", "type", "disposition", "addresses"})
"""Names of fields of mail that hold no prose."""

_TESTS: Final = ("contains", "matches", "search", "starts_with", "ends_with")
_INSTEAD: Final = {
    "said": "claim a fact: name it under `answer: schema:`, or read it from prose by `extract:`",
    "kept": "compare the whole text, such as `new.F == it.F + …`; or claim the fact in the answer",
}
"""The replacement of a test of prose, by where the prose is."""


def prose(subject: Subject) -> Iterator[Problem]:
    """Tests of a part of prose, and required text of which an empty one passes."""
    for expression in subject.expressions():
        if expression.section in PASSING:
            yield from _tested(subject, expression)
    reads = tuple(_reads(subject))
    for pattern in subject.patterns():
        if pattern.section is Stage.REQUIRE and pattern.operations <= {Op.CREATE, Op.LINK}:
            read = {place for by, place in reads if by in ("", pattern.id)}
            yield from _unread(subject, pattern, read)


def is_text_for_people(entity: EntityType, field: Field) -> bool:
    """True if the field, by its name and kind, holds what somebody is to read."""
    is_free = field.name not in entity.key and field.reference is None
    return is_free and field.kind in (Kind.TEXT, Kind.ANY) and field.name in PROSE


# ---------------------------------------------------------------- a part of it


def _tested(subject: Subject, expression: Expression) -> Iterator[Problem]:
    for part in walk(expression.node):
        if not isinstance(part, Call) or part.name not in _TESTS or asks_for_words(part):
            continue
        tested = part.arguments[0]
        if _is_prose(tested, subject):
            yield subject.remark(
                "prose-test",
                expression.path,
                f"`{text_of(part)}`: a right run can say it in other words, a wrong one in these",
                _INSTEAD["said" if isinstance(tested, AnswerOf | Variable) else "kept"],
                offset=part.offset,
            )


def _is_prose(node: Node, subject: Subject) -> bool:
    match node:
        case Canonical(child=child):
            return _is_prose(child, subject)
        case AnswerOf(type=ScalarT(kind=Kind.TEXT), name=name):
            return name not in subject.contract.document.answer.extractors
        case Variable(name="reply"):
            return True
        case FieldOf(entity_type=entity, field=name):
            spec = subject.contract.schema.by_name.get(entity)
            is_message = spec is not None and spec.purpose is Purpose.MESSAGES
            return name in PROSE or (is_message and name not in _EXACT)
        case _:
            return False


# ---------------------------------------------------------------- all of it


def _reads(subject: Subject) -> Iterator[tuple[str, tuple[str, str]]]:
    """(clause, (type, field)) of what is read or pinned.

    The clause is named where only what it matches itself is spoken of, and left empty where the
    words bind every entity of the type.
    """
    matching = {pattern.id for pattern in subject.patterns() if pattern.section is not Stage.FORBID}
    for expression in subject.expressions():
        for part in walk(expression.node):
            if not isinstance(part, FieldOf):
                continue
            is_own = isinstance(part.entity, Variable) and part.entity.name in ("it", "new")
            by = expression.clause if is_own and expression.clause in matching else ""
            yield by, (part.entity_type, part.field)
    for pattern in subject.patterns():
        for name, pins in pattern.pins.items():
            yield from ((pattern.id, (name, p.path.field)) for p in pins if p.key == "set")


def _unread(subject: Subject, pattern: Pattern, read: set[tuple[str, str]]) -> Iterator[Problem]:
    """A thing of words is required, and none of its words is looked at."""
    if pattern.low == 0:
        return
    for name in pattern.types:
        entity = subject.contract.schema.by_name[name]
        texts = [
            each
            for each in _texts(subject, entity)
            if not pattern.names_fields or each.name in (pattern.fields or ())  # else it stays null
        ]
        if not texts or any((name, each.name) in read for each in texts):
            continue
        meant = [each for each in texts if _is_meant(subject, entity, each)]
        if meant:
            said, first = " or ".join(each.name for each in meant), meant[0]
            asked = says_something(f"it.{first.name}", is_nullable=first.is_nullable)
            yield subject.remark(
                "unread-text",
                subject.path(pattern.id),
                f"`{pattern.id}` requires a {name}, and no clause reads its {said}: one that says "
                "nothing passes",
                f"add `{asked}` to `where`, or pin the text under `set`",
            )


def _texts(subject: Subject, entity: EntityType) -> list[Field]:
    """The fields for people within the boundary; headings only where there is nothing else."""
    fields = [
        each
        for each in entity.fields
        if is_text_for_people(entity, each)
        and subject.contract.excluded(entity.name, each.name) is None
    ]
    return [each for each in fields if each.name not in HEADINGS] or fields


def _is_meant(subject: Subject, entity: EntityType, field: Field) -> bool:
    """True if the entity is nothing without the text, by its type and by those that are there."""
    is_text = entity.name.rpartition(".")[2].rpartition("_")[2] in PROSE
    if field.is_nullable and not is_text and entity.purpose is not Purpose.MESSAGES:
        return False
    held = [
        isinstance(each, str) and bool(each.strip()) for each in _column(subject, entity, field)
    ]
    return not held or sum(held) * 2 > len(held)


def _column(subject: Subject, entity: EntityType, field: Field) -> Iterable[object]:
    base = subject.base
    if base is None or entity.name not in base.schema.by_name:
        return
    for number, (_, row) in enumerate(base.rows(entity.name, (field.name,))):
        if number == MAX_ENTITIES:
            return
        yield row.get(field.name)
