"""Read rows, and the changes they show (R-TRU-6, R-TRU-7)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .basics import Refused, canonical, need
from .opening import Bundle, CannotTell

SIDES = ("before", "after")
COVERAGE = ("complete", "incomplete", "unobserved")
NOT_DELETED: list[list[Any]] = [
    ["null"],
    ["absent"],
    ["bool", False],
    ["int", "0"],
    ["text", ""],
    ["text", "0"],
    ["text", "false"],
]
Name = tuple[str, bytes]


@dataclass
class Change:
    """The change of one entity."""

    kind: str
    key: list[Any]
    operation: str
    old: dict[str, list[Any]] | None
    new: dict[str, list[Any]] | None
    paths: list[str]


@dataclass
class State:
    """The rows of a bundle, by side, and how completely its types were enumerated."""

    schemas: dict[str, dict[str, Any]]
    coverage: dict[tuple[str, str], str]
    below: dict[tuple[str, str], list[str]]
    rows: dict[tuple[str, Name], dict[str, Any]]
    changes: list[Change]

    def is_complete(self, side: str, kind: str) -> bool:
        """Tell whether all entities of the type were enumerated on the side."""
        return self.coverage.get((side, kind)) == "complete"

    def presences(self, side: str, kind: str, key: list[Any]) -> tuple[str, ...]:
        """Return what may be said of an entity, by how its type was enumerated."""
        coverage = self.coverage.get((side, kind), "unobserved")
        if coverage == "unobserved":
            return ("UNOBSERVED",)
        below = self.below[(side, kind)]
        is_open = coverage == "incomplete"
        if is_open and below and key and key[0][0] == "text":
            is_open = any(key[0][1].startswith(beginning) for beginning in below)
        return ("PRESENT", "UNOBSERVED" if is_open else "ABSENT")


def _enumerated(bundle: Bundle, state: State) -> None:
    for side, kind, (coverage, _, *more) in bundle.documents["captures.json"]["enumerations"][0]:
        is_new = (side, kind) not in state.coverage
        need(is_new and coverage in COVERAGE, "R-TRU-6 enumerations")
        below = more[0] if more else []
        need(not more or coverage == "incomplete", "R-TRU-6 beginnings of what is complete")
        apart = all(a < b and not b.startswith(a) for a, b in pairwise(below))
        need(apart, "R-TRU-6 beginnings in another order, or one of another")
        state.coverage[(side, kind)], state.below[(side, kind)] = coverage, below


def _held(row: dict[str, Any], schema: dict[str, Any]) -> dict[str, list[Any]]:
    held: dict[str, list[Any]] = dict(row["fields"])
    need(len(held) == len(row["fields"]), "R-TRU-7 a field twice")
    if schema["key"]:
        need([held.get(name) for name in schema["key"]] == row["key"], "R-TRU-7 key fields")
    return held


def _check_kinds(held: dict[str, list[Any]], schema: dict[str, Any]) -> None:
    kinds = {field["name"]: field["kind"] for field in schema["fields"]}
    for name, value in held.items():
        kind = kinds.get(name)
        if kind not in ("int", "text", "bool") or value[0] not in (kind, "null", "absent"):
            raise CannotTell("a field of another kind")
    mark = schema["deleted_when"]
    if mark is not None and held.get(mark, ["null"]) not in NOT_DELETED:
        raise CannotTell("an entity that is marked as deleted")


def _rows(bundle: Bundle, state: State) -> None:
    for row in bundle.documents["fragments.json"][0]["rows"]:
        need(row["side"] in SIDES and row["type"] in state.schemas, "R-TRU-6 no type or side")
        name = (row["side"], (row["type"], canonical(row["key"])))
        need(name not in state.rows, "R-TRU-6 a row twice")
        allowed = state.presences(row["side"], row["type"], row["key"])
        need(row["presence"] in allowed, "R-TRU-6 presence")
        need((row["fields"] is None) == (row["presence"] != "PRESENT"), "R-TRU-6 fields")
        state.rows[name] = row


def _sides(state: State, name: Name) -> list[dict[str, list[Any]] | None] | None:
    """Return the fields of an entity on both sides; None if a side was not observed."""
    schema = state.schemas[name[0]]
    sides: list[dict[str, list[Any]] | None] = []
    for side in SIDES:
        row = state.rows.get((side, name))
        if row is None:
            raise Refused("R-TRU-7 an entity without a row")
        if row["presence"] == "UNOBSERVED":
            return None
        held = None
        if row["presence"] == "PRESENT":
            held = _held(row, schema)
            _check_kinds(held, schema)
        sides.append(held)
    return sides


def _compare(state: State, name: Name, key: list[Any]) -> Change | None:
    schema = state.schemas[name[0]]
    sides = _sides(state, name)
    if sides is None:
        return None
    old, new = sides
    if old is None or new is None:
        if old is None and new is None:
            return None
        operation = "create" if old is None else "delete"
        return Change(name[0], key, operation, old, new, [""])
    absent = ["absent"]
    fields = list(dict.fromkeys([*old, *new]))
    paths = [field for field in fields if old.get(field, absent) != new.get(field, absent)]
    if not paths:
        return None
    if not schema["key"]:
        raise CannotTell("an update of a type without a key")
    fixed = {field["name"] for field in schema["fields"] if field["is_immutable"]}
    if schema["keys_are_reused"] or fixed & set(paths) or schema["deleted_when"] in paths:
        raise CannotTell("a field that changes identity")
    return Change(name[0], key, "update", old, new, paths)


def _candidates(bundle: Bundle, state: State) -> dict[Name, list[Any]]:
    found: dict[Name, list[Any]] = {}
    for kind, key in bundle.documents["index.json"][0]["changed"]:
        name = (kind, canonical(key))
        need(kind in state.schemas and name not in found, "R-TRU-7 changed")
        found[name] = key
    for entry in bundle.documents.get("roots.json", {}).get("opened", []):
        for key, _, before, after in entry["rows"]:
            if before != after:
                need(entry["type"] in state.schemas, "R-TRU-7 an opened type that is none")
                found.setdefault((entry["type"], canonical(key)), key)
    return found


def _check_deltas(bundle: Bundle, changes: list[Change]) -> None:
    made = sorted(
        canonical([change.operation, change.kind, change.key, path])
        for change in changes
        for path in change.paths
    )
    deltas = bundle.documents["judgement.json"]["deltas"]
    names = ("op", "type", "key", "path")
    said = sorted(canonical([delta[name] for name in names]) for delta in deltas)
    need(made == said, "R-TRU-7 deltas")
    index = bundle.documents["index.json"][0]
    counts: dict[str, int] = {}
    for change in changes:
        counts[change.kind] = counts.get(change.kind, 0) + len(change.paths)
    need(index["deltas"] == counts, "R-TRU-7 counts of deltas")
    found = sorted(canonical([change.kind, change.key]) for change in changes)
    need(found == sorted(canonical(entity) for entity in index["changed"]), "R-TRU-7 changed")


def read_state(bundle: Bundle) -> State:
    """Return the rows and the changes of a bundle with one matching."""
    schemas = {entry["name"]: entry for entry in bundle.documents["schema.json"]["types"]}
    state = State(schemas, {}, {}, {}, [])
    _enumerated(bundle, state)
    _rows(bundle, state)
    for row in state.rows.values():
        if row["presence"] == "PRESENT":
            _held(row, schemas[row["type"]])
    for name, key in _candidates(bundle, state).items():
        change = _compare(state, name, key)
        if change is not None:
            if schemas[name[0]]["is_association"]:
                raise CannotTell("a change of an association")
            state.changes.append(change)
    _check_deltas(bundle, state.changes)
    return state
