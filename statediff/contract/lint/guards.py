"""Checks of what can be undefined: order and arithmetic on null, fields of what is not there.

A guard counts where it stands to the left, in the same conjunction, or in a comprehension's `if`.
What is fixed by the base state (a field of `before.TYPE[KEY]` with a key of the contract) is looked
up there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from statediff.contract.evaluation.evaluate import evaluate
from statediff.contract.language.context import EvalContext, Undefined, Unknown
from statediff.contract.language.syntax import (
    And,
    Arithmetic,
    Call,
    Canonical,
    Compare,
    Comprehension,
    Const,
    Entities,
    FieldOf,
    Follow,
    InputOf,
    Lookup,
    Node,
    Not,
    Or,
    Reaches,
    Variable,
    children,
    walk,
)
from statediff.contract.language.written import text_of
from statediff.contract.lint.subject import PASSING, Expression, Subject
from statediff.errors import Problem
from statediff.model.trace import NoAnswer
from statediff.model.values import Absent

_ORDER: Final = ("<", "<=", ">", ">=")
_TESTS: Final = (
    *("contains", "starts_with", "ends_with", "matches", "search", "within", "len"),
    *("date", "lower", "timestamp"),
)
_NOT_NULL: Final = " != null"
Known = frozenset[str]


@dataclass(frozen=True)
class Gap:
    """Something that can be undefined: the node, why, and the guard to write."""

    node: Node
    why: str
    guard: str


def guards(subject: Subject) -> Iterator[Problem]:
    """Every place where undefined is possible and nothing guards it; each guard asked for once."""
    where_of: dict[tuple[str, str | None], Known] = {}
    said: set[tuple[str, str]] = set()
    for expression in subject.expressions():
        key = (expression.clause, expression.type)
        known = where_of.get(key, frozenset())
        if expression.key == "where":
            where_of[key] = _if_true(expression.node)
        finder = _Finder(subject, passing=expression.section in PASSING)
        for gap in finder.find(expression.node, known):
            if (expression.clause, gap.guard) in said:
                continue
            said.add((expression.clause, gap.guard))
            yield _remark(subject, expression, gap)


def _remark(subject: Subject, expression: Expression, gap: Gap) -> Problem:
    code = "undefined-fails" if expression.section in PASSING else "unguarded"
    if gap.guard == "":
        return subject.remark("absent-before", expression.path, gap.why, offset=gap.node.offset)
    hint = f"write `{gap.guard} and …` before it"
    if expression.section == "forbid" and gap.guard.endswith(_NOT_NULL):
        code, place = "unguarded-null", gap.guard.removesuffix(_NOT_NULL)
        hint += f", or `{place} == null or …` if null is forbidden, too"
    message = f"`{text_of(gap.node)}`: {gap.why}"
    return subject.remark(code, expression.path, message, hint, offset=gap.node.offset)


def _if_true(node: Node) -> Known:
    """The things that are certainly there, and not null, where the expression holds."""
    match node:
        case And(parts=parts):
            return frozenset().union(*(_if_true(part) for part in parts))
        case Not(child=child):
            return _if_false(child)
        case Compare(op="!=", left=left, right=Const(value=None)):
            return frozenset({text_of(left)})
        case Compare(op="==" | "in", left=left, right=right) if not _maybe_null(right):
            return frozenset({text_of(left)})
        case Compare(op=op, left=left, right=right) if op in _ORDER:
            return frozenset({text_of(left), text_of(right)})
        case Call(name="exists", arguments=(entity,)):
            return frozenset({text_of(entity)})
        case _:
            return frozenset()


def _if_false(node: Node) -> Known:
    match node:
        case Or(parts=parts):
            return frozenset().union(*(_if_false(part) for part in parts))
        case Not(child=child):
            return _if_true(child)
        case Compare(op="==", left=left, right=Const(value=None)):
            return frozenset({text_of(left)})
        case _:
            return frozenset()


def _maybe_null(node: Node) -> bool:
    match node:
        case Canonical(child=child):
            return _maybe_null(child)
        case Const(value=value) | InputOf(value=value):
            return value is None
        case FieldOf(is_nullable=is_nullable):
            return is_nullable
        case _:
            return False


@dataclass(frozen=True)
class _Finder:
    subject: Subject
    passing: bool

    def find(self, node: Node, known: Known) -> Iterator[Gap]:
        match node:
            case And(parts=parts) | Or(parts=parts):
                learn = _if_true if isinstance(node, And) else _if_false
                for part in parts:
                    yield from self.find(part, known)
                    known |= learn(part)
                return
            case Comprehension(element=element, loops=loops):
                for loop in loops:
                    yield from self.find(loop.source, known)
                    for condition in loop.conditions:
                        yield from self.find(condition, known)
                        known |= _if_true(condition)
                yield from self.find(element, known)
                return
            case Compare(op=op, left=left, right=right) if op in _ORDER:
                yield from self._values((left, right), known, "null has no order")
            case Arithmetic(left=left, right=right):
                yield from self._values((left, right), known, "nothing can be computed with null")
            case Call(name=name, arguments=arguments) if name in _TESTS or (
                name == "count" and len(arguments) == 2
            ):
                yield from self._values(arguments, known, f"{name}(…) of null is undefined")
            case Call(name="sum" | "min" | "max", arguments=(Comprehension() as body,)):
                inner = known
                for loop in body.loops:
                    for condition in loop.conditions:
                        inner |= _if_true(condition)
                yield from self._values((body.element,), inner, "null cannot be aggregated")
            case FieldOf(entity=holder):
                yield from self._holder(node, holder, known)
            case Reaches(start=start, goal=goal):
                yield from self._holder(node, start, known)
                yield from self._holder(node, goal, known)
            case _:
                pass
        for child in children(node):
            yield from self.find(child, known)

    def _values(self, nodes: tuple[Node, ...], known: Known, why: str) -> Iterator[Gap]:
        for node in nodes:
            text = text_of(node)
            if self._can_be_null(node) and text not in known:
                yield Gap(node, f"it may be null, and {why}", text + _NOT_NULL)

    def _can_be_null(self, node: Node) -> bool:
        """Nobody is bothered where the schema only lists names, so that nothing is known."""
        if isinstance(node, FieldOf):
            entity = self.subject.contract.schema.by_name.get(node.entity_type)
            if entity is None or entity.is_open:
                return False
        return _maybe_null(node) and not self._settled(node)

    def _holder(self, node: Node, holder: Node, known: Known) -> Iterator[Gap]:
        text = text_of(holder)
        if text in known:
            return
        if isinstance(holder, Follow):
            if self._can_be_null(holder.reference):
                yield Gap(node, f"{text} may be null", text + _NOT_NULL)
        elif isinstance(holder, Lookup):
            if self._found(holder) == "absent":
                yield Gap(node, f"the base state has no {text.removeprefix('before.')}", "")
            elif not self.passing and not self._settled(holder):
                yield Gap(node, f"{text} may not be there", f"exists({text})")

    def _settled(self, node: Node) -> bool:
        """True if the base state fixes it, and it is there and not null."""
        return self._found(node) not in (None, "absent", "unknown")

    def _found(self, node: Node) -> str | None:
        """The value in the base state: `there`, None (null), `absent`, or else `unknown`."""
        base = self.subject.base
        if not _is_fixed(node):
            return "unknown"
        if base is None:
            return "assumed"  # a state would tell; without one nobody is bothered
        fields = self._fields(node)
        context = EvalContext(base, base, NoAnswer("none"), fields_of=lambda t: fields.get(t, ()))
        try:
            found = evaluate(node, context, {})
        except KeyError:
            return "unknown"
        if isinstance(found, Unknown):
            return "unknown"
        if isinstance(found, (Absent, Undefined)):
            return "absent"
        return None if found is None else "there"

    def _fields(self, node: Node) -> dict[str, tuple[str, ...]]:
        schema = self.subject.contract.schema.by_name
        return {
            part.entity_type: tuple(schema[part.entity_type].by_name)
            for part in walk(node)
            if isinstance(part, FieldOf) and part.entity_type in schema
        }


def _is_fixed(node: Node) -> bool:
    """True if it is a look at the state before by keys that the contract fixes."""
    return all(
        isinstance(part, (Const, InputOf, Canonical, Lookup, FieldOf, Follow))
        or (isinstance(part, Entities) and part.root == "before")
        for part in walk(node)
    ) and not any(isinstance(part, Variable) for part in walk(node))
