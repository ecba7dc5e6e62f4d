"""The benchmark's simulated systems as tables of records, and back.

A system is an object with attributes; `TABLES` says which attribute holds what. What is irregular
is kept all the same: members of a record that the table does not name are under `rest`, and an
entry that is no record at all is under `value`. So `attributes_of` gives back exactly what
`documents_of` was given, and a change of a record can be shown to the benchmark's own checker.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from statediff.errors import InputError
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import MemoryChunks, State, build_table
from statediff.model.values import Map, Observed, Value
from statediff.systems.tables.source import row_reader
from statediff_lab.importers.states import record_of

SOURCE: Final = "bfcl"
VALUE, REST, POSITION = "value", "rest", "position"
_PAIRS: Final = "#"
Attributes = Mapping[str, Mapping[str, Any]]
"""By system, what each attribute holds, as the host writes it."""
Record = dict[str, Any]
Document = dict[str, list[Record]]


@dataclass(frozen=True, kw_only=True)
class TableOf:
    """One table: where its records are kept, and what they hold."""

    name: str
    system: str
    attribute: str
    shape: str
    """`files`, `folders`; `by-id`: a map of records; `numbered`: a list of records with an id;
    `lists`: a map of lists of records; `list`: a list; `letters`: a list of maps from a receiver;
    `words`: a map of values; `whole`: the attributes that no other table of the system has."""
    fields: Mapping[str, Kind] = field(default_factory=dict)
    key: str = "id"
    prose: frozenset[str] = frozenset()
    """Fields that hold sentences, in which punctuation and letters' case mean nothing."""
    minted: bool = False
    """The system makes the keys itself, by counting or by chance."""
    refers: Mapping[str, str] = field(default_factory=dict)
    """Fields that hold the key of another table's record."""


_T, _I, _D, _B, _L = Kind.TEXT, Kind.INT, Kind.DECIMAL, Kind.BOOL, Kind.LIST
_FILES, _POSTS, _MAIL = "GorillaFileSystem", "TwitterAPI", "MessageAPI"
_TRADE, _TRIPS, _DESK, _CAR = "TradingBot", "TravelAPI", "TicketAPI", "VehicleControlAPI"
_ORDER = {"order_type": _T, "symbol": _T, "price": _D, "amount": _D, "status": _T}
_STOCK = {"price": _D, "percent_change": _D, "volume": _D, "MA(5)": _D, "MA(20)": _D}
_CARD = {
    "card_number": _T,
    "expiration_date": _T,
    "cardholder_name": _T,
    "card_verification_number": _I,
    "balance": _D,
}
_BOOKING = {
    "card_id": _T,
    "travel_date": _T,
    "travel_from": _T,
    "travel_to": _T,
    "travel_class": _T,
    "travel_cost": _D,
    "transaction_id": _T,
}
_TICKET = {
    "title": _T,
    "description": _T,
    "status": _T,
    "priority": _I,
    "created_by": _T,
    "resolution": _T,
}
_TRAVEL = {
    "access_token": _T,
    "token_type": _T,
    "token_expires_in": _I,
    "token_scope": _T,
    "user_first_name": _T,
    "user_last_name": _T,
    "budget_limit": _D,
}
_VEHICLE = {
    **dict.fromkeys(
        ("engine_state", "acMode", "headLightStatus", "parkingBrakeStatus", "brakePedalStatus"), _T
    ),
    **dict.fromkeys(("cruiseStatus", "destination"), _T),
    **dict.fromkeys(("remainingUnlockedDoors", "fanSpeed"), _I),
    **dict.fromkeys(
        ("fuelLevel", "batteryVoltage", "acTemperature", "humidityLevel", "distanceToNextVehicle"),
        _D,
    ),
    **dict.fromkeys(
        (f"{s}TirePressure" for s in ("frontLeft", "frontRight", "rearLeft", "rearRight")), _D
    ),
}


def _table(
    name: str, system: str, attribute: str, shape: str, fields: Mapping[str, Kind], **rest: Any
) -> TableOf:
    return TableOf(
        name=name, system=system, attribute=attribute, shape=shape, fields=fields, **rest
    )


TABLES: Final = (
    _table("file", _FILES, "root", "files", {"content": _T}, key="path"),
    _table("folder", _FILES, "root", "folders", {}, key="path"),
    _table("letter", _MAIL, "inbox", "letters", {"receiver": _T, "text": _T},
           prose=frozenset({"text"}), minted=True),
    _table("contact", _MAIL, "user_map", "words", {VALUE: _T}),
    _table("mailbox", _MAIL, "", "whole",
           {"current_user": _T, "user_count": _I, "message_count": _I, "generated_ids": _L}),
    _table("post", _POSTS, "tweets", "by-id",
           {"username": _T, "content": _T, "tags": _L, "mentions": _L},
           prose=frozenset({"content"}), minted=True),
    _table("comment", _POSTS, "comments", "lists", {"of": _T, "username": _T, "content": _T},
           prose=frozenset({"content"}), minted=True, refers={"of": "post"}),
    _table("share", _POSTS, "retweets", "lists", {"of": _T, VALUE: _I},
           minted=True, refers={VALUE: "post"}),
    _table("followed", _POSTS, "following_list", "list", {VALUE: _T}),
    _table("profile", _POSTS, "", "whole",
           {"username": _T, "password": _T, "authenticated": _B, "tweet_counter": _I}),
    _table("ticket", _DESK, "ticket_queue", "numbered", _TICKET,
           prose=frozenset({"title", "description", "resolution"}), minted=True),
    _table("desk", _DESK, "", "whole", {"ticket_counter": _I, "current_user": _T}),
    _table("order", _TRADE, "orders", "by-id", _ORDER, minted=True),
    _table("stock", _TRADE, "stocks", "by-id", _STOCK),
    _table("watched", _TRADE, "watch_list", "list", {VALUE: _T}),
    _table("transfer", _TRADE, "transaction_history", "list",
           {"type": _T, "amount": _D, "timestamp": _T}, minted=True),
    _table("account", _TRADE, "account_info", "words", {VALUE: Kind.ANY}),
    _table("market", _TRADE, "", "whole",
           {"authenticated": _B, "market_status": _T, "order_counter": _I}),
    _table("card", _TRIPS, "credit_card_list", "by-id", _CARD, minted=True),
    _table("booking", _TRIPS, "booking_record", "by-id", _BOOKING, minted=True,
           refers={"card_id": "card"}),
    _table("traveler", _TRIPS, "", "whole", _TRAVEL),
    _table("door", _CAR, "doorStatus", "words", {VALUE: _T}),
    _table("vehicle", _CAR, "", "whole", _VEHICLE),
)  # fmt: skip
BY_NAME: Final = {table.name: table for table in TABLES}
BOOKKEEPING: Final = {
    "mailbox": ("generated_ids", "message_count", "user_count"),
    "profile": ("tweet_counter",),
    "desk": ("ticket_counter",),
    "market": ("order_counter",),
}
"""Counters that the simulators keep for themselves; no tool shows them."""


def documents_of(systems: Attributes) -> Document:
    """Every table's records. `InputError` where an attribute is not what its table holds."""
    found: Document = {}
    for table in TABLES:
        if table.system in systems:
            attributes = systems[table.system]
            try:
                found[table.name] = list(_records(table, attributes))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise InputError(f"{table.system}: no {table.name} can be read: {error}") from error
    return found


def _records(table: TableOf, attributes: Mapping[str, Any]) -> Iterator[Record]:
    held = attributes.get(table.attribute)
    match table.shape:
        case "files" | "folders":
            yield from _tree(held, "", table.shape == "files")
        case "whole":
            taken = {t.attribute for t in TABLES if t.system == table.system}
            yield _record(table, "1", {n: v for n, v in attributes.items() if n not in taken})
        case "list" | "numbered" | "letters":
            yield from _listed(table, held or [], "")
        case "lists":
            for key, items in _items(held or {}):
                yield from _listed(table, items, key)
        case _:
            for key, entry in _items(held or {}):
                yield _record(table, key, entry)


def _listed(table: TableOf, items: Sequence[Any], of: str) -> Iterator[Record]:
    """The records of a list: an id of their own, else their receiver or value and its number."""
    seen: Counter[str] = Counter()
    for position, item in enumerate(items):
        pairs = list(item.items()) if isinstance(item, dict) else []
        if table.shape == "letters" and len(pairs) == 1 and isinstance(pairs[0][1], str):
            name, text = pairs[0]
            found = {"receiver": name, "text": text}
        elif table.shape == "numbered" and isinstance(item, dict) and "id" in item:
            name, found = _spelled(item["id"]), _record(table, "", item)
        else:
            found = _record(table, "", item)
            name = _spelled(found[VALUE]) if isinstance(found.get(VALUE), str | int) else ""
        name = f"{of}#{name}" if of else name
        seen[name] += 1
        key = name if seen[name] == 1 and name else f"{name}#{seen[name]}"
        found = {**found, table.key: key, POSITION: position}
        yield {**found, "of": of} if table.shape == "lists" else found


def _record(table: TableOf, key: str, entry: Any) -> Record:
    if not isinstance(entry, dict):
        return {table.key: key, VALUE: entry}
    if _PAIRS in entry or table.shape == "words":
        return {table.key: key, VALUE: entry}
    named = {n: v for n, v in entry.items() if n != VALUE and _fits(v, table.fields.get(n))}
    rest = {n: v for n, v in entry.items() if n not in named}
    return {table.key: key, **named, **({REST: rest} if rest else {})}


_KINDS: Final[Mapping[Kind, tuple[type, ...]]] = {
    Kind.TEXT: (str,),
    Kind.INT: (int,),
    Kind.DECIMAL: (int, Decimal),
    Kind.BOOL: (bool,),
    Kind.LIST: (list,),
}


def _fits(value: Any, kind: Kind | None) -> bool:
    """True if a field of the kind holds the value; what does not fit is under `rest`."""
    if kind is None or value is None:
        return kind is not None
    return isinstance(value, _KINDS[kind]) and isinstance(value, bool) == (kind is Kind.BOOL)


def _tree(entry: Any, above: str, is_file: bool) -> Iterator[Record]:
    name = entry["file"] if "file" in entry else entry["folder"]
    path = f"{above}/{name.replace('%', '%25').replace('/', '%2F')}"
    if "file" in entry:
        if is_file:
            yield {"path": path, "content": entry["content"]}
        return
    if not is_file:
        yield {"path": path}
    for each in entry["holds"].values():
        yield from _tree(each, path, is_file)


def _items(held: Any) -> Iterator[tuple[str, Any]]:
    pairs = held[_PAIRS] if _PAIRS in held else held.items()
    return ((_spelled(key), entry) for key, entry in pairs)


def _spelled(key: Any) -> str:
    """A key as text; one that is text and reads like a number is quoted."""
    if isinstance(key, str):
        return json.dumps(key) if key[:1] == '"' or _is_number(key) else key
    return str(key)


def _read(key: str) -> Any:
    if key[:1] == '"' == key[-1:]:
        with suppress(ValueError):  # a seeded key is nobody's spelling
            return json.loads(key)
    return int(key) if _is_number(key) else key


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdigit() and text.isascii()


def attributes_of(document: Document, systems: Attributes) -> dict[str, dict[str, Any]]:
    """The attributes that the records come from; `systems` says which there are."""
    found: dict[str, dict[str, Any]] = {name: {} for name in systems}
    for table in TABLES:
        if table.system not in found or table.name not in document:
            continue
        records = document[table.name]
        if table.shape == "whole":
            found[table.system] |= _entry(table, records[0]) if records else {}
        elif table.shape == "files":
            folders = [record["path"] for record in document["folder"]]
            found[table.system][table.attribute] = _rooted(records, folders)
        elif table.shape != "folders":
            found[table.system][table.attribute] = _held(table, records)
    return found


def _held(table: TableOf, records: Sequence[Record]) -> Any:
    if table.shape in ("list", "numbered", "letters"):
        return [_item(table, each) for each in _in_order(records)]
    if table.shape == "lists":
        lists: dict[str, list[Any]] = {}
        for each in _in_order(records):
            lists.setdefault(str(each["of"]), []).append(_item(table, each))
        return _map([(_read(of), items) for of, items in lists.items()])
    return _map([(_read(str(each[table.key])), _entry(table, each)) for each in records])


def _in_order(records: Sequence[Record]) -> list[Record]:
    return sorted(records, key=lambda each: int(each.get(POSITION) or 0))


def _item(table: TableOf, record: Record) -> Any:
    if table.shape == "letters" and "receiver" in record:
        return {str(record["receiver"]): record.get("text")}
    return _entry(table, {n: v for n, v in record.items() if n not in (POSITION, "of")})


def _entry(table: TableOf, record: Record) -> Any:
    if VALUE in record:
        return record[VALUE]
    named = {n: v for n, v in record.items() if n not in (table.key, REST)}
    return {**named, **record.get(REST, {})}


def _map(pairs: list[tuple[Any, Any]]) -> Any:
    if all(isinstance(key, str) for key, _ in pairs):
        return dict(pairs)
    return {_PAIRS: [list(pair) for pair in pairs]}


def _rooted(files: Sequence[Record], folders: Sequence[str]) -> Any:
    """The tree; a file whose folder is gone is gone with it."""
    nodes: dict[str, dict[str, Any]] = {}
    top: dict[str, Any] = {"folder": "/", "holds": {}}
    for path in sorted(folders, key=lambda each: each.count("/")):
        above, _, name = path.rpartition("/")
        name = name.replace("%2F", "/").replace("%25", "%")
        nodes[path] = {"folder": name, "holds": {}}
        if above in nodes:
            nodes[above]["holds"][name] = nodes[path]
        elif not above:
            top = nodes[path]
    for record in files:
        above, _, name = str(record["path"]).rpartition("/")
        name = name.replace("%2F", "/").replace("%25", "%")
        if above in nodes:
            nodes[above]["holds"][name] = {"file": name, "content": record.get("content", "")}
    return top


def schema_of(systems: Attributes) -> Schema:
    """The tables of the systems."""
    types = sorted(
        (_type(table) for table in TABLES if table.system in systems), key=lambda t: t.name
    )
    return Schema(SOURCE, "1", tuple(types), ((SOURCE, tuple(t.name for t in types)),))


def _type(table: TableOf) -> EntityType:
    kinds = {n: k for n, k in table.fields.items() if n != VALUE}
    if table.shape not in ("files", "folders", "whole"):
        kinds[VALUE] = table.fields.get(VALUE, Kind.ANY)
    if table.shape in ("list", "numbered", "letters", "lists"):
        kinds[POSITION] = Kind.INT
    if table.shape not in ("files", "folders", "words"):
        kinds[REST] = Kind.MAP
    fields = (
        Field(table.key, Kind.TEXT, is_nullable=False),
        *(Field(column_name(n), kinds[n], column=n) for n in sorted(kinds)),
    )
    return EntityType(table.name, (table.key,), fields, is_json=True)


def column_name(column: str) -> str:
    """The column as a name that the contract language reads."""
    return column.replace("(", "").replace(")", "")


def state_of(document: Document, schema: Schema, then: Then | None = None) -> State:
    """The state that the records are; a field that a record lacks is null there.

    Tables are those of `then` where nothing changed since. `InputError` where two records have one
    key.
    """
    store = MemoryChunks()
    tables = {}
    for entity in schema.types:
        records = document.get(entity.name, [])
        if then is not None and then.document.get(entity.name, []) == records:
            tables[entity.name] = then.state.tables[entity.name]
            continue
        read = row_reader(entity)
        blank = dict.fromkeys(f.source_column for f in entity.fields)
        rows = [read(record_of({**blank, **each})) for each in records]
        try:
            tables[entity.name] = build_table(entity, rows, store)
        except (ValueError, TypeError) as error:
            raise InputError(str(error)) from error
    return State(schema, tables)


@dataclass(frozen=True)
class Then:
    """An earlier moment: its records, and the state that they are."""

    document: Document
    state: State


def plain_record(entity: EntityType, row: Mapping[str, Observed], was: Record) -> Record:
    """The row as a record; what `was` lacks and is null is lacking."""
    told = {f.source_column: _plain(row.get(f.name)) for f in entity.fields}
    return {name: value for name, value in told.items() if value is not None or name in was}


def _plain(value: Observed | Value | None) -> Any:
    if isinstance(value, Map):
        return {name: _plain(each) for name, each in value.items}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value
