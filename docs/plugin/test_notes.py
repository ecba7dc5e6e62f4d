"""The notes do what statediff asks of every system: `python -m pytest test_notes.py`."""

import json
from pathlib import Path
from typing import ClassVar

from statediff.capture.source import Source
from statediff.conformance import SourceSuite, SystemSuite, Way
from statediff.packs import SandboxPack, read_pack
from statediff.systems.base.plugin import StateInput
from statediff.systems.base.protocol import System
from statediff.systems.base.registry import state_reader, tools_of


def write(text: str):
    """A way to leave the system: the file holds `text`."""
    return lambda system: file_of(system).write_text(text, encoding="utf-8")


def file_of(system: System) -> Path:
    """Where an agent finds the notes."""
    return Path(system.url.removeprefix("notes://"))


class TestNotes(SystemSuite):
    """Every test of the kit, on this system."""

    source = "notes"
    ways: ClassVar = {
        "a note is added": Way(
            write(json.dumps({"note": [{"id": 3, "text": "?", "done": False}]}))
        ),
        "the notes are no JSON": Way(write("{")),
        "the notes are gone": Way(lambda system: file_of(system).unlink()),
        "a file is left beside them": Way(
            lambda system: file_of(system).with_name("left").touch(), is_state=False
        ),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        """The pack that has the source."""
        return read_pack(Path(__file__).parent / "pack")


class TestNotesByPath(SourceSuite):
    """The reader of `monday.notes`, found as every command finds it."""

    def make(self, folder: Path) -> Source:
        """A file of one note."""
        file = folder / "monday.notes"
        file.write_text('{"note": [{"id": 1, "text": "call Ada", "done": false}]}')
        return state_reader(file).source("notes", StateInput(file, str(file)), None)

    def change(self, folder: Path) -> None:
        """The note is done."""
        (folder / "monday.notes").write_text(
            '{"note": [{"id": 1, "text": "call Ada", "done": true}]}'
        )

    def end(self, folder: Path) -> None:
        """A note has a field that no note has."""
        (folder / "monday.notes").write_text('{"note": [{"id": 1, "color": "red"}]}')


def test_an_agents_tools_list_and_add_notes(tmp_path: Path) -> None:
    """The tools are those of the URL, whichever agent calls them."""
    system = TestNotes.make(tmp_path / "notes")
    system.reset()
    tools = {tool.name: tool for tool in tools_of("notes", system.url)}
    add, notes = tools["notes_add"], tools["notes_list"]
    done = add.act(add.arguments(text="water the plants"))
    assert done.result == {"id": 3}
    assert [note["text"] for note in notes.act(notes.arguments())][2:] == ["water the plants"]
