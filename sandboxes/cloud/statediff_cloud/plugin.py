"""The plug-in of accounts of AWS."""

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
from statediff.systems.hosted.transport import schemes_of

if TYPE_CHECKING:
    from statediff.capture.source import Source
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _sandbox() -> type[System]:
    from statediff_cloud.sandbox import EmbeddedAccount

    return EmbeddedAccount


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff_cloud.tools import aws_tools

    return aws_tools(source, url)


def _sources() -> tuple[type, ...]:
    from statediff_cloud.endpoint import AwsEndpointSource
    from statediff_cloud.source import AwsSource

    return (AwsSource, AwsEndpointSource)


def _endpoint(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff_cloud.endpoint import AwsEndpointSource

    return AwsEndpointSource(name, state.url or "", refine)


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="aws", load=_sandbox, requirement="statediff[cloud]", programs=("moto", "flask")
        ),
    ),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"aws+http"}), make=_tools),
    states=StateReader(
        name="cloud",
        description="an account of AWS",
        schemes=schemes_of("aws") | {"aws"},
        requirement="statediff[cloud]",
        source=_endpoint,
        unreadable="cannot be read as an account",
    ),
)
