"""Views of a state: what the judging stages read, row by row, without loading whole tables.

A `StateView` shows one state under one canonicalizer. A `RecordingView` notes every look, so that
the bundle can hold exactly what the decision read. Replay uses a view over a bundle's fragments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from statediff.model.batches import Row
from statediff.model.paths import Selection
from statediff.model.schema import EntityType, Schema
from statediff.model.state import Coverage, Enumeration, State
from statediff.model.values import Key, key_order

LASTING_ROWS: Final = 4096
"""Entities that a lasting view keeps."""


class Canonicalizer(Protocol):
    """ν as a row-local function. `row` returns a new row and never changes its argument."""

    def row(self, type_name: str, row: Mapping[str, object]) -> Row: ...

    def touches(self, type_name: str) -> bool: ...

    def leaves(self, type_name: str, fields: Iterable[str]) -> bool:
        """Whether these fields of the type stay as they are, whatever the rest of a row holds."""

    def inside(self, type_name: str, field_name: str) -> tuple[tuple[Selection, str, bool], ...]:
        """The rules inside the field's values: where, their text, whether they remove the place."""


class View(Protocol):
    """One side of a trial, as the judging stages see it."""

    @property
    def schema(self) -> Schema: ...

    def enumeration(self, type_name: str) -> Enumeration: ...

    def row(self, type_name: str, key: Key) -> Row | None:
        """The entity, or None when no row is known (absent only if the enumeration is complete)."""

    def rows(self, type_name: str, fields: tuple[str, ...]) -> Iterator[tuple[Key, Row]]:
        """Every known entity in key order; each row has at least `fields`."""


@dataclass(frozen=True)
class Columns:
    """A whole type as it is stored: `batches` in key order, `rows` of them in all."""

    type: EntityType
    rows: int
    batches: Iterable[pa.RecordBatch]


@runtime_checkable
class ColumnarView(View, Protocol):
    """A view that may show a type as it is stored, where that is what its rows say."""

    def columns(self, type_name: str, fields: tuple[str, ...]) -> Columns | None:
        """What `rows` of the same arguments would give; None where only `rows` can."""


class StateView:
    """A state under a canonicalizer. Types the schema has but no table serves are unobserved."""

    def __init__(
        self,
        state: State,
        canonicalizer: Canonicalizer | None = None,
        unobserved: Mapping[str, str] | None = None,
    ) -> None:
        self._state = state
        self._canonicalizer = canonicalizer
        self._unobserved = dict(unobserved or {})

    @property
    def schema(self) -> Schema:
        return self._state.schema

    def enumeration(self, type_name: str) -> Enumeration:
        if type_name in self._unobserved:
            return Enumeration(Coverage.UNOBSERVED, self._unobserved[type_name])
        table = self._state.tables.get(type_name)
        if table is None:
            return Enumeration(Coverage.UNOBSERVED, "no source delivered it")
        return table.enumeration

    def row(self, type_name: str, key: Key) -> Row | None:
        if self.enumeration(type_name).coverage is Coverage.UNOBSERVED:
            return None
        row = self._state.tables[type_name].row(key)
        return None if row is None else self._canonical(type_name, row)

    def rows(self, type_name: str, fields: tuple[str, ...]) -> Iterator[tuple[Key, Row]]:
        if self.enumeration(type_name).coverage is Coverage.UNOBSERVED:
            return
        table = self._state.tables[type_name]
        if self._is_raw(type_name, fields):
            yield from table.rows(fields)
            return
        for key, row in table.rows():
            yield key, self._canonical(type_name, row)

    def columns(self, type_name: str, fields: tuple[str, ...]) -> Columns | None:
        if self.enumeration(type_name).coverage is Coverage.UNOBSERVED:
            return None
        if not self._is_raw(type_name, fields):
            return None
        table = self._state.tables[type_name]
        return Columns(table.type, table.row_count, table.batches())

    def _is_raw(self, type_name: str, fields: tuple[str, ...]) -> bool:
        return self._canonicalizer is None or self._canonicalizer.leaves(type_name, fields)

    def _canonical(self, type_name: str, row: Row) -> Row:
        if self._canonicalizer is None or not self._canonicalizer.touches(type_name):
            return row
        return self._canonicalizer.row(type_name, row)


class LastingView(StateView):
    """A view that outlives one judgement: entities that were asked for stay in its hand."""

    def __init__(self, state: State, canonicalizer: Canonicalizer | None = None) -> None:
        super().__init__(state, canonicalizer)
        self._rows: dict[tuple[str, tuple[Any, ...]], Row | None] = {}

    def row(self, type_name: str, key: Key) -> Row | None:
        place = type_name, key_order(key)
        try:
            return self._rows[place]
        except KeyError:
            pass
        found = super().row(type_name, key)
        if len(self._rows) >= LASTING_ROWS:
            self._rows.clear()
        self._rows[place] = found
        return found


class ChangedView(StateView):
    """The state that a run left, seen beside the one before it.

    `changed` has the rows, as captured, of the entities of a type that may differ, None for one
    that is gone; of types that are not in it nothing differs. `apart` are types of which the two
    states cannot be seen together.
    """

    def __init__(
        self,
        state: State,
        canonicalizer: Canonicalizer | None,
        before: LastingView,
        changed: Mapping[str, Mapping[tuple[Any, ...], Row | None]],
        apart: frozenset[str],
    ) -> None:
        super().__init__(state, canonicalizer)
        self._before = before
        self._changed = changed
        self._apart = apart

    def row(self, type_name: str, key: Key) -> Row | None:
        if type_name in self._apart:
            return super().row(type_name, key)
        rows = self._changed.get(type_name)
        if rows is not None:
            order = key_order(key)
            if order in rows:
                row = rows[order]
                return None if row is None else self._canonical(type_name, row)
        return self._before.row(type_name, key)


@dataclass(frozen=True)
class Look:
    """One entity that was asked for: `side` is before or after."""

    side: str
    type: str
    key: Key = field(compare=False)
    order: tuple[Any, ...] = field(init=False, repr=False)
    """Tells keys apart where Python does not: 1, 1.0 and True."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", key_order(self.key))


@dataclass(frozen=True)
class Scan:
    """A whole type that was ranged over, with the fields that were read."""

    side: str
    type: str
    fields: tuple[str, ...]


class Ledger:
    """What was read on behalf of each clause; `clause` "" is what all of them share."""

    def __init__(self) -> None:
        self.clause = ""
        self.looks: dict[str, set[Look]] = {}
        self.scans: dict[str, set[Scan]] = {}
        self.heard: dict[str, set[str]] = {}
        """What was read beside the states, named as in a bundle: of the trace, of the answer."""

    def begin(self, clause: str) -> None:
        """From now on, what is read is read for `clause`."""
        self.clause = clause

    def look(self, look: Look) -> None:
        self.looks.setdefault(self.clause, set()).add(look)

    def hear(self, names: Iterable[str]) -> None:
        self.heard.setdefault(self.clause, set()).update(names)

    def scan(self, scan: Scan) -> None:
        self.scans.setdefault(self.clause, set()).add(scan)


class RecordingView:
    """A view that notes what was read of it in a ledger."""

    def __init__(self, view: View, side: str, ledger: Ledger) -> None:
        self._view = view
        self._side = side
        self._ledger = ledger

    @property
    def schema(self) -> Schema:
        return self._view.schema

    def enumeration(self, type_name: str) -> Enumeration:
        return self._view.enumeration(type_name)

    def row(self, type_name: str, key: Key) -> Row | None:
        self._ledger.look(Look(self._side, type_name, key))
        return self._view.row(type_name, key)

    def rows(self, type_name: str, fields: tuple[str, ...]) -> Iterator[tuple[Key, Row]]:
        self._ledger.scan(Scan(self._side, type_name, fields))
        return self._view.rows(type_name, fields)

    def columns(self, type_name: str, fields: tuple[str, ...]) -> Columns | None:
        found = None
        if isinstance(self._view, ColumnarView):
            found = self._view.columns(type_name, fields)
        if found is not None:
            self._ledger.scan(Scan(self._side, type_name, fields))
        return found
