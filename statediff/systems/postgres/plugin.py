"""The plug-in of PostgreSQL servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statediff.systems.base.plugin import SystemKind, SystemPlugin, UrlTools

if TYPE_CHECKING:
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _sandbox() -> type[System]:
    from statediff.systems.postgres.sandbox import PostgresSystem

    return PostgresSystem


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff.systems.postgres.tools import PostgresDatabase
    from statediff.systems.relational.tools import database_tools

    return database_tools(source, PostgresDatabase(url), "PostgreSQL", "postgres")


PLUGIN: Final = SystemPlugin(
    kinds=(SystemKind(name="postgres", load=_sandbox, requirement="statediff[docker]"),),
    tools=UrlTools(schemes=frozenset({"postgresql"}), make=_tools, requirement="statediff[docker]"),
)
