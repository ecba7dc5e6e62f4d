"""Clauses over a whole entity type, screened column by column over the stored Arrow chunks.

`plan` says, of the expression alone, whether it compares and combines plain fields of the one type
it ranges over with literals, inputs and values from outside. A screen then sorts the entities of a
state, without decoding them, into those of which the outcome is certain and those that the row
evaluator must look at: every entity with a cell that is unobserved or null where null has no order,
of a kind stored in no exact native form (floats, decimals, mixed kinds, integers beyond 64 bits),
or in arithmetic that would overflow. What is certain and changes nothing is passed over; everything
else is evaluated by rows. So the outcome, the witness and the reasons are those of the row
evaluator, by construction.

In a column of truths here, null stands for "ask the row evaluator", never for false. What a whole
column cannot say as the row evaluator would (another kind, an overflow, a literal that fits no
cell) raises `NotForColumns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import groupby, islice
from typing import Any, Final, TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statediff.contract.language.context import EntityRef, EntitySet, Result, Undefined, Unknown
from statediff.contract.language.syntax import (
    And,
    AnswerOf,
    Arithmetic,
    Compare,
    Comprehension,
    Const,
    Entities,
    FieldOf,
    InputOf,
    Items,
    Node,
    Not,
    Or,
    Variable,
    free_variables,
    walk,
)
from statediff.model.batches import NATIVE, Row, batch_rows, form_of
from statediff.model.schema import Kind
from statediff.model.values import Absent, Key, Value
from statediff.model.view import Columns

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

_NO_ROWS: Final[Indexes] = np.empty(0, dtype=np.int64)
GROUP: Final = 512
"""Chunks screened in one piece."""


def _nothing_outside(_node: Node) -> Result:
    raise NotForColumns  # nobody said what it is


@dataclass(frozen=True)
class Plan:
    """A comprehension over one whole type that columns can screen."""

    side: str
    type: str
    conditions: tuple[Node, ...]
    element: Node
    fields: tuple[str, ...]
    """The fields it reads."""
    variable: str = ""
    is_closed: bool = True
    """It names nothing but the element; else it is another question for each of its outsides."""
    outside: Callable[[Node], Result] = field(default=_nothing_outside, compare=False)
    """Evaluates what comes from outside, once a question."""


def planned(body: Node, whole_entities: bool) -> Plan | None:
    """The plan of a comprehension; see `gathering.plan`."""
    if whole_entities and isinstance(body, Entities) and body.root in ("before", "after"):
        return Plan(body.root, body.entity, (), body, ())
    if not isinstance(body, Comprehension) or len(body.loops) != 1:
        return None
    loop = body.loops[0]
    if not isinstance(loop.source, Entities) or loop.source.root not in ("before", "after"):
        return None
    is_entity = isinstance(body.element, Variable) and body.element.name == loop.name
    parts = [*loop.conditions, *(() if whole_entities and is_entity else (body.element,))]
    if not all(is_plain(part, loop.name) for part in parts):
        return None
    names = {n.field for part in parts for n in walk(part) if is_own(n, loop.name)}
    root, entity = loop.source.root, loop.source.entity
    is_closed = free_variables(body) == frozenset()
    fields = tuple(sorted(names))
    return Plan(root, entity, loop.conditions, body.element, fields, loop.name, is_closed)


def is_own(node: Node, variable: str) -> TypeGuard[FieldOf]:
    """True for a field of the element."""
    return (
        isinstance(node, FieldOf)
        and isinstance(node.entity, Variable)
        and node.entity.name == variable
    )


def is_plain(node: Node, variable: str) -> bool:
    """True where all of it is the variable's own fields and what is at hand without reading."""
    match node:
        case FieldOf(entity=Variable(name=name), part=part):
            return name != variable or not part
        case Const() | InputOf() | AnswerOf():
            return True
        case And(parts=parts) | Or(parts=parts) | Items(items=parts):
            return all(is_plain(part, variable) for part in parts)
        case Not(child=child):
            return is_plain(child, variable)
        case Compare(left=left, right=right):
            return is_plain(left, variable) and is_plain(right, variable)
        case Arithmetic(op=op, left=left, right=right):
            return op != "/" and is_plain(left, variable) and is_plain(right, variable)
        case _:
            pass
    return False


@dataclass(frozen=True)
class Partial:
    """What columns alone say of an aggregate, over `count` elements; `rows` are the others."""

    count: int = 0
    total: int | Fraction = 0
    least: int | Fraction | None = None
    greatest: int | Fraction | None = None
    has_equals: bool = False
    undefined: int = 0
    """Further elements that are undefined for certain, beside one that is looked at."""
    rows: tuple[tuple[Key, Row], ...] = ()


NOTHING: Final = Partial()


def screened(
    of: Plan, columns: Columns, fields: tuple[str, ...], neutral: bool
) -> Iterator[tuple[Key, Row]]:
    """The entities that can decide a quantifier, in key order.

    Passed over: those whose outcome is certainly `neutral`, and after the first that is certainly
    the opposite all others that certainly are.
    """
    is_stopped = False
    for segment in _segments(of, columns):
        truths = segment.truths(neutral)
        if truths is None:
            yield from segment.rows(None, fields)
            continue
        is_neutral = pc.all(truths).as_py() if neutral else not pc.any(truths).as_py()
        if is_neutral and not truths.null_count:
            continue
        wanted = _mask(truths.is_null())
        if not is_stopped:
            stops = _mask(pc.fill_null(pc.invert(truths) if neutral else truths, False))
            if stops.any():
                wanted[int(stops.argmax())] = True
                is_stopped = True
        yield from segment.rows(np.flatnonzero(wanted), fields)


def summarized(of: Plan, columns: Columns, fields: tuple[str, ...], name: str) -> Partial | None:
    """The aggregate as far as columns can tell; None where every row has to be looked at."""
    if name == "unique":
        return _uniqueness(of, columns, fields)
    found = NOTHING
    rows: list[tuple[Key, Row]] = []
    for segment in _segments(of, columns):
        elements = segment.elements()
        part = None
        if elements is not None:
            part = (_number if name == "count" else _sum)(len(segment), *elements)
        known, asked = (NOTHING, None) if part is None else part
        rows += segment.rows(asked, fields)
        found = _joined(found, known)
    if name in ("min", "max") and rows:
        return None
    return replace(found, rows=tuple(rows))


def _joined(a: Partial, b: Partial) -> Partial:
    if not (a.count and b.count):
        return a if a.count else b
    least: Any = None
    greatest: Any = None
    if a.least is not None:  # both are of one column, and so of one ordered kind
        least = min(a.least, b.least)  # type: ignore[type-var]  # of one ordered kind
        greatest = max(a.greatest, b.greatest)  # type: ignore[type-var]  # as above
    return Partial(a.count + b.count, a.total + b.total, least, greatest)


def _number(
    size: int, kept: pa.ChunkedArray | None, element: Operand | None
) -> tuple[Partial, Indexes] | None:
    """How many rows count, and those that the row evaluator must look at."""
    if element is not None and not element.is_plain:
        return None
    if kept is None:
        return Partial(size), _NO_ROWS
    asked = np.flatnonzero(_mask(kept.is_null())) if kept.null_count else _NO_ROWS
    return Partial(pc.sum(kept, min_count=0).as_py()), asked


def _sum(
    _size: int, kept: pa.ChunkedArray | None, element: Operand | None
) -> tuple[Partial, Indexes] | None:
    """Number, sum and bounds of the integers, and the rows that others must look at."""
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
    if not count:
        return NOTHING, rows
    least, greatest = pc.min_max(array).as_py().values()
    if max(abs(least), abs(greatest)) * count >= 1 << 63:
        return None
    if not element.is_plain:
        # Arithmetic yields fractions, and so must its least and greatest.
        least, greatest = Fraction(least), Fraction(greatest)
    return Partial(count, pc.sum(array).as_py(), least, greatest), rows


def _uniqueness(of: Plan, columns: Columns, fields: tuple[str, ...]) -> Partial | None:
    """Whether two elements are equal, where all of them are plain fields of one native kind.

    The rows are the first two that are.
    """
    chunks: list[pa.Array] = []
    places: list[tuple[_Segment, Indexes]] = []
    for segment in _segments(of, columns):
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
    if not chunks:
        return NOTHING
    values = pa.chunked_array(chunks)
    if pc.count_distinct(values, mode="all").as_py() == len(values):
        return Partial(len(values))
    equals = _first_equals(values)
    rows: list[tuple[Key, Row]] = []
    start = 0
    for segment, counting in places:
        end = start + len(counting)
        rows += segment.rows(counting[[at - start for at in equals if start <= at < end]], fields)
        start = end
    return Partial(len(values), has_equals=True, rows=tuple(rows))


def _first_equals(values: pa.ChunkedArray) -> tuple[int, int]:
    """The places of the first element that came before, and of its first occurrence."""
    codes = values.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
    _, firsts, places = np.unique(codes, return_index=True, return_inverse=True)
    repeated = int(np.flatnonzero(firsts[places] != np.arange(len(codes)))[0])
    return int(firsts[places[repeated]]), repeated


def _mask(array: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    # A copy: Arrow's own memory is read-only.
    return np.array(array.to_numpy(), dtype=np.bool_)


def _segments(of: Plan, columns: Columns) -> Iterator[_Segment]:
    """Runs of chunks that store the fields in the same forms, in key order."""
    batches = iter(columns.batches)
    while group := list(islice(batches, GROUP)):
        for run, table in _alike(group, of.fields):
            yield _Segment(of, run, table, columns)


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

    def __init__(
        self, of: Plan, batches: list[pa.RecordBatch], table: pa.Table, columns: Columns
    ) -> None:
        self._of = of
        self._batches = batches
        self._table = table
        forms = _forms(batches[0], of.fields)
        self._forms = dict(zip(of.fields, forms, strict=True))
        self._type = columns.type
        self._columns: dict[str, Operand] = {}

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self._batches)

    def rows(self, wanted: Indexes | None, fields: tuple[str, ...]) -> Iterator[tuple[Key, Row]]:
        """The rows at the sorted indexes; every row where there are none."""
        start = 0
        for batch in self._batches if wanted is None or len(wanted) else ():
            part, end = batch, start + batch.num_rows
            if wanted is not None:
                own = wanted[np.searchsorted(wanted, start) : np.searchsorted(wanted, end)]
                part = batch.take(pa.array(own - start)) if len(own) else None
            if part is not None:
                yield from batch_rows(self._type, part, fields)
            start = end

    @cached_property
    def kept(self) -> pa.ChunkedArray | None:
        """The truth of all the conditions, left to right; None where there are none."""
        truths: pa.ChunkedArray | None = None
        for test in self._of.conditions:
            found = self.truth(test)
            truths = found if truths is None else pc.if_else(truths, found, False)
        return truths

    def truths(self, neutral: bool) -> pa.ChunkedArray | None:
        """Per row: the element where the conditions hold, else `neutral`; null: ask the rows."""
        try:
            element = (
                None
                if self.kept is None
                else pc.if_else(self.kept, self.truth(self._of.element), neutral)
            )
            return self.truth(self._of.element) if element is None else element
        except (NotForColumns, *REFUSED):
            return None

    def elements(self) -> tuple[pa.ChunkedArray | None, Operand | None] | None:
        """What counts, and the element where it is no entity; None if rows must say."""
        try:
            is_entity = isinstance(self._of.element, (Variable, Entities))
            return self.kept, None if is_entity else self.value(self._of.element)
        except (NotForColumns, *REFUSED):
            return None

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
            case AnswerOf() | FieldOf(entity=Variable()) if not is_own(node, self._of.variable):
                return self._from_outside(node)
            case FieldOf(field=name):
                if name not in self._columns:
                    self._columns[name] = self._column(name)
                return self._columns[name]
            case Const(value=value) | InputOf(value=value):
                return Operand(value, None, is_literal=True)
            case Arithmetic(op=op):
                integers = Operand(pa.chunked_array([], pa.int64()), Kind.INT)
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
