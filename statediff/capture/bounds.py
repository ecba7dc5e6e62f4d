"""However much a run writes, it is judged; only the memory of the machine ends that.

Up to `MAX_ROWS` changed rows of a source are judged, with `MAX_BYTES` of text and bytes in those of
a type: what honest runs write is far below. Types with more than `LEAST_ROWS` share them. Beyond,
deletions are judged first, then updates, then creations, each in the order of keys. The others are
left out of the state after, whose enumeration is then incomplete, with their count and a digest as
the cause, which lies with the environment. What is certain of the rows that are judged stands, so
that what nothing allows is a violation all the same, and nothing is concluded from the absence of
the others.

The bounds depend on the two states alone, so that a replay, another machine and another day have
the same. This step may not decide anything else, and it hides nothing: each bound is a cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import add, gt
from typing import Final

import blake3
import pyarrow as pa
import pyarrow.compute as pc

from statediff.model.batches import TAGGED, Row, batch_rows, encode_rows, form_of
from statediff.model.columns import SHORT_KEY, volumes
from statediff.model.explanation import unread_because
from statediff.model.readings import Capture, History
from statediff.model.schema import Kind
from statediff.model.state import (
    ChunkRef,
    Coverage,
    Enumeration,
    LayeredChunks,
    MemoryChunks,
    Origin,
    State,
    Table,
    build_table,
    row_digest,
)
from statediff.model.values import Key, Observed, key_order

MAX_ROWS: Final = 1_000_000
"""Changed rows of a source that are judged, where types have more than `LEAST_ROWS`."""
LEAST_ROWS: Final = 200_000
"""Changed rows of a type that are judged, whatever others have."""
MAX_BYTES: Final = 512 * 1024 * 1024
"""Bytes of text and bytes in the changed rows of a type, of both sides, that are judged."""
MAX_KEY_BYTES: Final = 11 * 256 * 1024
"""Bytes of long keys of the changed rows that are judged, shared as these are: a bundle names a key
in many places."""
LEAST_KEY_BYTES: Final = 2 * 1024 * 1024
"""Bytes of long keys of the changed rows of a type that are judged, whatever others have."""

Order = tuple[object, ...]


@dataclass(frozen=True)
class Bounds:
    """How much of what a run wrote is judged of each type; `most`: (rows, bytes of keys) of all.

    The types that may go beyond their own bounds share these.
    """

    rows: int = LEAST_ROWS
    bytes: int = MAX_BYTES
    key_bytes: int = LEAST_KEY_BYTES
    most: tuple[int, int] = (MAX_ROWS, MAX_KEY_BYTES)

    def shared_by(self, types: int) -> Bounds:
        """The bounds of each of so many types."""
        rows, key_bytes = (most // types for most in self.most)
        return replace(self, rows=max(self.rows, rows), key_bytes=max(self.key_bytes, key_bytes))


BOUNDS: Final = Bounds()


def bound_captures(
    before: Capture, after: Capture, bounds: Bounds = BOUNDS
) -> tuple[Capture, Capture]:
    """The captures, cut to the bounds where what changed between them goes beyond."""
    lasts = {part.reading.source: part for part in after.parts}
    firsts: dict[str, State] = {}
    ends: dict[str, State] = {}
    for first in before.parts:
        source = first.reading.source
        last = lasts.get(source)
        if last is not None:
            cut = bound_states(first.state, last.state, bounds)
            if cut[1] is not last.state:
                firsts[source], ends[source] = cut
    if not ends:
        return before, after
    history = _ending(after, ends)
    return _with(before, firsts), replace(_with(after, ends), history=history)


def _with(capture: Capture, states: Mapping[str, State]) -> Capture:
    """The capture with other states of some sources."""
    return replace(
        capture,
        parts=tuple(
            replace(part, state=states.get(part.reading.source, part.state))
            for part in capture.parts
        ),
    )


def _ending(after: Capture, ends: Mapping[str, State]) -> History:
    """The history, where it ends in the state after of a source, ending in the one that is cut."""
    transactions = list(after.history.transactions)
    for part in after.parts:
        source, state = part.reading.source, part.state
        own = [at for at, each in enumerate(transactions) if each.source == source]
        if source in ends and own and transactions[own[-1]].state.digest() == state.digest():
            transactions[own[-1]] = replace(transactions[own[-1]], state=ends[source])
    return replace(after.history, transactions=tuple(transactions))


def bound_states(before: State, after: State, bounds: Bounds) -> tuple[State, State]:
    """The states of one source, cut to the bounds; the same two where nothing goes beyond."""
    firsts, lasts = dict(before.tables), dict(after.tables)
    wide: list[tuple[str, Table, Table]] = []
    for name, last in after.tables.items():
        first = before.tables.get(name)
        if first is last:
            continue
        if first is None:  # the run made the type: every row of it is new
            first = build_table(last.type, (), MemoryChunks(), like=last)
        is_known = last.origin is not None and _are_known_few(first, last, last.origin, bounds)
        if not is_known and not _is_within(first, last, bounds):
            wide.append((name, first, last))
    if not wide:
        return before, after
    shared = bounds.shared_by(len(wide))
    is_cut = False
    for name, first, last in wide:
        if _is_within(first, last, shared):
            continue
        cut = _Changes(first, last).cut(shared)
        if cut is not None:
            is_cut = True
            lasts[name] = cut
    if not is_cut:
        return before, after
    return State(before.schema, firsts), State(after.schema, lasts)


def _pairs(before: Table, after: Table) -> Iterator[tuple[ChunkRef, ChunkRef]]:
    """The chunks of two tables that are cut in the same places."""
    return zip(before.chunks, after.chunks, strict=True)


def _are_known_few(before: Table, after: Table, origin: Origin, bounds: Bounds) -> bool:
    """True if the rows are within the bounds by what is known of how the table was made."""
    if not origin.leads(before, after) or len(origin.changes) > bounds.rows:
        return False
    sides = (each for change in origin.changes for each in (change.before, change.after) if each)
    # A character has at most four bytes.
    return 4 * sum(_size(cell) for side in sides for cell in side.values()) <= bounds.key_bytes


def _may_go_beyond(before: Table, after: Table, bounds: Bounds) -> bool:
    """True if the chunks that differ hold more than the bounds; without a look at their rows."""
    if before.chunks is after.chunks:
        return False
    if before.type.key != after.type.key or before.partition != after.partition:
        return False
    rows = 0
    differing: list[tuple[Table, ChunkRef]] = []
    for one, two in _pairs(before, after):
        if one is not two and one.digest != two.digest:
            rows += max(one.rows, two.rows)
            differing += ((before, one), (after, two))
    if rows > bounds.rows:
        return True
    batches = [table.store.get(ref) for table, ref in differing if ref.rows]
    # A quick bound from above: columns that share a buffer count for themselves.
    upper = 0
    for batch in batches:
        upper += batch.get_total_buffer_size() * batch.num_columns
    if upper <= bounds.key_bytes:
        return False
    return bool(sum(batch.nbytes for batch in batches) > bounds.key_bytes)


def _is_within(before: Table, after: Table, bounds: Bounds) -> bool:
    return not _may_go_beyond(before, after, bounds) or _are_few(before, after, bounds)


def _are_few(before: Table, after: Table, bounds: Bounds) -> bool:
    """True if all rows that may differ are within the bounds, by comparing columns."""
    batches = (
        table.store.get(ref)
        for pair in _pairs(before, after)
        if pair[0].digest != pair[1].digest
        for table, ref in zip((before, after), pair, strict=True)
    )
    if any(map(_may_hold_nan, batches)):
        return False  # row by row, such a cell counts as changed
    most = (bounds.rows, bounds.key_bytes, bounds.bytes)
    found = (0, 0, 0)
    for volume in volumes(before, after):
        found = tuple(map(add, found, volume))
        if any(map(gt, found, most)):
            return False
    return True


def _may_hold_nan(batch: pa.RecordBatch) -> bool:
    for index, column in enumerate(batch.columns):
        if column.type == pa.float64():
            cells = pc.is_nan(column)
        elif form_of(batch, index) in (TAGGED, Kind.DECIMAL.value):
            cells = pc.match_substring(column, "nan", ignore_case=True)
        else:
            continue
        if pc.any(cells).as_py():
            return True
    return False


class _Changes:
    """The rows of a type that differ between two states, chunk by chunk."""

    def __init__(self, before: Table, after: Table) -> None:
        self._before, self._after = before, after
        self._rows: list[tuple[dict[Order, tuple[Key, Row]], dict[Order, tuple[Key, Row]]] | None]
        self._rows = [
            None if one.digest == two.digest else (_read(before, one), _read(after, two))
            for one, two in _pairs(before, after)
        ]
        self._bytes: dict[Order, tuple[int, int]] = {}
        """Row → bytes of its long keys, and of its texts."""
        self._deleted: list[Order] = []
        self._updated: list[Order] = []
        self._created: list[Order] = []
        for pair in self._rows:
            if pair is not None:
                one, two = pair
                for side in pair:
                    for order, (key, row) in side.items():
                        texts = self._bytes.get(order, (0, 0))[1] + sum(map(_size, row.values()))
                        self._bytes[order] = sum(map(_long, key)), texts
                self._deleted += [order for order in one if order not in two]
                self._updated += [o for o, (_, row) in two.items() if o in one and one[o][1] != row]
                self._created += [order for order in two if order not in one]

    def cut(self, bounds: Bounds) -> Table | None:
        """The table after within the bounds; None where it is already."""
        changed = [*self._deleted, *self._updated, *self._created]
        count = self._judged_rows(changed, bounds)
        if count == len(changed):
            return None
        dropped = set(changed[count:])
        return replace(self._without(dropped), enumeration=self._incomplete(dropped, count))

    def _judged_rows(self, changed: Sequence[Order], bounds: Bounds) -> int:
        """How many of the changed rows are within the bounds."""
        long, texts = 0, 0
        for count, order in enumerate(changed[: bounds.rows]):
            one, two = self._bytes[order]
            long, texts = long + one, texts + two
            if long > bounds.key_bytes or texts > bounds.bytes:
                return count
        return min(len(changed), bounds.rows)

    def _incomplete(self, dropped: set[Order], count: int) -> Enumeration:
        own = self._after.enumeration
        if own.coverage is Coverage.UNOBSERVED:
            return own
        hasher = blake3.blake3()
        for pair in self._rows:
            for order, (_, row) in (pair[1] if pair is not None else {}).items():
                if order in dropped:
                    hasher.update(row_digest(row).encode())
        changed = len(self._created) + len(self._updated) + len(self._deleted)
        counts = (
            f"{len(self._created)} created, {len(self._updated)} updated, "
            f"{len(self._deleted)} deleted"
        )
        cause = unread_because(
            f"the run changed {changed} rows ({counts}), of which {count} are judged; "
            f"digest of the others: blake3:{hasher.hexdigest(16)}"
        )
        return Enumeration(Coverage.INCOMPLETE, "; ".join(filter(None, (cause, own.cause))))

    def _without(self, dropped: set[Order]) -> Table:
        """The table after, less these rows."""
        table, chunks = self._after, list(self._after.chunks)
        store = LayeredChunks(table.store)
        for at, pair in enumerate(self._rows):
            if pair is not None:
                rows = [entry for order, entry in pair[1].items() if order not in dropped]
                chunks[at] = store.put(encode_rows(table.type, rows))
        return replace(table.with_chunks(tuple(chunks)), store=store)


def _read(table: Table, ref: ChunkRef) -> dict[Order, tuple[Key, Row]]:
    batch = table.store.get(ref)
    return {key_order(key): (key, row) for key, row in batch_rows(table.type, batch, None)}


def _size(value: Observed) -> int:
    return len(value) if isinstance(value, str | bytes) else 0


def _long(part: Observed) -> int:
    return max(0, _size(part) - SHORT_KEY)
