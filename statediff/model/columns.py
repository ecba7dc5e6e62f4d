"""Comparing tables in columnar form: which rows may differ, without decoding the others.

`table_changes` walks two tables of one type in key order. Equal chunks are passed over by digest,
unequal ones are compared column by column in Arrow, and only the rows that a column comparison
could not prove equal are decoded. It finds a superset of the differences in representation: the
caller compares the decoded rows with `values.same`.

A row with an `Unobserved` cell is always yielded, even from equal chunks: equal ignorance is not
equal state. Memory is bounded by a few chunks of each side plus the rows that are yielded.

Rows without a key are distinguished by content only, as a multiset. Two rows that a comparison
calls equal cancel; a row with an `Unobserved` cell may equal several others, and says nothing
certain about them.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from statediff.model.batches import (
    KEYLESS_KEY,
    Row,
    batch_keys,
    batch_rows,
    decode_cell,
    unobserved_cells,
)
from statediff.model.cells import (
    Indexes,
    Layouts,
    Mask,
    Matched,
    as_mask,
    bits,
    comparable,
    match_keys,
    unequal,
)
from statediff.model.schema import EntityType
from statediff.model.state import ChunkRef, ChunkStore, MemoryChunks, RowChange, Table
from statediff.model.values import (
    ABSENT,
    Key,
    Observed,
    Unobserved,
    encode,
    key_order,
    same,
    told_apart,
)

MAX_ROWS: Final = 16
"""Rows of one chunk up to which reading single cells beats a copy."""

_Rows: TypeAlias = list[tuple[Key, Row]]


def table_changes(
    before: Table,
    after: Table,
    *,
    trust_digests: bool = True,
    layouts: Layouts | None = None,
) -> Iterator[RowChange]:
    """Every entity whose raw rows may differ or that holds an `Unobserved` cell, in key order.

    Both tables have the same key fields. With `trust_digests` off, chunks with equal digests are
    loaded and compared all the same. `layouts` are those that earlier comparisons met.
    """
    if trust_digests and after.origin is not None and after.origin.leads(before, after):
        yield from after.origin.changes
        return
    pairs = (
        _chunk_pairs(before, after, trust_digests)
        if _are_cut_alike(before.partition, after.partition)
        else _merged(before, after, trust_digests)
    )
    layouts = layouts or Layouts()
    for left, right in pairs:
        yield from batch_changes(before.type, left, after.type, right, layouts)


def are_known_equal(before: Table, after: Table) -> bool:
    """Whether the digests of the chunks say that `table_changes` finds nothing, without loading."""
    if after.origin is not None and after.origin.leads(before, after):
        return False
    return (
        before.chunks == after.chunks
        and all(
            _is_known_equal(left, right, trust_digests=True)
            for left, right in zip(before.chunks, after.chunks, strict=True)
        )
        and _are_cut_alike(before.partition, after.partition)
    )


def batch_changes(
    before_type: EntityType,
    before: pa.RecordBatch,
    after_type: EntityType,
    after: pa.RecordBatch,
    layouts: Layouts | None = None,
) -> list[RowChange]:
    """The rows of two batches over one key range that may differ, in key order."""
    layouts = layouts or Layouts()
    matched = match_keys(before_type, before, after, layouts)
    gone: _Rows = []
    new: _Rows = []
    if matched is None:
        from_before = from_after = np.flatnonzero(_candidates(before, after, layouts))
    else:
        candidates = _candidates_of_pairs(before, after, matched, layouts)
        from_before, from_after = matched.before[candidates], matched.after[candidates]
        gone = _rows_at(before_type, before, matched.only_before, layouts)
        new = _rows_at(after_type, after, matched.only_after, layouts)
    were = _rows_at(before_type, before, from_before, layouts)
    are = _rows_at(after_type, after, from_after, layouts)
    found = {
        key_order(key): RowChange(key, was, row)
        for (key, was), (_, row) in zip(were, are, strict=True)
    }
    for key, was in gone:
        found[key_order(key)] = RowChange(key, was, None)
    for key, row in new:
        order = key_order(key)
        known = found.get(order)
        found[order] = RowChange(key, None if known is None else known.before, row)
    return [found[order] for order in sorted(found)]


def batches_equal(
    before: pa.RecordBatch, after: pa.RecordBatch, layouts: Layouts | None = None
) -> bool:
    """Whether two batches have the same columns, forms and content, by comparing their memory."""
    if before is after:
        return True
    if not before.schema.equals(after.schema, check_metadata=True):
        return False
    layout = (layouts or Layouts()).of(before)
    if not layout.floats:
        return bool(before.equals(after))
    # Arrow takes 0.0 for -0.0 and NaN for unequal to itself, and is slow about it.
    rest = list(layout.exact)
    if not before.select(rest).equals(after.select(rest)):
        return False
    for index in layout.floats:
        if not bits(before.column(index)).equals(bits(after.column(index))):
            return False
    return True


# --- which parts of two tables belong together -------------------------------------------------


def _are_cut_alike(one: tuple[Key, ...], two: tuple[Key, ...]) -> bool:
    if one is two or (all(map(is_, one, two)) and len(one) == len(two)):
        return True
    kinds = {type(part) for cut in (*one, *two) for part in cut}
    if kinds in ({int}, {str}):
        return one == two  # what is equal among these is the same, unlike 1, 1.0 and True
    return [key_order(cut) for cut in one] == [key_order(cut) for cut in two]


def _is_known_equal(before: ChunkRef, after: ChunkRef, trust_digests: bool) -> bool:
    if before.rows == after.rows == 0:
        return True
    return (
        trust_digests
        and before.digest == after.digest
        and (before.is_fully_observed or after.is_fully_observed)
    )


def _chunk_pairs(
    before: Table, after: Table, trust_digests: bool
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    pieces = _Pieces(before.store, after.store)
    for left, right in zip(before.chunks, after.chunks, strict=True):
        if trust_digests and left.digest != right.digest:
            is_equal = left.rows == right.rows == 0
        else:
            is_equal = _is_known_equal(left, right, trust_digests) or pieces.are_equal(left, right)
        if not is_equal:
            yield before.store.get(left), after.store.get(right)


class _Pieces:
    """Whether two chunks that lie in memory in one piece are equal there, byte by byte."""

    def __init__(self, before: ChunkStore, after: ChunkStore) -> None:
        self._before, self._after = before, after
        self._schemas: tuple[pa.Schema, pa.Schema] | None = None  # the last two found equal

    def are_equal(self, left: ChunkRef, right: ChunkRef) -> bool:
        """False where they may differ, or do not lie in memory."""
        before, after = self._before, self._after
        if not (isinstance(before, MemoryChunks) and isinstance(after, MemoryChunks)):
            return False
        if left.rows != right.rows or not (left.is_fully_observed or right.is_fully_observed):
            return False
        (one, schema), (two, other) = before.piece(left), after.piece(right)
        if not one.equals(two):
            return False
        known = self._schemas
        if known is None or known[0] is not schema or known[1] is not other:
            if not schema.equals(other, check_metadata=True):
                return False
            self._schemas = schema, other
        return True


class _KeyOrders(Sequence[tuple[Any, ...]]):
    """The key orders of a batch, each decoded only when a search asks for it."""

    def __init__(self, entity_type: EntityType, batch: pa.RecordBatch) -> None:
        self._type = entity_type
        self._batch = batch

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def __getitem__(self, index: Any) -> Any:
        return key_order(batch_keys(self._type, self._batch.slice(index, 1))[0])


class _Cursor:
    """A table read front to back: the chunk in hand, and how much of it is used up."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._waiting = [ref for ref in reversed(table.chunks) if ref.rows]
        self._used = 0

    @property
    def whole(self) -> ChunkRef | None:
        """The chunk in hand, if none of its rows is used up."""
        return self._waiting[-1] if self._waiting and self._used == 0 else None

    @property
    def is_at_end(self) -> bool:
        return not self._waiting

    def skip(self) -> None:
        """Put the chunk in hand aside."""
        self._waiting.pop()
        self._used = 0

    def last(self) -> tuple[Any, ...]:
        """The order of the last key of the chunk in hand."""
        orders = self._orders()
        return tuple(orders[len(orders) - 1])

    def take(self, bound: tuple[Any, ...]) -> pa.RecordBatch:
        """The unused rows of the chunk in hand up to and including `bound`."""
        end = bisect.bisect_right(self._orders(), bound, lo=self._used)
        batch = self._batch()
        part = batch.slice(self._used, end - self._used)
        self._used = end
        if end == batch.num_rows:
            self.skip()
        return part

    def _batch(self) -> pa.RecordBatch:
        return self._table.store.get(self._waiting[-1])

    def _orders(self) -> _KeyOrders:
        return _KeyOrders(self._table.type, self._batch())


def _merged(
    before: Table, after: Table, trust_digests: bool
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Two differently cut tables as pairs of batches over the same key ranges, in key order."""
    left, right = _Cursor(before), _Cursor(after)
    nothing_left = _empty(before)
    nothing_right = _empty(after)
    while not (left.is_at_end and right.is_at_end):
        if left.is_at_end:
            yield nothing_left, right.take(right.last())
        elif right.is_at_end:
            yield left.take(left.last()), nothing_right
        elif (
            left.whole is not None
            and right.whole is not None
            and _is_known_equal(left.whole, right.whole, trust_digests)
        ):
            left.skip()
            right.skip()
        else:
            bound = min(left.last(), right.last())
            yield left.take(bound), right.take(bound)


def _empty(table: Table) -> pa.RecordBatch:
    return table.store.get(table.chunks[0]).slice(0, 0)


# --- which cells of two columns differ ---------------------------------------------------------


def _candidates_of_pairs(
    before: pa.RecordBatch, after: pa.RecordBatch, matched: Matched, layouts: Layouts
) -> Mask:
    """The pairs that may differ. Runs of neighbours are compared in place, others copied."""
    runs = matched.runs
    if runs is None:
        left, right = before.take(pa.array(matched.before)), after.take(pa.array(matched.after))
        return _candidates(left, right, layouts)
    masks = [
        _candidates(before.slice(one, length), after.slice(two, length), layouts)
        for one, two, length in runs
    ]
    return np.concatenate(masks) if masks else np.zeros(0, dtype=np.bool_)


def _rows_at(
    entity_type: EntityType, batch: pa.RecordBatch, indexes: Indexes, layouts: Layouts
) -> _Rows:
    """The rows at `indexes`: copied out at once, or cell by cell if they are few."""
    if len(indexes) > MAX_ROWS:
        return list(batch_rows(entity_type, batch.take(pa.array(indexes)), None))
    if not len(indexes):
        return []
    forms = layouts.of(batch).forms
    columns = [(name, form, batch.column(at)) for at, (name, form) in enumerate(forms)]
    names, key = list(entity_type.by_name), entity_type.key
    rows: _Rows = []
    for index in indexes.tolist():
        cells = {name: decode_cell(column, index, form) for name, form, column in columns}
        rows.append((
            tuple([cells[name] for name in key]) or cells[KEYLESS_KEY],
            {name: cells.get(name, ABSENT) for name in names},
        ))  # fmt: skip
    return rows


def _candidates(before: pa.RecordBatch, after: pa.RecordBatch, layouts: Layouts) -> Mask:
    """The rows of two aligned batches that may differ or hold an `Unobserved` cell."""
    rows = np.zeros(before.num_rows, dtype=np.bool_)
    one, two = layouts.of(before), layouts.of(after)
    if one is two and not one.tagged:
        for at in range(before.num_columns):
            left, right = before.column(at), after.column(at)
            if at in one.floats:
                left, right = bits(left), bits(right)
            if not left.equals(right):
                rows |= unequal(left, right)
        return rows
    forms = dict(one.forms), dict(two.forms)
    if forms[0].keys() != forms[1].keys():
        rows |= True
    for name in forms[0].keys() & forms[1].keys():
        left, right = comparable(before, after, name, forms)
        if not left.equals(right):
            rows |= unequal(left, right)
    for batch, layout in ((before, one), (after, two)):
        for index in layout.tagged:
            rows |= as_mask(unobserved_cells(batch, index))
    return rows


MAX_COMPARISONS: Final = 1_000_000
"""Row comparisons spent on telling what is certain; beyond it nothing in doubt is certain."""
TOO_MANY_TO_COMPARE: Final = "too many rows without a key have unobserved cells to tell them apart"
"""The cause beyond that bound."""


@dataclass(frozen=True)
class Item:
    """A row on one side, and its content as it is compared: canonical, within Ω."""

    change: RowChange
    content: Mapping[str, Observed]

    @property
    def unobserved(self) -> str | None:
        """The cause of the first unobserved cell; None when all are known."""
        cells = self.content.values()
        return next((cell.cause for cell in cells if isinstance(cell, Unobserved)), None)


@dataclass(frozen=True)
class Cancelled:
    """`pairs` of a removed and an added row with one content; what is left of both sides."""

    pairs: tuple[tuple[Item, Item], ...]
    removed: tuple[Item, ...]
    added: tuple[Item, ...]


def cancel(removed: Iterable[Item], added: Sequence[Item]) -> Cancelled:
    """Removed and added rows of equal and fully observed content, paired one to one in order."""
    waiting: dict[str, list[Item]] = {}
    for item in reversed(added):
        if item.unobserved is None:
            waiting.setdefault(_content(item), []).append(item)
    pairs: list[tuple[Item, Item]] = []
    left: list[Item] = []
    for item in removed:
        partners = waiting.get(_content(item)) if item.unobserved is None else None
        if partners:
            pairs.append((item, partners.pop()))
        else:
            left.append(item)
    used = {id(item) for _, item in pairs}
    return Cancelled(tuple(pairs), tuple(left), tuple(i for i in added if id(i) not in used))


def doubts_about(
    items: Sequence[Item], others: Sequence[Item], stayed: Sequence[Item]
) -> list[str | None]:
    """For each item the cause that makes its coming or going uncertain, or None if it is certain.

    An item is uncertain if a row of the other side (`others`, or `stayed` with unobserved cells on
    both) might have the same content, for what is unobserved in one of the two.
    """
    vague = [other for other in (*others, *stayed) if other.unobserved is not None]
    known = [other for other in others if other.unobserved is None]
    partly = sum(item.unobserved is not None for item in items)
    if len(items) * len(vague) + partly * len(known) > MAX_COMPARISONS:
        return [TOO_MANY_TO_COMPARE] * len(items)
    causes: list[str | None] = []
    for item in items:
        rivals = vague if item.unobserved is None else [*vague, *known]
        rival = next((r for r in rivals if _may_equal(item, r)), None)
        causes.append(None if rival is None else (item.unobserved or rival.unobserved))
    return causes


def _content(item: Item) -> str:
    return json.dumps([encode(cell) for cell in item.content.values()])


def _may_equal(a: Item, b: Item) -> bool:
    return all(_may_be(cell, b.content[name]) for name, cell in a.content.items())


def _may_be(a: Observed, b: Observed) -> bool:
    told = told_apart(a, b)
    if told is None:
        return isinstance(a, Unobserved) or isinstance(b, Unobserved) or same(a, b)
    return told
