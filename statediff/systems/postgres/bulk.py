"""A PostgreSQL table read in whole columns: the server's text, turned into columns without a loop.

The rows arrive as `COPY … (FORMAT csv)`, in blocks of whole rows. Per chunk, each column of a plain
type is converted in Arrow; a column of another type, or one that holds a value which its type's
native form cannot hold (`infinity`, NaN among decimals, years before Christ), goes value by value
through the functions that row-wise reading uses. Either way gives the same chunk, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from statediff.model.batches import batch_of, encode_column
from statediff.model.bulk import NotInBulk
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import ABSENT, Key
from statediff.systems.base.typed import Convert
from statediff.systems.postgres.values import MAX_VALUE_BYTES, PgType, kind_of
from statediff.systems.relational.schema import MAX_KEY_LENGTH

_NATIVE: Final[Mapping[Kind, pa.DataType]] = {
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOL: pa.bool_(),
}
_CAST: Final[Mapping[Kind, pa.DataType]] = {
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.LOCAL_TIMESTAMP: pa.timestamp("us"),
}
_ODD_DECIMAL: Final = r"^-?0\.0{6}|[^-.0-9]"
"""Not a number, or one that the normal form of a decimal writes with an exponent."""
_ROW_KINDS: Final = frozenset({Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.TEXT, Kind.DECIMAL, *_CAST})


@dataclass(frozen=True)
class Column:
    """How one stored column is read: as its own kind in Arrow, else by `steps`, value by value."""

    field: Field
    steps: tuple[Convert, ...]
    is_plain: bool

    @staticmethod
    def of(field: Field, pg_type: PgType, steps: tuple[Convert, ...]) -> Column:
        """The column of one field; it is plain where the schema has not given it another kind."""
        is_plain = (
            not pg_type.is_array
            and field.kind is kind_of(pg_type)
            and field.kind in _ROW_KINDS
            and (field.kind is not Kind.LOCAL_TIMESTAMP or field.zone is None)
        )
        return Column(field, steps, is_plain)

    @property
    def read_as(self) -> pa.DataType:
        return _NATIVE.get(self.field.kind, pa.string()) if self.is_plain else pa.string()

    def normal(self, read: pa.Array) -> tuple[pa.Array, str]:
        """The column in normal form, and the name of the form."""
        kind = self.field.kind
        if self.is_plain:
            found = _native(kind, read)
            if found is not None:
                return found, kind.value
        return encode_column(kind, [self._value(text) for text in _texts(read)])

    def _value(self, text: Any) -> Any:
        if text is None:
            return None
        for step in self.steps:
            text = step(text)
        return text


def _native(kind: Kind, read: pa.Array) -> pa.Array | None:
    if kind in _CAST:
        try:
            return pc.cast(read, _CAST[kind])
        except pa.ArrowInvalid:
            return None
    if kind is Kind.DECIMAL and pc.any(pc.match_substring_regex(read, _ODD_DECIMAL)).as_py():
        return None
    return read


def _texts(read: pa.Array) -> list[Any]:
    texts: list[Any] = read.to_pylist()
    return texts


@dataclass(frozen=True)
class TextBlock:
    """Rows as they were parsed: keys native, the other columns native or text."""

    keys: tuple[str, ...]
    batch: pa.RecordBatch

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @property
    def nbytes(self) -> int:
        return int(self.batch.nbytes)

    def key(self, at: int) -> Key:
        return tuple(self.batch.column(name)[at].as_py() for name in self.keys)

    def is_ascending(self) -> bool:
        """Whether the keys ascend. Raises `NotInBulk` for one that is null or too long."""
        columns = [self.batch.column(name) for name in self.keys]
        for column in columns:
            if column.null_count or (
                column.type == pa.string()
                and (pc.max(pc.utf8_length(column)).as_py() or 0) > MAX_KEY_LENGTH
            ):
                raise NotInBulk("a row has no key, or one beyond the capture limit")
        rows = len(self) - 1
        ascends: Any = None
        for column in reversed(columns):
            left, right = column.slice(0, rows), column.slice(1, rows)
            less = pc.less(left, right)
            tied = None if ascends is None else pc.and_(pc.equal(left, right), ascends)
            ascends = less if tied is None else pc.or_(less, tied)
        return rows < 1 or bool(pc.all(ascends).as_py())

    def part(self, start: int, stop: int) -> TextBlock:
        return TextBlock(self.keys, self.batch.slice(start, stop - start))


@dataclass(frozen=True)
class BulkReader:
    """How the text of one table becomes blocks, and the rows of a chunk its batch."""

    type: EntityType
    columns: tuple[Column, ...]
    is_guarded: bool = False
    """Behind the values the text has the size of each, and the digest of each that is left out."""

    @property
    def is_possible(self) -> bool:
        """Whether the keys can be ordered and told apart in columns."""
        plain = {c.field.name for c in self.columns if c.is_plain}
        kinds = {self.type.by_name[k].kind for k in self.type.key}
        return set(self.type.key) <= plain and kinds <= {Kind.INT, Kind.TEXT} and bool(kinds)

    def blocks(self, texts: Iterable[bytes | bytearray]) -> Iterator[TextBlock]:
        """The rows in blocks. Raises `NotInBulk` where the text is not what the types promise."""
        return map(self._parsed, texts)

    def _parsed(self, text: bytes | bytearray) -> TextBlock:
        types = [c.read_as for c in self.columns]
        if self.is_guarded:
            count = len(types)
            types += [pa.int64()] * count + [pa.string()] * count
        names = [str(at) for at in range(len(types))]
        try:
            table = csv.read_csv(
                pa.BufferReader(text),
                csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names),
                csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
                csv.ConvertOptions(
                    column_types=dict(zip(names, types, strict=True)), null_values=[""],
                    true_values=["t"], false_values=["f"],
                    strings_can_be_null=True, quoted_strings_can_be_null=False,
                ),
            )  # fmt: skip
        except pa.ArrowException as error:
            raise NotInBulk(str(error).partition("\n")[0]) from error
        stored = names[: len(self.columns)]
        sizes, digests = names[len(stored) : 2 * len(stored)], names[2 * len(stored) :]
        if any((pc.max(table[name]).as_py() or 0) > MAX_VALUE_BYTES for name in sizes) or any(
            table[name].null_count < len(table) for name in digests
        ):
            raise NotInBulk("a value exceeds the capture limit")
        table = table.select(stored).rename_columns([c.field.name for c in self.columns])
        (batch,) = table.to_batches()
        return TextBlock(self.type.key, batch)

    def encode(self, parts: Sequence[TextBlock]) -> pa.RecordBatch:
        """The rows of one chunk as a batch in normal form."""
        batch = pa.concat_batches([part.batch for part in parts])
        stored = {c.field.name: c for c in self.columns}
        absent = (ABSENT,) * batch.num_rows
        return batch_of(
            [
                (f.name, *stored[f.name].normal(batch.column(f.name)))
                if f.name in stored
                else (f.name, *encode_column(f.kind, absent))
                for f in self.type.fields
            ]
        )
