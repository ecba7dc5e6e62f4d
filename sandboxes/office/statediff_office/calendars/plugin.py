"""The plug-in of calendars: `caldavs://`, `caldav://` (over HTTP), and the kind `radicale`."""

from __future__ import annotations

from typing import Final

from statediff.systems.base.plugin import (
    StateReader,
    SystemKind,
    SystemPlugin,
    UrlTools,
    all_named,
    by_url,
    calling,
    named,
)

PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="radicale",
            load=named("statediff_office.calendars.sandbox:EmbeddedCalendars"),
            requirement="statediff[office]",
            programs=("radicale",),
        ),
    ),
    sources=all_named(
        "statediff_office.calendars.source:CalendarSource",
        "statediff_office.calendars.store:RadicaleStoreSource",
    ),
    tools=UrlTools(
        schemes=frozenset({"caldav", "caldavs"}),
        make=calling("statediff_office.calendars.tools:calendar_tools"),
    ),
    states=StateReader(
        name="calendar",
        description="a calendar",
        schemes=frozenset({"caldav", "caldavs"}),
        requirement="statediff[calendar]",
        source=by_url("statediff_office.calendars.source:CalendarSource"),
        unreadable="cannot be read as a calendar",
    ),
)
