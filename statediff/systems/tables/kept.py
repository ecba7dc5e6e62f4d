"""Tables that were handed over, kept, so that many states after them are captured in little time.

The captures are those that `TablesSource` makes of both states, in every digest. What is kept are
the records as bytes that tell every type apart (`marshal`: True is not 1, 1 is not 1.0, -0.0 is not
0.0), and the state that was made of them. Of a state after, only the records whose bytes are not
among those are read. Where they say more of their type than was known, the state before is made
again under the wider schema, and kept too.

A state after that is odd in any way is captured by nobody here: None says so.
"""

from __future__ import annotations

import marshal
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from typing import Any, Final, Generic, TypeVar

from statediff.capture.source import Clock, scanned
from statediff.errors import UsageError
from statediff.model.batches import Row
from statediff.model.patch import patched
from statediff.model.readings import Capture, SourceCapture
from statediff.model.schema import INSTANTS, EntityType, Schema
from statediff.model.state import CHUNK_BYTES, LayeredChunks, MemoryChunks, State, Table
from statediff.systems.tables.columns import Odd
from statediff.systems.tables.deltas import Index, edits, index_of
from statediff.systems.tables.inference import Seen, infer_type, schema_over, with_forms
from statediff.systems.tables.plain import KINDS, Columns, record_of, type_name
from statediff.systems.tables.shape import Record
from statediff.systems.tables.source import Refine, lacks_key, row_reader

EXACT: Final = 2
"""The last form of `marshal` that writes each value by itself, whatever refers to it."""
WIDER_KEPT: Final = 16
"""States before that are kept under wider schemas."""
_BLOCK: Final = 16
"""Records whose bytes are compared at once."""
_FEW: Final = 64
"""Changed records up to which a table is patched however small it is."""


@dataclass(frozen=True)
class _Change:
    """The records of a table that are not in another state of it."""

    gone: Sequence[Any]
    come: Sequence[Any]
    whole: Any = None
    """All records of the other state, where so many changed that they are read at once."""

    def within(self, records: list[Any]) -> _Change:
        """The change, with all records of the other state where they are needed."""
        changed = len(self.gone) + len(self.come)
        is_flood = changed > _FEW and changed > len(records) // 4
        return replace(self, whole=records) if is_flood else self


@dataclass(frozen=True)
class Changes:
    """The differences in a state after, by table: all that another process needs of it."""

    tables: Mapping[str, _Change]


_SAME: Final = _Change((), ())


class _Records:
    """The records of one table, as bytes in blocks."""

    def __init__(self, records: Any) -> None:
        columns = Columns(records)
        self.columns: Columns | None = columns
        self.count = len(records)
        self.seen = columns.seen
        self._blocks = _blocks(records)
        self._types = {
            name: frozenset(of for of, kind in KINDS.items() if kind in kinds)
            for name, kinds in self.seen.kinds.items()
        }
        self._needed = frozenset(
            name
            for name, kinds in self.seen.kinds.items()
            if None not in kinds and name not in self.seen.partial
        )

    @property
    def size(self) -> int:
        """Bytes: no text in the records is longer."""
        return sum(map(len, self._blocks))

    def load(self, start: int = 0, end: int | None = None) -> list[Any]:
        """The records of some blocks, made anew."""
        return [record for block in self._blocks[start:end] for record in marshal.loads(block)]  # noqa: S302 - what `_rows` wrote

    def says_all(self, record: Any) -> bool:
        """True if the type would be the same without this record of another state."""
        if type(record) is not dict:
            raise Odd
        for name, value in record.items():
            if type(value) not in self._types.get(name, ()):
                return False
        return self._needed <= record.keys()

    def change(self, records: list[Any]) -> _Change:
        """How the records of another state differ from these."""
        if type(records) is not list:
            raise Odd
        blocks = self._blocks
        if len(records) == self.count:
            others = _blocks(records)
            if others == blocks:
                return _SAME
            differ = [n for n, other in enumerate(others) if other != blocks[n]]
            return self._between(
                [record for n in differ for record in self.load(n, n + 1)],
                [record for n in differ for record in records[n * _BLOCK : (n + 1) * _BLOCK]],
            )
        first, last = 0, len(blocks)
        while first < last:
            if [blocks[first]] != _rows([records[first * _BLOCK : (first + 1) * _BLOCK]]):
                break
            first += 1
        end = len(records)
        while first < last and (size := self._size(last - 1)) <= end - first * _BLOCK:
            if [blocks[last - 1]] != _rows([records[end - size : end]]):
                break
            last, end = last - 1, end - size
        return self._between(self.load(first, last), records[first * _BLOCK : end])

    def _size(self, block: int) -> int:
        """How many records a block has."""
        return min(_BLOCK, self.count - block * _BLOCK)

    def _between(self, records: list[Any], others: list[Any]) -> _Change:
        """The differences between records, wherever they are."""
        own, new = _rows(records), _rows(others)
        gone, come = set(own), set(new)
        if len(gone) == len(own) and len(come) == len(new):
            return _Change(_loaded(gone - come), _loaded(come - gone))
        fewer, more = Counter(own), Counter(new)
        return _Change(_loaded((fewer - more).elements()), _loaded((more - fewer).elements()))


def _rows(values: Iterable[Any]) -> list[bytes]:
    """Bytes that are equal for the same plain objects alone. `Odd` where there are none."""
    try:
        return list(map(marshal.dumps, values, repeat(EXACT)))
    except ValueError:
        raise Odd from None


def _blocks(records: list[Any]) -> list[bytes]:
    return _rows([records[at : at + _BLOCK] for at in range(0, len(records), _BLOCK)])


def _loaded(rows: Iterable[bytes]) -> list[Any]:
    return [marshal.loads(row) for row in rows]  # noqa: S302 - what `_rows` wrote


@dataclass(frozen=True)
class _Known:
    """The state before under one schema."""

    state: State
    capture: Capture

    @cached_property
    def readers(self) -> Mapping[str, Callable[[Record], Row]]:
        """How a record of each type is read."""
        return {entity.name: row_reader(entity) for entity in self.state.schema.types}


V = TypeVar("V")


class Recent(Generic[V]):
    """At most so many values, those asked for last.

    Threads may ask at once, and a process may be forked meanwhile: no lock can be left held.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        """The value kept under an equal key; None where there is none, or no longer."""
        found = self._kept.get(key)
        if found is not None:
            with suppress(KeyError):  # another thread was first to drop it
                self._kept.move_to_end(key)
        return found

    def keep(self, key: Hashable, value: V) -> None:
        """The value, as the one asked for last."""
        self._kept[key] = value
        with suppress(KeyError):
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


class KeptTables:
    """The tables of a state before. `Odd` where the strict reader has to read them."""

    def __init__(self, name: str, tables: Any, refine: Refine | None, clock: Clock) -> None:
        self._name = name
        self._refine = refine
        self._clock = clock
        if type(tables) is not dict:
            raise Odd
        self._records = {type_name(each): _Records(tables[each]) for each in tables}
        self._inferred = {n: infer_type(n, [each.seen]) for n, each in self._records.items()}
        self._known: Recent[_Known] = Recent(WIDER_KEPT)
        self._indexes: dict[str, Index] = {}
        self._base = self._state(self._schema({}, {}))
        for records in self._records.values():
            records.columns = None  # which are those of the objects that were handed over

    def load(self) -> Any:
        """The tables, made anew."""
        return {name: records.load() for name, records in self._records.items()}

    def changes(self, after: Any) -> Changes:
        """The differences in a state after. `Odd` where the strict reader has to read it."""
        if type(after) is not dict or after.keys() != self._records.keys():
            raise Odd
        found = {}
        for name, rows in after.items():
            change = self._records[name].change(rows)
            if change is not _SAME:
                found[name] = change.within(rows)
        return Changes(found)

    def changes_by(self, deltas: Iterable[Any]) -> Changes:
        """The changes by deltas in plain JSON. `InputError` where they do not fit the tables."""
        made = edits(deltas, self._base.state.schema, self._index)
        found = {}
        for name, pairs in made.items():
            gone = [before for before, _ in pairs if before is not None]
            come = [after for _, after in pairs if after is not None]
            found[name] = _Change(gone, come)
        return Changes(found)

    def _index(self, entity: EntityType) -> Index:
        if entity.name not in self._indexes:
            records = self._records[entity.source_table].load()
            self._indexes[entity.name] = index_of(entity, records)
        return self._indexes[entity.name]

    def captures(self, changes: Changes) -> tuple[Capture, Capture]:
        """Both states, captured. `Odd` where the strict reader has to read the state after."""
        known = self._over(changes.tables)
        tables = {
            t.name: self._after(known, t, changes.tables[t.source_table])
            if t.source_table in changes.tables
            else known.state.tables[t.name]
            for t in known.state.schema.types
        }
        return known.capture, self._captured("after", State(known.state.schema, tables))

    def _over(self, changes: Mapping[str, _Change]) -> _Known:
        """The state before under the schema that both states make."""
        wider = {
            name: Seen.of([record_of(record) for record in change.come])
            for name, change in changes.items()
            if not all(map(self._records[name].says_all, change.come))
        }
        if not wider:
            return self._base
        schema = self._schema(wider, {name: changes[name].come for name in wider})
        known = self._known.get(schema)
        if known is None:
            known = self._state(schema)
            self._known.keep(schema, known)
        return known

    def _schema(self, wider: Mapping[str, Seen], come: Mapping[str, Sequence[Any]]) -> Schema:
        types = dict(self._inferred)
        for name, seen in wider.items():
            types[name] = infer_type(name, [self._records[name].seen, seen])
        schema = schema_over(self._name, types.values())
        if self._refine is None:
            return schema
        try:
            refined = self._refine(schema)
        except UsageError:
            raise Odd from None  # which is said again where the text is read
        tables = {t.source_table for t in refined.types}
        if not tables <= self._records.keys():
            raise Odd
        open_ = {
            t.source_table
            for t in refined.types
            if any(f.kind in INSTANTS and f.form is None for f in t.fields)
        }
        before = {name: self._records[name].load() for name in open_}
        return with_forms(refined, [before, {name: come.get(name, ()) for name in open_}])

    def _state(self, schema: Schema) -> _Known:
        base = self._base.state.tables if hasattr(self, "_base") else {}
        store = MemoryChunks()
        tables = {}
        for entity in schema.types:
            kept = base.get(entity.name)
            if kept is None or kept.type != entity:
                kept = self._columns(entity.source_table).table(entity, store)
            tables[entity.name] = kept
        state = State(schema, tables)
        return _Known(state, self._captured("before", state))

    def _columns(self, table: str) -> Columns:
        records = self._records[table]
        if records.size >= CHUNK_BYTES:
            raise Odd  # wide values make short chunks
        return records.columns or Columns(records.load())

    def _after(self, known: _Known, entity: EntityType, change: _Change) -> Table:
        table = known.state.tables[entity.name]
        store = LayeredChunks(table.store)
        if change.whole is not None:
            return Columns(change.whole).table(entity, store, table)
        read = known.readers[entity.name]
        gone, come = [[read(record_of(row)) for row in rows] for rows in (change.gone, change.come)]
        if any(lacks_key(entity, row) for row in come):
            raise Odd
        try:
            return patched(table, gone, come, store)
        except ValueError:
            raise Odd from None

    def _captured(self, moment: str, state: State) -> Capture:
        part = scanned(self._name, self._clock(), state, gaps=())
        reading = part.reading.cited_as(f"{moment}/{self._name}")
        return Capture((SourceCapture(reading, state),))
