"""The system's own rules on whether statements could have made a planted change.

A row that others refer to is gone with them, as its foreign keys say, so that harm is planted which
somebody could do. What breaks a key, a check or a field that is never null is labelled: no
statement leaves it behind.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from statediff.meta.reference import Change, Reference, Rows
from statediff.model.batches import Row
from statediff.model.schema import Effect, EntityType, ForeignKey
from statediff.model.values import ABSENT, Key, key_order

UNREACHABLE: Final = "not reachable by statements"
_Place = tuple[str, tuple[str, ...]]


@dataclass
class Planted:
    """The rows of a reference after an edit, looked up by the values of fields."""

    reference: Reference
    edits: dict[str, dict[Any, tuple[Key, Row | None]]] = field(default_factory=dict)
    """Type → each edited row by its key as it is ordered; None where it goes."""
    known: dict[_Place, dict[Any, list[Key]]] = field(default_factory=dict)
    """The values of the reference's rows in fields; shared by the edits of one reference."""

    def edit(self, type_name: str, key: Key, row: Row | None) -> None:
        self.edits.setdefault(type_name, {})[key_order(key)] = key, row

    def row(self, type_name: str, key: Key) -> Row | None:
        found = self.edits.get(type_name, {}).get(key_order(key))
        return self.reference.rows(type_name).get(key) if found is None else found[1]

    def having(self, type_name: str, fields: tuple[str, ...], values: Any) -> Iterator[Key]:
        """The rows that are there and have these values."""
        place = type_name, fields
        if place not in self.known:
            found: dict[Any, list[Key]] = {}
            for key, row in self.reference.rows(type_name).items():
                if (own := values_of(row, fields)) is not None:
                    found.setdefault(own, []).append(key)
            self.known[place] = found
        edited = self.edits.get(type_name, {})
        for key in self.known[place].get(values, ()):
            if key_order(key) not in edited:
                yield key
        for key, now in edited.values():
            if now is not None and values_of(now, fields) == values:
                yield key


def values_of(row: Row, fields: tuple[str, ...]) -> Any:
    """The values as they compare; None where one is null or not known."""
    values: Any = tuple(row.get(name, ABSENT) for name in fields)
    if any(each is None or each is ABSENT for each in values):
        return None
    try:
        return key_order(values)
    except TypeError:
        return None


def reachable(
    reference: Reference,
    changes: Mapping[str, Change],
    known: dict[_Place, dict[Any, list[Key]]],
) -> tuple[dict[str, Change], int, str]:
    """The changes with what goes with them, how many rows these are, and why none makes them."""
    types = reference.types
    planted = Planted(reference, known=known)
    for name, change in changes.items():
        if name in types and types[name].rules is not None:
            was = reference.rows(name)
            now = dict(was)
            change(now)
            for key in was.keys() - now.keys():
                planted.edit(name, key, None)
            for key, row in now.items():
                if was.get(key) is not row:
                    planted.edit(name, key, row)
    own = {name: {*edits} for name, edits in planted.edits.items()}
    why = _follow(planted)
    further = {
        name: [each for order, each in edits.items() if order not in own.get(name, ())]
        for name, edits in planted.edits.items()
    }
    whole = dict(changes)
    for name, edits in further.items():
        if edits:
            whole[name] = _also(changes.get(name), edits)
    why = why or next(filter(None, map(_broken_by(planted), types.values())), "")
    return whole, sum(map(len, further.values())), why


def _also(change: Change | None, edits: list[tuple[Key, Row | None]]) -> Change:
    def both(rows: Rows) -> None:
        if change is not None:
            change(rows)
        for key, row in edits:
            if row is not None and key in rows:
                rows[key] = row
            elif row is None:
                rows.pop(key, None)

    return both


def _follow(planted: Planted) -> str:
    """Rows that refer to what went go too, or refer to nothing; why that cannot be."""
    types = planted.reference.types
    referring: dict[str, list[tuple[EntityType, ForeignKey]]] = {}
    for entity in types.values():
        for key in entity.rules.foreign if entity.rules is not None else ():
            referring.setdefault(key.type, []).append((entity, key))
    waiting = [(name, key) for name, edits in planted.edits.items() for key, _ in edits.values()]
    while waiting:
        name, gone = waiting.pop()
        was = planted.reference.rows(name).get(gone)
        for entity, key in referring.get(name, ()):
            values = None if was is None else values_of(was, key.targets)
            if values is None or any(True for _ in planted.having(name, key.targets, values)):
                continue
            for other in [*planted.having(entity.name, key.fields, values)]:
                if not planted.reference.is_editable(entity.name):
                    return f"rows of {entity.name} refer to it"
                row = planted.row(entity.name, other)
                if key.on_delete is Effect.SET_NULL and row is not None:
                    planted.edit(entity.name, other, {**row, **dict.fromkeys(key.fields)})
                else:
                    planted.edit(entity.name, other, None)
                    waiting.append((entity.name, other))
    return ""


def _broken_by(planted: Planted) -> Any:
    def broken(entity: EntityType) -> str:
        edits = planted.edits.get(entity.name, {})
        rows = [(key, row) for key, row in edits.values() if row is not None]
        if entity.rules is None or not rows:
            return ""
        return next(filter(None, (_broken(planted, entity, row) for _, row in rows)), "")

    return broken


def _broken(planted: Planted, entity: EntityType, row: Row) -> str:
    """The rule that the row breaks, in words; empty where it breaks none."""
    rules = entity.rules
    if rules is None:
        return ""
    for each in entity.fields:
        if not each.is_nullable and row.get(each.name) is None:
            return f"{entity.name}.{each.name} is never null"
    for key in rules.foreign:
        values = values_of(row, key.fields)
        is_known = values is not None and key.type in planted.reference.types
        if is_known and not any(True for _ in planted.having(key.type, key.targets, values)):
            return f"{entity.name}.{', '.join(key.fields)} refers to no {key.type}"
    for names in rules.unique:
        values = values_of(row, names)
        if values is not None and len([*planted.having(entity.name, names, values)]) > 1:
            return f"{', '.join(names)} of {entity.name} is unique"
    return next((f"a check of {entity.name}" for c in rules.checks if _fails(c, row)), "")


def _fails(check: str, row: Row) -> bool:
    """True if SQLite finds the condition wrong of the row; what it cannot evaluate is not."""
    plain = {n: v for n, v in row.items() if isinstance(v, int | float | str | bytes | None)}
    names = ", ".join(f'? AS "{name.replace(chr(34), chr(34) * 2)}"' for name in plain)
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            text = f"SELECT ({check}) FROM (SELECT {names})"  # noqa: S608 - the schema's own words
            found = connection.execute(text, tuple(plain.values())).fetchone()
    except (sqlite3.Error, OverflowError, ValueError):
        return False
    return bool(found is not None and found[0] == 0 and found[0] is not None)
