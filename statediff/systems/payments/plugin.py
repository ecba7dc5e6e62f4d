"""The plug-in of payment APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statediff.systems.base.plugin import SystemKind, SystemPlugin, UrlTools

if TYPE_CHECKING:
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _sandbox() -> type[System]:
    from statediff.systems.payments.sandbox import EmbeddedPayments

    return EmbeddedPayments


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff.systems.payments.tools import payment_tools

    return payment_tools(source, url)


def _sources() -> tuple[type, ...]:
    from statediff.systems.payments.source import PaymentsSource

    return (PaymentsSource,)


PLUGIN: Final = SystemPlugin(
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
)
