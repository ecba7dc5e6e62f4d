"""A Redmine that nobody here started: what its REST interface lists to one account.

`redmine+https://LOGIN:PASSWORD@HOST/`, or `redmine+https://KEY@HOST/` with an API key; without a
password in the URL `STATEDIFF_PASSWORD_NAME` of the source NAME. An administrator's account sees
all of it; what another may not list is incomplete. Fields are those of the interface; what no field
is for stays in `other`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final
from urllib.parse import quote

from statediff.capture.source import SourceRuined, SourceUnavailable
from statediff.errors import UsageError
from statediff.model.schema import EntityType, Field, Kind, Purpose
from statediff.model.values import printable
from statediff.systems.base.urls import account_of, password_variable, url_without_password
from statediff.systems.hosted.api import Api, api
from statediff.systems.hosted.listed import ListedSource, Listing, rest
from statediff.systems.hosted.transport import http_url
from statediff.systems.relational.schema import Refine

PAGE: Final = 100
MAX_RECORDS: Final = 200_000
OTHER: Final = "other"
_KINDS: Final = {
    "": Kind.TEXT,
    "int": Kind.INT,
    "bool": Kind.BOOL,
    "at": Kind.TIMESTAMP,
    "list": Kind.LIST,
}
_SPECS: Final = {
    "project": "identifier name description homepage status:int is_public:bool parent>project"
    " created_on:at updated_on:at",
    "issue": "project>project tracker>tracker status>status priority>priority author>user"
    " assigned_to>user category>category fixed_version>version parent>issue subject description"
    " start_date due_date done_ratio:int is_private:bool estimated_hours:any custom_fields:list"
    " attachments:list relations:list watchers:list created_on:at updated_on:at closed_on:at",
    "journal": "issue>issue user>user notes private_notes:bool details:list created_on:at",
    "user": "login firstname lastname mail admin:bool status:int created_on:at updated_on:at",
    "group": "name users:list",
    "role": "name permissions:list",
    "membership": "project>project user>user group>group roles:list",
    "version": "project>project name description status due_date sharing created_on:at"
    " updated_on:at",
    "category": "project>project name assigned_to>user",
    "wiki_page": "project>project title text version:int author>user created_on:at updated_on:at",
    "news": "project>project author>user title summary description created_on:at",
    "time_entry": "project>project issue>issue user>user activity>activity hours:any comments"
    " spent_on created_on:at updated_on:at",
    "tracker": "name",
    "status": "name is_closed:bool",
    "priority": "name is_default:bool",
    "activity": "name is_default:bool",
    "custom_field": "name customized_type field_format",
    "query": "name is_public:bool project_id:int",
}
"""Type → its fields: `NAME`, then `:KIND`, or `>TYPE` of the record whose number it is."""
_RIGHTS: Final = ("user", "group", "role", "membership")
_PLAIN: Final[Mapping[str, tuple[str, str]]] = {
    "time_entry": ("time_entries", "time_entries"),
    "news": ("news", "news"),
    "tracker": ("trackers", "trackers"),
    "status": ("issue_statuses", "issue_statuses"),
    "priority": ("enumerations/issue_priorities", "issue_priorities"),
    "activity": ("enumerations/time_entry_activities", "time_entry_activities"),
    "custom_field": ("custom_fields", "custom_fields"),
    "query": ("queries", "queries"),
}
"""Type → the path of its listing, and the member of the answer."""
_OF_PROJECT: Final = {
    "membership": ("memberships", "memberships"),
    "version": ("versions", "versions"),
    "category": ("issue_categories", "issue_categories"),
}
_NOT_THERE: Final = (404,)
_LEFT_OUT: Final = ("last_login_on", "api_key")
"""What moves when somebody looks, and a secret that the account may see."""


def _type(name: str, spec: str) -> EntityType:
    fields = [Field("id", Kind.ANY, is_nullable=False)]
    for word in spec.split():
        text, _, target = word.partition(">")
        text, _, kind = text.partition(":")
        of = Kind.INT if target else _KINDS.get(kind, Kind.ANY)
        fields.append(Field(text, of, reference=target or None))
    holds = Purpose.PERMISSIONS if name in _RIGHTS else None
    return EntityType(name, ("id",), (*fields, Field(OTHER, Kind.MAP)), holds=holds)


TYPES: Final = tuple(_type(name, spec) for name, spec in _SPECS.items())
_BY_NAME: Final = {each.name: each for each in TYPES}


class RedmineAccount:
    """The records that one account may list."""

    def __init__(self, name: str, url: str) -> None:
        login, password = account_of(name, url)
        if login is None:
            raise UsageError(
                f"{printable(url_without_password(url))}: expected LOGIN:PASSWORD@ or KEY@ before "
                f"the host; a password may be in {password_variable(name)}"
            )
        self._auth = None if password is None else (login, password)
        self._headers = {"X-Redmine-API-Key": login} if password is None else {}
        self._base = http_url(url).rstrip("/") + "/"

    def listed(self) -> Listing:
        """All records of all types."""
        into = Listing()
        with api(self._base, "the tracker", headers=self._headers, auth=self._auth) as asked:
            if asked.ask("users/current.json").status != 200:
                raise SourceUnavailable("the tracker does not let the account in")
            for kind, (path, member) in _PLAIN.items():
                for each in _records(asked, path, member, into, kind):
                    _add(into, kind, each)
            _add_projects(asked, into)
            _add_issues(asked, into)
            _add_whole(asked, "users", "user", into, status="")  # locked ones too
            _add_whole(asked, "groups", "group", into, include="users")
            _add_whole(asked, "roles", "role", into)
        return into


def _add_projects(asked: Api, into: Listing) -> None:
    include = "trackers,issue_categories,enabled_modules,time_entry_activities"
    for each in _records(asked, "projects", "projects", into, "project", include=include):
        _add(into, "project", each)
        place = f"projects/{each['id']}"
        for kind, (path, member) in _OF_PROJECT.items():
            for one in _records(asked, f"{place}/{path}", member, into, kind):
                _add(into, kind, one)
        for page in _records(asked, f"{place}/wiki/index", "wiki_pages", into, "wiki_page"):
            title = str(page["title"])
            whole = asked.ask(
                f"{place}/wiki/{quote(title, safe='')}.json", {"include": "attachments"}
            )
            said = whole.content["wiki_page"] if whole.is_ok else page
            row = {**said, "id": f"{each['id']}/{title}", "project": {"id": each["id"]}}
            _add(into, "wiki_page", row)


def _add_issues(asked: Api, into: Listing) -> None:
    """Closed ones too, each with its attachments, relations, watchers and history."""
    chosen = {"status_id": "*", "sort": "id"}
    for each in _records(asked, "issues", "issues", into, "issue", **chosen):
        include = "journals,attachments,relations,watchers"
        answer = asked.ask(f"issues/{each['id']}.json", {"include": include})
        whole = answer.content["issue"] if answer.is_ok else each
        for journal in whole.get("journals", ()):
            _add(into, "journal", {**journal, "issue": {"id": each["id"]}})
        _add(into, "issue", {name: one for name, one in whole.items() if name != "journals"})


def _add_whole(asked: Api, path: str, kind: str, into: Listing, **query: str) -> None:
    """Records of which a listing says less than each alone."""
    for each in _records(asked, path, path, into, kind, **query):
        answer = asked.ask(f"{path}/{each['id']}.json", query)
        _add(into, kind, answer.content[kind] if answer.is_ok else each)


def _records(
    asked: Api, path: str, member: str, into: Listing, kind: str, **query: str
) -> Iterator[dict[str, Any]]:
    """All records of a listing; what the account may not list is a gap."""
    start = 0
    while start < MAX_RECORDS:
        page = {**query, "limit": str(PAGE), "offset": str(start)}
        status, content = asked.ask(f"{path}.json", page)
        if status in _NOT_THERE:
            return
        if status != 200:
            into.miss(f"the tracker answers {status} to the list of {path}", kind)
            return
        if not isinstance(content, dict) or not isinstance(content.get(member), list):
            raise SourceRuined("what answers is not the tracker's interface")
        found = content[member]
        yield from found
        start += len(found)
        if not found or start >= int(content.get("total_count", start)):
            return
    into.miss(f"more than {MAX_RECORDS} records are in {path}", kind)


def _add(into: Listing, kind: str, found: Mapping[str, Any]) -> None:
    """A record; another record in it is its number."""
    row: dict[str, Any] = {}
    for field in _BY_NAME[kind].fields:
        value = found.get(field.name)
        is_record = field.reference is not None and isinstance(value, Mapping)
        row[field.name] = value["id"] if is_record and value is not None else value
    into.add(kind, {**row, OTHER: rest(found, *row, *_LEFT_OUT)})


class RedmineEndpointSource(ListedSource):
    """Projects, issues with their history, members, wiki pages and time, as REST lists them."""

    not_observed: ClassVar[tuple[str, ...]] = (
        "forums, documents, files of projects, repositories, workflows and settings",
        "earlier versions of wiki pages, contents of attachments, passwords and keys",
        "when somebody signed in last, and what the account may not list",
    )

    def __init__(self, name: str, url: str, refine: Refine | None = None) -> None:
        account = RedmineAccount(name, url)
        super().__init__(name, lambda: TYPES, account.listed, refine)
