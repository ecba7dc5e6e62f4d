"""The changes of one judgement as a relation: those that a pattern can match are looked up.

A clause mostly fixes its rows: `where: it.id == 7`, `set: {status: paid}`. So changes are put in
groups by type, operation and selected fields, and a group is sorted by the value of a field once a
pattern asks for it to equal something that does not hang on the change. A change is passed over
only where the pattern certainly fails of it: whatever stands before the equality is decided there,
and the field is known to be another value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from statediff.contract.clauses.patterns import Pattern, Pin
from statediff.contract.evaluation.by_run import is_by_run
from statediff.contract.evaluation.evaluate import evaluate
from statediff.contract.evaluation.operations import (
    comparison_key,
    field_value,
    is_known,
    order_of,
    relate,
    settle,
)
from statediff.contract.evaluation.written import is_unread, is_written
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    EntityRef,
    Env,
    EvalContext,
    Result,
    Seen,
    Undefined,
    Unknown,
)
from statediff.contract.language.syntax import (
    NUMBER,
    And,
    AnswerOf,
    Arithmetic,
    Canonical,
    Compare,
    Const,
    FieldIs,
    FieldOf,
    InputOf,
    Items,
    Node,
    PartOf,
    RunOf,
    Variable,
    walk,
)
from statediff.model.delta import Delta, Op
from statediff.model.explanation import Reason, cause
from statediff.model.paths import FieldPath, at, is_ambiguous
from statediff.model.values import (
    ABSENT,
    Absent,
    Digested,
    Excluded,
    Key,
    Observed,
    Unobserved,
    key_order,
)
from statediff.model.view import Look

Sides: TypeAlias = tuple[EntityRef | Unknown, EntityRef | Unknown | None]
"""`it` and `new`: the version that a clause judges, and the one after, if there is one."""

COME: Final = (Op.CREATE, Op.LINK)
GONE: Final = (Op.DELETE, Op.UNLINK)


@dataclass(frozen=True, slots=True)
class Change:
    """All deltas of one entity with one operation: what a pattern matches or not."""

    type: str
    key: Key
    op: Op
    deltas: tuple[Delta, ...]
    is_of_target: bool = False
    """The deltas are of what a reference of the entity names; itself it may have stayed."""


class Changes(tuple[Change, ...]):  # noqa: SLOT001 - it keeps what is looked up in it
    """Changes in delta order, each entity and operation once."""

    @cached_property
    def by_type(self) -> Mapping[str, list[int]]:
        """The places of the changes of each type among all of them."""
        found: dict[str, list[int]] = {}
        for number, change in enumerate(self):
            found.setdefault(change.type, []).append(number)
        return found

    def of(self, type_name: str, operations: frozenset[Op]) -> Iterator[Change]:
        """The changes of the type by one of the operations."""
        for number in self.by_type.get(type_name, ()):
            if self[number].op in operations:
                yield self[number]


def changes(deltas: Iterable[Delta]) -> Changes:
    """The deltas grouped by entity and operation, in delta order."""
    # Keys are distinguished by `key_order`: to Python the keys 1, 1.0 and True are one.
    groups: dict[Any, list[Delta]] = {}
    for delta in deltas:
        groups.setdefault((delta.type, key_order(delta.key), delta.op), []).append(delta)
    return Changes([Change(g[0].type, g[0].key, g[0].op, tuple(g)) for g in groups.values()])


# ---------------------------------------------------------------- what is known of a place


def place_of(entity_ref: EntityRef | Unknown, path: FieldPath) -> Result:
    """The value at a place inside a field, as far as the expressions see it."""
    held = field_of(entity_ref, path.field)
    if path.steps and isinstance(held, Unknown):
        return Unknown(held.causes)  # the digest of the whole says nothing of a part
    if not path.steps or isinstance(held, Undefined | Absent):
        return held
    value: Observed = settle(held)
    for step in path.place:
        if is_ambiguous(value, step):
            return Undefined(Reason.NO_PART(field=path.field, part=str(step)))
        value = at(value, (step,))
    return value


def field_of(entity_ref: EntityRef | Unknown, path: str) -> Result:
    """The value of a field, as far as the expressions see it."""
    if isinstance(entity_ref, Unknown):
        return Unknown(entity_ref.causes)
    if entity_ref.row is None:
        return Unknown(frozenset({entity_ref.cause}))
    held = entity_ref.row.get(path, ABSENT)
    if isinstance(held, (Unobserved, Excluded)):
        text = held.cause if isinstance(held, Unobserved) else held.rule
        digest = held if isinstance(held, Digested) else None
        why = Reason.FIELD(
            entity_type=entity_ref.type, field=path, side=entity_ref.side, cause=cause(text)
        )
        return Unknown(frozenset({why}), digest is None, digest=digest)
    return held


def field_is(
    held: EntityRef | Unknown | None, pin: Pin, eval_context: EvalContext, env: Env, by_run: int
) -> int:
    """The outcomes of one value of `set` or `from`; `by_run`: what it is if the run is to blame."""
    if held is None:
        return FALSE
    key, path, node = pin
    wanted = evaluate(node, eval_context, env)
    found = place_of(held, path)
    mask = relate("==", found, wanted, eval_context)
    if mask in (TRUE, FALSE) or not isinstance(held, EntityRef):
        is_own = False
    elif isinstance(found, Undefined):
        is_own = is_written(held, path.field, path.place, eval_context)
    else:
        is_own = is_unread(held, path.field, eval_context)
    if is_own:
        return by_run
    if isinstance(wanted, Undefined) and is_by_run(node, eval_context, env):
        return by_run
    if mask == FALSE and eval_context.trail is not None:
        field_is = FieldIs(node.type, node.offset, key, path)
        eval_context.trail.seen.append(Seen(field_is, found, wanted, mask, ()))
    return mask


# ---------------------------------------------------------------- groups

Subject = TypeVar("Subject")


class Member(NamedTuple, Generic[Subject]):
    """A change that a pattern may match: its place among all, and every form that it can have."""

    number: int
    subject: Subject
    ways: tuple[Sides, ...]


@dataclass(frozen=True)
class Group(Generic[Subject]):
    """Changes of one type and shape, and what was looked at to know their forms."""

    members: tuple[Member[Subject], ...]
    looks: frozenset[Look]
    _fields: dict[object, _Field] = field(default_factory=dict)
    """By the place of a field, and whether by its value or by its kind."""

    def candidates(
        self, pattern: Pattern, type_name: str, context: EvalContext
    ) -> Iterable[Member[Subject]]:
        """All members but those of which the pattern certainly fails."""
        open_: list[list[int]] = []
        least, best = len(self.members), None
        for test in _tests(pattern, type_name):
            wanted = _wanted(test, context)
            if wanted is None:
                break
            held = self._field(test)
            open_.append(held.open)
            if test.op in _EQUAL:
                same = [held.members.get(key, []) for key in wanted]
                size = sum(map(len, (*same, *open_)))
                if size < least:
                    least, best = size, [*same, *open_]
            elif test.op in _ORDER:
                open_ += [group for kind, group in held.members.items() if kind not in wanted]
        if best is None:
            return self.members
        return [self.members[each] for each in sorted({each for part in best for each in part})]

    def _field(self, test: _Test) -> _Field:
        make = _kind if test.op in _ORDER else comparison_key
        known = self._fields.get((make, test.place))
        if known is None:
            values = ([test.value_in(*way) for way in member.ways] for member in self.members)
            known = self._fields[make, test.place] = _field(values, make)
        return known


class _Field(NamedTuple):
    """Members by what a field of theirs is; those of which it is not known are open."""

    members: Mapping[Any, list[int]]
    open: list[int]


_NOWHERE: Final = object()
"""No value, which equals nothing: there is no such version."""


def _field(values: Iterable[list[Result]], make: Callable[[Result], Any]) -> _Field:
    """Members by what is made of the field's value in each of their forms."""
    found: dict[Any, list[int]] = {}
    open_: list[int] = []
    for number, forms in enumerate(values):
        there = [value for value in forms if value is not _NOWHERE]
        if not all(map(is_known, there)):
            open_.append(number)
        elif len(there) == 1:
            found.setdefault(make(there[0]), []).append(number)
        else:
            for key in set(map(make, there)):
                found.setdefault(key, []).append(number)
    return _Field(found, open_)


def _kind(value: Result) -> str:
    return order_of(value)[0]


# ---------------------------------------------------------------- what a pattern asks

_EQUAL: Final = ("==", "in")
_ORDER: Final = ("<", "<=", ">", ">=")
_FIXED: Final = (Const, InputOf, AnswerOf, RunOf, Canonical, PartOf, Items)


@dataclass(frozen=True)
class _Test:
    """One comparison of a field of the change with a value that does not hang on it.

    `own` is the field as an expression over `it` or `new`, or a place of `set` or `from`.
    """

    root: str
    own: FieldOf | FieldPath
    op: str
    value: Node

    @property
    def place(self) -> object:
        own = self.own
        return self.root, own.field, own.part if isinstance(own, FieldOf) else own.steps

    def value_in(self, it: EntityRef | Unknown, new: EntityRef | Unknown | None) -> Result:
        """The field in one form of the change."""
        own = self.own
        if isinstance(own, FieldOf):
            return field_value(own, it if self.root == "it" else ABSENT if new is None else new)
        # What was created has no old values.
        held = new if self.root == "set" else None if it is new else it
        return _NOWHERE if held is None else place_of(held, own)


def _tests(pattern: Pattern, type_name: str) -> Iterator[_Test]:
    """The pattern's comparisons, from left to right, as far as it is such."""
    where = pattern.where[type_name]
    for part in () if where is None else _parts(where):
        test = _test(part)
        if test is None:
            return
        yield test
    for key, path, node in pattern.pins[type_name]:
        if not _is_fixed(node):
            return
        yield _Test(key, path, "==", node)


def _parts(node: Node) -> Iterator[Node]:
    if isinstance(node, And):
        for part in node.parts:
            yield from _parts(part)
    else:
        yield node


def _test(part: Node) -> _Test | None:
    if not isinstance(part, Compare):
        return None
    sides = [(part.left, part.right)]
    if part.op not in ("in", "not in"):
        sides.append((part.right, part.left))
    for own, other in sides:
        match own:
            case FieldOf(entity=Variable(name="it" | "new" as name)) if _is_fixed(other):
                return _Test(name, own, part.op, other)
            case _:
                pass
    return None


def _is_fixed(node: Node) -> bool:
    """True if it is the same for each change, and reads no state."""
    if isinstance(node, Const | InputOf):
        return True
    return all(
        isinstance(each, _FIXED) or (isinstance(each, Arithmetic) and each.type == NUMBER)
        for each in walk(node)
    )


def _wanted(test: _Test, context: EvalContext) -> tuple[Any, ...] | None:
    """Keys of the values, or the kind, that are asked for; None where that is not decided."""
    value = evaluate(test.value, context, {})
    if test.op in ("in", "not in"):
        is_list = isinstance(value, tuple) and is_known(value)
        return tuple({comparison_key(each) for each in value}) if is_list else None
    if not is_known(value):
        return None
    if test.op in _ORDER:
        return (_kind(value),) if _kind(value) else None
    return (comparison_key(value),)
