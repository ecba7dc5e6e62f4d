"""From the text of an expression to its typed form, checked against a state schema.

The syntax is a fixed subset of Python's, read with `ast`; everything outside the subset is an
`ExpressionError` with the character where it stands. A field may have a name that Python keeps for
itself (`call.class`, `it.from`), and calls and comprehensions are typed by their arguments.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
import threading
import warnings
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Final

from statediff.contract.language.kinds import (
    NUMERIC,
    ORDERED,
    ExpressionError,
    comparable,
    compile_regex,
    describe,
    is_boolean,
    suggest,
)
from statediff.contract.language.mistakes import no_expression, no_function
from statediff.contract.language.names import (
    CONSTANTS,
    DELTA_ROOTS,
    FUNCTIONS,
    LATER_ROOTS,
    STATE_ROOTS,
    Scope,
)
from statediff.contract.language.syntax import (
    ANY,
    BOOL,
    CALL_TYPE,
    NULL,
    NUMBER,
    TEXT,
    TURN_TYPE,
    And,
    AnswerOf,
    Arithmetic,
    Call,
    Canonical,
    CollectionT,
    Compare,
    Comprehension,
    Const,
    EntityT,
    FieldOf,
    InputOf,
    Items,
    ListT,
    Loop,
    Node,
    Not,
    Or,
    RunOf,
    ScalarT,
    walk,
)
from statediff.contract.language.texts import TextTypes, joined
from statediff.contract.language.ways import PathTypes
from statediff.model.schema import Kind
from statediff.model.trace import ENDINGS

_TEXTS: Final = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_NOT_PYTHON: Final = re.compile(
    rf"""(?<=\.)(?P<quoted>"(?:\\.|[^"\\])+")|{_TEXTS}"""
    rf"""|(?<=\.)(?P<word>(?:{"|".join(keyword.kwlist)})\b|(?=\w*[^\x00-\x7f])[^\W\d](?:\w|[^\x00-\x7f\s])*)"""
)
"""A name that Python does not read as one: quoted, reserved, or of letters that it would change."""
_ONE_AT_A_TIME: Final = threading.Lock()
"""Python 3.11 counts the depth of all threads' trees in one number: two at once can raise
SystemError, "AST constructor recursion depth mismatch" (python/cpython#106905)."""


def parse_python(source: str) -> ast.Expression:
    """The syntax tree of an expression in one line; after a dot any word or quoted text is a name.

    What Python reads as no name gives way to one of the same length while it reads the expression,
    so that every offset stays what it was. Space around the expression is none of it. The offsets
    of the tree's expressions count the characters of `source`, where Python counts the bytes of
    UTF-8. Raises what `ast.parse` raises; `ValueError` for a quoted name that is no JSON string.
    """
    text = source.strip()
    begins = source.find(text)
    ends: dict[int, str] = {}

    def stand_in(found: re.Match[str]) -> str:
        name = json.loads(found["quoted"]) if found["quoted"] else found["word"]
        if name is None:
            return found[0]
        name.encode()  # half of a surrogate pair is no text
        ends[found.end()] = name
        return "_" * len(found[0])

    plain = _NOT_PYTHON.sub(stand_in, text)
    with _ONE_AT_A_TIME:
        tree = ast.parse(plain, mode="eval")
    names = {len(plain[:end].encode()): name for end, name in ends.items()}
    written = plain.encode()

    def place(at: int | None) -> int:
        return begins + len(written[:at].decode(errors="ignore"))

    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.end_col_offset in names:
            node.attr = names[node.end_col_offset]
        if isinstance(node, ast.expr):
            node.col_offset, node.end_col_offset = (
                place(node.col_offset),
                place(node.end_col_offset),
            )
    return tree


class CallTypes(TextTypes, PathTypes):
    """Functions over one value or over many. The checker, which extends it, knows the rest."""

    def _condition(self, node: ast.expr) -> Node:
        condition = self.expression(node)
        if not is_boolean(condition.type):
            raise self.error(node, f"a condition is expected, this is {describe(condition.type)}")
        return condition

    def _call(self, node: ast.Call) -> Node:
        if not isinstance(node.func, ast.Name):
            raise no_function(node, self._segment)
        name = node.func.id
        function = FUNCTIONS.get(name)
        if function is None:
            raise self.unknown(
                node,
                f"unknown function `{name}`",
                GONE.get(name) or suggest(name, FUNCTIONS) or "known: " + ", ".join(FUNCTIONS),
            )
        if function.shape == "path":
            return self._reaches(node)
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise self.error(node, f"{name}(…) takes plain arguments only")
        shape = function.shape
        if name == "count" and len(node.args) == 2:
            shape = "parts"
        count = _ARGUMENTS.get(shape, 1)
        if len(node.args) != count:
            raise self.error(
                node, f"{name}(…) takes {count} argument{'s' * (count > 1)}, found {len(node.args)}"
            )
        if shape in ("quantifier", "elements", "numbers", "ordered", "entities"):
            return self._over(node, name, shape, node.args[0])
        if shape == "same":
            return self._same_items(node, name, tuple(map(self._elements, node.args)))
        return self._scalar_call(node, name, shape)

    def _elements(self, argument: ast.expr) -> Node:
        """A list, or what is listed by a comprehension."""
        if isinstance(argument, (ast.GeneratorExp, ast.ListComp)):
            return self._comprehension(argument)
        return self.expression(argument)

    def _over(self, node: ast.Call, name: str, shape: str, argument: ast.expr) -> Node:
        body = self._elements(argument)
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
                case ScalarT(kind=Kind.ANY):  # undefined where it is no list
                    self._variables[name] = source.type
                case _:
                    raise self.error(generator.iter, f"cannot range over {describe(source.type)}")
            conditions = tuple(self._condition(c) for c in generator.ifs)
            loops.append(Loop(name, source, conditions))
        element = self.expression(node.elt)
        self._variables = outer
        return Comprehension(element.type, node.col_offset, element, tuple(loops))

    def _scalar_call(self, node: ast.Call, name: str, shape: str) -> Node:
        if shape == "within":
            return self._within(node)
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
            self._regex(node, name, arguments)
        elif shape in ("text2", "parts"):
            one, two = arguments
            arguments = (self.part_through_rules(one, two), self.part_through_rules(two, one))
        result = {"parts": NUMBER, "lower": TEXT}.get(shape, BOOL)
        return Call(result, node.col_offset, name, arguments)

    def _regex(self, node: ast.Call, name: str, arguments: tuple[Node, ...]) -> None:
        text, pattern = arguments
        if not isinstance(pattern, Const) or not isinstance(pattern.value, str):
            is_turned = isinstance(text, Const)
            raise self.error(
                node,
                f"the expression of {name}(…) is a text literal",
                f"the text comes first: {name}({self._segment(node.args[1])}, "
                f"{self._segment(node.args[0])})"
                if is_turned
                else "no value of a state may become a pattern",
            )
        if "\b" in pattern.value:
            written = self._segment(node.args[1]).replace("\\b", "\\\\b")
            raise self.error(
                node.args[1],
                "`\\b` in a text is a backspace, no edge of a word",
                f"write {written}",
            )
        compile_regex(pattern.value, node.col_offset)


GONE: Final = {
    "abs": "write within(a, b, t), or compare twice",
    "local_timestamp": 'write the time in quotes beside the field: it.at > "2026-01-31T09:00:00"',
    "appended": "write `new.F == it.F + …`",
    "join": "compare the list",
}
"""Functions that were in the language once, and what to write."""
_ARGUMENTS: Final = {
    **dict.fromkeys(("regex", "text2", "parts", "same"), 2),
    "within": 3,
}
"""How many arguments a function of the shape takes, where it is not one."""
__all__ = ["ExpressionError", "Scope", "parse"]

MAX_TEXT: Final = 4000
MAX_NODES: Final = 600
MAX_NESTING: Final = 40
MAX_SHOWN: Final = 120
"""Characters of each side of a comparison that its text keeps."""
_ONE_LINE: Final = str.maketrans("\r\n", "  ")
_READ_AS: Final[Mapping[frozenset[Kind | None], str]] = {
    frozenset(
        {Kind.TIMESTAMP, Kind.TEXT}
    ): 'read the text as one: `timestamp("2026-01-31T09:00:00Z")`',
    frozenset({Kind.DATE, Kind.TEXT}): 'read the text as one: `date("2026-01-31")`',
}
"""Two kinds that are compared → what makes one of them the other."""
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
    ast.Mod: "%",
}


def parse(text: str, scope: Scope, *, boolean: bool = True) -> Node:
    """The typed form of `text`; `ExpressionError` if it is not a well-typed expression.

    With `boolean` the expression must be a condition.
    """
    source, tree = well_formed(text)
    node = _Checker(source, scope).expression(tree.body)
    if boolean and not is_boolean(node.type):
        raise ExpressionError(
            f"a condition is expected here, this is {describe(node.type)}",
            node.offset,
            "compare it with something",
        )
    for part in walk(node):
        if isinstance(part, FieldOf) and part.entity_type not in (CALL_TYPE, TURN_TYPE):
            wrong = scope.policy.misread(part.entity_type, part.field, part.part, True)
            if wrong is not None:
                raise ExpressionError(wrong, part.offset)
    return node


def well_formed(text: str) -> tuple[str, ast.Expression]:
    """The text as one line, and its tree; `ExpressionError` if it is no expression at all."""
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the expression is longer than {MAX_TEXT} characters")
    if "\0" in text:  # of which each version of Python says something else
        raise ExpressionError("not an expression: it holds a null character", text.index("\0"))
    source = text.translate(_ONE_LINE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parse_python(source)
    except SyntaxError as error:
        begins = len(source) - len(source.lstrip())
        offset = begins + max(error.offset or 1, 1) - 1
        raise no_expression(source, error.msg, offset) from None
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
    return source, tree


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
        left, right = self.of_kind(node, left, right.type), self.of_kind(node, right, left.type)
        left, right = self._through_rules(left, right, op), self._through_rules(right, left, op)
        if op in ("in", "not in"):
            self._membership(node, left, right)
        elif op in ("==", "!="):
            self._equality(node, left, right)
        else:
            for side in (left, right):
                if not (isinstance(side.type, ScalarT) and side.type.kind in ORDERED):
                    raise self.error(node, f"{describe(side.type)} has no order")
            if not comparable(left.type, right.type):
                kinds = frozenset(
                    each.type.kind for each in (left, right) if isinstance(each.type, ScalarT)
                )
                raise self.error(
                    node,
                    f"{describe(left.type)} and {describe(right.type)} have no common order",
                    _READ_AS.get(kinds, ""),
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
                self._ending(node, left, right)
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

    def _ending(self, node: ast.Compare, left: Node, right: Node) -> None:
        """A text that `run.ended` is compared with is one of its words."""
        if not (isinstance(left, RunOf) and left.name == "ended"):
            return
        for each in right.items if isinstance(right, Items) else (right,):
            how = each.value if isinstance(each, Const | InputOf) else None
            if isinstance(how, str) and how not in ENDINGS:
                hint = suggest(how, ENDINGS) or f"it is one of {', '.join(ENDINGS)}"
                raise self.unknown(node, f'no run ends "{how}"', hint)

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
        self._ending(node, left, right)
        self._ending(node, right, left)

    def _through_rules(self, side: Node, other: Node, op: str) -> Node:
        """A literal compared with a canonicalized field goes through the field's rules."""
        if isinstance(other, Call | Arithmetic) and other.type == TEXT:
            return self.part_through_rules(side, other)
        if not isinstance(other, FieldOf):
            return side
        apply = self._scope.policy.literal(other.entity_type, other.field, other.part)
        if apply is None:
            return side
        if isinstance(side, (Const, InputOf, AnswerOf, Arithmetic)) or (
            isinstance(side, Call) and side.type == TEXT
        ):
            return Canonical(side.type, side.offset, side, other.entity_type, other.field, apply)
        if not isinstance(side, Items):
            return side
        is_list = op in ("==", "!=") and isinstance(other.type, ListT)
        if is_list and all(isinstance(item, Const | InputOf) for item in side.items):
            return Canonical(side.type, side.offset, side, other.entity_type, other.field, apply)
        return replace(
            side,
            items=tuple(
                Canonical(i.type, i.offset, i, other.entity_type, other.field, apply)
                for i in side.items
            ),
        )

    def _arithmetic(self, node: ast.BinOp) -> Node:
        if isinstance(node.op, ast.Sub):
            left, right = self._pair_of_times(node.left, node.right)
            if left is not None and right is not None:
                return Arithmetic(NUMBER, node.col_offset, "-", left, right)
        left, right = self.expression(node.left), self.expression(node.right)
        if isinstance(node.op, ast.Add) and (held := joined(left.type, right.type)):
            return Arithmetic(held, node.col_offset, "+", left, right)
        left, right = self._as_number(node.left, left), self._as_number(node.right, right)
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
