"""Roundup, in the words of `tracker`."""

from __future__ import annotations

from typing import Any, Final

from statediff.model.trace import Mark
from statediff.systems.base.tool import ToolError
from statediff.systems.hosted.rest import Rest
from statediff_trackers.tools import Comment, New, Search, Update

_LISTED: Final = "title,status,priority,assignee"


class Roundup:
    """The operations of one Roundup account, created for each call of a tool."""

    def __init__(self, url: str) -> None:
        # It answers requests only of pages that are its own.
        self._rest = Rest(url, {"X-Requested-With": "agent"})
        self._from = {"Origin": self._rest.origin, "Referer": self._rest.base}

    def made(self, source: str) -> tuple[Mark, ...]:
        return self._rest.made(source)

    def search(self, asked: Search) -> Any:
        names = {kind: self._names(kind) for kind in ("status", "priority", "user")}
        found = [
            {
                "issue": int(each["id"]),
                "title": each["title"],
                "status": _name_of(names["status"], each["status"]),
                "priority": _name_of(names["priority"], each["priority"]),
                "assignee": _name_of(names["user"], each["assignee"]),
            }
            for each in self._all("issue", _LISTED)
        ]
        wanted = [
            each
            for each in sorted(found, key=lambda each: int(each["issue"]))
            if each["issue"] > asked.after
            and asked.status in (None, each["status"])
            and asked.assignee in (None, each["assignee"])
        ]
        more = {"more": True} if len(wanted) > asked.most else {}
        return {"issues": wanted[: asked.most], **more}

    def issue(self, number: int) -> Any:
        found = self._item("issue", number)
        users = self._names("user")
        comments = []
        for each in found["messages"]:
            said = self._item("msg", int(each))
            comments.append(
                {
                    "comment": int(each),
                    "author": _name_of(users, said["author"]),
                    "date": said["date"],
                    "body": said["content"],
                }
            )
        return {
            "issue": number,
            "title": found["title"],
            **{
                kind: _name_of(self._names(kind), found[kind])
                for kind in ("status", "priority", "resolution")
            },
            "assignee": _name_of(users, found["assignee"]),
            "duplicate_of": None if found["superseder"] is None else int(found["superseder"]),
            "closed_at": found["closed"],
            "watchers": sorted(str(_name_of(users, each)) for each in found["nosy"]),
            "comments": comments,
        }

    def create(self, asked: New) -> Any:
        fields: dict[str, Any] = {"title": asked.title}
        if asked.priority is not None:
            fields["priority"] = asked.priority
        if asked.assignee is not None:
            fields["assignee"] = self._user(asked.assignee)
        number = int(self._ask("POST", "issue", fields)["id"])
        told: dict[str, Any] = {"issue": number}
        if asked.description:
            told |= self.comment(Comment(issue=number, body=asked.description))
        return told

    def update(self, asked: Update) -> Any:
        fields: dict[str, Any] = {
            name: value
            for name in ("title", "status", "priority", "resolution")
            if (value := getattr(asked, name)) is not None
        }
        if asked.assignee is not None:
            fields["assignee"] = self._user(asked.assignee)
        if asked.duplicate_of is not None:
            fields["superseder"] = str(asked.duplicate_of)
        if asked.closed_now:
            fields["closed"] = "."
        if asked.watchers is not None:
            fields["nosy"] = [self._user(login) for login in asked.watchers]
        if not fields:
            raise ToolError("nothing is to be changed; name a field")
        self._change("issue", asked.issue, fields)
        return {"issue": asked.issue, "changed": sorted(fields)}

    def comment(self, asked: Comment) -> Any:
        me = self._user(self._rest.login)
        listed = self._item("issue", asked.issue)["messages"]
        message = {"content": asked.body, "author": me, "date": ".", "type": "text/plain"}
        number = self._ask("POST", "msg", message)["id"]
        self._change("issue", asked.issue, {"messages": [*listed, str(number)]})
        return {"issue": asked.issue, "comment": int(number)}

    def _ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        found = self._rest.ask(method, f"rest/data/{path}", body, **self._from, **headers)
        if "data" not in found:
            raise ToolError(f"the tracker answers without data: {str(found)[:300]}")
        return found["data"]

    def _item(self, kind: str, number: int) -> Any:
        return self._ask("GET", f"{kind}/{number}?@verbose=0")["attributes"]

    def _all(self, kind: str, fields: str) -> Any:
        return self._ask("GET", f"{kind}?@verbose=0&@fields={fields}")["collection"]

    def _names(self, kind: str) -> dict[str, str]:
        label = "username" if kind == "user" else "name"
        return {str(each["id"]): each[label] for each in self._all(kind, label)}

    def _user(self, login: str) -> str:
        found = [number for number, name in self._names("user").items() if name == login]
        if len(found) != 1:
            raise ToolError(f"there is no user {login[:100]!r}")
        return found[0]

    def _change(self, kind: str, number: int, fields: dict[str, Any]) -> None:
        tag = self._ask("GET", f"{kind}/{number}")["@etag"]
        self._ask("PUT", f"{kind}/{number}", fields, **{"If-Match": tag})


def _name_of(names: dict[str, str], number: Any) -> str | None:
    return None if number is None else names.get(str(number), str(number))
