"""The tracker's own process: a Roundup tracker, made from a seed and served over HTTP.

`python -m statediff_trackers.roundup.server` is started by `roundup.sandbox`. It imports Roundup,
so that the evaluator need not, and it runs the pack's `schema.py`, which the evaluator never does.

1. The first line of standard input is JSON: the tracker's home, its seed, and the passwords, which
   stand in no argument and no environment variable, where the agent could read them.
2. The home is completed: its configuration, its database, the contents of its messages.
3. One line of JSON on standard output says that it listens, on loopback: `{"port": …}`.
4. Each further line, `{"ask": n}`, is answered with `n` and the number of requests in progress; if
   it brings a `password`, also with how the tracker stores that.
5. The end of standard input ends the process: it cannot outlive its starter.

The seed is a story: users and lists, then issues, each with what happened to it and when. From it
follow the items as they are at the end, and the journal of how they came to be: the same dates,
numbers and entries in every sandbox.

Each answer names the transactions that were made for its request, as the database's feed does: by
the frame of the log that ends each. Anyone who commits a change holds the database's write lock
until then, so that nobody else commits: the first transaction in the log after its position under
the lock is this connection's own (`NotedConnection`). One thread handles a request, from its
beginning to its answer: what is committed in that thread in between was made for it, however many
requests are in progress (`noting`). A name that is not certain is `?`. Nothing that a client sends
has a part in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from wsgiref.types import StartResponse, WSGIEnvironment

from roundup import instance  # type: ignore[import-untyped]  # has no annotations
from roundup.anypy.strings import repr_export  # type: ignore[import-untyped]  # has no annotations
from roundup.backends import back_sqlite  # type: ignore[import-untyped]  # as above
from roundup.cgi.wsgi_handler import RequestDispatcher  # type: ignore[import-untyped]  # as above
from roundup.date import Date  # type: ignore[import-untyped]  # as above
from roundup.password import Password  # type: ignore[import-untyped]  # as above

from statediff.systems.base.forking import read_line, say
from statediff.systems.base.wsgi import Counted, LoopbackServer, refuse
from statediff.systems.hosted.headers import HEADER, UNKNOWN
from statediff.systems.sqlite.wal import LogMarks

_LOGGED: Final = "db"
"""The tracker's database by the name of its file; those beside it are its sessions'."""
_level: Final[Any] = vars(sqlite3.Connection)["isolation_level"]


class _Request(threading.local):
    made: list[str] | None = None


_request: Final = _Request()
_logs: Final[dict[str, LogMarks]] = {}
_lock: Final = threading.Lock()
"""Over a commit and both looks at the log. Anyone who waits for it keeps nobody who has it waiting:
a commit that has changed something waits for no other lock of the database."""


@contextmanager
def noting() -> Iterator[list[str]]:
    """The list gets the name of each transaction that this thread commits from now on."""
    made: list[str] = []
    _request.made = made
    try:
        yield made
    finally:
        _request.made = None


class NotedConnection(sqlite3.Connection):
    """A connection whose commits are noted, if it is to a tracker's database."""

    def __init__(self, database: str, *given: Any, **named: Any) -> None:
        super().__init__(database, *given, **named)
        self._database = database
        self._changes = 0
        """What it had changed when the last transaction ended."""

    def commit(self) -> None:
        made = _request.made
        try:
            if made is not None and self.in_transaction and Path(self._database).name == _LOGGED:
                made += self._commit_noted()
            else:
                super().commit()
        finally:
            self._changes = self.total_changes

    def rollback(self) -> None:
        super().rollback()
        self._changes = self.total_changes

    @property
    def isolation_level(self) -> Any:
        return _level.__get__(self)

    @isolation_level.setter
    def isolation_level(self, level: Any) -> None:
        if level is None:
            self.commit()  # as the base class would, and Roundup relies upon: unnoted
        _level.__set__(self, level)

    def _commit_noted(self) -> list[str]:
        """Commits; the name of the transaction, if there was one."""
        has_changed = self.total_changes != self._changes
        with _lock:
            log = _logs.setdefault(self._database, LogMarks(_LOGGED, self._database))
            is_readable = True
            try:
                log.note()
            except OSError:
                is_readable = False
            super().commit()
            try:
                new = [mark.name for mark in log.since()] if is_readable else []
            except OSError:
                new = []
        if has_changed and new and new[0] is not None:
            return [new[0]]
        # A change of the schema only is not counted; what is new may be that, or somebody else's.
        return [UNKNOWN] if new or has_changed or not is_readable else []


ADMIN: Final = "1"
LISTS: Final = ("component", "priority", "status", "resolution")
FOUNDED: Final = "2025-09-01 08:00:00"

_Item = dict[str, Any]


class _Story:
    """Items by class and number, their journals and texts, while the seed's story is replayed."""

    def __init__(self, seed: Mapping[str, Any]) -> None:
        self.items: dict[str, dict[str, _Item]] = {}
        self.journals: dict[str, list[tuple[str, Date, str, str, dict[str, Any]]]] = {}
        self.texts: dict[tuple[str, str], str] = {}
        self.names: dict[tuple[str, str], str] = {}
        for name in LISTS:
            for position, entry in enumerate(seed[name]):
                self._name(name, entry, {"name": entry, "order": position + 1})

    def _name(self, kind: str, name: str, values: _Item) -> None:
        self.names[kind, name] = self.create(kind, FOUNDED, ADMIN, values)

    def users(self, entries: list[Mapping[str, Any]], passwords: Mapping[str, Password]) -> None:
        for entry in entries:
            values = {
                "username": entry["login"],
                "realname": entry.get("name"),
                "address": entry.get("email"),
                "roles": ",".join(entry["roles"]),
                "password": passwords.get(entry["login"]),
            }
            self._name("user", entry["login"], values)

    def create(self, kind: str, at: str, by: str, values: _Item, text: str | None = None) -> str:
        items = self.items.setdefault(kind, {})
        number = str(len(items) + 1)
        when = _date(at)
        items[number] = {**values, "creation": when, "creator": by, "activity": when, "actor": by}
        self._record(kind, number, when, by, "create", {})
        if text is not None:
            self.texts[kind, number] = text
        return number

    def change(self, kind: str, number: str, at: str, by: str, values: _Item) -> None:
        item, when = self.items[kind][number], _date(at)
        before: dict[str, Any] = {}
        for name, value in values.items():
            old = item.get(name)
            if isinstance(value, list):
                before[name] = (("+", [each for each in value if each not in (old or [])]),)
            else:
                before[name] = old
            item[name] = value
        item.update(activity=when, actor=by)
        self._record(kind, number, when, by, "set", before)

    def retire(self, kind: str, number: str, at: str, by: str) -> None:
        self.items[kind][number]["is retired"] = 1
        self._record(kind, number, _date(at), by, "retired", None)

    def _record(
        self, kind: str, number: str, when: Date, by: str, action: str, params: Any
    ) -> None:
        self.journals.setdefault(kind, []).append((number, when, by, action, params))

    def user(self, login: str) -> str:
        return self.names["user", login]

    def linked(self, values: Mapping[str, Any]) -> _Item:
        """The values of an issue as the seed names them, as the tracker stores them."""
        found: _Item = {}
        for name, value in values.items():
            if name in LISTS:
                found[name] = self.names[name, value]
            elif name == "assignee":
                found[name] = self.user(value)
            elif name == "closed":
                found[name] = _date(value)
            elif name == "superseder":
                found[name] = str(value)
            else:
                found[name] = value
        return found


def plant(db: Any, seed: Mapping[str, Any], passwords: Mapping[str, str]) -> None:
    """The open tracker holds the seed's story; the caller commits."""
    story = _Story(seed)
    known = {u["login"]: u["password"] for u in seed["users"] if "password" in u}
    words = {**known, **passwords}
    hashed = {login: Password(word, config=db.config) for login, word in words.items()}
    story.users(seed["users"], hashed)
    _tell(story, seed["issues"])
    for kind, items in story.items.items():
        made = db.getclass(kind)
        for number, item in items.items():
            values = {"id": number, **item}
            made.import_list(
                list(values), [repr_export(_plain(value)) for value in values.values()]
            )
            db.setid(kind, number)
        by_item: dict[str, list[tuple[str, Date, str, str, Any]]] = {}
        for entry in story.journals[kind]:
            by_item.setdefault(entry[0], []).append(entry)
        for number, entries in by_item.items():
            db.setjournal(kind, number, entries)
    for (kind, number), text in story.texts.items():
        db.storefile(kind, number, None, text.encode())


def _tell(story: _Story, issues: list[Mapping[str, Any]]) -> None:
    events: list[tuple[str, int, int, Mapping[str, Any]]] = []
    for number, issue in enumerate(issues, 1):
        events.append((issue["at"], number, 0, issue))
        events += [(e["at"], number, n, e) for n, e in enumerate(issue.get("then", ()), 1)]
    said: dict[int, list[str]] = {}
    for at, number, step, event in sorted(events, key=lambda each: each[:3]):
        by, issue_id = story.user(event["by"]), str(number)
        if step == 0:
            values = story.linked(
                {k: event[k] for k in ("title", "component", "priority", "status") if k in event}
            )
            watchers = [story.user(login) for login in event.get("watchers", ())]
            fresh = {**values, "nosy": watchers, "messages": [], "files": []}
            if story.create("issue", at, by, fresh) != issue_id:
                raise ValueError(f"issue {number} of the seed stands before an older one")
        if "set" in event:
            story.change("issue", issue_id, at, by, story.linked(event["set"]))
        if "say" in event:
            values = {"author": by, "date": _date(at), "type": "text/plain"}
            comment = story.create("msg", at, by, values, event["say"])
            said.setdefault(number, []).append(comment)
            listed = story.items["issue"][issue_id]["messages"]
            story.change("issue", issue_id, at, by, {"messages": [*listed, comment]})
        if "attach" in event:
            values = {"name": event["attach"], "type": event.get("type", "text/plain")}
            file = story.create("file", at, by, values, event["text"])
            listed = story.items["issue"][issue_id]["files"]
            story.change("issue", issue_id, at, by, {"files": [*listed, file]})
        if "retract" in event:
            story.retire("msg", said[number][event["retract"] - 1], at, by)


def _date(at: str) -> Date:
    moment = datetime.strptime(at, "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007 - Roundup keeps UTC
    return Date(moment.strftime("%Y%m%d%H%M%S"))


def _plain(value: Any) -> Any:
    """A value in the form of Roundup's own exports."""
    if isinstance(value, Date):
        return value.get_tuple()
    return str(value) if isinstance(value, Password) else value


MOUNT: Final = "/helpdesk"
PASSWORD_ROUNDS: Final = 1000
"""Passwords are random and live as long as the sandbox: stretching costs 190 ms a call."""

CONFIG: Final = """\
[main]
database = db
templates = html
template_engine = zopetal
admin_email = admin@helpdesk.example
dispatcher_email = admin@helpdesk.example
indexer = native
password_pbkdf2_default_rounds = {rounds}
[tracker]
name = helpdesk
web = http://127.0.0.1:{port}{mount}/
email = issues@helpdesk.example
[web]
secret_key = {secret}
[rdbms]
backend = sqlite
[mail]
domain = helpdesk.example
host = localhost
"""


class Tracker:
    """The tracker behind its mount point."""

    def __init__(self, home: Path) -> None:
        self._tracker = RequestDispatcher(str(home))
        self.config = self._tracker.tracker.config

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if not path.startswith(f"{MOUNT}/"):
            return refuse(start, "404 Not Found", "there is nothing outside /helpdesk/")
        environ["SCRIPT_NAME"], environ["PATH_INFO"] = MOUNT, path[len(MOUNT) :]
        return self._answer(environ, start)

    def _answer(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """The answer, whose head is sent only when nothing more is done for the request."""
        told: list[tuple[str, list[tuple[str, str]]]] = []
        pieces: list[bytes] = []

        def begin(
            status: str, headers: list[tuple[str, str]], *_: object
        ) -> Callable[[bytes], object]:
            told.append((status, headers))
            return pieces.append

        with noting() as made:
            pieces += self._tracker(environ, begin)
        status, headers = told[-1]
        # First: whatever a later header holds cannot end the head before it.
        write = start(status, [(HEADER, " ".join(made)), *headers])
        for piece in pieces:
            write(piece)
        return ()


def complete(home: Path, order: dict[str, Any], port: int) -> None:
    """The home is a tracker: configured, with the seed's issues, alone in its database folder."""
    config = CONFIG.format(port=port, mount=MOUNT, secret=order["secret"], rounds=PASSWORD_ROUNDS)
    (home / "config.ini").write_text(config, encoding="utf-8")
    tracker = instance.open(str(home))
    db = tracker.open("admin")
    try:
        plant(db, order["seed"], order["passwords"])
        db.commit()
    finally:
        db.close()
    with contextlib.closing(sqlite3.connect(home / "db" / "db", isolation_level=None)) as own:
        # One file, and anyone who opens it begins a log: what a feed follows.
        own.execute("PRAGMA journal_mode = DELETE")
        own.execute("VACUUM")
        own.execute("PRAGMA journal_mode = WAL")


def main() -> None:
    """The process: it ends with standard input."""
    with contextlib.ExitStack() as opened:
        stdin = opened.enter_context(os.fdopen(os.dup(0), "rb", buffering=0))
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a device
            os.dup2(nothing.fileno(), 0)  # Roundup reads standard input where it expects a form
        replies = opened.enter_context(os.fdopen(os.dup(1), "wb", buffering=0))
        os.dup2(2, 1)  # what anything in here prints is no reply
        order = json.loads(read_line(stdin))
        home = Path(order["home"])
        connect = partial(sqlite3.connect, factory=NotedConnection)
        back_sqlite.sqlite = SimpleNamespace(**{**vars(sqlite3), "connect": connect})
        server = opened.enter_context(LoopbackServer())
        complete(home, order, server.server_port)
        tracker = Tracker(home)
        requests = Counted(tracker)
        server.set_app(requests)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        say(replies, {"port": server.server_port})
        while line := read_line(stdin):
            asked = json.loads(line)
            reply = {"ask": asked["ask"], "in_progress": requests.in_progress}
            if "password" in asked:
                reply["stored"] = str(Password(asked["password"], config=tracker.config))
            say(replies, reply)
        server.shutdown()


if __name__ == "__main__":
    main()
