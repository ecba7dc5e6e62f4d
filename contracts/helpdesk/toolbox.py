"""Every agent of the helpdesk's tasks starts from this: the tracker, the answer, the log.

An agent needs none of it. All it is ever given are environment variables; this is one way to use
them from Python with nothing but the standard library. It speaks the REST interface of Roundup and
of Redmine, in Roundup's words.
"""

import base64
import http.client
import json
import os
import sqlite3
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))
import given
from given import answer  # noqa: F401 - the agents'

INPUTS = json.loads(os.environ["STATEDIFF_INPUTS"])
URL = urlsplit(os.environ["STATEDIFF_TRACKER_URL"])
HOME = Path.cwd().parent / "systems" / "tracker" / "home"
IS_REDMINE = URL.path in ("", "/")
"""Roundup names the tracker in its path; Redmine has the address for itself."""


class _Account:
    """One account on the REST interface of a tracker."""

    def __init__(self, login: str = "", password: str = "") -> None:
        self.login = login or unquote(URL.username or "")
        password = password or unquote(URL.password or "")
        word = base64.b64encode(f"{self.login}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {word}", "Content-Type": "application/json"}
        self._connection = http.client.HTTPConnection(URL.hostname or "", URL.port, timeout=30)

    def log(self, tool: str, action_class: str, **arguments: object) -> None:
        """One line in the trace, in the name of the account."""
        given.log(tool, action_class, arguments, principal=self.login)

    def _request(self, method: str, target: str, body: object, **headers: str) -> tuple[int, bytes]:
        content = None if body is None else json.dumps(body).encode()
        self._connection.request(method, target, content, {**self._headers, **headers})
        response = self._connection.getresponse()
        return response.status, response.read()


class Roundup(_Account):
    """An account of a Roundup."""

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> dict:
        """The `data` of the answer; what the tracker refuses ends the program."""
        origin = f"http://{URL.hostname}:{URL.port}"
        same = {"X-Requested-With": "agent", "Origin": origin, "Referer": origin + URL.path}
        target = f"{URL.path}rest/data/{path}"
        accepted = {"Accept": "application/json", **same, **headers}
        found = json.loads(self._request(method, target, body, **accepted)[1])
        self._connection.close()
        if "error" in found:
            raise SystemExit(f"{method} {path}: {found['error']}")
        return found["data"]

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
        """Sets properties of one item."""
        self._write("PUT", f"{kind}/{number}", values)
        self.log(f"change_{kind}", "conditional-update", number=number, **values)

    def withdraw(self, kind: str, number: int) -> None:
        """The item is retired: it is in no listing any more."""
        self._write("DELETE", f"{kind}/{number}")
        self.log(f"withdraw_{kind}", "irreversible-deletion", number=number)

    def comment(self, issue: int, body: str, author: int | None = None) -> int:
        """A new comment stands on the issue; its number."""
        who = self.user(self.login) if author is None else author
        message = {"content": body, "author": str(who), "date": ".", "type": "text/plain"}
        number = int(self.ask("POST", "msg", message)["id"])
        listed = self.item("issue", issue)["messages"]
        self.change("issue", issue, messages=[*listed, str(number)])
        self.log("comment", "reversible-update", issue=issue, comment=number)
        return number

    def comments_by(self, issue: int, person: int) -> list[int]:
        """The comments on an issue that this person made."""
        made = {m["id"] for m in self.items("msg", "creator") if m["creator"] == str(person)}
        return [int(each) for each in self.item("issue", issue)["messages"] if each in made]

    def assign(self, issue: int, person: int) -> None:
        """Hands the issue over, by the address of that one property."""
        self._write("PUT", f"issue/{issue}", {"data": str(person)}, "/assignee")
        self.log("assign", "reversible-update", issue=issue, to=person)

    def _write(self, method: str, item: str, body: object = None, part: str = "") -> None:
        """Changes an item or a part of it, unless somebody else changed it meanwhile."""
        tag = self.ask("GET", item)["@etag"]
        self.ask(method, item + part, body, **{"If-Match": tag})


class Redmine(_Account):
    """An account of a Redmine, used as the one of a Roundup."""

    def ask(self, method: str, path: str, body: object = None) -> dict:
        """The answer; what the tracker refuses ends the program."""
        status, told = self._request(method, f"/{path}", body)
        if status >= 400:
            raise SystemExit(f"{method} {path}: {status} {told[:300]!r}")
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
        self.log(f"change_{kind}", "conditional-update", number=number, **values)

    def withdraw(self, kind: str, number: int) -> None:
        """The issue is deleted, or the comment taken back."""
        if kind == "issue":
            self.ask("DELETE", f"issues/{number}.json")
        else:
            self.ask("PUT", f"journals/{number}.json", {"journal": {"notes": ""}})
        self.log(f"withdraw_{kind}", "irreversible-deletion", number=number)

    def comment(self, issue: int, body: str, author: int | None = None) -> int:
        """A new comment stands on the issue; its number.

        Redmine takes nobody's word for who wrote it: another author is put in behind its back.
        """
        self.ask("PUT", f"issues/{issue}.json", {"issue": {"notes": body}})
        number = int(self.item("issue", issue)["messages"][-1])
        self.log("comment", "reversible-update", issue=issue, comment=number)
        if author is not None:
            behind_the_tracker("", "UPDATE journals SET user_id = ? WHERE id = ?", author, number)
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


def behind_the_tracker(roundup: str, redmine: str, *parameters: object) -> None:
    """One statement on the database file, which no honest agent opens, in either's words."""
    with sqlite3.connect(HOME / ("redmine.db" if IS_REDMINE else "db/db")) as db:
        db.execute(redmine if IS_REDMINE else roundup, parameters)
    db.close()
