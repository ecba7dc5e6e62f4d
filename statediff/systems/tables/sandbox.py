"""A folder of exported tables that is copied for each trial, and read as tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from statediff.capture.source import Source
from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import load_schema_file
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
        refined = None
        if source.schema is not None:
            refined = refine(load_schema_file(source.schema), source.name)
        place = StateInput(self.folder, source.name)
        self._tables = LiveSource(
            source.name, state_url_reader("tables://"), lambda: place, refined
        )

    def sources(self) -> tuple[Source, ...]:
        return (self._tables,)
