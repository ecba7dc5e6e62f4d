"""Stored values read as the kind their field declares, where that is exact; else left as they are.

Sources without a rich type system store instants, dates, truth values and decimals as text or
integers. `converter` says what such a value means under the declared kind. It never guesses: text
that does not parse, an instant finer than a microsecond, and a local time that the declared zone
has twice or not at all keep the value that is really there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from statediff.errors import InputError
from statediff.model.schema import Field, Kind

Convert = Callable[[Any], Any]

_INSTANT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]{1,400})?")
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
            zone = None if field.zone is None else zone_named(field.zone)
            return lambda stored: instant(stored, zone)
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

    >>> instant("2024-03-01 10:00:00", None)
    datetime.datetime(2024, 3, 1, 10, 0)
    >>> instant("2024-03-01T10:00:00+02:00", None)
    datetime.datetime(2024, 3, 1, 8, 0, tzinfo=datetime.timezone.utc)
    """
    if type(stored) is not str or not _INSTANT.fullmatch(stored):
        return stored
    try:
        parsed = datetime.fromisoformat(stored)
        if parsed.tzinfo is not None:
            return parsed.astimezone(UTC)
        return parsed if zone is None else _in_zone(parsed, zone)
    except (ValueError, OverflowError):
        return stored  # no such day or hour, or an instant outside the years 1 to 9999 in UTC


def _in_zone(local: datetime, zone: tzinfo) -> datetime:
    first = local.replace(tzinfo=zone, fold=0)
    if first.utcoffset() != first.replace(fold=1).utcoffset():
        return local  # the clock was set back or forward over this hour: two instants, or none
    return first.astimezone(UTC)


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
