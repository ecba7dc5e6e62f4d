"""Evaluate expressions of the subset."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from .contract import literal, read_attribute, read_loop
from .opening import CannotTell

UNKNOWN = "unknown"
UNDEFINED = "undefined"
Entity = dict[str, list[Any]]
Range = Callable[[str, str, set[str]], tuple[list[Entity], bool]]
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _term(node: ast.expr, names: dict[str, Entity]) -> Any:
    found = literal(node)
    if found is not None:
        return found
    name, attribute = read_attribute(node) or ("", "")
    if name not in names:
        raise CannotTell("a name that is not known: " + name)
    value = names[name].get(attribute, ["absent"])
    if value[0] in ("null", "absent"):
        return None
    if value[0] == "int":
        return int(value[1])
    if value[0] in ("text", "bool"):
        return value[1]
    raise CannotTell("a value of another kind")


def _compare(node: ast.Compare, names: dict[str, Entity]) -> Any:
    left, right = _term(node.left, names), _term(node.comparators[0], names)
    if left is None or right is None:
        return UNDEFINED
    how = type(node.ops[0])
    if type(left) is not type(right) or (isinstance(left, bool) and how not in (ast.Eq, ast.NotEq)):
        raise CannotTell("a comparison of several kinds")
    return COMPARE[how](left, right)


def _join(results: list[Any], decisive: bool) -> Any:
    if decisive in [result for result in results if isinstance(result, bool)]:
        return decisive
    for doubt in (UNDEFINED, UNKNOWN):
        if doubt in results:
            return doubt
    return not decisive


def fields_read(node: ast.AST, name: str) -> set[str]:
    """Return the fields of a name that an expression reads."""
    found = [read_attribute(part) for part in ast.walk(node)]
    return {pair[1] for pair in found if pair is not None and pair[0] == name}


def evaluate(node: ast.expr, names: dict[str, Entity], ranges: Range) -> Any:
    """Return true, false, UNKNOWN or UNDEFINED."""
    if isinstance(node, ast.BoolOp):
        results = [evaluate(part, names, ranges) for part in node.values]
        return _join(results, isinstance(node.op, ast.Or))
    if isinstance(node, ast.UnaryOp):
        result = evaluate(node.operand, names, ranges)
        return not result if isinstance(result, bool) else result
    if isinstance(node, ast.Compare):
        return _compare(node, names)
    loop = read_loop(node)
    members, complete = ranges(loop.side, loop.kind, fields_read(loop.body, loop.variable))
    results = [evaluate(loop.body, {**names, loop.variable: one}, ranges) for one in members]
    if not complete:
        results.append(UNKNOWN)
    return _join(results, loop.decisive)
