"""The history of a Redmine's issues, one row a changed property, as its journals hold it.

An entry of Redmine's history says who, when, which properties were what before, and what somebody
wrote: that is a comment at the same time. So a comment's making is told twice, as a change of what
stands on the issue and as the beginning of the comment.

A relation is entered on both issues. It is told where it begins, if both say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from statediff.model.batches import Row
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import Observed, show
from statediff.systems.redmine.tables import DUPLICATES, ISSUE, Tables, by_id, instant, words
from statediff.systems.roundup.values import number

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
    mirrored = _mirrored(journals, details)
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
            "on": on, "item": item, "at": at, "position": self._position[moment], "by": by,
            "action": action, "field": name, "before": before, "after": after,
        }  # fmt: skip
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


def _mirrored(journals: list[Row], details: Mapping[Any, list[Row]]) -> set[Any]:
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
