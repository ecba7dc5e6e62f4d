"""Instants as whole microseconds since 1970 in UTC, ordered as times and never as text.

A timestamp without a zone is refused unless its zone was declared: `2026-03-05T23:30` is not a
moment, and comparing it as text with `2026-03-06T00:10+02:00` gives the wrong order.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from statediff.contract.parts import seconds
from statediff.errors import InputError
from statediff.reads.index import EPOCH

DAY: Final = 86_400_000_000
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def instant(text: str, zone: tzinfo | None, what: str) -> int:
    """Microseconds since the epoch of an ISO 8601 timestamp; `InputError` where it names none.

    `zone` is that of timestamps without one; a date alone is its first moment.
    """
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{what}: expected a timestamp such as 2026-03-05T09:00:00Z, found {text[:60]!r}"
        ) from None
    if read.tzinfo is None:
        if zone is None:
            raise InputError(
                f"{what}: {text[:60]!r} has no zone; write one, or declare `zone` once for the file"
            )
        read = read.replace(tzinfo=zone)
    return (read - EPOCH) // timedelta(microseconds=1)


def last_instant(text: str, zone: tzinfo | None, what: str) -> int:
    """As `instant`, but a date alone is its last moment: `as of March 5` includes that day."""
    first = instant(text, zone, what)
    return first + DAY - 1 if _DATE.fullmatch(text) else first


def end_of_day(at: int) -> int:
    """The last microsecond of the instant's day in UTC."""
    return at // DAY * DAY + DAY - 1


def duration(written: str) -> int:
    """Microseconds of a duration such as `90s` or `14d`; what is smaller is cut off."""
    return int(seconds(written) * 1_000_000)


def find_zone(name: str) -> tzinfo | None:
    """The zone of the time zone database; None if there is none of that name."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
