"""The plug-in of accounts of AWS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statediff.systems.base.plugin import SystemKind, SystemPlugin, UrlTools

if TYPE_CHECKING:
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _sandbox() -> type[System]:
    from statediff_cloud.sandbox import EmbeddedAccount

    return EmbeddedAccount


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff_cloud.tools import aws_tools

    return aws_tools(source, url)


def _sources() -> tuple[type, ...]:
    from statediff_cloud.source import AwsSource

    return (AwsSource,)


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="aws", load=_sandbox, requirement="statediff[cloud]", programs=("moto", "flask")
        ),
    ),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"aws+http"}), make=_tools),
)
