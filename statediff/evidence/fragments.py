"""Fragments: the entities that a decision read, with explicit presence, and views over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from statediff.errors import BundleError, NotReplayable
from statediff.evidence.canonical import write
from statediff.evidence.documents import (
    enumeration_from,
    fields_document,
    fields_from,
    key_document,
    key_from,
)
from statediff.model.batches import Row, encode_rows
from statediff.model.delta import delta_id
from statediff.model.schema import EntityType, Schema
from statediff.model.state import (
    NOT_DELIVERED,
    Coverage,
    Enumeration,
    MemoryChunks,
    State,
    Table,
    build_table,
)
from statediff.model.timelines import Timelines
from statediff.model.values import ABSENT, Key, Observed, key_order, same
from statediff.model.view import Look, RowTransform, Scan

Json = Any


def fragment_id(side: str, type_name: str, key: Key) -> str:
    """How read-sets name a fragment."""
    return f"{side}:{delta_id(type_name, key, '')}"


ENDS: Final = frozenset({"before", "after"})
"""The sides that are looked at often; of the others there may be thousands."""


def scan_id(scan: Scan) -> str:
    """How read-sets name a whole type that was ranged over."""
    return f"{scan.side}:{scan.type}[*].({','.join(scan.fields)})"


@dataclass(frozen=True)
class Collected:
    """The raw fragments of one matching; the rows as they are written, for there may be many."""

    rows: list[bytes]
    places: list[tuple[Look, str]]
    """The look that each row is of, and its presence."""
    scans: list[Json]

    def written(self) -> bytes:
        """The canonical bytes."""
        return b'{"rows":[%b],"scans":%b}' % (b",".join(self.rows), write(self.scans))


def collect(
    states: Mapping[str, State],
    looks: Iterable[Look],
    scans: Iterable[Scan],
    changed: Iterable[tuple[str, Key]],
    leaves: Callable[[str, Iterable[str]], bool] = lambda _t, _f: True,
) -> Collected:
    """The raw fragments for what was looked at, ranged over, or changed, in a fixed order.

    A scan keeps the fields that were read, or whole rows where ν changes one of these (a rule may
    read one field to write another).
    """
    wanted = {
        *looks,
        *(Look(side, name, key) for name, key in changed for side in ("before", "after")),
    }
    rows, places = list[bytes](), list[tuple[Look, str]]()
    for look in sorted(wanted, key=lambda look: (look.side, look.type, look.order)):
        side, name, key = look.side, look.type, look.key
        table = states[side].tables.get(name)
        row = None
        presence = "UNOBSERVED"
        if table is not None and table.enumeration.coverage is not Coverage.UNOBSERVED:
            row = table.row(key) if side in ENDS else table.lone_row(key)
            presence = (
                "PRESENT"
                if row is not None
                else ("UNOBSERVED" if table.enumeration.may_miss(key) else "ABSENT")
            )
        places.append((look, presence))
        document = {
            "id": fragment_id(side, name, key),
            "side": side,
            "type": name,
            "key": key_document(key),
            "presence": presence,
            "fields": None if row is None else fields_document(tuple(row.items())),
        }
        rows.append(write(document))
    ranges: list[Json] = []
    for scan in sorted(set(scans), key=lambda s: (s.side, s.type, s.fields)):
        table = states[scan.side].tables.get(scan.type)
        members = (
            []
            if table is None or table.enumeration.coverage is Coverage.UNOBSERVED
            else [
                [key_document(key), fields_document(tuple(row.items()))]
                for key, row in table.rows(scan.fields if leaves(scan.type, scan.fields) else None)
            ]
        )
        ranges.append(
            {
                "id": scan_id(scan),
                "side": scan.side,
                "type": scan.type,
                "fields": list(scan.fields),
                "members": members,
            }
        )
    return Collected(rows, places, ranges)


class Rows(Protocol):
    """The raw entities of a trial, side by side."""

    def enumeration(self, side: str, type_name: str) -> Enumeration | None: ...

    def row(self, side: str, type_name: str, key: Key) -> Row | None: ...


def part_of(
    rows: Rows, schema: Schema, sides: Mapping[str, str], changed: Iterable[tuple[str, Key]]
) -> State:
    """A state of only these entities: each type (those of `sides`) as it was on its side."""
    members: dict[str, list[tuple[Key, Row]]] = {}
    for name, key in changed:
        row = rows.row(sides[name], name, key) if name in sides else None
        if row is not None:
            members.setdefault(name, []).append((key, row))
    tables: dict[str, Table] = {}
    for entity in schema.types:
        side = sides.get(entity.name)
        enumeration = None if side is None else rows.enumeration(side, entity.name)
        if enumeration is None:
            continue
        found = sorted(members.get(entity.name, ()), key=lambda pair: key_order(pair[0]))
        store = MemoryChunks()
        if entity.is_keyless:
            chunk = store.put(encode_rows(entity, found))
            tables[entity.name] = Table(entity, (chunk,), (), store, enumeration)
        else:
            whole = [{**{f.name: ABSENT for f in entity.fields}, **row} for _, row in found]
            tables[entity.name] = build_table(entity, whole, store, enumeration=enumeration)
    return State(schema, tables)


@dataclass(frozen=True)
class Fragments:
    """The fragments of one matching, read back."""

    schema: Schema
    enumerations: Mapping[tuple[str, str], Enumeration]
    rows: Mapping[Look, Row | None]
    scans: Mapping[tuple[str, str, tuple[str, ...]], tuple[tuple[Key, Row], ...]]

    def enumeration(self, side: str, type_name: str) -> Enumeration | None:
        """How completely the type was enumerated there; None where no source delivered it."""
        return self.enumerations.get((side, type_name))

    def state(self, side: str, changed: Iterable[tuple[str, Key]]) -> State:
        """A state of only the changed entities: its diff is the diff of the whole states."""
        sides = {entity.name: side for entity in self.schema.types}
        return part_of(self, self.schema, sides, changed)

    def row(self, side: str, type_name: str, key: Key) -> Row | None:
        """The entity; None when the bundle says it is not there.

        `NotReplayable` when it is silent.
        """
        try:
            row = self.rows[Look(side, type_name, key)]
        except KeyError:
            raise NotReplayable(
                f"the bundle does not hold {fragment_id(side, type_name, key)}"
            ) from None
        return None if row is None else dict(row)


def read_fragments(document: Json, schema: Schema, enumerations: Json) -> Fragments:
    """Fragments from a bundle's documents; `BundleError` where they contradict themselves."""
    covers = {(side, name): enumeration_from(entry) for side, name, entry in enumerations}
    if len(covers) != len(enumerations):
        raise BundleError("captures.json: a type is enumerated twice on one side")
    rows: dict[Look, Row | None] = {}
    for entry in document["rows"]:
        place = Look(entry["side"], entry["type"], key_from(entry["key"]))
        if place in rows:
            raise BundleError(f"fragments.json: {entry['id']} stands twice")
        enumeration = covers.get((place.side, place.type), NOT_DELIVERED)
        presence = entry["presence"]
        if presence not in _presences(enumeration, place.key):
            raise BundleError(
                f"fragments.json: {entry['id']} is {presence}, but the enumeration "
                f"of {place.type} {place.side} is {enumeration.coverage.value}"
            )
        if entry["id"] != fragment_id(place.side, place.type, place.key):
            raise BundleError(f"fragments.json: {entry['id']} has the key of another")
        if (entry["presence"] == "PRESENT") != (entry["fields"] is not None):
            raise BundleError(f"fragments.json: {entry['id']} contradicts its presence")
        rows[place] = None if entry["fields"] is None else fields_from(entry["fields"])
    scans = {
        (entry["side"], entry["type"], tuple(entry["fields"])): tuple(
            (key_from(key), fields_from(fields)) for key, fields in entry["members"]
        )
        for entry in document["scans"]
    }
    if len(scans) != len(document["scans"]):
        raise BundleError("fragments.json: a scan stands twice")
    return Fragments(schema, covers, rows, scans)


def check_places(
    fragments: Fragments,
    changed: Sequence[tuple[str, Key]],
    touched: Mapping[tuple[str, int], tuple[tuple[str, Key], ...]],
    course: Timelines,
) -> None:
    """Each place can be compared between its sides: listed once, and its rows have its key.

    `BundleError` if not. A place of a type that the schema does not have is left to the index.
    """
    lines = {line.source: line for line in course.lines}
    _require_distinct(changed)
    for name, key in changed:
        _check_rows(fragments, name, key, ENDS)
    for (source, number), places in touched.items():
        line = lines.get(source)
        if line is None or not 1 <= number <= len(line.steps):
            raise BundleError(f"index.json: {source} has no transaction {number}")
        _require_distinct(places)
        for name, key in places:
            sides = {line.side_of(name, at) for at in (0, number - 1, number)}
            _check_rows(fragments, name, key, sides)


def _require_distinct(places: Iterable[tuple[str, Key]]) -> None:
    seen: set[tuple[str, Any]] = set()
    for name, key in places:
        place = name, key_order(key)
        if place in seen:
            raise BundleError(f"index.json: {delta_id(name, key, '')} is listed twice")
        seen.add(place)


def _check_rows(fragments: Fragments, name: str, key: Key, sides: Iterable[str]) -> None:
    entity = fragments.schema.by_name.get(name)
    for side in sorted(sides):
        row = fragments.rows.get(Look(side, name, key))
        if entity is not None and row is not None and not _is_of(entity, key, row):
            raise BundleError(f"fragments.json: {fragment_id(side, name, key)} has another key")


def _is_of(entity: EntityType, key: Key, row: Mapping[str, Observed]) -> bool:
    if entity.is_keyless:  # whose key is (digest of the row, occurrence)
        return len(key) == KEYLESS_PARTS and entity.by_name.keys() <= row.keys()
    own = tuple(row.get(name, ABSENT) for name in entity.key)
    return len(own) == len(key) and all(same(a, b) for a, b in zip(own, key, strict=True))


KEYLESS_PARTS: Final = 2


def _presences(enumeration: Enumeration, key: Key) -> tuple[str, ...]:
    """The presences that an entity may have, by how completely its type was enumerated."""
    if enumeration.coverage is Coverage.UNOBSERVED:
        return ("UNOBSERVED",)
    return ("PRESENT", "UNOBSERVED" if enumeration.may_miss(key) else "ABSENT")


class FragmentView:
    """One side of a bundle as a view: it answers exactly what the decision asked."""

    def __init__(self, fragments: Fragments, side: str, transform: RowTransform) -> None:
        self._fragments = fragments
        self._side = side
        self._transform = transform

    @property
    def schema(self) -> Schema:
        return self._fragments.schema

    def enumeration(self, type_name: str) -> Enumeration:
        found = self._fragments.enumerations.get((self._side, type_name))
        return found or NOT_DELIVERED

    def row(self, type_name: str, key: Key) -> Row | None:
        row = self._fragments.row(self._side, type_name, key)
        return None if row is None else self._transform.row(type_name, row)

    def rows(self, type_name: str, fields: tuple[str, ...]) -> Iterator[tuple[Key, Row]]:
        try:
            members = self._fragments.scans[self._side, type_name, fields]
        except KeyError:
            raise NotReplayable(
                f"the bundle does not hold {type_name} {self._side} with {', '.join(fields)}"
            ) from None
        for key, row in members:
            yield key, self._transform.row(type_name, dict(row))
