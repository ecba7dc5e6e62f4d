"""Acts of the tests on a chat, by the means that an agent has."""

import contextlib
import json
import sqlite3
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote, urlsplit

SERVER = "harbour.example"


def ask(system: Any, method: str, path: str, body: object = None, token: str = "") -> Any:
    """The answer to the agent's account; `HTTPError` where it is refused."""
    url = urlsplit(system.url)
    request = urllib.request.Request(
        f"http://{url.hostname}:{url.port}/_matrix/client/v3{path}",
        None if method == "GET" else json.dumps(body or {}).encode(),
        {"Authorization": f"Bearer {token or url.password}", "Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def status(system: Any, method: str, path: str, body: object = None, token: str = "") -> int:
    """The number of the server's answer."""
    try:
        ask(system, method, path, body, token)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


def room(system: Any, alias: str) -> str:
    found = ask(system, "GET", f"/directory/room/{quote(f'#{alias}:{SERVER}')}")
    return str(found["room_id"])


def place(system: Any, alias: str) -> str:
    return f"/rooms/{quote(room(system, alias))}"


def say(system: Any, text: str, alias: str = "care", number: str = "1", **more: object) -> str:
    content = {"msgtype": "m.text", "body": text, **more}
    sent = ask(system, "PUT", f"{place(system, alias)}/send/m.room.message/{number}", content)
    return str(sent["event_id"])


def set_state(system: Any, kind: str, content: object, alias: str = "warehouse") -> None:
    ask(system, "PUT", f"{place(system, alias)}/state/{kind}/", content)


def execute(system: Any, statement: str, *values: object) -> None:
    """One statement on the database, behind the server's back."""
    with contextlib.closing(
        sqlite3.connect(system.home / "homeserver.db", timeout=20, isolation_level=None)
    ) as connection:
        connection.execute(statement, values)
