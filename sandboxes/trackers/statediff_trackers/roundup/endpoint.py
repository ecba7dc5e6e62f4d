"""A Roundup tracker that nobody here started: every class that its REST interface shows.

`roundup+http://LOGIN:PASSWORD@HOST:PORT/TRACKER/`, without a password in it
`STATEDIFF_PASSWORD_NAME` of the source NAME. The interface names the classes and, of an item, all
properties; it does not say of what kind they are, so that a value is taken as it is shown: a link
is the number of an item, a multilink a list of them, a date an instant. A class without an item is
open. Reading is that of `api`: page by page, retired items too, twice where it moved.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

import httpx

from statediff.capture.source import Clock, SourceRuined
from statediff.errors import UsageError
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import ChunkStore, State
from statediff.model.values import Map, printable
from statediff.systems.base.rows import source_schema
from statediff.systems.base.urls import account_of, password_variable, url_without_password
from statediff.systems.hosted.rest import NO_TRACKER, read_object
from statediff.systems.hosted.transport import http_url
from statediff.systems.relational.schema import Refine
from statediff_trackers.roundup.api import ANSWER_SECONDS, ApiAccount, RoundupApiSource

_NOT_TOLD: Final = frozenset({"password"})
"""Properties that are shown as stars, whatever they are."""
_OWN: Final = (Field("id", Kind.INT, is_nullable=False), Field("retired", Kind.BOOL))


class RoundupEndpointSource:
    """All classes that the account may view, with every property of their items."""

    not_observed: ClassVar[tuple[str, ...]] = (
        "passwords, the journal, settings, sessions, programs, and what the account may not view",
        "contents of files that the interface refuses to show; the rest of an item is seen",
    )

    def __init__(self, name: str, url: str, refine: Refine | None = None) -> None:
        login, password = account_of(name, url)
        if login is None or password is None:
            raise UsageError(
                f"{printable(url_without_password(url))}: expected LOGIN:PASSWORD@ before the "
                f"host, or the password in {password_variable(name)}"
            )
        self._name = name
        self._account = ApiAccount(f"{http_url(url).rstrip('/')}/", login, password)
        self._refine = refine

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        with self._account.client() as client:
            types = [_type(client, kind) for kind in _classes(client)]
        schema = source_schema(self._name, types)
        return schema if self._refine is None else self._refine(schema)

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        types = self.schema().types
        if like is not None:  # a property that no item has any more is one still
            types = tuple(_widened(each, like.schema.by_name.get(each.name)) for each in types)
        return RoundupApiSource(self._name, self._account, types).read(store, clock, like)


def _widened(found: EntityType, before: EntityType | None) -> EntityType:
    """The type as it was before the run, with the properties that came."""
    if before is None or before.is_open:
        return found
    new = tuple(each for each in found.fields if each.name not in before.by_name)
    return replace(before, fields=(*before.fields, *new))


def _classes(client: httpx.Client) -> list[str]:
    """The names of the classes that the account may view."""
    data = _data(read_object(client, "../data", ANSWER_SECONDS))
    return sorted(name for name, _ in data.items)


def _type(client: httpx.Client, kind: str) -> EntityType:
    """The type of a class, with the properties that its first item has."""
    page = _data(read_object(client, f"{kind}?@page_size=1&@page_index=1", ANSWER_SECONDS))
    listed = page.get("collection")
    if not isinstance(listed, tuple):
        raise SourceRuined(NO_TRACKER)
    if not listed:
        return EntityType(kind, ("id",), _OWN, is_open=True)
    first = listed[0]
    number = str(first.get("id")) if isinstance(first, Map) else ""
    item = _data(read_object(client, f"{kind}/{number}?@protected=true", ANSWER_SECONDS))
    attributes = item.get("attributes")
    if not isinstance(attributes, Map):
        raise SourceRuined(NO_TRACKER)
    names = sorted({name for name, _ in attributes.items} - {"id", "retired"} - _NOT_TOLD)
    return EntityType(kind, ("id",), (*_OWN, *(Field(name, Kind.ANY) for name in names)))


def _data(answer: Map | None) -> Map:
    data = None if answer is None else answer.get("data")
    if not isinstance(data, Map):
        raise SourceRuined(NO_TRACKER)
    return data
