"""Calendars and address books as a source: every event, task, journal entry and contact, by UID.

Objects are read collection by collection, and their ETags are listed before and after: where they
differ the reading begins again, and after `ATTEMPTS` there is none. What an object's text says is
`items` and `contacts`. An object that is none, or without a UID, leaves its collection's type
incomplete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from statediff.capture.source import Clock, SourceUnavailable, scanned
from statediff.model.batches import Row
from statediff.model.explanation import is_unread, unread_because
from statediff.model.readings import SourceCapture
from statediff.model.schema import Schema
from statediff.model.state import COMPLETE, ChunkStore, Coverage, Enumeration, State, build_table
from statediff.model.values import printable
from statediff.systems.base.rows import keyed_table, named_rows, residue, source_schema
from statediff.systems.relational.schema import Refine
from statediff_office.calendars.contacts import (
    ADDRESS_BOOK,
    CONTACT,
    CONTACT_TYPES,
    contact_row,
)
from statediff_office.calendars.dav import DavSession, dav_session
from statediff_office.calendars.items import CALENDAR, FAULTS, ITEM, ITEM_TYPES, item_rows
from statediff_office.calendars.lines import RESIDUE, residue_of

ATTEMPTS: Final = 3
TYPES: Final = (*CONTACT_TYPES, *ITEM_TYPES, RESIDUE)


class CalendarSource:
    """The calendar at a URL, or those right below it."""

    not_observed: ClassVar[tuple[str, ...]] = (
        "scheduling that is under way",
        "access lists, colors and other properties of calendars and address books",
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
        state = dav_state(self._schema(), rows, causes, store, like)
        return scanned(self._name, as_of, state, spoiled=spoiled_since(like, state))


Causes = dict[str, list[str]]
"""Type → why some of its entities are not seen."""


def dav_state(
    schema: Schema,
    rows: Mapping[str, list[Row]],
    causes: Causes,
    store: ChunkStore,
    like: State | None,
) -> State:
    """The rows, by the name of their type, as a state."""
    tables = {}
    for entity in schema.types:
        own = None if like is None else like.tables.get(entity.name)
        found = causes.get(entity.source_table)
        known = Enumeration(Coverage.INCOMPLETE, "; ".join(found[:3])) if found else COMPLETE
        if entity.source_table in (ITEM.name, CONTACT.name):
            tables[entity.name] = keyed_table(entity, rows[entity.source_table], known, store, own)
        else:
            named = named_rows(entity, rows[entity.source_table])
            tables[entity.name] = build_table(entity, named, store, like=own, enumeration=known)
    return State(schema, tables)


def spoiled_since(like: State | None, state: State) -> tuple[str, ...]:
    """A run's damage to objects that were read whole before it: twice, or no objects any more."""
    if like is None:
        return ()
    found = []
    for table in state.tables.values():
        earlier, known = like.tables.get(table.type.name), table.enumeration
        is_object = table.type.source_table in (ITEM.name, CONTACT.name)
        if is_object and earlier and earlier.enumeration.is_complete and not known.is_complete:
            found += [] if is_unread(known.cause) else [f"{table.type.name}: {known.cause}"]
    return tuple(found)


def object_rows(collection: str, name: str, text: str, *, is_contact: bool) -> dict[str, list[Row]]:
    """Type → the rows of one object, with its residue. Raises one of `FAULTS` where it is none."""
    left: Row = {"collection": collection, "name": name, "residue": residue(residue_of(text))}
    if is_contact:
        return {CONTACT.name: [contact_row(collection, name, text)], RESIDUE.name: [left]}
    return {ITEM.name: item_rows(collection, name, text), RESIDUE.name: [left]}


def _rows(
    session: DavSession, listed: Mapping[Any, Mapping[str, str]]
) -> tuple[dict[str, list[Row]], Causes]:
    rows: dict[str, list[Row]] = {each.name: [] for each in TYPES}
    causes: Causes = {}
    for calendar, etags in listed.items():
        is_book = calendar.is_address_book
        rows[ADDRESS_BOOK.name if is_book else CALENDAR.name].append(
            {"path": calendar.path, "name": calendar.name, "description": calendar.description}
        )
        objects = session.objects(calendar)
        lacking = sorted(etags.keys() - objects.keys())
        if lacking:
            why = unread_because(f"{printable(lacking[0])} was listed and not delivered")
            causes.setdefault(CONTACT.name if is_book else ITEM.name, []).append(why)
        for path, (_, text) in objects.items():
            try:
                name = path.rpartition("/")[2]
                made = object_rows(calendar.path, name, text, is_contact=is_book)
            except FAULTS as error:
                why = f"{printable(path)} cannot be read: {printable(str(error)[:100])}"
                causes.setdefault(CONTACT.name if is_book else ITEM.name, []).append(why)
            else:
                for kind, each in made.items():
                    rows[kind].extend(each)
    return rows, causes
