"""What every agent of the helpdesk's tasks starts from: the tracker, the answer, the log.

An agent needs none of it. All it is ever given are environment variables; this is one way to use
them from Python with nothing but the standard library. It speaks the REST interface of Roundup and
of Redmine, in Roundup's words.
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
IS_REDMINE = URL.path in ("", "/")
"""Roundup names the tracker in its path; Redmine has the address for itself."""


class Roundup:
    """One account on the REST interface of a Roundup."""

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

    def comments_by(self, issue: int, person: int) -> list[int]:
        """The comments on an issue that this person made."""
        made = {m["id"] for m in self.items("msg", "creator") if m["creator"] == str(person)}
        return [int(each) for each in self.item("issue", issue)["messages"] if each in made]

    def assign(self, issue: int, person: int) -> None:
        """Hands the issue over, by the address of that one property."""
        tag = self.ask("GET", f"issue/{issue}")["@etag"]
        target = f"issue/{issue}/assignee"
        self.ask("PUT", target, {"data": str(person)}, **{"If-Match": tag})
        log("assign", "reversible-update", {"issue": issue, "to": person}, self.login)


class Redmine:
    """One account on the REST interface of a Redmine, used as the one of a Roundup."""

    def __init__(self, login: str = "", password: str = "") -> None:
        self.login = login or unquote(URL.username or "")
        password = password or unquote(URL.password or "")
        word = base64.b64encode(f"{self.login}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {word}", "Content-Type": "application/json"}
        self._connection = http.client.HTTPConnection(URL.hostname or "", URL.port, timeout=30)

    def ask(self, method: str, path: str, body: object = None) -> dict:
        """The answer; what the tracker refuses ends the program."""
        content = None if body is None else json.dumps(body).encode()
        self._connection.request(method, f"/{path}", content, self._headers)
        response = self._connection.getresponse()
        told = response.read()
        if response.status >= 400:
            raise SystemExit(f"{method} {path}: {response.status} {told[:300]!r}")
        return json.loads(told) if told.strip() else {}

    def item(self, kind: str, number: int) -> dict:
        """The watchers and comments of an issue; links are numbers."""
        found = self.ask("GET", f"{kind}s/{number}.json?include=journals,watchers")[kind]
        said = [str(entry["id"]) for entry in found["journals"] if entry["notes"]]
        return {"nosy": [str(each["id"]) for each in found["watchers"]], "messages": said}

    def comments_by(self, issue: int, person: int) -> list[int]:
        """The comments on an issue that this person made."""
        found = self.ask("GET", f"issues/{issue}.json?include=journals")["issue"]["journals"]
        return [e["id"] for e in found if e["notes"] and e["user"]["id"] == person]

    def user(self, login: str) -> int:
        """The number of the user with this login."""
        members = self.ask("GET", "projects/helpdesk/memberships.json?limit=100")["memberships"]
        people = [member["user"] for member in members]
        people.sort(key=lambda user: user["name"].lower().replace(" ", ".") != login)
        for user in people:
            if self.ask("GET", f"users/{user['id']}.json")["user"]["login"] == login:
                return int(user["id"])
        raise SystemExit(f"there is no user {login}")

    def change(self, kind: str, number: int, **values: object) -> None:
        """Sets properties of an issue: by one request, and one more for each that is no field."""
        assert kind == "issue"
        fields: dict[str, object] = {}
        for name, value in values.items():
            match name:
                case "status":
                    fields["status_id"] = self._named("issue_statuses", value)
                case "resolution":
                    entry = {"id": 1, "value": str(RESOLUTIONS.index(str(value)) + 1)}
                    fields["custom_fields"] = [entry]
                case "assignee":
                    fields["assigned_to_id"] = value
                case "closed" if value != ".":  # Redmine itself says when it was closed
                    fields["closed_on"] = str(value).replace(".", "T") + "Z"
        if "superseder" in values:
            relation = {"issue_to_id": values["superseder"], "relation_type": "duplicates"}
            self.ask("POST", f"issues/{number}/relations.json", {"relation": relation})
        if fields:
            self.ask("PUT", f"issues/{number}.json", {"issue": fields})
        if "nosy" in values:
            self._watch(number, {str(each) for each in values["nosy"]})  # type: ignore[attr-defined]
        log(f"change_{kind}", "conditional-update", {"number": number, **values}, self.login)

    def withdraw(self, kind: str, number: int) -> None:
        """The issue is deleted, or the comment taken back."""
        if kind == "issue":
            self.ask("DELETE", f"issues/{number}.json")
        else:
            self.ask("PUT", f"journals/{number}.json", {"journal": {"notes": ""}})
        log(f"withdraw_{kind}", "irreversible-deletion", {"number": number}, self.login)

    def comment(self, issue: int, body: str, author: int | None = None) -> int:
        """A new comment stands on the issue; its number.

        Redmine takes nobody's word for who wrote it: another author is put in behind its back.
        """
        self.ask("PUT", f"issues/{issue}.json", {"issue": {"notes": body}})
        number = int(self.item("issue", issue)["messages"][-1])
        log("comment", "reversible-update", {"issue": issue, "comment": number}, self.login)
        if author is not None:
            with database() as db:
                db.execute("UPDATE journals SET user_id = ? WHERE id = ?", (author, number))
            db.close()
        return number

    def assign(self, issue: int, person: int) -> None:
        """Hands the issue over."""
        self.change("issue", issue, assignee=person)

    def _watch(self, issue: int, wanted: set[str]) -> None:
        watching = set(self.item("issue", issue)["nosy"])
        for person in sorted(watching - wanted):
            self.ask("DELETE", f"issues/{issue}/watchers/{person}.json")
        if wanted - watching:
            people = {"user_ids": sorted(wanted - watching)}
            self.ask("POST", f"issues/{issue}/watchers.json", {"watcher": people})

    def _named(self, kind: str, name: object) -> int:
        listed = self.ask("GET", f"{kind}.json")[kind]
        return next(int(each["id"]) for each in listed if each["name"] == name)


RESOLUTIONS = ("fixed", "duplicate", "declined", "cannot-reproduce")
Tracker = Redmine if IS_REDMINE else Roundup


def database() -> sqlite3.Connection:
    """The tracker's database file, behind its back: what no honest agent opens."""
    return sqlite3.connect(HOME / ("redmine.db" if IS_REDMINE else "db/db"))


def behind_the_tracker(roundup: str, redmine: str, *parameters: object) -> None:
    """One statement on the database file, in the words of either tracker."""
    with database() as db:
        db.execute(redmine if IS_REDMINE else roundup, parameters)
    db.close()


def answer(**names: object) -> None:
    """Hands in the answer."""
    Path(os.environ["STATEDIFF_ANSWER"]).write_text(json.dumps(names), encoding="utf-8")


def log(tool: str, action_class: str, arguments: dict[str, object], principal: str) -> None:
    """One line in the trace."""
    line = {"tool": tool, "class": action_class, "arguments": arguments, "principal": principal}
    with Path(os.environ["STATEDIFF_TRACE"]).open("a", encoding="utf-8") as trace:
        trace.write(json.dumps(line) + "\n")
