"""Views of a state: what the judging stages read, row by row, without loading whole tables.

A `StateView` shows one state under ν and Ω (`Scoped`). A `RecordingView` notes every look, so that
the bundle can hold exactly what the decision read. Replay uses a view over a bundle's fragments.
A `ComparisonView` shows rows of one type as a comparison sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from operator import is_
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import pyarrow as pa

from statediff.model.batches import Row
from statediff.model.boundary import Boundary
from statediff.model.delta import Entity
from statediff.model.paths import Selection, Steps, covers, may_meet, replaced
from statediff.model.schema import EntityType, Schema
from statediff.model.state import NOT_DELIVERED, Coverage, Enumeration, State
from statediff.model.values import ABSENT, Absent, Excluded, Key, Map, Observed, key_order

Made = TypeVar("Made")


class RowTransform(Protocol):
    """Transforms captured rows for a view, each by itself."""

    def row(self, type_name: str, row: Row) -> Row:
        """The row as it is shown: another one where anything is changed, else the same."""

    def leaves(self, type_name: str, fields: Iterable[str]) -> bool:
        """True if these fields of the type stay as they are, whatever the rest of a row holds."""


class Canonicalizer(RowTransform, Protocol):
    """ν as a row-local function, and its rules."""

    def ruled(self, type_name: str) -> Collection[str]:
        """The fields of the type that a rule is on."""

    def inside(self, type_name: str, field_name: str) -> tuple[tuple[Selection, str, bool], ...]:
        """The rules inside the field's values: where, their text, whether they remove the place."""

    def rules_on(self, type_name: str, field_name: str) -> tuple[str, ...]:
        """The texts of the rules on a field, in the order they apply."""


class Scoped:
    """ν and Ω as one row transform: excluded fields show as excluded, for every viewer."""

    def __init__(self, book: Canonicalizer, boundary: Boundary, schema: Schema) -> None:
        self._book = book
        self._boundary = boundary
        self._types = schema.by_name
        self._excluded: dict[str, dict[str, Excluded]] = {}

    def leaves(self, type_name: str, fields: Iterable[str]) -> bool:
        named = tuple(fields)
        excluded = self._outside(type_name)
        return self._book.leaves(type_name, named) and excluded.keys().isdisjoint(named)

    def row(self, type_name: str, row: Row) -> Row:
        canonical = self._book.row(type_name, row)
        excluded = self._excluded.get(type_name)
        if excluded is None:
            excluded = self._outside(type_name)
        if not excluded:
            return canonical
        return canonical | {name: sign for name, sign in excluded.items() if name in canonical}

    def _outside(self, type_name: str) -> dict[str, Excluded]:
        """Fields of the type that are outside Ω, with their rules; looked up when it is viewed."""
        found = self._excluded.get(type_name)
        if found is None:
            names = self._types[type_name].by_name if type_name in self._types else ()
            rules = self._boundary.excluded(type_name, names)
            found = self._excluded[type_name] = {n: Excluded(rule) for n, rule in rules.items()}
        return found


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
        """The columns that `rows` of the same arguments would give; None where only `rows` can."""


class StateView:
    """A state under a canonicalizer. Types the schema has but no table serves are unobserved."""

    def __init__(
        self,
        state: State,
        transform: RowTransform | None = None,
    ) -> None:
        self._state = state
        self._transform = transform

    @property
    def schema(self) -> Schema:
        return self._state.schema

    def enumeration(self, type_name: str) -> Enumeration:
        table = self._state.tables.get(type_name)
        return NOT_DELIVERED if table is None else table.enumeration

    def row(self, type_name: str, key: Key) -> Row | None:
        table = self._state.tables.get(type_name)
        if table is None or table.enumeration.coverage is Coverage.UNOBSERVED:
            return None
        row = table.row(key)
        if row is None or self._transform is None:
            return row
        return self._transform.row(type_name, row)

    def rows(self, type_name: str, fields: tuple[str, ...]) -> Iterator[tuple[Key, Row]]:
        table = self._state.tables.get(type_name)
        if table is None or table.enumeration.coverage is Coverage.UNOBSERVED:
            return
        if self._transform is None or self._transform.leaves(type_name, fields):
            yield from table.rows(fields)
            return
        for key, row in table.rows():
            yield key, self._transform.row(type_name, row)

    def columns(self, type_name: str, fields: tuple[str, ...]) -> Columns | None:
        table = self._state.tables.get(type_name)
        if table is None or table.enumeration.coverage is Coverage.UNOBSERVED:
            return None
        if self._transform is not None and not self._transform.leaves(type_name, fields):
            return None
        return Columns(table.type, table.row_count, table.batches())


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


@dataclass
class Reads:
    """Reads made once, for any number of clauses."""

    looks: frozenset[Look] = frozenset()
    scans: frozenset[Scan] = frozenset()


class Ledger:
    """The reads on behalf of each clause; `clause` "" has those that all share."""

    def __init__(self) -> None:
        self.clause = ""
        self._looks: dict[str, set[Look]] = {}
        self._shared: dict[str, dict[int, frozenset[Look]]] = {}
        self.scans: dict[str, set[Scan]] = {}
        self.heard: dict[str, set[str]] = {}
        """The reads beside the states, named as in a bundle: of the trace, of the answer."""

    @property
    def looks(self) -> Mapping[str, tuple[Collection[Look], ...]]:
        """The entities that were looked at, by clause; one collection may serve many clauses."""
        return {
            clause: (self._looks.get(clause, ()), *self._shared.get(clause, {}).values())
            for clause in dict.fromkeys((*self._looks, *self._shared))
        }

    def begin(self, clause: str) -> None:
        """From now on, what is read is read for `clause`."""
        self.clause = clause

    def look(self, look: Look) -> None:
        self._looks.setdefault(self.clause, set()).add(look)

    def noting(self, work: Callable[[], Made]) -> tuple[Made, frozenset[Look]]:
        """The result of the work, and what it looks at, which counts for no clause yet."""
        known, self._looks = self._looks, {}
        try:
            made = work()
            return made, frozenset(self._looks.get(self.clause, ()))
        finally:
            self._looks = known

    def note(self, looks: frozenset[Look]) -> None:
        """The clause looked at all of them; to keep the same ones for many clauses costs little."""
        self._shared.setdefault(self.clause, {})[id(looks)] = looks

    @contextmanager
    def reading_once(self) -> Iterator[Reads]:
        """The reads while it lasts, for the clause at hand; `again` reads the same for others."""
        found = Reads()
        looks, shared, scans = self._looks, self._shared, self.scans
        self._looks, self._shared, self.scans = {}, {}, {}
        try:
            yield found
        finally:
            found.looks = frozenset(chain(*self.looks.get(self.clause, ())))
            found.scans = frozenset(self.scans.get(self.clause, ()))
            self._looks, self._shared, self.scans = looks, shared, scans
            self.again(found)

    def again(self, reads: Reads) -> None:
        """The same is read for the clause at hand."""
        if reads.looks:
            self.note(reads.looks)
        if reads.scans:
            self.scans.setdefault(self.clause, set()).update(reads.scans)

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
    def ledger(self) -> Ledger:
        return self._ledger

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


_Places: TypeAlias = tuple[tuple[Selection, str], ...]


class ComparisonView:
    """`fields` are those of both schemas; `excluded` maps the fields outside Ω to their rules.

    `outside` is the rule that puts the whole type outside Ω, None when it is inside; single fields
    are then not excluded once more.
    """

    def __init__(
        self,
        type_name: str,
        fields: Iterable[str],
        canonicalizer: Canonicalizer | None,
        boundary: Boundary | None,
    ) -> None:
        self.type_name = type_name
        self.fields = tuple(dict.fromkeys(fields))
        self._names = frozenset(self.fields)
        ruled = () if canonicalizer is None else canonicalizer.ruled(type_name)
        self.ruled = frozenset(ruled)
        """The fields that ν may change."""
        self._nu = canonicalizer if ruled else None
        self._rules = {n: self._nu.rules_on(type_name, n) for n in ruled} if self._nu else {}
        self._removed: dict[str, tuple[_Places, _Places]] = {}
        """By field: what Ω and what ν removes inside its values, with the rule of each."""
        self.ruled_inside: set[str] = set()
        """The fields with a rule that changes places inside their values."""
        for name in self.fields:
            inside = self._nu.inside(type_name, name) if self._nu and name in ruled else ()
            outside = () if boundary is None else boundary.inside(type_name, name)
            ignored = tuple((where, rule) for where, rule, is_removal in inside if is_removal)
            if outside or ignored:
                self._removed[name] = (outside, ignored)
            if len(inside) > len(ignored):
                self.ruled_inside.add(name)
        self.outside = boundary.excludes(type_name) if boundary else None
        self.excluded: dict[str, str] = {}
        if boundary is not None and self.outside is None:
            self.excluded = boundary.excluded(type_name, self.fields)

    def whole(self, row: Row) -> Row:
        """The row with every field of both schemas; one that its own schema lacks is absent."""
        if row.keys() == self._names:
            return row
        return {name: row.get(name, ABSENT) for name in self.fields}

    def canonical(self, row: Row) -> Row:
        """The row under ν, inside Ω and out."""
        return row if self._nu is None else self._nu.row(self.type_name, row)

    def is_read_as_json(self, name: str) -> bool:
        """True if the field's texts are compared by what they say as JSON."""
        return any(rule.startswith("json@") for rule in self._rules.get(name, ()))

    def is_removed_inside(self, name: str) -> bool:
        """True if Ω or ν removes places inside the field's values."""
        return name in self._removed

    def why_removed(
        self, name: str, steps: Steps, before: Observed, after: Observed
    ) -> tuple[str, bool] | None:
        """The rules that remove all that is at the place; whether it is Ω alone. None for others.

        What Ω does not remove by itself, forbid clauses see.
        """
        outside, ignored = self._removed.get(name, ((), ()))
        for rules in (outside, (*outside, *ignored)):
            if rules and covers([where for where, _ in rules], steps, before, after):
                texts = [rule for where, rule in rules if may_meet(where, steps)]
                return "; ".join(dict.fromkeys(texts)), rules is outside
        return None

    def compared(self, row: Row) -> Row:
        """The row as a comparison sees it: the canonical values within Ω.

        Of what is removed inside a value, only that it is there.
        """
        seen = self.canonical(self.whole(row))
        seen = {name: seen[name] for name in self.fields if name not in self.excluded}
        for name, (outside, ignored) in self._removed.items():
            for where, _ in (*outside, *ignored):
                if isinstance(cell := seen.get(name), Map | tuple):
                    seen[name] = replaced(cell, where, lambda _: None)
        return seen

    def entity(self, row: Row | None, raw: Entity | Absent) -> Entity | Absent:
        """The entity in canonical form, with excluded fields shown as such; `raw` if that is it."""
        if row is None:
            return ABSENT
        cells = self.canonical(row) | {
            name: Excluded(rule) for name, rule in self.excluded.items() if name in row
        }
        is_raw = cells.keys() == row.keys() and all(map(is_, cells.values(), row.values()))
        return raw if is_raw else Entity.of(cells)

    def why_hidden(self, names: Iterable[str]) -> tuple[str, bool]:
        """The rules that hide raw differences in these fields; whether Ω is among them."""
        rules: list[str] = []
        by_boundary = False
        for name in names:
            if name in self.excluded:
                by_boundary = True
                rules.append(self.excluded[name])
            else:
                rules += self._rules.get(name, ())
        return "; ".join(dict.fromkeys(rules)) or "canonicalization", by_boundary


def raw_entity(row: Row | None) -> Entity | Absent:
    """The entity as captured."""
    return ABSENT if row is None else Entity.of(row)
