"""The plug-in of payment APIs."""

from __future__ import annotations

from typing import Final

from statediff.systems.base.plugin import (
    StateReader,
    SystemKind,
    SystemPlugin,
    UrlTools,
    all_named,
    by_url,
    calling,
    named,
)
from statediff.systems.hosted.transport import schemes_of

PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="payments",
            load=named("statediff_payments.sandbox:EmbeddedPayments"),
            requirement="statediff[payments]",
            programs=("localstripe",),
        ),
    ),
    sources=all_named(
        "statediff_payments.source:PaymentsSource",
        "statediff_payments.endpoint:PaymentsEndpointSource",
    ),
    tools=UrlTools(
        schemes=frozenset({"payments+http"}), make=calling("statediff_payments.tools:payment_tools")
    ),
    states=StateReader(
        name="payments",
        description="an account of a payment API",
        schemes=schemes_of("payments"),
        source=by_url("statediff_payments.endpoint:PaymentsEndpointSource"),
        unreadable="cannot be read as a payment API",
    ),
)
