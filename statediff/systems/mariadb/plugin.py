"""The plug-in of MariaDB servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statediff.systems.base.plugin import SystemKind, SystemPlugin, UrlTools

if TYPE_CHECKING:
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _sandbox() -> type[System]:
    from statediff.systems.mariadb.sandbox import MariaDbSystem

    return MariaDbSystem


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff.systems.mariadb.tools import MariaDatabase
    from statediff.systems.relational.tools import database_tools

    return database_tools(source, MariaDatabase(url), "MariaDB", "mariadb")


PLUGIN: Final = SystemPlugin(
    kinds=(SystemKind(name="mariadb", load=_sandbox, requirement="statediff[docker]"),),
    tools=UrlTools(schemes=frozenset({"mysql"}), make=_tools, requirement="statediff[docker]"),
)
