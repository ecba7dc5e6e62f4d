"""The accounts of a Synapse: who there is, what lets them in, what they have set, what they sent.

Secrets appear as digests. What only says when somebody was here last is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from statediff.model.batches import Row
from statediff.model.schema import EntityType, Field, Kind, Purpose
from statediff.model.values import Observed, Unobserved
from statediff.systems.hosted.folder import content_digest
from statediff_chat.timeline import document, moment, value

_USER: Final = Field("user", Kind.TEXT, is_nullable=False, reference="user")

USER: Final = EntityType(
    "user",
    ("id",),
    (
        Field("id", Kind.TEXT, is_nullable=False),
        Field("name", Kind.TEXT),
        Field("avatar", Kind.TEXT),
        Field("profile", Kind.MAP),
        Field("is_admin", Kind.BOOL),
        Field("is_deactivated", Kind.BOOL),
        Field("is_locked", Kind.BOOL),
        Field("is_suspended", Kind.BOOL),
        Field("is_shadow_banned", Kind.BOOL),
        Field("is_approved", Kind.BOOL),
        Field("is_guest", Kind.BOOL),
        Field("kind", Kind.TEXT),
        Field("service", Kind.TEXT),
        Field("password", Kind.TEXT),
        Field("consent", Kind.TEXT),
        Field("created_at", Kind.TIMESTAMP),
    ),
    holds=Purpose.PERMISSIONS,
)
DEVICE: Final = EntityType(
    "device",
    ("user", "id"),
    (
        _USER,
        Field("id", Kind.TEXT, is_nullable=False),
        Field("name", Kind.TEXT),
        Field("is_hidden", Kind.BOOL),
    ),
)
SESSION: Final = EntityType(
    "session",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("user", Kind.TEXT, reference="user"),
        Field("device", Kind.TEXT),
        Field("token", Kind.TEXT),
        Field("acts_for", Kind.TEXT, reference="user"),
        Field("valid_until", Kind.TIMESTAMP),
        Field("refresh", Kind.INT),
    ),
    holds=Purpose.PERMISSIONS,
)
ACCOUNT_DATA: Final = EntityType(
    "account_data",
    ("user", "room", "kind"),
    (
        _USER,
        Field("room", Kind.TEXT, is_nullable=False),
        Field("kind", Kind.TEXT, is_nullable=False),
        Field("content", Kind.MAP),
    ),
)
DIRECT_CHAT: Final = EntityType(
    "direct_chat",
    ("user", "with", "room"),
    (
        _USER,
        Field("with", Kind.TEXT, is_nullable=False, reference="user"),
        Field("room", Kind.TEXT, is_nullable=False, reference="room"),
    ),
    is_association=True,
)
RECEIPT: Final = EntityType(
    "receipt",
    ("user", "room", "kind", "thread"),
    (
        _USER,
        Field("room", Kind.TEXT, is_nullable=False, reference="room"),
        Field("kind", Kind.TEXT, is_nullable=False),
        Field("thread", Kind.TEXT, is_nullable=False),
        Field("post", Kind.TEXT, reference="post"),
    ),
)
MEDIA: Final = EntityType(
    "media",
    ("id",),
    (
        Field("id", Kind.TEXT, is_nullable=False),
        Field("by", Kind.TEXT, reference="user"),
        Field("name", Kind.TEXT),
        Field("type", Kind.TEXT),
        Field("size", Kind.INT),
        Field("created_at", Kind.TIMESTAMP),
        Field("quarantined_by", Kind.TEXT),
        Field("is_safe", Kind.BOOL),
        Field("is_private", Kind.BOOL),
        Field("digest", Kind.TEXT),
    ),
)
TYPES: Final = (ACCOUNT_DATA, DEVICE, DIRECT_CHAT, MEDIA, RECEIPT, SESSION, USER)
_DIRECT: Final = "m.direct"
_EVERYWHERE: Final = ""


def hidden(stored: Observed) -> Observed:
    """A digest in place of a secret."""
    if stored is None or isinstance(stored, Unobserved):
        return stored
    return content_digest(stored if isinstance(stored, bytes) else str(stored).encode())


def truth(stored: Observed) -> Observed:
    """A flag that is kept as a number; none is no."""
    if stored in (None, 0, 1):
        return bool(stored)
    return stored


def users(rows: Mapping[str, list[Row]]) -> list[Row]:
    """Every account, with its profile."""
    profiles = {row.get("full_user_id"): row for row in rows.get("profiles", ())}
    erased = {row.get("user_id") for row in rows.get("erased_users", ())}
    found = []
    for row in rows.get("users", ()):
        profile = profiles.get(row.get("name"), {})
        consent = row.get("consent_version")
        found.append(
            {
                "id": row.get("name"),
                "name": profile.get("displayname"),
                "avatar": profile.get("avatar_url"),
                "profile": value(document(profile.get("fields"))),
                "is_admin": truth(row.get("admin")),
                "is_deactivated": truth(row.get("deactivated")),
                "is_locked": truth(row.get("locked")),
                "is_suspended": truth(row.get("suspended")),
                "is_shadow_banned": truth(row.get("shadow_banned")),
                "is_approved": truth(row.get("approved")),
                "is_guest": truth(row.get("is_guest")),
                "kind": row.get("user_type"),
                "service": row.get("appservice_id"),
                "password": hidden(row.get("password_hash")),
                "consent": "erased" if row.get("name") in erased else consent,
                "created_at": moment(_milliseconds(row.get("creation_ts"))),
            }
        )
    return found


def _milliseconds(seconds: Observed) -> Observed:
    return seconds * 1000 if type(seconds) is int else seconds


def devices(rows: Mapping[str, list[Row]]) -> list[Row]:
    """The devices of people's sign-ins. Keys that Synapse keeps as hidden devices are marked so."""
    return [
        {
            "user": row.get("user_id"),
            "id": row.get("device_id"),
            "name": row.get("display_name"),
            "is_hidden": truth(row.get("hidden")),
        }
        for row in rows.get("devices", ())
    ]


def sessions(rows: Mapping[str, list[Row]]) -> list[Row]:
    """Every access token, as a digest."""
    return [
        {
            "id": row.get("id"),
            "user": row.get("user_id"),
            "device": row.get("device_id"),
            "token": hidden(row.get("token")),
            "acts_for": row.get("puppets_user_id"),
            "valid_until": moment(row.get("valid_until_ms")),
            "refresh": row.get("refresh_token_id"),
        }
        for row in rows.get("access_tokens", ())
    ]


def account_data(rows: Mapping[str, list[Row]]) -> list[Row]:
    """People's settings, everywhere and in a room; who they chat with directly is apart."""
    stored = [(_EVERYWHERE, row) for row in rows.get("account_data", ())]
    stored += [(str(row.get("room_id")), row) for row in rows.get("room_account_data", ())]
    found = []
    for room, row in stored:
        if row.get("account_data_type") == _DIRECT and direct_of(row) is not None:
            continue
        content = document(row.get("content"))
        told = content if isinstance(content, dict) else {"": str(row.get("content"))}
        found.append(
            {
                "user": row.get("user_id"),
                "room": room,
                "kind": row.get("account_data_type"),
                "content": value(told),
            }
        )
    return found


def direct_of(row: Row) -> list[tuple[str, str]] | None:
    """(other, room) of each direct chat; None where it does not say so in the usual form."""
    content = document(row.get("content"))
    if not isinstance(content, dict):
        return None
    found: list[tuple[str, str]] = []
    for other, rooms in content.items():
        if not isinstance(rooms, list) or not all(isinstance(each, str) for each in rooms):
            return None
        found += [(other, room) for room in dict.fromkeys(rooms)]
    return found


def direct_chats(rows: Mapping[str, list[Row]]) -> list[Row]:
    """Who has which room with whom for the two of them."""
    return [
        {"user": row.get("user_id"), "with": other, "room": room}
        for row in rows.get("account_data", ())
        if row.get("account_data_type") == _DIRECT
        for other, room in direct_of(row) or ()
    ]


def receipts(rows: Mapping[str, list[Row]]) -> list[Row]:
    """Up to where people have read."""
    return [
        {
            "user": row.get("user_id"),
            "room": row.get("room_id"),
            "kind": row.get("receipt_type"),
            "thread": row.get("thread_id") or "",
            "post": row.get("event_id"),
        }
        for row in rows.get("receipts_linearized", ())
    ]


def media(rows: Mapping[str, list[Row]], content: Callable[[str], Any]) -> list[Row]:
    """Every file that was uploaded; `content` is what is on disk for it."""
    found: list[Row] = []
    for row in rows.get("local_media_repository", ()):
        held = content(str(row.get("media_id")))
        found.append(
            {
                "id": row.get("media_id"),
                "by": row.get("user_id"),
                "name": row.get("upload_name"),
                "type": row.get("media_type"),
                "size": row.get("media_length"),
                "created_at": moment(row.get("created_ts")),
                "quarantined_by": row.get("quarantined_by"),
                "is_safe": truth(row.get("safe_from_quarantine")),
                "is_private": truth(row.get("authenticated")),
                "digest": content_digest(held) if isinstance(held, bytes) else held,
            }
        )
    return found
