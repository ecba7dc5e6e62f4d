"""Worlds to ask questions of: an event log and a corpus made from a configuration and a few words.

One generator for every pack: each causal link and each silence pair gets instances of its own,
some answered and some not, with decoys that are near in time and share no joined fact; the rest of
the log is the noise of the place. All draws are by name (`draws.py`), so a world is
the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field as Described

from statediff.contract.document.load import read_bytes
from statediff.contract.parts import Part
from statediff.contract.yaml.reader import read_document
from statediff.contract.yaml.shape import as_model
from statediff.errors import UsageError
from statediff.reads.index import Artifact
from statediff_lab.reads.config import ConfigFile, EvaluationConfig, Name, Names, load_config
from statediff_lab.reads.instants import DAY, duration, instant
from statediff_lab.reads.log import Corpus, Event, corpus_of
from statediff_lab.statistics.draws import below, choose, lot

PACKS: Final = Path(__file__).parent / "packs"
MINUTE: Final = 60_000_000
DECOY_EVERY: Final = 4
PERCENT: Final = 100


class EventType(Part):
    """One type of event: where its artifact lies, who brings it about, what it is called."""

    subsystem: Name
    by: Names = ()
    """Roles; anybody who may read the subsystem where none is given."""
    title: Name
    kind: Name = "record"


class World(Part):
    """The settings that a pack adds to its configuration to be filled with events."""

    start: Name
    days: Annotated[int, Described(ge=1, le=3650, description="1 to 3650")]
    events: Annotated[int, Described(ge=1, le=1_000_000, description="1 to 1,000,000")]
    per_spec: Annotated[int, Described(ge=1, description="instances of each link and pair")]
    answered: Annotated[int, Described(ge=0, le=100, description="a whole percentage")] = 55
    seed: Annotated[int, Described(ge=0, description="a whole number of at least 0")] = 1
    types: dict[Name, EventType]
    noise: Annotated[tuple[Name, ...], Described(min_length=1, description="event types")]
    topics: Annotated[tuple[Name, ...], Described(min_length=1, description="words of titles")]


@dataclass(frozen=True)
class Pack:
    """A configuration with its world."""

    config: ConfigFile
    corpus: Corpus


def pack_names() -> tuple[str, ...]:
    """The packs that are shipped."""
    return tuple(sorted(path.name for path in PACKS.iterdir() if path.is_dir()))


def load_pack(name: str) -> Pack:
    """The pack of that name. `UsageError` if there is none."""
    if name not in pack_names():
        raise UsageError(f"there is no pack {name!r}; there are: {', '.join(pack_names())}")
    return pack_in(PACKS / name)


def pack_in(folder: Path) -> Pack:
    """The pack of a folder with a `config.yaml` and a `world.yaml`."""
    config = load_config(folder / "config.yaml")
    document = read_document(read_bytes(folder / "world.yaml"), str(folder / "world.yaml"))
    return Pack(config, fill_world(config.content, as_model(document, World)))


def fill_world(config: EvaluationConfig, world: World) -> Corpus:
    """The corpus of a world; as many events as it asks for, or as its specs need."""
    maker = _Maker(config, world)
    made = [*maker.linked(), *maker.silent()]
    made += maker.noise(world.events - len(made))
    events = [event for event, _ in made]
    artifacts = [artifact for _, artifact in made]
    return corpus_of(events, [*artifacts, *maker.further])


EventWithArtifact = tuple[Event, Artifact]


class _Maker:
    def __init__(self, config: EvaluationConfig, world: World) -> None:
        self._config = config
        self._world = world
        self._start = instant(world.start, None, "start")
        self._span = world.days * DAY
        self._by_role: dict[str, list[str]] = {}
        for actor, role in config.actors.items():
            self._by_role.setdefault(role, []).append(actor)
        self.further: list[Artifact] = []
        """Artifacts that no event tells of: what fills the search spaces."""

    def linked(self) -> Iterator[EventWithArtifact]:
        for spec in self._config.causal_links:
            gap = duration(spec.max_gap)
            for number in range(self._world.per_spec):
                name = f"{spec.id}-{number}"
                facts = {fact: self._fact_value(fact, name) for fact in spec.join}
                at = self._start + below(max(1, self._span - gap), self._seed, "at", name)
                cause = self._record(f"{name}-cause", spec.cause, at, facts)
                yield cause
                later = at + 1 + below(gap, self._seed, "gap", name)
                effect = self._record(f"{name}-effect", spec.effect, later, facts)
                if below(PERCENT, self._seed, "decoy", name) * DECOY_EVERY < PERCENT:
                    # As near in time, and of another matter: adjacency is no cause.
                    other = {fact: self._fact_value(fact, name, "other") for fact in spec.join}
                    effect = self._record(f"{name}-decoy", spec.effect, later, other)
                yield effect

    def silent(self) -> Iterator[EventWithArtifact]:
        for spec in self._config.silences:
            gap = duration(spec.max_gap)
            for number in range(self._world.per_spec):
                name = f"{spec.id}-{number}"
                facts = {fact: self._fact_value(fact, name) for fact in spec.join}
                at = self._start + below(max(1, self._span - gap), self._seed, "at", name)
                yield self._record(f"{name}-trigger", spec.trigger, at, facts)
                if below(PERCENT, self._seed, "answered", name) < self._world.answered:
                    later = at + 1 + below(gap - 1, self._seed, "gap", name)
                    yield self._record(f"{name}-response", spec.response, later, facts)
                for place, selector in enumerate(spec.search):
                    for copy in range(1 + below(4, self._seed, "space", name, place)):
                        when = at + below(gap, self._seed, "space at", name, place, copy)
                        had = {**selector.where, **(facts if selector.joined else {})}
                        self.further.append(
                            self._artifact(
                                f"{name}-place{place}-{copy}",
                                selector.subsystem,
                                when,
                                f"{self._topic(name, place, copy)} notes",
                                (),
                                had,
                            )
                        )

    def noise(self, count: int) -> list[EventWithArtifact]:
        made = []
        for number in range(max(0, count)):
            name = f"noise-{number}"
            kind = choose(self._world.noise, self._seed, "kind", name)
            at = self._start + below(self._span, self._seed, "at", name)
            made.append(self._record(name, kind, at, {}))
        return made

    @property
    def _seed(self) -> int:
        return self._world.seed

    def _topic(self, *names: str | int) -> str:
        return choose(self._world.topics, self._seed, "topic", *names)

    def _fact_value(self, fact: str, *names: str | int) -> str:
        return f"{lot(self._seed, fact, *names) % 10**9:09d}"

    def _opaque(self, prefix: str, *names: str | int) -> str:
        return f"{prefix}-{lot(self._seed, prefix, *names):016x}"

    def _record(self, name: str, kind: str, at: int, facts: dict[str, str]) -> EventWithArtifact:
        kind_of = self._world.types.get(kind)
        if kind_of is None:
            raise UsageError(f"the world says nothing of events of type {kind!r}")
        able = [
            a for role in kind_of.by or self._roles(kind_of) for a in self._by_role.get(role, ())
        ]
        if not able:
            raise UsageError(f"nobody in the world can bring about {kind!r}")
        first = choose(able, self._seed, "who", name)
        second = choose(able, self._seed, "with", name)
        people = tuple(dict.fromkeys((first, second)))
        title = f"{kind_of.title}: {self._topic(name)}"
        artifact = self._artifact(
            name,
            kind_of.subsystem,
            at + below(30, self._seed, "delay", name) * MINUTE,
            title,
            people,
            {**facts, "kind": kind_of.kind},
        )
        return Event(self._opaque("event", name), kind, at, people, facts, (artifact.id,)), artifact

    def _roles(self, kind: EventType) -> list[str]:
        roles = self._config.roles.items()
        return [name for name, role in roles if kind.subsystem in role.sees]

    def _artifact(
        self,
        name: str,
        subsystem: str,
        at: int,
        title: str,
        people: tuple[str, ...],
        facts: dict[str, str | int | bool] | dict[str, str],
    ) -> Artifact:
        # An id that showed what its artifact is for would give answers away.
        name = self._opaque(subsystem, "artifact", name)
        told = ", ".join(f"{fact} {value}" for fact, value in sorted(facts.items()))
        text = f"{title}. {told}. With {', '.join(people) or 'nobody named'}."
        return Artifact(
            name,
            subsystem,
            at=at,
            recorded_at=at,
            title=title,
            text=text,
            people=people,
            facts=dict(facts),
        )
