"""The plug-in of MariaDB servers."""

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
    from statediff.model.schema import EntityType
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _sandbox() -> type[System]:
    from statediff.systems.mariadb.sandbox import MariaDbSystem

    return MariaDbSystem


def _sandbox_by_url() -> type[System]:
    from statediff.systems.mariadb.byurl import MariaDbByUrl

    return MariaDbByUrl


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff.systems.mariadb.tools import MariaDatabase
    from statediff.systems.relational.tools import database_tools

    return database_tools(source, MariaDatabase(url), "MariaDB", "mariadb")


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff.systems.mariadb.source import MariaDbSource
    from statediff.systems.relational.urls import split_choice

    url, tables = split_choice(state.url or "")
    return MariaDbSource(name, url, refine, tables=tables)


def _object_types() -> tuple[EntityType, ...]:
    from statediff.systems.mariadb.catalogue import OBJECT_TYPES

    return OBJECT_TYPES


def _sources() -> tuple[type, ...]:
    from statediff.systems.mariadb.source import MariaDbSource

    return (MariaDbSource,)


PLUGIN: Final = SystemPlugin(
    kinds=(
        SystemKind(
            name="mariadb",
            load=_sandbox,
            by_url=_sandbox_by_url,
            requirement="statediff[docker]",
        ),
    ),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"mysql"}), make=_tools, requirement="statediff[docker]"),
    states=StateReader(
        name="db",
        description="a MariaDB or MySQL database",
        schemes=frozenset({"mysql", "mariadb"}),
        requirement="statediff[docker]",
        source=_source,
        sandbox=lambda _path: ("mariadb", "url"),
        unreadable="cannot be read as a database",
    ),
    object_types=_object_types,
)
