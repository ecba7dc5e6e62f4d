"""From the text of an expression to its typed form, checked against a state schema.

The syntax is a fixed subset of Python's, read with `ast`; everything outside the subset is an
`ExpressionError` with the character where it stands. No name is ever looked up in Python.
"""

from __future__ import annotations

import ast
import difflib
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Final, NoReturn

import re2

from statediff.contract.functions import FUNCTIONS
from statediff.contract.syntax import (
    ANY,
    BOOL,
    NULL,
    NUMBER,
    TEXT,
    And,
    AnswerOf,
    Arithmetic,
    Call,
    Canonical,
    CollectionT,
    Compare,
    Comprehension,
    Const,
    Entities,
    EntityT,
    FieldOf,
    Follow,
    InputOf,
    Items,
    ListT,
    Lookup,
    Loop,
    Node,
    Not,
    Or,
    ScalarT,
    Type,
    Variable,
)
from statediff.model.schema import EntityType, Kind, Schema
from statediff.model.values import Map, Observed, Value

MAX_TEXT: Final = 4000
MAX_NODES: Final = 600
MAX_NESTING: Final = 40

STATE_ROOTS: Final = ("before", "after")
DELTA_ROOTS: Final = ("created", "updated", "deleted", "linked", "unlinked")
LATER_ROOTS: Final = ("now", "call", "calls")
_NUMERIC: Final = (Kind.INT, Kind.DECIMAL)
_ORDERED: Final = (Kind.DECIMAL, Kind.INT, Kind.FLOAT, Kind.TEXT, Kind.TIMESTAMP,
                   Kind.LOCAL_TIMESTAMP, Kind.DATE, Kind.ANY)


class ExpressionError(ValueError):
    """The expression is not one of the language; `offset` is the 0-based character."""

    def __init__(self, message: str, offset: int = 0, hint: str = "") -> None:
        super().__init__(message)
        self.offset = offset
        self.hint = hint


@dataclass(frozen=True)
class Scope:
    """What an expression may name.

    `variables` are `it`, `new`, `them` with their types. `literal` gives, for a field under
    canonicalization, the function its literals go through, else None; `kind_of` its kind after ν.
    """

    schema: Schema
    inputs: Mapping[str, Value] = field(default_factory=dict)
    answer: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, Type] = field(default_factory=dict)
    literal: Callable[[str, str], Callable[[Value], Observed] | None] = lambda _t, _f: None
    kind_of: Callable[[str, str], Kind | None] = lambda _t, _f: None
    excluded: Callable[[str, str], str | None] = lambda _t, _f: None


def parse(text: str, scope: Scope, *, boolean: bool = True) -> Node:
    """The typed form of `text`; `ExpressionError` if it is not a well-typed expression.

    With `boolean` the expression must be a condition.
    """
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the expression is longer than {MAX_TEXT} characters")
    source = " ".join(text.split("\n")) if "\n" in text else text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source.strip(), mode="eval")
    except SyntaxError as error:
        offset = max((error.offset or 1) - 1, 0)
        raise ExpressionError(f"not an expression: {error.msg}", offset) from None
    except (ValueError, RecursionError, MemoryError):
        raise ExpressionError("not an expression: too deeply nested or not text") from None
    _bound_tree(tree)
    node = _Checker(source.strip(), scope).expression(tree.body)
    if boolean and not _is_boolean(node.type):
        raise ExpressionError(
            f"a condition is expected here, this is {describe(node.type)}", node.offset,
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
        level = [child for node in level for child in ast.iter_child_nodes(node)
                 if not isinstance(child, (ast.expr_context, ast.operator, ast.boolop,
                                           ast.cmpop, ast.unaryop))]


def describe(kind: Type) -> str:
    """A type in words, for messages."""
    match kind:
        case ScalarT(kind=None):
            return "null"
        case ScalarT(kind=Kind.DECIMAL):
            return "a number"
        case ScalarT(kind=Kind.INT):
            return "a number"
        case ScalarT(kind=scalar, reference=reference) if reference:
            return f"a reference to {reference}"
        case ScalarT(kind=scalar):
            return f"a {scalar.value if scalar else 'null'} value"
        case EntityT(type=name):
            return f"an entity ({name})"
        case CollectionT(type=name):
            return f"a collection of {name}"
        case ListT():
            return "a list"


def _is_boolean(kind: Type) -> bool:
    return isinstance(kind, ScalarT) and kind.kind in (Kind.BOOL, Kind.ANY)


_COMPARE: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in",
}
_ARITHMETIC: Final[dict[type[ast.operator], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
}
_CONSTANTS: Final[dict[str, tuple[ScalarT, Value]]] = {
    "null": (NULL, None), "true": (BOOL, True), "false": (BOOL, False),
}
_ANSWER_TYPES: Final[dict[str, Type]] = {
    "int": NUMBER, "decimal": NUMBER, "text": TEXT, "bool": BOOL, "any": ANY, "map": ANY,
    "list": ListT(ANY),
}


class _Checker:
    """One pass over the tree, types bottom-up. Methods return typed nodes or raise."""

    def __init__(self, text: str, scope: Scope) -> None:
        self._text = text
        self._scope = scope
        self._variables = dict(scope.variables)

    def fail(self, node: ast.AST, message: str, hint: str = "") -> NoReturn:
        raise ExpressionError(message, getattr(node, "col_offset", 0), hint)

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
                self.fail(node, "a comprehension stands only inside a function such as all(…)")
            case _:
                pass
        self.fail(node, f"`{type(node).__name__}` is not part of the contract language")

    def _constant(self, node: ast.Constant) -> Node:
        value = node.value
        if isinstance(value, bool) or value is None:
            written = "null" if value is None else str(value).lower()
            self.fail(node, f"`{value}` is written `{written}`")
        if isinstance(value, int):
            return Const(NUMBER, node.col_offset, value)
        if isinstance(value, float):
            segment = ast.get_source_segment(self._text, node) or str(value)
            exact = Decimal(segment.replace("_", ""))
            if not exact.is_finite() or abs(exact.adjusted()) > 100:
                self.fail(node, "the number is too large or too small")
            return Const(NUMBER, node.col_offset, exact)
        if isinstance(value, str):
            return Const(TEXT, node.col_offset, value)
        self.fail(node, f"a {type(value).__name__} literal is not part of the contract language")

    def _name(self, node: ast.Name) -> Node:
        if node.id in _CONSTANTS:
            kind, value = _CONSTANTS[node.id]
            return Const(kind, node.col_offset, value)
        if node.id in self._variables:
            return Variable(self._variables[node.id], node.col_offset, node.id)
        if node.id in (*STATE_ROOTS, *DELTA_ROOTS, "input", "answer"):
            self.fail(node, f"`{node.id}` needs a name after it, e.g. `{node.id}.order`")
        if node.id in LATER_ROOTS:
            self.fail(node, f"`{node.id}` belongs to steps, not to this kind of clause")
        if node.id in FUNCTIONS:
            self.fail(node, f"`{node.id}` is a function; write {node.id}(…)")
        if node.id in ("it", "new", "them"):
            self.fail(node, f"`{node.id}` has no meaning here",
                      "`it` and `new` need an operation in the clause, `them` stands in `that`")
        known = (*self._variables, *STATE_ROOTS, *DELTA_ROOTS, "input", "answer", *_CONSTANTS)
        self.fail(node, f"unknown name `{node.id}`", _suggest(node.id, known)
                  or f"a text is written in quotes: \"{node.id}\"")

    def _attribute(self, node: ast.Attribute) -> Node:
        if isinstance(node.value, ast.Name) and node.value.id not in self._variables:
            root = node.value.id
            if root == "input":
                return self._input(node)
            if root == "answer":
                return self._answer(node)
        path = self._dotted(node)
        if path is not None:
            root, name = path
            return Entities(CollectionT(name, root in STATE_ROOTS), node.col_offset, root, name)
        holder = self.expression(node.value)
        return self._field(node, holder)

    def _dotted(self, node: ast.Attribute) -> tuple[str, str] | None:
        """`before.order` or `before.db.role` as (root, type), when the whole of it names a type."""
        names: list[str] = []
        at: ast.expr = node
        while isinstance(at, ast.Attribute):
            names.append(at.attr)
            at = at.value
        if not isinstance(at, ast.Name) or at.id not in (*STATE_ROOTS, *DELTA_ROOTS):
            if isinstance(at, ast.Name) and at.id in LATER_ROOTS:
                self._name(at)
            return None
        name = ".".join(reversed(names))
        types = self._scope.schema.by_name
        if name in types:
            return at.id, name
        shorter = name.rpartition(".")[0]
        if shorter and any(t == shorter or t.startswith(shorter + ".") for t in types):
            return None
        if any(t.startswith(name + ".") for t in types):
            return None
        self.fail(node, f"unknown entity type `{name}`", _suggest(name, types))

    def _input(self, node: ast.Attribute) -> Node:
        if node.attr not in self._scope.inputs:
            self.fail(node, f"the contract has no input `{node.attr}`",
                      _suggest(node.attr, self._scope.inputs))
        value = self._scope.inputs[node.attr]
        return InputOf(type_of(value), node.col_offset, node.attr, value)

    def _answer(self, node: ast.Attribute) -> Node:
        if node.attr not in self._scope.answer:
            self.fail(node, f"the answer's schema has no `{node.attr}`",
                      _suggest(node.attr, self._scope.answer) or "name it under `answer: schema:`")
        return AnswerOf(_ANSWER_TYPES[self._scope.answer[node.attr]], node.col_offset, node.attr)

    def _field(self, node: ast.Attribute, holder: Node) -> Node:
        if isinstance(holder, FieldOf) and isinstance(holder.type, ScalarT):
            if holder.type.reference is not None:
                target = EntityT(holder.type.reference)
                return self._field(node, Follow(target, node.col_offset, holder))
            if holder.type.kind in (Kind.MAP, Kind.ANY):
                return replace(holder, type=ANY, is_nullable=True, part=(*holder.part, node.attr))
        if not isinstance(holder.type, EntityT):
            what = describe(holder.type)
            hint = "pick one with [key] or range over it" if isinstance(
                holder.type, CollectionT) else ""
            self.fail(node, f"`.{node.attr}` cannot be read from {what}", hint)
        entity = self._scope.schema.by_name[holder.type.type]
        spec = entity.by_name.get(node.attr)
        if spec is None and entity.is_open:
            return FieldOf(ANY, node.col_offset, holder, entity.name, node.attr, True)
        if spec is None:
            self.fail(node, f"{entity.name} has no field `{node.attr}`",
                      _suggest(node.attr, entity.by_name))
        rule = self._scope.excluded(entity.name, spec.name)
        if rule is not None:
            self.fail(node, f"{entity.name}.{spec.name} lies outside the boundary ({rule})",
                      "drop the exclusion or do not read the field")
        kind = self._scope.kind_of(entity.name, spec.name) or spec.kind
        held: Type = ListT(ANY) if kind is Kind.LIST else ScalarT(
            Kind.DECIMAL if kind is Kind.INT else kind, spec.reference)
        return FieldOf(held, node.col_offset, holder, entity.name, spec.name, spec.is_nullable)

    def _lookup(self, node: ast.Subscript) -> Node:
        collection = self.expression(node.value)
        if not isinstance(collection, Entities) or collection.root not in STATE_ROOTS:
            self.fail(node, "`[key]` works on before.TYPE and after.TYPE only")
        entity = self._scope.schema.by_name[collection.entity]
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if entity.is_keyless:
            self.fail(node, f"{entity.name} has no key; range over it instead")
        if len(parts) != len(entity.key):
            self.fail(node, f"the key of {entity.name} is ({', '.join(entity.key)}): "
                            f"{len(entity.key)} values, not {len(parts)}")
        keys = tuple(self._key(entity, name, part)
                     for name, part in zip(entity.key, parts, strict=True))
        return Lookup(EntityT(entity.name), node.col_offset, collection, keys)

    def _key(self, entity: EntityType, name: str, part: ast.expr) -> Node:
        key = self.expression(part)
        spec = entity.by_name[name]
        wanted = ScalarT(Kind.DECIMAL if spec.kind is Kind.INT else spec.kind)
        if not isinstance(key.type, ScalarT) or not _comparable(wanted, key.type):
            self.fail(part, f"the key of {entity.name} is {describe(wanted)}, "
                            f"this is {describe(key.type)}")
        return key

    def _compare(self, node: ast.Compare) -> Node:
        operands = [node.left, *node.comparators]
        nodes = [self.expression(operand) for operand in operands]
        parts: list[Node] = []
        for at, op in enumerate(node.ops):
            name = _COMPARE.get(type(op))
            if name is None:
                self.fail(node, "`is` compares Python objects; write ==")
            text = " ".join((_segment(self._text, operands[at]), name,
                             _segment(self._text, operands[at + 1])))
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
                if not (isinstance(side.type, ScalarT) and side.type.kind in _ORDERED):
                    self.fail(node, f"{describe(side.type)} has no order")
            if not _comparable(left.type, right.type):
                self.fail(node, f"{describe(left.type)} and {describe(right.type)} have no "
                                "common order")
        return Compare(BOOL, node.col_offset, op, left, right, text)

    def _membership(self, node: ast.Compare, left: Node, right: Node) -> None:
        match right.type:
            case ListT(item=item):
                if not _comparable(left.type, item):
                    self.fail(node, f"{describe(left.type)} cannot be in a list of "
                                    f"{describe(item)}s")
            case CollectionT(type=name, has_keys=True):
                entity = self._scope.schema.by_name[name]
                if len(entity.key) != 1 or not isinstance(left.type, ScalarT):
                    self.fail(node, f"`in` needs the single key of {name} on its left")
            case ScalarT(kind=Kind.ANY):
                pass
            case _:
                self.fail(node, f"`in` needs a list or before.TYPE, not {describe(right.type)}",
                          "for a part of a text write contains(text, part)")

    def _equality(self, node: ast.Compare, left: Node, right: Node) -> None:
        for side in (left, right):
            if isinstance(side.type, CollectionT):
                self.fail(node, "a collection cannot be compared; use all(…), any(…) or count(…)")
            if isinstance(side.type, ScalarT) and side.type.kind is Kind.FLOAT:
                other = right if side is left else left
                if other.type != NULL:
                    self.fail(node, "== on a binary floating-point number is not exact",
                              "canonicalize the field with decimal@1, or write within(a, b, tol)")
        if not _comparable(left.type, right.type):
            self.fail(node, f"{describe(left.type)} can never equal {describe(right.type)}")

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
            return replace(side, items=tuple(
                Canonical(i.type, i.offset, i, other.entity_type, other.field, apply)
                for i in side.items))
        return side

    def _condition(self, node: ast.expr) -> Node:
        condition = self.expression(node)
        if not _is_boolean(condition.type):
            self.fail(node, f"a condition is expected, this is {describe(condition.type)}")
        return condition

    def _number(self, node: ast.expr) -> Node:
        number = self.expression(node)
        if not (isinstance(number.type, ScalarT) and number.type.reference is None
                and number.type.kind in (*_NUMERIC, Kind.FLOAT, Kind.ANY)):
            self.fail(node, f"a number is expected, this is {describe(number.type)}")
        return number

    def _arithmetic(self, node: ast.BinOp) -> Node:
        left, right = self._number(node.left), self._number(node.right)
        float_ = any(isinstance(s.type, ScalarT) and s.type.kind is Kind.FLOAT
                     for s in (left, right))
        kind = ScalarT(Kind.FLOAT) if float_ else NUMBER
        return Arithmetic(kind, node.col_offset, _ARITHMETIC[type(node.op)], left, right)

    def _items(self, node: ast.List | ast.Tuple) -> Node:
        items = tuple(self.expression(item) for item in node.elts)
        kinds = [i.type for i in items if isinstance(i.type, ScalarT)]
        if len(kinds) != len(items):
            self.fail(node, "a list holds plain values only")
        for kind in kinds[1:]:
            if not _comparable(kinds[0], kind):
                self.fail(node, "a list holds values of one type")
        return Items(ListT(kinds[0] if kinds else ANY), node.col_offset, items)

    def _call(self, node: ast.Call) -> Node:
        if not isinstance(node.func, ast.Name):
            self.fail(node, "only the language's own functions can be called",
                      ", ".join(FUNCTIONS))
        name = node.func.id
        function = FUNCTIONS.get(name)
        if function is None:
            self.fail(node, f"unknown function `{name}`", _suggest(name, FUNCTIONS)
                      or "known: " + ", ".join(FUNCTIONS))
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            self.fail(node, f"{name}(…) takes plain arguments only")
        count = {"within": 3, "regex": 2, "text2": 2}.get(function.shape, 1)
        if len(node.args) != count:
            self.fail(node, f"{name}(…) takes {count} argument{'s' * (count > 1)}, "
                            f"found {len(node.args)}")
        if function.shape in ("quantifier", "elements", "numbers", "ordered", "entities"):
            return self._over(node, name, function.shape, node.args[0])
        return self._scalar_call(node, name, function.shape)

    def _over(self, node: ast.Call, name: str, shape: str, argument: ast.expr) -> Node:
        body: Node
        if isinstance(argument, (ast.GeneratorExp, ast.ListComp)):
            body = self._comprehension(argument)
        else:
            body = self.expression(argument)
        element = body.element.type if isinstance(body, Comprehension) else (
            body.type.item if isinstance(body.type, ListT) else body.type)
        if not isinstance(body, Comprehension) and not (
                isinstance(body.type, ListT)
                or (shape == "entities" and isinstance(body.type, CollectionT))):
            self.fail(argument, f"{name}(…) ranges over `… for x in …`, "
                                f"not over {describe(body.type)}")
        if shape == "quantifier" and not _is_boolean(element):
            self.fail(argument, f"{name}(…) needs a condition for each element, "
                                f"not {describe(element)}")
        scalar = element.kind if isinstance(element, ScalarT) else None
        if shape == "numbers" and scalar not in (*_NUMERIC, Kind.FLOAT, Kind.ANY):
            self.fail(argument, f"{name}(…) adds numbers, not {describe(element)}")
        if shape == "ordered" and scalar not in _ORDERED:
            self.fail(argument, f"{describe(element)} has no order")
        if shape == "elements" and not isinstance(element, ScalarT):
            self.fail(argument, f"{name}(…) compares plain values, not {describe(element)}")
        result = {"quantifier": BOOL, "elements": BOOL, "entities": NUMBER}.get(shape, element)
        return Call(result, node.col_offset, name, (body,))

    def _comprehension(self, node: ast.GeneratorExp | ast.ListComp) -> Node:
        outer = dict(self._variables)
        loops: list[Loop] = []
        for generator in node.generators:
            if generator.is_async or not isinstance(generator.target, ast.Name):
                self.fail(node, "write `for NAME in COLLECTION`")
            name = generator.target.id
            if name in (*STATE_ROOTS, *DELTA_ROOTS, *LATER_ROOTS, "input", "answer",
                        *_CONSTANTS, *FUNCTIONS, *self._variables):
                self.fail(generator.target, f"`{name}` already has a meaning; choose another name")
            source = self.expression(generator.iter)
            match source.type:
                case CollectionT(type=entity):
                    self._variables[name] = EntityT(entity)
                case ListT(item=item):
                    self._variables[name] = item
                case _:
                    self.fail(generator.iter, f"cannot range over {describe(source.type)}")
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
                self.fail(node, f"exists(…) takes an entity, not {describe(first)}",
                          "compare a field with null instead")
            return Call(BOOL, node.col_offset, name, arguments)
        if shape == "sized":
            if not (isinstance(first, ListT) or (
                    isinstance(first, ScalarT) and first.kind in (Kind.TEXT, Kind.ANY))):
                self.fail(node, f"len(…) takes a text or a list, not {describe(first)}",
                          "for a collection write count(…)")
            return Call(NUMBER, node.col_offset, name, arguments)
        for argument in arguments:
            if not (isinstance(argument.type, ScalarT)
                    and argument.type.kind in (Kind.TEXT, Kind.ANY)):
                self.fail(node, f"{name}(…) takes texts, not {describe(argument.type)}")
        if shape == "regex":
            self._regex(node, arguments[1])
        return Call(BOOL, node.col_offset, name, arguments)

    def _instant(self, node: ast.Call, name: str, argument: Node) -> Node:
        if not isinstance(argument, (Const, InputOf)) or not isinstance(argument.value, str):
            self.fail(node, f"{name}(…) takes a text literal or an input")
        try:
            if name == "date":
                day = date.fromisoformat(argument.value)
                return Const(ScalarT(Kind.DATE), node.col_offset, day)
            moment = datetime.fromisoformat(argument.value)
        except ValueError:
            self.fail(node, f"not an ISO 8601 {name}: {argument.value!r}")
        kind = Kind.LOCAL_TIMESTAMP if moment.tzinfo is None else Kind.TIMESTAMP
        return Const(ScalarT(kind), node.col_offset, moment)

    def _regex(self, node: ast.Call, pattern: Node) -> None:
        if not isinstance(pattern, Const) or not isinstance(pattern.value, str):
            self.fail(node, "the expression of matches(…) is a text literal",
                      "no value of a state may become a pattern")
        compile_regex(pattern.value, node.col_offset)


def compile_regex(pattern: str, offset: int = 0) -> re2._Regexp[str]:
    """The RE2 pattern, compiled quietly; `ExpressionError` if RE2 refuses it."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ExpressionError(f"not an RE2 expression: {error}", offset) from None


def type_of(value: Value) -> Type:
    """The type of a literal or input."""
    match value:
        case None:
            return NULL
        case bool():
            return BOOL
        case int() | Decimal():
            return NUMBER
        case str():
            return TEXT
        case tuple():
            return ListT(type_of(value[0]) if value and not isinstance(  # type: ignore[arg-type]  # scalars below
                value[0], (tuple, Map)) else ANY)
        case _:
            pass
    return ANY


def _comparable(a: Type, b: Type) -> bool:
    if isinstance(a, ListT) or isinstance(b, ListT):
        return (isinstance(a, ListT) and isinstance(b, ListT)) or ANY in (a, b) or NULL in (a, b)
    if isinstance(a, EntityT) or isinstance(b, EntityT):
        names = {t.type if isinstance(t, EntityT) else t.reference for t in (a, b)
                 if isinstance(t, (EntityT, ScalarT))}
        return len(names) == 1 or (len(names) == 2 and None in names and NULL not in (a, b))
    if not isinstance(a, ScalarT) or not isinstance(b, ScalarT):
        return False
    if a.kind is None or b.kind is None or Kind.ANY in (a.kind, b.kind):
        return True
    if a.reference and b.reference and a.reference != b.reference:
        return False
    numeric = (*_NUMERIC, Kind.FLOAT)
    if a.kind in numeric or b.kind in numeric:
        return a.kind in numeric and b.kind in numeric
    times = (Kind.TIMESTAMP, Kind.LOCAL_TIMESTAMP, Kind.DATE)
    if a.kind in times and b.kind is Kind.TEXT or b.kind in times and a.kind is Kind.TEXT:
        return False
    return a.kind is b.kind


def _segment(text: str, node: ast.AST) -> str:
    return (ast.get_source_segment(text, node) or "…")[:120]


def _suggest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1, 0.6)
    return f"did you mean `{close[0]}`?" if close else ""
