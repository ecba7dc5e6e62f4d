"""Rows that MariaDB's log says were changed, as the types of a state have them, and put into it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from statediff.capture.source import SourceUnavailable
from statediff.model.batches import Row
from statediff.model.patch import patched
from statediff.model.schema import EntityType
from statediff.model.state import Table
from statediff.model.values import key_order, printable, same
from statediff.systems.mariadb.catalogue import Catalogue
from statediff.systems.mariadb.cells import Image, Inexact, Layout
from statediff.systems.mariadb.log import Kind, RowsChanged
from statediff.systems.mariadb.source import Query, is_key

MOVED: Final = "its log does not fit the state that was read"


class Cascade(NamedTuple):
    """A foreign key whose rows follow those they refer to, which the log of rows does not tell."""

    child: str
    child_columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]
    on_delete: bool
    on_update: bool


class Change(NamedTuple):
    """One row as it was and as it is then; None where there is none."""

    old: Row | None
    new: Row | None


def read_changes(
    database: str, rows: RowsChanged, entity_type: EntityType, catalogue: Catalogue
) -> list[Change]:
    """The rows of an event as a scan would have read them. Raises `Inexact`."""
    entry = catalogue.tables.get(rows.table)
    if entry is None or entry.unreadable is not None:
        raise Inexact("its table is not one whose rows can be read")
    if not entity_type.is_keyless and any(
        entry.column(entity_type.by_name[k].source_column) is None for k in entity_type.key
    ):
        raise Inexact("its key is another one")
    collations = {
        str(row["name"]): None if row["collation"] is None else str(row["collation"])
        for row in catalogue.objects["db.column"] if row["table"] == rows.table
    }  # fmt: skip
    kinds = {row["name"]: row["kind"] for row in catalogue.objects["db.table"]}
    if kinds.get(rows.table) != "table":
        raise Inexact("its old rows are kept beside the present ones")
    layout = Layout(rows.columns, entry, collations)
    query = Query(database, entity_type, entry)
    found: list[Change] = []
    for images in layout.images(rows.content, rows.bitmaps):
        made = [_row(query, entity_type, image) for image in images]
        match rows.kind:
            case Kind.WRITE:
                found.append(Change(None, made[0]))
            case Kind.DELETE:
                found.append(Change(made[0], None))
            case Kind.UPDATE:
                found.append(Change(made[0], made[1]))
    return found


def _row(query: Query, entity_type: EntityType, image: Image) -> Row:
    cells = [image[column.name] for column in query.columns]
    sizes: list[int | None] = []
    digests: list[str | None] = []
    for guarded in query.guarded:
        cell = image[guarded.column.name]
        content = cell.encode() if isinstance(cell, str) else cell
        sizes.append(None if content is None else len(content))
        digests.append(None if cell is None else guarded.digest_of(cell))
    row = query.row((*cells, *sizes, *digests))
    if not all(is_key(row[name]) for name in entity_type.key):
        raise Inexact("a row has a key beyond the capture limit")
    return row


def applied(table: Table, changes: Sequence[Change]) -> Table:
    """The table after the changes, in their order. Raises `SourceUnavailable`."""
    try:
        if table.type.is_keyless:
            gone = [c.old for c in changes if c.old is not None]
            come = [c.new for c in changes if c.new is not None]
        else:
            gone, come = _net(table.type, changes)
        return patched(table, gone, come)
    except ValueError as error:
        raise SourceUnavailable(f"{MOVED}: {printable(str(error))}") from error


def _net(entity_type: EntityType, changes: Iterable[Change]) -> tuple[list[Row], list[Row]]:
    """What was there of the rows that changed, and what is there then."""
    first: dict[Any, Row | None] = {}
    last: dict[Any, Row | None] = {}
    for change in changes:
        for row, is_new in ((change.old, False), (change.new, True)):
            if row is None:
                continue
            order = key_order(tuple(row[name] for name in entity_type.key))  # type: ignore[misc]  # keys are values
            there = last.get(order)
            if order not in first:
                first[order] = None if is_new else row
            elif (there is not None) if is_new else (there is None or not _equal(there, row)):
                raise ValueError(f"a row of {entity_type.name} changes into another one")
            last[order] = row if is_new else None
    gone = [row for row in first.values() if row is not None]
    return gone, [row for row in last.values() if row is not None]


def _equal(one: Row, other: Row) -> bool:
    return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)


def gone_of(parent: EntityType, key: Cascade, found: Iterable[Change]) -> list[tuple[Any, ...]]:
    """What rows may have referred to, and what is no longer there after the changes."""
    fields = _fields(parent, key.parent_columns)
    gone = []
    for change in found:
        if change.old is None:
            continue
        old = tuple(change.old.get(name) for name in fields)
        new = None if change.new is None else tuple(change.new.get(name) for name in fields)
        is_whole = len(fields) == len(key.parent_columns)
        if new is None or not is_whole or not all(map(same, old, new)):
            gone.append(old)
    return gone


def may_follow(
    child: EntityType,
    key: Cascade,
    gone: Iterable[tuple[Any, ...]],
    known: Table,
    changes: Sequence[Change],
) -> bool:
    """Whether a row of the child's may refer to one of what is gone."""
    fields = _fields(child, key.child_columns)
    wanted = list(gone)
    present = applied(known, changes) if changes else known
    return any(
        all(map(_may_be, (row[name] for name in fields), values))
        for _, row in present.rows(fields)
        for values in wanted
    )


def _may_be(one: Any, other: Any) -> bool:
    """Whether the server may take two values for equal; of texts, nobody but itself can say."""
    if one is None or other is None:
        return False
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    return True


def _fields(entity_type: EntityType, columns: Iterable[str]) -> tuple[str, ...]:
    by_column = {f.source_column: f.name for f in entity_type.fields}
    return tuple(by_column[c] for c in columns if c in by_column)
