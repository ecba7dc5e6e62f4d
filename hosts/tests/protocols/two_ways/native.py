"""Hands that use the systems' own clients, as programs: sqlite3, psql, curl and git."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from email.utils import make_msgid
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from statediff_hosts.protocols.native import NativeAgent

from hosts.tests.protocols.two_ways.steps import Files, Given, Hands
from statediff.agents.function import FunctionAgent
from statediff.agents.trial import Trial

CLIENTS = ("sqlite3", "curl", "git")
"""What the embedded systems ask for."""


def native(act: Callable[[Hands, Given], Any]) -> NativeAgent:
    """An agent that takes the steps with clients of its own; what speaks HTTP is recorded."""

    def run(trial: Trial) -> Any:
        return act(Clients(trial.urls, trial.folder), trial.inputs)

    return NativeAgent(FunctionAgent(run, "two-ways"))


def _ran(*words: str, given: str = "", folder: Path | None = None) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder or "/nowhere"), "TZ": "UTC"}
    done = subprocess.run(
        words,
        input=given,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, f"{words[0]}: {done.stderr}{done.stdout}"
    return done.stdout


class Clients:
    """The systems of the packs by their URLs."""

    def __init__(self, urls: Mapping[str, str], folder: Path) -> None:
        self._urls = urls
        self._folder = folder
        self._clone = folder / "two-ways-clone"

    def _database(self) -> str:
        return next(url for source, url in self._urls.items() if source.endswith("-db"))

    def rows(self, sql: str) -> Sequence[Mapping[str, Any]]:
        url = self._database()
        if url.startswith("sqlite:"):
            told = _ran("sqlite3", "-json", _file(url), given=f"{sql};\n")
            return json.loads(told or "[]")  # type: ignore[no-any-return]
        if url.startswith("postgresql:"):
            told = _ran("psql", "-X", "-q", "--csv", "-c", sql, url)
            return [*csv.DictReader(told.splitlines())]
        told = _mariadb(url, sql)
        return [*csv.DictReader(told.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)]

    def change(self, *statements: str) -> None:
        url = self._database()
        if url.startswith("sqlite:"):
            script = ["PRAGMA foreign_keys = ON", "BEGIN IMMEDIATE", *statements, "COMMIT"]
            _ran("sqlite3", "-bail", _file(url), given=";\n".join(script) + ";\n")
        elif url.startswith("postgresql:"):
            each = [word for statement in statements for word in ("-c", statement)]
            _ran("psql", "-X", "-q", "-1", "-v", "ON_ERROR_STOP=1", *each, url)
        else:
            _mariadb(url, ";\n".join(["START TRANSACTION", *statements, "COMMIT"]))

    def mail(self, sender: str, to: str, subject: str, body: str) -> None:
        message = [
            f"Message-ID: {make_msgid(domain='agent.example')}",
            f"From: {sender}",
            f"To: {to}",
            f"Subject: {subject}",
            "",
            body,
            "",
        ]
        _ran(
            "curl",
            "-sS",
            "--mail-from",
            sender,
            "--mail-rcpt",
            to,
            "-T",
            "-",
            self._urls["outbox"],
            given="\r\n".join(message),
        )

    def write(self, path: str, text: str) -> None:
        place = Path(_file(self._urls["exports"]), path)
        place.write_text(text)
        place.chmod(0o644)

    def _tracker(self) -> Tracker:
        url = self._urls["tracker"]
        return Redmine(url) if urlsplit(url).path in ("", "/") else Roundup(url)

    def watchers(self, issue: int) -> set[str]:
        return self._tracker().watchers(issue)

    def update(self, issue: int, **fields: Any) -> None:
        self._tracker().update(issue, fields)

    def comment(self, issue: int, body: str) -> int:
        return self._tracker().comment(issue, body)

    def _git(self, *words: str, given: str = "", who: tuple[str, str] = ("a", "a@b")) -> str:
        if not self._clone.exists():
            url = self._urls["origin"]
            _ran("git", "clone", "-q", "--no-local", url, str(self._clone), folder=self._folder)
        name, email = who
        known = ("-c", f"user.name={name}", "-c", f"user.email={email}", "-c", "gc.auto=0")
        return _ran("git", *known, *words, given=given, folder=self._clone)

    def refs(self) -> Mapping[str, Mapping[str, str]]:
        shown = (
            "%(refname:lstrip=3) %(objectname)",
            "%(refname:lstrip=2) %(objectname) %(*objectname)",
        )
        heads = self._git("for-each-ref", f"--format={shown[0]}", "refs/remotes/origin")
        tags = self._git("for-each-ref", f"--format={shown[1]}", "refs/tags")
        named = [[line.split() for line in each.splitlines()] for each in (heads, tags)]
        branches, found = ({words[0]: words[-1] for words in each} for each in named)
        branches.pop("HEAD", None)
        return {"branches": branches, "tags": found}

    def log(self, revision: str) -> Sequence[str]:
        return self._git("rev-list", "-n", "200", f"origin/{revision}").split()

    def files(self, revision: str) -> Files:
        paths = self._git("ls-tree", "-r", "--name-only", f"origin/{revision}").splitlines()
        shown = {path: f"origin/{revision}:{path}" for path in paths if not path.startswith(".")}
        return {path: self._git("show", name) for path, name in shown.items()}

    def commit(self, branch: str, message: str, who: tuple[str, str], write: Files) -> str:
        self._git("checkout", "-q", "-B", "two-ways", f"origin/{branch}")
        for path, text in write.items():
            (self._clone / path).write_text(text)
        self._git("add", "-A")
        self._git("commit", "-q", "--cleanup=verbatim", "-F", "-", given=message, who=who)
        self._git("push", "-q", "origin", f"two-ways:refs/heads/{branch}")
        return self._git("rev-parse", "HEAD").strip()

    def tag(self, name: str, at: str, message: str, who: tuple[str, str]) -> None:
        self._git("tag", "-a", "--cleanup=verbatim", "-F", "-", name, at, given=message, who=who)
        self._git("push", "-q", "origin", f"refs/tags/{name}")

    def branch(self, name: str, at: str) -> None:
        self._git("push", "-q", "origin", f"{at}:refs/heads/{name}")

    def delete_branch(self, name: str) -> None:
        self._git("push", "-q", "origin", f":refs/heads/{name}")


def _file(url: str) -> str:
    return unquote(url.removeprefix("sqlite:///").removeprefix("file://"))


def _mariadb(url: str, sql: str) -> str:
    """With the client in the server's own container: the one in which the account is known."""
    from statediff_containers.engine import LABEL, connect  # noqa: PLC0415 - an extra

    place = urlsplit(url)
    ours = f"label={LABEL}={connect().owner.label}"
    client = [
        "mariadb",
        "--batch",
        "--raw",
        "-S",
        "/run/statediff/db.sock",
        f"-u{unquote(place.username or '')}",
        f"-p{unquote(place.password or '')}",
        place.path.lstrip("/"),
    ]
    for container in _ran("docker", "ps", "-q", "--filter", ours).split():
        into = ["docker", "exec", "-i", container, *client]
        if subprocess.run([*into, "-e", ""], capture_output=True, check=False).returncode == 0:
            return _ran(*into, given=f"{sql};\n")
    raise AssertionError("no container of this process knows the account")


class Tracker(Protocol):
    """One account on the interface of a tracker."""

    def watchers(self, issue: int) -> set[str]: ...

    def update(self, issue: int, fields: Mapping[str, Any]) -> None: ...

    def comment(self, issue: int, body: str) -> int: ...


class Roundup:
    """Its REST interface, by curl."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._login = unquote(place.username or "")
        self._origin = f"http://{place.hostname}:{place.port}"
        self._base = self._origin + place.path
        self._headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "X-Requested-With": "agent",
            "Origin": self._origin,
            "Referer": self._base,
        }
        self._user = f"{self._login}:{unquote(place.password or '')}"

    def _ask(self, method: str, path: str, body: Any = None, **more: str) -> Any:
        url = f"{self._base}rest/data/{path}"
        return _curl(method, url, self._user, {**self._headers, **more}, body)["data"]

    def _item(self, kind: str, number: int) -> Any:
        return self._ask("GET", f"{kind}/{number}?@verbose=0")["attributes"]

    def _users(self) -> dict[str, str]:
        listed = self._ask("GET", "user?@verbose=0&@fields=username")["collection"]
        return {each["username"]: str(each["id"]) for each in listed}

    def _put(self, issue: int, fields: Mapping[str, Any]) -> None:
        tag = self._ask("GET", f"issue/{issue}")["@etag"]
        self._ask("PUT", f"issue/{issue}", fields, **{"If-Match": tag})

    def watchers(self, issue: int) -> set[str]:
        logins = {number: login for login, number in self._users().items()}
        return {logins[str(each)] for each in self._item("issue", issue)["nosy"]}

    def update(self, issue: int, fields: Mapping[str, Any]) -> None:
        said = {name: fields[name] for name in ("status", "resolution") if name in fields}
        if "assignee" in fields:
            said["assignee"] = self._users()[fields["assignee"]]
        if "duplicate_of" in fields:
            said["superseder"] = str(fields["duplicate_of"])
        if fields.get("closed_now"):
            said["closed"] = "."
        if "watchers" in fields:
            users = self._users()
            said["nosy"] = [users[login] for login in fields["watchers"]]
        self._put(issue, said)

    def comment(self, issue: int, body: str) -> int:
        author = self._users()[self._login]
        message = {"content": body, "author": author, "date": ".", "type": "text/plain"}
        number = self._ask("POST", "msg", message)["id"]
        listed = self._item("issue", issue)["messages"]
        self._put(issue, {"messages": [*listed, str(number)]})
        return int(number)


class Redmine:
    """Its REST interface, by curl."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._base = f"http://{place.hostname}:{place.port}/"
        self._user = f"{unquote(place.username or '')}:{unquote(place.password or '')}"

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Content-Type": "application/json"}
        return _curl(method, self._base + path, self._user, headers, body)

    def _issue(self, number: int) -> Any:
        return self._ask("GET", f"issues/{number}.json?include=journals,watchers")["issue"]

    def _users(self) -> dict[str, int]:
        members = self._ask("GET", "projects/helpdesk/memberships.json?limit=100")["memberships"]
        numbers = sorted({each["user"]["id"] for each in members})
        return {self._ask("GET", f"users/{n}.json")["user"]["login"]: n for n in numbers}

    def watchers(self, issue: int) -> set[str]:
        logins = {number: login for login, number in self._users().items()}
        return {logins[each["id"]] for each in self._issue(issue)["watchers"]}

    def update(self, issue: int, fields: Mapping[str, Any]) -> None:
        said: dict[str, Any] = {}
        if "status" in fields:
            listed = self._ask("GET", "issue_statuses.json")["issue_statuses"]
            said["status_id"] = next(s["id"] for s in listed if s["name"] == fields["status"])
        if "resolution" in fields:
            number = ("fixed", "duplicate", "declined", "cannot-reproduce").index(
                fields["resolution"]
            )
            said["custom_fields"] = [{"id": 1, "value": str(number + 1)}]
        if "assignee" in fields:
            said["assigned_to_id"] = self._users()[fields["assignee"]]
        if "duplicate_of" in fields:
            relation = {"issue_to_id": fields["duplicate_of"], "relation_type": "duplicates"}
            self._ask("POST", f"issues/{issue}/relations.json", {"relation": relation})
        if said:
            self._ask("PUT", f"issues/{issue}.json", {"issue": said})
        if "watchers" in fields:
            users = self._users()
            wanted = {users[login] for login in fields["watchers"]}
            new = sorted(wanted - {each["id"] for each in self._issue(issue)["watchers"]})
            if new:
                people = {"watcher": {"user_ids": new}}
                self._ask("POST", f"issues/{issue}/watchers.json", people)

    def comment(self, issue: int, body: str) -> int:
        self._ask("PUT", f"issues/{issue}.json", {"issue": {"notes": body}})
        return max(each["id"] for each in self._issue(issue)["journals"] if each["notes"])


def _curl(method: str, url: str, user: str, headers: Mapping[str, str], body: Any) -> Any:
    said = [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]
    sent = [] if body is None else ["--data-binary", json.dumps(body)]
    told = _ran(
        "curl", "-sS", "-g", "--fail-with-body", "-X", method, "-u", user, *said, *sent, url
    )
    return json.loads(told) if told.strip() else {}
