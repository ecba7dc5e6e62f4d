"""The plug-in of PostgreSQL servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statediff.errors import SandboxError
from statediff.systems.base.plugin import (
    Check,
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
    from collections.abc import Iterator

    from statediff.capture.source import Source
    from statediff.model.schema import EntityType
    from statediff.systems.base.tool import Tool


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff.systems.relational.tools import database_tools
    from statediff_postgres.tools import PostgresDatabase

    return database_tools(source, PostgresDatabase(url), "PostgreSQL", "postgres")


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff.systems.relational.urls import split_choice
    from statediff_postgres.source import PostgresSource

    url, tables = split_choice(state.url or "")
    return PostgresSource(name, url, refine, tables=tables)


def _object_types() -> tuple[EntityType, ...]:
    from statediff.systems.relational.structure import STRUCTURE_TYPE
    from statediff_postgres.queries import LISTINGS

    return (*(listing.type for listing in LISTINGS), STRUCTURE_TYPE)


def _checks() -> Iterator[Check]:
    try:
        from statediff_postgres.machines import chosen

        yield Check("postgres", chosen().title)
        return
    except ModuleNotFoundError as error:
        found = f"without {error.name}"
    except SandboxError as error:
        found = str(error).partition(";")[0]
    todo = "for PostgreSQL servers without Docker: pip install statediff[postgres-server]"
    yield Check("postgres", found, todo, is_optional=True)


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="postgres",
            load=named("statediff_postgres.sandbox:PostgresSystem"),
            by_url=named("statediff_postgres.byurl:PostgresByUrl"),
            requirement="statediff[postgres]",
        ),
    ),
    sources=all_named("statediff_postgres.source:PostgresSource"),
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
    faults=named("statediff_postgres.faults:FAULTS"),
    checks=_checks,
)
