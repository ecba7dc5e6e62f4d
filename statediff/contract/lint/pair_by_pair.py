"""Pairs that a clause compares one by one: no equality and no order relates the two sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from statediff.contract.evaluation.plans import plan_of
from statediff.contract.language.context import FALSE, TRUE
from statediff.contract.language.syntax import (
    Call,
    Comprehension,
    Entities,
    Loop,
    Node,
    children,
    free_variables,
)
from statediff.contract.lint.subject import Subject
from statediff.errors import Problem
from statediff.model.view import ColumnarView

SOME_PAIRS: Final = 1_000_000
"""Pairs of entities of the base state that are worth a word: a second or so."""
MAX_PAIRS: Final = 1_000_000_000
"""Pairs that take minutes."""


def products(subject: Subject) -> Iterator[Problem]:
    """Every loop that compares a million pairs or more, as the base state is."""
    for expression in subject.expressions():
        outer = {} if expression.type is None else {"it": expression.type, "new": expression.type}
        for loop, inner, of, is_changed in _pairs(expression.node, outer, frozenset(outer)):
            pairs = _rows(subject, inner) * _rows(subject, of)
            if pairs < SOME_PAIRS:
                continue
            # Nobody knows before a run how many rows it changes.
            is_error = pairs >= MAX_PAIRS and not is_changed
            which = f"each changed `{of}`" if is_changed else f"each `{of}`"
            yield subject.remark(
                "too-many-pairs" if is_error else "pairs",
                expression.path,
                f"each `{inner}` is compared with {which}: {pairs:,} pairs in the base state",
                offset=loop.source.offset,
            )


def _pairs(
    node: Node, outer: Mapping[str, str], changed: frozenset[str], wanted: int | None = None
) -> Iterator[tuple[Loop, str, str, bool]]:
    """(loop, its type, the type of the entities around it, whether those are the changed ones)."""
    if isinstance(node, Call) and node.name in ("any", "all"):
        wanted = TRUE if node.name == "any" else FALSE
    if not isinstance(node, Comprehension):
        for child in children(node):
            yield from _pairs(child, outer, changed, wanted if isinstance(node, Call) else None)
        return
    around = dict(outer)
    for number, loop in enumerate(node.loops):
        yield from _pairs(loop.source, around, changed)
        is_last = number == len(node.loops) - 1
        asked = free_variables(Comprehension(node.type, node.offset, node.element, (loop,)))
        others = [name for name in around if name in asked]
        element = node.element if is_last and wanted is not None else None
        if isinstance(loop.source, Entities):
            if others and not plan_of(loop, element, wanted or TRUE, None).is_related:
                yield loop, loop.source.entity, around[others[-1]], others[-1] in changed
            around[loop.name] = loop.source.entity
        for condition in loop.conditions:
            yield from _pairs(condition, around, changed)
    yield from _pairs(node.element, around, changed)


def _rows(subject: Subject, type_name: str) -> int:
    """How many entities of the type the base state has; 0 where nobody knows."""
    if not isinstance(subject.base, ColumnarView):
        return 0
    columns = subject.base.columns(type_name, ())
    return 0 if columns is None else columns.rows
