"""The plug-in of Roundup trackers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from statediff.systems.base.plugin import SystemKind, SystemPlugin, UrlTools

if TYPE_CHECKING:
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _sandbox() -> type[System]:
    from statediff.systems.roundup.sandbox import EmbeddedTracker

    return EmbeddedTracker


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff.systems.roundup.tools import Roundup
    from statediff.systems.trackers.tools import tracker_tools

    return tracker_tools(source, partial(Roundup, url))


def _sources() -> tuple[type, ...]:
    from statediff.systems.roundup.api import RoundupApiSource
    from statediff.systems.roundup.source import RoundupSource

    return (RoundupSource, RoundupApiSource)


PLUGIN: Final = SystemPlugin(
    kinds=(SystemKind(name="roundup", load=_sandbox),),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"http", "https"}), make=_tools, is_general=True),
)
