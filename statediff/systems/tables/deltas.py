"""Deltas as plain JSON, as `statediff.changes` gives them, made of records again.

Anyone who hands them over says what a run changed; nothing of it is believed that does not fit the
state before: each entity must be there or must not, and each value before must be the one that is
there. What plain JSON does not say exactly (a number that a double does not hold, bytes, an instant
in another form, what was not observed) is refused, so that a delta never means another change.
Every fault is an `InputError` that names the delta.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from statediff.errors import InputError
from statediff.model.paths import PathError, parse
from statediff.model.schema import INSTANTS, EntityType, Kind, Schema
from statediff.model.values import MAX_DEPTH, key_order, printable, same
from statediff.systems.tables.columns import Odd
from statediff.systems.tables.plain import value_of

MARKERS: Final = frozenset({"absent", "excluded", "unobserved", "bytes", "map"})
_ABSENT: Final[Mapping[str, Any]] = {"absent": True}
_EXACT: Final = 2**53
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WRITTEN: Final = INSTANTS | {Kind.DATE}
"""The kinds whose text in plain JSON need not be the text that is stored."""

_NONSENSE: Final = (
    *(InputError, Odd, PathError, LookupError, TypeError, ValueError),
    *(ArithmeticError, AttributeError, RecursionError),
)

Row = dict[str, Any]
Edit = tuple[Row | None, Row | None]
Index = Mapping[Any, list[Row]]


def index_of(entity: EntityType, records: Iterable[Row]) -> Index:
    """The records by what an entity is known by: its key, else all that it is."""
    found: dict[Any, list[Row]] = {}
    for record in records:
        found.setdefault(_place(entity, record), []).append(record)
    return found


def edits(
    deltas: Iterable[Any], schema: Schema, index: Callable[[EntityType], Index]
) -> dict[str, list[Edit]]:
    """Table → the records that the deltas change, each before and after; None where it is not.

    `index` gives the records before of a type, which stay as they are.
    """
    found: dict[str, _Table] = {}
    for number, delta in enumerate(deltas):
        where = f"delta {number}"
        if not isinstance(delta, Mapping):
            raise InputError(f"{where}: expected an object, found another value")
        name = delta.get("type")
        entity = schema.by_name.get(name) if isinstance(name, str) else None
        if entity is None:
            raise InputError(f"{where}: the state before has no such type; give the whole state")
        if entity.source_table not in found:
            found[entity.source_table] = _Table(entity, index(entity))
        try:
            found[entity.source_table].apply(delta)
        except _NONSENSE as error:
            said = str(error) if isinstance(error, InputError) else "it makes no sense"
            raise InputError(f"{where}: {said}") from error
    try:
        return {name: table.edits() for name, table in found.items()}
    except _NONSENSE as error:
        raise InputError("the deltas remove one thing twice") from error


class _Table:
    """The records of a type while deltas are applied to them."""

    def __init__(self, entity: EntityType, kept: Index) -> None:
        self._entity = entity
        self._kept = kept
        self._left: dict[Any, list[Row]] = {}
        self._removals: list[Callable[[], None]] = []

    def _at(self, place: Any) -> list[Row]:
        if place not in self._left:
            self._left[place] = copy.deepcopy(self._kept.get(place, []))
        return self._left[place]

    def apply(self, delta: Mapping[str, Any]) -> None:
        """One delta. Raises where it does not fit."""
        op, path = delta["op"], delta["path"]
        if op in ("delete", "unlink") and not path:
            record = self._record(delta["before"])
            there = self._at(_place(self._entity, record))
            if not any(_is_same(record, each) for each in there):
                raise InputError("what it removes is not in the state before so")
            there.remove(next(each for each in there if _is_same(record, each)))
        elif op in ("create", "link") and not path:
            record = self._record(delta["after"])
            there = self._at(_place(self._entity, record))
            if there and self._entity.key:
                raise InputError("what it creates is in the state before")
            there.append(record)
        elif op == "update" and path and self._entity.key:
            self._update(delta["key"], path, delta["before"], delta["after"])
        else:
            raise InputError("expected create, delete, or an update with a path")

    def _update(self, key: Any, path: str, before: Any, after: Any) -> None:
        parts = key if len(self._entity.key) > 1 else [key]
        there = self._at(key_order(tuple(value_of(tree(part), MAX_DEPTH) for part in parts)))
        if len(there) != 1:
            raise InputError("what it updates is not in the state before")
        place = parse(path, self._entity.by_name, self._entity.late)
        field = self._entity.by_name.get(place.field)
        if field is not None:
            self._require_exact(field.kind, before, after)
        column = place.field if field is None else field.source_column
        inside: Any = there[0]
        steps = [column, *place.steps]
        for step in steps[:-1]:
            inside = inside[step]
        self._set(inside, steps[-1], before, after)

    def _set(self, inside: Any, step: Any, before: Any, after: Any) -> None:
        is_list, is_object = isinstance(inside, list), isinstance(inside, dict)
        if not ((is_list and isinstance(step, int)) or (is_object and isinstance(step, str))):
            raise InputError("its path leads nowhere in the state before")
        is_there = step in range(len(inside)) if is_list else step in inside
        if is_there != (before != _ABSENT) or (
            is_there and not _is_same(tree(before), inside[step])
        ):
            raise InputError("the value before it is another one in the state before")
        if after == _ABSENT:
            self._removals.append(lambda: inside.pop(step))
        elif is_there or is_object:
            inside[step] = tree(after)
        elif step == len(inside):
            inside.append(tree(after))
        else:
            raise InputError("its path leads nowhere in the state before")

    def _record(self, fields: Mapping[str, Any]) -> Row:
        """A whole entity as a record."""
        record = {}
        for name, shown in fields.items():
            field = self._entity.by_name.get(name)
            if field is not None:
                self._require_exact(field.kind, shown)
            if shown != _ABSENT:
                record[name if field is None else field.source_column] = tree(shown)
        return record

    def _require_exact(self, kind: Kind, *shown: Any) -> None:
        if kind in _WRITTEN and any(isinstance(each, str) for each in shown):
            raise InputError("an instant or a date may be stored in another form; give the state")

    def edits(self) -> list[Edit]:
        """The edits that the deltas make of the records that they touch."""
        for remove in reversed(self._removals):
            remove()
        found: list[Edit] = []
        for place, records in self._left.items():
            found += [(record, None) for record in self._kept.get(place, ())]
            found += [(None, record) for record in records]
        return found


def _place(entity: EntityType, record: Row) -> Any:
    if not entity.key:
        return key_order((value_of(record, MAX_DEPTH),))
    columns = (entity.by_name[name].source_column for name in entity.key)
    return key_order(tuple(value_of(record[column], MAX_DEPTH) for column in columns))


def tree(shown: Any) -> Any:
    """The plain object that plain JSON shows. `InputError` where that is lost."""
    match shown:
        case Decimal():
            if not math.isfinite(float(shown)):
                raise InputError("it has a number that no double holds; give the state")
            return float(shown)
        case str() if _NUMBER.fullmatch(shown) and _is_lost(shown):
            raise InputError(
                f"{printable(shown[:40])} may be a number or a text; give the whole state"
            )
        case Mapping():
            if len(shown) == 1 and MARKERS & shown.keys():
                [(marker, inside)] = shown.items()
                if marker == "map" and isinstance(inside, Mapping):
                    return {name: tree(each) for name, each in inside.items()}
                raise InputError(f"{marker} is no value of a record; give the whole state")
            return {name: tree(each) for name, each in shown.items()}
        case list() | tuple():
            return [tree(each) for each in shown]
        case _:
            return shown


def _is_lost(text: str) -> bool:
    """True if plain JSON would show a number as this text."""
    number = Decimal(text)
    if number == number.to_integral_value():
        return abs(number) > _EXACT
    return not math.isfinite(float(number)) or Decimal(repr(float(number))) != number


def _is_same(one: Any, other: Any) -> bool:
    return same(value_of(one, MAX_DEPTH), value_of(other, MAX_DEPTH))
