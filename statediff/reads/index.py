"""Artifacts, and search within those that an actor may read at an instant [GE Fig. 2].

V_a is what the actor's role grants, T_t what could be read by then; the cone is their intersection.

Search goes through an index of words and shows metadata only. Terms are case-folded runs of letters
and digits; an artifact matches if it holds all of them, and those that hold them in the title come
first, then the newest. What the cone does not hold is removed before anything is counted, so
neither the results nor their number depend on it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt

from statediff.contract.language.context import FALSE, TRUE
from statediff.reads.captured import Standing

Fact = str | int | bool
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def show_instant(at: int) -> str:
    """The instant as ISO 8601 in UTC; whole seconds without a fraction."""
    return (EPOCH + timedelta(microseconds=at)).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Artifact:
    """Something that can be read: a page, a message, a row, a file at a commit."""

    id: str
    subsystem: str
    _: KW_ONLY
    at: int
    recorded_at: int
    title: str = ""
    text: str = ""
    people: tuple[str, ...] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @property
    def readable_from(self) -> int:
        """The first instant at which it could be read."""
        return max(self.at, self.recorded_at)


@dataclass(frozen=True)
class Cone:
    """The artifacts that lie in these subsystems and are old enough."""

    subsystems: frozenset[str]
    as_of: int
    """The last instant that counts, in microseconds since 1970."""

    def grants(self, artifact: Artifact) -> bool:
        """True if the artifact is in V_a: it may be read at some time."""
        return artifact.subsystem in self.subsystems

    def standing(self, artifact: Artifact) -> Standing:
        """How the artifact stands to V_a and T_t."""
        is_there = artifact.readable_from <= self.as_of
        return Standing(TRUE, TRUE if self.grants(artifact) else FALSE, TRUE if is_there else FALSE)

    def holds(self, artifact: Artifact) -> bool:
        """True if the artifact could be read by then."""
        return self.standing(artifact).inside == TRUE


MAX_TERMS: Final = 16
MAX_RESULTS: Final = 50
_WORD: Final = re.compile(r"\w+")
Positions = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Hit:
    """A hit of a search: never the text of the artifact."""

    id: str
    subsystem: str
    title: str
    at: int


def terms(text: str) -> list[str]:
    """The words of a text or query, as they are compared."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


class Index:
    """The words of a corpus; building it is linear in the corpus, a search in its rarest word."""

    def __init__(self, artifacts: Iterable[Artifact]) -> None:
        self._artifacts: list[Artifact] = sorted(
            artifacts, key=lambda artifact: (-artifact.at, artifact.id)
        )
        words: dict[str, list[int]] = {}
        titles: dict[str, list[int]] = {}
        for position, artifact in enumerate(self._artifacts):
            in_title = set(terms(f"{artifact.id} {artifact.title}"))
            facts = " ".join(str(value) for value in artifact.facts.values())
            people = " ".join(artifact.people)
            for word in in_title | set(terms(f"{artifact.text} {facts} {people}")):
                words.setdefault(word, []).append(position)
            for word in in_title:
                titles.setdefault(word, []).append(position)
        self._words = _arrays(words)
        self._titles = _arrays(titles)
        codes = {
            name: code for code, name in enumerate(sorted({a.subsystem for a in self._artifacts}))
        }
        self._codes = codes
        self._subsystem = np.asarray([codes[a.subsystem] for a in self._artifacts], dtype=np.int32)
        self._readable = np.asarray([a.readable_from for a in self._artifacts], dtype=np.int64)

    def search(
        self, cone: Cone, query: str, subsystem: str | None = None, limit: int = MAX_RESULTS
    ) -> tuple[Hit, ...]:
        """The artifacts of the cone with every word of the query, best first, at most `limit`."""
        wanted = list(dict.fromkeys(terms(query)))[:MAX_TERMS]
        if not wanted or any(word not in self._words for word in wanted):
            return ()
        found = self._within(_common([self._words[word] for word in wanted]), cone, subsystem)
        in_title = np.isin(found, _common([self._titles.get(w, _NOTHING) for w in wanted]))
        best = np.concatenate([found[in_title], found[~in_title]])[: min(limit, MAX_RESULTS)]
        chosen = [self._artifacts[position] for position in best.tolist()]
        return tuple(Hit(a.id, a.subsystem, a.title, a.at) for a in chosen)

    def _within(self, found: Positions, cone: Cone, subsystem: str | None) -> Positions:
        found = found[self._readable[found] <= cone.as_of]
        if subsystem is not None:
            found = found[self._subsystem[found] == self._codes.get(subsystem, -1)]
        seen = [name in cone.subsystems for name in sorted(self._codes)]
        granted = np.asarray(seen, dtype=np.bool_)
        may = granted[self._subsystem[found]] if len(granted) else found < 0
        return found[may]


_NOTHING: Final[Positions] = np.zeros(0, dtype=np.int32)


def _arrays(words: Mapping[str, list[int]]) -> dict[str, Positions]:
    return {word: np.asarray(positions, dtype=np.int32) for word, positions in words.items()}


def _common(lists: list[Positions]) -> Positions:
    ordered = sorted(lists, key=len)
    found = ordered[0]
    for other in ordered[1:]:
        found = np.intersect1d(found, other, assume_unique=True)
    return found
