"""The plug-in of ERPs on Tryton."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from statediff.systems.base.plugin import SystemKind, SystemPlugin

if TYPE_CHECKING:
    from statediff.systems.base.protocol import System


def _sandbox() -> type[System]:
    from statediff.systems.tryton.sandbox import EmbeddedErp

    return EmbeddedErp


PLUGIN: Final = SystemPlugin(
    kinds=(
        SystemKind(
            name="tryton", load=_sandbox, requirement="statediff[erp]", programs=("trytond",)
        ),
    ),
)
