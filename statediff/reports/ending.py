"""How the agent of a trial ended, as `agent.json` beside the bundle says.

It is no evidence and changes no verdict: it says why a run may have done nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from statediff.evidence.package import Bundle
from statediff.reports.said import said

LAST_LINES: Final = 5
_LINE: Final = 200


@dataclass(frozen=True)
class Ending:
    """An agent that did not end well: what went wrong, and the last lines of its errors."""

    error: str
    lines: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """In one line, with the last thing that the agent said of its errors."""
        last = f": {self.lines[-1]}" if self.lines else ""
        return f"{self.error}{last}"


def ending_from(document: Any) -> Ending | None:
    """What `agent.json` says of an agent that failed; None of one that ended well."""
    if not isinstance(document, Mapping) or not isinstance(error := document.get("error"), str):
        return None
    output = document.get("stderr")
    text = output.get("text") if isinstance(output, Mapping) else ""
    lines = str(text).splitlines() if text else []
    return Ending(
        said(error, _LINE),
        tuple(said(line, _LINE) for line in lines if line.strip())[-LAST_LINES:],
    )


def changed_nothing(bundle: Bundle) -> bool:
    """Whether the run left every system as it was."""
    judged = bundle.document("judgement.json")
    return not (judged["deltas"] or judged["during"] or judged["hidden"] or judged["doubts"])
