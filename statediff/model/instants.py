"""Instants that a source keeps as text: the forms in which they are written.

A form has one spelling for each instant, so that reading by it forgets nothing: two texts of one
form are one instant only if they are one text. A text in another form is that text. `instant@1`
is the rule that reads all spellings.

A form is written like the texts that it reads:

    YYYY-MM-DDThh:mm:ssZ            YYYY-MM-DD hh:mm:ss[.ffffff]      YYYY-MM-DD hh:mm

The separator is `T` or a space. `.fff` is a fraction of exactly so many digits (one to six); in
brackets, it is left out where it is zero; `[.f*]` has no zero at its end. The offset is `Z`, or one
such as `+00:00`; without it, the text is a local time, of the zone that the schema declares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Final

_FORM: Final = re.compile(
    r"YYYY-MM-DD(?P<separator>[T ])hh:mm"
    r"(?P<seconds>:ss(?:\.f{1,6}|\[\.f{1,6}\]|\[\.f\*\])?)?(?P<offset>Z|[+-][0-9]{2}:[0-9]{2})?"
)
_TEXT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ])[0-9]{2}:[0-9]{2}(?:(:[0-9]{2})(?:\.([0-9]{1,6}))?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_LONGEST: Final = 32
NO_FORM: Final = "none"
"""The form of a column whose texts are of several forms, or of none: all of them are texts."""


def is_form(form: str) -> bool:
    """True if the text is a form, by the rules of this module."""
    return _FORM.fullmatch(form) is not None


def has_offset(form: str) -> bool:
    """True if the texts of a form say their offset from UTC."""
    found = _FORM.fullmatch(form)
    return found is not None and found["offset"] is not None


def parse_instant(text: str) -> datetime | None:
    """The instant (UTC) or, without an offset, the local time that a text in any form is.

    None for other text: no such day or hour, a fraction finer than a microsecond, an instant
    outside the years 1 to 9999 in UTC.
    """
    # Some versions of Python read the hour 24, a second spelling of the next day's first.
    if len(text) > _LONGEST or not _TEXT.fullmatch(text) or text[11:13] == "24":
        return None
    try:
        parsed = datetime.fromisoformat(text)
        return parsed if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def in_utc(moment: datetime) -> datetime | None:
    """The instant, in UTC; None where that lies outside the years 1 to 9999."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return None


def in_zone(local: datetime, zone: tzinfo) -> datetime | None:
    """The instant (UTC) of a local time; None where the zone has it twice or not at all."""
    first = local.replace(tzinfo=zone, fold=0)
    if zone is UTC:
        return first  # no clock of it is ever set
    if first.utcoffset() != first.replace(fold=1).utcoffset():
        return None  # the clock was set back or forward over this hour
    return in_utc(first)


def is_written_in(text: str, form: str) -> bool:
    """True if the text is in the form.

    >>> is_written_in("2026-01-31T09:00:00Z", "YYYY-MM-DDThh:mm:ssZ")
    True
    >>> is_written_in("2026-01-31 10:00:00.500", "YYYY-MM-DD hh:mm:ss[.f*]")
    False
    """
    return form != NO_FORM and len(text) <= _LONGEST and _pattern(form).fullmatch(text) is not None


def spelling_of(text: str) -> str | None:
    """How the text writes its instant, for `form_of_all`; None where it is none.

    The separator, whether there are seconds, how many digits their fraction has, whether it is zero
    or ends in one, and the offset.
    """
    return _spelling_of(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=8192)
def _spelling_of(text: str) -> str | None:
    found = _TEXT.fullmatch(text)
    if found is None or parse_instant(text) is None:
        return None
    separator, seconds, fraction, offset = found.groups()
    digits = fraction or ""
    end = "z" if digits and not digits.strip("0") else "p" if digits.endswith("0") else "t"
    said = ("T" if separator == "T" else "_", "s" if seconds else "m", str(len(digits)), end)
    return "".join(said) + (offset or "")


def form_of_all(spellings: Iterable[str]) -> str | None:
    """The one form in which texts of these spellings are written; None where there is none.

    Whole seconds leave open how a fraction would be written: in six digits, as most programs do.

    >>> form_of_all({spelling_of("2026-01-31 10:00:00"), spelling_of("2026-01-31 10:00:00.125000")})
    'YYYY-MM-DD hh:mm:ss[.ffffff]'
    """
    found = {(said[0], said[1], int(said[2]), said[3], said[4:]) for said in spellings}
    if len({(separator, unit, offset) for separator, unit, _, _, offset in found}) != 1:
        return None
    separator, unit, _, _, offset = next(iter(found))
    tail = "" if unit == "m" else _fraction({(size, end) for _, _, size, end, _ in found})
    if tail is None:
        return None
    return f"YYYY-MM-DD{'T' if separator == 'T' else ' '}hh:mm{tail}{offset}"


def form_of_texts(texts: Iterable[str]) -> str:
    """The one form of all texts that are instants; `NO_FORM` where there is none."""
    spellings = {spelling for text in texts if (spelling := spelling_of(text)) is not None}
    return form_of_all(spellings) or NO_FORM


def _fraction(written: set[tuple[int, str]]) -> str | None:
    """Seconds with fractions of these sizes and ends, as a form has them."""
    sizes = {size for size, _ in written}
    if sizes == {0}:
        return ":ss[.ffffff]"
    if len(sizes) == 1:
        return f":ss.{'f' * sizes.pop()}"
    if not any(end == "z" for _, end in written):
        if len(sizes) == 2 and 0 in sizes:
            return f":ss[.{'f' * max(sizes)}]"
        if all(end == "t" for _, end in written):
            return ":ss[.f*]"
    return None


@lru_cache(maxsize=256)
def _pattern(form: str) -> re.Pattern[str]:
    """The pattern of the texts of a form. Raises `ValueError` for another text."""
    found = _FORM.fullmatch(form)
    if found is None:
        raise ValueError(f"not a form of instants: {form[:80]!r}")
    digits = r"[0-9]{4}-[0-9]{2}-[0-9]{2}" + found["separator"] + "[0-9]{2}:[0-9]{2}"
    return re.compile(digits + _tail(found["seconds"] or "") + re.escape(found["offset"] or ""))


def _tail(seconds: str) -> str:
    fraction = seconds.removeprefix(":ss")
    count = fraction.count("f")
    match fraction[:1]:
        case "":
            what = ""
        case ".":
            what = rf"\.[0-9]{{{count}}}"
        case _ if "*" in fraction:
            what = r"(?:\.[0-9]{0,5}[1-9])?"
        case _:
            what = rf"(?:\.(?!0{{{count}}})[0-9]{{{count}}})?"
    return f":[0-9]{{2}}{what}" if seconds else ""
