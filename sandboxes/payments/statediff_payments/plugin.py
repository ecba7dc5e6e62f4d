"""The plug-in of payment APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statediff.systems.base.plugin import SystemKind, SystemPlugin, UrlTools

if TYPE_CHECKING:
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _sandbox() -> type[System]:
    from statediff_payments.sandbox import EmbeddedPayments

    return EmbeddedPayments


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff_payments.tools import payment_tools

    return payment_tools(source, url)


def _sources() -> tuple[type, ...]:
    from statediff_payments.source import PaymentsSource

    return (PaymentsSource,)


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
)
