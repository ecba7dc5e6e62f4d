"""The plug-in of Redmine trackers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

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
    from statediff_trackers.redmine.tools import Redmine
    from statediff_trackers.tools import tracker_tools

    return tracker_tools(source, partial(Redmine, url))


def _is_root(url: str) -> bool:
    return urlsplit(url).path in ("", "/")


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="redmine",
            load=named("statediff_trackers.redmine.sandbox:RedmineTracker"),
            requirement="statediff[docker]",
        ),
    ),
    sources=all_named(
        "statediff_trackers.redmine.source:RedmineSource",
        "statediff_trackers.redmine.api:RedmineApiSource",
        "statediff_trackers.redmine.endpoint:RedmineEndpointSource",
    ),
    tools=UrlTools(schemes=frozenset({"http", "https"}), make=_tools, answers=_is_root),
    faults=named("statediff_trackers.redmine.faults:FAULTS"),
    states=StateReader(
        name="tracker",
        description="a Redmine",
        schemes=schemes_of("redmine"),
        source=by_url("statediff_trackers.redmine.endpoint:RedmineEndpointSource"),
        unreadable="cannot be read as a tracker",
    ),
)
