"""The plug-in of Redmine trackers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from statediff.systems.base.plugin import SystemKind, SystemPlugin, UrlTools

if TYPE_CHECKING:
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _sandbox() -> type[System]:
    from statediff.systems.redmine.sandbox import RedmineTracker

    return RedmineTracker


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff.systems.redmine.tools import Redmine
    from statediff.systems.trackers.tools import tracker_tools

    return tracker_tools(source, partial(Redmine, url))


def _is_root(url: str) -> bool:
    return urlsplit(url).path in ("", "/")


def _sources() -> tuple[type, ...]:
    from statediff.systems.redmine.api import RedmineApiSource
    from statediff.systems.redmine.source import RedmineSource

    return (RedmineSource, RedmineApiSource)


PLUGIN: Final = SystemPlugin(
    kinds=(SystemKind(name="redmine", load=_sandbox, requirement="statediff[docker]"),),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"http", "https"}), make=_tools, answers=_is_root),
)
