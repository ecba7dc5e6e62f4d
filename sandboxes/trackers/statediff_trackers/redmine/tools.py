"""Redmine, in the words of `tracker`."""

from __future__ import annotations

from typing import Any, Final

from statediff.model.trace import Mark
from statediff.systems.base.tool import ToolError
from statediff.systems.hosted.rest import Rest
from statediff_trackers.tools import Comment, New, Search, Update

_PAGE: Final = 100
_MOST: Final = 1000
"""Issues that a search looks at."""
_RESOLUTIONS: Final = ("fixed", "duplicate", "declined", "cannot-reproduce")
"""Those of the pack, by their numbers from 1: Redmine tells only its administrators."""
_KNOWN_RESOLUTIONS: Final = ", ".join(_RESOLUTIONS)


class Redmine:
    """The operations of one Redmine account, created for each call of a tool."""

    def __init__(self, url: str) -> None:
        self._rest = Rest(url, {"Content-Type": "application/json"})

    def made(self, source: str) -> tuple[Mark, ...]:
        return self._rest.made(source)

    def search(self, asked: Search) -> Any:
        logins = self._logins()
        found: list[dict[str, Any]] = []
        for offset in range(0, _MOST, _PAGE):
            query = f"issues.json?status_id=*&sort=id&limit={_PAGE}&offset={offset}"
            page = self._rest.ask("GET", query)["issues"]
            found += [_issue_summary(each, logins) for each in page]
            if len(page) < _PAGE:
                break
        wanted = [
            each
            for each in found
            if each["issue"] > asked.after
            and asked.status in (None, each["status"])
            and asked.assignee in (None, each["assignee"])
        ]
        more = {"more": True} if len(wanted) > asked.most else {}
        return {"issues": wanted[: asked.most], **more}

    def issue(self, number: int) -> Any:
        path = f"issues/{number}.json?include=journals,watchers,relations"
        found = self._rest.ask("GET", path)["issue"]
        logins = self._logins()
        later = [
            relation["issue_to_id"]
            for relation in found.get("relations", ())
            if relation["relation_type"] == "duplicates" and relation["issue_id"] == number
        ]
        return {
            **_issue_summary(found, logins),
            "description": found.get("description"),
            "resolution": self._resolution(found),
            "duplicate_of": later[0] if later else None,
            "closed_at": found.get("closed_on"),
            "watchers": sorted(_login(each, logins) for each in found.get("watchers", ())),
            "comments": [
                {
                    "comment": each["id"],
                    "author": _login(each["user"], logins),
                    "date": each["created_on"],
                    "body": each["notes"],
                }
                for each in found.get("journals", ())
                if each.get("notes")
            ],
        }

    def create(self, asked: New) -> Any:
        projects = self._rest.ask("GET", "projects.json?limit=2")["projects"]
        if len(projects) != 1:
            raise ToolError("expected the tracker to have one project that the account sees")
        fields: dict[str, Any] = {"project_id": projects[0]["id"], "subject": asked.title}
        if asked.description:
            fields["description"] = asked.description
        if asked.priority is not None:
            fields["priority_id"] = self._number_of("issue_priorities", asked.priority)
        if asked.assignee is not None:
            fields["assigned_to_id"] = self._user(asked.assignee)
        made = self._rest.ask("POST", "issues.json", {"issue": fields})
        return {"issue": made["issue"]["id"]}

    def update(self, asked: Update) -> Any:
        fields: dict[str, Any] = {}
        if asked.title is not None:
            fields["subject"] = asked.title
        if asked.status is not None:
            fields["status_id"] = self._number_of("issue_statuses", asked.status)
        if asked.priority is not None:
            fields["priority_id"] = self._number_of("issue_priorities", asked.priority)
        if asked.assignee is not None:
            fields["assigned_to_id"] = self._user(asked.assignee)
        if asked.resolution is not None:
            fields["custom_fields"] = [self._chosen(asked.issue, asked.resolution)]
        if not fields and not any(
            (asked.duplicate_of, asked.closed_now, asked.watchers is not None)
        ):
            raise ToolError("nothing is to be changed; name a field")
        wanted = None if asked.watchers is None else {self._user(each) for each in asked.watchers}
        if asked.duplicate_of is not None:
            relation = {"issue_to_id": asked.duplicate_of, "relation_type": "duplicates"}
            self._rest.ask("POST", f"issues/{asked.issue}/relations.json", {"relation": relation})
        if fields:  # when an issue was closed, Redmine itself says
            self._rest.ask("PUT", f"issues/{asked.issue}.json", {"issue": fields})
        if wanted is not None:
            self._watch(asked.issue, wanted)
        return {"issue": asked.issue, "changed": True}

    def comment(self, asked: Comment) -> Any:
        path = f"issues/{asked.issue}.json"
        self._rest.ask("PUT", path, {"issue": {"notes": asked.body}})
        journals = self._rest.ask("GET", f"{path}?include=journals")["issue"]["journals"]
        return {
            "issue": asked.issue,
            "comment": max(each["id"] for each in journals if each.get("notes")),
        }

    def _watch(self, issue: int, wanted: set[int]) -> None:
        path = f"issues/{issue}"
        found = self._rest.ask("GET", f"{path}.json?include=watchers")["issue"]
        watching = {each["id"] for each in found.get("watchers", ())}
        for person in sorted(watching - wanted):
            self._rest.ask("DELETE", f"{path}/watchers/{person}.json")
        if wanted - watching:
            people = {"user_ids": sorted(wanted - watching)}
            self._rest.ask("POST", f"{path}/watchers.json", {"watcher": people})

    def _chosen(self, issue: int, resolution: str) -> dict[str, Any]:
        """The custom field `resolution` of the issue, with the choice of that name."""
        found = self._rest.ask("GET", f"issues/{issue}.json")["issue"].get("custom_fields", ())
        fields = [each for each in found if str(each.get("name", "")).lower() == "resolution"]
        if len(fields) != 1:
            raise ToolError("this tracker's issues have no resolution")
        if resolution not in _RESOLUTIONS:
            raise ToolError(f"there is no {resolution[:100]!r}; there are: {_KNOWN_RESOLUTIONS}")
        return {"id": fields[0]["id"], "value": str(_RESOLUTIONS.index(resolution) + 1)}

    def _resolution(self, found: Any) -> str | None:
        for each in found.get("custom_fields", ()):
            if str(each.get("name", "")).lower() == "resolution" and each.get("value"):
                number = str(each["value"])
                known = number.isdecimal() and 0 < int(number) <= len(_RESOLUTIONS)
                return _RESOLUTIONS[int(number) - 1] if known else number
        return None

    def _number_of(self, kind: str, name: str) -> int:
        path = f"enumerations/{kind}.json" if kind == "issue_priorities" else f"{kind}.json"
        listed = self._rest.ask("GET", path)[kind]
        found = [each["id"] for each in listed if each["name"].lower() == name.lower()]
        if len(found) != 1:
            known = ", ".join(sorted(each["name"] for each in listed))
            raise ToolError(f"there is no {name[:100]!r}; there are: {known}")
        return int(found[0])

    def _logins(self) -> dict[int, str]:
        """Number → login, of everybody whom the account may look up."""
        projects = self._rest.ask("GET", "projects.json?limit=100")["projects"]
        people: set[int] = set()
        for project in projects:
            path = f"projects/{project['id']}/memberships.json?limit=100"
            listed = self._rest.ask("GET", path)["memberships"]
            people |= {each["user"]["id"] for each in listed if "user" in each}
        return {
            number: self._rest.ask("GET", f"users/{number}.json")["user"]["login"]
            for number in sorted(people)
        }

    def _user(self, login: str) -> int:
        found = [number for number, name in self._logins().items() if name == login]
        if len(found) != 1:
            raise ToolError(f"there is no user {login[:100]!r}")
        return found[0]


def _issue_summary(found: Any, logins: dict[int, str]) -> dict[str, Any]:
    assignee = found.get("assigned_to")
    return {
        "issue": found["id"],
        "title": found["subject"],
        "status": found["status"]["name"],
        "priority": found["priority"]["name"],
        "assignee": None if assignee is None else _login(assignee, logins),
    }


def _login(person: Any, logins: dict[int, str]) -> str:
    return logins.get(person["id"], str(person["name"]))
