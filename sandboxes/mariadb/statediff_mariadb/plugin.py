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
    from collections.abc import Mapping

    from statediff.capture.source import Source
    from statediff.model.schema import EntityType
    from statediff.systems.base.faults import Below
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _sandbox() -> type[System]:
    from statediff_mariadb.sandbox import MariaDbSystem

    return MariaDbSystem


def _sandbox_by_url() -> type[System]:
    from statediff_mariadb.byurl import MariaDbByUrl

    return MariaDbByUrl


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff.systems.relational.tools import database_tools
    from statediff_mariadb.tools import MariaDatabase

    return database_tools(source, MariaDatabase(url), "MariaDB", "mariadb")


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff.systems.relational.urls import split_choice
    from statediff_mariadb.source import MariaDbSource

    url, tables = split_choice(state.url or "")
    return MariaDbSource(name, url, refine, tables=tables)


def _object_types() -> tuple[EntityType, ...]:
    from statediff_mariadb.catalogue import OBJECT_TYPES

    return OBJECT_TYPES


def _sources() -> tuple[type, ...]:
    from statediff_mariadb.source import MariaDbSource

    return (MariaDbSource,)


def _faults() -> Mapping[str, Below]:
    from statediff_mariadb.faults import FAULTS

    return FAULTS


PLUGIN: Final = SystemPlugin(
    interface=1,
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
    faults=_faults,
)
