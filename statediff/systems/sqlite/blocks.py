"""Rows of SQLite as columns: how fetched rows become blocks, and the rows of a chunk its batch."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from statediff.model.batches import batch_of, encode_column
from statediff.model.bulk import NotInBulk
from statediff.model.schema import EntityType
from statediff.model.values import ABSENT, Key
from statediff.systems.base.rows import Convert
from statediff.systems.relational.schema import MAX_KEY_LENGTH, Encoded, plain_form

_chunks: Final = Encoded()


@dataclass(frozen=True)
class ValueBlock:
    """Rows as they were fetched: one sequence of stored values for each field."""

    keys: tuple[str, ...]
    columns: Mapping[str, Sequence[Any]]

    def __len__(self) -> int:
        return len(self.columns[self.keys[0]])

    @property
    def nbytes(self) -> int:
        """The bytes of the columns that begin with a text or a blob; others are seldom wide."""
        texts = (c for c in self.columns.values() if isinstance(c[0], str | bytes | None))
        return sum(map(_width, texts))

    def key(self, at: int) -> Key:
        return tuple(self.columns[name][at] for name in self.keys)

    def is_ascending(self) -> bool:
        """True if the keys ascend. Raises `NotInBulk` for one that is null, too long or mixed."""
        for name in self.keys:
            column = self.columns[name]
            kinds = set(map(type, column))
            if kinds not in ({int}, {str}):
                raise NotInBulk("a key is null, or not of one type")
            if kinds == {str} and max(map(len, column)) > MAX_KEY_LENGTH:
                raise NotInBulk("a key is beyond the capture limit")
        keys = [self.columns[name] for name in self.keys]
        ordered: Sequence[Any] = keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))
        return all(itertools.starmap(operator.lt, itertools.pairwise(ordered)))

    def part(self, start: int, stop: int) -> ValueBlock:
        if start == 0 and stop == len(self):
            return self
        return ValueBlock(self.keys, {n: c[start:stop] for n, c in self.columns.items()})


def _width(column: Sequence[Any]) -> int:
    """Bytes of the texts and blobs of a column."""
    try:
        return sum(map(len, filter(None, column)))
    except TypeError:  # a number is among them
        return sum(len(value) for value in column if isinstance(value, str | bytes))


@dataclass(frozen=True)
class BulkReader:
    """How fetched rows become blocks, and the rows of a chunk its batch."""

    type: EntityType
    names: tuple[str, ...]
    converters: Mapping[str, Convert]
    declared: tuple[str, ...]
    """The types of the columns as declared; with `type`, they say how a stored value is read."""

    @property
    def is_possible(self) -> bool:
        """True if the type has a key, all of which is stored."""
        return bool(self.type.key) and set(self.type.key) <= set(self.names)

    def blocks(self, fetched: Iterable[Sequence[tuple[Any, ...]]]) -> Iterator[ValueBlock]:
        """The rows in blocks, as they were fetched."""
        for rows in fetched:
            columns = zip(*rows, strict=True)
            yield ValueBlock(self.type.key, dict(zip(self.names, columns, strict=True)))

    def encode(self, parts: Sequence[ValueBlock]) -> pa.RecordBatch:
        """The rows of one chunk as a batch in normal form; one object for rows met before."""
        how = self.type, self.names, self.declared
        content = plain_form([[part.columns[name] for name in self.names] for part in parts])
        known: pa.RecordBatch | None = _chunks.of(self.type.name, content, how)
        if known is not None:
            return known
        absent = (ABSENT,) * sum(map(len, parts))
        batch = batch_of(
            [
                (f.name, *encode_column(f.kind, self._values(f.name, parts) or absent))
                for f in self.type.fields
            ]
        )
        _chunks.keep(self.type.name, content, how, batch)
        return batch

    def _values(self, name: str, parts: Sequence[ValueBlock]) -> Sequence[Any]:
        if name not in self.names:
            return ()
        found = [part.columns[name] for part in parts]
        values = found[0] if len(found) == 1 else [v for column in found for v in column]
        convert = self.converters.get(name)
        return values if convert is None else list(map(convert, values))
