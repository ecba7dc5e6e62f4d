"""Stored values and rows as a table has them: of the declared kind, and under the rows' own keys.

Sources without a rich type system store instants, dates, truth values and decimals as text or
integers. `converter` says what such a value means under the declared kind. It never guesses: text
that does not parse or is not in the column's form, an instant finer than a microsecond, and a local
time that the declared zone has twice or not at all keep the value that is really there.

In a `keyed_table` a key that is missing or shared names nobody. `plain` makes JSON values plain
objects for code that speaks to other programs.

The residue of a reading is all that its view does not say, by named part and digest. View and
residue together tell any two contents apart (`statediff.conformance.ResidueSuite`).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from statediff.contract.document.packed import PACKINGS, unpacked
from statediff.errors import InputError
from statediff.model.batches import Row
from statediff.model.instants import in_zone, is_written_in, parse_instant
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import (
    ChunkStore,
    Coverage,
    Enumeration,
    Table,
    build_table,
)
from statediff.model.values import ABSENT, Map, Value, is_value, key_order

Convert = Callable[[Any], Any]

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,399})(?:\.[0-9]{1,400})?")
"""One spelling a number of digits: a zero in front is text that nobody's program writes."""
_OFFSET: Final = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")


def converter(field: Field) -> Convert | None:
    """How a stored value of this field is read, or None when it is taken as it is.

    Raises `InputError` when the field declares a zone that does not exist here.
    """
    match field.kind:
        case Kind.BOOL:
            return _truth
        case Kind.DECIMAL:
            return _decimal
        case Kind.DATE:
            return _date
        case Kind.TIMESTAMP | Kind.LOCAL_TIMESTAMP:
            zone, form = None if field.zone is None else zone_named(field.zone), field.form
            if form is None:
                return lambda stored: instant(stored, zone)
            return lambda stored: (
                stored
                if type(stored) is str and not is_written_in(stored, form)
                else instant(stored, zone)
            )
        case Kind.ANY if field.form is not None and field.form in PACKINGS:
            return partial(unpacked, packing=field.form)
        case _:
            return None


def _truth(stored: Any) -> Any:
    if type(stored) is int and stored in (0, 1):
        return stored == 1
    return stored


def _decimal(stored: Any) -> Any:
    # A binary float is not a decimal: 39.5 read back from REAL storage stays the float it is.
    if type(stored) is str and _NUMBER.fullmatch(stored):
        return Decimal(stored)
    return stored


def _date(stored: Any) -> Any:
    if type(stored) is str and _DATE.fullmatch(stored):
        try:
            return date.fromisoformat(stored)
        except ValueError:
            return stored
    return stored


def instant(stored: Any, zone: tzinfo | None) -> Any:
    """ISO 8601 text as an instant (UTC); without an offset and without `zone` a local timestamp.

    A local timestamp that was read before, by a driver or for a captured state, takes the zone too.

    >>> instant("2024-03-01 10:00:00", None)
    datetime.datetime(2024, 3, 1, 10, 0)
    >>> instant("2024-03-01T10:00:00+02:00", None)
    datetime.datetime(2024, 3, 1, 8, 0, tzinfo=datetime.timezone.utc)
    """
    parsed = parse_instant(stored) if type(stored) is str else stored
    if type(parsed) is not datetime:
        return stored
    if parsed.tzinfo is not None or zone is None:
        return parsed
    return in_zone(parsed, zone) or parsed


@lru_cache(maxsize=64)
def zone_named(name: str) -> tzinfo:
    """The zone: `UTC`, an offset such as `+02:00`, or a name of the IANA database."""
    if name in ("UTC", "Z"):
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset is not None and int(offset[2]) < 24 and int(offset[3]) < 60:
        size = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(-size if offset[1] == "-" else size)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InputError(
            f"the state schema declares the zone {name!r}, which this machine does not know: "
            "expected UTC, an offset such as +02:00, or an IANA name such as Europe/Berlin"
        ) from error


def source_schema(name: str, types: Iterable[EntityType]) -> Schema:
    """The schema of one source that delivers all the types, in their order."""
    own = tuple(types)
    return Schema(name, "0", own, ((name, tuple(each.name for each in own)),))


def keyed_table(
    entity_type: EntityType,
    rows: Iterable[Row],
    known: Enumeration,
    store: ChunkStore,
    like: Table | None,
) -> Table:
    """The rows, by source column, as a table; those without a key of their own are left out.

    `known` says how completely they were read. Where it says all, and some are left out, the table
    says how many.
    """
    if known.coverage is Coverage.UNOBSERVED:
        return build_table(entity_type, (), store, like=like).unobserved(known.cause or "unread")
    named = named_rows(entity_type, rows)
    own = distinct_rows(entity_type, [row for row in named if _has_key(entity_type, row)])
    if len(own) < len(named) and known.is_complete:
        cause = f"{len(named) - len(own)} rows have no key of their own"
        known = Enumeration(Coverage.INCOMPLETE, cause)
    return build_table(entity_type, own, store, like=like, enumeration=known)


def named_rows(entity_type: EntityType, rows: Iterable[Row]) -> list[Row]:
    """The rows under the names of the type's fields; a column that is not there is absent."""
    columns = [(field.name, field.source_column) for field in entity_type.fields]
    return [{name: row.get(column, ABSENT) for name, column in columns} for row in rows]


def distinct_rows(entity_type: EntityType, rows: Sequence[Row]) -> list[Row]:
    """The rows whose key no other has, in their order; all of them where the type has no key."""
    if not entity_type.key:
        return list(rows)
    orders: list[Any] = [key_order(tuple(row[name] for name in entity_type.key)) for row in rows]  # type: ignore[misc]  # keys are values
    counts = Counter(orders)
    return [row for row, order in zip(rows, orders, strict=True) if counts[order] == 1]


def _has_key(entity_type: EntityType, row: Row) -> bool:
    return all(row[name] is not None and is_value(row[name]) for name in entity_type.key)


def plain(value: Value) -> Any:
    """Lists and dictionaries; numbers stay exact, so that no `float` comes out."""
    if isinstance(value, Map):
        return {name: plain(each) for name, each in value.items}
    return [plain(each) for each in value] if isinstance(value, tuple) else value


def residue_type(name: str, *key: str, because: str | None = None) -> EntityType:
    """A row for each thing that has residue; `because` says why it is outside the boundary."""
    fields = tuple(Field(part, Kind.TEXT, is_nullable=False) for part in key)
    parts = Field("residue", Kind.MAP, is_nullable=False)
    return EntityType(name, key, (*fields, parts), outside=because)


def residue(parts: Mapping[str, bytes]) -> Map:
    """Each part that says anything, by its digest."""
    return Map.of({n: hashlib.sha256(each).hexdigest() for n, each in parts.items() if each})
