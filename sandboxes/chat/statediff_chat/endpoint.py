"""A Matrix homeserver that nobody here started: the rooms of one account, by the client API.

`matrix+http://USER:TOKEN@HOST:PORT/`, without a token in it `STATEDIFF_PASSWORD_NAME` of the source
NAME. The token is one of the account's own sessions: reading signs nobody in. Of each room that the
account is in, its state and its whole timeline are asked for; they become the same types that the
sandbox's reader finds in the server's database (`rooms`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final
from urllib.parse import quote

from statediff.capture.source import SourceRuined, SourceUnavailable
from statediff.errors import UsageError
from statediff.model.schema import EntityType
from statediff.model.values import printable
from statediff.systems.base.urls import account_of, password_variable, url_without_password
from statediff.systems.hosted.api import Api, api
from statediff.systems.hosted.listed import ListedSource, Listing
from statediff.systems.hosted.transport import http_url
from statediff.systems.relational.schema import Refine
from statediff_chat import rooms
from statediff_chat.accounts import ACCOUNT_DATA, DEVICE, USER
from statediff_chat.timeline import Event, Timeline, moment

PAGE: Final = 500
MAX_PAGES: Final = 2000
_ROOM_DATA: Final = {"room": {"timeline": {"limit": 1}, "include_leave": True}}
_SHOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "member": ("is_forgotten",),
    "alias": ("by",),
    "device": ("is_hidden",),
}
"""Type → fields that no call shows."""
_OF_USER: Final = ("id", "name", "avatar", "profile")


def _without(entity: EntityType) -> EntityType:
    left_out = _SHOWN.get(entity.name, ())
    return replace(entity, fields=tuple(f for f in entity.fields if f.name not in left_out))


TYPES: Final = (
    *(_without(each) for each in (*rooms.TYPES, DEVICE, ACCOUNT_DATA)),
    replace(USER, fields=tuple(f for f in USER.fields if f.name in _OF_USER)),
)


class MatrixAccount:
    """The messages, devices and settings that one account's client is shown."""

    def __init__(self, name: str, url: str) -> None:
        user, token = account_of(name, url)
        if token is None:
            raise UsageError(
                f"{printable(url_without_password(url))}: expected USER:TOKEN@ before the host, "
                f"or the token in {password_variable(name)}"
            )
        del user  # the token says whose it is
        self._base = http_url(url).rstrip("/") + "/_matrix/client/v3/"
        self._token = token

    def listed(self) -> Listing:
        """The account's rooms with all that was said there, its devices and its settings."""
        into = Listing()
        headers = {"Authorization": f"Bearer {self._token}"}
        with api(self._base, "the homeserver", headers=headers) as asked:
            me = _given(asked, "account/whoami")["user_id"]
            joined = _given(asked, "joined_rooms")["joined_rooms"]
            line = Timeline()
            known = [_read_room(asked, room, line, into) for room in sorted(joined)]
            for name, found in _told(line, known).items():
                for row in found:
                    into.add(name, row)
            _add_own(asked, me, into)
            users = {str(row["user"]) for row in into.rows.get("member", ())} | {me}
            for user in sorted(users):
                profile = asked.ask(f"profile/{quote(user, safe='')}")
                said = profile.content if profile.is_ok else {}
                further = {n: e for n, e in said.items() if n not in ("displayname", "avatar_url")}
                row = {"id": user, "name": said.get("displayname"), "profile": further or None}
                into.add("user", {**row, "avatar": said.get("avatar_url")})
        return into


def _given(asked: Api, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The object that is answered. Raises `SourceUnavailable` with what the server says instead."""
    status, content = asked.ask(path, query)
    if status != 200:
        said = content.get("errcode") if isinstance(content, dict) else content
        why = printable(f"{path}: {said}")
        raise SourceUnavailable(f"the homeserver answers {status} to {why}")
    if not isinstance(content, dict):
        raise SourceRuined("what answers is no homeserver")
    return content


def _read_room(asked: Api, room: str, line: Timeline, into: Listing) -> dict[str, Any]:
    """The row of the room; its events and its state are in the timeline."""
    place = f"rooms/{quote(room, safe='')}"
    status, state = asked.ask(f"{place}/state")
    if status != 200 or not isinstance(state, list):
        into.miss(f"the homeserver answers {status} for the state of {room}", *_told(line, []))
        state = []
    come = list(_timeline(asked, place, room, into))
    for number, each in enumerate(reversed(come)):
        event = _event(room, each, number)
        line.events[event.id] = event
    for each in state:
        held = line.events.get(each["event_id"]) or _event(room, each, -1)
        line.state[(room, held.kind, held.on or "")] = held
    made = line.state.get((room, "m.room.create", ""))
    aliases = asked.ask(f"{place}/aliases")
    for alias in aliases.content.get("aliases", ()) if aliases.is_ok else ():
        servers = _given(asked, f"directory/room/{quote(alias, safe='')}").get("servers", [])
        into.add("alias", {"alias": alias, "room": room, "servers": sorted(servers)})
    listed = asked.ask(f"directory/list/{place.replace('rooms/', 'room/')}")
    return {
        "room_id": room,
        "room_version": None if made is None else made.content.get("room_version", "1"),
        "creator": None if made is None else made.content.get("creator", made.by),
        "is_public": listed.is_ok and listed.content.get("visibility") == "public",
    }


def _timeline(asked: Api, place: str, room: str, into: Listing) -> Iterator[dict[str, Any]]:
    """The events of a room that the account may see, the newest first."""
    query = {"dir": "b", "limit": str(PAGE)}
    for _ in range(MAX_PAGES):
        page = _given(asked, f"{place}/messages", query)
        yield from page.get("chunk", ())
        if not page.get("end"):
            return
        query["from"] = str(page["end"])
    into.miss(f"the timeline of {room} does not end", *_told(Timeline(), []))


def _event(room: str, said: Mapping[str, Any], order: int) -> Event:
    on = said.get("state_key")
    return Event(
        id=str(said["event_id"]),
        room=room,
        kind=str(said["type"]),
        on=on if isinstance(on, str) else None,
        by=str(said["sender"]),
        at=moment(said.get("origin_server_ts")),
        order=order,
        content=dict(said["content"]),
        is_redacted="redacted_because" in said.get("unsigned", {}),
    )


def _told(line: Timeline, known: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Type → rows, of what a timeline says."""
    rows: dict[str, list[Any]] = {"rooms": known, "room_memberships": []}
    return {
        **rooms.said(line),
        "member": rooms.members(line, rows),
        "pin": rooms.pins(line),
        "power": rooms.powers(line),
        "power_rule": rooms.power_rules(line),
        "room": rooms.rooms(line, rows),
        "room_event": rooms.room_events(line),
        "room_state": rooms.room_states(line),
    }


def _add_own(asked: Api, me: str, into: Listing) -> None:
    """The account's devices, and what it has set for all rooms and for each."""
    for each in _given(asked, "devices").get("devices", ()):
        row = {"user": me, "id": each["device_id"], "name": each.get("display_name")}
        into.add("device", row)
    query = {"timeout": "0", "set_presence": "offline", "filter": json.dumps(_ROOM_DATA)}
    found = _given(asked, "sync", query)
    places = {"": found, **found.get("rooms", {}).get("join", {})}
    for room, said in places.items():
        for each in said.get("account_data", {}).get("events", ()):
            row = {"user": me, "room": room, "kind": each["type"], "content": each["content"]}
            into.add("account_data", row)


class MatrixEndpointSource(ListedSource):
    """The rooms, members, posts and settings that one account's client is shown."""

    not_observed: ClassVar[tuple[str, ...]] = (
        "rooms that the account is not in, and what was said where it may not look",
        "other accounts but for their profile, sessions, passwords, uploads and receipts",
        "what a redacted event said before; presence",
    )

    def __init__(self, name: str, url: str, refine: Refine | None = None) -> None:
        account = MatrixAccount(name, url)
        super().__init__(name, lambda: TYPES, account.listed, refine)
