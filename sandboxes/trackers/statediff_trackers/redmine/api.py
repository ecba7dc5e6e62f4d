"""A Redmine as its REST interface tells it: a second word about its issues and attachments.

1. The list of issues is read page by page, with attachments and relations, until as many have come
   as it says there are. What comes, goes or changes meanwhile shows in that number or in the newest
   time of change, and begins the reading anew.
2. What the list does not tell is not a type or field here: comments and watchers, which would take
   a request for each issue, accounts, settings, digests of contents, the history.

Its answers are as hostile as a file: bounded, read strictly, and no redirection is followed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Final

import httpx

from statediff.capture.source import Clock, SourceRuined, scanned
from statediff.model.batches import Row
from statediff.model.explanation import unread_because
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import COMPLETE, ChunkStore, Coverage, Enumeration, State, build_table
from statediff.model.values import ABSENT, Map, Observed, Value
from statediff.systems.base.rows import source_schema
from statediff.systems.hosted.rest import NO_TRACKER, read_object
from statediff_trackers.redmine.tables import DUPLICATES, ISSUE, CustomField
from statediff_trackers.roundup.values import number

PAGE_SIZE: Final = 100
ATTEMPTS: Final = 3
ANSWER_SECONDS: Final = 10.0
MAX_PAGES: Final = 1000
TYPES: Final = ("attachment", "issues")
"""The tables of the types that the interface tells of."""
_UNTOLD: Final = frozenset({"digest", "fixed_version_id", "updated_by"})
_LINKED: Final = (
    "assigned_to",
    "author",
    "category",
    "parent",
    "priority",
    "project",
    "status",
    "tracker",
)


@dataclass(frozen=True)
class ApiKey:
    """The interface's address, and the evaluator's own key to it."""

    base: str
    """Ends in `/`, e.g. `http://127.0.0.1:40213/`."""
    key: str

    def client(self) -> httpx.Client:
        """A client that takes no proxy from the environment and follows no redirection."""
        return httpx.Client(
            base_url=self.base,
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "X-Redmine-API-Key": self.key,
            },
            timeout=ANSWER_SECONDS,
            trust_env=False,
            verify=self.base.startswith("https:"),  # else certificates are loaded for nothing
        )


class _Moved(Exception):
    """Something changed while it was read; the message says what."""


class RedmineApiSource:
    """The interface's view of issues, with the types of the database's own reading.

    `account` is asked at each reading: a server that was started anew has another address.
    """

    not_observed: ClassVar[tuple[str, ...]] = (
        "comments, watchers, accounts, settings, tokens, digests of contents and the history",
    )

    def __init__(
        self,
        name: str,
        account: Callable[[], ApiKey],
        learned: Callable[[], tuple[Schema, tuple[CustomField, ...]]],
        page_size: int = PAGE_SIZE,
    ) -> None:
        self._name = name
        self._account = account
        self._learned = learned
        self._page_size = page_size

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        types = tuple(_api_type(t) for t in self._learned()[0].types if t.source_table in TYPES)
        return source_schema(self._name, types)

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        schema, further = self.schema(), self._learned()[1]
        rows: dict[str, list[Row]] = {}
        known, cause = COMPLETE, ""
        with self._account().client() as client:
            for _ in range(ATTEMPTS):
                try:
                    rows = _Interface(client, self._page_size).all(further)
                    break
                except _Moved as error:
                    cause = str(error)
            else:
                known = Enumeration(Coverage.UNOBSERVED, unread_because(cause))
        tables = {}
        for entity in schema.types:
            named = [
                {f.name: _cell(f, row.get(f.source_column, ABSENT)) for f in entity.fields}
                for row in rows.get(entity.source_table, ())
            ]
            earlier = None if like is None else like.tables.get(entity.name)
            table = build_table(entity, named, store, like=earlier, enumeration=known)
            tables[entity.name] = table if known.is_complete else table.unobserved(known.cause)
        state = State(schema, tables)
        return scanned(self._name, as_of, state, gaps=[] if known.is_complete else [cause])


def _api_type(entity: EntityType) -> EntityType:
    return replace(entity, fields=tuple(f for f in entity.fields if f.source_column not in _UNTOLD))


class _Interface:
    """Requests over one connection. Raises `SourceUnavailable` where nothing usable answers."""

    def __init__(self, client: httpx.Client, page_size: int) -> None:
        self._client = client
        self._page_size = page_size

    def all(self, further: tuple[CustomField, ...]) -> dict[str, list[Row]]:
        """Table of a type → its rows."""
        listed = self._list_issues()
        files = [row for id_, found in listed.items() for row in _attachments(id_, found)]
        numbers = {row["id"] for row in files if type(row["id"]) is int}
        if len(numbers) != len(files):
            raise _Moved("an attachment has no number, or came twice")
        return {
            "issues": [_issue(found, further) for found in listed.values()],
            "attachment": files,
        }

    def _list_issues(self) -> dict[int, Map]:
        """Every issue by its number."""
        listed: dict[int, Map] = {}
        total: int | None = None
        for page in range(MAX_PAGES):
            batch, said = self._page("id", self._page_size, page * self._page_size)
            if total not in (None, said):
                raise _Moved(f"{said} issues instead of {total} while they were read")
            total = said
            for entry in batch:
                id_ = entry.get("id")
                if type(id_) is not int or id_ in listed:
                    raise _Moved("an issue has no number, or came twice")
                listed[id_] = entry
            if len(listed) >= said:
                break
            if not batch:
                raise _Moved(f"the list ends after {len(listed)} of {said} issues")
        if len(listed) != total:
            raise _Moved(f"{len(listed)} issues came where the list says {total}")
        if total > self._page_size:  # pages are read one after another
            newest, said = self._page("updated_on:desc", 1, 0)
            latest = max(str(entry.get("updated_on")) for entry in listed.values())
            if said != total or [str(entry.get("updated_on")) for entry in newest] != [latest]:
                raise _Moved("issues were changed while they were read")
        return listed

    def _page(self, order: str, size: int, at: int) -> tuple[list[Map], int]:
        answer = self._get(
            "issues.json?status_id=*&include=attachments,relations"
            f"&sort={order}&limit={size}&offset={at}"
        )
        said, batch = answer.get("total_count"), _several(answer, "issues")
        if type(said) is not int or len(batch) > size:
            raise SourceRuined(NO_TRACKER)
        return batch, said

    def _get(self, path: str) -> Map:
        answer = read_object(self._client, path, ANSWER_SECONDS)
        if answer is None:
            raise SourceRuined("the tracker answered 404")
        return answer


def _several(found: Map, name: str) -> list[Map]:
    told = found.get(name)
    if told is ABSENT:
        return []
    if not isinstance(told, tuple) or not all(isinstance(entry, Map) for entry in told):
        raise SourceRuined(NO_TRACKER)
    return [entry for entry in told if isinstance(entry, Map)]


def _linked_number(found: Map, name: str) -> Observed:
    """The number that a link leads to; where there is none, Redmine says nothing."""
    told = found.get(name)
    if told is ABSENT:
        return None
    return told.get("id") if isinstance(told, Map) else told


def _issue(found: Map, further: tuple[CustomField, ...]) -> Row:
    row: Row = {name: (None if v is ABSENT else v) for name, v in _plain(found).items()}
    row |= {f"{name}_id": _linked_number(found, name) for name in _LINKED}
    values = {entry.get("id"): entry.get("value") for entry in _several(found, "custom_fields")}
    for each in further:
        told = values.get(each.id, ABSENT)
        row[each.column] = each.value(
            [] if told is ABSENT else list(told) if isinstance(told, tuple) else [told]
        )
    points_to: list[Any] = [
        entry.get("issue_to_id")
        for entry in _several(found, "relations")
        if entry.get("relation_type") == DUPLICATES and entry.get("issue_id") == found.get("id")
    ]
    row["duplicate_of"] = points_to[0] if len(points_to) == 1 else None
    return row


def _plain(found: Map) -> dict[str, Observed]:
    names = (
        "id",
        "subject",
        "description",
        "start_date",
        "due_date",
        "done_ratio",
        "is_private",
        "estimated_hours",
        "created_on",
        "updated_on",
        "closed_on",
    )
    return {name: found.get(name) for name in names}


def _attachments(issue: int, found: Map) -> list[Row]:
    return [
        {
            "id": entry.get("id"),
            "name": entry.get("filename"),
            "type": entry.get("content_type"),
            "size": entry.get("filesize"),
            "on": ISSUE,
            "issue": issue,
            "description": _text_or_none(entry.get("description")),
            "created_at": entry.get("created_on"),
            "created_by": _linked_number(entry, "author"),
        }
        for entry in _several(found, "attachments")
    ]


def _text_or_none(told: Observed) -> Observed:
    return None if told in ("", ABSENT) else told


def _cell(field: Field, told: Observed) -> Observed:
    if field.reference is not None:
        return number(told)
    if field.kind in (Kind.TIMESTAMP, Kind.DATE) and isinstance(told, str):
        return _moment(field.kind, told)
    return told


def _moment(kind: Kind, told: str) -> Value:
    try:
        moment = datetime.fromisoformat(told)
    except ValueError:
        return told
    if kind is Kind.DATE:
        return moment.date()
    return told if moment.tzinfo is None else moment
