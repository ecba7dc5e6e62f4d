"""A running service as a source: what the calls of its own API list. Nobody here started it.

1. Everything is listed, then listed again. A listing is many calls and no moment: where the two
   differ, somebody wrote meanwhile, and the reading begins anew; after `ATTEMPTS` the types that
   moved are incomplete.
2. What the service refuses or does not know leaves its types incomplete, with the service's words.
   After a run, a refusal of what was listed before it is a change of the source.
3. A row has what fields name, and `rest` of the answer in one field: a property that nobody here
   knows is a change all the same.

The service is only asked, never written. What no call of its API shows is not observed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, ClassVar, Final, TypeGuard

from statediff.capture.source import Clock, scanned
from statediff.model.batches import Row
from statediff.model.explanation import by_run, unread_because
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Kind, Schema
from statediff.model.state import COMPLETE, ChunkStore, Coverage, Enumeration, State
from statediff.model.values import Map, Observed, Unobserved, Value, printable
from statediff.systems.base.rows import instant, keyed_table, source_schema

ATTEMPTS: Final = 3
MOVED: Final = unread_because("it was written while it was read; read it when it is at rest")
_NOT_TEXT: Final = Unobserved(by_run("it holds half of a surrogate pair, which is no text"))
_TOO_DEEP: Final = Unobserved(by_run("it is nested too deeply"))
_MAX_DEPTH: Final = 100
_EMPTY: Final[tuple[Any, ...]] = (None, "", (), [], {})


@dataclass
class Listing:
    """The listed rows by the type's name, and why a type is not known whole."""

    rows: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    gaps: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, row: Mapping[str, Any]) -> None:
        self.rows.setdefault(name, []).append(row)

    def miss(self, cause: str, *names: str) -> None:
        """There may be more of these types, for this cause."""
        for name in names:
            self.gaps.setdefault(name, cause)


class ListedSource:
    """The types of one service. `listed` asks it once for everything, `types` what there can be."""

    not_observed: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        name: str,
        types: Callable[[], Sequence[EntityType]],
        listed: Callable[[], Listing],
        refine: Callable[[Schema], Schema] | None = None,
    ) -> None:
        self._name = name
        self._types = types
        self._listed = listed
        self._refine = refine

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        schema = source_schema(self._name, self._types())
        return schema if self._refine is None else self._refine(schema)

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        schema = self.schema()
        found, moved = self._at_rest()
        tables = {}
        for entity in schema.types:
            at = entity.source_table
            cause = MOVED if at in moved else found.gaps.get(at)
            known = COMPLETE if cause is None else Enumeration(Coverage.INCOMPLETE, cause)
            rows = [row_of(entity, each) for each in found.rows.get(at, ())]
            own = None if like is None else like.tables.get(entity.name)
            tables[entity.name] = keyed_table(entity, rows, known, store, own)
        part = scanned(self._name, as_of, State(schema, tables))
        if like is None:
            return part
        refused = [
            cause
            for entity in schema.types
            if (cause := found.gaps.get(entity.source_table)) is not None
            and entity.name in like.tables
            and like.tables[entity.name].enumeration.is_complete
        ]
        return replace(part, spoiled=tuple(dict.fromkeys(refused)))

    def _at_rest(self) -> tuple[Listing, frozenset[str]]:
        """A listing that was the same twice; else the last one, and the types that moved."""
        first = self._listed()
        moved: frozenset[str] = frozenset()
        for _ in range(ATTEMPTS):
            again = self._listed()
            moved = _unlike(first, again)
            first = again
            if not moved:
                break
        return first, moved


def _unlike(one: Listing, other: Listing) -> frozenset[str]:
    def content(listing: Listing, name: str) -> list[str]:
        return sorted(map(repr, listing.rows.get(name, ())))

    names = one.rows.keys() | other.rows.keys()
    return frozenset(name for name in names if content(one, name) != content(other, name))


def rest(answer: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """The rest of an answer beside its `known` members, without what is empty."""
    return {name: each for name, each in answer.items() if name not in known and not _is_void(each)}


def _is_void(value: Any) -> bool:
    return any(value is each or (type(value) is type(each) and value == each) for each in _EMPTY)


def row_of(entity: EntityType, row: Mapping[str, Any]) -> Row:
    """A row of plain values, by source column, as a row of the type."""
    kinds = {field.source_column: field.kind for field in entity.fields}
    return {name: cell_of(cell, kinds.get(name, Kind.ANY)) for name, cell in row.items()}


def cell_of(cell: Any, kind: Kind) -> Observed:
    """The meaning of a program's own value in a field of this kind."""
    if isinstance(cell, Unobserved):
        return cell
    if kind is Kind.TIMESTAMP:
        moment: Observed = instant(cell, None)
        return moment.astimezone(UTC) if _is_aware(moment) else moment
    if kind is Kind.BOOL and type(cell) is int and cell in (0, 1):
        return bool(cell)
    try:
        return _value(cell, 0)
    except UnicodeEncodeError:
        return _NOT_TEXT
    except RecursionError:
        return _TOO_DEEP


def _is_aware(value: Observed) -> TypeGuard[datetime]:
    return isinstance(value, datetime) and value.tzinfo is not None


def _value(cell: Any, depth: int) -> Value:
    if depth > _MAX_DEPTH:
        raise RecursionError
    match cell:
        case str():
            cell.encode()
            return cell
        case list() | tuple():
            return tuple(_value(each, depth + 1) for each in cell)
        case Mapping():
            return Map.of({str(_value(n, depth)): _value(e, depth + 1) for n, e in cell.items()})
        case datetime() if cell.tzinfo is not None:
            return cell.astimezone(UTC)
        case None | bool() | int() | float() | Decimal() | date() | bytes() | Map():
            value: Value = cell
            return value
        case _:
            return printable(str(cell))


def from_environment(*names: str) -> str | None:
    """The first of these variables that says anything."""
    return next((found for name in names if (found := os.environ.get(name))), None)
