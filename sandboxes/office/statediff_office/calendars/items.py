"""Events, tasks and journal entries: an iCalendar text as rows.

One component is one entity; an exception of a series (RECURRENCE-ID) is one of its own. What a
calendar program shows has a field; every other property is in `properties` as iCalendar text, so
that nothing of an object is unseen. Programs write DTSTAMP and LAST-MODIFIED anew, so these alone
are left out.
"""

from __future__ import annotations

from datetime import date, datetime
from itertools import chain
from typing import Any, Final

from icalendar import Calendar, Parameters

from statediff.model.batches import Row
from statediff.model.instants import in_utc
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import Map, Value
from statediff_office.calendars.lines import (
    content_lines,
    malformed,
    mismatched_end,
    repeated_parameter,
    with_parameters,
    with_value,
)

MAX_OBJECT_CHARACTERS: Final = 4 * 1024 * 1024
_SAID_PER_CHARACTER: Final = 64
"""Each component is a row, and has what the object says of all of them: of so many characters."""

CALENDAR: Final = EntityType(
    "calendar",
    ("path",),
    (
        Field("path", Kind.TEXT, is_nullable=False),
        Field("name", Kind.TEXT),
        Field("description", Kind.TEXT),
    ),
)
"""A calendar by its path on the server."""
ITEM: Final = EntityType(
    "calendar.item",
    ("calendar", "uid", "recurrence"),
    (
        Field("calendar", Kind.TEXT, is_nullable=False, reference=CALENDAR.name),
        Field("uid", Kind.TEXT, is_nullable=False),
        Field("recurrence", Kind.TEXT, is_nullable=False),
        Field("name", Kind.TEXT, is_nullable=False),
        Field("kind", Kind.TEXT, is_nullable=False),
        Field("summary", Kind.TEXT),
        Field("description", Kind.TEXT),
        Field("location", Kind.TEXT),
        Field("status", Kind.TEXT),
        Field("start", Kind.ANY),
        Field("end", Kind.ANY),
        Field("rule", Kind.TEXT),
        Field("exceptions", Kind.LIST, is_nullable=False),
        Field("sequence", Kind.INT),
        Field("transparency", Kind.TEXT),
        Field("classification", Kind.TEXT),
        Field("organizer", Kind.TEXT),
        Field("attendees", Kind.LIST, is_nullable=False),
        Field("alarms", Kind.LIST, is_nullable=False),
        Field("properties", Kind.MAP, is_nullable=False),
        Field("zones", Kind.MAP, is_nullable=False),
    ),
)
"""An event, task or journal entry. `recurrence` is the RECURRENCE-ID of an exception, else empty;
`name` is the last part of the object's path; `kind` is VEVENT, VTODO or VJOURNAL; `start` and `end`
(DTEND or DUE) are an instant, a local time or a date, and `exceptions` (EXDATE) a list of such;
`attendees` are maps {address, …} with their parameters; `alarms` are texts; `transparency` and
`classification` are TRANSP and CLASS; `properties` maps each other property to the list of its
lines; `zones` maps each time zone that the object defines to the list of its rules. What the object
says outside of its items (METHOD, X-WR-CALNAME, a component of another kind) is VCALENDAR in
`properties`."""
ITEM_TYPES: Final = (CALENDAR, ITEM)

_KINDS: Final = frozenset({"VEVENT", "VTODO", "VJOURNAL"})
_ZONE: Final = "VTIMEZONE"
_AROUND: Final = "VCALENDAR"
_USUAL: Final = frozenset({"VERSION:2.0", "CALSCALE:GREGORIAN"})
_TEXTS: Final = {
    "SUMMARY": "summary",
    "DESCRIPTION": "description",
    "LOCATION": "location",
    "STATUS": "status",
    "ORGANIZER": "organizer",
    "TRANSP": "transparency",
    "CLASS": "classification",
}
_TIMES: Final = frozenset({"DTSTART", "DTEND", "DUE", "EXDATE", "RDATE", "RECURRENCE-ID"})
"""Properties that are a DATE-TIME where they do not say what they are (RFC 5545, section 3.8)."""
FAULTS: Final = (
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError),
    *(ArithmeticError, OSError),
)
"""What the parser raises at a text that is no iCalendar; an `OSError` where the name of a zone is
that of a folder, or too long for one of a file."""


def item_rows(calendar: str, name: str, text: str) -> list[Row]:
    """The components of one object. Raises one of `FAULTS` where it is no iCalendar."""
    if len(text) > MAX_OBJECT_CHARACTERS:
        raise ValueError(f"it has more than {MAX_OBJECT_CHARACTERS} characters")
    lines = list(content_lines(text))
    repeated = repeated_parameter(lines)
    if repeated is not None:  # programs differ in which of two they believe
        raise ValueError(f"a parameter is there twice: {repeated}")
    ended = mismatched_end(lines)
    if ended is not None:  # others refuse it, or take the end for that of another component
        raise ValueError(f"{ended} ends where another component is open, or nowhere")
    odd = malformed(lines)
    if odd is not None:  # others refuse it, or leave it out
        raise ValueError(f"{odd} has no value of its kind")
    parsed = Calendar.from_ical(text)
    found = [each for each in parsed.subcomponents if each.name in _KINDS]
    if not found:
        raise ValueError("it holds no event, task or journal entry")
    zones: dict[str, tuple[str, ...]] = {}
    for each in parsed.walk(_ZONE):
        if str(each["TZID"]) in zones:  # programs differ in which of two they believe
            raise ValueError("a time zone is there twice")
        zones[str(each["TZID"])] = _zone(each)
    shared: Row = {"name": name, "zones": Map.of({**zones})}
    around = _around(parsed)
    said = sum(map(len, chain(around, *zones.values())))
    if said * len(found) > _SAID_PER_CHARACTER * len(text):
        raise ValueError("what it says of all its components is too long to be said of each")
    return [{**_item(calendar, each, around), **shared} for each in found]


def _around(parsed: Any) -> tuple[str, ...]:
    """The object's lines beside its items, its time zones and the program that wrote it."""
    lines = [
        f"{name}:{_line(name, each)}"
        for name, value in parsed.items()
        for each in _several(value)
        if name != "PRODID" or isinstance(value, list)
    ]
    # Programs refuse what says its version twice.
    lines = [e for e in lines if e not in _USUAL or isinstance(parsed[e.partition(":")[0]], list)]
    if "VERSION" not in parsed:
        lines.append("VERSION")  # they refuse what says none, too
    others = [_written(e) for e in parsed.subcomponents if e.name not in {*_KINDS, _ZONE}]
    return tuple(sorted([*lines, *others]))


def _item(calendar: str, component: Any, around: tuple[str, ...]) -> Row:
    if component.errors:
        name, why = component.errors[0]
        raise ValueError(f"{name}: {why}")
    row: Row = {
        "calendar": calendar,
        "uid": _text(component["UID"]),
        "recurrence": _text(component.get("RECURRENCE-ID")) or "",
        "kind": component.name,
        **{field: _text(component.get(name)) for name, field in _TEXTS.items()},
        "start": _moment(component.get("DTSTART")),
        "end": _moment(component.get("DTEND") or component.get("DUE")),
        "rule": _text(component.get("RRULE")),
        "exceptions": tuple(_moments(component.get("EXDATE", []))),
        "sequence": _count(component.get("SEQUENCE")),
        "alarms": tuple(sorted(_written(each) for each in component.subcomponents)),
    }
    attendees = [_attendee(each) for each in _several(component.get("ATTENDEE", []))]
    row["attendees"] = tuple(sorted(attendees, key=repr))
    shown = {*_TEXTS, "UID", "RECURRENCE-ID", "RRULE", "SEQUENCE"}
    # Programs refuse a stamp that is there twice.
    whole = {"DTSTAMP", "LAST-MODIFIED", "ATTENDEE"}
    others: dict[str, Value] = {_AROUND: around} if around else {}
    for name, value in component.items():
        # The zone of a moment, and the parameters of an organizer, are in its line alone.
        is_once = name in whole and (name == "ATTENDEE" or not isinstance(value, list))
        if not is_once and (name not in shown or getattr(value, "params", None)):
            others[name] = tuple(sorted(_line(name, each) for each in _several(value)))
    row["properties"] = Map.of(others)
    return row


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, list):
        raise ValueError("a property that an item has once is there twice")
    return str(value) if isinstance(value, str) else _ical(value)


def _ical(value: Any) -> str:
    """The value as iCalendar writes it; the library gives bytes of most kinds, text of some."""
    raw = value.to_ical()
    return raw if isinstance(raw, str) else str(raw.decode())


def _line(name: str, value: Any) -> str:
    """Its parameters and its value, without a type that it would have anyway."""
    raw = _ical(value)
    params = getattr(value, "params", None)
    if params and name in _TIMES and str(params.get("VALUE", "")).upper() == "DATE-TIME":
        params = Parameters({key: each for key, each in params.items() if key != "VALUE"})
    shown = params.to_ical().decode() if params else ""
    return with_value(shown, raw)


def _written(component: Any) -> str:
    return str(component.to_ical().decode()).replace("\r\n", "\n").strip()


def _moment(value: Any) -> Value:
    found = None if value is None else value.dt
    if type(found) is datetime and found.tzinfo is not None and in_utc(found) is None:
        return _ical(value)  # the zone is in its line
    if found is None or type(found) in (date, datetime):
        return found
    raise ValueError("a start or an end that is neither a date nor a time")


def _moments(value: Any) -> list[Value]:
    found: list[Value] = [_moment(each) for line in _several(value) for each in line.dts]
    return sorted(found, key=repr)


def _count(value: Any) -> int | None:
    return None if value is None else int(value)


def _zone(component: Any) -> tuple[str, ...]:
    """Its rules, whose order means nothing, and what else is said of it."""
    rules = [_written(each) for each in component.subcomponents]
    lines = [
        f"{name}:{_line(name, each)}"
        for name, value in component.items()
        if name != "TZID"
        for each in _several(value)
    ]
    return tuple(sorted(rules)) + tuple(sorted(lines))


def _attendee(value: Any) -> Map:
    params = {str(n).lower(): ",".join(map(str, _several(v))) for n, v in value.params.items()}
    return with_parameters(params, {"address": str(value)})
