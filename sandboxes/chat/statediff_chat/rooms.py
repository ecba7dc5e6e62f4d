"""The rooms of a Synapse and what was said in them, in an owner's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from statediff.model.batches import Row
from statediff.model.schema import EntityType, Field, Kind, Purpose
from statediff.model.strictjson import Tree
from statediff.model.values import Observed
from statediff_chat.timeline import Event, Timeline, beyond, value

_ROOM: Final = Field("room", Kind.TEXT, is_nullable=False, reference="room")
_ID: Final = Field("id", Kind.TEXT, is_nullable=False)
_BY: Final = Field("by", Kind.TEXT, reference="user")
_AT: Final = Field("at", Kind.TIMESTAMP)
_REDACTED: Final = Field("is_redacted", Kind.BOOL)
_FURTHER: Final = Field("further", Kind.MAP)

ROOM: Final = EntityType(
    "room",
    ("id",),
    (
        _ID,
        Field("alias", Kind.TEXT),
        Field("name", Kind.TEXT),
        Field("topic", Kind.TEXT),
        Field("avatar", Kind.TEXT),
        Field("join_rule", Kind.TEXT),
        Field("history_visibility", Kind.TEXT),
        Field("guest_access", Kind.TEXT),
        Field("encryption", Kind.TEXT),
        Field("replaced_by", Kind.TEXT),
        Field("kind", Kind.TEXT),
        Field("version", Kind.TEXT),
        Field("creator", Kind.TEXT, reference="user"),
        Field("is_listed", Kind.BOOL),
        _FURTHER,
    ),
)
MEMBER: Final = EntityType(
    "member",
    ("room", "user"),
    (
        _ROOM,
        Field("user", Kind.TEXT, is_nullable=False, reference="user"),
        Field("membership", Kind.TEXT),
        _BY,
        Field("name", Kind.TEXT),
        Field("reason", Kind.TEXT),
        Field("is_forgotten", Kind.BOOL),
        _FURTHER,
    ),
    holds=Purpose.PERMISSIONS,
)
POWER: Final = EntityType(
    "power",
    ("room", "user"),
    (
        _ROOM,
        Field("user", Kind.TEXT, is_nullable=False, reference="user"),
        Field("level", Kind.ANY),
    ),
    holds=Purpose.PERMISSIONS,
)
POWER_RULE: Final = EntityType(
    "power_rule",
    ("room", "action"),
    (_ROOM, Field("action", Kind.TEXT, is_nullable=False), Field("level", Kind.ANY)),
    holds=Purpose.PERMISSIONS,
)
ROOM_STATE: Final = EntityType(
    "room_state",
    ("room", "kind", "on"),
    (
        _ROOM,
        Field("kind", Kind.TEXT, is_nullable=False),
        Field("on", Kind.TEXT, is_nullable=False),
        Field("content", Kind.MAP),
        _BY,
    ),
)
PIN: Final = EntityType(
    "pin",
    ("room", "post"),
    (_ROOM, Field("post", Kind.TEXT, is_nullable=False, reference="post")),
    is_association=True,
)
POST: Final = EntityType(
    "post",
    ("id",),
    (
        _ID,
        _ROOM,
        _BY,
        _AT,
        Field("kind", Kind.TEXT),
        Field("form", Kind.TEXT),
        Field("text", Kind.TEXT),
        Field("formatted", Kind.TEXT),
        Field("thread", Kind.TEXT, reference="post"),
        Field("reply_to", Kind.TEXT, reference="post"),
        Field("mentions", Kind.LIST),
        Field("media", Kind.TEXT),
        Field("is_edited", Kind.BOOL),
        _REDACTED,
        _FURTHER,
    ),
    holds=Purpose.MESSAGES,
)
EDIT: Final = EntityType(
    "edit",
    ("id",),
    (
        _ID,
        _ROOM,
        Field("post", Kind.TEXT, reference="post"),
        _BY,
        _AT,
        Field("text", Kind.TEXT),
        Field("formatted", Kind.TEXT),
        _REDACTED,
        _FURTHER,
    ),
    holds=Purpose.MESSAGES,
)
REACTION: Final = EntityType(
    "reaction",
    ("id",),
    (
        _ID,
        _ROOM,
        Field("post", Kind.TEXT, reference="post"),
        Field("sign", Kind.TEXT),
        _BY,
        _AT,
        _REDACTED,
        _FURTHER,
    ),
)
REDACTION: Final = EntityType(
    "redaction",
    ("id",),
    (
        _ID,
        _ROOM,
        Field("event", Kind.TEXT),
        _BY,
        _AT,
        Field("reason", Kind.TEXT),
        _REDACTED,
        _FURTHER,
    ),
)
ROOM_EVENT: Final = EntityType(
    "room_event",
    ("id",),
    (
        _ID,
        _ROOM,
        Field("kind", Kind.TEXT),
        Field("on", Kind.TEXT),
        _BY,
        _AT,
        Field("content", Kind.MAP),
        _REDACTED,
    ),
    holds=Purpose.HISTORY,
)
ALIAS: Final = EntityType(
    "alias",
    ("alias",),
    (
        Field("alias", Kind.TEXT, is_nullable=False),
        _ROOM,
        _BY,
        Field("servers", Kind.LIST),
    ),
)
TYPES: Final = (
    *(ALIAS, EDIT, MEMBER, PIN, POST, POWER, POWER_RULE, REACTION, REDACTION, ROOM),
    *(ROOM_EVENT, ROOM_STATE),
)
_PLAIN: Final = {
    "m.room.canonical_alias": ("alias", "alias"),
    "m.room.name": ("name", "name"),
    "m.room.topic": ("topic", "topic"),
    "m.room.avatar": ("avatar", "url"),
    "m.room.join_rules": ("join_rule", "join_rule"),
    "m.room.history_visibility": ("history_visibility", "history_visibility"),
    "m.room.guest_access": ("guest_access", "guest_access"),
    "m.room.encryption": ("encryption", "algorithm"),
    "m.room.tombstone": ("replaced_by", "replacement_room"),
}
"""Kind of state with an empty key → a field of the room, and the member of its content."""
_POWERS: Final = "m.room.power_levels"
_PINNED: Final = "m.room.pinned_events"
_MEMBER: Final = "m.room.member"
_CREATE: Final = "m.room.create"
_DEFAULTS: Final = {
    **dict.fromkeys(("ban", "kick", "redact", "state_default"), 50),
    **dict.fromkeys(("events_default", "invite", "users_default"), 0),
}
"""What the protocol takes for what a room does not say."""


def rooms(line: Timeline, rows: Mapping[str, list[Row]]) -> list[Row]:
    """Every room that the server knows, with what it is now."""
    found = []
    for row in rows.get("rooms", ()):
        id_ = str(row.get("room_id"))
        told: Row = {
            "id": row.get("room_id"),
            "version": row.get("room_version"),
            "creator": row.get("creator"),
            "is_listed": row.get("is_public"),
            "kind": None,
        }
        further: dict[str, Tree] = {}
        for kind, (name, member) in _PLAIN.items():
            event = line.state.get((id_, kind, ""))
            told[name] = None if event is None else event.text(member)
            rest = {} if event is None else {k: v for k, v in event.content.items() if k != member}
            if kind == "m.room.topic" and _is_plain_topic(rest, told[name]):
                rest = {}
            if rest:
                further[kind] = rest
        made = line.state.get((id_, _CREATE, ""))
        if made is not None:
            told["kind"] = made.text("type")
            known = ("type", "room_version", "creator")
            rest = {k: v for k, v in made.content.items() if k not in known}
            further |= {_CREATE: rest} if rest else {}
        pinned = line.state.get((id_, _PINNED, ""))
        if pinned is not None and (rest := _beside_pins(pinned.content)):
            further[_PINNED] = rest
        told["further"] = value(further) if further else None
        found.append(told)
    return found


def _beside_pins(content: dict[str, Tree]) -> dict[str, Tree]:
    """The parts of an event about pins that pin no post: all of it, if some part pins none."""
    listed = content.get("pinned")
    is_plain = (
        isinstance(listed, list)
        and all(isinstance(each, str) for each in listed)
        and len({*listed}) == len(listed)
    )
    return {name: part for name, part in content.items() if name != "pinned" or not is_plain}


def _is_plain_topic(rest: Tree, topic: Observed) -> bool:
    """True if it says the same topic once more, as newer clients do, and nothing else."""
    texts = rest.get("m.topic", {}).get("m.text") if isinstance(rest.get("m.topic"), dict) else None
    return set(rest) == {"m.topic"} and texts in (
        [{"body": topic}],
        [{"body": topic, "mimetype": "text/plain"}],
    )


def members(line: Timeline, rows: Mapping[str, list[Row]]) -> list[Row]:
    """Who is, was or may come into which room."""
    forgotten = {row.get("event_id"): row.get("forgotten") for row in rows["room_memberships"]}
    known = ("membership", "displayname", "reason")
    return [
        {
            "room": room,
            "user": user,
            "membership": event.text("membership"),
            "by": event.by,
            "name": event.text("displayname"),
            "reason": event.text("reason"),
            "is_forgotten": bool(forgotten.get(event.id)),
            "further": beyond(event.content, known),
        }
        for room, user, event in line.now(_MEMBER)
    ]


def powers(line: Timeline) -> list[Row]:
    """The level of each user that a room names."""
    found: list[Row] = []
    for room, key, event in line.now(_POWERS):
        users = event.content.get("users")
        if not key and isinstance(users, dict):
            found += [{"room": room, "user": u, "level": value(n)} for u, n in users.items()]
    return found


def power_rules(line: Timeline) -> list[Row]:
    """The level that each action in a room needs, those that the protocol fills in among them."""
    found: list[Row] = []
    for room, key, event in line.now(_POWERS):
        if key:
            continue
        levels: dict[str, Tree] = {**_DEFAULTS}
        for name, level in event.content.items():
            if name in ("events", "notifications") and isinstance(level, dict):
                levels |= {f"{name[:-1]}:{each}": needed for each, needed in level.items()}
            elif name != "users":
                levels[name] = level
        found += [{"room": room, "action": a, "level": value(n)} for a, n in levels.items()]
    return found


def pins(line: Timeline) -> list[Row]:
    """The pinned posts of each room; `room_event` says in which order."""
    found: list[Row] = []
    for room, key, event in line.now(_PINNED):
        listed = event.content.get("pinned")
        if not key and isinstance(listed, list):
            texts = dict.fromkeys(each for each in listed if isinstance(each, str))
            found += [{"room": room, "post": each} for each in texts]
    return found


def room_states(line: Timeline) -> list[Row]:
    """All that holds in a room and no other type says."""
    told = {*_PLAIN, _POWERS, _PINNED, _CREATE}
    return [
        {"room": room, "kind": kind, "on": on, "content": value(event.content), "by": event.by}
        for (room, kind, on), event in line.state.items()
        if kind != _MEMBER and not (kind in told and on == "")
    ]


def room_events(line: Timeline) -> list[Row]:
    """Every change of a room, as its timeline keeps it."""
    return [
        {
            "id": event.id,
            "room": event.room,
            "kind": event.kind,
            "on": event.on,
            "by": event.by,
            "at": event.at,
            "content": value(event.content),
            "is_redacted": event.is_redacted,
        }
        for event in line.events.values()
        if event.on is not None
    ]


def said(line: Timeline) -> dict[str, list[Row]]:
    """Type → rows, of posts, edits, reactions and redactions."""
    found: dict[str, list[Row]] = {"post": [], "edit": [], "reaction": [], "redaction": []}
    edits: dict[str, Event] = {}
    for event in line.events.values():
        if event.on is not None:
            continue
        name = _type_of(event)
        found[name].append(_ROWS[name](event))
        target = line.events.get(str(event.relation.get("event_id")))
        if name == "edit" and _may_edit(event, target):
            edits[str(event.relation["event_id"])] = event
    for row in found["post"]:
        edit = edits.get(str(row["id"]))
        row["is_edited"] = edit is not None
        if edit is not None and not row["is_redacted"]:
            content = edit.content["m.new_content"]
            row["text"] = value(content.get("body"))
            row["formatted"] = value(content.get("formatted_body"))
    return found


def _may_edit(edit: Event, target: Event | None) -> bool:
    """True if clients show it in place of the other: of the same person, kind and room."""
    return (
        target is not None
        and not edit.is_redacted
        and (edit.by, edit.kind, edit.room) == (target.by, target.kind, target.room)
        and isinstance(edit.content.get("m.new_content"), dict)
    )


def _type_of(event: Event) -> str:
    if event.kind == "m.room.redaction":
        return "redaction"
    if event.kind == "m.reaction":
        return "reaction"
    return "edit" if event.relation.get("rel_type") == "m.replace" else "post"


def _common(event: Event) -> Row:
    return {
        "id": event.id,
        "room": event.room,
        "by": event.by,
        "at": event.at,
        "is_redacted": event.is_redacted,
    }


def _post(event: Event) -> Row:
    relation = dict(event.relation)
    is_thread = relation.get("rel_type") == "m.thread"
    reply = relation.get("m.in_reply_to")
    answered = reply.get("event_id") if isinstance(reply, dict) else None
    if isinstance(reply, dict) and set(reply) == {"event_id"}:
        del relation["m.in_reply_to"]
    thread = relation.pop("event_id", None) if is_thread else None
    if is_thread:
        relation.pop("rel_type")
        if relation.pop("is_falling_back", False) is True:
            answered = None  # it answers the thread, for clients that know none
    mentions = event.content.get("m.mentions")
    named = mentions.get("user_ids") if isinstance(mentions, dict) else None
    known = ["msgtype", "body", "formatted_body", "m.relates_to", "url"]
    content = dict(event.content)
    if content.get("format") == "org.matrix.custom.html":
        known.append("format")
    if isinstance(mentions, dict) and set(mentions) <= {"user_ids"}:
        known.append("m.mentions")
    if relation or not isinstance(content.get("m.relates_to", {}), dict):
        content["m.relates_to"] = relation or content["m.relates_to"]
        known.remove("m.relates_to")
    return {
        **_common(event),
        "kind": event.kind,
        "form": event.text("msgtype"),
        "text": event.text("body"),
        "formatted": event.text("formatted_body"),
        "thread": value(thread),
        "reply_to": value(answered),
        "mentions": value(named) if isinstance(named, list) else (),
        "media": event.text("url"),
        "further": beyond(content, known),
    }


def _edit(event: Event) -> Row:
    new = event.content.get("m.new_content")
    content: dict[str, Any] = new if isinstance(new, dict) else {}
    known = ("msgtype", "body", "formatted_body", "format")
    return {
        **_common(event),
        "post": value(event.relation.get("event_id")),
        "text": value(content.get("body")),
        "formatted": value(content.get("formatted_body")),
        "further": beyond(content, known),
    }


def _reaction(event: Event) -> Row:
    told = {n: part for n, part in event.relation.items() if n in ("rel_type", "event_id", "key")}
    is_plain = event.content.get("m.relates_to") == told
    return {
        **_common(event),
        "post": value(event.relation.get("event_id")),
        "sign": value(event.relation.get("key")),
        "further": beyond(event.content, ("m.relates_to",) if is_plain else ()),
    }


def _redaction(event: Event) -> Row:
    return {
        **_common(event),
        "event": event.text("redacts"),
        "reason": event.text("reason"),
        "further": beyond(event.content, ("redacts", "reason")),
    }


_ROWS: Final = {
    "post": _post,
    "edit": _edit,
    "reaction": _reaction,
    "redaction": _redaction,
}


def aliases(rows: Mapping[str, list[Row]]) -> list[Row]:
    """The names of rooms that people type."""
    servers: dict[Any, list[Any]] = {}
    for row in rows.get("room_alias_servers", ()):
        servers.setdefault(row.get("room_alias"), []).append(row.get("server"))
    return [
        {
            "alias": row.get("room_alias"),
            "room": row.get("room_id"),
            "by": row.get("creator"),
            "servers": tuple(sorted(servers.get(row.get("room_alias"), ()), key=repr)),
        }
        for row in rows.get("room_aliases", ())
    ]
