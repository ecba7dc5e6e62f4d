"""The plug-in of external systems: their sources are read by whatever system reads such a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from statediff.systems.base.plugin import SystemKind, SystemPlugin

if TYPE_CHECKING:
    from statediff.systems.base.protocol import System


def _sandbox() -> type[System]:
    from statediff.systems.external.sandbox import ExternalSystem

    return ExternalSystem


PLUGIN: Final = SystemPlugin(interface=1, kinds=(SystemKind(name="external", load=_sandbox),))
