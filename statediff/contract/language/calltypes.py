"""What calls and comprehensions of an expression are: their arguments checked, their types told."""

from __future__ import annotations

import ast
from datetime import date, datetime

from statediff.contract.language.functions import FUNCTIONS
from statediff.contract.language.kinds import (
    NUMERIC,
    ORDERED,
    compile_regex,
    describe,
    is_boolean,
    suggest,
)
from statediff.contract.language.names import (
    CONSTANTS,
    DELTA_ROOTS,
    LATER_ROOTS,
    STATE_ROOTS,
    Names,
)
from statediff.contract.language.syntax import (
    BOOL,
    NUMBER,
    Call,
    CollectionT,
    Comprehension,
    Const,
    EntityT,
    InputOf,
    ListT,
    Loop,
    Node,
    ScalarT,
)
from statediff.model.schema import Kind


class CallTypes(Names):
    """Functions over one value or over many. The checker, which extends it, knows the rest."""

    def _condition(self, node: ast.expr) -> Node:
        condition = self.expression(node)
        if not is_boolean(condition.type):
            raise self.error(node, f"a condition is expected, this is {describe(condition.type)}")
        return condition

    def _number(self, node: ast.expr) -> Node:
        number = self.expression(node)
        if not (
            isinstance(number.type, ScalarT)
            and number.type.reference is None
            and number.type.kind in (*NUMERIC, Kind.FLOAT, Kind.ANY)
        ):
            raise self.error(node, f"a number is expected, this is {describe(number.type)}")
        return number

    def _call(self, node: ast.Call) -> Node:
        if not isinstance(node.func, ast.Name):
            raise self.error(
                node, "only the language's own functions can be called", ", ".join(FUNCTIONS)
            )
        name = node.func.id
        function = FUNCTIONS.get(name)
        if function is None:
            raise self.unknown(
                node,
                f"unknown function `{name}`",
                suggest(name, FUNCTIONS) or "known: " + ", ".join(FUNCTIONS),
            )
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise self.error(node, f"{name}(…) takes plain arguments only")
        count = {"within": 3, "regex": 2, "text2": 2}.get(function.shape, 1)
        if len(node.args) != count:
            raise self.error(
                node, f"{name}(…) takes {count} argument{'s' * (count > 1)}, found {len(node.args)}"
            )
        if function.shape in ("quantifier", "elements", "numbers", "ordered", "entities"):
            return self._over(node, name, function.shape, node.args[0])
        return self._scalar_call(node, name, function.shape)

    def _over(self, node: ast.Call, name: str, shape: str, argument: ast.expr) -> Node:
        body: Node
        if isinstance(argument, (ast.GeneratorExp, ast.ListComp)):
            body = self._comprehension(argument)
        else:
            body = self.expression(argument)
        element = (
            body.element.type
            if isinstance(body, Comprehension)
            else (body.type.item if isinstance(body.type, ListT) else body.type)
        )
        if not isinstance(body, Comprehension) and not (
            isinstance(body.type, ListT)
            or (shape == "entities" and isinstance(body.type, CollectionT))
        ):
            raise self.error(
                argument, f"{name}(…) ranges over `… for x in …`, not over {describe(body.type)}"
            )
        if shape == "quantifier" and not is_boolean(element):
            raise self.error(
                argument, f"{name}(…) needs a condition for each element, not {describe(element)}"
            )
        scalar = element.kind if isinstance(element, ScalarT) else None
        if shape == "numbers" and scalar not in (*NUMERIC, Kind.FLOAT, Kind.ANY):
            raise self.error(argument, f"{name}(…) adds numbers, not {describe(element)}")
        if shape == "ordered" and scalar not in ORDERED:
            raise self.error(argument, f"{describe(element)} has no order")
        if shape == "elements" and not isinstance(element, ScalarT):
            raise self.error(argument, f"{name}(…) compares plain values, not {describe(element)}")
        result = {"quantifier": BOOL, "elements": BOOL, "entities": NUMBER}.get(shape, element)
        return Call(result, node.col_offset, name, (body,))

    def _comprehension(self, node: ast.GeneratorExp | ast.ListComp) -> Node:
        outer = dict(self._variables)
        loops: list[Loop] = []
        for generator in node.generators:
            if generator.is_async or not isinstance(generator.target, ast.Name):
                raise self.error(node, "write `for NAME in COLLECTION`")
            name = generator.target.id
            if name in (
                *STATE_ROOTS,
                *DELTA_ROOTS,
                *LATER_ROOTS,
                "input",
                "answer",
                *CONSTANTS,
                *FUNCTIONS,
                *self._variables,
            ):
                raise self.error(
                    generator.target, f"`{name}` already has a meaning; choose another name"
                )
            source = self.expression(generator.iter)
            match source.type:
                case CollectionT(type=entity):
                    self._variables[name] = EntityT(entity)
                case ListT(item=item):
                    self._variables[name] = item
                case _:
                    raise self.error(generator.iter, f"cannot range over {describe(source.type)}")
            conditions = tuple(self._condition(c) for c in generator.ifs)
            loops.append(Loop(name, source, conditions))
        element = self.expression(node.elt)
        self._variables = outer
        return Comprehension(element.type, node.col_offset, element, tuple(loops))

    def _scalar_call(self, node: ast.Call, name: str, shape: str) -> Node:
        if shape in ("number", "within"):
            numbers = tuple(self._number(a) for a in node.args)
            kind = numbers[0].type if shape == "number" else BOOL
            return Call(kind, node.col_offset, name, numbers)
        arguments = tuple(self.expression(a) for a in node.args)
        first = arguments[0].type
        if shape == "instant":
            return self._instant(node, name, arguments[0])
        if shape == "entity":
            if not isinstance(first, EntityT):
                raise self.error(
                    node,
                    f"exists(…) takes an entity, not {describe(first)}",
                    "compare a field with null instead",
                )
            return Call(BOOL, node.col_offset, name, arguments)
        if shape == "sized":
            if not (
                isinstance(first, ListT)
                or (isinstance(first, ScalarT) and first.kind in (Kind.TEXT, Kind.ANY))
            ):
                raise self.error(
                    node,
                    f"len(…) takes a text or a list, not {describe(first)}",
                    "for a collection write count(…)",
                )
            return Call(NUMBER, node.col_offset, name, arguments)
        for argument in arguments:
            if not (
                isinstance(argument.type, ScalarT) and argument.type.kind in (Kind.TEXT, Kind.ANY)
            ):
                raise self.error(node, f"{name}(…) takes texts, not {describe(argument.type)}")
        if shape == "regex":
            self._regex(node, arguments[1])
        return Call(BOOL, node.col_offset, name, arguments)

    def _instant(self, node: ast.Call, name: str, argument: Node) -> Node:
        if not isinstance(argument, (Const, InputOf)) or not isinstance(argument.value, str):
            raise self.error(node, f"{name}(…) takes a text literal or an input")
        try:
            if name == "date":
                day = date.fromisoformat(argument.value)
                return Const(ScalarT(Kind.DATE), node.col_offset, day)
            moment = datetime.fromisoformat(argument.value)
        except ValueError:
            raise self.error(node, f"not an ISO 8601 {name}: {argument.value!r}") from None
        kind = Kind.LOCAL_TIMESTAMP if moment.tzinfo is None else Kind.TIMESTAMP
        return Const(ScalarT(kind), node.col_offset, moment)

    def _regex(self, node: ast.Call, pattern: Node) -> None:
        if not isinstance(pattern, Const) or not isinstance(pattern.value, str):
            raise self.error(
                node,
                "the expression of matches(…) is a text literal",
                "no value of a state may become a pattern",
            )
        compile_regex(pattern.value, node.col_offset)
