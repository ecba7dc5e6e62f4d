"""The plug-in of PostgreSQL servers."""

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
    from statediff.systems.postgres.sandbox import PostgresSystem

    return PostgresSystem


def _sandbox_by_url() -> type[System]:
    from statediff.systems.postgres.byurl import PostgresByUrl

    return PostgresByUrl


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff.systems.postgres.tools import PostgresDatabase
    from statediff.systems.relational.tools import database_tools

    return database_tools(source, PostgresDatabase(url), "PostgreSQL", "postgres")


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff.systems.postgres.source import PostgresSource
    from statediff.systems.relational.urls import split_choice

    url, tables = split_choice(state.url or "")
    return PostgresSource(name, url, refine, tables=tables)


def _object_types() -> tuple[EntityType, ...]:
    from statediff.systems.postgres.queries import LISTINGS
    from statediff.systems.relational.structure import STRUCTURE_TYPE

    return (*(listing.type for listing in LISTINGS), STRUCTURE_TYPE)


def _sources() -> tuple[type, ...]:
    from statediff.systems.postgres.source import PostgresSource

    return (PostgresSource,)


PLUGIN: Final = SystemPlugin(
    kinds=(
        SystemKind(
            name="postgres",
            load=_sandbox,
            by_url=_sandbox_by_url,
            requirement="statediff[postgres]",
        ),
    ),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"postgresql"}), make=_tools, requirement="statediff[docker]"),
    states=StateReader(
        name="db",
        description="a PostgreSQL database",
        schemes=frozenset({"postgresql", "postgres"}),
        requirement="statediff[docker]",
        source=_source,
        sandbox=lambda _path: ("postgres", "url"),
        unreadable="cannot be read as a database",
    ),
    object_types=_object_types,
)
