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
    all_named,
    named,
)

if TYPE_CHECKING:
    from statediff.capture.source import Source
    from statediff.systems.base.tool import Tool


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff.systems.relational.tools import database_tools
    from statediff_mariadb.tools import MariaDatabase

    return database_tools(source, MariaDatabase(url), "MariaDB", "mariadb")


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff.systems.relational.urls import split_choice
    from statediff_mariadb.source import MariaDbSource

    url, tables = split_choice(state.url or "")
    return MariaDbSource(name, url, refine, tables=tables)


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="mariadb",
            load=named("statediff_mariadb.sandbox:MariaDbSystem"),
            by_url=named("statediff_mariadb.byurl:MariaDbByUrl"),
            requirement="statediff[docker]",
        ),
    ),
    sources=all_named("statediff_mariadb.source:MariaDbSource"),
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
    object_types=named("statediff_mariadb.catalogue:OBJECT_TYPES"),
    faults=named("statediff_mariadb.faults:FAULTS"),
)
