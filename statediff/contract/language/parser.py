"""From the text of an expression to its typed form, checked against a state schema.

The syntax is a fixed subset of Python's, read with `ast`; everything outside the subset is an
`ExpressionError` with the character where it stands.
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import replace
from decimal import Decimal
from typing import Final

from statediff.contract.language.calltypes import CallTypes
from statediff.contract.language.fieldnames import parsed
from statediff.contract.language.kinds import (
    ORDERED,
    ExpressionError,
    comparable,
    describe,
    is_boolean,
)
from statediff.contract.language.names import Scope
from statediff.contract.language.syntax import (
    ANY,
    BOOL,
    NULL,
    NUMBER,
    And,
    AnswerOf,
    Arithmetic,
    Canonical,
    CollectionT,
    Compare,
    Const,
    FieldOf,
    InputOf,
    Items,
    ListT,
    Node,
    Not,
    Or,
    ScalarT,
)
from statediff.model.schema import Kind

__all__ = ["ExpressionError", "Scope", "parse"]

MAX_TEXT: Final = 4000
MAX_NODES: Final = 600
MAX_NESTING: Final = 40
MAX_SHOWN: Final = 120
"""Characters of each side of a comparison that its text keeps."""
_ONE_LINE: Final = str.maketrans("\r\n", "  ")
_COMPARE: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_ARITHMETIC: Final[dict[type[ast.operator], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
}


def parse(text: str, scope: Scope, *, boolean: bool = True) -> Node:
    """The typed form of `text`; `ExpressionError` if it is not a well-typed expression.

    With `boolean` the expression must be a condition.
    """
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the expression is longer than {MAX_TEXT} characters")
    if "\0" in text:  # of which each version of Python says something else
        raise ExpressionError("not an expression: it holds a null character", text.index("\0"))
    source = text.translate(_ONE_LINE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parsed(source)
    except SyntaxError as error:
        begins = len(source) - len(source.lstrip())
        offset = begins + max(error.offset or 1, 1) - 1
        raise ExpressionError(f"not an expression: {error.msg}", offset) from None
    except (ValueError, RecursionError, MemoryError):
        raise ExpressionError("not an expression: too deeply nested or not text") from None
    end = tree.body.end_col_offset
    if "#" in source[end:]:
        raise ExpressionError(
            "an expression holds no comment: nothing after `#` would be read",
            source.index("#", end),
            "write it on a line of its own above the key, or under `because`",
        )
    _bound_tree(tree)
    node = _Checker(source, scope).expression(tree.body)
    if boolean and not is_boolean(node.type):
        raise ExpressionError(
            f"a condition is expected here, this is {describe(node.type)}",
            node.offset,
            "compare it with something",
        )
    return node


def _bound_tree(tree: ast.AST) -> None:
    level: list[ast.AST] = [tree]
    total = depth = 0
    while level:
        total += len(level)
        depth += 1
        if total > MAX_NODES or depth > MAX_NESTING:
            raise ExpressionError("the expression is too large; split the clause")
        level = [
            child
            for node in level
            for child in ast.iter_child_nodes(node)
            if not isinstance(
                child, (ast.expr_context, ast.operator, ast.boolop, ast.cmpop, ast.unaryop)
            )
        ]


class _Checker(CallTypes):
    """One pass over the tree, types bottom-up. Methods return typed nodes or raise."""

    def expression(self, node: ast.expr) -> Node:
        match node:
            case ast.Constant():
                return self._constant(node)
            case ast.Name():
                return self._name(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Subscript():
                return self._lookup(node)
            case ast.Compare():
                return self._compare(node)
            case ast.BoolOp():
                parts = tuple(self._condition(part) for part in node.values)
                make = And if isinstance(node.op, ast.And) else Or
                return make(BOOL, node.col_offset, parts)
            case ast.UnaryOp(op=ast.Not()):
                return Not(BOOL, node.col_offset, self._condition(node.operand))
            case ast.UnaryOp(op=ast.USub()):
                operand = self._number(node.operand)
                if isinstance(operand, Const) and isinstance(operand.value, (int, Decimal)):
                    return Const(NUMBER, node.col_offset, -operand.value)
                zero = Const(NUMBER, node.col_offset, 0)
                return Arithmetic(operand.type, node.col_offset, "-", zero, operand)
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                return self._arithmetic(node)
            case ast.List() | ast.Tuple():
                return self._items(node)
            case ast.Call():
                return self._call(node)
            case ast.GeneratorExp() | ast.ListComp():
                raise self.error(
                    node, "a comprehension stands only inside a function such as all(…)"
                )
            case _:
                pass
        raise self.error(node, f"`{type(node).__name__}` is not part of the contract language")

    def _compare(self, node: ast.Compare) -> Node:
        operands = [node.left, *node.comparators]
        nodes = [self.expression(operand) for operand in operands]
        written = [self._segment(operand)[:MAX_SHOWN] for operand in operands]
        parts: list[Node] = []
        for at, op in enumerate(node.ops):
            name = _COMPARE.get(type(op))
            if name is None:
                raise self.error(node, "`is` compares Python objects; write ==")
            text = f"{written[at]} {name} {written[at + 1]}"
            parts.append(self._pair(node, name, nodes[at], nodes[at + 1], text))
        return parts[0] if len(parts) == 1 else And(BOOL, node.col_offset, tuple(parts))

    def _pair(self, node: ast.Compare, op: str, left: Node, right: Node, text: str) -> Node:
        left, right = self._through_rules(left, right), self._through_rules(right, left)
        if op in ("in", "not in"):
            self._membership(node, left, right)
        elif op in ("==", "!="):
            self._equality(node, left, right)
        else:
            for side in (left, right):
                if not (isinstance(side.type, ScalarT) and side.type.kind in ORDERED):
                    raise self.error(node, f"{describe(side.type)} has no order")
            if not comparable(left.type, right.type):
                raise self.error(
                    node, f"{describe(left.type)} and {describe(right.type)} have no common order"
                )
        return Compare(BOOL, node.col_offset, op, left, right, text)

    def _membership(self, node: ast.Compare, left: Node, right: Node) -> None:
        match right.type:
            case ListT(item=item):
                if not comparable(left.type, item):
                    raise self.error(
                        node,
                        f"{describe(left.type)} cannot be in a list of which each is "
                        f"{describe(item)}",
                    )
            case CollectionT(type=name, has_keys=True):
                entity = self._scope.entity(name)
                if len(entity.key) != 1 or not isinstance(left.type, ScalarT):
                    raise self.error(node, f"`in` needs the single key of {name} on its left")
            case ScalarT(kind=Kind.ANY):
                pass
            case _:
                raise self.error(
                    node,
                    f"`in` needs a list or before.TYPE, not {describe(right.type)}",
                    "for a part of a text write contains(text, part)",
                )

    def _equality(self, node: ast.Compare, left: Node, right: Node) -> None:
        for side in (left, right):
            if isinstance(side.type, CollectionT):
                raise self.error(
                    node, "a collection cannot be compared; use all(…), any(…) or count(…)"
                )
            if isinstance(side.type, ScalarT) and side.type.kind is Kind.FLOAT:
                other = right if side is left else left
                if other.type != NULL:
                    raise self.error(
                        node,
                        "== on a binary floating-point number is not exact",
                        "canonicalize the field with decimal@1, or write within(a, b, tol)",
                    )
        if not comparable(left.type, right.type):
            raise self.error(node, f"{describe(left.type)} can never equal {describe(right.type)}")

    def _through_rules(self, side: Node, other: Node) -> Node:
        """A literal compared with a canonicalized field goes through the field's rules."""
        if not isinstance(other, FieldOf) or other.part:
            return side
        apply = self._scope.literal(other.entity_type, other.field)
        if apply is None:
            return side
        if isinstance(side, (Const, InputOf, AnswerOf, Arithmetic)):
            return Canonical(side.type, side.offset, side, other.entity_type, other.field, apply)
        if isinstance(side, Items):
            return replace(
                side,
                items=tuple(
                    Canonical(i.type, i.offset, i, other.entity_type, other.field, apply)
                    for i in side.items
                ),
            )
        return side

    def _arithmetic(self, node: ast.BinOp) -> Node:
        left, right = self._number(node.left), self._number(node.right)
        float_ = any(
            isinstance(s.type, ScalarT) and s.type.kind is Kind.FLOAT for s in (left, right)
        )
        kind = ScalarT(Kind.FLOAT) if float_ else NUMBER
        return Arithmetic(kind, node.col_offset, _ARITHMETIC[type(node.op)], left, right)

    def _items(self, node: ast.List | ast.Tuple) -> Node:
        items = tuple(self.expression(item) for item in node.elts)
        kinds = [i.type for i in items if isinstance(i.type, ScalarT)]
        if len(kinds) != len(items):
            raise self.error(node, "a list holds plain values only")
        for kind in kinds[1:]:
            if not comparable(kinds[0], kind):
                raise self.error(node, "a list holds values of one type")
        return Items(ListT(kinds[0] if kinds else ANY), node.col_offset, items)
