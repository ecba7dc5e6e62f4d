"""The plug-in of calendars: `caldavs://` (over HTTPS) and `caldav://` (over HTTP)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from statediff.systems.base.plugin import Refinement, StateInput, StateReader, SystemPlugin

if TYPE_CHECKING:
    from statediff.capture.source import Source


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff.systems.calendars.source import CalendarSource

    return CalendarSource(name, state.url or "", refine)


def _sources() -> tuple[type, ...]:
    from statediff.systems.calendars.source import CalendarSource

    return (CalendarSource,)


PLUGIN: Final = SystemPlugin(
    sources=_sources,
    states=StateReader(
        name="calendar",
        description="a calendar",
        schemes=frozenset({"caldav", "caldavs"}),
        requirement="statediff[calendar]",
        source=_source,
        unreadable="cannot be read as a calendar",
    ),
)
