"""The plug-in of payment APIs."""

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
    from statediff_payments.sandbox import EmbeddedPayments

    return EmbeddedPayments


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff_payments.tools import payment_tools

    return payment_tools(source, url)


def _sources() -> tuple[type, ...]:
    from statediff_payments.endpoint import PaymentsEndpointSource
    from statediff_payments.source import PaymentsSource

    return (PaymentsSource, PaymentsEndpointSource)


def _endpoint(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff_payments.endpoint import PaymentsEndpointSource

    return PaymentsEndpointSource(name, state.url or "", refine)


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="payments",
            load=_sandbox,
            requirement="statediff[payments]",
            programs=("localstripe",),
        ),
    ),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"payments+http"}), make=_tools),
    states=StateReader(
        name="payments",
        description="an account of a payment API",
        schemes=schemes_of("payments"),
        source=_endpoint,
        unreadable="cannot be read as a payment API",
    ),
)
