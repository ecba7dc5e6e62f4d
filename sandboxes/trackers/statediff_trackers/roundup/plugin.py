"""The plug-in of Roundup trackers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from statediff.systems.base.plugin import (
    Refinement,
    StateInput,
    StateReader,
    SystemKind,
    SystemPlugin,
    UrlTools,
)
from statediff.systems.hosted.transport import schemes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from statediff.capture.source import Source
    from statediff.systems.base.faults import Below
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool
    from statediff.systems.base.wire import Wire


def _sandbox() -> type[System]:
    from statediff_trackers.roundup.sandbox import EmbeddedTracker

    return EmbeddedTracker


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff_trackers.roundup.tools import Roundup
    from statediff_trackers.tools import tracker_tools

    return tracker_tools(source, partial(Roundup, url))


def _sources() -> tuple[type, ...]:
    from statediff_trackers.roundup.api import RoundupApiSource
    from statediff_trackers.roundup.endpoint import RoundupEndpointSource
    from statediff_trackers.roundup.source import RoundupSource

    return (RoundupSource, RoundupApiSource, RoundupEndpointSource)


def _endpoint(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff_trackers.roundup.endpoint import RoundupEndpointSource

    return RoundupEndpointSource(name, state.url or "", refine)


def _faults() -> Mapping[str, Below]:
    from statediff_trackers.roundup.faults import FAULTS

    return FAULTS


def _wire() -> Wire:
    from statediff_trackers.roundup.wire import WIRE

    return WIRE


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(SystemKind(name="roundup", load=_sandbox),),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"http", "https"}), make=_tools, is_general=True),
    faults=_faults,
    wire=_wire,
    states=StateReader(
        name="tracker",
        description="a Roundup tracker",
        schemes=schemes_of("roundup"),
        source=_endpoint,
        unreadable="cannot be read as a tracker",
    ),
)
