"""Rows of what moto holds, and what the rows of every service share. Runs in the server's process.

Cells are what JSON can say: texts, numbers, truth values, null, lists and objects; instants are ISO
texts with `Z`. Rows are sorted by nothing: the source sorts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from statediff.systems.hosted.listed import Listing
from statediff_cloud.policies import Grant, Policies, Statement, expand, span, statements
from statediff_cloud.types import RESULT_TYPES

MAX_ROWS: Final = 20_000
MAX_TEXT_BYTES: Final = 64 * 1024
_EMPTY: Final[tuple[Any, ...]] = (None, "", False, 0, (), [], {})
Row: TypeAlias = dict[str, Any]


@dataclass
class Rows:
    """By type: the rows, and how many more there are than are given."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    more: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, row: Row) -> None:
        into = self.rows.setdefault(name, [])
        if len(into) < MAX_ROWS:
            into.append(row)
        else:
            self.miss(name)

    def miss(self, *names: str) -> None:
        """One row more of each type is there, and not among those given."""
        for name in names:
            self.more[name] = self.more.get(name, 0) + 1

    @contextmanager
    def despite_damage(self, *names: str) -> Iterator[None]:
        """Reading goes on if a thing cannot be read; types of these `names` are then incomplete."""
        try:
            yield
        except Exception:  # noqa: BLE001 - moto keeps what a request says, and any shape of it
            self.miss(*names, *RESULT_TYPES)


@dataclass
class Rights:
    """The policies that decide who may do what, gathered on the way."""

    account: str
    identity: dict[str, list[Statement]] = field(default_factory=dict)
    trust: dict[str, tuple[Statement, ...]] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    resource: list[Statement] = field(default_factory=list)
    lists: list[Grant] = field(default_factory=list)


def at(moment: datetime | None) -> str | None:
    """An instant as ISO text with `Z`; one without a zone is UTC."""
    if moment is None:
        return None
    utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def millis(moment: float | None) -> str | None:
    """An instant from milliseconds since 1970; null for 0."""
    return at(datetime.fromtimestamp(moment / 1000, UTC)) if moment else None


def text_of(value: bytes | str | None) -> str | None:
    """Text; what is not UTF-8 is spelled out."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value


def digest(value: bytes | str) -> str:
    """SHA-256, hex."""
    stored = value.encode(errors="surrogatepass") if isinstance(value, str) else value
    return hashlib.sha256(stored).hexdigest()


def rest(thing: Any, *known: str) -> dict[str, Any]:
    """The attributes of an object of moto's beside the `known` ones, without empty ones."""
    return {n: plain(v) for n, v in vars(thing).items() if n not in known and v not in _EMPTY}


def plain(value: Any) -> Any:
    """Settings that moto keeps as it was given them, as far as JSON can say them."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        each = [plain(one) for one in value]
        return sorted(each, key=repr) if isinstance(value, set | frozenset) else each
    if isinstance(value, datetime):
        return at(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, bytes):
        return text_of(value)
    if hasattr(value, "__dict__"):
        return plain({n: each for n, each in vars(value).items() if not n.startswith("_")})
    return str(value)


def tags_of(listed: Iterable[Mapping[str, Any]] | None) -> dict[str, Any]:
    """Tags as a map."""
    return {str(each["Key"]): each.get("Value") for each in listed or ()}


def add_statements(
    document: str, text: str | None, into: Rows | Listing, account: str
) -> tuple[Statement, ...]:
    """Rows of a document's statements; the statements."""
    found = statements(document, text or "", account)
    for each in found:
        into.add(
            "statement",
            {
                "document": each.document,
                "number": each.number,
                "sid": each.sid,
                "effect": each.effect,
                "principals": list(each.principals),
                "actions": list(each.actions),
                "resources": list(each.resources),
                "condition": each.condition or None,
                "negated": list(each.negated),
            },
        )
    return found


def add_results(into: Rows | Listing, rights: Rights) -> None:
    """Who may do what, and who must not."""
    policies = Policies(rights.identity, rights.trust, rights.roles, rights.resource, rights.lists)
    for name, grants in zip(RESULT_TYPES, expand(policies), strict=True):
        for grant in sorted(grants):
            spans = {
                "action_span": span(grant.action, is_action=True),
                "resource_span": span(grant.resource),
            }
            into.add(name, {**grant._asdict(), **spans})


def number(value: Any) -> int | None:
    """The whole number; null for what is none."""
    try:
        return None if value in (None, "") else int(value)
    except (TypeError, ValueError):
        return None


def quoted(name: str) -> str:
    """A policy's name as part of a place: two places are never one text."""
    return name.replace("%", "%25").replace("/", "%2F").replace(":", "%3A")
