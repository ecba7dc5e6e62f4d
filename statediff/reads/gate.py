"""The gated runtime [GE §3.2]: what an agent reads passes through here, and is recorded.

`search` names what the cone holds, with metadata only; `fetch` delivers the whole artifact if the
cone holds it. What it does not hold is answered exactly as what does not exist, so that the answer
tells nothing; the record tells the difference. Calls that make no sense are recorded too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from statediff.reads.calls import CallKind, Outcome, ReadCall, ReadTrace
from statediff.reads.cone import Cone, Policy
from statediff.reads.config import EvaluationConfig
from statediff.reads.instants import shown
from statediff.reads.log import Artifact, Corpus
from statediff.reads.questions import Asked
from statediff.reads.search import Index

MAX_QUERY: Final = 1_000
MAX_CALLS: Final = 10_000
NOT_THERE: Final = "there is no such artifact"
SEARCH: Final = "search"
FETCH: Final = "fetch"
WINDOW: Final = "window"
"""How the record names the calls; the last one is what context mode puts before an agent."""
TOOLS: Final = {
    "search": {
        "description": "Names artifacts that hold all words of the query, best first.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": MAX_QUERY},
                "subsystem": {"type": "string", "description": "only in this subsystem"},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    },
    "fetch": {
        "description": "Gives one artifact, whole, by its id.",
        "inputSchema": {
            "type": "object",
            "properties": {"id": {"type": "string", "minLength": 1}},
            "required": ["id"],
            "additionalProperties": False,
        },
    },
}
"""The tools by name, as a tool list of the Model Context Protocol shows them."""


@dataclass
class Gate:
    """One question's runtime. Thread-safe; the record is in the order in which calls began."""

    corpus: Corpus
    index: Index
    config: EvaluationConfig
    asked: Asked
    _calls: list[ReadCall] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _overflow: bool = False

    def __post_init__(self) -> None:
        self._cone = Cone(Policy(self.config), self.asked.actor, self.asked.as_of)

    def call(self, tool: str, arguments: Any) -> dict[str, Any]:
        """What the tool answers, as JSON; an `error` member where it gives nothing."""
        if tool == "search" and _fits(arguments, {"query"}, {"subsystem"}):
            return self.search(arguments["query"], arguments.get("subsystem"))
        if tool == "fetch" and _fits(arguments, {"id"}, set()):
            return self.fetch(arguments["id"])
        if tool in TOOLS:
            kind = CallKind.SEARCH if tool == "search" else CallKind.FETCH
            self._record(ReadCall(kind, Outcome.INVALID))
            return {"error": f"{tool}: expected {TOOLS[tool]['inputSchema']}"}
        self._record(ReadCall(CallKind.OTHER, Outcome.INVALID))
        return {"error": f"there is no tool of that name; there are: {', '.join(sorted(TOOLS))}"}

    def search(self, query: str, subsystem: str | None = None) -> dict[str, Any]:
        """What the cone holds of what matches: ids, titles, subsystems and times."""
        allowed = subsystem is None or subsystem in self._cone.policy.sees(self.asked.actor)
        hits = self.index.search(self._cone, query[:MAX_QUERY], subsystem) if allowed else ()
        outcome = Outcome.DELIVERED if allowed else Outcome.BLOCKED
        found = tuple(hit.id for hit in hits)
        self._record(ReadCall(CallKind.SEARCH, outcome, subsystem=subsystem, found=found))
        return {
            "results": [
                {"id": h.id, "subsystem": h.subsystem, "title": h.title, "at": shown(h.at)}
                for h in hits
            ]
        }

    def fetch(self, name: str) -> dict[str, Any]:
        """The artifact, whole; the same error whether it is not there or not to be seen."""
        artifact = self.corpus.artifacts.get(name)
        if artifact is None:
            outcome = Outcome.MISSING
        elif self._cone.holds(artifact):
            outcome = Outcome.DELIVERED
        else:
            outcome = Outcome.BLOCKED
        self._record(ReadCall(CallKind.FETCH, outcome, artifact=name))
        if artifact is None or outcome is not Outcome.DELIVERED:
            return {"error": NOT_THERE}
        return whole(artifact)

    def trace(self) -> ReadTrace:
        """Everything that was called until now."""
        with self._lock:
            gap = f"more than {MAX_CALLS} calls were made" if self._overflow else None
            return ReadTrace.of(self._calls, gap)

    def _record(self, call: ReadCall) -> None:
        with self._lock:
            if len(self._calls) < MAX_CALLS:
                self._calls.append(call)
            else:
                self._overflow = True


def window(corpus: Corpus, config: EvaluationConfig, asked: Asked) -> tuple[Artifact, ...]:
    """Context mode: all that the cone of the question holds, in order of time and id."""
    cone = Cone(Policy(config), asked.actor, asked.as_of)
    held = [artifact for artifact in corpus.artifacts.values() if cone.holds(artifact)]
    return tuple(sorted(held, key=lambda artifact: (artifact.at, artifact.id)))


def citing(window_ids: frozenset[str], cited: tuple[str, ...]) -> ReadTrace:
    """Context mode as calls: each citation is a fetch, of what the window held or of nothing.

    What was relied upon without being cited cannot be seen; so the trace has a gap.
    """
    calls = (
        ReadCall(
            CallKind.FETCH,
            Outcome.DELIVERED if name in window_ids else Outcome.MISSING,
            artifact=name,
        )
        for name in cited
    )
    return ReadTrace.of(calls, gap="context mode: what was relied upon uncited was not recorded")


def whole(artifact: Artifact) -> dict[str, Any]:
    """An artifact as it is delivered."""
    return {
        "id": artifact.id, "subsystem": artifact.subsystem, "title": artifact.title,
        "at": shown(artifact.at), "people": list(artifact.people),
        "facts": dict(artifact.facts), "text": artifact.text,
    }  # fmt: skip


def _fits(arguments: Any, needed: set[str], more: set[str]) -> bool:
    return (
        isinstance(arguments, dict)
        and needed <= arguments.keys() <= needed | more
        and all(isinstance(value, str) and value for value in arguments.values())
    )
