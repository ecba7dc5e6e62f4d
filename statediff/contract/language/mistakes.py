"""Habits of other languages, and what to write instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Final

from statediff.contract.language.kinds import ExpressionError
from statediff.contract.language.names import FUNCTIONS

_METHODS: Final = {
    "casefold": "lower",
    "endswith": "ends_with",
    "fullmatch": "matches",
    "includes": "contains",
    "lowercase": "lower",
    "size": "len",
    "startswith": "starts_with",
    "toLowerCase": "lower",
}
"""Names that other languages have for a function of this one."""
_TEXTS: Final = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")


def no_function(node: ast.Call, segment: Callable[[ast.expr], str]) -> ExpressionError:
    """The error for a call of what is no name: `it.title.lower()` and its like.

    `segment` gives an expression as it is written.
    """
    hint = ", ".join(FUNCTIONS)
    if isinstance(node.func, ast.Attribute):
        name = _METHODS.get(node.func.attr, node.func.attr)
        given = [node.func.value, *node.args]
        if name in FUNCTIONS:
            hint = f"write {name}({', '.join(map(segment, given))})"
    return ExpressionError("only the language's own functions can be called", node.col_offset, hint)


def no_expression(source: str, message: str, offset: int) -> ExpressionError:
    """Why Python reads no expression, in words where there are better ones than Python's."""
    bare = _TEXTS.sub(lambda found: "_" * len(found[0]), source)
    depth = 0
    for at, character in enumerate(bare):
        depth += (character in "([{") - (character in ")]}")
        if (
            character == "="
            and "=" not in bare[at + 1 : at + 2]
            and bare[at - 1 : at] not in (*"=!<>:",)
        ):
            name = re.search(r"[\w.]*\s*$", bare[:at])
            if depth == 0 or (name is not None and "." in name[0]):
                return ExpressionError("`=` is not a comparison; write `==`", at)
    for written, meant in (("&&", "and"), ("||", "or")):
        if written in bare:
            return ExpressionError(f"`{written}` is written `{meant}`", bare.index(written))
    return ExpressionError(f"not an expression: {message}", offset)
