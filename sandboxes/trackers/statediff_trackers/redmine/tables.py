"""The meaning of a Redmine's tables: issues with their further fields, comments, watchers, files.

Rows come as the database holds them, by table and column. Each is described in one place: what
these functions make no use of stays a row of its table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from statediff.model.batches import Row
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import Observed, Unobserved
from statediff.systems.hosted.folder import content_digest
from statediff_trackers.roundup.values import number

ISSUE: Final = "Issue"
DUPLICATES: Final = "duplicates"
_DERIVED: Final = frozenset({"lock_version", "root_id", "lft", "rgt"})
"""Columns of an issue that Redmine computes for itself from the others."""
_SIGNED_IN: Final = "last_login_on"
SIGNING_IN: Final = frozenset({"session", "feeds"})
"""Tokens that Redmine makes by itself for somebody who signs in and looks at pages."""
_SECRET_WORDS: Final = ("password", "secret", "key", "token")
_REFERENCES: Final = {
    "status_id": "issue_statuses",
    "priority_id": "enumerations",
    "category_id": "issue_categories",
    "author_id": "user",
    "assigned_to_id": "user",
    "project_id": "projects",
    "tracker_id": "trackers",
    "parent_id": "issue",
}


@dataclass(frozen=True)
class CustomField:
    """A further field that somebody gave to issues; named `cf_` and its number."""

    id: int
    is_list_entry: bool
    """Its values are numbers of entries of `custom_field_enumerations`."""
    is_multiple: bool

    @property
    def column(self) -> str:
        return f"cf_{self.id}"

    def field(self) -> Field:
        if self.is_multiple:
            return Field(self.column, Kind.LIST)
        if self.is_list_entry:
            return Field(self.column, Kind.INT, reference="custom_field_enumerations")
        return Field(self.column, Kind.TEXT)

    def value(self, stored: list[Observed]) -> Observed:
        """An issue's value there; an empty text is how Redmine says that it has nothing."""
        told = [None if v == "" else number(v) if self.is_list_entry else v for v in stored]
        if self.is_multiple:
            kept: list[Any] = [v for v in told if v is not None]
            return tuple(sorted(kept, key=repr))
        if len(told) > 1:
            return Unobserved(f"{len(told)} values stand where one can")
        return told[0] if told else None


@dataclass
class Tables:
    """The rows of a database by table, and which of them were described in other terms."""

    rows: Mapping[str, list[Row]]
    told: dict[str, set[int]] = field(default_factory=dict)

    def take(self, table: str, is_wanted: Callable[[Row], bool] = lambda _: True) -> list[Row]:
        """The rows that are wanted; they count as described."""
        taken = self.told.setdefault(table, set())
        wanted = [at for at, row in enumerate(self.rows.get(table, ())) if is_wanted(row)]
        taken.update(wanted)
        return [self.rows[table][at] for at in wanted]

    def left(self, table: str) -> list[Row]:
        """The rows that nobody took."""
        taken = self.told.get(table, set())
        return [row for at, row in enumerate(self.rows.get(table, ())) if at not in taken]


def custom_fields(tables: Tables) -> tuple[CustomField, ...]:
    """The further fields of issues, by number."""
    found = [
        CustomField(
            row["id"], row.get("field_format") == "enumeration", row.get("multiple") is True
        )
        for row in tables.rows.get("custom_fields", ())
        if row.get("type") == "IssueCustomField" and isinstance(row["id"], int)
    ]
    return tuple(sorted(found, key=lambda each: each.id))


def issue_type(columns: tuple[Field, ...], further: tuple[CustomField, ...]) -> EntityType:
    """Issues as their table has them, without what Redmine derives, and with more fields."""
    own = [
        Field(f.name, _kind(f), is_nullable=f.is_nullable, reference=_REFERENCES.get(f.name))
        for f in columns
        if f.name not in _DERIVED
    ]
    more = [each.field() for each in further]
    more += [
        Field("duplicate_of", Kind.INT, reference="issue"),
        Field("updated_by", Kind.INT, reference="user"),
    ]
    return EntityType("issue", ("id",), (*own, *more), table="issues")


def user_type(columns: tuple[Field, ...]) -> EntityType:
    """Accounts as their table has them; the password as a digest, and the roles somebody has."""
    left_out = {_SIGNED_IN, "salt", "twofa_totp_last_used_at"}
    own = [
        Field(f.name, _kind(f), is_nullable=f.is_nullable)
        for f in columns
        if f.name not in left_out
    ]
    more = [Field("roles", Kind.LIST), Field("mail", Kind.TEXT)]
    return EntityType("user", ("id",), (*own, *more), table="users")


def _kind(column: Field) -> Kind:
    return Kind.TIMESTAMP if column.kind is Kind.LOCAL_TIMESTAMP else column.kind


def _whole(name: str, *fields: Field, key: tuple[str, ...] = ("id",), link: bool = False) -> Any:
    return EntityType(name, key, fields, is_association=link)


_ID: Final = Field("id", Kind.INT, is_nullable=False)
_BY: Final = Field("created_by", Kind.INT, reference="user")
_AT: Final = Field("created_at", Kind.TIMESTAMP)
COMMENT: Final[EntityType] = _whole(
    "comment",
    _ID,
    Field("issue", Kind.INT, reference="issue"),
    Field("author", Kind.INT, reference="user"),
    Field("body", Kind.TEXT),
    Field("private_notes", Kind.BOOL),
    Field("dated", Kind.TIMESTAMP),
    Field("also_on", Kind.LIST),
    _AT,
    _BY,
    Field("updated_at", Kind.TIMESTAMP),
    Field("updated_by", Kind.INT, reference="user"),
)
WATCHER: Final[EntityType] = _whole(
    "watcher",
    Field("issue", Kind.INT, is_nullable=False, reference="issue"),
    Field("user", Kind.INT, is_nullable=False, reference="user"),
    key=("issue", "user"),
    link=True,
)
ATTACHMENT: Final[EntityType] = _whole(
    "attachment",
    _ID,
    Field("name", Kind.TEXT),
    Field("type", Kind.TEXT),
    Field("size", Kind.INT),
    Field("on", Kind.TEXT),
    Field("issue", Kind.INT, reference="issue"),
    Field("description", Kind.TEXT),
    Field("digest", Kind.TEXT),
    _AT,
    _BY,
)
SETTING: Final[EntityType] = _whole(
    "setting", Field("name", Kind.TEXT, is_nullable=False), Field("value", Kind.TEXT), key=("name",)
)
TOKEN: Final[EntityType] = _whole(
    "token",
    _ID,
    Field("user_id", Kind.INT, reference="user"),
    Field("action", Kind.TEXT),
    Field("digest", Kind.TEXT),
)


def instant(stored: Observed, *, exact: bool = False) -> Observed:
    """A time of Redmine's, in UTC, to the second unless `exact`: its interface tells no more."""
    if not isinstance(stored, datetime):
        return stored
    moment = stored.replace(tzinfo=UTC) if stored.tzinfo is None else stored
    return moment if exact else moment.replace(microsecond=0)


def words(stored: Observed) -> str:
    """A text as it is, all else as it is written."""
    return stored if isinstance(stored, str) else repr(stored)


def hidden(stored: Observed) -> Observed:
    """A digest in place of a secret."""
    if stored is None or isinstance(stored, Unobserved):
        return stored
    return content_digest(stored if isinstance(stored, bytes) else str(stored).encode())


def issues(tables: Tables, further: tuple[CustomField, ...]) -> list[Row]:
    """Every issue, with its further fields, what it is a duplicate of, and who touched it last."""
    values: dict[Any, dict[Any, list[Observed]]] = {}
    known = {each.id for each in further}
    ids = {row["id"] for row in tables.rows.get("issues", ())}
    for row in tables.take(
        "custom_values",
        lambda row: (
            row.get("customized_type") == ISSUE
            and row.get("custom_field_id") in known
            and row.get("customized_id") in ids
        ),
    ):
        of = values.setdefault(row["customized_id"], {})
        of.setdefault(row["custom_field_id"], []).append(row.get("value"))
    entries: dict[Any, list[Row]] = {}
    for row in tables.rows.get("journals", ()):
        if row.get("journalized_type") == ISSUE:
            entries.setdefault(row["journalized_id"], []).append(row)
    points_to = duplicates(tables)
    found: list[Row] = []
    for row in tables.take("issues"):
        id_, told = row["id"], {name: instant(value) for name, value in row.items()}
        told |= {each.column: each.value(values.get(id_, {}).get(each.id, [])) for each in further}
        told["duplicate_of"] = points_to.get(id_)
        told["updated_by"] = _updated_by(row, entries.get(id_, []))
        found.append(told)
    return found


def by_id(row: Row) -> int:
    """The order of rows by number; what has none comes first."""
    return row["id"] if type(row["id"]) is int else -1


def _updated_by(issue: Row, entries: list[Row]) -> Observed:
    """Who made the change that gave the issue its time of change.

    Redmine stores that time first and then the entry of the history; entries that came later, of
    relations from elsewhere or of watchers, leave the time as it was.
    """
    if not entries:
        return issue.get("author_id")
    ordered = sorted(entries, key=by_id)
    changed = issue.get("updated_on")
    for row in ordered:
        at = row.get("created_on")
        if isinstance(at, datetime) and isinstance(changed, datetime) and at >= changed:
            return row.get("user_id")
    return ordered[-1].get("user_id")


def duplicates(tables: Tables) -> dict[Any, Observed]:
    """Issue → the issue it is a duplicate of. Where it is one of several, they stay relations."""
    by_issue: dict[Any, list[Row]] = {}
    for row in tables.rows.get("issue_relations", ()):
        if row.get("relation_type") == DUPLICATES:
            by_issue.setdefault(row["issue_from_id"], []).append(row)
    found: dict[Any, Observed] = {}
    single: list[Observed] = []
    for issue, rows in by_issue.items():
        if len(rows) == 1:
            found[issue] = rows[0]["issue_to_id"]
            single.append(rows[0]["id"])
    tables.take("issue_relations", lambda row: row["id"] in single)
    return found


def users(tables: Tables) -> list[Row]:
    """Every account and group; membership in the one project is reported as roles."""
    names = {row["id"]: row.get("name") for row in tables.rows.get("roles", ())}
    projects = len(tables.rows.get("projects", ()))
    held: dict[Any, set[str]] = {}
    members = {row["id"]: row for row in tables.rows.get("members", ())}
    for row in tables.rows.get("member_roles", ()):
        member = members.get(row.get("member_id"), {})
        name = words(names.get(row.get("role_id")))
        where = "" if projects == 1 else f"{words(member.get('project_id'))}: "
        held.setdefault(member.get("user_id"), set()).add(where + name)
    mail = {
        row["user_id"]: row.get("address")
        for row in tables.rows.get("email_addresses", ())
        if row.get("is_default") is True
    }
    found: list[Row] = []
    for row in tables.take("users"):
        told = {name: instant(value) for name, value in row.items()}
        if row.get("hashed_password"):
            told["hashed_password"] = hidden(
                f"{words(row['hashed_password'])} {words(row.get('salt'))}"
            )
        told["twofa_totp_key"] = hidden(row.get("twofa_totp_key"))
        told["roles"] = tuple(sorted(held.get(row["id"], ())))
        told["mail"] = mail.get(row["id"])
        found.append(told)
    return found


def comments(tables: Tables) -> list[Row]:
    """Every entry of a history that says something. Who wrote it is all that Redmine knows."""
    found: list[Row] = []
    for row in tables.rows.get("journals", ()):
        if row.get("journalized_type") == ISSUE and row.get("notes") not in (None, ""):
            by, at = row.get("user_id"), instant(row.get("created_on"))
            made = {"author": by, "created_by": by, "updated_by": by}
            made |= {"created_at": at, "updated_at": at, "private_notes": row.get("private_notes")}
            stands = {"id": row["id"], "issue": row["journalized_id"], "body": row["notes"]}
            found.append({**stands, **made, "dated": None, "also_on": ()})
    return found


def watchers(tables: Tables) -> list[Row]:
    """Who watches which issue."""
    taken = tables.take("watchers", lambda row: row.get("watchable_type") == ISSUE)
    return [{"issue": row["watchable_id"], "user": row["user_id"]} for row in taken]


def attachments(tables: Tables, content: Callable[[Row], bytes | Observed]) -> list[Row]:
    """Every file that was attached; `content` is what stands on disk for it."""
    found: list[Row] = []
    for row in tables.take("attachments"):
        held = content(row)
        on, container = row.get("container_type"), row.get("container_id")
        found.append(
            {
                "id": row["id"],
                "name": row.get("filename"),
                "type": row.get("content_type"),
                "size": row.get("filesize"),
                "on": on if on in (None, ISSUE) else f"{words(on)} {words(container)}",
                "issue": container if on == ISSUE else None,
                "description": row.get("description"),
                "digest": content_digest(held) if isinstance(held, bytes) else held,
                "created_at": instant(row.get("created_on")),
                "created_by": row.get("author_id"),
            }
        )
    return found


def settings(tables: Tables) -> list[Row]:
    """The settings, without the times at which they were set; secrets as digests."""
    found: list[Row] = []
    for row in tables.take("settings"):
        name, value = row.get("name"), row.get("value")
        is_secret = any(word in str(name) for word in _SECRET_WORDS) and value
        found.append({"name": name, "value": hidden(value) if is_secret else value})
    return found


def programs(tables: Tables) -> list[Row]:
    """The rules by which the tracker decides who may do what: a text for each role."""
    return [
        {
            "path": f"roles/{words(row.get('name'))}",
            "mode": None,
            "content": row.get("permissions"),
        }
        for row in tables.rows.get("roles", ())
    ]


def tokens(tables: Tables, own: frozenset[str]) -> list[Row]:
    """Keys that let somebody in, as digests; not what signing in makes for the logins `own`."""
    ids = {row["id"] for row in tables.rows.get("users", ()) if row.get("login") in own}
    return [
        {
            "id": row["id"],
            "user_id": row.get("user_id"),
            "action": row.get("action"),
            "digest": hidden(row.get("value")),
        }
        for row in tables.take("tokens")
        if not (row.get("action") in SIGNING_IN and row.get("user_id") in ids)
    ]
