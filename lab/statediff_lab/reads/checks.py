"""Mistakes in a configuration or in its questions, found before any agent runs.

A mistake in a configuration otherwise looks like a mistake of the agent: links that join nothing, a
search space that is empty, a role that sees nothing [GE §3.1]. Errors make the evaluation
meaningless; warnings are for a person to look at. Usable in CI through the exit code.

The shortcut probe measures how far phrasing alone gives the answers away [GE §5.4]. A classifier
that sees only the words (naive Bayes, Laplace smoothing) answers each question from all the others.
What it gets right beyond the most frequent answer is reported with the chance of as good a result
by guessing; a question set that it beats chance on needs other templates.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from statediff.contract.yaml.reader import NodePath
from statediff.contract.yaml.shape import did_you_mean
from statediff.errors import Problem
from statediff.reads.index import terms
from statediff.statistics.binomial import at_least
from statediff_lab.reads.config import CausalLink, ConfigFile, SilencePair
from statediff_lab.reads.generate import generate, links_of, silences_of
from statediff_lab.reads.log import Corpus
from statediff_lab.reads.questions import (
    PerspectiveTruth,
    Question,
    SilenceTruth,
    Track,
    fold_mechanism,
)


def problems(file: ConfigFile, corpus: Corpus) -> tuple[Problem, ...]:
    """Everything found, in the order of the file; `severity` is `error` or `warning`."""
    check = _Checks(file, corpus)
    return tuple(sorted([*check.people(), *check.specs(), *check.data(), *check.plan()]))


class _Checks:
    def __init__(self, file: ConfigFile, corpus: Corpus) -> None:
        self._file = file
        self._config = file.content
        self._corpus = corpus
        self._links = links_of(corpus, self._config.causal_links)
        self._silences = silences_of(corpus, self._config.silences)

    def people(self) -> Iterator[Problem]:
        config = self._config
        known = tuple(config.subsystems)
        if len(set(known)) < len(known):
            yield self._error(("subsystems",), "a subsystem is listed twice", "duplicate-name")
        for name, role in config.roles.items():
            for at, subsystem in enumerate(role.sees):
                yield from self._known(("roles", name, "sees", at), subsystem, known, "subsystem")
            if not set(role.sees) & set(known):
                message = f"the role `{name}` sees no subsystem; everything is denied to it"
                yield self._warning(("roles", name), message, "blind-role")
        for actor, role_name in config.actors.items():
            yield from self._known(("actors", actor), role_name, tuple(config.roles), "role")
        for name in sorted(set(config.roles) - set(config.actors.values())):
            yield self._warning(("roles", name), f"no actor has the role `{name}`", "unused-role")

    def specs(self) -> Iterator[Problem]:
        config = self._config
        yield from self._twice(("causal_links",), [spec.id for spec in config.causal_links])
        yield from self._twice(("silences",), [spec.id for spec in config.silences])
        pairs = {(spec.cause, spec.effect) for spec in config.causal_links}
        for at, spec in enumerate(config.causal_links):
            yield from self._link(("causal_links", at), spec)
            if (spec.effect, spec.cause) in pairs and spec.cause != spec.effect:
                message = f"`{spec.effect}` is also declared to cause `{spec.cause}`"
                yield self._warning(("causal_links", at), message, "circular-link")
        for at, pair in enumerate(config.silences):
            yield from self._silence(("silences", at), pair)

    def _link(self, path: NodePath, spec: CausalLink) -> Iterator[Problem]:
        yield from self._event_type((*path, "cause"), spec.cause)
        yield from self._event_type((*path, "effect"), spec.effect)
        made = [link for link in self._links if link.spec is spec]
        if not made:
            message = f"`{spec.id}` links nothing: no {spec.effect} follows a {spec.cause} "
            message += f"within {spec.max_gap} and shares {', '.join(spec.join)}"
            yield self._error(path, message, "no-links")
        vocabulary = [fold_mechanism(name) for name in (spec.mechanism, *spec.aliases)]
        if len(set(vocabulary)) < len(vocabulary):
            yield self._warning((*path, "aliases"), "two aliases are one when folded", "alias")

    def _silence(self, path: NodePath, pair: SilencePair) -> Iterator[Problem]:
        yield from self._event_type((*path, "trigger"), pair.trigger)
        if pair.response not in self._corpus.by_type:
            message = f"no event is a `{pair.response}`: every `{pair.trigger}` stays unanswered"
            yield self._warning((*path, "response"), message, "unseen-event-type")
        if not pair.search:
            message = f"`{pair.id}` names nowhere to search; absence could be claimed unseen"
            yield self._error((*path, "search"), message, "empty-search-space")
        for at, selector in enumerate(pair.search):
            where: NodePath = (*path, "search", at, "subsystem")
            known = tuple(self._config.subsystems)
            yield from self._known(where, selector.subsystem, known, "subsystem")
        mine = [s for s in self._silences if s.spec is pair]
        empty = sum(not silence.space for silence in mine)
        if pair.search and not mine and pair.trigger in self._corpus.by_type:
            message = f"no `{pair.trigger}` has the facts {', '.join(pair.join)}"
            yield self._error((*path, "join"), message, "no-triggers")
        elif mine and empty == len(mine):
            message = f"the search space of `{pair.id}` is empty for every trigger"
            yield self._error((*path, "search"), message, "empty-search-space")
        elif empty:
            message = (
                f"the search space of `{pair.id}` is empty for {empty} of {len(mine)} triggers"
            )
            yield self._warning((*path, "search"), message, "empty-search-space")

    def data(self) -> Iterator[Problem]:
        """The log and the corpus, held against each other and the configuration."""
        known = set(self._config.subsystems)
        strange = {a.subsystem for a in self._corpus.artifacts.values()} - known
        for name in sorted(strange):
            message = f"artifacts lie in `{name}`, which is no subsystem; nobody can read them"
            yield self._error(("subsystems",), message, "unknown-subsystem")
        missing = sorted(
            {a for e in self._corpus.events for a in e.artifacts} - set(self._corpus.artifacts)
        )
        if missing:
            message = f"events name {len(missing)} artifacts that are not in the corpus, e.g. "
            yield self._error((), message + f"`{missing[0]}`", "missing-artifact")
        people = {actor for event in self._corpus.events for actor in event.actors}
        for name in sorted(people - set(self._config.actors))[:10]:
            message = f"`{name}` acts in the log and has no role; nothing is granted to them"
            yield self._warning(("actors",), message, "unknown-actor")

    def plan(self) -> Iterator[Problem]:
        for shortage in generate(self._corpus, self._config).shortages:
            yield self._error(("questions",), str(shortage), "unfilled-bucket")

    def _event_type(self, path: NodePath, name: str) -> Iterator[Problem]:
        yield from self._known(path, name, tuple(self._corpus.by_type), "event type of the log")

    def _known(
        self, path: NodePath, name: str, known: tuple[str, ...], what: str
    ) -> Iterator[Problem]:
        if name not in known:
            yield replace(
                self._error(path, f"expected a {what}, found `{name}`", "unknown-name"),
                hint=did_you_mean(name, known),
            )

    def _twice(self, path: NodePath, ids: Iterable[str]) -> Iterator[Problem]:
        seen: set[str] = set()
        for at, name in enumerate(ids):
            if name in seen:
                yield self._error((*path, at), f"the id `{name}` stands twice", "duplicate-name")
            seen.add(name)

    def _error(self, path: NodePath, message: str, code: str) -> Problem:
        return self._file.document.problem(path, message, code=code)

    def _warning(self, path: NodePath, message: str, code: str) -> Problem:
        return replace(self._error(path, message, code), severity="warning")


SIGNIFICANT: Final = Fraction(1, 100)


@dataclass(frozen=True)
class Shortcut:
    """The success of phrasing alone on one track."""

    track: Track
    questions: int
    right: int
    chance: Fraction
    """The share of the most frequent answer."""
    p_value: Fraction
    """The probability of at least as many right by guessing with that share."""

    @property
    def beats_chance(self) -> bool:
        """True if phrasing gives answers away, at a level of one in a hundred."""
        return self.p_value < SIGNIFICANT


def probe(questions: Sequence[Question]) -> tuple[Shortcut, ...]:
    """The probe of every track that has two answers; one with a single answer cannot be probed."""
    found = []
    for track in Track:
        asked = [(terms(q.asked.text), _label(q)) for q in questions if q.asked.track is track]
        labels = Counter(label for _, label in asked)
        if len(labels) < 2:
            continue
        right = sum(
            _guess([*asked[:at], *asked[at + 1 :]], words) == label
            for at, (words, label) in enumerate(asked)
        )
        chance = Fraction(max(labels.values()), len(asked))
        p_value = at_least(right, len(asked), chance)
        found.append(Shortcut(track, len(asked), right, chance, p_value))
    return tuple(found)


def _label(question: Question) -> str:
    truth = question.truth
    if isinstance(truth, PerspectiveTruth):
        return str(truth.known)
    return str(truth.exists if isinstance(truth, SilenceTruth) else truth.outcome_changed)


def _guess(known: Sequence[tuple[list[str], str]], words: list[str]) -> str:
    counts: dict[str, Counter[str]] = {}
    labels: Counter[str] = Counter()
    for each, label in known:
        labels[label] += 1
        counts.setdefault(label, Counter()).update(set(each))
    vocabulary = set().union(*counts.values())

    def likelihood(label: str) -> float:
        here = counts[label]
        return math.log(labels[label]) + math.fsum(
            math.log((here[word] + 1) / (labels[label] + 2))
            for word in sorted(set(words) & vocabulary)
        )

    return max(sorted(labels), key=likelihood)
