"""The events of a Synapse: what was said and done in rooms, and what the rooms are by now.

An event is a row of `events` with its document in `event_json`. Where the two do not say the same,
or the document is none, the rows stay rows of their tables: no owner would know what they mean.
What a redaction left of an event is what the protocol keeps of it (room version 11).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from statediff.model.batches import Row
from statediff.model.strictjson import Flaw, Limits, Tree, freeze, read_tree
from statediff.model.values import Map, Observed, Value

MAX_JSON_BYTES: Final = 1024 * 1024
_LIMITS: Final = Limits(max_bytes=MAX_JSON_BYTES)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PAIRED: Final = (("type", "type"), ("room_id", "room_id"), ("sender", "sender"))
_KEPT: Final[Mapping[str, frozenset[str]]] = {
    "m.room.member": frozenset({"membership", "join_authorised_via_users_server"}),
    "m.room.join_rules": frozenset({"join_rule", "allow"}),
    "m.room.history_visibility": frozenset({"history_visibility"}),
    "m.room.power_levels": frozenset(
        (
            *("ban", "events", "events_default", "invite", "kick", "redact", "state_default"),
            *("users", "users_default"),
        )
    ),
}
"""Kind of event → the members of its content that a redaction leaves."""


@dataclass(frozen=True)
class Event:
    """One event, as everybody in the room sees it now."""

    id: str
    room: str
    kind: str
    on: str | None
    """The state key of a state event; None of a message."""
    by: str
    at: Observed
    order: int
    content: dict[str, Tree]
    is_redacted: bool

    def text(self, name: str) -> Observed:
        """A member of the content; None where there is none."""
        return value(self.content.get(name))

    @property
    def relation(self) -> dict[str, Tree]:
        """Its relation to another event, as its content says."""
        found = self.content.get("m.relates_to")
        return found if isinstance(found, dict) else {}


@dataclass
class Timeline:
    """All events by id, in the order in which they came, and the state of every room."""

    events: dict[str, Event] = field(default_factory=dict)
    state: dict[tuple[str, str, str], Event] = field(default_factory=dict)
    """(room, kind, state key) → the event that holds now."""
    odd: dict[str, list[Row]] = field(default_factory=dict)
    """Table → the rows that say nothing an owner would know."""

    def now(self, kind: str) -> Iterable[tuple[str, str, Event]]:
        """(room, state key, event) of all that holds of one kind."""
        return [(r, key, e) for (r, each, key), e in self.state.items() if each == kind]


def moment(stored: Observed) -> Observed:
    """Milliseconds since 1970 as an instant; what is none stays as it is."""
    if type(stored) is not int:
        return stored
    try:
        return _EPOCH + timedelta(milliseconds=stored)
    except OverflowError:
        return stored


def document(stored: Observed) -> Tree:
    """The JSON that a column holds; None where it holds none that is read."""
    if not isinstance(stored, str | bytes):
        return None
    try:
        return read_tree(stored.encode() if isinstance(stored, str) else stored, _LIMITS)
    except (Flaw, UnicodeEncodeError):
        return None


def value(tree: Tree) -> Value:
    """Part of a document, as a value."""
    try:
        return freeze(tree, _LIMITS.max_depth)
    except Flaw as flaw:
        return flaw.text


def beyond(content: dict[str, Tree], known: Iterable[str]) -> Observed:
    """The members of a content that nobody described otherwise; None where there are none."""
    told = set(known)
    rest = {name: part for name, part in content.items() if name not in told}
    found = value(rest)
    return found if isinstance(found, Map) and found.items else None


def timeline(rows: Mapping[str, list[Row]]) -> Timeline:
    """The timeline that the tables hold."""
    found = Timeline(odd={"events": [], "current_state_events": []})
    documents = {row.get("event_id"): row for row in rows.get("event_json", ())}
    redactions: dict[Any, set[Any]] = {}
    for row in rows.get("redactions", ()):
        redactions.setdefault(row.get("redacts"), set()).add(row.get("event_id"))
    listed = sorted(rows.get("events", ()), key=_order)
    rooms = {row.get("event_id"): row.get("room_id") for row in listed}
    for row in listed:
        by = {rooms.get(each) for each in redactions.get(row.get("event_id"), ())}
        event = _event(row, documents.get(row.get("event_id")), row.get("room_id") in by)
        if event is None or event.id in found.events:
            found.odd["events"].append(row)
        else:
            found.events[event.id] = event
            del documents[event.id]
    found.odd["event_json"] = list(documents.values())
    for row in rows.get("current_state_events", ()):
        held = found.events.get(str(row.get("event_id")))
        place = (row.get("room_id"), row.get("type"), row.get("state_key"))
        if held is None or place != (held.room, held.kind, held.on):
            found.odd["current_state_events"].append(row)
        else:
            found.state[(held.room, held.kind, held.on or "")] = held
    return found


def _order(row: Row) -> int:
    stored = row.get("stream_ordering")
    return stored if type(stored) is int else -1


def _event(row: Row, held: Row | None, is_redacted: bool) -> Event | None:
    if held is None or row.get("rejection_reason") is not None or row.get("outlier"):
        return None
    whole = document(held.get("json"))
    if not isinstance(whole, dict) or not isinstance(whole.get("content"), dict):
        return None
    same = all(row.get(column) == whole.get(name) for column, name in _PAIRED)
    on = whole.get("state_key")
    if not same or row.get("state_key") != on or held.get("room_id") != row.get("room_id"):
        return None
    if row.get("origin_server_ts") != whole.get("origin_server_ts"):
        return None
    content, kind = whole["content"], str(whole["type"])
    if is_redacted and kind != "m.room.create":
        kept = _KEPT.get(kind, frozenset())
        content = {name: part for name, part in content.items() if name in kept}
    return Event(
        id=str(row["event_id"]),
        room=str(row["room_id"]),
        kind=kind,
        on=on if isinstance(on, str) else None,
        by=str(row["sender"]),
        at=moment(row.get("origin_server_ts")),
        order=_order(row),
        content=content,
        is_redacted=is_redacted,
    )
