"""Masks over the columns of a whole entity type, in the stored Arrow chunks.

A screen sorts the entities of a state, without decoding them, into those of which the outcome is
certain and those that the row evaluator must look at: every entity with a cell that is unobserved
or null where null has no order, of a kind stored in no exact native form (floats, decimals, mixed
kinds, integers beyond 64 bits), or in arithmetic that would overflow. What is certain and changes
nothing is passed over; everything else is evaluated by rows (`plans`).

In a column of truths here, null stands for "ask the row evaluator", never for false. What a whole
column cannot say as the row evaluator would (another kind, an overflow, a literal that fits no
cell) raises `NotForColumns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import groupby, islice
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statediff.contract.evaluation.operations import NOTHING, Partial
from statediff.contract.evaluation.plans import Plan, is_own
from statediff.contract.language.context import (
    FALSE,
    EntityRef,
    EntitySet,
    Result,
    Undefined,
    Unknown,
)
from statediff.contract.language.syntax import (
    And,
    AnswerOf,
    Arithmetic,
    Compare,
    Const,
    FieldOf,
    InputOf,
    Items,
    Node,
    Not,
    Or,
    Variable,
)
from statediff.model.batches import NATIVE, Row, batch_rows, form_of
from statediff.model.schema import Kind
from statediff.model.values import Absent, Key, Value, key_order
from statediff.model.view import Columns

REFUSED: Final = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, ValueError)
"""Raised by Arrow where a column cannot do it exactly."""

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


def _as(operand: Operand, other: Operand) -> Operand:
    """The operand in the form of the other, which is a column."""
    if not operand.is_literal:
        if operand.kind is not other.kind:
            raise NotForColumns
        return operand
    if operand.array is None or other.kind is None:
        return operand
    cell = pa.scalar(_native(operand.array, other.kind), other.array.type)
    return Operand(cell, other.kind, is_literal=True)


def _native(value: Value, kind: Kind) -> Value:
    """The literal as a cell of a column of that kind holds it."""
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        value = int(value)
    is_zoned = isinstance(value, datetime) and value.tzinfo is not None
    if type(value) is not NATIVE[kind] or is_zoned is not (kind is Kind.TIMESTAMP):
        raise NotForColumns
    return value


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
    cells = [_native(item, left.kind) for item in items]
    return pc.is_in(left.array, value_set=pa.array(cells, left.array.type))


Indexes: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Rows: TypeAlias = tuple[tuple[Key, Row], ...]

_NO_ROWS: Final[Indexes] = np.empty(0, dtype=np.int64)
_NO_INTEGERS: Final = pa.chunked_array([], pa.int64())
NOT_PLAIN: Final = Operand(None, None, is_plain=False)
GROUP: Final = 512
"""Chunks screened in one piece."""


@dataclass(frozen=True)
class Screen:
    """A plan over the columns of a type; `fields` are those that a decoded row has."""

    plan: Plan
    columns: Columns
    fields: tuple[str, ...]
    outside: Callable[[Node], Result]
    """Evaluates what comes from outside the loop."""

    def deciding(self) -> Iterator[tuple[Key, Row]]:
        """The entities that can decide a quantifier, in key order.

        Passed over: all that certainly do not matter, and after the first that certainly does all
        others that certainly do.
        """
        is_stopped, neutral = False, self.plan.wanted == FALSE
        for segment in self.segments():
            truths = segment.truths(neutral)
            if truths is None:
                yield from segment.rows(None)
                continue
            is_neutral = pc.all(truths).as_py() if neutral else not pc.any(truths).as_py()
            if is_neutral and not truths.null_count:
                continue
            wanted = _mask(truths.is_null())
            stops = _mask(pc.fill_null(pc.invert(truths) if neutral else truths, False))
            if not is_stopped and stops.any():
                wanted[int(stops.argmax())] = is_stopped = True
            yield from segment.rows(np.flatnonzero(wanted))

    def summary(self, name: str) -> tuple[Partial, Rows] | None:
        """The aggregate as far as columns can tell, and the entities that must be looked at.

        None where that is all of them. Of the elements that certainly count, the one that is least
        or greatest is looked at, and the first two that are equal.
        """
        if name == "unique":
            return self._uniqueness()
        counted, total = 0, 0
        asked: list[tuple[Key, Row]] = []
        best: tuple[int, tuple[Key, Row]] | None = None
        for segment in self.segments():
            found = segment.summed() if name != "count" else segment.counted()
            if found is None:
                asked += segment.rows(None)
                continue
            number, of, rows = found
            asked += segment.rows(rows)
            if name in ("min", "max"):
                end: Any = pc.min_max(of).as_py()[name]
                if number and (best is None or (end < best[0] if name == "min" else end > best[0])):
                    [row] = segment.rows(np.array([pc.index(of, end).as_py()]))
                    best = end, row
                continue
            counted, total = counted + number, total + (pc.sum(of).as_py() or 0)
        if best is not None:
            asked = sorted([*asked, best[1]], key=lambda each: key_order(each[0]))
        return Partial(counted, total), tuple(asked)

    def _uniqueness(self) -> tuple[Partial, Rows] | None:
        """The answer to `unique`; None where an element is no plain field of one native kind."""
        chunks: list[pa.Array] = []
        places: list[tuple[_Segment, Indexes]] = []
        for segment in self.segments():
            kept, element = segment.elements() or (None, None)
            if element is None or element.is_literal or not element.is_plain:
                return None
            if kept is not None and kept.null_count:
                return None
            chunks += (element.array if kept is None else element.array.filter(kept)).chunks
            counting = np.arange(len(segment)) if kept is None else np.flatnonzero(_mask(kept))
            places.append((segment, counting))
        if len({chunk.type for chunk in chunks}) > 1:
            return None
        values = pa.chunked_array(chunks) if chunks else ()
        if not chunks or pc.count_distinct(values, mode="all").as_py() == len(values):
            return Partial(len(values)), ()
        equals, start = _first_equals(values), 0
        rows: list[tuple[Key, Row]] = []
        for segment, counting in places:
            end = start + len(counting)
            rows += segment.rows(counting[[at - start for at in equals if start <= at < end]])
            start = end
        return NOTHING, tuple(rows)

    def segments(self) -> Iterator[_Segment]:
        """Runs of chunks that store the fields in the same forms, in key order."""
        batches = iter(self.columns.batches)
        while group := list(islice(batches, GROUP)):
            for run, table in _alike(group, self.plan.fields or ()):
                yield _Segment(self, run, table)


def _first_equals(values: pa.ChunkedArray) -> tuple[int, int]:
    """The places of the first element that came before, and of its first occurrence."""
    codes = values.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
    _, firsts, places = np.unique(codes, return_index=True, return_inverse=True)
    repeated = int(np.flatnonzero(firsts[places] != np.arange(len(codes)))[0])
    return int(firsts[places[repeated]]), repeated


def _mask(array: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    # A copy: Arrow's own memory is read-only.
    return np.array(array.to_numpy(), dtype=np.bool_)


def _alike(
    group: list[pa.RecordBatch], fields: tuple[str, ...]
) -> list[tuple[list[pa.RecordBatch], pa.Table]]:
    try:
        # Arrow compares the types of all columns at once; a field's type tells its form.
        return [(group, pa.Table.from_batches(group))]
    except pa.ArrowInvalid:
        found = []
        for forms, each in groupby(group, lambda batch: _forms(batch, fields)):
            run, there = list(each), [n for n, form in zip(fields, forms, strict=True) if form]
            found.append((run, pa.Table.from_batches([batch.select(there) for batch in run])))
        return found


def _forms(batch: pa.RecordBatch, fields: tuple[str, ...]) -> tuple[str, ...]:
    indexes = [batch.schema.get_field_index(name) for name in fields]
    return tuple("" if index < 0 else form_of(batch, index) for index in indexes)


class _Segment:
    """Conditions and values over the columns of consecutive chunks, a row an element.

    In a column of truths null stands for "ask the row evaluator", never for false.
    """

    def __init__(self, of: Screen, batches: list[pa.RecordBatch], table: pa.Table) -> None:
        self._of = of
        self._batches = batches
        self._table = table
        fields = of.plan.fields or ()
        self._forms = dict(zip(fields, _forms(batches[0], fields), strict=True))
        self._columns: dict[str, Operand] = {}

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self._batches)

    def rows(self, wanted: Indexes | None) -> Iterator[tuple[Key, Row]]:
        """The rows at the sorted indexes; every row where there are none."""
        start = 0
        for batch in self._batches if wanted is None or len(wanted) else ():
            part, end = batch, start + batch.num_rows
            if wanted is not None:
                own = wanted[np.searchsorted(wanted, start) : np.searchsorted(wanted, end)]
                part = batch.take(pa.array(own - start)) if len(own) else None
            if part is not None:
                yield from batch_rows(self._of.columns.type, part, self._of.fields)
            start = end

    def _kept(self) -> pa.ChunkedArray | None:
        """The truth of all the conditions, left to right; None where there are none."""
        truths: pa.ChunkedArray | None = None
        for test in self._of.plan.loop.conditions:
            found = self.truth(test)
            truths = found if truths is None else pc.if_else(truths, found, False)
        return truths

    def truths(self, neutral: bool) -> pa.ChunkedArray | None:
        """The element of a quantifier where the conditions hold, else `neutral`; None: ask rows."""
        try:
            kept, asked = self._kept(), self._of.plan.decides
            truths = None if asked is None else self.truth(asked)
            return truths if kept is None else pc.if_else(kept, truths, neutral)
        except (NotForColumns, *REFUSED):
            return None

    def elements(self) -> tuple[pa.ChunkedArray | None, Operand | None] | None:
        """The values that count, and the element where it is no entity; None if rows must say."""
        element = self._of.plan.element
        try:
            return self._kept(), None if element is None else self.value(element)
        except (NotForColumns, *REFUSED):
            return None

    def counted(self) -> tuple[int, pa.ChunkedArray, Indexes] | None:
        """How many rows count, nothing to add up, and the rows that others must look at."""
        kept, element = self.elements() or (None, NOT_PLAIN)
        if element is not None and not element.is_plain:
            return None
        if kept is None:
            return len(self), _NO_INTEGERS, _NO_ROWS
        asked = np.flatnonzero(_mask(kept.is_null())) if kept.null_count else _NO_ROWS
        return pc.sum(kept, min_count=0).as_py(), _NO_INTEGERS, asked

    def summed(self) -> tuple[int, pa.ChunkedArray, Indexes] | None:
        """The number of integers, these themselves, and the rows that others must look at."""
        kept, element = self.elements() or (None, None)
        if element is None or element.kind is not Kind.INT or element.is_literal:
            return None
        array = element.array
        asked = array.is_null() if array.null_count else None
        if kept is not None:
            asked = pc.if_else(kept, False if asked is None else asked, False)
            asked = pc.fill_null(asked, True) if asked.null_count else asked
            array = pc.if_else(kept, array, pa.scalar(None, pa.int64()))
        rows = _NO_ROWS if asked is None else np.flatnonzero(_mask(asked))
        count = len(array) - array.null_count
        if count:
            least, greatest = pc.min_max(array).as_py().values()
            if max(abs(least), abs(greatest)) * count >= 1 << 63:
                return None
        return count, array, rows

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
            case AnswerOf() | FieldOf(entity=Variable()) if not is_own(
                node, self._of.plan.variable
            ):
                return self._from_outside(node)
            case FieldOf(field=name):
                if name not in self._columns:
                    self._columns[name] = self._column(name)
                return self._columns[name]
            case Const(value=value) | InputOf(value=value):
                return Operand(value, None, is_literal=True)
            case Arithmetic(op=op) if op in _EXACT:
                integers = Operand(_NO_INTEGERS, Kind.INT)
                sides = [_as(self.value(side), integers) for side in (node.left, node.right)]
                if all(side.is_literal for side in sides):
                    raise NotForColumns
                array = _EXACT[op](sides[0].array, sides[1].array)
                return Operand(array, Kind.INT, is_plain=False)
            case _:
                pass
        raise NotForColumns

    def _from_outside(self, node: Node) -> Operand:
        value = self._of.outside(node)
        if isinstance(value, (Absent, EntityRef, EntitySet, Undefined, Unknown)):
            raise NotForColumns
        return Operand(value, None, is_literal=True)

    def _column(self, name: str) -> Operand:
        kind = _NATIVE.get(self._forms[name])
        if kind is None:
            raise NotForColumns
        return Operand(self._table.column(name), kind)
