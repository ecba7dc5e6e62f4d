"""A table with some of its rows replaced: the same chunks, but for those the rows lie in.

The result is, byte for byte, what a scan of the changed rows would be, cut like the table. Only
chunks with a changed row are opened; of these, columns are cut and joined as they are stored, so
that the cost is that of copying a chunk, not of reading its values.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from statediff.model.batches import (
    KEYLESS_KEY,
    NATIVE,
    TAGGED,
    BatchKeys,
    Row,
    batch_columns,
    batch_rows,
    encode_column,
    encode_rows,
    layout_of,
)
from statediff.model.schema import EntityType
from statediff.model.state import ChunkRef, ChunkStore, Origin, RowChange, Table, row_digest
from statediff.model.values import Key, Unobserved, key_order, same

_MOST: Final = 2**62
"""More than any row occurs."""
_FEW_ROWS: Final = 64
_SMALL_BYTES: Final = 1024 * 1024


def patched(
    table: Table, gone: Iterable[Row], come: Iterable[Row], store: ChunkStore | None = None
) -> Table:
    """The table without the rows that are `gone` and with those that have `come`.

    Rows in both, equal in all, cancel out. New chunks go to `store`, else to that of the table. Of
    a few small rows they are encoded when they are asked for. Raises `ValueError` where a row that
    is gone is not in the table exactly so, or one that has come has the key of a row that stays.
    """
    if table.type.is_keyless:
        removed, added = _counted(table, gone, come)
    else:
        removed, added = _keyed(table.type, gone), _keyed(table.type, come)
        for order in removed.keys() & added.keys():
            if _equal(removed[order][1], added[order][1]):
                del removed[order], added[order]
    if not removed and not added:
        return table
    places: dict[int, _Sides] = {}
    for side, entries in enumerate((removed, added)):
        for order in sorted(entries):
            at = bisect.bisect_right(table.cuts, order)
            places.setdefault(at, ([], []))[side].append(entries[order])
    patch = _Patch(table, places, table.store if store is None else store)
    orders = sorted({*removed, *added})
    are_observed = table.is_fully_observed and not any(
        isinstance(cell, Unobserved) for _, row in added.values() for cell in row.values()
    )
    origin = Origin(
        before=table.chunks,
        after=patch.after,
        changes=tuple([_change(removed.get(order), added.get(order)) for order in orders]),
        touched=tuple(sorted(places)),
        is_fully_observed=are_observed,
    )
    made = table.changed_by(origin, patch.store)
    if len(orders) > _FEW_ROWS or sum(map(_size, added.values())) > _SMALL_BYTES:
        patch.after()  # what is wrong with large values is found here
    else:
        _check(table, removed, added)
    return made


def _check(table: Table, removed: _Entries, added: _Entries) -> None:
    """Raises `ValueError` where the rows do not fit the table."""
    for key, row in removed.values():
        stored = table.row(key)
        if stored is None or not _equal(stored, row):
            raise ValueError(
                f"{'no' if stored is None else 'another'} row {key!r} in {table.type.name}"
            )
    for order, (key, _) in added.items():
        if order not in removed and table.row(key) is not None:
            raise ValueError(f"duplicate key {key!r} in {table.type.name}")


def _size(entry: _Entry) -> int:
    """Bytes of text and binary, or more."""
    return sum(4 * len(cell) for cell in entry[1].values() if isinstance(cell, str | bytes))


def _change(before: _Entry | None, after: _Entry | None) -> RowChange:
    [key, *_] = [entry[0] for entry in (before, after) if entry is not None]
    return RowChange(
        key, None if before is None else before[1], None if after is None else after[1]
    )


_Entry = tuple[Key, Row]
_Entries = dict[tuple[Any, ...], _Entry]
_Sides = tuple[list[_Entry], list[_Entry]]


@dataclass
class _Patch:
    """The chunks of a table, but for those in which rows are replaced."""

    table: Table
    places: dict[int, _Sides]
    """Chunk → the rows that are gone from it, and those that have come."""
    store: ChunkStore
    _made: tuple[ChunkRef, ...] | None = None

    def after(self) -> tuple[ChunkRef, ...]:
        """The chunks, made once. Raises as `patched`."""
        if self._made is None:
            table, sides = self.table, self.places.values()
            chunks = list(table.chunks)
            as_it_was = frozenset.intersection(*(_untouched(*each) for each in sides))
            new = _encoded(table.type, [into for _, into in sides], as_it_was)
            for (at, (out, into)), fresh in zip(self.places.items(), new, strict=True):
                batch = _cut_and_joined(table, table.store.get(chunks[at]), out, into, fresh)
                chunks[at] = self.store.put(batch)
            self._made = tuple(chunks)
        return self._made


def _encoded(
    entity_type: EntityType, parts: list[list[_Entry]], without: frozenset[str]
) -> list[pa.RecordBatch]:
    """Each part in normal form: all at once, unless a value would decide how others are stored."""
    whole = encode_rows(entity_type, [entry for part in parts for entry in part], without)
    kinds = {f.name: f.kind for f in entity_type.fields}
    if any(h.form == TAGGED and kinds[h.name] in NATIVE for h in layout_of(whole.schema).heads):
        return [encode_rows(entity_type, part, without) for part in parts]
    found, start = [], 0
    for part in parts:
        found.append(whole.slice(start, len(part)))
        start += len(part)
    return found


def _keyed(entity_type: EntityType, rows: Iterable[Row]) -> _Entries:
    found: _Entries = {}
    for row in rows:
        key: Key = tuple([row[name] for name in entity_type.key])  # type: ignore[misc]  # keys are values
        order = key_order(key)
        if order in found:
            raise ValueError(f"duplicate key {key!r} in {entity_type.name}")
        found[order] = key, row
    return found


def _counted(table: Table, gone: Iterable[Row], come: Iterable[Row]) -> tuple[_Entries, _Entries]:
    """The entries of rows without a key: the last occurrences go, new ones are counted on."""
    counts: Counter[str] = Counter()
    contents: dict[str, Row] = {}
    for rows, step in ((gone, -1), (come, 1)):
        for row in rows:
            digest = row_digest(row)
            contents[digest] = row
            counts[digest] += step
    removed: _Entries = {}
    added: _Entries = {}
    for digest, change in counts.items():
        if change:
            there = _occurrences(table, digest)
            numbers = range(min(there, there + change) + 1, max(there, there + change) + 1)
            for number in numbers:
                key: Key = (digest, number)
                (added if change > 0 else removed)[key_order(key)] = key, contents[digest]
    return removed, added


def _occurrences(table: Table, digest: str) -> int:
    """How often the table holds rows of this content."""
    at = bisect.bisect_right(table.cuts, key_order((digest, _MOST)))
    while at >= 0:
        keys = BatchKeys(table.type, table.store.get(table.chunks[at]))
        found = bisect.bisect_right(keys, key_order((digest, _MOST)), key=key_order)
        if found:
            last, number = keys[found - 1]
            return number if last == digest and isinstance(number, int) else 0
        at -= 1
    return 0


def _cut_and_joined(
    table: Table, batch: pa.RecordBatch, out: list[_Entry], into: list[_Entry], new: pa.RecordBatch
) -> pa.RecordBatch:
    """The chunk without the entries that are `out`; with `into`, which `new` holds encoded."""
    entity_type = table.type
    keys = BatchKeys(entity_type, batch)
    dropped: set[int] = set()
    for key, row in out:
        at = keys.place(key)
        if at == len(keys) or keys[at] != key:
            raise ValueError(f"no row {key!r} in {entity_type.name}")
        (_, stored), *_ = batch_rows(entity_type, batch.slice(at, 1), None)
        if not _equal(stored, row):
            raise ValueError(f"another row {key!r} in {entity_type.name}")
        dropped.add(at)
    places: dict[int, list[int]] = {}
    for number, (key, _) in enumerate(into):
        at = keys.place(key)
        if at < len(keys) and key_order(keys[at]) == key_order(key) and at not in dropped:
            raise ValueError(f"duplicate key {key!r} in {entity_type.name}")
        places.setdefault(at, []).append(number)
    pieces = _pieces(len(keys), dropped, places)
    schema, heads = batch.schema, layout_of(batch.schema).heads
    encoded = {head.name: (at, head.form) for at, head in enumerate(layout_of(new.schema).heads)}
    arrays = []
    for index, head in enumerate(heads):
        if head.name not in encoded:
            arrays.append(batch.column(index))
            continue
        place, form = encoded[head.name]
        kind = None if head.name == KEYLESS_KEY else entity_type.by_name[head.name].kind
        # A column with an odd value is stored in another form; the odd one may be what goes.
        if kind in NATIVE and TAGGED in (head.form, form):
            old, come = (batch_columns(b, (head.name,))[0] for b in (batch, new))
            values = [v for is_new, a, b in pieces for v in (come if is_new else old)[a:b]]
            array, form = encode_column(kind, values)
            field = pa.field(head.name, array.type, metadata={b"statediff.form": form})
            schema = schema.set(index, field)
        else:
            both = batch.column(index), new.column(place)
            parts = [both[is_new].slice(a, b - a) for is_new, a, b in pieces]
            joined = pa.concat_arrays(parts) if parts else both[1]
            # The unused bits of a joined bitmap's last byte may be anything.
            array = _bits_of_its_own(joined) if pa.types.is_boolean(joined.type) else joined
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _untouched(out: list[_Entry], into: list[_Entry]) -> frozenset[str]:
    """The fields that every row keeps: none where other rows are there than before."""
    if [key_order(key) for key, _ in out] != [key_order(key) for key, _ in into]:
        return frozenset()
    pairs = [(old, new) for (_, old), (_, new) in zip(out, into, strict=True)]
    return frozenset(n for n in pairs[0][0] if all(same(old[n], new[n]) for old, new in pairs))


def _bits_of_its_own(joined: pa.Array) -> pa.Array:
    if joined.null_count:
        return pa.array(joined.to_pylist(), joined.type)
    return pa.array(joined.to_numpy(zero_copy_only=False))


def _pieces(
    rows: int, dropped: set[int], places: dict[int, list[int]]
) -> list[tuple[bool, int, int]]:
    """The new chunk as runs of rows, in order: (is of the new rows, first, one past the last)."""
    pieces: list[tuple[bool, int, int]] = []
    start = 0
    for at in sorted({*dropped, *places, rows}):
        if start < at:
            pieces.append((False, start, at))
        start = at
        if at in places:
            pieces.append((True, places[at][0], places[at][-1] + 1))
        if at in dropped:
            start = at + 1
    return pieces


def _equal(one: Row, other: Row) -> bool:
    return one.keys() == other.keys() and all(map(same, one.values(), map(other.get, one)))
