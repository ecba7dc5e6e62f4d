"""The plug-in of ERPs on Tryton."""

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
    from statediff_erp.sandbox import EmbeddedErp

    return EmbeddedErp


def _sources() -> tuple[type, ...]:
    from statediff_erp.endpoint import TrytonEndpointSource
    from statediff_erp.source import ErpSource

    return (ErpSource, TrytonEndpointSource)


def _endpoint(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff_erp.endpoint import TrytonEndpointSource

    return TrytonEndpointSource(name, state.url or "", refine)


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff_erp.tools import erp_tools

    return erp_tools(source, url)


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="tryton", load=_sandbox, requirement="statediff[erp]", programs=("trytond",)
        ),
    ),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"tryton+http"}), make=_tools),
    states=StateReader(
        name="erp",
        description="a Tryton database",
        schemes=schemes_of("tryton"),
        source=_endpoint,
        unreadable="cannot be read as an ERP",
    ),
)
