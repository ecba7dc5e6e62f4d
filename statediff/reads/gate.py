"""The gated runtime [GE §3.2]: what an agent reads passes through here, and is recorded.

`search` names what the cone holds, with metadata only; `fetch` delivers the whole artifact if the
cone holds it. What it does not hold is answered exactly as what does not exist, so that the answer
shows nothing; the record shows the difference. Calls that make no sense are recorded too.

A record has one row a call, kept in columns. `missing` says that there is no such artifact,
`blocked` that the gate refused, `invalid` that the call could not be understood. Whether a call was
allowed is never taken from the record: it is computed again from the policy, so that a log of an
ungated agent is judged by the same rules.

A `Library` is the gate over a captured state: what a contract lets its actor read, and nothing
else. Only what certainly lies in the cone is in it at all. So a search, a count, an order or an
error cannot show anything else; whether something is missing or forbidden is worked out from the
record when the trial is judged.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from functools import cached_property
from threading import Lock
from typing import Any, Final, Protocol

from statediff.contract.clauses.visibility import BoundAccess
from statediff.contract.evaluation.evaluate import evaluate
from statediff.contract.language.context import TRUE
from statediff.model.schema import Kind
from statediff.model.values import Map, Observed, is_value, show
from statediff.reads.captured import Captured, CapturedArtifact
from statediff.reads.cone import Cone, Hit, Index, Policy
from statediff.reads.config import EvaluationConfig
from statediff.reads.instants import EPOCH, show_instant
from statediff.reads.log import Artifact, Corpus
from statediff.reads.questions import Asked


class CallKind(IntEnum):
    """What a call asked for."""

    SEARCH = 0
    FETCH = 1
    OTHER = 2


class ReadOutcome(IntEnum):
    """What came back."""

    DELIVERED = 0
    BLOCKED = 1
    MISSING = 2
    INVALID = 3


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


@dataclass(frozen=True, kw_only=True)
class ReadTrace:
    """All calls of one run, in order, a column each."""

    kinds: tuple[int, ...] = ()
    outcomes: tuple[int, ...] = ()
    artifacts: tuple[str | None, ...] = ()
    subsystems: tuple[str | None, ...] = ()
    actors: tuple[str | None, ...] = ()
    as_of: tuple[int | None, ...] = ()
    found: tuple[tuple[str, ...], ...] = ()
    gap: str | None = None
    """Why there may be calls that are not here; None where nothing could be read unrecorded."""

    @staticmethod
    def of(calls: Iterable[ReadCall], gap: str | None = None) -> ReadTrace:
        """The trace of these calls."""
        rows = tuple(calls)
        return ReadTrace(
            kinds=tuple(int(c.kind) for c in rows),
            outcomes=tuple(int(c.outcome) for c in rows),
            artifacts=tuple(c.artifact for c in rows),
            subsystems=tuple(c.subsystem for c in rows),
            actors=tuple(c.actor for c in rows),
            as_of=tuple(c.as_of for c in rows),
            found=tuple(c.found for c in rows),
            gap=gap,
        )

    def calls(self) -> tuple[ReadCall, ...]:
        """The same, a row each."""
        return tuple(
            ReadCall(CallKind(kind), ReadOutcome(outcome), *rest)
            for kind, outcome, *rest in zip(
                self.kinds,
                self.outcomes,
                self.artifacts,
                self.subsystems,
                self.actors,
                self.as_of,
                self.found,
                strict=True,
            )
        )


MAX_QUERY: Final = 1_000
MAX_CALLS: Final = 10_000
NOT_THERE: Final = "there is no such artifact"
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
        """What the question's actor may search."""
        return self._cone.subsystems

    @property
    def sources(self) -> frozenset[str]:
        """None: the content is no system's."""
        return frozenset()

    def call(self, tool: str, arguments: Any) -> dict[str, Any]:
        """What the tool answers, as JSON; an `error` member where it gives nothing."""
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
        """What the cone holds of what matches: ids, titles, subsystems and times."""
        allowed = subsystem is None or subsystem in self._cone.subsystems
        hits = self.index.search(self._cone, query[:MAX_QUERY], subsystem) if allowed else ()
        outcome = ReadOutcome.DELIVERED if allowed else ReadOutcome.BLOCKED
        found = tuple(hit.id for hit in hits)
        self._record(ReadCall(CallKind.SEARCH, outcome, subsystem=subsystem, found=found))
        return _results(hits, {hit.id: hit.at for hit in hits})

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
            return ReadTrace.of(self._calls, gap)

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
    return ReadTrace.of(calls, gap="context mode: what was relied upon uncited was not recorded")


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


class Readable(Protocol):
    """What may be read, as the tools `search` and `fetch` offer it."""

    @property
    def actor(self) -> str | None:
        """For whom it is read."""

    @property
    def sees(self) -> Iterable[str]:
        """The subsystems that may be searched."""

    @property
    def sources(self) -> frozenset[str]:
        """The systems whose content this is."""

    def search(self, query: str, subsystem: str | None = None) -> dict[str, Any]:
        """Artifacts with all words of the query: ids, titles, subsystems and times."""

    def fetch(self, name: str) -> dict[str, Any] | None:
        """The artifact, whole; None whether it is not there or not to be seen."""


_EVER: Final = 2**62


def _results(hits: Iterable[Hit], at: Mapping[str, int | None]) -> dict[str, Any]:
    """What a search tells: of each hit its id, subsystem and title, and when it came to be."""
    return {
        "results": [
            {"id": h.id, "subsystem": h.subsystem, "title": h.title, **_when(at[h.id])}
            for h in hits
        ]
    }


def _when(at: int | None) -> dict[str, str]:
    return {} if at is None else {"at": show_instant(at)}


class Library:
    """What may be read under one contract; nothing in it changes. Thread-safe."""

    def __init__(self, captured: Captured) -> None:
        """Every artifact that the cone certainly holds is in it."""
        self.access: BoundAccess = captured.access
        schema = captured.view.schema
        self.sources: frozenset[str] = frozenset(
            source for held in self.access.holdings for source in schema.sources_of(held.type)
        )
        """The systems whose content this is."""
        kept = {held.id: held for held in captured.everything() if held.inside == TRUE}
        self._contents = {name: _content(held) for name, held in kept.items()}
        at = {name: self._instant(captured, held) for name, held in kept.items()}
        self._at = at
        texts = {
            each.name: tuple(
                spec.name
                for spec in schema.by_name[each.type].fields
                if spec.kind is Kind.TEXT and spec.name not in schema.by_name[each.type].key
            )
            for each in self.access.holdings
        }
        self._artifacts = {
            name: _artifact(held, at[name] or 0, texts[held.holding.name])
            for name, held in kept.items()
        }

    def __len__(self) -> int:
        return len(self._artifacts)

    @property
    def actor(self) -> str | None:
        """For whom it is read, as the contract says."""
        return self.access.actor

    @property
    def sees(self) -> Iterable[str]:
        """What the contract lets be searched."""
        return self.access.sees

    def search(self, query: str, subsystem: str | None = None) -> dict[str, Any]:
        """Artifacts with all words of the query, best first: ids, titles, subsystems and times."""
        cone = Cone(frozenset(a.subsystem for a in self._artifacts.values()), _EVER)
        return _results(self._index.search(cone, query[:MAX_QUERY], subsystem), self._at)

    def fetch(self, name: str) -> dict[str, Any] | None:
        """The artifact, whole; None whether it is not there or not to be seen."""
        artifact = self._artifacts.get(name)
        if artifact is None:
            return None
        return {
            "id": name,
            "subsystem": artifact.subsystem,
            **_when(self._at[name]),
            "content": self._contents[name],
        }

    def window(self) -> tuple[dict[str, Any], ...]:
        """Context mode: all of it, in order of time and id."""
        order = sorted(self._artifacts, key=lambda name: (self._artifacts[name].at, name))
        return tuple(found for name in order if (found := self.fetch(name)) is not None)

    @cached_property
    def _index(self) -> Index:
        return Index(Corpus((), self._artifacts))

    def _instant(self, captured: Captured, held: CapturedArtifact) -> int | None:
        if not held.holding.times:
            return None
        node = held.holding.times[0]
        world = captured.world(held.holding.footprint)
        found = evaluate(node, world, {"it": held.thing})
        if not isinstance(found, datetime) or found.tzinfo is None:
            return None
        return (found - EPOCH) // timedelta(microseconds=1)


def _artifact(held: CapturedArtifact, at: int, texts: tuple[str, ...]) -> Artifact:
    """It is called by the first of `texts`, the fields with words, that has any."""
    holding, row = held.holding, held.thing.row or {}
    title = next(filter(None, (_text(row.get(name)) for name in texts)), "")
    text = " ".join(_text(value) for _, value in sorted(row.items()))
    return Artifact(held.id, holding.name, at=at, recorded_at=at, title=title, text=text)


def _text(value: Observed) -> str:
    if value is None or not is_value(value):
        return ""
    return value if isinstance(value, str) else show(value, 10_000)


def _content(held: CapturedArtifact) -> dict[str, Any]:
    """The fields that were observed and lie within the boundary."""
    row = held.thing.row or {}
    return {name: as_json(value) for name, value in sorted(row.items()) if is_value(value)}


def as_json(value: Observed) -> Any:
    """A value as JSON without floats: exact numbers and instants as text, bytes as base64."""
    match value:
        case Map():
            return {name: as_json(each) for name, each in value.items}
        case tuple():
            return [as_json(each) for each in value]
        case Decimal() | float():
            return str(value)
        case bytes():
            return {"base64": base64.b64encode(value).decode("ascii")}
        case datetime() | date():
            return value.isoformat()
        case None | bool() | int() | str():
            return value
        case _:
            return None
