"""The types of functions over texts, lists and instants, and literals that go through rules."""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import date, datetime

from statediff.contract.language.kinds import comparable, describe
from statediff.contract.language.names import Names
from statediff.contract.language.syntax import (
    ANY,
    BOOL,
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
from statediff.model.schema import Kind
from statediff.model.values import Observed, Value


class TextTypes(Names):
    """Functions over texts, lists and instants. The checker, which extends it, knows the rest."""

    def _with_parts(self, arguments: tuple[Node, ...]) -> tuple[Node, ...]:
        """Literals that are looked for in a canonicalized field, through the field's rules."""
        one, two = arguments
        return self.part_through_rules(one, two), self.part_through_rules(two, one)

    def _through_rules(self, side: Node, other: Node, op: str) -> Node:
        """A literal compared with a canonicalized field goes through the field's rules."""
        raise TypeError("the checker defines how literals go through rules")

    def part_through_rules(self, side: Node, other: Node) -> Node:
        field = _text_field(other)
        if field is None or not isinstance(side, (Const, InputOf, AnswerOf)):
            return side
        apply = self._scope.literal(field.entity_type, field.field, field.part)
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
        if name == "local_timestamp" and kind is Kind.TIMESTAMP:
            raise self.error(node, "a local time has no zone", "write timestamp(…)")
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
