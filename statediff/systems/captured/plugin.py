"""The plug-in of captured states: files that `capture --out FILE.state` wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from statediff.systems.base.plugin import Refinement, StateInput, StateReader, SystemPlugin

if TYPE_CHECKING:
    from statediff.capture.source import Source


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff.systems.captured.statefile import CapturedSource

    return CapturedSource(name, state.path, refine)


PLUGIN: Final = SystemPlugin(
    interface=1,
    states=StateReader(
        name="state",
        description="a captured state",
        recognizes=lambda path: path.suffix == ".state" and not path.is_dir(),
        source=_source,
        is_any_system=True,
        unreadable="cannot be read as a captured state",
    ),
)
