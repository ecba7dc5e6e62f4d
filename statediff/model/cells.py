"""Columns of two batches beside each other: their forms, which rows pair up, which cells differ.

Everything here works on whole columns; nothing is decoded, except where the two sides store a
column in different forms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statediff.model.batches import (
    KEYLESS_KEY,
    batch_columns,
    form_of,
    tagged_column,
    unobserved_cells,
)
from statediff.model.schema import EntityType

Mask: TypeAlias = npt.NDArray[np.bool_]
Indexes: TypeAlias = npt.NDArray[np.int64]
Runs: TypeAlias = tuple[tuple[int, int, int], ...]
"""Runs of neighbours that pair up: where one begins on each side, and its length."""

MAX_RUNS: Final = 16
"""Runs of rows of one chunk up to which slices beat a copy."""
_LAYOUTS: Final = 16
"""Layouts that are kept."""
_FLOAT: Final = pa.float64()
_BITS: Final = pa.int64()


@dataclass(frozen=True)
class Layout:
    """What the columns of a batch are, by index: floats and the others, and tagged ones."""

    exact: tuple[int, ...]
    floats: tuple[int, ...]
    tagged: tuple[int, ...]
    forms: tuple[tuple[str, str], ...]
    """(name, form) of every column, in order."""


class Layouts:
    """Layouts of batches; the last ones are kept, since the chunks of a table mostly share them.

    One may serve several threads: what is kept is replaced as a whole.
    """

    def __init__(self) -> None:
        self._known: list[tuple[pa.Schema, Layout]] = []

    def of(self, batch: pa.RecordBatch) -> Layout:
        """The layout of one batch."""
        schema = batch.schema
        for known, layout in self._known:
            if schema is known or schema.equals(known, check_metadata=True):
                return layout
        columns = range(batch.num_columns)
        floats = tuple(i for i in columns if schema.field(i).type == _FLOAT)
        layout = Layout(
            tuple(i for i in columns if i not in floats),
            floats,
            tuple(i for i in columns if unobserved_cells(batch, i) is not None),
            tuple((schema.field(i).name, form_of(batch, i)) for i in columns),
        )
        self._known = [(schema, layout), *self._known[: _LAYOUTS - 1]]
        return layout


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
    entity_type: EntityType, before: pa.RecordBatch, after: pa.RecordBatch, layouts: Layouts
) -> Matched | None:
    """How the rows pair up by key; None when row i pairs with row i throughout."""
    names = entity_type.key or (KEYLESS_KEY,)
    one, two = layouts.of(before), layouts.of(after)
    if one is two:
        columns = [(bits(before.column(name)), bits(after.column(name))) for name in names]
    else:
        forms = dict(one.forms), dict(two.forms)
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
    """Where two columns of one form and length differ; null is equal to null only."""
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
