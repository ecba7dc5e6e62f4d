"""The gate over a captured state: what a contract lets its actor read, and nothing else.

Only what certainly lies in the cone is in it at all. So a search, a count, an order or an error
cannot show anything else; whether something is missing or forbidden is worked out from the record
when the trial is judged.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, Protocol

from statediff.contract.clauses.visibility import BoundAccess
from statediff.contract.evaluation.evaluate import evaluate
from statediff.contract.language.context import TRUE
from statediff.model.schema import Kind
from statediff.model.values import Map, Observed, is_value, show
from statediff.reads.captured import Captured, CapturedArtifact
from statediff.reads.index import EPOCH, Artifact, Cone, Hit, Index, show_instant

MAX_QUERY: Final = 1_000
NOT_THERE: Final = "there is no such artifact"


class Readable(Protocol):
    """Artifacts that may be read, as the tools `search` and `fetch` offer them."""

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


def results_of(hits: Iterable[Hit], at: Mapping[str, int | None]) -> dict[str, Any]:
    """The answer of a search: of each hit its id, subsystem and title, and when it came to be."""
    return {
        "results": [
            {"id": h.id, "subsystem": h.subsystem, "title": h.title, **_when(at[h.id])}
            for h in hits
        ]
    }


def _when(at: int | None) -> dict[str, str]:
    return {} if at is None else {"at": show_instant(at)}


class Library:
    """The artifacts that may be read under one contract; nothing in it changes. Thread-safe."""

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
        """The subsystems that the contract lets be searched."""
        return self.access.sees

    def search(self, query: str, subsystem: str | None = None) -> dict[str, Any]:
        """Artifacts with all words of the query, best first: ids, titles, subsystems and times."""
        cone = Cone(frozenset(a.subsystem for a in self._artifacts.values()), _EVER)
        return results_of(self._index.search(cone, query[:MAX_QUERY], subsystem), self._at)

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
        return Index(self._artifacts.values())

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
