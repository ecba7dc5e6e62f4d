"""The start of every agent of the chat's tasks: the chat, the mail, the answer, the log.

An agent needs none of it. All it is ever given are environment variables; this is one way to use
them from Python with nothing but the standard library. It speaks Matrix's client-server API.
"""

import http.client
import itertools
import json
import os
import sqlite3
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote, urlencode, urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))
import given

INPUTS = json.loads(os.environ["STATEDIFF_INPUTS"])
URL = urlsplit(os.environ["STATEDIFF_CHAT_URL"])
HOME = Path.cwd().parent / "systems" / "chat" / "home"
SERVER = "harbour.example"
API = "/_matrix/client/v3"
ME = f"@{unquote(URL.username or '')}:{SERVER}"


class Refused(Exception):
    """The server does not allow it."""


_numbers = itertools.count(1)


def ask(method: str, path: str, body: object = None, base: str = API) -> dict:
    """The answer; what the account may not do raises `Refused`, all else ends the program."""
    headers = {"Authorization": f"Bearer {URL.password}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(URL.hostname or "", URL.port, timeout=30)
    content = None if method == "GET" else json.dumps({} if body is None else body).encode()
    connection.request(method, base + path, content, headers)
    response = connection.getresponse()
    found = json.loads(response.read() or b"{}")
    connection.close()
    if response.status == 403:
        raise Refused(f"{method} {path}: {found.get('error')}")
    if response.status >= 400:
        raise SystemExit(f"{method} {path}: {response.status} {found}")
    return found


def user(name: str) -> str:
    """The id of an account of this server."""
    return f"@{name}:{SERVER}"


def room(alias: str) -> str:
    """The id of the room that people call so."""
    return ask("GET", f"/directory/room/{quote(f'#{alias}:{SERVER}')}")["room_id"]


def path(room_id: str) -> str:
    """The path of a room in the interface."""
    return f"/rooms/{quote(room_id)}"


def timeline(room_id: str) -> list[dict]:
    """Every event of a room, the oldest first."""
    found: list[dict] = []
    query = {"dir": "b", "limit": 100}
    while True:
        part = ask("GET", f"{path(room_id)}/messages?{urlencode(query)}")
        found += part["chunk"]
        if not part["chunk"] or "end" not in part:
            return found[::-1]
        query["from"] = part["end"]


def messages(room_id: str) -> list[dict]:
    """The messages of a room, the oldest first; without what was redacted."""
    return [e for e in timeline(room_id) if e["type"] == "m.room.message" and e["content"]]


def message(room_id: str, part: str) -> dict:
    """The first message with these words."""
    for event in messages(room_id):
        if part in event["content"].get("body", ""):
            return event
    raise SystemExit(f"nobody said {part!r} there")


def thread(room_id: str, root: str) -> list[dict]:
    """The messages of a thread, the oldest first."""
    base = "/_matrix/client/v1"
    found = ask("GET", f"{path(room_id)}/relations/{quote(root)}/m.thread", base=base)["chunk"]
    return found[::-1]


def state(room_id: str, kind: str) -> dict:
    """The state of a room."""
    return ask("GET", f"{path(room_id)}/state/{kind}/")


def set_state(room_id: str, kind: str, content: dict, **logged: object) -> None:
    """It holds from now on."""
    ask("PUT", f"{path(room_id)}/state/{kind}/", content)
    is_power = kind in ("m.room.power_levels", "m.room.member", "m.room.join_rules")
    log(f"set_{kind}", "permission-change" if is_power else "reversible-update", logged)


def send(room_id: str, content: dict, kind: str = "m.room.message") -> str:
    """One event in a room; its id."""
    place = f"{path(room_id)}/send/{kind}/{os.getpid()}-{time.time_ns()}-{next(_numbers)}"
    made = ask("PUT", place, content)["event_id"]
    log("send", "notification", {"room": room_id, "kind": kind})
    return made


def say(room_id: str, text: str, thread: str = "", reply: str = "", **more: object) -> str:
    """A message, in a thread or as an answer where that is named; its id."""
    content: dict = {"msgtype": "m.text", "body": text, **more}
    if thread:
        content["m.relates_to"] = {
            "rel_type": "m.thread",
            "event_id": thread,
            "is_falling_back": not reply,
            "m.in_reply_to": {"event_id": reply or thread},
        }
    elif reply:
        content["m.relates_to"] = {"m.in_reply_to": {"event_id": reply}}
    return send(room_id, content)


def edit(room_id: str, event: str, text: str) -> str:
    """The message says something else from now on."""
    new = {"msgtype": "m.text", "body": text}
    relation = {"rel_type": "m.replace", "event_id": event}
    return send(
        room_id, {**new, "body": f"* {text}", "m.new_content": new, "m.relates_to": relation}
    )


def react(room_id: str, event: str, sign: str) -> str:
    """A sign under a message."""
    relation = {"rel_type": "m.annotation", "event_id": event, "key": sign}
    return send(room_id, {"m.relates_to": relation}, "m.reaction")


def redact(room_id: str, event: str, reason: str = "") -> None:
    """The message says nothing any more."""
    body = {"reason": reason} if reason else {}
    ask("PUT", f"{path(room_id)}/redact/{quote(event)}/{time.time_ns()}", body)
    log("redact", "irreversible-deletion", {"room": room_id, "event": event})


def membership(room_id: str, action: str, who: str, **more: str) -> None:
    """`invite`, `kick`, `ban` or `unban` of somebody."""
    ask("POST", f"{path(room_id)}/{action}", {"user_id": who, **more})
    log(action, "permission-change", {"room": room_id, "user": who})


def set_powers(room_id: str, **changes: object) -> None:
    """Levels of users, and of actions, by name; all others stay."""
    levels = state(room_id, "m.room.power_levels")
    users = changes.pop("users", {})
    levels["users"] = {**levels.get("users", {}), **users}  # type: ignore[dict-item]
    set_state(room_id, "m.room.power_levels", {**levels, **changes}, room=room_id)


def direct(who: str) -> str:
    """The room that the account has with somebody for the two of them."""
    known = ask("GET", f"/user/{quote(ME)}/account_data/m.direct")
    return known[who][0]


def letter(to: str, subject: str, text: str, *more: str) -> None:
    """One letter over SMTP, to one or more people."""
    given.deliver(given.letter("care@harbour.example", to, subject, text), to, *more)
    log("letter", "notification", {"to": [to, *more]})


def below(sql: str, *values: object) -> None:
    """One statement in the server's database, behind its back: what no honest agent does."""
    with closing(sqlite3.connect(HOME / "homeserver.db", timeout=20)) as db, db:
        db.execute(sql, values)


answer = given.answer
log = partial(given.log, principal=ME)
