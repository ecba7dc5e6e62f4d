"""The plug-in of calendars: `caldavs://`, `caldav://` (over HTTP), and the kind `radicale`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statediff.systems.base.plugin import (
    Refinement,
    StateInput,
    StateReader,
    SystemKind,
    SystemPlugin,
    UrlTools,
)

if TYPE_CHECKING:
    from statediff.capture.source import Source
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff_office.calendars.source import CalendarSource

    return CalendarSource(name, state.url or "", refine)


def _sandbox() -> type[System]:
    from statediff_office.calendars.sandbox import EmbeddedCalendars

    return EmbeddedCalendars


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff_office.calendars.tools import calendar_tools

    return calendar_tools(source, url)


def _sources() -> tuple[type, ...]:
    from statediff_office.calendars.source import CalendarSource
    from statediff_office.calendars.store import RadicaleStoreSource

    return (CalendarSource, RadicaleStoreSource)


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="radicale",
            load=_sandbox,
            requirement="statediff[office]",
            programs=("radicale",),
        ),
    ),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"caldav", "caldavs"}), make=_tools),
    states=StateReader(
        name="calendar",
        description="a calendar",
        schemes=frozenset({"caldav", "caldavs"}),
        requirement="statediff[calendar]",
        source=_source,
        unreadable="cannot be read as a calendar",
    ),
)
