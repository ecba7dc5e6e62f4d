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
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statediff.model.batches import (
    KEYLESS_KEY,
    BatchKeys,
    Head,
    Row,
    batch_columns,
    batch_rows,
    decode_cells,
    layout_of,
    tagged_column,
    unobserved_cells,
)
from statediff.model.schema import EntityType
from statediff.model.state import ChunkRef, RowChange, Table
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

SHORT_KEY: Final = 256
"""Bytes of a part of a key that count for nothing."""

MAX_RUNS: Final = 16
"""Runs of rows of one chunk up to which slices beat a copy."""
_BITS: Final = pa.int64()

Mask: TypeAlias = npt.NDArray[np.bool_]
Indexes: TypeAlias = npt.NDArray[np.int64]
Runs: TypeAlias = tuple[tuple[int, int, int], ...]
"""Runs of neighbours that pair up: where one begins on each side, and its length."""
_Rows: TypeAlias = list[tuple[Key, Row]]


def table_changes(
    before: Table,
    after: Table,
    *,
    trust_digests: bool = True,
) -> Iterator[RowChange]:
    """Every entity whose raw rows may differ or that holds an `Unobserved` cell, in key order.

    Both tables have the same key fields. With `trust_digests` off, chunks with equal digests are
    loaded and compared all the same.
    """
    if trust_digests and after.origin is not None and after.origin.leads(before, after):
        yield from after.origin.changes
        return
    pairs = (
        _chunk_pairs(before, after, trust_digests)
        if _are_cut_alike(before.partition, after.partition)
        else _merged(before, after, trust_digests)
    )
    for left, right in pairs:
        found = batch_changes(before.type, left, after.type, right)
        for key, was, row in found if len(found) <= MAX_ROWS else ():
            order = key_order(key)
            if was is not None:
                before.keep(order, was)
            if row is not None:
                after.keep(order, row)
        yield from found


def are_known_equal(before: Table, after: Table) -> bool:
    """True if the digests of the chunks say that `table_changes` finds nothing, without loading."""
    if before is after:
        return before.is_fully_observed
    if after.origin is not None and after.origin.leads(before, after):
        return False
    if before.chunks != after.chunks or not _are_cut_alike(before.partition, after.partition):
        return False
    for left, right in zip(before.chunks, after.chunks, strict=True):
        if left.rows and not (left.is_fully_observed or right.is_fully_observed):
            return False
    return True


class Volume(NamedTuple):
    """How much changed rows hold, at most: rows, bytes of long keys, bytes of all their texts."""

    rows: int
    key_bytes: int
    bytes: int


def volumes(before: Table, after: Table) -> Iterator[Volume]:
    """The volumes of `table_changes`, chunk by chunk, by the columns alone."""
    key = before.type.key or (KEYLESS_KEY,)
    for left, right in _chunk_pairs(before, after, trust_digests=True):
        matched = match_keys(before.type, left, right)
        if matched is None:
            gone = new = np.zeros(0, dtype=np.int64)
            one = two = _candidates(left, right).nonzero()[0]
        else:
            differing = _candidates_of_pairs(left, right, matched)
            gone, new = matched.only_before, matched.only_after
            one, two = matched.before[differing], matched.after[differing]
        cells = [_texts(left, (one, gone)).nbytes, _texts(right, (two, new)).nbytes]
        keys = _long_bytes(left.select(key), (one, gone)) + _long_bytes(right.select(key), (new,))
        yield Volume(len(one) + len(gone) + len(new), keys, sum(cells))


def _texts(batch: pa.RecordBatch, places: tuple[Indexes, ...]) -> pa.RecordBatch:
    """These rows of the columns that may hold texts."""
    names = [
        name
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
    ]
    return batch.select(names).take(pa.array(np.concatenate(places)))


def _long_bytes(keys: pa.RecordBatch, places: tuple[Indexes, ...]) -> int:
    """The bytes of these keys, less `SHORT_KEY` for each part."""
    columns = _texts(keys, places).columns
    sizes = [pc.binary_length(c) for c in columns if str(c.type) in ("string", "binary")]
    return sum(int(np.maximum(size.fill_null(0).to_numpy() - SHORT_KEY, 0).sum()) for size in sizes)


def batch_changes(
    before_type: EntityType,
    before: pa.RecordBatch,
    after_type: EntityType,
    after: pa.RecordBatch,
) -> list[RowChange]:
    """The rows of two batches over one key range that may differ, in key order."""
    matched = match_keys(before_type, before, after)
    gone: _Rows = []
    new: _Rows = []
    if matched is None:
        from_before = from_after = _candidates(before, after).nonzero()[0]
    else:
        candidates = _candidates_of_pairs(before, after, matched)
        from_before, from_after = matched.before[candidates], matched.after[candidates]
        gone = _rows_at(before_type, before, matched.only_before)
        new = _rows_at(after_type, after, matched.only_after)
    were = _rows_at(before_type, before, from_before)
    are = _rows_at(after_type, after, from_after)
    pairs = [RowChange(key, was, row) for (key, was), (_, row) in zip(were, are, strict=True)]
    if not gone and not new:
        return pairs
    found = {key_order(pair.key): pair for pair in pairs}
    for key, was in gone:
        found[key_order(key)] = RowChange(key, was, None)
    for key, row in new:
        order = key_order(key)
        known = found.get(order)
        found[order] = RowChange(key, None if known is None else known.before, row)
    return [found[order] for order in sorted(found)]


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
    for left, right in zip(before.chunks, after.chunks, strict=True):
        if not _is_known_equal(left, right, trust_digests):
            yield before.store.get(left), after.store.get(right)


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
        keys = self._keys()
        return key_order(keys[len(keys) - 1])

    def take(self, bound: tuple[Any, ...]) -> pa.RecordBatch:
        """The unused rows of the chunk in hand up to and including `bound`."""
        end = bisect.bisect_right(self._keys(), bound, lo=self._used, key=key_order)
        batch = self._batch()
        part = batch.slice(self._used, end - self._used)
        self._used = end
        if end == batch.num_rows:
            self.skip()
        return part

    def _batch(self) -> pa.RecordBatch:
        return self._table.store.get(self._waiting[-1])

    def _keys(self) -> BatchKeys:
        return BatchKeys(self._table.type, self._batch())


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


def _candidates_of_pairs(before: pa.RecordBatch, after: pa.RecordBatch, matched: Matched) -> Mask:
    """The pairs that may differ. Runs of neighbours are compared in place, others copied."""
    runs = matched.runs
    if runs is None:
        left, right = before.take(pa.array(matched.before)), after.take(pa.array(matched.after))
        return _candidates(left, right)
    masks = [
        _candidates(before.slice(one, length), after.slice(two, length))
        for one, two, length in runs
    ]
    return np.concatenate(masks) if masks else np.zeros(0, dtype=np.bool_)


def _rows_at(entity_type: EntityType, batch: pa.RecordBatch, indexes: Indexes) -> _Rows:
    """The rows at `indexes`: copied out at once, or cell by cell if they are few."""
    if len(indexes) > MAX_ROWS:
        return list(batch_rows(entity_type, batch.take(pa.array(indexes)), None))
    if not len(indexes):
        return []
    places = indexes.tolist()
    columns = {
        head.name: decode_cells(column, places, head.form)
        for head, column in zip(layout_of(batch.schema).heads, batch.columns, strict=True)
    }
    absent = [ABSENT] * len(places)
    parts = [columns[name] for name in entity_type.key]
    keys = zip(*parts, strict=True) if parts else columns[KEYLESS_KEY]
    rows: list[Row] = [{} for _ in places]
    for name in entity_type.by_name:
        for row, cell in zip(rows, columns.get(name, absent), strict=True):
            row[name] = cell
    return list(zip(keys, rows, strict=True))


def _candidates(before: pa.RecordBatch, after: pa.RecordBatch) -> Mask:
    """The rows of two aligned batches that may differ or hold an `Unobserved` cell."""
    rows = np.zeros(before.num_rows, dtype=np.bool_)
    one, two = layout_of(before.schema), layout_of(after.schema)
    if one is two and not one.tagged:
        for at in range(before.num_columns):
            left, right = before.column(at), after.column(at)
            if at in one.floats:
                left, right = bits(left), bits(right)
            if not left.equals(right):
                rows |= unequal(left, right)
        return rows
    forms = _forms(one.heads), _forms(two.heads)
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


def _forms(heads: tuple[Head, ...]) -> dict[str, str]:
    return {head.name: head.form for head in heads}


# --- which rows pair up, and which of their cells differ ----------------------------------------


@dataclass(frozen=True)
class Matched:
    """Row numbers of the pairs (`before[i]` with `after[i]`) and of the rows without a partner."""

    before: Indexes
    after: Indexes
    only_before: Indexes
    only_after: Indexes
    runs: Runs | None
    """The pairs once more, as runs; None if there are too many of them."""


def match_keys(
    entity_type: EntityType, before: pa.RecordBatch, after: pa.RecordBatch
) -> Matched | None:
    """How the rows pair up by key; None when row i pairs with row i throughout."""
    names = entity_type.key or (KEYLESS_KEY,)
    one, two = layout_of(before.schema), layout_of(after.schema)
    if one is two:
        columns = [(bits(before.column(name)), bits(after.column(name))) for name in names]
    else:
        forms = _forms(one.heads), _forms(two.heads)
        columns = [comparable(before, after, name, forms) for name in names]
    if before.num_rows == after.num_rows and all(left.equals(right) for left, right in columns):
        return None
    same_start, same_end = _shared_ends(columns, before.num_rows, after.num_rows)
    if min(before.num_rows, after.num_rows) == same_start + same_end:
        return _around(before.num_rows, after.num_rows, same_start, same_end)
    middle = [
        (
            left.slice(same_start, len(left) - same_start - same_end),
            right.slice(same_start, len(right) - same_start - same_end),
        )
        for left, right in columns
    ]
    codes = _codes(*middle[0])
    for left, right in middle[1:]:
        more = _codes(left, right)
        # Both factors are below the number of rows, so the product stays far below 2**63.
        combined = codes * (int(more.max(initial=0)) + 1) + more
        codes = np.unique(combined, return_inverse=True)[1].astype(np.int64)
    size = len(middle[0][0])
    first, second = codes[:size], codes[size:]
    where = np.full(int(codes.max(initial=-1)) + 1, -1, dtype=np.int64)
    where[first] = np.arange(size)
    partner = where[second]
    has_partner = partner >= 0
    only_before = np.ones(size, dtype=np.bool_)
    only_before[partner[has_partner]] = False
    start = np.arange(same_start)
    end = np.arange(-same_end, 0)
    paired = (
        np.concatenate([start, partner[has_partner] + same_start, end + before.num_rows]),
        np.concatenate([start, np.flatnonzero(has_partner) + same_start, end + after.num_rows]),
    )
    return Matched(
        *paired,
        np.flatnonzero(only_before) + same_start,
        np.flatnonzero(~has_partner) + same_start,
        _runs(*paired),
    )


def _runs(before: Indexes, after: Indexes) -> Runs | None:
    is_break = (np.diff(before) != 1) | (np.diff(after) != 1)
    starts = [0, *(np.flatnonzero(is_break) + 1).tolist()]
    if len(starts) > MAX_RUNS:
        return None
    ends = [*starts[1:], len(before)]
    return tuple(
        (int(before[start]), int(after[start]), end - start)
        for start, end in zip(starts, ends, strict=True)
        if start < end
    )


def _around(before: int, after: int, same_start: int, same_end: int) -> Matched:
    """All rows of the shorter side pair up at the two ends: one run came, or one went."""
    start, end = np.arange(same_start), np.arange(-same_end, 0)
    runs = (0, 0, same_start), (before - same_end, after - same_end, same_end)
    return Matched(
        np.concatenate([start, end + before]),
        np.concatenate([start, end + after]),
        np.arange(same_start, before - same_end),
        np.arange(same_start, after - same_end),
        tuple(run for run in runs if run[2]),
    )


def _shared_ends(
    columns: list[tuple[pa.Array, pa.Array]], rows_before: int, rows_after: int
) -> tuple[int, int]:
    """How many rows have the same keys in the same order at the start, and then at the end."""
    shorter = min(rows_before, rows_after)
    differs = np.zeros(shorter, dtype=np.bool_)
    for left, right in columns:
        differs |= unequal(left.slice(0, shorter), right.slice(0, shorter))
    start = int(differs.argmax()) if differs.any() else shorter
    rest = shorter - start
    differs = np.zeros(rest, dtype=np.bool_)
    for left, right in columns:
        differs |= unequal(left.slice(rows_before - rest), right.slice(rows_after - rest))
    end = int(differs[::-1].argmax()) if differs.any() else rest
    return start, end


def _codes(left: pa.Array, right: pa.Array) -> Indexes:
    """One number a row, equal exactly where the cells are, over both arrays one after the other."""
    both = pa.concat_arrays([left, right]).dictionary_encode(null_encoding="encode")
    codes: Indexes = both.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def comparable(
    before: pa.RecordBatch,
    after: pa.RecordBatch,
    name: str,
    forms: tuple[dict[str, str], dict[str, str]],
) -> tuple[pa.Array, pa.Array]:
    """The column on both sides in one form in which equal cells, and only they, are equal."""
    left, right = before.column(name), after.column(name)
    if forms[0][name] == forms[1][name] and left.type == right.type:
        return bits(left), bits(right)
    return _tagged(before, name), _tagged(after, name)


def _tagged(batch: pa.RecordBatch, name: str) -> pa.Array:
    return tagged_column(batch_columns(batch, (name,))[0])


def bits(array: pa.Array) -> pa.Array:
    """Floats as integers, bit for bit, so that -0.0 is not 0.0 and NaN is itself."""
    return array.view(_BITS) if isinstance(array, pa.DoubleArray) else array


def unequal(left: pa.Array, right: pa.Array) -> Mask:
    """The mask of the places where two columns of one form differ; null equals null only."""
    has_null = bool(left.null_count or right.null_count)
    if not has_null and left.type == right.type == _BITS:
        known: Mask = left.to_numpy() != right.to_numpy()
        return known
    cells = pc.not_equal(left, right)
    if not has_null:
        return as_mask(cells)
    is_null = as_mask(left.is_null()), as_mask(right.is_null())
    differs: Mask = as_mask(pc.fill_null(cells, False)) | (is_null[0] != is_null[1])
    return differs


def as_mask(array: pa.Array) -> Mask:
    """Arrow booleans without nulls as a numpy mask."""
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask


# --- rows without a key ---


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
