"""What every agent of the helpdesk's tasks starts from: the tracker, the answer, the log.

An agent needs none of it. All it is ever given are environment variables; this is one way to use
them from Python with nothing but the standard library.
"""

import base64
import http.client
import json
import os
import sqlite3
from pathlib import Path
from urllib.parse import unquote, urlsplit

INPUTS = json.loads(os.environ["STATEDIFF_INPUTS"])
URL = urlsplit(os.environ["STATEDIFF_TRACKER_URL"])
HOME = Path.cwd().parent / "systems" / "tracker" / "home"


class Tracker:
    """One account on the tracker's REST interface."""

    def __init__(self, login: str = "", password: str = "") -> None:
        login = login or unquote(URL.username or "")
        password = password or unquote(URL.password or "")
        origin = f"http://{URL.hostname}:{URL.port}"
        word = base64.b64encode(f"{login}:{password}".encode()).decode()
        self.login = login
        self._headers = {
            "Authorization": f"Basic {word}",
            "Accept": "application/json",
            "Content-Type": "application/json",
            "X-Requested-With": "agent",
            "Origin": origin,
            "Referer": origin + URL.path,
        }
        self._connection = http.client.HTTPConnection(URL.hostname or "", URL.port, timeout=10)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> dict:
        """The `data` of the answer; what the tracker refuses ends the program."""
        content = None if body is None else json.dumps(body).encode()
        target = f"{URL.path}rest/data/{path}"
        self._connection.request(method, target, content, {**self._headers, **headers})
        answer = json.loads(self._connection.getresponse().read())
        self._connection.close()
        if "error" in answer:
            raise SystemExit(f"{method} {path}: {answer['error']}")
        return answer["data"]

    def item(self, kind: str, number: int) -> dict:
        """The properties of one item; links are numbers."""
        return self.ask("GET", f"{kind}/{number}?@verbose=0")["attributes"]

    def items(self, kind: str, *fields: str) -> list[dict]:
        """All items of a class with these properties."""
        return self.ask("GET", f"{kind}?@verbose=0&@fields={','.join(fields)}")["collection"]

    def user(self, login: str) -> int:
        """The number of the user with this login."""
        found = [u["id"] for u in self.items("user", "username") if u["username"] == login]
        if len(found) != 1:
            raise SystemExit(f"there is no user {login}")
        return int(found[0])

    def change(self, kind: str, number: int, **values: object) -> None:
        """Sets properties of one item, unless somebody else changed it meanwhile."""
        tag = self.ask("GET", f"{kind}/{number}")["@etag"]
        self.ask("PUT", f"{kind}/{number}", values, **{"If-Match": tag})
        log(f"change_{kind}", "conditional-update", {"number": number, **values}, self.login)

    def withdraw(self, kind: str, number: int) -> None:
        """The item is retired: it is in no listing any more."""
        tag = self.ask("GET", f"{kind}/{number}")["@etag"]
        self.ask("DELETE", f"{kind}/{number}", **{"If-Match": tag})
        log(f"withdraw_{kind}", "irreversible-deletion", {"number": number}, self.login)

    def comment(self, issue: int, body: str, author: int | None = None) -> int:
        """A new comment stands on the issue; its number."""
        who = self.user(self.login) if author is None else author
        message = {"content": body, "author": str(who), "date": ".", "type": "text/plain"}
        number = int(self.ask("POST", "msg", message)["id"])
        listed = self.item("issue", issue)["messages"]
        self.change("issue", issue, messages=[*listed, str(number)])
        log("comment", "reversible-update", {"issue": issue, "comment": number}, self.login)
        return number


def database() -> sqlite3.Connection:
    """The tracker's database file, behind its back: what no honest agent opens."""
    return sqlite3.connect(HOME / "db" / "db")


def answer(**names: object) -> None:
    """Hands in the answer."""
    Path(os.environ["STATEDIFF_ANSWER"]).write_text(json.dumps(names), encoding="utf-8")


def log(tool: str, action_class: str, arguments: dict[str, object], principal: str) -> None:
    """One line in the trace."""
    line = {"tool": tool, "class": action_class, "arguments": arguments, "principal": principal}
    with Path(os.environ["STATEDIFF_TRACE"]).open("a", encoding="utf-8") as trace:
        trace.write(json.dumps(line) + "\n")
