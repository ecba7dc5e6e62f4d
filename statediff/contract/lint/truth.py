"""Checks of what a clause can decide: nothing at all, or more than its author meant.

1. `facts`: what a pattern's conditions say of single values, and whether two of them can be so.
2. `width`: what is let through: too wide, contradictory, unauthorized.
3. `truth`: constants, contradictions, and what the base state has fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from operator import ge, gt, le, lt
from typing import Any, Final, TypeGuard

from statediff.contract.clauses.kind import RELATIONS
from statediff.contract.clauses.patterns import Condition, Pattern
from statediff.contract.language.syntax import (
    AnswerOf,
    Call,
    Canonical,
    Compare,
    Const,
    Entities,
    FieldOf,
    InputOf,
    Items,
    Node,
    Not,
    Or,
    RunOf,
    Variable,
    walk,
)
from statediff.contract.language.written import UNSAID, conjuncts, text_of
from statediff.contract.lint.base import equals, of_the_base
from statediff.contract.lint.subject import Subject, branch_of
from statediff.errors import Problem
from statediff.model.delta import Op
from statediff.model.schema import MAIL_TYPES, Kind
from statediff.model.values import Value, same
from statediff.model.verdict import Stage, Truth

# ---------------------------------------------------------------- facts

_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip
_MIRROR: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED: Final = {"==": "!=", "!=": "==", "in": "not in", "not in": "in"}


@dataclass(frozen=True)
class Fact:
    """`subject op value`, the value known from the contract; for `in` there are several values."""

    subject: Node
    name: str
    op: str
    values: tuple[Value, ...]
    text: str


def conditions(pattern: Pattern, type_name: str) -> tuple[Node, ...]:
    """Everything a pattern asks of one entity, as conditions that must all hold."""
    found = list(conjuncts(pattern.where.get(type_name)))
    for key, path, node in pattern.pins.get(type_name, ()):
        found.append(equals("it" if key == "from" else "new", type_name, path, node))
    that = pattern.that.get(type_name)
    if that is not None:
        names = {n.name for n in _variables(that)}
        if names & {"it", "new"} and "them" not in names:
            found += conjuncts(that)
    return tuple(found)


def _variables(node: Node) -> Iterable[Variable]:
    return (part for part in walk(node) if isinstance(part, Variable))


def facts(pattern: Pattern, type_name: str) -> tuple[Fact, ...]:
    """Those conditions of a pattern that compare something with a value known beforehand."""
    found: list[Fact] = []
    for node in conditions(pattern, type_name):
        fact = _fact(node)
        if fact is not None:
            found.append(fact)
    return tuple(found)


def _fact(node: Node) -> Fact | None:
    flip = isinstance(node, Not)
    if isinstance(node, Not):
        node = node.child
    if isinstance(node, Call) and node.name == "starts_with" and not flip:
        text, prefix = node.arguments
        beginnings = _values(prefix)
        if beginnings is None or not isinstance(beginnings[0], str):
            return None
        return Fact(text, text_of(text), "starts_with", beginnings, text_of(node))
    if not isinstance(node, Compare) or (flip and node.op not in _NEGATED):
        return None
    op = _NEGATED[node.op] if flip else node.op
    left, right = node.left, node.right
    if op not in ("in", "not in") and (_is_list(left) or _is_list(right)):
        return None  # its values are the parts of one list, not alternatives
    if (values := _values(right)) is not None and _values(left) is None:
        subject = left
    elif op in _MIRROR and (values := _values(left)) is not None and _values(right) is None:
        subject, op = right, _MIRROR[op]
    else:
        return None
    name = text_of(subject)
    return None if UNSAID in name else Fact(subject, name, op, values, text_of(node))


def _is_list(node: Node) -> bool:
    match node:
        case Canonical(child=child):
            return _is_list(child)
        case Const(value=value) | InputOf(value=value):
            return isinstance(value, tuple)
        case _:
            return isinstance(node, Items)


def _values(node: Node) -> tuple[Value, ...] | None:
    match node:
        case Canonical(child=child):
            return _values(child)
        case Const(value=value) | InputOf(value=value):
            return value if isinstance(value, tuple) else (value,)
        case Items(items=items):
            each = [_values(item) for item in items]
            return None if None in each else tuple(v for values in each for v in values or ())
        case _:
            return None


def clash(a: Fact, b: Fact) -> bool:
    """True if the two cannot both be so. False where it cannot be known."""
    if a.name != b.name:
        return False
    for known, other in ((a, b), (b, a)):
        if known.op in ("==", "in") and not any(_fits(value, other) for value in known.values):
            return True
    if a.op == b.op == "starts_with":
        one, two = str(a.values[0]), str(b.values[0])
        return not one.startswith(two) and not two.startswith(one)
    return _apart(a, b) or _apart(b, a)


def _fits(value: Value, fact: Fact) -> bool:
    if fact.op in ("==", "in"):
        return any(_equal(value, other) for other in fact.values)
    if fact.op in ("!=", "not in"):
        return not any(_equal(value, other) for other in fact.values)
    bound = fact.values[0]
    if fact.op == "starts_with":
        return isinstance(value, str) and value.startswith(str(bound))
    if not (_is_number(value) and _is_number(bound)):
        return True
    return _ORDER[fact.op](value, bound)


def _apart(low: Fact, high: Fact) -> bool:
    """`x < 3` and `x > 5`."""
    if low.op not in ("<", "<=") or high.op not in (">", ">="):
        return False
    least, most = high.values[0], low.values[0]
    if not (_is_number(least) and _is_number(most)):
        return False
    return least > most or (least == most and not (low.op == "<=" and high.op == ">="))


def _is_number(value: Value) -> TypeGuard[int | Decimal]:
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def _equal(a: Value, b: Value) -> bool:
    if _is_number(a) and _is_number(b):
        return a == b
    return same(a, b)


# ---------------------------------------------------------------- width

_VERB = {
    Op.CREATE: "create",
    Op.LINK: "create",
    Op.UPDATE: "update",
    Op.DELETE: "delete",
    Op.UNLINK: "delete",
}


def width(subject: Subject) -> Iterator[Problem]:
    """Remarks on changes that are let through and that the author may not have meant."""
    patterns = tuple(subject.patterns())
    explaining = [p for p in patterns if p.section is not Stage.FORBID]
    is_run = subject.source.value.get("sandbox") is not None
    if is_run and not (subject.contract.asks_how_it_ended or subject.contract.needs_answer):
        # An answer is the agent's word that it is done: one that hangs first has given none.
        yield subject.remark("end-unasked", ("contract",), "nothing asks how the run ended")
    for pattern in explaining:
        yield from _too_much(subject, pattern)
        yield from _whole_objects(subject, pattern)
        yield from _carried(subject, pattern)
    for forbidden in (p for p in patterns if p.section is Stage.FORBID):
        for pattern in explaining:
            branches = {branch_of(forbidden.id), branch_of(pattern.id)} - {""}
            if len(branches) < 2:  # what one branch forbids another may require
                yield from _overlap(subject, forbidden, pattern)


def _too_much(subject: Subject, pattern: Pattern) -> Iterator[Problem]:
    """A pattern that explains every change of its kind, whatever entity and field it concerns."""
    if pattern.section is Stage.REQUIRE and pattern.high is not None:
        yield from _any_entity(subject, pattern)
        return  # it explains so many and no more
    for name in pattern.types:
        if conditions(pattern, name):
            return
    if pattern.operations <= {Op.CREATE, Op.LINK} and pattern.high is not None:
        return
    if pattern.high is not None and pattern.fields is not None:
        return
    written_ = subject.written(pattern.id)
    verb = next((op for op in ("any", *_VERB.values(), *RELATIONS) if op in written_), "any")
    kind = "change" if verb == "any" else verb
    only = f" in {', '.join(pattern.fields)}" if pattern.fields else ""
    bound = " and a `count`" if pattern.operations <= {Op.CREATE, Op.LINK} else ""
    yield subject.remark(
        "explains-too-much",
        subject.path(pattern.id),
        f"`{pattern.id}` explains every {kind} of {' or '.join(pattern.types)}{only}",
        f"say which entities are meant: `where: it.KEY == input.NAME`{bound}",
    )


def _any_entity(subject: Subject, pattern: Pattern) -> Iterator[Problem]:
    """A required change of entities that were there, and of any of them."""
    is_said = any(conditions(pattern, name) or pattern.that.get(name) for name in pattern.types)
    if is_said or not pattern.operations & {Op.UPDATE, Op.DELETE}:
        return
    yield subject.remark(
        "explains-too-much",
        subject.path(pattern.id),
        f"`{pattern.id}` is met by any {' or '.join(pattern.types)}, and says nothing of it",
        "say which one is meant, `where: it.KEY == input.NAME`, and what becomes of it under `set`",
    )


def _whole_objects(subject: Subject, pattern: Pattern) -> Iterator[Problem]:
    """A pattern that explains whatever changes inside an object."""
    if pattern.fields is None or Op.UPDATE not in pattern.operations:
        return
    inside = {name for name, _ in pattern.places}
    for name in pattern.types:
        by_name = subject.contract.schema.by_name[name].by_name
        pinned = {p.path.field for p in pattern.pins[name] if p.key == "set" and not p.path.steps}
        for field in pattern.fields:
            kind = by_name[field].kind if field in by_name else None
            if kind in (Kind.JSON, Kind.MAP) and field not in inside | pinned:
                yield subject.remark(
                    "explains-too-much",
                    subject.path(pattern.id),
                    f"`{pattern.id}` explains every change inside {name}.{field}",
                    f"name the places that may change: `fields: [{field}.KEY]`, or pin them: "
                    f"`set: {{{field}.KEY: VALUE}}`",
                )


def _carried(subject: Subject, pattern: Pattern) -> Iterator[Problem]:
    """A message that is explained while no clause says what one may carry beside its text."""
    sent = MAIL_TYPES & set(pattern.types)
    if not sent or Op.CREATE not in pattern.operations:
        return
    said = {read.type for clause in subject.clauses() for read in clause.reads}
    unsaid = sorted((MAIL_TYPES & subject.contract.schema.by_name.keys()) - said)
    if unsaid:
        yield subject.remark(
            "unsaid-parts",
            subject.path(pattern.id),
            f"`{pattern.id}` explains a {min(sent)}, and no clause says anything of "
            f"{' or '.join(unsaid)}",
            f"`forbid: - {{create: [{', '.join(unsaid)}]}}`, or allow those that are meant",
        )


def _overlap(subject: Subject, forbidden: Pattern, other: Pattern) -> Iterator[Problem]:
    types = [t for t in other.types if t in forbidden.types]
    operations = forbidden.operations & other.operations
    if not types or not operations or (forbidden.by and other.by and forbidden.by != other.by):
        return
    a, b = forbidden.fields, other.fields
    if Op.UPDATE in operations and a is not None and b is not None and not set(a) & set(b):
        operations -= {Op.UPDATE}
    if not operations or all(_disjoint(forbidden, other, name) for name in types):
        return
    path = subject.path(other.id)
    verb = "allows" if other.section is None else "requires"
    if _covers(forbidden, other):
        yield subject.remark(
            "contradiction",
            path,
            f"whatever `{other.id}` {verb}, `{forbidden.id}` forbids",
        )
    elif other.section is None:
        yield subject.remark(
            "allow-forbid-overlap",
            path,
            f"`{other.id}` and `{forbidden.id}` can mean the same change of {types[0]}",
            _way_to_separate(forbidden, types[0]),
        )


def _disjoint(a: Pattern, b: Pattern, name: str) -> bool:
    if any(clash(x, y) for x in facts(a, name) for y in facts(b, name)):
        return True
    one, two = conditions(a, name), conditions(b, name)
    return _excludes(one, two) or _excludes(two, one)


def _excludes(some: tuple[Node, ...], asked: tuple[Node, ...]) -> bool:
    """True if one of some conditions is that not all of what is asked holds."""
    known = _texts(asked)
    return any(
        isinstance(node, Not)
        and _texts(conjuncts(node.child)) <= known
        and UNSAID not in text_of(node)
        for node in some
    )


def _covers(forbidden: Pattern, other: Pattern) -> bool:
    """True if every change the other pattern means is one that is forbidden, by what is written."""
    if not (
        set(other.types) <= set(forbidden.types)
        and other.operations <= forbidden.operations
        and forbidden.low <= 1
        and forbidden.by in (None, other.by)
        and (forbidden.fields is None or set(other.fields or ("",)) <= set(forbidden.fields))
    ):
        return False
    for name in other.types:
        that = forbidden.that.get(name)
        asked = conditions(forbidden, name)
        if that is not None and that not in asked and not set(conjuncts(that)) <= set(asked):
            return False
        mine, its = _texts(asked), _texts(conditions(other, name))
        if any(UNSAID in text for text in mine) or not mine <= its:
            return False
    return True


def _texts(nodes: tuple[Node, ...]) -> frozenset[str]:
    return frozenset(text_of(node) for node in nodes)


def _way_to_separate(forbidden: Pattern, name: str) -> str:
    parts = conditions(forbidden, name)
    asked = " and ".join(
        sorted(
            {
                f"({text_of(p)})" if isinstance(p, Or) and len(parts) > 1 else text_of(p)
                for p in parts
            }
        )
    )
    if not asked or UNSAID in asked:
        return "narrow the forbid clause, or name what it forbids in the allow clause's `where`"
    return f"add `not ({asked})` to the allow clause's `where`"


# ---------------------------------------------------------------- truth


def truth(subject: Subject) -> Iterator[Problem]:
    """Clauses whose truth no run, or no state, can change."""
    for clause in subject.clauses():
        path = subject.path(clause.id)
        if isinstance(clause, Pattern):
            yield from _never_fails(subject, clause)
            yield from _never_matches(subject, clause)
            yield from _compares_with_itself(subject, clause)
            yield from of_the_base(subject, clause)
        elif isinstance(clause, Condition):
            yield from _condition(subject, clause)
        if any(read.root == "run" for read in clause.reads):
            continue  # the null run ends by itself, and others may not
        holds = subject.null.get(clause.id)
        if holds is Truth.HOLDS and getattr(clause, "section", None) is Stage.REQUIRE:
            yield subject.remark(
                "already-holds", path, f"`{clause.id}` holds before anything happens"
            )
        is_condition = isinstance(clause, Condition) and clause.section is Stage.FORBID
        if holds is Truth.FAILS and is_condition:
            yield subject.remark(
                "already-forbidden",
                path,
                f"`{clause.id}` is so before anything happens: every run would DIVERGE",
            )


def _never_fails(subject: Subject, clause: Pattern) -> Iterator[Problem]:
    unbounded = clause.low == 0 and clause.high is None and not clause.is_every
    if clause.section is Stage.REQUIRE and unbounded and not any(clause.that.values()):
        yield subject.remark(
            "never-fails",
            (*subject.path(clause.id), "count"),
            f"`{clause.id}` asks for none or more: any number will do",
        )


def _compares_with_itself(subject: Subject, clause: Pattern) -> Iterator[Problem]:
    """A condition that no value can change; of what was created, `it` and `new` are one."""
    for key, node in _by_key(clause):
        trivial = next((part for part in walk(node) if _is_trivial(part)), None)
        if trivial is not None:
            path = subject.path(clause.id)
            place = (*path, *key)
            yield subject.remark(
                "constant-clause",
                place if place in subject.source.positions else path,
                f"`{text_of(trivial)}` compares a thing with itself",
                "compare with another version, field or entity, or with an input",
            )
            return


def _by_key(pattern: Pattern) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Every condition of a pattern, with the keys below the clause where it is written."""
    names = ("new", "it") if pattern.operations <= {Op.CREATE, Op.LINK} else ("new",)
    for name in pattern.types:
        for key, found in (("where", pattern.where), ("that", pattern.that)):
            if (node := found.get(name)) is not None:
                yield (key,), node
        for pinned, path, node in pattern.pins.get(name, ()):
            for variable in names if pinned == "set" else ("it",):
                yield (pinned, str(path)), equals(variable, name, path, node)


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
                    "never-matches",
                    path,
                    f"`{fact.text}` is never so: {reason}",
                    "compare with a value that the field can have",
                )
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
            "constant-clause",
            where,
            f"`{text_of(trivial)}` compares a thing with itself",
            offset=trivial.offset,
        )
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
        or isinstance(part, AnswerOf | RunOf)
        or (isinstance(part, Variable) and part.name == "new")
        for part in walk(clause.node)
    )


def _is_trivial(node: Node) -> bool:
    return (
        isinstance(node, Compare)
        and node.op in ("==", "!=", "<=", ">=", "<", ">")
        and text_of(node.left) == text_of(node.right)
        and UNSAID not in text_of(node.left)
    )
