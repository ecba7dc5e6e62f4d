"""The JSON of what feeds saw of a run, and of the course that came of it, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statediff.errors import BundleError
from statediff.evidence.documents import COURSE, SEEN, TRANSACTION, reading_from
from statediff.model.readings import History, Transaction
from statediff.model.state import State
from statediff.model.timelines import SourceTimeline, Step, Timelines

Json = Any


seen_document = SEEN.encode
"""The record of the feeds: their readings, and the transactions by the digests of their states."""


def seen_from(document: Json, states: Mapping[str, State]) -> History:
    """The feeds' histories of these states, by their digests; `LookupError` without one."""
    return History(
        tuple(reading_from(entry) for entry in document["readings"]),
        tuple(
            Transaction(**{**TRANSACTION.decode(each), "state": states[each["state"]]})
            for each in document["transactions"]
        ),
    )


def history_document(history: History, timelines: Timelines) -> Json:
    """The record of the feeds, and the course that came of it."""
    return SEEN.encode(history) | COURSE.encode(timelines)


def history_from(document: Json) -> History:
    """The readings of the feeds, as far as they decide anything; the states are in fragments."""
    return History(tuple(reading_from(entry) for entry in document["readings"]))


def course_from(document: Json) -> Timelines:
    """The course in what `history_document` wrote; `BundleError` if its parts do not fit."""
    told: dict[str, list[Json]] = {}
    for entry in document["transactions"]:
        told.setdefault(entry["source"], []).append(TRANSACTION.decode(entry))
    lines = []
    for entry in document["lines"]:
        own = told.get(entry["source"], []) if entry["touched"] else []
        if len(own) != len(entry["touched"]):
            raise BundleError(
                f"captures.json: {entry['source']} has {len(own)} transactions, but what "
                f"{len(entry['touched'])} touched"
            )
        steps = tuple(
            Step(t["id"], t["position"], t["committed_at"], frozenset(types), t.get("names", ()))
            for t, types in zip(own, entry["touched"], strict=True)
        )
        lines.append(
            SourceTimeline(entry["source"], frozenset(entry["types"]), steps, entry["gap"])
        )
    return Timelines(tuple(lines), tuple((name, cause) for name, cause in document["unfollowed"]))
