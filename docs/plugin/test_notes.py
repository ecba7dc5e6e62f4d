"""The notes do what statediff asks of every system: `python -m pytest test_notes.py`."""

import json
from pathlib import Path
from typing import ClassVar

from statediff.conformance import SystemSuite, Way
from statediff.packs import SandboxPack, read_pack
from statediff.sandbox.system import System


def write(text: str):
    """A way to leave the system: the file holds `text`."""
    return lambda system: file_of(system).write_text(text, encoding="utf-8")


def file_of(system: System) -> Path:
    """Where an agent finds the notes."""
    return Path(system.url.removeprefix("file://"))


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
