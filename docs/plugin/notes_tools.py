"""The tools of the notes: what an agent may call that speaks no protocol of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import Field

from statediff.model.trace import ActionClass, Mark
from statediff.systems.base.tool import Arguments, Done, Tool, ToolError, tool_name


class NoArguments(Arguments):
    """Nothing."""


class NewNote(Arguments):
    """One more note."""

    text: str = Field(min_length=1, max_length=1000)


def notes_tools(source: str, file: Path) -> tuple[Tool[Any], ...]:
    """Listing the notes, and adding one."""

    def notes() -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = json.loads(file.read_bytes())["note"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ToolError(f"the notes cannot be read: {error}") from error
        return found

    def add(asked: NewNote) -> Done:
        known = notes()
        note = {"id": max((n["id"] for n in known), default=0) + 1, "text": asked.text}
        file.write_text(json.dumps({"note": [*known, {**note, "done": False}]}), encoding="utf-8")
        return Done({"id": note["id"]}, (Mark(source),))

    return (
        Tool(
            tool_name(source, "list"),
            "Lists all notes.",
            NoArguments,
            lambda _asked: notes(),
            ActionClass.READ,
            is_harmless=True,
        ),
        Tool(tool_name(source, "add"), "Adds a note.", NewNote, add, ActionClass.REVERSIBLE_UPDATE),
    )
