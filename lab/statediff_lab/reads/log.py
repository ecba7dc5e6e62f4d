"""The event log and the corpus [GE §3.1]: what happened, and the artifacts that tell of it.

Both are JSON lines:

    {"id": "e1", "type": "incident_opened", "at": "2026-03-17T11:21:00Z", "actors": ["alex"],
     "facts": {"incident": "ENG-263"}, "artifacts": ["ENG-263"]}
    {"id": "ENG-263", "subsystem": "jira", "at": "2026-03-17T11:21:00Z", "title": "…",
     "text": "…", "people": ["hanna"], "facts": {"incident": "ENG-263"}}

`at` is when a thing came to be; `recorded_at`, where it differs, is when it could first be read. An
artifact is in an actor's past only when both lie there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from statediff.errors import InputError
from statediff.model.strictjson import read_json
from statediff.model.values import Map, Value, printable
from statediff.reads.index import Artifact, Fact
from statediff_lab.reads.instants import instant

MAX_LINE_BYTES: Final = 4 * 1024 * 1024
MAX_LINES: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened; `at` in microseconds since 1970 (`instants.py`)."""

    id: str
    type: str
    at: int
    actors: tuple[str, ...] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict)
    artifacts: tuple[str, ...] = ()
    """The artifacts that tell of it."""


@dataclass(frozen=True)
class Corpus:
    """The event log, in order of time and id, and all artifacts by id."""

    events: tuple[Event, ...]
    artifacts: Mapping[str, Artifact]

    @cached_property
    def by_type(self) -> Mapping[str, tuple[Event, ...]]:
        """The events of each type, in order."""
        found: dict[str, list[Event]] = {}
        for event in self.events:
            found.setdefault(event.type, []).append(event)
        return {name: tuple(events) for name, events in found.items()}

    @cached_property
    def by_id(self) -> Mapping[str, Event]:
        """The events by their id."""
        return {event.id: event for event in self.events}

    @cached_property
    def by_subsystem(self) -> Mapping[str, tuple[Artifact, ...]]:
        """The artifacts of each subsystem, in order of id."""
        found: dict[str, list[Artifact]] = {}
        for name in sorted(self.artifacts):
            found.setdefault(self.artifacts[name].subsystem, []).append(self.artifacts[name])
        return {name: tuple(artifacts) for name, artifacts in found.items()}


def corpus_of(events: Iterable[Event], artifacts: Iterable[Artifact]) -> Corpus:
    """The corpus of these parts. `InputError` where an id stands for two things."""
    ordered = tuple(sorted(events, key=lambda event: (event.at, event.id)))
    _once((event.id for event in ordered), "event")
    found = list(artifacts)
    _once((artifact.id for artifact in found), "artifact")
    return Corpus(ordered, {artifact.id: artifact for artifact in found})


def load_corpus(events: Path, artifacts: Path, zone: tzinfo | None) -> Corpus:
    """The corpus of two files of JSON lines. `InputError` names the file and the line."""
    return corpus_of(
        (_EventLine.of(read, where).event(where, zone) for read, where in _lines(events)),
        (_ArtifactLine.of(read, where).artifact(where, zone) for read, where in _lines(artifacts)),
    )


def _once(ids: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise InputError(f"two {what}s have the id {printable(name)!r}; ids are unique")
        seen.add(name)


def _lines(path: Path) -> Iterable[tuple[Value, str]]:
    try:
        with path.open("rb") as stream:
            number = 0
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                where = f"{path.name}, line {number}"
                if number > MAX_LINES:
                    raise InputError(f"{path.name}: more than {MAX_LINES} lines")
                if not line.strip():
                    continue
                yield read_json(line, where, max_bytes=MAX_LINE_BYTES), where
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def _members(read: object) -> object:
    return dict(read.items) if isinstance(read, Map) else read


Text = Annotated[str, Field(min_length=1)]
Members = BeforeValidator(_members)


class LineShape(BaseModel):
    """A line of JSON: what it may hold and must; the defaults are those of members left out."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    @classmethod
    def of(cls, read: Value, where: str) -> Self:
        """The line, if it is one; else `InputError` names the place."""
        try:
            return cls.model_validate(_members(read))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = printable(".".join(map(str, first["loc"])))[:60]
            raise InputError(f"{where}: {place or 'the line'}: {first['msg']}") from error


class _EventLine(LineShape):
    id: Text
    type: Text
    at: Text
    actors: tuple[str, ...] = ()
    facts: Annotated[dict[str, Fact], Members] = {}
    artifacts: tuple[str, ...] = ()

    def event(self, where: str, zone: tzinfo | None) -> Event:
        at = instant(self.at, zone, f"{where}, `at`")
        return Event(self.id, self.type, at, self.actors, self.facts, self.artifacts)


class _ArtifactLine(LineShape):
    id: Text
    subsystem: Text
    at: Text
    recorded_at: str = ""
    title: str = ""
    text: str = ""
    people: tuple[str, ...] = ()
    facts: Annotated[dict[str, Fact], Members] = {}

    def artifact(self, where: str, zone: tzinfo | None) -> Artifact:
        at = instant(self.at, zone, f"{where}, `at`")
        recorded = self.recorded_at
        return Artifact(
            self.id,
            self.subsystem,
            at=at,
            recorded_at=instant(recorded, zone, f"{where}, `recorded_at`") if recorded else at,
            title=self.title,
            text=self.text,
            people=self.people,
            facts=self.facts,
        )
