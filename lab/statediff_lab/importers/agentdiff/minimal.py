"""The least recorded diff that satisfies the assertions of a task, made from them and the seed.

Rows are added with the values that `where` asks for, changed as `expected_changes` says, removed
where a `removed` assertion finds them. What nothing asks for is filled in so that the rows are
believable: references point to what the same diff adds, else to the acting user or to what the seed
holds; other columns look like those of a row that is there. A counter that the system keeps moves
along, where the pack's settings name one (`counters: {TABLE.COLUMN: TABLE.COLUMN}`: the column
counts the rows whose column refers to its row).

Whether the result satisfies the assertions is for the rules to say: `minimal` returns None where
they do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from decimal import Decimal
from typing import Final

from statediff.model.schema import Kind
from statediff_lab.importers.agentdiff.domain import Ground
from statediff_lab.importers.agentdiff.format import (
    Assertion,
    Change,
    Journal,
    Json,
    RawRow,
    TaskSuite,
    Test,
    Update,
)
from statediff_lab.importers.agentdiff.rules import bounds, holds, satisfies, score
from statediff_lab.importers.pack import DomainPack

COUNTERS: Final = "counters"
_PARTS: Final = frozenset({"contains", "i_contains"})
NOW: Final = "2025-01-02T00:00:00"


def minimal(suite: TaskSuite, test: Test, ground: Ground, pack: DomainPack) -> Journal | None:
    """A journal that passes the task's assertions; None where none could be made."""
    for together in (True, False):
        made = _Maker(test, ground, together=together).journal()
        journal = _move_counters(made, ground, pack.settings.get(COUNTERS, {}))
        if score(suite, test, journal).passes:
            return journal
    return None


class _Maker:
    """One attempt. `together`: a row that is added may serve several assertions at once."""

    def __init__(self, test: Test, ground: Ground, *, together: bool) -> None:
        self._test = test
        self._ground = ground
        self._together = together
        self._seed = {table: [dict(row) for row in rows] for table, rows in ground.raw.items()}
        self._added: list[tuple[str, dict[str, Json]]] = []
        self._updates: list[Update] = []
        self._changed: list[tuple[RawRow, set[str]]] = []
        """For each update, the row it began with and the fields that it is about."""
        self._late: list[Assertion] = []
        """Changes of rows that the seed does not have."""
        self._removed: list[tuple[str, RawRow]] = []

    def journal(self) -> Journal:
        """The diff; whether it satisfies the assertions is not looked at."""
        for assertion in self._test.assertions:
            match assertion.diff_type:
                case "added":
                    self._add(assertion)
                case "removed":
                    self._remove(assertion)
                case "changed":
                    self._change(assertion)
                case _:
                    pass
        for at, (table, row) in enumerate(self._added):
            self._fill(at, table, row)
        for assertion in self._late:
            self._change_new_row(assertion)
        return Journal(tuple(self._added), tuple(self._updates), tuple(self._removed))

    # --- rows that are added ---

    def _add(self, assertion: Assertion) -> None:
        there = sum(
            table == assertion.entity and satisfies(row, assertion.where)
            for table, row in self._added
        )
        for at in range(there if self._together else 0, bounds(assertion)[0] or 0):
            values = _wanted_values(assertion, at)
            host = self._host(assertion, values) if self._together else None
            if host is None:
                self._added.append((assertion.entity, values))
            else:
                host |= {name: _join(host.get(name), value) for name, value in values.items()}

    def _host(self, assertion: Assertion, values: RawRow) -> dict[str, Json] | None:
        """A row that is added already, does not satisfy the assertion yet, and could."""
        exact = {path.partition(".")[0] for path, predicate in assertion.where if "eq" in predicate}
        for table, row in self._added:
            if table != assertion.entity or satisfies(row, assertion.where):
                continue
            if all(
                row.get(name) in (None, value)
                or (name not in exact and _join(row[name], value) is not None)
                for name, value in values.items()
            ):
                return row
        return None

    def _fill(self, at: int, table: str, row: dict[str, Json]) -> None:
        entity = self._ground.types.get(table)
        rows = self._seed.get(table, [])
        example: RawRow = rows[0] if rows else {}
        keys = self._ground.keys.get(table, ())
        for spec in entity.fields if entity else ():
            name = spec.source_column
            if name in row:
                continue
            if keys == (name,):
                row[name] = _new_key(at)
            elif spec.reference is not None and (name in keys or example.get(name) is not None):
                row[name] = self._target_key(table, name, spec.reference, row, keys)
            elif spec.kind is Kind.TEXT and example.get(name) is not None:
                row[name] = f"{name} of {table} {at + 1}"
            else:
                row[name] = deepcopy(example.get(name))

    def _target_key(
        self, table: str, name: str, target: str, row: RawRow, keys: tuple[str, ...]
    ) -> Json:
        """A key of the target: of a row just added, else the acting user, else of the seed."""
        own = self._ground.keys.get(target, ())
        if len(own) != 1:
            return None
        added = [_new_key(at) for at, (t, _) in enumerate(self._added) if t == target != table]
        user = [self._test.acting_user] if self._test.acting_user else []
        there = [known.get(own[0]) for known in self._seed.get(target, [])]
        candidates = [*added, *(u for u in user if u in there), *there]
        taken = [
            r for r in (*self._seed.get(table, []), *(r for _, r in self._added)) if r is not row
        ]
        for candidate in candidates:
            if name not in keys or not any(
                all(other.get(k) == {**row, name: candidate}.get(k) for k in keys)
                for other in taken
            ):
                return candidate
        return None

    # --- rows that are there ---

    def _remove(self, assertion: Assertion) -> None:
        found = [
            row for row in self._seed.get(assertion.entity, []) if satisfies(row, assertion.where)
        ]
        for row in found[: bounds(assertion)[0] or 0]:
            self._seed[assertion.entity].remove(row)
            self._removed.append((assertion.entity, row))

    def _change(self, assertion: Assertion) -> None:
        """Changes rows of the seed; where none is meant, rows that the diff itself adds."""
        rows = self._seed.get(assertion.entity, [])
        found = [row for row in rows if satisfies(row, assertion.where)]
        for row in found[: bounds(assertion)[0] or 0]:
            self._update(assertion, row)
        if not found and bounds(assertion)[0]:
            self._late.append(assertion)

    def _change_new_row(self, assertion: Assertion) -> None:
        for table, row in self._added:
            after = {**row, **{c.field: _new_value(row.get(c.field), c) for c in assertion.changes}}
            if table == assertion.entity and satisfies(after, assertion.where):
                self._update(assertion, row)
                return

    def _update(self, assertion: Assertion, row: RawRow) -> None:
        """One entry of the journal for the row, which earlier entries may have begun."""
        at = next((at for at, (known, _) in enumerate(self._changed) if known is row), None)
        before, after = dict(row), dict(row)
        if at is not None and self._together:
            before, after = dict(self._updates[at].before), dict(self._updates[at].after)
        for change in assertion.changes:
            old = before.get(change.field)
            if change.old is not None and not holds(old, change.old):
                before[change.field] = _value(change.old)
            written = change.field in self._changed[at][1] if at is not None else False
            now = after.get(change.field) if written and self._together else old
            after[change.field] = _new_value(now, change)
            if after[change.field] == before.get(change.field):
                before[change.field] = _other(after[change.field])
        fields = {change.field for change in assertion.changes}
        entry = Update(assertion.entity, before, after)
        if at is not None and self._together:
            self._updates[at] = entry
            self._changed[at] = row, self._changed[at][1] | fields
        else:
            self._updates.append(entry)
            self._changed.append((row, fields))


def _new_key(at: int) -> str:
    return f"made-{at + 1}"


def _wanted_values(assertion: Assertion, at: int) -> dict[str, Json]:
    values: dict[str, Json] = {}
    for path, predicate in assertion.where:
        name, *steps = path.split(".")
        value = _value(predicate, at=at)
        for step in reversed(steps):
            value = {step: value}
        values[name] = value
    return values


def _new_value(old: Json, change: Change) -> Json:
    """The field's later value: the new one, or an old text with what it has to hold besides."""
    new = _value(change.new or {}, old=old)
    is_part = change.new is not None and not change.new.keys().isdisjoint(_PARTS)
    return _join(old, new) if is_part and isinstance(old, str) and isinstance(new, str) else new


def _value(predicate: RawRow, *, at: int = 0, old: Json = None) -> Json:
    """A value that satisfies the predicate, where its operators say one."""
    for operator, expected in predicate.items():
        match operator:
            case "eq" | "contains" | "i_contains" | "starts_with" | "ends_with" | "gte" | "lte":
                return expected
            case "i_starts_with" | "i_ends_with":
                return expected
            case "in" if isinstance(expected, list) and expected:
                return expected[at % len(expected)]
            case "has_any" | "has_all" if isinstance(expected, list):
                return list(expected)
            case "regex":
                return "".join(c for c in str(expected) if c not in "^$") + f"{at + 1}"
            case "gt" | "lt" if isinstance(expected, int | Decimal):
                return expected + (1 if operator == "gt" else -1)
            case "gt" if isinstance(expected, str):
                return f"{expected} more"
            case "exists":
                return NOW if expected else None
            case _:
                continue
    return NOW if old is None else _other(old)


def _other(value: Json) -> Json:
    """Some other value of the same kind."""
    match value:
        case None:
            return NOW
        case bool():
            return not value
        case str():
            return f"{value} (before)"
        case int() | Decimal():
            return value + 1
        case _:
            return None


def _join(old: Json, new: Json) -> Json:
    """One value for both, where there is one: equal ones, or texts one after the other."""
    if old is None or old == new:
        return new
    if isinstance(old, str) and isinstance(new, str):
        return old if new in old else f"{old} {new}"
    return None


def _move_counters(journal: Journal, ground: Ground, counters: Mapping[str, str]) -> Journal:
    """The journal with every counter moved by the rows that the diff adds, removes and moves."""
    updates = list(journal.updates)
    for counter, counts in counters.items():
        (table, column), (of, by) = (place.split(".") for place in (counter, counts))
        moved = Counter[Json]()
        moved.update(row.get(by) for name, row in journal.inserts if name == of)
        moved.subtract(row.get(by) for name, row in journal.deletes if name == of)
        moved.update(u.after.get(by) for u in journal.updates if u.table == of)
        moved.subtract(u.before.get(by) for u in journal.updates if u.table == of)
        (key,) = ground.keys[table]
        for name, row in journal.inserts:
            if name == table and isinstance(row, dict):
                row[column] = moved.pop(row.get(key), 0)
        for row in ground.raw.get(table, []):
            if moved[row.get(key)]:
                after = {**row, column: (row.get(column) or 0) + moved[row.get(key)]}
                updates.append(Update(table, row, after))
    return Journal(journal.inserts, tuple(updates), journal.deletes)
