"""The agent's record in `agent.json` beside a bundle: its end, its output, its cost.

It is no evidence and changes no verdict: it says why a run may have done nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from statediff.evidence.package import Bundle
from statediff.reports.said import said

LAST_LINES: Final = 5
_LINE: Final = 200
_COMMAND: Final = 1_000
_OUTPUT: Final = 8_000
"""Characters of an output that a page shows, from its end."""


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
    """The failure of an agent in `agent.json`; None where it ended well."""
    if not isinstance(document, Mapping) or not isinstance(error := document.get("error"), str):
        return None
    output = document.get("stderr")
    text = output.get("text") if isinstance(output, Mapping) else ""
    lines = str(text).splitlines() if text else []
    return Ending(
        said(error, _LINE),
        tuple(said(line, _LINE) for line in lines if line.strip())[-LAST_LINES:],
    )


@dataclass(frozen=True, kw_only=True)
class AgentRecord:
    """The record of the agent's process; texts are empty where nothing is known."""

    exit: str = ""
    seconds: float | None = None
    cost: str = ""
    tokens: str = ""
    outputs: tuple[tuple[str, str, str], ...] = ()
    """(name, the end of it, how much there was), of those that are not empty."""
    ending: Ending | None = None
    command: str = ""
    """The program and its arguments, as a shell takes them."""


UNKNOWN: Final = AgentRecord()


def agent_record(document: Any) -> AgentRecord:
    """The record in `agent.json`, whatever it holds."""
    if not isinstance(document, Mapping):
        return UNKNOWN
    used = document.get("usage")
    used = used if isinstance(used, Mapping) else {}
    code, cost = document.get("exit_code"), used.get("cost")
    counts = [(word, used.get(f"tokens_{word}")) for word in ("in", "out")]
    return AgentRecord(
        exit=str(code) if type(code) is int else "",
        seconds=_seconds(document.get("started_at"), document.get("finished_at")),
        cost=said(cost, _LINE) if isinstance(cost, str) else "",
        tokens=", ".join(f"{n:,} {word}" for word, n in counts if type(n) is int),
        outputs=tuple(_outputs(document)),
        ending=ending_from(document),
        command=_command(document.get("command")),
    )


def _command(words: Any) -> str:
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return ""
    return said(shlex.join(words), _COMMAND)


def _outputs(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for key, title in (("stdout", "Output"), ("stderr", "Errors")):
        output = document.get(key)
        text = output.get("text") if isinstance(output, Mapping) else None
        if isinstance(text, str) and text.strip():
            size = f"{len(text):,} characters"
            yield title, text[-_OUTPUT:], f"the last {_OUTPUT:,} of {size}" * (len(text) > _OUTPUT)


def _seconds(start: Any, end: Any) -> float | None:
    try:
        return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return None


def changed_nothing(bundle: Bundle) -> bool:
    """True if the run left every system as it was."""
    judged = bundle.document("judgement.json")
    return not (judged["deltas"] or judged["during"] or judged["hidden"] or judged["doubts"])
