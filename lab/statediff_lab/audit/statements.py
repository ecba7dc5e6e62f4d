"""SQL for each change of a row, one statement per change; each `?` stands for a value."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from statediff.model.values import ABSENT, Map, Observed
from statediff.systems.base.rows import plain
from statediff_lab.audit.folders import Unwritable
from statediff_lab.importers.recorded import SeededChange


def statement_of(
    change: SeededChange, table: str, key: Sequence[str], quote: str, one: str = "{where}"
) -> tuple[str, list[Any]]:
    """The statement and its values; `table` is quoted, `one` means one of rows that are alike."""

    def name_of(column: str) -> str:
        return f"{quote}{column.replace(quote, quote * 2)}{quote}"

    old, new = change.before, change.after
    if old is None:
        row = {n: _stored(v) for n, v in (new or {}).items() if v is not ABSENT}
        names, marks = ", ".join(map(name_of, row)), ", ".join("?" * len(row))
        return f"INSERT INTO {table} ({names}) VALUES ({marks})", [*row.values()]  # noqa: S608 - quoted
    named = {n: v for n, v in old.items() if n in key or (not key and v is not ABSENT)}
    where = " AND ".join(
        f"{name_of(name)} {'IS NULL' if value is None else '= ?'}" for name, value in named.items()
    )
    values = [_stored(value) for value in named.values() if value is not None]
    place = where if key else one.format(table=table, where=where)
    if new is None:
        return f"DELETE FROM {table} WHERE {place}", values  # noqa: S608 - quoted
    moved = {n: v for n, v in new.items() if v is not ABSENT and v != old.get(n)}
    sets = ", ".join(f"{name_of(name)} = ?" for name in moved)
    written = [_stored(value) for value in moved.values()]
    return f"UPDATE {table} SET {sets} WHERE {place}", [*written, *values]  # noqa: S608 - quoted


def _stored(value: Observed) -> Any:
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return value
        case Decimal():
            return str(value)
        case datetime() | date():
            return value.isoformat()
        case tuple() | Map():
            return json.dumps(plain(value), default=float)
        case _:
            kind = type(value).__name__
            raise Unwritable(f"a value of the kind {kind} has no form in a statement")
