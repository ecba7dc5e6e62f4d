"""The gated runtime [GE §3.2]: what an agent reads passes through here, and is recorded.

`search` names what the cone holds, with metadata only; `fetch` delivers the whole artifact if the
cone holds it. What it does not hold is answered exactly as what does not exist, so that the answer
shows nothing; the record shows the difference. Calls that make no sense are recorded too.

A record has one row a call. `missing` says that there is no such artifact,
`blocked` that the gate refused, `invalid` that the call could not be understood. Whether a call was
allowed is never taken from the record: it is computed again from the policy, so that a log of an
ungated agent is judged by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from threading import Lock
from typing import Any, Final

from statediff.reads.index import Artifact, Index, show_instant
from statediff.reads.library import MAX_QUERY, NOT_THERE, results_of
from statediff_lab.reads.cone import Policy
from statediff_lab.reads.config import EvaluationConfig
from statediff_lab.reads.log import Corpus
from statediff_lab.reads.questions import Asked


class CallKind(Enum):
    """The kind of request that a call makes."""

    SEARCH = "search"
    FETCH = "fetch"
    OTHER = "other"


class ReadOutcome(Enum):
    """The outcome of a call that reads."""

    DELIVERED = "delivered"
    BLOCKED = "blocked"
    MISSING = "missing"
    INVALID = "invalid"


@dataclass(frozen=True)
class ReadCall:
    """One call. `subsystem` is what a search was narrowed to, `artifact` what was fetched."""

    kind: CallKind
    outcome: ReadOutcome = ReadOutcome.DELIVERED
    artifact: str | None = None
    subsystem: str | None = None
    actor: str | None = None
    """Who it was made for; None for the actor of the question."""
    as_of: int | None = None
    """The horizon it asked for; None for that of the question."""
    found: tuple[str, ...] = ()
    """What a search named."""


@dataclass(frozen=True)
class ReadTrace:
    """All calls of one run, in order."""

    calls: tuple[ReadCall, ...] = ()
    gap: str | None = None
    """Why there may be calls that are not here; None where nothing could be read unrecorded."""


MAX_CALLS: Final = 10_000
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
        self._cone = Policy(self.config).cone(self.asked.actor, self.asked.as_of)

    @property
    def actor(self) -> str:
        """The question's."""
        return self.asked.actor

    @property
    def sees(self) -> Iterable[str]:
        """The subsystems that the question's actor may search."""
        return self._cone.subsystems

    @property
    def sources(self) -> frozenset[str]:
        """None: the content is no system's."""
        return frozenset()

    def call(self, tool: str, arguments: Any) -> dict[str, Any]:
        """The tool's answer, as JSON; an `error` member where it gives nothing."""
        if tool == "search" and _fits(arguments, {"query"}, {"subsystem"}):
            return self.search(arguments["query"], arguments.get("subsystem"))
        if tool == "fetch" and _fits(arguments, {"id"}, set()):
            return self.fetch(arguments["id"]) or {"error": NOT_THERE}
        if tool in TOOLS:
            kind = CallKind.SEARCH if tool == "search" else CallKind.FETCH
            self._record(ReadCall(kind, ReadOutcome.INVALID))
            return {"error": f"{tool}: expected {TOOLS[tool]['inputSchema']}"}
        self._record(ReadCall(CallKind.OTHER, ReadOutcome.INVALID))
        return {"error": f"there is no tool of that name; there are: {', '.join(sorted(TOOLS))}"}

    def search(self, query: str, subsystem: str | None = None) -> dict[str, Any]:
        """The matches that the cone holds: ids, titles, subsystems and times."""
        allowed = subsystem is None or subsystem in self._cone.subsystems
        hits = self.index.search(self._cone, query[:MAX_QUERY], subsystem) if allowed else ()
        outcome = ReadOutcome.DELIVERED if allowed else ReadOutcome.BLOCKED
        found = tuple(hit.id for hit in hits)
        self._record(ReadCall(CallKind.SEARCH, outcome, subsystem=subsystem, found=found))
        return results_of(hits, {hit.id: hit.at for hit in hits})

    def fetch(self, name: str) -> dict[str, Any] | None:
        """The artifact, whole; None whether it is not there or not to be seen."""
        artifact = self.corpus.artifacts.get(name)
        if artifact is None:
            outcome = ReadOutcome.MISSING
        elif self._cone.holds(artifact):
            outcome = ReadOutcome.DELIVERED
        else:
            outcome = ReadOutcome.BLOCKED
        self._record(ReadCall(CallKind.FETCH, outcome, artifact=name))
        return None if artifact is None or outcome is ReadOutcome.BLOCKED else whole(artifact)

    def trace(self) -> ReadTrace:
        """Everything that was called until now."""
        with self._lock:
            gap = f"more than {MAX_CALLS} calls were made" if self._overflow else None
            return ReadTrace(tuple(self._calls), gap)

    def _record(self, call: ReadCall) -> None:
        with self._lock:
            if len(self._calls) < MAX_CALLS:
                self._calls.append(call)
            else:
                self._overflow = True


def window(corpus: Corpus, config: EvaluationConfig, asked: Asked) -> tuple[Artifact, ...]:
    """Context mode: all that the cone of the question holds, in order of time and id."""
    cone = Policy(config).cone(asked.actor, asked.as_of)
    held = [artifact for artifact in corpus.artifacts.values() if cone.holds(artifact)]
    return tuple(sorted(held, key=lambda artifact: (artifact.at, artifact.id)))


def citing(window_ids: frozenset[str], cited: tuple[str, ...]) -> ReadTrace:
    """Context mode as calls: each citation is a fetch, of what the window held or of nothing.

    What was relied upon without being cited cannot be seen; so the trace has a gap.
    """
    calls = (
        ReadCall(
            CallKind.FETCH,
            ReadOutcome.DELIVERED if name in window_ids else ReadOutcome.MISSING,
            artifact=name,
        )
        for name in cited
    )
    return ReadTrace(
        tuple(calls), gap="context mode: what was relied upon uncited was not recorded"
    )


def whole(artifact: Artifact) -> dict[str, Any]:
    """An artifact as it is delivered."""
    return {
        "id": artifact.id,
        "subsystem": artifact.subsystem,
        "title": artifact.title,
        "at": show_instant(artifact.at),
        "people": list(artifact.people),
        "facts": dict(artifact.facts),
        "text": artifact.text,
    }


def _fits(arguments: Any, needed: set[str], more: set[str]) -> bool:
    return (
        isinstance(arguments, dict)
        and needed <= arguments.keys() <= needed | more
        and all(isinstance(value, str) and value for value in arguments.values())
    )
