"""The plug-in of ERPs on Tryton."""

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
            name="tryton",
            load=named("statediff_erp.sandbox:EmbeddedErp"),
            requirement="statediff[erp]",
            programs=("trytond",),
        ),
    ),
    sources=all_named(
        "statediff_erp.source:ErpSource", "statediff_erp.endpoint:TrytonEndpointSource"
    ),
    tools=UrlTools(
        schemes=frozenset({"tryton+http"}), make=calling("statediff_erp.tools:erp_tools")
    ),
    states=StateReader(
        name="erp",
        description="a Tryton database",
        schemes=schemes_of("tryton"),
        source=by_url("statediff_erp.endpoint:TrytonEndpointSource"),
        unreadable="cannot be read as an ERP",
    ),
)
