"""The gate over a captured state: what a contract lets its actor read, and nothing else.

Only what certainly lies in the visibility cone is in the library at all. So a search, a count, an
order or an error cannot tell of anything else, and what may not be read is answered exactly as what
does not exist. Which of the two it was, is worked out from the record when the trial is judged.
"""

from __future__ import annotations

import base64
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from statediff.contract.binding.bound_access import BoundAccess
from statediff.contract.evaluation.evaluate import evaluate
from statediff.contract.language.context import TRUE
from statediff.model.values import Map, Observed, is_value, show
from statediff.reads.captured import Captured, Held
from statediff.reads.cone import Cone, Policy
from statediff.reads.config import EvaluationConfig, Role
from statediff.reads.gate import MAX_QUERY
from statediff.reads.instants import EPOCH, shown
from statediff.reads.log import Artifact, Corpus
from statediff.reads.search import Index

_READER: Final = "reader"
_EVER: Final = 2**62


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
        self._artifacts = {name: _artifact(held, at[name] or 0) for name, held in kept.items()}

    def __len__(self) -> int:
        return len(self._artifacts)

    def search(self, query: str, subsystem: str | None = None) -> dict[str, Any]:
        """Artifacts with all words of the query, best first: ids, titles, subsystems and times."""
        hits = self._index.search(self._cone, query[:MAX_QUERY], subsystem)
        return {
            "results": [
                {"id": h.id, "subsystem": h.subsystem, "title": h.title, **self._when(h.id)}
                for h in hits
            ]
        }

    def fetch(self, name: str) -> dict[str, Any] | None:
        """The artifact, whole; None whether it is not there or not to be seen."""
        artifact = self._artifacts.get(name)
        if artifact is None:
            return None
        return {
            "id": name, "subsystem": artifact.subsystem, **self._when(name),
            "content": self._contents[name],
        }  # fmt: skip

    def window(self) -> tuple[dict[str, Any], ...]:
        """Context mode: all of it, in order of time and id."""
        order = sorted(self._artifacts, key=lambda name: (self._artifacts[name].at, name))
        return tuple(found for name in order if (found := self.fetch(name)) is not None)

    def _when(self, name: str) -> dict[str, str]:
        at = self._at[name]
        return {} if at is None else {"at": shown(at)}

    @cached_property
    def _index(self) -> Index:
        return Index(Corpus((), self._artifacts))

    @cached_property
    def _cone(self) -> Cone:
        names = tuple(sorted({a.subsystem for a in self._artifacts.values()})) or (_READER,)
        config = EvaluationConfig(
            reads="library", version="1.0.0", subsystems=names,
            roles={_READER: Role(sees=names)}, actors={_READER: _READER},
        )  # fmt: skip
        return Cone(Policy(config), _READER, _EVER)

    def _instant(self, captured: Captured, held: Held) -> int | None:
        node = held.holding.at
        if node is None:
            return None
        world = captured.world(held.holding.footprint)
        found = evaluate(node, world, {"it": held.thing})
        if not isinstance(found, datetime) or found.tzinfo is None:
            return None
        return (found - EPOCH) // timedelta(microseconds=1)


def _artifact(held: Held, at: int) -> Artifact:
    holding, row = held.holding, held.thing.row or {}
    title = _text(row.get(holding.title)) if holding.title else ""
    text = " ".join(_text(row.get(field)) for field in holding.text)
    return Artifact(held.id, holding.name, at=at, recorded_at=at, title=title, text=text)


def _text(value: Observed) -> str:
    if value is None or not is_value(value):
        return ""
    return value if isinstance(value, str) else show(value, 10_000)


def _content(held: Held) -> dict[str, Any]:
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
