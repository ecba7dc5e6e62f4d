"""The types of functions over texts, lists and instants, and literals that go through rules."""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import date, datetime

from statediff.contract.language.kinds import NUMERIC, comparable, describe, is_time
from statediff.contract.language.names import Names
from statediff.contract.language.syntax import (
    ANY,
    BOOL,
    NUMBER,
    TEXT,
    AnswerOf,
    Arithmetic,
    Call,
    Canonical,
    Comprehension,
    Const,
    FieldOf,
    InputOf,
    ListT,
    Node,
    ScalarT,
    Type,
    walk,
)
from statediff.contract.parts import seconds
from statediff.model.schema import Kind
from statediff.model.values import Observed, Value


class TextTypes(Names):
    """Functions over texts, lists and instants. The checker, which extends it, knows the rest."""

    def _through_rules(self, side: Node, other: Node, op: str) -> Node:
        """A literal compared with a canonicalized field goes through the field's rules."""
        raise TypeError("the checker defines how literals go through rules")

    def part_through_rules(self, side: Node, other: Node) -> Node:
        field = _text_field(other)
        if field is None or not isinstance(side, (Const, InputOf, AnswerOf)):
            return side
        apply = self._scope.policy.literal(field.entity_type, field.field, field.part)
        if apply is None:
            return side
        within = _within(apply)
        return Canonical(side.type, side.offset, side, field.entity_type, field.field, within)

    def _same_items(self, node: ast.Call, name: str, sides: tuple[Node, ...]) -> Node:
        items: list[Type] = []
        for argument, side in zip(node.args, sides, strict=True):
            held = side.type
            if isinstance(side, Comprehension):
                items.append(held)
            elif isinstance(held, ListT) or held == ANY:
                items.append(held.item if isinstance(held, ListT) else ANY)
            else:
                raise self.error(
                    argument,
                    f"{name}(…) compares two lists, this is {describe(held)}",
                    "range over a collection: [x.field for x in …]",
                )
        if not comparable(*items):
            raise self.error(node, f"{describe(items[0])} can never equal {describe(items[1])}")
        one, two = sides
        pair = self._through_rules(one, two, "=="), self._through_rules(two, one, "==")
        return Call(BOOL, node.col_offset, name, pair)

    def _number(self, node: ast.expr) -> Node:
        return self._as_number(node, self.expression(node))

    def _as_number(self, node: ast.expr, number: Node) -> Node:
        if not (
            isinstance(number.type, ScalarT)
            and number.type.reference is None
            and number.type.kind in (*NUMERIC, Kind.FLOAT, Kind.ANY)
        ):
            raise self.error(node, f"a number is expected, this is {describe(number.type)}")
        return number

    def _within(self, node: ast.Call) -> Node:
        """Two numbers, or two times of one kind, and how far apart they may be."""
        left, right = self._pair_of_times(node.args[0], node.args[1])
        most = self.expression(node.args[2])
        if left is None or right is None:
            numbers = tuple(self._number(a) for a in node.args)
            return Call(BOOL, node.col_offset, "within", numbers)
        if isinstance(most, Const) and isinstance(most.value, str):
            try:
                most = Const(NUMBER, most.offset, seconds(most.value))
            except ValueError as error:
                raise self.error(node.args[2], str(error)) from None
        return Call(
            BOOL, node.col_offset, "within", (left, right, self._as_number(node.args[2], most))
        )

    def _pair_of_times(self, one: ast.expr, other: ast.expr) -> tuple[Node | None, Node | None]:
        """Both operands where they are times of one kind; else neither."""
        left, right = self.expression(one), self.expression(other)
        left, right = self.of_kind(one, left, right.type), self.of_kind(other, right, left.type)
        if not (is_time(left.type) or is_time(right.type)):
            return None, None
        if (both := (left.type, right.type))[0] != both[1]:
            found = f"{describe(left.type)} and {describe(right.type)}"
            hint = "check with --before NAME=STATE, or declare its type" if ANY in both else ""
            raise self.error(other, f"{found} are no two times of one kind", hint)
        return left, right

    def _instant(self, node: ast.Call, name: str, argument: Node) -> Node:
        if not isinstance(argument, (Const, InputOf)) or not isinstance(argument.value, str):
            held = argument.type
            if not isinstance(held, ScalarT) or held.kind not in (Kind.TEXT, Kind.ANY):
                raise self.error(node, f"{name}(…) takes a text, not {describe(held)}")
            if isinstance(argument, (Const, InputOf)):
                raise self.error(node, f"{name}(…) takes a text")
            return Call(ScalarT(Kind(name)), node.col_offset, name, (argument,))
        try:
            if name == "date":
                day = date.fromisoformat(argument.value)
                return Const(ScalarT(Kind.DATE), node.col_offset, day)
            moment = datetime.fromisoformat(argument.value)
        except ValueError:
            raise self.error(node, f"not an ISO 8601 {name}: {argument.value!r}") from None
        kind = Kind.LOCAL_TIMESTAMP if moment.tzinfo is None else Kind.TIMESTAMP
        return Const(ScalarT(kind), node.col_offset, moment)


def joined(left: Type, right: Type) -> Type | None:
    """The type of two texts or two lists joined by `+`; None where it adds numbers."""
    sides = (left, right)
    if TEXT in sides and all(side in (TEXT, ANY) for side in sides):
        return TEXT
    lists = [side for side in sides if isinstance(side, ListT)]
    if not lists or any(side != ANY for side in sides if not isinstance(side, ListT)):
        return None
    return lists[0] if len(lists) == 2 and lists[0] == lists[1] else ListT(ANY)


def _text_field(node: Node) -> FieldOf | None:
    """The field whose text the expression is, or is made of; None where there is none."""
    if isinstance(node, FieldOf):
        return None if node.part else node
    if not isinstance(node, Call | Arithmetic) or node.type != TEXT:
        return None
    fields = (part for part in walk(node) if isinstance(part, FieldOf) and not part.part)
    return next(fields, None)


def _within(apply: Callable[[Value], Observed]) -> Callable[[Value], Observed]:
    """The rules for a part of a text: the white space at its ends is inside the whole."""

    def applied(value: Value) -> Observed:
        if not isinstance(value, str):
            return value
        core = value.strip()
        changed = apply(core)
        if not core or not isinstance(changed, str):
            return value
        begins = value.index(core)
        return value[:begins] + changed + value[begins + len(core) :]

    return applied
