"""What the agent did, as a page shows it: each call with the changes it made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from statediff.model.values import Map, decode, show
from statediff.reports.attribution import Doing, listing
from statediff.reports.html.cells import Cell, cell, cut, name

Json = Any
MAX_MEMBERS: Final = 60
MAX_CHANGES: Final = 20


@dataclass(frozen=True, kw_only=True)
class Action:
    """One call of the trace, or one transaction where nobody recorded calls."""

    id: str
    tool: str
    kind: str
    arguments: tuple[tuple[str, Cell], ...]
    result: Cell
    error: str
    principal: str
    attempt: int
    when: str
    parent: str
    changes: str
    breaks: tuple[str, ...]
    judged: tuple[tuple[str, str], ...] = ()
    """Each question about the call by itself that a clause asks, and its truth."""

    @property
    def is_unrecorded(self) -> bool:
        """Whether nothing is known of the call but what it changed."""
        cells = (*(cell for _, cell in self.arguments), self.result)
        return all(cell.kind == "unobserved" and cell.note == cells[0].note for cell in cells)


def action_view(doing: Doing) -> Action:
    """A call as a page shows it."""
    action = doing.document
    arguments = decode(action["arguments"])
    members = arguments.items if isinstance(arguments, Map) else (("", arguments),)
    times = [decode(action[step]) for step in ("started_at", "finished_at")]
    known = [show(moment) for moment in times if moment is not None]
    return Action(
        id=name(action["id"]),
        tool=name(action["tool"]),
        kind=name(action["class"]),
        arguments=tuple((name(key), cell(value)) for key, value in members[:MAX_MEMBERS]),
        result=cell(decode(action["result"])),
        error=cut(action["error"] or ""),
        principal=name(action["principal"] or ""),
        attempt=int(action["attempt"]),
        when=" to ".join(known),
        parent=name(action.get("parent") or ""),
        changes=cut(listing(doing.changes, MAX_CHANGES), 4000),
        breaks=doing.breaks[:MAX_CHANGES],
        judged=()
        if doing.span is None
        else tuple((name, truth) for name, truth in doing.span.truths if truth is not None),
    )
