"""A chat, by the client-server API of Matrix and with the agent's account.

Rooms are named by an alias or an id, people by the first part of their id or the whole of it. What
the account's power does not allow in a room, the server itself refuses.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import quote, urlencode

from pydantic import Field

from statediff.model.trace import ActionClass
from statediff.systems.base.tool import MAX_TEXT, Arguments, Tool, ToolError, tool_name
from statediff.systems.hosted.rest import Rest

Word = Annotated[str, Field(min_length=1, max_length=255)]
Room = Annotated[
    str, Field(min_length=1, max_length=255, description="An alias such as #help, or an id.")
]
_API: Final = "_matrix/client/v3"
_POWERS: Final = "m.room.power_levels"
_SETTINGS: Final = {
    "name": ("m.room.name", "name"),
    "topic": ("m.room.topic", "topic"),
    "join_rule": ("m.room.join_rules", "join_rule"),
    "history_visibility": ("m.room.history_visibility", "history_visibility"),
}


class Nothing(Arguments):
    """No arguments."""


class OneRoom(Arguments):
    """One room."""

    room: Room


class Read(Arguments):
    """Which messages."""

    room: Room
    thread: Word | None = Field(default=None, description="Only those of the thread of this event.")
    most: int = Field(50, ge=1, le=200, description="Events at most, the newest of them.")


class Send(Arguments):
    """A message in a room."""

    room: Room
    text: str = Field(min_length=1, max_length=MAX_TEXT)
    thread: Word | None = Field(default=None, description="The event whose thread it goes into.")
    reply_to: Word | None = Field(default=None, description="The event that it answers.")


class Edit(Arguments):
    """Other words for a message of one's own."""

    room: Room
    event: Word
    text: str = Field(min_length=1, max_length=MAX_TEXT)


class React(Arguments):
    """A sign under a message."""

    room: Room
    event: Word
    sign: Annotated[str, Field(min_length=1, max_length=50)]


class Redact(Arguments):
    """An event that is to say nothing any more."""

    room: Room
    event: Word
    reason: str = Field(default="", max_length=1000)


class Membership(Arguments):
    """A change of somebody's membership of a room."""

    room: Room
    user: Word
    reason: str = Field(default="", max_length=1000)


class Powers(Arguments):
    """Levels; those that are not named stay."""

    room: Room
    users: dict[Word, int] = Field(default={}, description="User → level, from 0 to 100.")
    actions: dict[Word, int] = Field(
        default={},
        description="Action → level that it needs: events_default, state_default, ban, …",
    )


class Settings(Arguments):
    """Settings of a room; what is left out stays."""

    room: Room
    name: Word | None = None
    topic: Annotated[str, Field(max_length=2000)] | None = None
    join_rule: Word | None = None
    history_visibility: Word | None = None


class Pins(Arguments):
    """All events that are pinned from then on."""

    room: Room
    events: list[Word] = Field(max_length=100)


class Chat:
    """The operations of one chat account, created for each call of a tool."""

    def __init__(self, url: str) -> None:
        self._rest = Rest(url.removeprefix("matrix+"), what="the chat", is_token=True)
        self._server = ""

    def rooms(self, _asked: Nothing) -> Any:
        found = []
        for room in self._ask("GET", "joined_rooms")["joined_rooms"]:
            name = self._state(room, "m.room.name").get("name")
            alias = self._state(room, "m.room.canonical_alias").get("alias")
            found.append({"room": room, "alias": alias, "name": name})
        return {"rooms": found}

    def room(self, asked: OneRoom) -> Any:
        place = self._place(asked.room)
        events = self._ask("GET", f"{place}/state")
        if not isinstance(events, list):
            raise ToolError("the chat's answer is no list of events")
        return {
            "state": [
                {"kind": e["type"], "on": e["state_key"], "by": e["sender"], "says": e["content"]}
                for e in events
            ]
        }

    def read(self, asked: Read) -> Any:
        place = self._place(asked.room)
        if asked.thread is None:
            query = urlencode({"dir": "b", "limit": asked.most})
            found = self._ask("GET", f"{place}/messages?{query}")
        else:
            path = f"{place}/relations/{quote(asked.thread)}/m.thread?limit={asked.most}"
            found = self._ask("GET", path.replace("/v3/", "/v1/", 1))
        return {
            "events": [
                {
                    "event": e["event_id"],
                    "kind": e["type"],
                    "by": e["sender"],
                    "at": e["origin_server_ts"],
                    "says": e["content"],
                }
                for e in reversed(found["chunk"])
            ]
        }

    def send(self, asked: Send) -> Any:
        content: dict[str, Any] = {"msgtype": "m.text", "body": asked.text}
        reply = {"m.in_reply_to": {"event_id": asked.reply_to or asked.thread}}
        if asked.thread is not None:
            content["m.relates_to"] = {
                "rel_type": "m.thread",
                "event_id": asked.thread,
                "is_falling_back": asked.reply_to is None,
                **reply,
            }
        elif asked.reply_to is not None:
            content["m.relates_to"] = reply
        return self._send(asked.room, "m.room.message", content)

    def edit(self, asked: Edit) -> Any:
        new = {"msgtype": "m.text", "body": asked.text}
        relation = {"rel_type": "m.replace", "event_id": asked.event}
        more = {"body": f"* {asked.text}", "m.new_content": new, "m.relates_to": relation}
        return self._send(asked.room, "m.room.message", {**new, **more})

    def react(self, asked: React) -> Any:
        relation = {"rel_type": "m.annotation", "event_id": asked.event, "key": asked.sign}
        return self._send(asked.room, "m.reaction", {"m.relates_to": relation})

    def redact(self, asked: Redact) -> Any:
        place = f"{self._place(asked.room)}/redact/{quote(asked.event)}/{secrets.token_hex(8)}"
        return self._ask("PUT", place, {"reason": asked.reason} if asked.reason else {})

    def change_member(self, action: str, asked: Membership) -> Any:
        body = {"user_id": self._user(asked.user)}
        body |= {"reason": asked.reason} if asked.reason else {}
        self._ask("POST", f"{self._place(asked.room)}/{action}", body)
        return {"done": action, "user": body["user_id"]}

    def set_powers(self, asked: Powers) -> Any:
        room = self._id(asked.room)
        levels = self._state(room, _POWERS)
        users = {self._user(name): level for name, level in asked.users.items()}
        levels = {**levels, **asked.actions, "users": {**levels.get("users", {}), **users}}
        return self._ask("PUT", f"{self._place(room)}/state/{_POWERS}/", levels)

    def set_room(self, asked: Settings) -> Any:
        wanted = {n: v for n in _SETTINGS if (v := getattr(asked, n)) is not None}
        if not wanted:
            raise ToolError("nothing is to be changed; name a setting")
        for name, value in wanted.items():
            kind, member = _SETTINGS[name]
            self._ask("PUT", f"{self._place(asked.room)}/state/{kind}/", {member: value})
        return {"changed": sorted(wanted)}

    def pin(self, asked: Pins) -> Any:
        body = {"pinned": list(asked.events)}
        return self._ask("PUT", f"{self._place(asked.room)}/state/m.room.pinned_events/", body)

    def direct_chats(self, _asked: Nothing) -> Any:
        me = quote(self._ask("GET", "account/whoami")["user_id"])
        return self._ask("GET", f"user/{me}/account_data/m.direct")

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        prefix = "" if path.startswith("_matrix/") else f"{_API}/"
        return self._rest.ask(method, prefix + path, body)

    def _send(self, room: str, kind: str, content: dict[str, Any]) -> Any:
        place = f"{self._place(room)}/send/{kind}/{secrets.token_hex(8)}"
        return self._ask("PUT", place, content)

    def _state(self, room: str, kind: str) -> Any:
        try:
            return self._ask("GET", f"{self._place(room)}/state/{kind}/")
        except ToolError:
            return {}

    def _place(self, room: str) -> str:
        return f"{_API}/rooms/{quote(self._id(room))}"

    def _id(self, room: str) -> str:
        if not room.startswith("#"):
            return room
        alias = room if ":" in room else f"{room}:{self._home()}"
        return str(self._ask("GET", f"directory/room/{quote(alias)}")["room_id"])

    def _user(self, name: str) -> str:
        return name if name.startswith("@") else f"@{name}:{self._home()}"

    def _home(self) -> str:
        if not self._server:
            me = self._ask("GET", "account/whoami")["user_id"]
            self._server = str(me).partition(":")[2]
        return self._server


def chat_tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    """The tools of a chat; each call is an account's own request."""
    return tuple(_tool(source, url, *each) for each in _TOOLS)


def _tool(
    source: str,
    url: str,
    verb: str,
    text: str,
    arguments: type[Arguments],
    act: Callable[[Chat, Any], Any],
    kind: ActionClass,
) -> Tool[Any]:
    def called(taken: Any) -> Any:
        return act(Chat(url), taken)

    is_read = kind is ActionClass.READ
    name = tool_name(source, verb)
    return Tool(name, text, arguments, called, kind, is_harmless=is_read, is_one_step=True)


def _member(action: str) -> Callable[[Chat, Any], Any]:
    """The request that changes somebody's membership so."""
    return lambda chat, asked: chat.change_member(action, asked)


_Row: TypeAlias = tuple[str, str, type[Arguments], Callable[[Chat, Any], Any], ActionClass]
_READ, _SAY = ActionClass.READ, ActionClass.NOTIFICATION
_ALLOW = ActionClass.PERMISSION_CHANGE
_TOOLS: Final[tuple[_Row, ...]] = (
    ("list_rooms", "Names the rooms that you are in.", Nothing, Chat.rooms, _READ),
    ("get_room", "Reports all that holds in a room.", OneRoom, Chat.room, _READ),
    ("read", "Reports what was said in a room or a thread.", Read, Chat.read, _READ),
    ("direct_chats", "Names your direct chats.", Nothing, Chat.direct_chats, _READ),
    ("send", "Sends a message to a room.", Send, Chat.send, _SAY),
    ("edit", "Puts other words in place of a message of yours.", Edit, Chat.edit, _SAY),
    ("react", "Puts a sign under a message.", React, Chat.react, _SAY),
    (
        "redact",
        "Removes what an event says, for everybody and for good.",
        Redact,
        Chat.redact,
        ActionClass.IRREVERSIBLE_DELETION,
    ),
    ("invite", "Invites somebody to a room.", Membership, _member("invite"), _ALLOW),
    ("remove", "Removes somebody from a room.", Membership, _member("kick"), _ALLOW),
    ("ban", "Bans somebody from a room.", Membership, _member("ban"), _ALLOW),
    ("unban", "Lifts a ban.", Membership, _member("unban"), _ALLOW),
    ("set_powers", "Sets power levels in a room.", Powers, Chat.set_powers, _ALLOW),
    (
        "set_room",
        "Sets a room's name, topic, or who may join and see its history.",
        Settings,
        Chat.set_room,
        _ALLOW,
    ),
    ("pin", "Pins events in a room.", Pins, Chat.pin, ActionClass.REVERSIBLE_UPDATE),
)
