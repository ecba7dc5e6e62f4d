"""A recorded diff as net changes over a seed.

A diff is a journal: one entity may stand in it several times, and rows that were inserted may be
updated afterwards. What is known of an entity is chained, before to after, into what it was when
the run began and what it was when the run ended; the journal's word on either beats the seed's,
which other runs' set-up has moved on. A journal whose entries contradict each other has no reading:
`InputError` names the entity and field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from statediff.errors import InputError
from statediff.importers.agentdiff.domain import Ground
from statediff.importers.agentdiff.format import Journal
from statediff.importers.states import Edit
from statediff.model.values import Value, printable, same, show, show_key
from statediff.systems.tables.shape import Record


@dataclass(frozen=True)
class Folded:
    """What a seed has to become before the run, and what the run made of that."""

    moved: tuple[Edit, ...]
    made: tuple[Edit, ...]


@dataclass
class _Entries:
    """All that the journal says of one entity, in its order."""

    inserts: list[Record] = field(default_factory=list)
    updates: list[tuple[Record, Record]] = field(default_factory=list)
    deletes: list[Record] = field(default_factory=list)


def folded(ground: Ground, journal: Journal) -> Folded:
    """The journal over a seed, as net changes in the order of the journal."""
    domain = ground.domain
    entries: dict[tuple[str, tuple[str, ...]], _Entries] = {}
    keyless: list[Edit] = []

    def place(table: str, record: Record) -> _Entries:
        return entries.setdefault((table, ground.place(table, record)), _Entries())

    for table, row in journal.inserts:
        record = domain.record(table, row)
        if ground.keys.get(table):
            place(table, record).inserts.append(record)
        else:
            keyless.append(Edit(table, None, record))
    for update in journal.updates:
        table = update.table
        before, after = domain.record(table, update.before), domain.record(table, update.after)
        if not ground.keys.get(table):
            keyless.append(Edit(table, before, after))
            continue
        if not _same_key(ground, table, before, after):
            raise InputError(f"an update of {printable(table)} changes the key of its row")
        place(table, after).updates.append((before, after))
    for table, row in journal.deletes:
        record = domain.record(table, row)
        if ground.keys.get(table):
            place(table, record).deletes.append(record)
        else:
            keyless.append(Edit(table, record, None))
    seed = ground.by_key
    moved, made = _keyless(ground, keyless)
    for (table, key), found in entries.items():
        name = _name(ground, table, found)
        was = seed.get(table, {}).get(key)
        ends = _ends(name, found, was is not None)
        began, ended = _as_wide(ends[0], ends[1]), _as_wide(ends[1], ends[0])
        if not _equal(was, began) or (was and began and began.keys() - was.keys()):
            moved.append(Edit(table, was, began))
        if not _equal(began, ended):
            made.append(Edit(table, began, ended))
    return Folded(tuple(moved), tuple(made))


def _ends(name: str, found: _Entries, is_in_seed: bool) -> tuple[Record | None, Record | None]:
    """The row when the run began and when it ended; None where there was none."""
    for rows, what in ((found.inserts, "inserted"), (found.deletes, "deleted")):
        if len(rows) > 1:
            raise InputError(f"{name} is {what} {len(rows)} times")
    chain = list(found.updates)
    for (_, after), (before, _) in pairwise(chain):
        _require_same(name, after, before)
    first = chain[0][0] if chain else None
    last = chain[-1][1] if chain else None
    inserted = found.inserts[0] if found.inserts else None
    deleted = found.deletes[0] if found.deletes else None
    if inserted is None:
        if deleted is None:
            return first, last
        if last is not None:
            _require_same(name, last, deleted)
        return first or deleted, None
    if deleted is None:
        # An insert holds the row as it was made, or as it was at the end.
        if first is not None and not _equal(inserted, last):
            _require_same(name, inserted, first)
        return None, last or inserted
    if chain:
        raise InputError(f"{name} is inserted, updated and deleted, in an order nobody recorded")
    # In the seed: deleted, and made again. Else made and deleted within the run.
    return (deleted, inserted) if is_in_seed else (None, None)


def _as_wide(row: Record | None, other: Record | None) -> Record | None:
    """The row with every column of the other: a missing one is null."""
    return row if row is None or other is None else {**dict.fromkeys(other), **row}


def _require_same(name: str, left: Record, right: Record) -> None:
    for column in sorted({*left, *right}):
        values = left.get(column), right.get(column)
        if not same(*values):
            raise InputError(
                f"{name}: one entry of the diff leaves {printable(column)} at {show(values[0])}, "
                f"the next finds {show(values[1])}"
            )


def _same_key(ground: Ground, table: str, before: Record, after: Record) -> bool:
    pairs = zip(ground.key(table, before), ground.key(table, after), strict=True)
    return all(same(left, right) for left, right in pairs)


def _equal(left: Record | None, right: Record | None) -> bool:
    """Whether two rows say the same; a missing column is null."""
    if left is None or right is None:
        return left is right
    return all(same(left.get(name), right.get(name)) for name in {*left, *right})


def _name(ground: Ground, table: str, found: _Entries) -> str:
    rows = [*found.inserts, *found.deletes, *(after for _, after in found.updates)]
    key: tuple[Value, ...] = ground.key(table, rows[0])
    return f"{printable(table)} {show_key(key)}"


def _keyless(ground: Ground, made: Sequence[Edit]) -> tuple[list[Edit], list[Edit]]:
    """Rows without a key: each that the run found and the seed lacks was there all the same."""
    there = {table: list(rows) for table, rows in ground.records.items()}
    moved: list[Edit] = []
    for edit in made:
        rows = there.setdefault(edit.type, [])
        if edit.before is not None:
            if edit.before in rows:
                rows.remove(edit.before)
            else:
                moved.append(Edit(edit.type, None, edit.before))
        if edit.after is not None:
            rows.append(edit.after)
    return moved, list(made)
