"""A Roundup tracker as its REST interface tells it: a second, independent word about its items.

1. Every collection is read page by page until as many items have come as it says it has. Items that
   come or go meanwhile show in that number, changes in the newest time of change: both begin the
   reading anew. A listing that never adds up is incomplete, whatever it says.
2. Retired items are in no listing, but can be asked for one by one: so are all numbers that a
   listing leaves out, and those after its last, until there are no more.
3. What the interface does not tell (digests, the journal, settings) is not a field here.

Its answers are as hostile as a file: bounded, read strictly, and no redirection is followed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
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
from statediff_trackers.roundup.values import ALSO_ON, number, on_which, roles

PAGE_SIZE: Final = 100
ATTEMPTS: Final = 3
ANSWER_SECONDS: Final = 5.0
MAX_PAGES: Final = 1000
MAX_PROBES: Final = 500

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\.[0-9]{2}:[0-9]{2}:[0-9]{2}")
_UNTOLD: Final = frozenset({"password", "digest", "size"})


@dataclass(frozen=True)
class ApiAccount:
    """The interface's address, and the evaluator's own account on it."""

    base: str
    """Ends in `/`, e.g. `http://127.0.0.1:40213/helpdesk/`."""
    login: str
    password: str

    def client(self) -> httpx.Client:
        """A client that signs in with every request, and takes no proxy from the environment."""
        origin = str(httpx.URL(self.base).copy_with(raw_path=b"/")).rstrip("/")
        return httpx.Client(
            base_url=f"{self.base}rest/data/",
            auth=(self.login, self.password),
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "X-Requested-With": "statediff",
                "Origin": origin,
                "Referer": self.base,
            },
            timeout=ANSWER_SECONDS,
            trust_env=False,
            verify=self.base.startswith("https:"),  # else certificates are loaded for nothing
        )


class _Incomplete(Exception):
    """A collection could not be read to its end; the message says why."""


class _Moved(_Incomplete):
    """It was written while it was read, or the tracker does not say whether it was."""


class RoundupApiSource:
    """The interface's view of `types`, the tracker's entity types as its database tells them.

    Only classes of items and their associations are asked for; `classes` maps an association or
    listing to where it stands: see `api_types`.
    """

    not_observed: ClassVar[tuple[str, ...]] = (
        "digests and sizes of contents, passwords, the journal, settings, sessions and programs",
    )

    def __init__(
        self,
        name: str,
        account: ApiAccount,
        types: tuple[EntityType, ...],
        page_size: int = PAGE_SIZE,
    ) -> None:
        self._name = name
        self._account = account
        self._types = types
        self._page_size = page_size

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        return source_schema(self._name, self._types)

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        read: dict[str, tuple[list[Row], Enumeration]] = {}
        with self._account.client() as client:
            reader = _Collections(client, self._page_size)
            wanted = _properties_to_ask(self._types)
            for kind, columns in wanted.items():
                read[kind] = reader.all(kind, columns)
        tables = {}
        for entity in self._types:
            rows, known = _rows(entity, read)
            earlier = None if like is None else like.tables.get(entity.name)
            table = build_table(entity, rows, store, like=earlier, enumeration=known)
            tables[entity.name] = (
                table.unobserved(known.cause or "not read")
                if known.coverage is Coverage.UNOBSERVED
                else table
            )
        state = State(self.schema(), tables)
        part = scanned(self._name, as_of, state)
        return part if like is None else replace(part, spoiled=tuple(reader.spoiled))


def api_types(schema: Schema, kinds: tuple[str, ...]) -> tuple[EntityType, ...]:
    """The types of the tracker's schema that the interface tells of too, without what it keeps.

    `kinds` are the tracker's classes, e.g. `("file", "issue", "msg", "user")`.
    """
    chosen: list[EntityType] = []
    for entity in schema.types:
        table = entity.source_table
        if table in kinds:
            untold = _UNTOLD | ({"content"} if table == "file" else set())
            fields = tuple(f for f in entity.fields if f.source_column not in untold)
            chosen.append(replace(entity, fields=fields))
        elif entity.is_association and table.partition("_")[0] in kinds:
            chosen.append(entity)
    return tuple(chosen)


def _properties_to_ask(types: tuple[EntityType, ...]) -> dict[str, tuple[str, ...]]:
    """Class → the properties to ask for, from which all the types can be read."""
    wanted: dict[str, set[str]] = {}
    for entity in types:
        if entity.is_association:
            kind, _, name = entity.source_table.partition("_")
            wanted.setdefault(kind, set()).add(name)
            continue
        own = wanted.setdefault(entity.source_table, set())
        columns = {f.source_column for f in entity.fields}
        own |= columns - {"id", "retired", ALSO_ON} - ({"issue"} if ALSO_ON in columns else set())
        if ALSO_ON in columns:
            listing = "messages" if entity.source_table == "msg" else "files"
            wanted.setdefault("issue", set()).add(listing)
    return {kind: tuple(sorted(names)) for kind, names in sorted(wanted.items())}


class _Collections:
    """Requests over one connection. Raises `SourceUnavailable` where nothing usable answers."""

    def __init__(self, client: httpx.Client, page_size: int) -> None:
        self._client = client
        self._page_size = page_size
        self.spoiled: list[str] = []
        """Why classes at rest cannot be read to their end."""

    def all(self, kind: str, columns: tuple[str, ...]) -> tuple[list[Row], Enumeration]:
        """Every item of a class, retired ones included, and whether that is certain."""
        last = _Incomplete()
        for _ in range(ATTEMPTS):
            try:
                listed = self._list_items(kind, columns)
                retired = self._retired_items(kind, columns, {item["id"] for item in listed})
                return [*listed, *retired], COMPLETE
            except _Incomplete as error:
                last = error
        cause = f"{kind}: {last}"
        if isinstance(last, _Moved):
            return [], Enumeration(Coverage.UNOBSERVED, unread_because(cause))
        self.spoiled.append(cause)
        return [], Enumeration(Coverage.UNOBSERVED, cause)

    def _list_items(self, kind: str, columns: tuple[str, ...]) -> list[Row]:
        items: list[Row] = []
        total: int | None = None
        for page in range(1, MAX_PAGES + 1):
            batch, said = self._page(kind, columns, page, self._page_size)
            if said < 0:
                raise _Moved("the tracker does not say how many items there are")
            if total is not None and said != total:
                raise _Moved(f"{said} items instead of {total} while they were read")
            total = said
            items += batch
            if len(items) >= total:
                break
            if not batch:
                raise _Incomplete(f"the listing ends after {len(items)} of {total} items")
        if len(items) != total or len({item["id"] for item in items}) != total:
            came = f"{len(items)} items came where the listing says {total}"
            raise _Incomplete(f"{came}, some of them twice" if len(items) == total else came)
        if page > 1:
            self._check_unchanged(kind, items)
        return items

    def _check_unchanged(self, kind: str, items: list[Row]) -> None:
        """Pages are read one after another: nothing was changed while they were."""
        newest, said = self._page(kind, ("activity",), 1, 1, "&@sort=-activity")
        latest = max((str(item["activity"]) for item in items), default="")
        if said != len(items) or (newest and str(newest[0]["activity"]) != latest):
            raise _Moved("items were changed while they were read")

    def _page(
        self, kind: str, columns: tuple[str, ...], page: int, size: int, more: str = ""
    ) -> tuple[list[Row], int]:
        fields = ",".join(columns)
        found = self._data(
            f"{kind}?@page_size={size}&@page_index={page}&@verbose=3&@fields={fields}{more}"
        )
        listed, total = (found.get("collection"), found.get("@total_size")) if found else (0, 0)
        if not isinstance(listed, tuple) or type(total) is not int or len(listed) > size:
            raise SourceRuined(NO_TRACKER)
        return [_item(entry, columns, retired=False) for entry in listed], total

    def _retired_items(self, kind: str, columns: tuple[str, ...], known: set[Any]) -> Iterator[Row]:
        last = max(known, default=0)
        missing = [id_ for id_ in range(1, last) if id_ not in known]
        if len(missing) > MAX_PROBES:
            raise _Incomplete(f"{len(missing)} numbers are in no listing")
        found = [row for id_ in missing if (row := self._one(kind, columns, id_)) is not None]
        # A refused request may have used a number up: what was retired behind it is missed here,
        # and contradicts the database.
        for id_ in range(last + 1, last + MAX_PROBES):
            row = self._one(kind, columns, id_)
            if row is None:
                return iter(found)
            found.append(row)
        raise _Incomplete("the numbers of retired items do not end")

    def _one(self, kind: str, columns: tuple[str, ...], id_: int) -> Row | None:
        found = self._data(f"{kind}/{id_}?@verbose=3&@fields={','.join(columns)}")
        if found is None:
            return None
        attributes = found.get("attributes")
        if not isinstance(attributes, Map):
            raise SourceRuined(NO_TRACKER)
        whole = Map.of({**dict(attributes.items), "id": found.get("id")})  # type: ignore[dict-item]  # JSON values
        return _item(whole, columns, retired=True)

    def _data(self, path: str) -> Map | None:
        """The `data` of an answer; None where there is no such item."""
        answer = read_object(self._client, path, ANSWER_SECONDS)
        if answer is None:
            return None
        data = answer.get("data")
        if not isinstance(data, Map):
            raise SourceRuined(NO_TRACKER)
        return data


def _item(entry: Value, columns: tuple[str, ...], *, retired: bool) -> Row:
    if not isinstance(entry, Map):
        raise SourceRuined(NO_TRACKER)
    id_ = number(entry.get("id"))
    if not isinstance(id_, int):
        raise SourceRuined("an item of the tracker has no number")
    found: Row = {"id": id_, "retired": retired}
    for name in columns:
        found[name] = _link_numbers(entry.get(name))
    return found


def _link_numbers(told: Observed) -> Observed:
    """A link as the number it leads to; several as a list of them; all else as it is."""
    match told:
        case Map():
            inner = told.get("id")
            return told if inner is ABSENT else number(inner)
        case tuple():
            return tuple(_link_numbers(each) for each in told)  # type: ignore[misc]  # values all of them
        case _:
            return told


def _rows(
    entity: EntityType, read: Mapping[str, tuple[list[Row], Enumeration]]
) -> tuple[list[Row], Enumeration]:
    if entity.is_association:
        kind, _, name = entity.source_table.partition("_")
        items, known = read[kind]
        # One that is listed twice is no more related than one that is listed once.
        pairs = dict.fromkeys(
            (item["id"], number(other)) for item in items for other in _several(item[name])
        )
        columns = [(f.name, f.source_column == "nodeid") for f in entity.fields]
        return [{n: pair[0] if own else pair[1] for n, own in columns} for pair in pairs], known
    items, known = read[entity.source_table]
    listed: dict[Any, list[int]] = {}
    if any(f.source_column == ALSO_ON for f in entity.fields):
        owners, complete = read["issue"]
        known = known if complete.is_complete else complete
        listing = "messages" if entity.source_table == "msg" else "files"
        for owner in owners:
            for each in _several(owner[listing]):
                listed.setdefault(number(each), []).append(owner["id"])  # type: ignore[arg-type]  # a number, as the shape says
    rows: list[Row] = []
    for item in items:
        whole = {**item, **on_which("issue", listed.get(item["id"], []))}
        rows.append({f.name: _cell(f, whole.get(f.source_column, ABSENT)) for f in entity.fields})
    return rows, known


def _several(told: Observed) -> tuple[Value, ...]:
    return told if isinstance(told, tuple) else ()


def _cell(field: Field, told: Observed) -> Observed:
    if field.reference is not None:
        return number(told)
    if field.source_column == "roles":
        return roles(told)
    if field.kind in (Kind.TIMESTAMP, Kind.ANY) and isinstance(told, str) and _DATE.fullmatch(told):
        with contextlib.suppress(ValueError):
            return datetime.strptime(told, "%Y-%m-%d.%H:%M:%S").replace(tzinfo=UTC)
    return told
