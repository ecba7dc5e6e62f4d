"""Fields whose names Python keeps for itself: `call.class`, `it.from`."""

from __future__ import annotations

import ast
import keyword
import re
import threading
from typing import Final

_TEXTS: Final = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_RESERVED: Final = re.compile(rf"{_TEXTS}|(?<=\.)({'|'.join(keyword.kwlist)})\b")
_ONE_AT_A_TIME: Final = threading.Lock()
"""Python 3.11 counts the depth of all threads' trees in one number: two at once can raise
SystemError, "AST constructor recursion depth mismatch" (python/cpython#106905)."""


def parsed(source: str) -> ast.Expression:
    """The syntax tree of an expression in one line; after a dot any word is a name.

    A reserved word gives way to a name of the same length while Python reads the expression, so
    that every offset stays what it was. Space around the expression is none of it. The offsets of
    the tree's expressions count the characters of `source`, where Python counts the bytes of
    UTF-8. Raises what `ast.parse` raises.
    """
    text = source.strip()
    begins = source.find(text)
    names: dict[int, str] = {}

    def stand_in(found: re.Match[str]) -> str:
        word = found[1]
        if word is None:
            return found[0]
        names[len(text[: found.end()].encode())] = word
        return "_" * len(word)

    with _ONE_AT_A_TIME:
        tree = ast.parse(_RESERVED.sub(stand_in, text), mode="eval")
    written = text.encode()

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
