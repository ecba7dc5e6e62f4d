"""Plain Python objects as JSON tables, in one pass and without the text.

A value is read here only where its JSON text, read strictly, would give the very same: dictionaries
with texts for names, lists, texts, truth values, numbers and None, each of exactly that type and
within every limit of `shape`. Anything else is `Odd`, and whoever asked reads the text instead.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import chain, pairwise, repeat
from math import isfinite
from operator import itemgetter
from typing import Any, Final

from statediff.model.batches import KEYLESS_KEY, batch_of, encode_column
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import CHUNK_KEYS, ChunkStore, Table, build_table
from statediff.model.values import ABSENT, MAX_DEPTH, Key, Map, Observed, Value, key_order
from statediff.systems.base.rows import converter
from statediff.systems.tables.inference import ID, UNKEYED, Seen
from statediff.systems.tables.shape import Record
from statediff.systems.tables.source import is_identity

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
_NO_KEY: Final = frozenset({type(None), type(ABSENT), tuple, Map})
_AS_THEY_ARE: Final = frozenset({type(None), type(ABSENT), bool, int, str})


class Odd(Exception):
    """What only the strict reader of JSON text can read, or refuse."""


def record_of(record: Any) -> Record:
    """One record."""
    if type(record) is not dict:
        raise Odd
    return {_field(name): value_of(value, MAX_DEPTH - 1) for name, value in record.items()}


def value_of(tree: Any, depth: int) -> Value:
    """A value with at most so many lists and maps in each other."""
    kind = type(tree)
    if kind is str:
        return _text(tree)
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
    return _text(name)


class Columns:
    """The records of one type, column by column: what they say of it, and its table."""

    def __init__(self, records: Any) -> None:
        if type(records) is not list or not set(map(type, records)) <= {dict}:
            raise Odd
        self._count = len(records)
        names = set(chain.from_iterable(records))
        is_whole = sum(map(len, records)) == len(records) * len(names)
        self._values: dict[str, list[Observed]] = {}
        kinds: dict[str, frozenset[Kind | None]] = {}
        partial = set()
        for name in names:
            _field(name)
            if is_whole:
                column = list(map(itemgetter(name), records))
            else:
                column = [record.get(name, ABSENT) for record in records]
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
        """What `build_table` makes of them, all less than `CHUNK_BYTES`, or cut like another table.

        `Odd` where a record has no key of its own.
        """
        fields = [self._read(entity_type, field) for field in entity_type.fields]
        names = [field.name for field in entity_type.fields]
        if entity_type.is_keyless or not self._count:
            cells = zip(*fields, strict=True) if fields else repeat((), self._count)
            rows = (dict(zip(names, each, strict=True)) for each in cells)
            return build_table(entity_type, rows, store, like=like)
        key = [fields[names.index(part)] for part in entity_type.key]
        orders, of_key = _orders(key, () if like is None else like.partition)
        if not all(one < two for one, two in pairwise(orders)):
            places = sorted(range(self._count), key=orders.__getitem__)
            orders = [orders[at] for at in places]
            if any(one == two for one, two in pairwise(orders)):
                raise Odd
            fields = [[column[at] for at in places] for column in fields]
            key = [fields[names.index(part)] for part in entity_type.key]
        if like is not None:
            partition = like.partition
            cuts = [bisect.bisect_left(orders, of_key(cut)) for cut in partition]
        else:
            cuts = list(range(CHUNK_KEYS, self._count, CHUNK_KEYS))
            partition = tuple(tuple(column[at] for column in key) for at in cuts)  # type: ignore[misc]  # keys are values
        chunks = [
            store.put(
                batch_of([
                    (field.name, *encode_column(field.kind, column[start:end]))
                    for field, column in zip(entity_type.fields, fields, strict=True)
                ])
            )
            for start, end in pairwise([0, *cuts, self._count])
        ]  # fmt: skip
        return Table(entity_type, tuple(chunks), partition, store)

    def _read(self, entity_type: EntityType, field: Field) -> list[Observed]:
        """A column as the field's kind reads it."""
        column = self._values.get(field.source_column)
        if column is None:
            return [ABSENT] * self._count
        convert = None if is_identity(entity_type, field) else converter(field)
        if convert is None:
            return column
        return [value if value is ABSENT else convert(value) for value in column]


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


def _orders(
    key: Sequence[list[Observed]], cuts: Sequence[Key]
) -> tuple[list[Any], Callable[[Key], Any]]:
    """The order of each row by its key, and what gives it of another key. `Odd` without a key."""
    types = {type(part) for cut in cuts for part in cut}.union(*(map(type, part) for part in key))
    if len(key) == 1 and types in ({int}, {str}):
        return key[0], itemgetter(0)  # among these the order of keys is their own
    if types & _NO_KEY:
        raise Odd
    return [key_order(each) for each in zip(*key, strict=True)], key_order
