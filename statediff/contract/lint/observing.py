"""Checks of whether what a clause needs is observed: by which source, when, and under which ν."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from statediff.contract.binding.bound import Pattern
from statediff.contract.language.kinds import suggest
from statediff.contract.language.syntax import (
    AnswerOf,
    Call,
    Canonical,
    Compare,
    Const,
    FieldOf,
    Node,
    ScalarT,
    Variable,
    walk,
)
from statediff.contract.language.written import written
from statediff.contract.lint.subject import PASSING, Expression, Subject
from statediff.errors import Problem
from statediff.model.delta import MESSAGE_TYPES
from statediff.model.schema import Kind

PROSE: Final = frozenset(
    [
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
        "subject",
        "summary",
        "text",
        "title",
    ]
)
"""Names of fields that hold prose."""

_TESTS: Final = ("contains", "matches", "starts_with", "ends_with")
_OPAQUE: Final = "opaque@"
_HISTORY: Final = ("always", "effect")
"""Keys of clauses that look between the ends of a run."""


def observing(subject: Subject) -> Iterator[Problem]:
    """What no source delivers, what ν leaves nothing of, and tests of prose."""
    yield from _sources(subject)
    yield from _history(subject)
    yield from _copies(subject)
    yield from _opaque(subject)
    for expression in subject.expressions():
        if expression.section in PASSING:
            yield from _prose(subject, expression)


def _delivering(subject: Subject) -> tuple[str, ...]:
    return tuple(source for source, _ in subject.contract.schema.sources)


def _sources(subject: Subject) -> Iterator[Problem]:
    schema = subject.contract.schema
    there = _delivering(subject)
    listed = [rule.source for rule in subject.contract.evidence]
    if subject.base is not None:
        for source in listed:
            if source not in there:
                yield subject.remark(
                    "unknown-source", ("evidence", source),
                    f"`{source}` must report before and after the run, and nothing at hand reads "
                    "it: every trial would be INCONCLUSIVE",
                    suggest(source, there) or f"there are: {', '.join(there)}",
                )  # fmt: skip
    if not listed:
        return
    said: set[str] = set()
    for clause in subject.clauses():
        for name in sorted({read.type for read in clause.reads if read.type}):
            sources = schema.sources_of(name)
            if not sources or set(sources) & set(listed) or sources[0] in said:
                continue
            said.add(sources[0])
            yield subject.remark(
                "unlisted-source", subject.path(clause.id),
                f"`{clause.id}` reads {name} from {sources[0]}, which need not report before or "
                "after the run",
                f"add `{sources[0]}: {{max_age: …}}` under `evidence`",
            )  # fmt: skip


def _history(subject: Subject) -> Iterator[Problem]:
    schema = subject.contract.schema
    for clause in subject.clauses():
        written_ = subject.written(clause.id)
        asks = getattr(clause, "during_run", False) or any(k in written_ for k in _HISTORY)
        attributed = isinstance(clause, Pattern) and clause.by is not None
        if not asks and not attributed:
            continue
        types = sorted({read.type for read in clause.reads if read.type})
        sources = sorted({source for name in types for source in schema.sources_of(name)})
        # A history tells what was committed, not by whom: it attributes nothing to a principal.
        without = [s for s in sources if attributed or s not in subject.histories]
        if without:
            key = next((k for k in (*_HISTORY, "during") if k in written_), "by")
            need = "what happened between" if asks else "who made each change in between"
            yield subject.remark(
                "no-history", (*subject.path(clause.id), key),
                f"`{clause.id}` needs {need}; {', '.join(without)} does not tell that",
            )  # fmt: skip
    for rule in subject.contract.evidence:
        if rule.needs_history and rule.source not in subject.histories:
            yield subject.remark(
                "no-history", ("evidence", rule.source, "history"),
                f"{rule.source} is read before and after the run only",
            )  # fmt: skip


def _copies(subject: Subject) -> Iterator[Problem]:
    """A copy replays only if it shows what every source delivered; unsaid, that is auditors'."""
    document = subject.contract.document
    rules = document.evidence
    closed = [
        source for source in _delivering(subject)
        if source not in rules or rules[source].disclose == "auditor"
    ]  # fmt: skip
    for verdict, tier in document.replayable.items():
        if tier == "reviewer" and closed:
            yield subject.remark(
                "not-replayable", ("replayable", verdict),
                f"a reviewer's copy must suffice for {verdict}, and only auditors see what "
                f"{', '.join(closed)} delivers",
            )  # fmt: skip


def _opaque(subject: Subject) -> Iterator[Problem]:
    """`opaque@1` makes all values of a field equal, so a comparison with one says nothing."""
    hidden = {
        place
        for rule in subject.contract.document.canonicalize
        if rule.use.startswith(_OPAQUE)
        for target in rule.on
        for place in ((target,) if isinstance(target, str) else target)
    }
    if not hidden:
        return
    for expression in subject.expressions():
        for part in walk(expression.node):
            for field in _compared(part):
                if f"{field.entity_type}.{field.field}" in hidden:
                    yield _blind(subject, expression, field)
    for pattern in subject.patterns():
        for name in pattern.types:
            for index, field_name in enumerate(pattern.fields or ()):
                if f"{name}.{field_name}" in hidden:
                    yield subject.remark(
                        "opaque-comparison", (*subject.path(pattern.id), "fields", index),
                        f"changes of {name}.{field_name} from one value to another are not seen",
                    )  # fmt: skip


def _blind(subject: Subject, expression: Expression, field: FieldOf) -> Problem:
    return subject.remark(
        "opaque-comparison", expression.path,
        f"`{written(field)}` equals any value under ν, so the comparison says nothing",
        offset=field.offset,
    )  # fmt: skip


def _compared(node: Node) -> Iterator[FieldOf]:
    if not isinstance(node, Compare):
        return
    sides = [n.child if isinstance(n, Canonical) else n for n in (node.left, node.right)]
    if not any(isinstance(side, Const) and side.value is None for side in sides):
        yield from (side for side in sides if isinstance(side, FieldOf))


def _prose(subject: Subject, expression: Expression) -> Iterator[Problem]:
    for part in walk(expression.node):
        if not isinstance(part, Call) or part.name not in _TESTS:
            continue
        tested = part.arguments[0]
        if _is_prose(tested):
            yield subject.remark(
                "prose-test", expression.path,
                f"`{written(part)}`: a right run can say it in other words, a wrong one in these",
                offset=part.offset,
            )  # fmt: skip


def _is_prose(node: Node) -> bool:
    match node:
        case Canonical(child=child):
            return _is_prose(child)
        case AnswerOf(type=ScalarT(kind=Kind.TEXT)) | Variable(name="reply"):
            return True
        case FieldOf(entity_type=entity, field=name):
            return name in PROSE or (entity in MESSAGE_TYPES and name not in ("to", "sender"))
        case _:
            return False
