"""A pack's story, played through the client-server API by its people, when the base is built.

`users` register, `rooms` are made by their owners with all that they are, `said` is what people
said and did in them, in its order. Messages that others refer to have an `as`, unique in the story.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

Json = dict[str, Any]
_API: Final = "/_matrix/client/v3"


class Refused(Exception):
    """The server did not do what the story says."""


class _People:
    """Everybody of the story, signed in."""

    def __init__(self, port: int, order: Json) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._secret = order["registration_secret"]
        self._server = order["server_name"]
        self._tokens: dict[str, str] = {}
        self._sent = 0

    def id(self, name: str) -> str:
        return f"@{name}:{self._server}"

    def ask(self, who: str, method: str, path: str, body: Json | bytes | None = None) -> Json:
        content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        headers = {"Content-Type": "application/json"}
        if isinstance(body, bytes):
            headers["Content-Type"] = "text/plain"
        if who:
            headers["Authorization"] = f"Bearer {self._tokens[who]}"
        self._connection.request(method, path, None if method == "GET" else content, headers)
        answer = self._connection.getresponse()
        found: Json = json.loads(answer.read() or b"{}")
        if answer.status >= 400:
            raise Refused(f"{who}: {method} {path}: {answer.status} {found}")
        return found

    def transaction(self) -> str:
        self._sent += 1
        return f"story-{self._sent}"

    def register(self, name: str, person: Json, password: str) -> None:
        nonce = self.ask("", "GET", "/_synapse/admin/v1/register")["nonce"]
        is_admin = bool(person.get("admin"))
        proof = hmac.new(self._secret.encode(), digestmod=hashlib.sha1)
        parts = [nonce, name, password, "admin" if is_admin else "notadmin"]
        proof.update(b"\x00".join(part.encode() for part in parts))
        made = self.ask(
            "",
            "POST",
            "/_synapse/admin/v1/register",
            {
                "nonce": nonce,
                "username": name,
                "displayname": person["name"],
                "password": password,
                "admin": is_admin,
                "mac": proof.hexdigest(),
            },
        )
        self._tokens[name] = made["access_token"]
        device = f"{_API}/devices/{quote(made['device_id'])}"
        self.ask(name, "PUT", device, {"display_name": person.get("device", "Laptop")})


def moment(text: str) -> int:
    """Milliseconds since 1970 of an instant such as `2025-10-01T09:00:00Z`."""
    return int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)


def play(port: int, order: Json, set_time: Callable[[int], None]) -> None:
    """All of the story has happened. Raises `Refused` where the server did not do it."""
    story, people = order["story"], _People(port, order)
    set_time(moment(story["begins"]))
    for name, person in story["users"].items():
        people.register(name, person, order["passwords"][name])
    rooms: dict[str, str] = {}
    for alias, room in story["rooms"].items():
        set_time(moment(room["at"]))
        rooms[alias] = _open_room(people, alias, room, rooms)
    said: dict[str, str] = {}
    for entry in story["said"]:
        set_time(moment(entry["at"]))
        _say(people, entry, rooms, said)
    set_time(moment(story["ends"]))
    for name, person in story["users"].items():
        _settle(people, name, person, rooms)


def _open_room(people: _People, alias: str, room: Json, rooms: dict[str, str]) -> str:
    by = room["by"]
    body: Json = {
        "preset": room.get("preset", "private_chat"),
        "name": room.get("name"),
        "topic": room.get("topic"),
        "visibility": "public" if room.get("public") else "private",
        "is_direct": bool(room.get("direct")),
        "initial_state": [
            {"type": kind, "state_key": key, "content": content}
            for kind, keys in room.get("state", {}).items()
            for key, content in keys.items()
        ],
    }
    if not room.get("direct"):
        body["room_alias_name"] = alias
    if room.get("space"):
        body["creation_content"] = {"type": "m.space"}
    power = room.get("power", {})
    users = {by: 100, **power.get("users", {})}
    body["power_level_content_override"] = {
        **power,
        "users": {people.id(name): level for name, level in users.items()},
    }
    made = people.ask(by, "POST", f"{_API}/createRoom", {k: v for k, v in body.items() if v})
    id_ = str(made["room_id"])
    path = f"{_API}/rooms/{quote(id_)}"
    for name in (*room.get("members", ()), *room.get("invited", ())):
        people.ask(by, "POST", f"{path}/invite", {"user_id": people.id(name)})
    for name in room.get("members", ()):
        people.ask(name, "POST", f"{path}/join")
    for child in room.get("children", ()):
        place = f"{path}/state/m.space.child/{quote(rooms[child])}"
        people.ask(by, "PUT", place, {"via": [people.id(by).partition(":")[2]]})
    return id_


def _say(people: _People, entry: Json, rooms: dict[str, str], said: dict[str, str]) -> None:
    by, room = entry["by"], f"{_API}/rooms/{quote(rooms[entry['in']])}"
    if "redacts" in entry:
        path = f"{room}/redact/{quote(said[entry['redacts']])}/{people.transaction()}"
        people.ask(by, "PUT", path, {"reason": entry["because"]} if "because" in entry else {})
        return
    if "joins" in entry:
        people.ask(by, "POST", f"{room}/join")
        return
    if "leaves" in entry:
        people.ask(by, "POST", f"{room}/leave")
        return
    if "pins" in entry:
        pinned = {"pinned": [said[name] for name in entry["pins"]]}
        people.ask(by, "PUT", f"{room}/state/m.room.pinned_events/", pinned)
        return
    kind = "m.room.message"
    if "reacts" in entry:
        kind = "m.reaction"
        relation = {"rel_type": "m.annotation", "event_id": said[entry["to"]]}
        content: Json = {"m.relates_to": {**relation, "key": entry["reacts"]}}
    else:
        content = _message(people, entry, said)
    made = people.ask(by, "PUT", f"{room}/send/{kind}/{people.transaction()}", content)
    if "as" in entry:
        said[entry["as"]] = made["event_id"]


def _message(people: _People, entry: Json, said: dict[str, str]) -> Json:
    content: Json = {"msgtype": entry.get("form", "m.text"), "body": entry["text"]}
    if "file" in entry:
        name = {"filename": entry["file"]}
        path = f"/_matrix/media/v3/upload?{urlencode(name)}"
        upload = people.ask(entry["by"], "POST", path, entry["content"].encode())
        content |= {"msgtype": "m.file", "url": upload["content_uri"], **name}
    if "edits" in entry:
        content["m.new_content"] = {"msgtype": content["msgtype"], "body": entry["text"]}
        content["body"] = f"* {entry['text']}"
        content["m.relates_to"] = {"rel_type": "m.replace", "event_id": said[entry["edits"]]}
    elif "thread" in entry:
        root = said[entry["thread"]]
        content["m.relates_to"] = {
            "rel_type": "m.thread",
            "event_id": root,
            "is_falling_back": True,
            "m.in_reply_to": {"event_id": root},
        }
    elif "replies" in entry:
        content["m.relates_to"] = {"m.in_reply_to": {"event_id": said[entry["replies"]]}}
    return content


def _settle(people: _People, name: str, person: Json, rooms: dict[str, str]) -> None:
    if person.get("chats"):
        direct = {people.id(other): [rooms[room]] for other, room in person["chats"].items()}
        path = f"{_API}/user/{quote(people.id(name))}/account_data/m.direct"
        people.ask(name, "PUT", path, direct)
    if person.get("closed"):
        path = f"/_synapse/admin/v1/deactivate/{quote(people.id(name))}"
        people.ask(person["closed"], "POST", path, {"erase": False})


def signing_key(seed: bytes) -> str:
    """A key as Synapse's configuration takes it, of 32 random bytes."""
    return f"ed25519 a_chat {base64.b64encode(seed).decode().rstrip('=')}"
