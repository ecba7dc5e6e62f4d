"""Calendars as a source: every event, task and journal entry, by its UID.

Objects are read calendar by calendar, and their ETags are listed before and after: where they
differ the reading begins again, and after `ATTEMPTS` there is none. One component is one entity; an
exception of a series (RECURRENCE-ID) is one of its own. What a calendar program shows has a field;
every other property is in `properties` as iCalendar text, so that nothing of an object is unseen. A
server writes DTSTAMP anew, so it alone is left out. An object that is no iCalendar, or without a
UID, leaves its calendar's enumeration incomplete.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, ClassVar, Final

from icalendar import Calendar

from statediff.capture.source import Clock, SourceUnavailable, scanned
from statediff.model.batches import Row
from statediff.model.explanation import unread_because
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import COMPLETE, ChunkStore, Coverage, Enumeration, State, build_table
from statediff.model.values import Map, Value, printable
from statediff.systems.base.rows import keyed_table, named_rows, source_schema
from statediff.systems.calendars.dav import DavSession, dav_session
from statediff.systems.relational.schema import Refine

ATTEMPTS: Final = 3
MAX_OBJECT_CHARACTERS: Final = 4 * 1024 * 1024

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
        Field("kind", Kind.TEXT, is_nullable=False),
        Field("summary", Kind.TEXT),
        Field("description", Kind.TEXT),
        Field("location", Kind.TEXT),
        Field("status", Kind.TEXT),
        Field("start", Kind.ANY),
        Field("end", Kind.ANY),
        Field("rule", Kind.TEXT),
        Field("organizer", Kind.TEXT),
        Field("attendees", Kind.LIST, is_nullable=False),
        Field("alarms", Kind.LIST, is_nullable=False),
        Field("properties", Kind.MAP, is_nullable=False),
    ),
)
"""An event, task or journal entry. `recurrence` is the RECURRENCE-ID of an exception, else empty;
`kind` is VEVENT, VTODO or VJOURNAL; `start` and `end` (DTEND or DUE) are an instant, a local time
or a date; `attendees` are maps {address, …} with their parameters; `alarms` are texts;
`properties` maps each other property to the list of its lines."""
TYPES: Final = (CALENDAR, ITEM)

_KINDS: Final = frozenset({"VEVENT", "VTODO", "VJOURNAL"})
_TEXTS: Final = {
    "SUMMARY": "summary",
    "DESCRIPTION": "description",
    "LOCATION": "location",
    "STATUS": "status",
    "ORGANIZER": "organizer",
}
_FAULTS: Final = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""What the parser raises at a text that is no iCalendar."""


class CalendarSource:
    """The calendar at a URL, or those right below it."""

    not_observed: ClassVar[tuple[str, ...]] = (
        "times at which objects were written (DTSTAMP), and scheduling that is under way",
        "access lists, colors and other properties of calendars",
    )

    def __init__(self, name: str, url: str, refine: Refine | None = None) -> None:
        self._name = name
        self._url = url
        self._refine = refine

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        with dav_session(self._name, self._url) as session:
            if not session.calendars():
                raise SourceUnavailable(
                    "there is no calendar; give the URL of one, or of the folder that holds them"
                )
        return self._schema()

    def _schema(self) -> Schema:
        schema = source_schema(self._name, TYPES)
        return schema if self._refine is None else self._refine(schema)

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        with dav_session(self._name, self._url) as session:
            for _ in range(ATTEMPTS):
                calendars = session.calendars()
                listed = {each: session.etags(each) for each in calendars}
                rows, causes = _rows(session, listed)
                again = session.calendars()
                if again == calendars and {e: session.etags(e) for e in again} == listed:
                    break
            else:
                raise SourceUnavailable(
                    "it was written while it was read; read it when it is at rest"
                )
        schema = self._schema()
        known = COMPLETE if not causes else Enumeration(Coverage.INCOMPLETE, "; ".join(causes[:3]))
        tables = {}
        for entity in schema.types:
            own = None if like is None else like.tables.get(entity.name)
            if entity.source_table == CALENDAR.name:
                found = named_rows(entity, rows[CALENDAR.name])
                tables[entity.name] = build_table(entity, found, store, like=own)
            else:
                tables[entity.name] = keyed_table(entity, rows[ITEM.name], known, store, own)
        return scanned(self._name, as_of, State(schema, tables))


def _rows(
    session: DavSession, listed: Mapping[Any, Mapping[str, str]]
) -> tuple[dict[str, list[Row]], list[str]]:
    rows: dict[str, list[Row]] = {CALENDAR.name: [], ITEM.name: []}
    causes = []
    for calendar, etags in listed.items():
        rows[CALENDAR.name].append(
            {"path": calendar.path, "name": calendar.name, "description": calendar.description}
        )
        objects = session.objects(calendar)
        lacking = sorted(etags.keys() - objects.keys())
        if lacking:
            causes.append(unread_because(f"{printable(lacking[0])} was listed and not delivered"))
        for path, (_, text) in objects.items():
            try:
                rows[ITEM.name] += item_rows(calendar.path, text)
            except _FAULTS as error:
                causes.append(f"{printable(path)} cannot be read: {printable(str(error)[:100])}")
    return rows, causes


def item_rows(calendar: str, text: str) -> list[Row]:
    """The components of one object. Raises one of `_FAULTS` where it is no iCalendar."""
    if len(text) > MAX_OBJECT_CHARACTERS:
        raise ValueError(f"it has more than {MAX_OBJECT_CHARACTERS} characters")
    parsed = Calendar.from_ical(text)
    found = [each for each in parsed.subcomponents if each.name in _KINDS]
    if not found:
        raise ValueError("it holds no event, task or journal entry")
    return [_item(calendar, each) for each in found]


def _item(calendar: str, component: Any) -> Row:
    if component.errors:
        name, why = component.errors[0]
        raise ValueError(f"{name}: {why}")
    row: Row = {
        "calendar": calendar,
        "uid": str(component["UID"]),
        "recurrence": _text(component.get("RECURRENCE-ID")) or "",
        "kind": component.name,
        **{field: _text(component.get(name)) for name, field in _TEXTS.items()},
        "start": _moment(component.get("DTSTART")),
        "end": _moment(component.get("DTEND") or component.get("DUE")),
        "rule": _text(component.get("RRULE")),
        "alarms": tuple(sorted(_written(each) for each in component.subcomponents)),
    }
    attendees = [_attendee(each) for each in _several(component.get("ATTENDEE", []))]
    row["attendees"] = tuple(sorted(attendees, key=repr))
    shown, whole = {*_TEXTS, "RECURRENCE-ID", "RRULE"}, {"UID", "DTSTAMP", "ATTENDEE"}
    others: dict[str, Value] = {}
    for name, value in component.items():
        # The zone of a moment, and the parameters of an organizer, are in its line alone.
        if name not in whole and (name not in shown or getattr(value, "params", None)):
            others[name] = tuple(sorted(_line(each) for each in _several(value)))
    row["properties"] = Map.of(others)
    return row


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _text(value: Any) -> str | None:
    if value is None:
        return None
    raw = value.to_ical()
    return str(value) if isinstance(value, str) else raw.decode()


def _line(value: Any) -> str:
    raw = value.to_ical().decode()
    params = value.params.to_ical().decode() if getattr(value, "params", None) else ""
    return f"{params}:{raw}" if params else raw


def _written(component: Any) -> str:
    return str(component.to_ical().decode()).replace("\r\n", "\n").strip()


def _moment(value: Any) -> Value:
    found = None if value is None else value.dt
    if found is None or type(found) in (date, datetime):
        return found
    raise ValueError("a start or an end that is neither a date nor a time")


def _attendee(value: Any) -> Map:
    params = {str(n).lower(): ",".join(map(str, _several(v))) for n, v in value.params.items()}
    return Map.of({**params, "address": str(value)})
