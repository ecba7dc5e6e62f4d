"""Plain Python objects as JSON tables, in one pass and without the text.

A value is read here only where its JSON text, read strictly, would give the very same: dictionaries
with texts for names, lists, texts, truth values, numbers and None, each of exactly that type and
within every limit of `shape`. Anything else is `Odd`, and the caller reads the text instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import Any, Final

from statediff.model.batches import KEYLESS_KEY
from statediff.model.schema import EntityType, Kind
from statediff.model.state import ChunkStore, Table
from statediff.model.values import ABSENT, MAX_DEPTH, Map, Observed, Value
from statediff.systems.tables.columns import Odd, columns_of, table_of_columns
from statediff.systems.tables.inference import ID, UNKEYED, Seen
from statediff.systems.tables.shape import Record

KINDS: Final[Mapping[type, Kind | None]] = {
    type(None): None,
    bool: Kind.BOOL,
    int: Kind.INT,
    float: Kind.DECIMAL,
    str: Kind.TEXT,
    list: Kind.LIST,
    dict: Kind.MAP,
}
"""The kind of value that stands in each type."""
_LARGEST: Final = 10**300
_SMALLEST: Final = 1e-300
"""Numbers beyond these are for the strict reader."""
_AS_THEY_ARE: Final = frozenset({type(None), type(ABSENT), bool, int, str})


def record_of(record: Any) -> Record:
    """One record."""
    if type(record) is not dict:
        raise Odd
    return {_field(name): value_of(value, MAX_DEPTH - 1) for name, value in record.items()}


def value_of(tree: Any, depth: int) -> Value:
    """A value with at most so many lists and maps in each other."""
    kind = type(tree)
    if kind is str:
        return tree if tree.isascii() else _text(tree)
    if kind is int:
        return _integer(tree)
    if kind is float:
        return _decimal(tree)
    if kind is dict and depth:
        return Map.of({_text(name): value_of(item, depth - 1) for name, item in tree.items()})
    if kind is list and depth:
        return tuple([value_of(item, depth - 1) for item in tree])
    if tree is None or kind is bool:
        known: None | bool = tree
        return known
    raise Odd


def _text(text: Any) -> str:
    if type(text) is not str:
        raise Odd
    if not text.isascii():
        _encoded(text)
    return text


def _encoded(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Odd from None


def _integer(number: int) -> int:
    if not -_LARGEST < number < _LARGEST:
        raise Odd
    return number


def _decimal(number: float) -> Decimal:
    if not isfinite(number) or (number and not _SMALLEST < abs(number) < _LARGEST):
        raise Odd
    return Decimal(repr(number))


def type_name(name: Any) -> str:
    """The name of a type."""
    return _field(name)


def _field(name: Any) -> str:
    if not name or name == KEYLESS_KEY:
        raise Odd
    return name if type(name) is str and name.isascii() else _text(name)


class Columns:
    """The records of one type, column by column: what they say of it, and its table."""

    def __init__(self, records: Any) -> None:
        if type(records) is not list or not set(map(type, records)) <= {dict}:
            raise Odd
        self._count = len(records)
        self._values: dict[str, list[Observed]] = {}
        kinds: dict[str, frozenset[Kind | None]] = {}
        partial = set()
        for name, column in columns_of(records).items():
            _field(name)
            types = set(map(type, column))
            if type(ABSENT) in types:
                partial.add(name)
            known = types - {type(ABSENT)}
            if not known <= KINDS.keys():
                raise Odd
            kinds[name] = frozenset(map(KINDS.__getitem__, known))
            self._values[name] = _column(column, types)
        is_keyed = not records or (ID in kinds and ID not in partial and not kinds[ID] & UNKEYED)
        self.seen = Seen(len(records), kinds, frozenset(partial), is_keyed)

    def table(self, entity_type: EntityType, store: ChunkStore, like: Table | None = None) -> Table:
        """The table that `build_table` makes of them, below `CHUNK_BYTES`, or cut like another.

        `Odd` where a record has no key of its own.
        """
        return table_of_columns(entity_type, self._count, self._values, store, like)


def _column(column: list[Any], types: set[type]) -> list[Observed]:
    """The values of a column that has these types."""
    if types == {float}:
        return _decimals(column)
    if not types <= _AS_THEY_ARE:
        return [v if v is ABSENT else value_of(v, MAX_DEPTH - 1) for v in column]
    if str in types:
        _text("".join([v for v in column if type(v) is str]))
    if int in types:
        numbers = column if types == {int} else [v for v in column if type(v) is int]
        _integer(min(numbers))
        _integer(max(numbers))
    return column


def _decimals(column: list[float]) -> list[Observed]:
    """A column of numbers, and no value absent."""
    _decimal(min(column))
    _decimal(max(column))
    if not all(map(isfinite, column)):
        raise Odd
    _decimal(min(map(abs, filter(None, column)), default=0.0))
    return list(map(Decimal, map(repr, column)))
