"""The issues of a tracker, as a pack's seed tells them, written the way Roundup imports an export.

A seed is a story: users and lists, then issues, each with what happened to it and when. From it
follow the items as they are at the end, and the journal of how they came to be: the same dates,
numbers and entries in every sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from roundup.anypy.strings import repr_export  # type: ignore[import-untyped]  # has no annotations
from roundup.date import Date  # type: ignore[import-untyped]  # as above
from roundup.password import Password  # type: ignore[import-untyped]  # as above

ADMIN: Final = "1"
LISTS: Final = ("component", "priority", "status", "resolution")
FOUNDED: Final = "2025-09-01 08:00:00"

_Item = dict[str, Any]


class _Story:
    """Items by class and number, their journals and texts, while the story is told."""

    def __init__(self, seed: Mapping[str, Any]) -> None:
        self.items: dict[str, dict[str, _Item]] = {}
        self.journals: dict[str, list[tuple[str, Date, str, str, dict[str, Any]]]] = {}
        self.texts: dict[tuple[str, str], str] = {}
        self.names: dict[tuple[str, str], str] = {}
        for name in LISTS:
            for position, entry in enumerate(seed[name]):
                self._named(name, entry, {"name": entry, "order": position + 1})

    def _named(self, kind: str, name: str, values: _Item) -> None:
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
            self._named("user", entry["login"], values)

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
