"""The plug-in of external systems: their sources are read by whatever system reads such a state."""

from __future__ import annotations

from typing import Final

from statediff.systems.base.plugin import SystemKind, SystemPlugin, named

PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="external", load=named("statediff.systems.external.sandbox:ExternalSystem")
        ),
    ),
)
