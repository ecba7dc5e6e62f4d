"""Checks of whether a clause can decide anything: constants, contradictions, the base state."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from statediff.contract.binding.bound import Condition, Pattern
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import TRUE, EntityRef, EvalContext, TooCostly, Unknown
from statediff.contract.language.syntax import (
    AnswerOf,
    Compare,
    Entities,
    FieldOf,
    Node,
    Variable,
    walk,
)
from statediff.contract.language.written import UNSAID, written
from statediff.contract.lint.facts import Fact, clash, facts
from statediff.contract.lint.subject import Subject
from statediff.errors import Problem
from statediff.model.delta import Op
from statediff.model.schema import Kind
from statediff.model.trace import NoAnswer
from statediff.model.verdict import Stage, Truth

MAX_ENTITIES: Final = 50_000
"""Of a larger type the base state is not searched; lint stays quick."""


def truth(subject: Subject) -> Iterator[Problem]:
    """Clauses whose truth no run, or no state, can change."""
    for clause in subject.clauses():
        path = subject.path(clause.id)
        if isinstance(clause, Pattern):
            yield from _never_fails(subject, clause)
            yield from _never_matches(subject, clause)
            yield from _matches_nothing(subject, clause)
        elif isinstance(clause, Condition):
            yield from _condition(subject, clause)
        holds = subject.null.get(clause.id)
        if holds is Truth.HOLDS and getattr(clause, "section", None) is Stage.REQUIRE:
            yield subject.remark(
                "already-holds", path, f"`{clause.id}` holds before anything happens"
            )
        is_condition = isinstance(clause, Condition) and clause.section is Stage.FORBID
        if holds is Truth.FAILS and is_condition:
            yield subject.remark(
                "already-forbidden", path,
                f"`{clause.id}` is so before anything happens: every run would DIVERGE",
            )  # fmt: skip


def _never_fails(subject: Subject, clause: Pattern) -> Iterator[Problem]:
    unbounded = clause.low == 0 and clause.high is None and not clause.is_every
    if clause.section is Stage.REQUIRE and unbounded and not any(clause.that.values()):
        yield subject.remark(
            "never-fails", (*subject.path(clause.id), "count"),
            f"`{clause.id}` asks for none or more: any number will do",
        )  # fmt: skip


def _never_matches(subject: Subject, clause: Pattern) -> Iterator[Problem]:
    for name in clause.types:
        known = facts(clause, name)
        found = next(
            ((a, b) for i, a in enumerate(known) for b in known[i + 1 :] if clash(a, b)), None
        )
        path = (*subject.path(clause.id), "where")
        if found is not None:
            yield subject.remark(
                "never-matches", path, f"`{found[0].text}` and `{found[1].text}` exclude each other"
            )
            return
        for fact in known:
            reason = _impossible(subject, fact)
            if reason:
                yield subject.remark(
                    "never-matches", path, f"`{fact.text}` is never so: {reason}",
                    "compare with a value that the field can have",
                )  # fmt: skip
                return


def _impossible(subject: Subject, fact: Fact) -> str:
    """Why no value of the field's type satisfies an equality; empty where one may."""
    node = fact.subject
    if fact.op != "==" or not isinstance(node, FieldOf) or node.part:
        return ""
    # A reference that leads nowhere is null whatever the field says, so only the entity itself.
    if not isinstance(node.entity, Variable):
        return ""
    entity = subject.contract.schema.by_name.get(node.entity_type)
    spec = None if entity is None else entity.by_name.get(node.field)
    if spec is None:
        return ""
    value = fact.values[0]
    if value is None and not spec.is_nullable:
        return f"{node.entity_type}.{node.field} is never null"
    if isinstance(value, Decimal) and spec.kind is Kind.INT and value != value.to_integral_value():
        return f"{node.entity_type}.{node.field} holds whole numbers"
    return ""


def _matches_nothing(subject: Subject, clause: Pattern) -> Iterator[Problem]:
    """A required update or deletion whose `where` no entity of the base state satisfies."""
    base = subject.base
    old = {Op.UPDATE, Op.DELETE, Op.UNLINK}
    if base is None or clause.section is not Stage.REQUIRE or not clause.operations <= old:
        return
    if clause.low == 0 and not clause.is_every:
        return
    for name in clause.types:
        node = clause.where.get(name)
        entity = subject.contract.schema.by_name[name]
        if node is None or entity.is_keyless:
            return
        needed = _fields(subject, clause)

        def fields_of(
            type_name: str, known: dict[str, tuple[str, ...]] = needed
        ) -> tuple[str, ...]:
            return known.get(type_name, ())

        new = Unknown(frozenset({"not yet"}), maybe_undefined=True)
        try:
            for number, (key, row) in enumerate(base.rows(name, needed[name])):
                context = EvalContext(base, base, NoAnswer("none"), fields_of=fields_of)
                it = EntityRef("before", name, key, row)
                if number > MAX_ENTITIES or outcomes(node, context, {"it": it, "new": new}) & TRUE:
                    return
        except (TooCostly, KeyError):
            return
    yield subject.remark(
        "matches-nothing", (*subject.path(clause.id), "where"),
        f"no {' or '.join(clause.types)} of the base state is meant by `where`",
    )  # fmt: skip


def _fields(subject: Subject, clause: Pattern) -> dict[str, tuple[str, ...]]:
    """Per type, its key and whatever the clause reads of it."""
    read: dict[str, dict[str, None]] = {}
    for entity in subject.contract.schema.types:
        if entity.name in clause.types or any(r.type == entity.name for r in clause.reads):
            names = sorted(r.field for r in clause.reads if r.type == entity.name)
            wanted = (*entity.key, *(n for n in names if n in entity.by_name))
            read[entity.name] = dict.fromkeys(wanted)
    return {name: tuple(held) for name, held in read.items()}


def _condition(subject: Subject, clause: Condition) -> Iterator[Problem]:
    path = subject.path(clause.id)
    section = subject.section(clause.id)
    roots = {read.root for read in clause.reads}
    where = (*path, "that") if (*path, "that") in subject.source.positions else path
    trivial = next((p for p in walk(clause.node) if _is_trivial(p)), None)
    if not roots - {"input"}:
        yield subject.remark("constant-clause", where, f"`{clause.text[:80]}` reads no state")
    elif trivial is not None:
        yield subject.remark(
            "constant-clause", where, f"`{written(trivial)}` compares a thing with itself",
            offset=trivial.offset,
        )  # fmt: skip
    elif clause.section is Stage.REQUIRE and not _reads_the_run(clause):
        yield subject.remark(
            "fixed-before-run", where, f"`{clause.id}` reads only what was so before the run"
        )
    if clause.section is Stage.ANSWER and section == "claims" and "answer" not in roots:
        yield subject.remark("claim-without-answer", where, f"`{clause.id}` reads no answer")


def _reads_the_run(clause: Condition) -> bool:
    # By what is written: the footprint of a variable counts for both sides.
    return any(
        (isinstance(part, Entities) and part.root != "before")
        or isinstance(part, AnswerOf)
        or (isinstance(part, Variable) and part.name == "new")
        for part in walk(clause.node)
    )


def _is_trivial(node: Node) -> bool:
    return (
        isinstance(node, Compare)
        and node.op in ("==", "!=", "<=", ">=", "<", ">")
        and written(node.left) == written(node.right)
        and UNSAID not in written(node.left)
    )
