"""Conditions and arithmetic over whole columns, exact or refused.

What a column cannot say as the row evaluator would (another kind, an overflow, a literal that fits
no cell) raises `NotForColumns`; a single cell that it cannot say is null in the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from statediff.contract.language.syntax import (
    And,
    Arithmetic,
    Compare,
    Const,
    FieldOf,
    InputOf,
    Items,
    Node,
    Not,
    Or,
)
from statediff.model.schema import Kind
from statediff.model.values import Value

REFUSED: Final = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, ValueError)
"""What Arrow raises where a column cannot do it exactly."""

_ORDER: Final = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
_EXACT: Final = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_NATIVE: Final = {
    kind.value: kind
    for kind in (
        Kind.BOOL,
        Kind.INT,
        Kind.TEXT,
        Kind.TIMESTAMP,
        Kind.LOCAL_TIMESTAMP,
        Kind.DATE,
    )
}


class NotForColumns(Exception):
    """The row evaluator must look at every row of the segment."""


@dataclass(frozen=True)
class Operand:
    """A column, or a literal. `is_plain`: a null in it is a known null, not something undefined."""

    array: Any
    kind: Kind | None
    is_plain: bool = True
    is_literal: bool = False


class Kernels:
    """Conditions and values over the columns of consecutive chunks, a row an element.

    In a column of truths null stands for "ask the row evaluator", never for false.
    """

    def __init__(
        self, batches: list[pa.RecordBatch], forms: Mapping[str, str], table: pa.Table | None
    ) -> None:
        self._batches = batches
        self._forms = forms
        self._table = table
        self._columns: dict[str, Operand] = {}

    def all_of(self, conditions: tuple[Node, ...]) -> pa.ChunkedArray | None:
        """The truth of all the conditions, left to right; None where there are none."""
        truths: pa.ChunkedArray | None = None
        for test in conditions:
            found = self.truth(test)
            truths = found if truths is None else pc.if_else(truths, found, False)
        return truths

    def truth(self, node: Node) -> pa.ChunkedArray:
        """The truth of a condition per row; a null left of `and`/`or` is left to the rows."""
        match node:
            case And(parts=(first, *rest)):
                truths = self.truth(first)
                for part in rest:
                    truths = pc.if_else(truths, self.truth(part), False)
                return truths
            case Or(parts=(first, *rest)):
                truths = self.truth(first)
                for part in rest:
                    truths = pc.if_else(truths, True, self.truth(part))
                return truths
            case Not(child=child):
                return pc.invert(self.truth(child))
            case Compare():
                return self._compare(node)
            case FieldOf():
                operand = self.value(node)
                if operand.kind is Kind.BOOL:
                    return operand.array
            case _:
                pass
        raise NotForColumns

    def _compare(self, node: Compare) -> pa.ChunkedArray:
        left = self.value(node.left)
        if node.op in ("in", "not in"):
            truths = _is_in(left, node.right)
        else:
            right = self.value(node.right)
            if left.is_literal and right.is_literal:
                raise NotForColumns
            known = right if left.is_literal else left
            left, right = _as(left, known), _as(right, known)
            if node.op in ("==", "!="):
                truths = _equal(left, right)
            else:
                if known.kind is Kind.BOOL:
                    raise NotForColumns
                truths = _ORDER[node.op](left.array, right.array)
        return pc.invert(truths) if node.op in ("!=", "not in") else truths

    def value(self, node: Node) -> Operand:
        """The value of an expression per row, or a literal."""
        match node:
            case FieldOf(field=name):
                if name not in self._columns:
                    self._columns[name] = self._column(name)
                return self._columns[name]
            case Const(value=value) | InputOf(value=value):
                return Operand(value, None, is_literal=True)
            case Arithmetic(op=op):
                integers = Operand(None, Kind.INT)
                sides = [_as(self.value(side), integers) for side in (node.left, node.right)]
                if all(side.is_literal for side in sides):
                    raise NotForColumns
                array = _EXACT[op](sides[0].array, sides[1].array)
                return Operand(array, Kind.INT, is_plain=False)
            case _:
                pass
        raise NotForColumns

    def _column(self, name: str) -> Operand:
        kind = _NATIVE.get(self._forms[name])
        if kind is None:
            raise NotForColumns
        if self._table is None:
            return Operand(pa.chunked_array([b.column(name) for b in self._batches]), kind)
        return Operand(self._table.column(name), kind)


_ARROW: Final = {
    Kind.BOOL: pa.bool_(),
    Kind.INT: pa.int64(),
    Kind.TEXT: pa.string(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.LOCAL_TIMESTAMP: pa.timestamp("us"),
    Kind.DATE: pa.date32(),
}


def _as(operand: Operand, other: Operand) -> Operand:
    """The operand in the form of the other, which is a column."""
    if not operand.is_literal:
        if operand.kind is not other.kind:
            raise NotForColumns
        return operand
    if operand.array is None or other.kind is None:
        return operand
    return Operand(_scalar(operand.array, other.kind), other.kind, is_literal=True)


def _scalar(value: Value, kind: Kind) -> pa.Scalar:
    """The literal as a cell of a column of that kind."""
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        value = int(value)
    is_of_kind = {
        Kind.BOOL: isinstance(value, bool),
        Kind.INT: isinstance(value, int) and not isinstance(value, bool),
        Kind.TEXT: isinstance(value, str),
        Kind.TIMESTAMP: isinstance(value, datetime) and value.tzinfo is not None,
        Kind.LOCAL_TIMESTAMP: isinstance(value, datetime) and value.tzinfo is None,
        Kind.DATE: isinstance(value, date) and not isinstance(value, datetime),
    }
    if not is_of_kind[kind]:
        raise NotForColumns
    return pa.scalar(value, _ARROW[kind])


def _equal(left: Operand, right: Operand) -> pa.ChunkedArray:
    """Equality; `null == null` holds, and null equals nothing else."""
    for side, other in ((left, right), (right, left)):
        if side.is_literal and side.array is None:
            if not other.is_plain:
                raise NotForColumns
            return other.array.is_null()
    truths = pc.equal(left.array, right.array)
    if not truths.null_count or not (left.is_plain and right.is_plain):
        return truths
    if left.is_literal or right.is_literal:
        return pc.fill_null(truths, False)
    return pc.if_else(
        truths.is_null(), pc.and_(left.array.is_null(), right.array.is_null()), truths
    )


def _is_in(left: Operand, listed: Node) -> pa.ChunkedArray:
    if left.is_literal or not left.is_plain or left.kind is None:
        raise NotForColumns
    match listed:
        case Const(value=tuple() as values) | InputOf(value=tuple() as values):
            items: list[Value] = list(values)
        case Items(items=parts):
            items = [part.value for part in parts if isinstance(part, (Const, InputOf))]
            if len(items) != len(parts):
                raise NotForColumns
        case _:
            raise NotForColumns
    cells = [_scalar(item, left.kind).as_py() for item in items]
    return pc.is_in(left.array, value_set=pa.array(cells, _ARROW[left.kind]))
