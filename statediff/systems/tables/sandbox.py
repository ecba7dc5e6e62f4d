"""A folder of exported tables that is copied for each trial, and read as tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from statediff.capture.source import Source
from statediff.packs import PackSource
from statediff.systems.base.live import LiveSource
from statediff.systems.base.plugin import StateInput
from statediff.systems.base.registry import state_url_reader
from statediff.systems.files.sandbox import EmbeddedDirectory


class EmbeddedTables(EmbeddedDirectory):
    """A `System`: a folder that is put back as one, whose files are tables."""

    FILES: ClassVar[Mapping[str, bool]] = {"tree": True}

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        super().__init__(source, looks, folder)
        place = StateInput(self.folder, source.name)
        self._tables = LiveSource(
            source.name, state_url_reader("tables://"), lambda: place, source.refinement()
        )

    def sources(self) -> tuple[Source, ...]:
        return (self._tables,)
