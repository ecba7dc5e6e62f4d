"""The plug-in of Redmine trackers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

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


def _sandbox() -> type[System]:
    from statediff_trackers.redmine.sandbox import RedmineTracker

    return RedmineTracker


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff_trackers.redmine.tools import Redmine
    from statediff_trackers.tools import tracker_tools

    return tracker_tools(source, partial(Redmine, url))


def _is_root(url: str) -> bool:
    return urlsplit(url).path in ("", "/")


def _sources() -> tuple[type, ...]:
    from statediff_trackers.redmine.api import RedmineApiSource
    from statediff_trackers.redmine.endpoint import RedmineEndpointSource
    from statediff_trackers.redmine.source import RedmineSource

    return (RedmineSource, RedmineApiSource, RedmineEndpointSource)


def _endpoint(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff_trackers.redmine.endpoint import RedmineEndpointSource

    return RedmineEndpointSource(name, state.url or "", refine)


def _faults() -> Mapping[str, Below]:
    from statediff_trackers.redmine.faults import FAULTS

    return FAULTS


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(SystemKind(name="redmine", load=_sandbox, requirement="statediff[docker]"),),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"http", "https"}), make=_tools, answers=_is_root),
    faults=_faults,
    states=StateReader(
        name="tracker",
        description="a Redmine",
        schemes=schemes_of("redmine"),
        source=_endpoint,
        unreadable="cannot be read as a tracker",
    ),
)
