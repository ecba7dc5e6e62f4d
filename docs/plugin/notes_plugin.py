"""What statediff loads of the notes: their kind, their tools and their reader, behind one object.

A plug-in is loaded with every other one, so it imports what it needs when that is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from statediff.systems.base.plugin import (
    Refinement,
    StateInput,
    StateReader,
    SystemKind,
    SystemPlugin,
    UrlTools,
    named,
)

if TYPE_CHECKING:
    from statediff.capture.source import Source
    from statediff.systems.base.tool import Tool


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from notes_tools import notes_tools

    return notes_tools(source, Path(url.removeprefix("notes://")))


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from notes_system import NotesSource

    return NotesSource(name, state.path, refine=refine)


PLUGIN = SystemPlugin(
    interface=1,
    # `kind: notes` in a pack.
    kinds=(SystemKind(name="notes", load=named("notes_system:NotesSystem")),),
    # What an agent may call where a source is reached by `notes://…`.
    tools=UrlTools(schemes=frozenset({"notes"}), make=_tools),
    # `statediff judge --before monday.notes --after tuesday.notes`.
    states=StateReader(
        name="notes",
        description="a file of notes",
        recognizes=lambda path: path.suffix == ".notes" and path.is_file(),
        source=_source,
    ),
)
