"""Other values of the same kind: what a fault writes in place of what was there."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal

from statediff.model.batches import Row
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import Key, Map, Observed, Value

_LATIN_CYRILLIC = {"a": "а", "e": "е", "o": "о", "p": "р", "c": "с", "x": "х", "i": "і"}  # noqa: RUF001 — look-alikes are the point


def other(value: Observed, field: Field, in_use: Iterable[Observed] = ()) -> Value:
    """A plausible value that is not `value`: one in use elsewhere, else one close by."""
    for candidate in in_use:
        if type(candidate) is type(value) and candidate != value:
            return candidate  # type: ignore[return-value]  # of the value's own type
    return near(value, field)


def near(value: Observed, field: Field) -> Value:
    """A value of the same kind right beside it; for a null, some value of the field's kind."""
    match value:
        case bool():
            return not value
        case int() | Decimal() | float():
            return value + 1
        case datetime():
            return value + timedelta(days=1)
        case date():
            return value + timedelta(days=1)
        case str():
            return f"{value} (altered)"
        case bytes():
            return value + b"\x01"
        case tuple():
            return (*value, *value[:1]) if value else ("altered",)
        case Map():
            return Map.of({**dict(value.items), "altered": True})
        case _:
            return some(field.kind)


def some(kind: Kind, number: int = 1) -> Value:
    """Some value of a kind, another for every number."""
    match kind:
        case Kind.BOOL:
            return bool(number % 2)
        case Kind.INT:
            return number
        case Kind.DECIMAL:
            return Decimal(number)
        case Kind.FLOAT:
            return float(number)
        case Kind.BYTES:
            return b"fault %d" % number
        case Kind.TIMESTAMP:
            return datetime.fromisoformat("2026-01-01T00:00:00+00:00") + timedelta(days=number)
        case Kind.LOCAL_TIMESTAMP:
            return datetime.fromisoformat("2026-01-01T00:00:00") + timedelta(days=number)
        case Kind.DATE:
            return date(2026, 1, 1) + timedelta(days=number)
        case Kind.LIST:
            return (f"fault {number}",)
        case Kind.MAP:
            return Map.of({"fault": number})
        case Kind.TEXT | Kind.ANY:
            return f"fault {number}"


def look_alike(text: str) -> str | None:
    """The text with one letter of another script that looks the same; None if it has none."""
    for at, letter in enumerate(text):
        if letter in _LATIN_CYRILLIC:
            return text[:at] + _LATIN_CYRILLIC[letter] + text[at + 1 :]
    return None


def fresh_key(entity: EntityType, keys: Iterable[Key], like: Key) -> Key:
    """A key no entity has: the last part of `like`, moved until it is free."""
    taken = set(keys)
    last = entity.by_name[entity.key[-1]]
    candidate = like
    for number in range(1, len(taken) + 2):
        part = like[-1]
        moved: Value
        if isinstance(part, int) and not isinstance(part, bool):
            moved = max((k[-1] for k in taken if isinstance(k[-1], int)), default=0) + number
        elif isinstance(part, str):
            moved = f"{part}-{number}"
        else:
            moved = some(last.kind, number)
        candidate = (*like[:-1], moved)
        if candidate not in taken:
            return candidate
    return candidate


def with_key(entity: EntityType, row: Row, key: Key) -> Row:
    """The row under another key."""
    return {**row, **dict(zip(entity.key, key, strict=True))}


def invented(entity: EntityType, number: int = 1) -> Row:
    """A row of a type of which none was seen: some value in every field, references null."""
    return {
        f.name: None
        if f.is_nullable and (f.reference or f.name == entity.deleted_when)
        else some(f.kind, number)
        for f in entity.fields
    }
