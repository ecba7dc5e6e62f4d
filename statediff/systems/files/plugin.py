"""The plug-in of folders of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from statediff.systems.base.plugin import (
    Refinement,
    StateInput,
    StateReader,
    SystemKind,
    SystemPlugin,
    UrlTools,
    all_named,
    named,
)

if TYPE_CHECKING:
    from statediff.capture.source import Source
    from statediff.systems.base.tool import Tool

_ADMINISTRATION: Final = frozenset({".git"})
"""The parts of a checkout that are no files of its work tree."""


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff.systems.files.tools import file_tools

    return file_tools(source, Path(unquote(urlsplit(url).path)), _ADMINISTRATION)


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff.systems.files.source import FilesSource

    return FilesSource(name, state.path.absolute(), refine)


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(name="files", load=named("statediff.systems.files.sandbox:EmbeddedDirectory")),
    ),
    sources=all_named("statediff.systems.files.source:FilesSource"),
    tools=UrlTools(schemes=frozenset({"file"}), make=_tools, is_general=True),
    states=StateReader(
        name="files",
        description="a folder",
        recognizes=Path.is_dir,
        source=_source,
        sandbox=lambda _path: ("files", "tree"),
        is_general=True,
    ),
    faults=named("statediff.systems.files.faults:FAULTS"),
)
