"""A Redmine as a source: read from its database and files, independently of its server.

1. The SQLite file is read as any other (`sqlite.source`): one transaction, hostile or not.
2. Issues, comments, watchers, attachments, accounts, settings and the history become entities in
   Redmine's own terms (`redmine.tables`, `history`); `counter` holds the numbers that
   Redmine gives out next.
3. All other tables and rows stay as they are.

Passwords and keys appear as digests. Left out, because they say nothing that is work: when
somebody signed in last, when a setting was stored, and what Redmine derives from an issue's other
columns. What a schema file says is laid over the types once, when the source is first asked; a run
cannot change how the tracker is read afterwards.

The history has one row a changed property. An entry of Redmine's journals says who, when, which
properties were what before, and what somebody wrote: that is a comment at the same time. So a
comment's making is reported twice, as a change on the issue and as the beginning of the comment. A
relation is entered on both issues; it is reported where it begins, if both say the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final

from statediff.capture.source import Clock, SourceRuined, scanned
from statediff.model.batches import Row
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import (
    COMPLETE,
    ChunkStore,
    Coverage,
    Enumeration,
    MemoryChunks,
    State,
    Table,
)
from statediff.model.values import ABSENT, Observed, Unobserved, show
from statediff.systems.base.rows import keyed_table, source_schema
from statediff.systems.hosted.folder import PROGRAM, content_digest, entries, read_file
from statediff.systems.sqlite.source import SqliteSource
from statediff_trackers.redmine import tables as told
from statediff_trackers.redmine.tables import DUPLICATES, ISSUE, Tables, by_id, instant, words
from statediff_trackers.roundup.values import number

Refine = Callable[[Schema], Schema]

_COUNTER: Final = EntityType(
    "counter", ("name",), (Field("name", Kind.TEXT, is_nullable=False), Field("value", Kind.ANY))
)
_SEQUENCES: Final = "sqlite_sequence"
_NEEDED: Final = ("custom_fields", "issues", "journals", "settings", "users")
_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "attachment": ("attachments",),
    "comment": ("journals",),
    "counter": (_SEQUENCES,),
    "issues": ("issues", "custom_values", "issue_relations", "journals"),
    "journal": ("journals", "journal_details", "issues", "issue_relations"),
    "program": ("roles",),
    "setting": ("settings",),
    "token": ("tokens",),
    "users": ("users", "members", "member_roles", "roles", "email_addresses"),
    "watcher": ("watchers",),
}
"""Table of a type → the tables of the database that it is read from."""


@dataclass(frozen=True)
class _Learned:
    """The tracker's fields and schema when it was first read."""

    further: tuple[told.CustomField, ...]
    schema: Schema


class RedmineSource:
    """The Redmine whose database and files lie in the folder `home` as a source."""

    settles_at_once: ClassVar[bool] = True
    not_observed: ClassVar[tuple[str, ...]] = (
        "when somebody signed in or used a token last, when a setting was stored",
        "sessions and feed keys of the account that the agent was given",
        "`lock_version`, `root_id`, `lft` and `rgt` of an issue: computed from other columns",
        "modes, owners and times of the database and of attached files",
    )

    def __init__(
        self,
        name: str,
        home: Path,
        database: str,
        files: str,
        refine: Refine | None = None,
        *,
        own: frozenset[str] = frozenset(),
    ) -> None:
        self._name = name
        self._home = home
        self._files = files
        self._own = own
        self._database_files = {f"{database}{side}" for side in ("", "-wal", "-shm", "-journal")}
        self._refine = refine
        self.database = SqliteSource(name, home / database)
        self._known: _Learned | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def places(self) -> tuple[Path, ...]:
        """The places of its database."""
        return self.database.places

    def schema(self) -> Schema:
        if self._known is None:
            self._known = self._learn(self.database.read(MemoryChunks(), _no_clock, None).state)
        return self._known.schema

    def learned(self) -> tuple[Schema, tuple[told.CustomField, ...]]:
        """The types, and the further fields that issues had, when the tracker was first read."""
        schema = self.schema()
        return schema, () if self._known is None else self._known.further

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        # In memory: the run's folder never holds what the tables hold of passwords.
        raw = self.database.read(MemoryChunks(), clock, None).state
        if self._known is None:
            self._known = self._learn(raw)
        rows, lost = _tracker_rows(raw, self._known, self._content, self._own)
        listed = self._entries(raw)
        rows[PROGRAM.name] += [] if isinstance(listed, str) else listed
        types = _with_new(self._known.schema, raw)
        schema = replace(
            self._known.schema, types=types, sources=((self._name, tuple(t.name for t in types)),)
        )
        tables: dict[str, Table] = {}
        for entity in types:
            table = entity.source_table
            known = _enumeration(raw, table, lost if table == JOURNAL.name else 0)
            if table == PROGRAM.name and isinstance(listed, str):
                known = Enumeration(Coverage.INCOMPLETE, listed)
            earlier = None if like is None else like.tables.get(entity.name)
            tables[entity.name] = keyed_table(entity, rows.get(table, []), known, store, earlier)
        state = State(schema, tables)
        return scanned(self._name, as_of, state)

    def _learn(self, raw: State) -> _Learned:
        by_table = {t.type.source_table: t.type for t in raw.tables.values()}
        if not by_table.keys() >= set(_NEEDED):
            raise SourceRuined("its database is not one of Redmine's")
        further = told.custom_fields(told.Tables(_rows(raw)))
        own = (
            _COUNTER,
            JOURNAL,
            told.ATTACHMENT,
            told.COMMENT,
            PROGRAM,
            told.SETTING,
            told.TOKEN,
            told.WATCHER,
            told.issue_type(by_table["issues"].fields, further),
            told.user_type(by_table["users"].fields),
        )
        tables = {each.source_table for each in own}
        others = [t for t in by_table.values() if t.source_table not in {*tables, _SEQUENCES}]
        types = tuple(sorted((*own, *others), key=lambda t: t.name))
        schema = source_schema(self._name, types)
        return _Learned(further, schema if self._refine is None else self._refine(schema))

    def _content(self, row: Row) -> bytes | Observed:
        """The content on disk of an attachment."""
        place = self._place(row)
        return place if isinstance(place, Unobserved) else read_file(self._home, *place)

    def _place(self, row: Row) -> tuple[str, ...] | Unobserved:
        folder, name = row.get("disk_directory"), row.get("disk_filename")
        if not isinstance(name, str) or not isinstance(folder, str | None):
            return Unobserved("its place on disk is not a name")
        parts = [*(folder or "").split("/"), name]
        if any(part in ("", ".", "..") or "/" in part for part in parts[bool(not folder) :]):
            return Unobserved("its place on disk is outside the tracker's files")
        return (self._files, *(part for part in parts if part))

    def _entries(self, raw: State) -> list[Row] | str:
        """Everything in its folders that is neither its database nor an attachment of it."""
        places = [self._place(row) for row in _rows(raw).get("attachments", ())]
        files = {place for place in places if not isinstance(place, Unobserved)}
        folder = re.compile(rf"{re.escape(self._files)}(/[0-9]{{4}}(/[0-9]{{2}})?)?")

        def is_told(path: str, is_folder: bool) -> bool:
            parts = tuple(path.split("/"))
            return bool(folder.fullmatch(path)) if is_folder else parts in known or parts in files

        known = {(name,) for name in self._database_files}
        return entries(self._home, is_told, content_digest, is_own=False)


def _no_clock() -> datetime:
    return datetime.fromtimestamp(0, UTC)  # only the catalogue is wanted: nobody sees the reading


def _rows(raw: State) -> dict[str, list[Row]]:
    """Table → its rows by column."""
    found: dict[str, list[Row]] = {}
    for table in raw.tables.values():
        columns = [(f.name, f.source_column) for f in table.type.fields]
        found[table.type.source_table] = [
            _Cells({column: row[name] for name, column in columns if name in row})
            for _, row in table.rows()
        ]
    return found


class _Cells(dict[str, Observed]):
    """A row in which a column that a run has dropped is absent."""

    def __missing__(self, column: str) -> Observed:
        return ABSENT


def _tracker_rows(
    raw: State,
    known: _Learned,
    content: Callable[[Row], bytes | Observed],
    own: frozenset[str],
) -> tuple[dict[str, list[Row]], int]:
    """Table of a type → its rows by column, and how many entries of the history are lost."""
    tables = told.Tables(_rows(raw))
    issue = next(t for t in known.schema.types if t.source_table == "issues")
    names = {f.source_column: f.name for f in issue.fields}
    entries, lost = history(tables, names)
    found = {
        "attachment": told.attachments(tables, content),
        "comment": told.comments(tables),
        "counter": [
            {"name": row.get("name"), "value": row.get("seq")} for row in tables.take(_SEQUENCES)
        ],
        "issues": told.issues(tables, known.further),
        "journal": entries,
        "program": told.programs(tables),
        "setting": told.settings(tables),
        "token": told.tokens(tables, own),
        "users": told.users(tables),
        "watcher": told.watchers(tables),
    }
    others = {table: tables.left(table) for table in tables.rows if table not in found}
    return {**others, **found}, lost


def _with_new(schema: Schema, raw: State) -> tuple[EntityType, ...]:
    """The types as they were learned, and one for each table that is new since."""
    tables = {t.source_table for t in schema.types}
    new = [
        replace(t.type, name=f"main.{t.type.name}") if t.type.name in schema.by_name else t.type
        for t in raw.tables.values()
        if t.type.source_table not in {*tables, _SEQUENCES}
    ]
    return tuple(sorted((*schema.types, *new), key=lambda t: t.name))


def _enumeration(raw: State, table: str, lost: int) -> Enumeration:
    """How completely what a type is read from was read; a table that was dropped has no rows."""
    by_table = {t.type.source_table: t for t in raw.tables.values()}
    for part in _PARTS.get(table, (table,)):
        found = by_table.get(part)
        if found is not None and not found.enumeration.is_complete:
            return found.enumeration
    if lost:
        return Enumeration(
            Coverage.INCOMPLETE, f"{lost} entries of the history name no item or no time"
        )
    return COMPLETE


JOURNAL: Final = EntityType(
    "journal",
    ("on", "item", "at", "position"),
    (
        Field("on", Kind.TEXT, is_nullable=False),
        Field("item", Kind.INT, is_nullable=False),
        Field("at", Kind.TIMESTAMP, is_nullable=False),
        Field("position", Kind.INT, is_nullable=False),
        Field("by", Kind.INT, reference="user"),
        Field("action", Kind.TEXT),
        Field("field", Kind.TEXT),
        Field("before", Kind.TEXT),
        Field("after", Kind.TEXT),
    ),
)
_DUPLICATED: Final = "duplicated"
"""How Redmine enters `duplicates` on the other issue."""
_COMMENTS: Final = "messages"
"""Under this word the history of an issue tells that a comment came."""


def history(tables: Tables, names: Mapping[str, str]) -> tuple[list[Row], int]:
    """Every row of the history, and how many entries tell no item or no time.

    `names` maps an issue's columns to what its fields are called.
    """
    details: dict[Any, list[Row]] = {}
    journals = tables.take("journals", lambda row: row.get("journalized_type") == ISSUE)
    ids = {row["id"] for row in journals}
    for row in tables.take("journal_details", lambda row: row.get("journal_id") in ids):
        details.setdefault(row["journal_id"], []).append(row)
    mirrored = _mirror_details(journals, details)
    told = _Told()
    for row in sorted(tables.rows.get("issues", ()), key=by_id):
        told.add(
            ISSUE.lower(),
            row["id"],
            stored_at=row.get("created_on"),
            by=row.get("author_id"),
            action="create",
        )
    for row in sorted(journals, key=by_id):
        item, at, by = row.get("journalized_id"), row.get("created_on"), row.get("user_id")
        for detail in sorted(details.get(row["id"], ()), key=by_id):
            if detail["id"] in mirrored:
                continue
            column = _column(detail)
            name = names.get(column, column) if isinstance(column, str) else column
            told.add(
                "issue",
                item,
                stored_at=at,
                by=by,
                action="set",
                name=name,
                before=detail.get("old_value"),
                after=detail.get("value"),
            )
        if row.get("notes") not in (None, ""):
            told.add("issue", item, stored_at=at, by=by, action="set", name=_COMMENTS)
            told.add("comment", row["id"], stored_at=at, by=by, action="create")
    return told.rows, told.lost


class _Told:
    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.lost = 0
        self._position: dict[Any, int] = {}

    def add(
        self,
        on: str,
        item: Observed,
        *,
        stored_at: Observed,
        by: Observed,
        action: str,
        name: Observed = None,
        before: Observed = None,
        after: Observed = None,
    ) -> None:
        at = instant(stored_at, exact=True)
        if type(item) is not int or not isinstance(at, datetime):
            self.lost += 1  # to which item it belongs, or when it was, nobody can say
            return
        moment = on, item, show(at)
        self._position[moment] = self._position.get(moment, 0) + 1
        row: Row = {
            "on": on,
            "item": item,
            "at": at,
            "position": self._position[moment],
            "by": by,
            "action": action,
            "field": name,
            "before": before,
            "after": after,
        }
        self.rows.append(row)


def _column(detail: Row) -> Observed:
    """The column of an issue that a detail tells of; what is none is named as Redmine names it."""
    key, kind = detail.get("prop_key"), detail.get("property")
    match kind:
        case "attr":
            return key
        case "cf":
            return f"cf_{words(key)}"
        case "attachment":
            return "files"
        case "relation" if key == DUPLICATES:
            return "duplicate_of"
        case _:
            return f"{words(kind)}: {words(key)}"


def _mirror_details(journals: list[Row], details: Mapping[Any, list[Row]]) -> set[Any]:
    """The details that say on the other issue what a `duplicates` by the same person says."""
    begins: dict[tuple[Any, ...], int] = {}
    ends: list[tuple[tuple[Any, ...], Any]] = []
    for row in journals:
        for detail in details.get(row["id"], ()):
            if detail.get("property") != "relation":
                continue
            for came in ("value", "old_value"):
                other = number(detail.get(came))
                here = row.get("journalized_id")
                if other is None:
                    continue
                if detail.get("prop_key") == DUPLICATES:
                    pair = (here, other, row.get("user_id"), came)
                    begins[pair] = begins.get(pair, 0) + 1
                elif detail.get("prop_key") == _DUPLICATED:
                    ends.append(((other, here, row.get("user_id"), came), detail["id"]))
    found: set[Any] = set()
    for pair, id_ in ends:
        if begins.get(pair, 0) > 0:
            begins[pair] -= 1
            found.add(id_)
    return found
