"""The database of a Redmine, set up for a helpdesk and filled with the issues of a pack's seed.

The seed is the same story that `roundup.server` writes into Roundup: users and lists, then issues,
each with what happened to it and when. Issues, users and list entries have the same numbers in
both. A comment is an entry of an issue's history in Redmine, and its number is that entry's; one
that was withdrawn is gone with its entry.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

FOUNDED: Final = "2025-09-01 08:00:00"
PROJECT: Final = "helpdesk"
RESOLUTION: Final = 1
"""The number of the custom field that holds an issue's resolution."""
PREFERENCES: Final = """---
:no_self_notified: '1'
:auto_watch_on: []
:recently_used_project_ids: '1'
:my_page_layout:
  left:
  - issuesassignedtome
  right:
  - issuesreportedbyme
:my_page_settings: {}
"""
"""As Redmine itself stores them at the first use, so that using it changes none."""
GROUPS: Final = (
    (101, "Non member users", "GroupNonMember"),
    (102, "Anonymous users", "GroupAnonymous"),
)
_VIEW: Final = ("view_issues",)
_WORK: Final = (
    "add_issues",
    "edit_issues",
    "add_issue_notes",
    "manage_issue_relations",
    "view_issue_watchers",
    "add_issue_watchers",
    "delete_issue_watchers",
    "delete_issues",
)
PERMISSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Customer": (),
    "Auditor": (*_VIEW, "view_issue_watchers"),
    "Staff": (*_VIEW, *_WORK, "edit_own_issue_notes"),
    "Lead": (*_VIEW, *_WORK, "edit_issue_notes"),
}
"""What each role of the seed may do; roles that are not listed are the tracker's own."""
SETTINGS: Final[Mapping[str, str]] = {
    "app_title": "Helpdesk",
    "rest_api_enabled": "1",
    "login_required": "1",
    "self_registration": "0",
    "notified_events": "--- []\n",
    "default_language": "en",
    "close_duplicate_issues": "0",
    "gravatar_enabled": "0",
}


@dataclass(frozen=True)
class Attached:
    """A file beside the database: its path below `files/`, and what it holds."""

    path: str
    content: bytes


def stored_password(word: str) -> tuple[str, str]:
    """(hash, salt) as Redmine keeps a password."""
    salt = secrets.token_hex(16)
    inner = hashlib.sha1(word.encode(), usedforsecurity=False).hexdigest()
    return hashlib.sha1((salt + inner).encode(), usedforsecurity=False).hexdigest(), salt


def plant(
    db: sqlite3.Connection, seed: Mapping[str, Any], passwords: Mapping[str, str], key: str
) -> tuple[Attached, ...]:
    """The database holds the seed's story, and nothing of what Redmine suggests to start with.

    `key` is the evaluator's way in, of the user with the role Auditor. Returns the attachments.
    """
    story = _Story(db, seed)
    story.clear()
    story.lists()
    story.people(passwords, key)
    story.tell()
    return tuple(story.attached)


class _Story:
    def __init__(self, db: sqlite3.Connection, seed: Mapping[str, Any]) -> None:
        self.db = db
        self.seed = seed
        self.attached: list[Attached] = []
        self.users = {user["login"]: n for n, user in enumerate(seed["users"], 1)}
        self.numbers = {
            kind: {name: n for n, name in enumerate(seed[kind], 1)}
            for kind in ("component", "priority", "status", "resolution")
        }
        self.journals = 0
        self.details = 0
        self.now: dict[int, dict[str, Any]] = {}
        """Issue → what it is like at this point of the story, by column."""
        self.said: dict[int, list[int]] = {}

    def add(self, table: str, **values: Any) -> None:
        columns = ", ".join(f'"{name}"' for name in values)
        holes = ", ".join("?" * len(values))
        self.db.execute(f'INSERT INTO "{table}" ({columns}) VALUES ({holes})', (*values.values(),))  # noqa: S608 - our own names

    def clear(self) -> None:
        for table in (
            "email_addresses",
            "enumerations",
            "issue_statuses",
            "queries",
            "roles",
            "settings",
            "trackers",
            "user_preferences",
            "users",
            "workflows",
        ):
            self.db.execute(f'DELETE FROM "{table}"')  # noqa: S608 - our own names
        self.db.execute("DELETE FROM sqlite_sequence")
        self.db.execute(
            "UPDATE ar_internal_metadata SET created_at = ?, updated_at = ?", (FOUNDED, FOUNDED)
        )

    def lists(self) -> None:
        for number, (name, value) in enumerate(SETTINGS.items(), 1):
            self.add("settings", id=number, name=name, value=value, updated_on=FOUNDED)
        self.add(
            "projects",
            id=1,
            name="Helpdesk",
            identifier=PROJECT,
            description="",
            is_public=0,
            created_on=FOUNDED,
            updated_on=FOUNDED,
            status=1,
            lft=1,
            rgt=2,
        )
        self.add("enabled_modules", id=1, project_id=1, name="issue_tracking")
        for name, number in self.numbers["status"].items():
            self.add(
                "issue_statuses",
                id=number,
                name=name,
                is_closed=int(name == "closed"),
                position=number,
            )
        self.add("trackers", id=1, name="Case", position=1, is_in_roadmap=0, default_status_id=1)
        self.add("projects_trackers", project_id=1, tracker_id=1)
        for name, number in self.numbers["component"].items():
            self.add("issue_categories", id=number, project_id=1, name=name)
        for name, number in self.numbers["priority"].items():
            self.add(
                "enumerations",
                id=number,
                name=name,
                position=number,
                is_default=int(name == "normal"),
                type="IssuePriority",
                active=1,
                position_name=name,
            )
        self.add(
            "custom_fields",
            id=RESOLUTION,
            type="IssueCustomField",
            name="Resolution",
            field_format="enumeration",
            is_for_all=1,
            is_filter=1,
            position=1,
            format_store="--- {}\n",
        )
        self.add("custom_fields_trackers", custom_field_id=RESOLUTION, tracker_id=1)
        for name, number in self.numbers["resolution"].items():
            self.add(
                "custom_field_enumerations",
                id=number,
                custom_field_id=RESOLUTION,
                name=name,
                position=number,
            )

    def people(self, passwords: Mapping[str, str], key: str) -> None:
        self.add("roles", id=1, name="Non member", position=0, builtin=1, permissions="--- []\n")
        self.add("roles", id=2, name="Anonymous", position=0, builtin=2, permissions="--- []\n")
        roles = {name: number for number, name in enumerate(PERMISSIONS, 3)}
        for name, number in roles.items():
            granted = "".join(f"- :{each}\n" for each in sorted(PERMISSIONS[name]))
            works = int(name in ("Staff", "Lead"))
            self.add(
                "roles",
                id=number,
                name=name,
                position=number,
                assignable=works,
                permissions=f"---\n{granted}" if granted else "--- []\n",
                issues_visibility="all",
            )
            if works:
                self._may_move(number)
        for user in self.seed["users"]:
            self._person(user, roles, passwords)
            # Redmine makes a key for anyone who asks for it: so everybody has one from the
            # beginning.
            is_evaluator = "Auditor" in user["roles"]
            self.add(
                "tokens",
                user_id=self.users[user["login"]],
                action="api",
                value=key if is_evaluator else secrets.token_hex(20),
                created_on=FOUNDED,
                updated_on=FOUNDED,
            )
        for number, name, kind in GROUPS:
            self.add(
                "users", id=number, lastname=name, type=kind, created_on=FOUNDED, updated_on=FOUNDED
            )

    def _may_move(self, role: int) -> None:
        """The role may set any status on an issue, whatever it has."""
        statuses = self.numbers["status"].values()
        for old in (0, *statuses):
            for new in statuses:
                if old != new:
                    self.add(
                        "workflows",
                        type="WorkflowTransition",
                        tracker_id=1,
                        old_status_id=old,
                        new_status_id=new,
                        role_id=role,
                    )

    def _person(
        self, user: Mapping[str, Any], roles: Mapping[str, int], passwords: Mapping[str, str]
    ) -> None:
        number, login = self.users[user["login"]], user["login"]
        first, _, last = user.get("name", login).rpartition(" ")
        word = passwords.get(login, user.get("password"))
        hashed, salt = ("", None) if word is None else stored_password(word)
        is_nobody = "Anonymous" in user["roles"]
        self.add(
            "users",
            id=number,
            login="" if is_nobody else login,
            hashed_password=hashed,
            salt=salt,
            firstname=first or ("" if is_nobody else last),
            lastname="Anonymous" if is_nobody else last,
            admin=int({"Admin", "Auditor"} & set(user["roles"]) != set()),
            status=0 if is_nobody else 1,
            language="en",
            created_on=FOUNDED,
            updated_on=FOUNDED,
            type="AnonymousUser" if is_nobody else "User",
            mail_notification="none",
        )
        self.add(
            "user_preferences",
            user_id=number,
            others=PREFERENCES,
            hide_mail=0,
            time_zone="",
        )
        if user.get("email"):
            self.add(
                "email_addresses",
                user_id=number,
                address=user["email"],
                is_default=1,
                created_on=FOUNDED,
                updated_on=FOUNDED,
            )
        held = [roles[name] for name in user["roles"] if name in roles]
        if held:
            self.add("members", id=number, user_id=number, project_id=1, created_on=FOUNDED)
            for role in held:
                self.add("member_roles", member_id=number, role_id=role)

    def tell(self) -> None:
        events: list[tuple[str, int, int, Mapping[str, Any]]] = []
        for number, issue in enumerate(self.seed["issues"], 1):
            events.append((issue["at"], number, 0, issue))
            events += [(e["at"], number, n, e) for n, e in enumerate(issue.get("then", ()), 1)]
        for at, number, step, event in sorted(events, key=lambda each: each[:3]):
            by = self.users[event["by"]]
            if step == 0:
                self._open(number, at, by, event)
            elif "set" in event:
                self._set(number, at, by, event["set"])
            elif "say" in event:
                self.said.setdefault(number, []).append(self._journal(number, at, by, event["say"]))
            elif "attach" in event:
                self._attach(number, at, by, event)
            elif "retract" in event:
                gone = self.said[number][event["retract"] - 1]
                self.db.execute("DELETE FROM journals WHERE id = ?", (gone,))
        for number, values in self.now.items():
            resolution = values.pop("resolution", "")
            self.add("issues", id=number, **values)
            self.add(
                "custom_values",
                customized_type="Issue",
                customized_id=number,
                custom_field_id=RESOLUTION,
                value=str(resolution),
            )

    def _open(self, number: int, at: str, by: int, issue: Mapping[str, Any]) -> None:
        if number != len(self.now) + 1:
            raise ValueError(f"issue {number} of the seed stands before an older one")
        self.now[number] = {
            "tracker_id": 1,
            "project_id": 1,
            "subject": issue["title"],
            "description": "",
            "category_id": self.numbers["component"].get(issue.get("component")),
            "priority_id": self.numbers["priority"][issue["priority"]],
            "status_id": self.numbers["status"][issue["status"]],
            "author_id": by,
            "created_on": at,
            "updated_on": at,
            "root_id": number,
            "lft": 1,
            "rgt": 2,
        }
        for login in issue.get("watchers", ()):
            user = self.users[login]
            self.add("watchers", watchable_type="Issue", watchable_id=number, user_id=user)

    def _set(self, number: int, at: str, by: int, values: Mapping[str, Any]) -> None:
        issue, journal = self.now[number], self._journal(number, at, by)
        for name, value in values.items():
            match name:
                case "assignee":
                    column, new = "assigned_to_id", self.users[value]
                case "closed":
                    column, new = "closed_on", value
                case "status" | "priority":
                    column, new = f"{name}_id", self.numbers[name][value]
                case "component":
                    column, new = "category_id", self.numbers[name][value]
                case "resolution":
                    column, new = name, self.numbers[name][value]
                case "title":
                    column, new = "subject", value
                case _:
                    raise ValueError(f"issue {number} of the seed sets {name}, which is not known")
            old = issue.get(column)
            is_custom = name == "resolution"
            self._detail(
                journal,
                "cf" if is_custom else "attr",
                str(RESOLUTION) if is_custom else column,
                old,
                new,
            )
            issue[column] = new

    def _attach(self, number: int, at: str, by: int, event: Mapping[str, Any]) -> None:
        content = event["text"].encode()
        attachment = len(self.attached) + 1
        folder, name = f"{at[:4]}/{at[5:7]}", f"{attachment:04d}_{event['attach']}"
        self.add(
            "attachments",
            id=attachment,
            container_id=number,
            container_type="Issue",
            filename=event["attach"],
            disk_filename=name,
            disk_directory=folder,
            filesize=len(content),
            content_type=event.get("type", "text/plain"),
            digest=hashlib.sha256(content).hexdigest(),
            author_id=by,
            created_on=at,
        )
        self.attached.append(Attached(f"{folder}/{name}", content))
        journal = self._journal(number, at, by)
        self._detail(journal, "attachment", str(attachment), None, event["attach"])

    def _journal(self, number: int, at: str, by: int, notes: str = "") -> int:
        self.journals += 1
        self.add(
            "journals",
            id=self.journals,
            journalized_id=number,
            journalized_type="Issue",
            user_id=by,
            notes=notes,
            created_on=at,
        )
        self.now[number]["updated_on"] = at
        return self.journals

    def _detail(self, journal: int, kind: str, key: str, old: Any, new: Any) -> None:
        self.details += 1
        self.add(
            "journal_details",
            id=self.details,
            journal_id=journal,
            property=kind,
            prop_key=key,
            old_value=None if old is None else str(old),
            value=None if new is None else str(new),
        )
