"""The plug-in of Roundup trackers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from statediff.systems.base.plugin import (
    StateReader,
    SystemKind,
    SystemPlugin,
    UrlTools,
    all_named,
    by_url,
    named,
)
from statediff.systems.hosted.transport import schemes_of

if TYPE_CHECKING:
    from statediff.systems.base.tool import Tool


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff_trackers.roundup.tools import Roundup
    from statediff_trackers.tools import tracker_tools

    return tracker_tools(source, partial(Roundup, url))


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="roundup", load=named("statediff_trackers.roundup.sandbox:EmbeddedTracker")
        ),
    ),
    sources=all_named(
        "statediff_trackers.roundup.source:RoundupSource",
        "statediff_trackers.roundup.api:RoundupApiSource",
        "statediff_trackers.roundup.endpoint:RoundupEndpointSource",
    ),
    tools=UrlTools(schemes=frozenset({"http", "https"}), make=_tools, is_general=True),
    faults=named("statediff_trackers.roundup.faults:FAULTS"),
    wire=named("statediff_trackers.roundup.wire:WIRE"),
    states=StateReader(
        name="tracker",
        description="a Roundup tracker",
        schemes=schemes_of("roundup"),
        source=by_url("statediff_trackers.roundup.endpoint:RoundupEndpointSource"),
        unreadable="cannot be read as a tracker",
    ),
)
