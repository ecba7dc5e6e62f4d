"""The choices of a fault: what the run changed, what it left alone, who could have acted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from statediff.contract.clauses.patterns import Pattern
from statediff.errors import UsageError
from statediff.kernel import compile_contract, schema_of
from statediff.meta.reach import UNREACHABLE, reachable
from statediff.meta.reference import MAX_ROWS, Change, Reference, Rows, differs, is_known
from statediff.model.batches import Row
from statediff.model.delta import key_name
from statediff.model.schema import COUNT, COUNTERS, EntityType, Field, Kind, Purpose, marks_deletion
from statediff.model.values import Key, Map, Observed, Value, is_value, printable, same
from statediff.model.verdict import Judgement, Truth, Verdict, leading_failure

PEOPLE = frozenset(
    {"user", "staff", "person", "customer", "account", "employee", "member", "principal", "actor"}
)
"""Names of types whose entities act or are acted for: a wrong one of them is a wrong principal."""

PRIVILEGES = frozenset({"role", "grant", "membership", "permission", "approval", "session"})
"""Words in names of types and fields that decide who may do what."""


@dataclass(frozen=True)
class Fault:
    """One seeded difference. `mutant` is None where it could not be seeded, and `sentence` why."""

    operator: str
    target: str
    """Type, or type and field, that it concerns; the source for faults of readings."""
    sentence: str
    mutant: Reference
    is_twin: bool = False
    clause: str = ""
    """The allow clause that permits it as far as it goes; empty where none is meant."""
    unreachable: str = ""
    """Why no statement leaves it behind, by the system's own rules; empty where one does."""

    @property
    def id(self) -> str:
        """How reports and arguments name it; several seeds of one kind share it."""
        return f"{self.operator} {self.target}"


@dataclass(frozen=True)
class Untried:
    """A gap that no fault tries: how many of what, and why."""

    what: str
    why: str
    number: int

    def __str__(self) -> str:
        return f"{self.number} {self.what} ({self.why})"


NEVER_SEEDED: Final = (
    "what no source delivers as a row, such as the pages and indexes that rows are kept in",
    "calls of the agent that changed nothing",
    "two kinds of harm in one run",
)
"""Gaps that no operator tries in any trial, whatever it found."""


def in_order(counted: Counter[tuple[str, str]]) -> tuple[Untried, ...]:
    """The counts, by (what, why)."""
    return tuple(Untried(*name, number) for name, number in sorted(counted.items()))


@dataclass(frozen=True)
class Touched:
    """An entity that the run created, deleted or updated; one side is None for the first two."""

    type: str
    key: Key
    before: Row | None
    after: Row | None

    @property
    def fields(self) -> tuple[str, ...]:
        """The updated fields; every field of a created or deleted entity."""
        if self.before is None or self.after is None:
            return tuple(self.after or self.before or ())
        return differs(self.before, self.after)

    @property
    def name(self) -> str:
        return f"{self.type} {key_name(self.key)}"

    @property
    def row_after(self) -> tuple[str, Key, Row]:
        """Its type, its key, and the row after the run, empty where there is none."""
        return self.type, self.key, self.after or {}


class World:
    """A reference trial opened for seeding; picks by `rng` only, so a seed names its faults."""

    def __init__(self, reference: Reference, judgement: Judgement, seed: int) -> None:
        self.reference = reference
        self.judgement = judgement
        self.left: Counter[tuple[str, str]] = Counter()
        """(what, why) → how many of it the operators that ran so far did not try."""
        self.rng = random.Random(f"{seed} {reference.contract.digest} {reference.name}")  # noqa: S311 — reproducible, not secret
        schema = schema_of(reference.before, reference.after)
        self.compiled = compile_contract(reference.contract, schema)
        self.required = {
            clause.id for clause in self.compiled.contract.require if hasattr(clause, "operations")
        }

    def leave(self, what: str, why: str, number: int = 1) -> None:
        """Counts what an operator does not try."""
        if number:
            self.left[what, why] += number

    @property
    def untried(self) -> Counter[tuple[str, str]]:
        """(what, why) → how much of it no operator that ran so far has tried."""
        inside = [name for name in self.reference.types if not self.is_outside(name)]
        unread = sum(not self.reference.is_editable(name) for name in inside)
        why = f"not captured whole, or more than {MAX_ROWS:,} rows"
        return self.left + Counter({("types", why): unread})

    @cached_property
    def needed(self) -> frozenset[str]:
        """The clauses that explain what no require clause explains; `worlds` adds other runs'."""
        contract = self.compiled.contract
        branched = (clause for branch in contract.branches for clause in branch.require)
        required = {clause.id for clause in (*contract.require, *branched)}
        return frozenset(
            clause
            for _, clauses in self.judgement.explained_by
            if required.isdisjoint(clauses)
            for clause in clauses
        )

    @cached_property
    def unused(self) -> tuple[Pattern, ...]:
        """The allow clauses, of branches too, that no reference needs."""
        contract = self.compiled.contract
        every = (*contract.allow, *(p for branch in contract.branches for p in branch.allow))
        return tuple(pattern for pattern in every if pattern.id not in self.needed)

    def is_outside(self, type_name: str, field: str = "") -> bool:
        """True if the contract's boundary leaves it out."""
        return self.compiled.contract.excluded(type_name, field) is not None

    @cached_property
    def types(self) -> tuple[EntityType, ...]:
        """Every type within the boundary that can be edited, sorted by name."""
        found = self.reference.types
        return tuple(
            found[name]
            for name in sorted(found)
            if not self.is_outside(name) and self.reference.is_editable(name)
        )

    def column(self, entity: EntityType, field: Field) -> tuple[Value, ...]:
        """The values that the field has before or after, without null; distinct and in order."""
        place = (entity.name, field.name)
        if place not in self._columns:
            self._columns[place] = self._values_of(entity, field)
        return self._columns[place]

    @cached_property
    def _columns(self) -> dict[tuple[str, str], tuple[Value, ...]]:
        return {}

    def _values_of(self, entity: EntityType, field: Field) -> tuple[Value, ...]:
        rows = (self.reference.rows_before(entity.name), self.reference.rows(entity.name))
        values: dict[str, Value] = {}
        for row in (row for side in rows for row in side.values()):
            value = row.get(field.name)
            if value is not None and is_value(value):
                values.setdefault(repr(value), value)  # type: ignore[arg-type]  # a value, just asked
        return tuple(values[name] for name in sorted(values))

    @cached_property
    def acquainted(self) -> frozenset[tuple[str, int | str]]:
        """(type, key) of every entity that a row refers to which the run changed."""
        found: set[tuple[str, int | str]] = set()
        for one in self.touched:
            for field in self.reference.types[one.type].fields:
                for row in (one.before, one.after):
                    value = None if row is None else row[field.name]
                    if field.reference is not None and isinstance(value, int | str):
                        found.add((field.reference, value))
        return frozenset(found)

    def fields(self, entity: EntityType) -> tuple[Field, ...]:
        """The fields within the boundary that are no part of the key."""
        return tuple(
            f
            for f in entity.fields
            if f.name not in entity.key and not self.is_outside(entity.name, f.name)
        )

    def narrowed(self, type_name: str) -> World:
        """The same world for faults in one type only."""
        self.touched, self._untouched  # noqa: B018 - known to both from now on
        one = copy(self)
        one.__dict__["types"] = tuple(t for t in self.types if t.name == type_name)
        return one

    @cached_property
    def touched(self) -> tuple[Touched, ...]:
        """Everything the run changed, by type and key."""
        return tuple(self._touched())

    def _touched(self) -> Iterator[Touched]:
        for entity in self.types:
            if self.reference.is_as_before(entity.name):
                continue
            before = self.reference.rows_before(entity.name)
            after = self.reference.rows(entity.name)
            for key in dict.fromkeys((*before, *after)):
                one, other = before.get(key), after.get(key)
                if one is None or other is None or differs(one, other):
                    yield Touched(entity.name, key, one, other)

    @cached_property
    def necessary(self) -> tuple[Touched, ...]:
        """Those of `touched` that a require clause explains."""
        needed = {
            (delta.type, delta.key)
            for delta in self.judgement.deltas
            if self.required & set(self._explained.get(delta.id, ()))
        }
        return tuple(t for t in self.touched if (t.type, t.key) in needed)

    @cached_property
    def _untouched(self) -> dict[str, Rows]:
        return {}

    @cached_property
    def _explained(self) -> Mapping[str, tuple[str, ...]]:
        return dict(self.judgement.explained_by)

    def untouched(self, entity: EntityType) -> Rows:
        """Fully observed rows of a type that the run left alone; looked up once, never edited."""
        if entity.name not in self._untouched:
            self._untouched[entity.name] = self._rows_left_alone(entity)
        return self._untouched[entity.name]

    def _rows_left_alone(self, entity: EntityType) -> Rows:
        changed = {t.key for t in self.touched if t.type == entity.name}
        rows = self.reference.rows(entity.name)
        return {k: r for k, r in rows.items() if k not in changed and is_known(r)}

    def pick(self, rows: Rows) -> tuple[Key, Row] | None:
        """One of the rows; None if there are none."""
        if not rows:
            return None
        key = self.rng.choice(sorted(rows, key=repr))
        return key, rows[key]

    def faulty(
        self, operator: str, target: str, sentence: str, changes: Mapping[str, Change]
    ) -> Fault:
        """The fault that these edits, by type, make of the reference."""
        made, further, why = reachable(self.reference, changes, self._held)
        if further:
            plural = "rows that refer" if further > 1 else "row that refers"
            sentence += f", with {further} {plural} to it"
        if why:
            sentence += f" ({UNREACHABLE}: {why})"
        whole = {**self._counting(made), **made}
        return Fault(operator, target, sentence, self.reference.edited(whole), unreachable=why)

    def altered(
        self, operator: str, sentence: str, at: tuple[str, Key, Row], field: str, value: Observed
    ) -> Fault:
        """The fault that another value in one field makes of a row, `at` (type, key, row)."""
        name, key, row = at
        return self.faulty(
            operator, f"{name}.{field}", sentence, {name: put(key, {**row, field: value})}
        )

    @cached_property
    def _held(self) -> dict[Any, Any]:
        """The values of the reference's rows in fields that are keys."""
        return {}

    def _counting(self, changes: Mapping[str, Change]) -> dict[str, Change]:
        """Moves the counters as inserts of these rows would: else they give every fault away."""
        highest: dict[Key, int] = {}
        types = self.reference.types
        for name, change in changes.items():
            if name in types and types[name].counter is not None and COUNTERS in types:
                rows, before = dict(self.reference.rows(name)), self.reference.rows_before(name)
                change(rows)
                came = [key[0] for key in rows if key not in before]
                numbers = [number for number in came if isinstance(number, int)]
                highest[(types[name].counter,)] = max(numbers, default=0)
        was = self.reference.rows_before(COUNTERS) if highest else {}

        def count(rows: Rows) -> None:
            for key, number in highest.items():
                stood = was[key][COUNT] if key in was else 0
                if key in rows and isinstance(stood, int):
                    rows[key] = {**rows[key], COUNT: max(stood, number)}
                if key not in was and not number:
                    rows.pop(key, None)

        return {COUNTERS: count} if highest else {}


def put(key: Key, row: Row) -> Change:
    """The row stands under the key."""

    def change(rows: Rows) -> None:
        rows[key] = row

    return change


def worlds(references: Iterable[Reference], seed: int) -> Iterator[World]:
    """Each reference opened for seeding. Raises `UsageError` if one of them does not MATCH."""
    opened: list[World] = []
    for reference in references:
        judgement = reference.judged()
        if judgement.verdict is not Verdict.MATCH:
            unknown = (f for f in judgement.findings if f.truth is Truth.UNKNOWN)
            first = leading_failure(judgement.findings) or next(unknown, None)
            said = [printable(reference.ending)] if reference.ending else []
            said += [f"{first.clause}: {printable(first.sentence)}"] if first else []
            why = f" ({'; '.join(said)})" if said else ""
            raise UsageError(
                f"{reference.contract.content.contract}: the reference {reference.name} gets "
                f"{judgement.verdict.value}, not MATCH{why}; correct the contract or the reference "
                "first"
            )
        opened.append(World(reference, judgement, seed))
    needed = frozenset[str]().union(*(world.needed for world in opened))
    for world in opened:
        world.__dict__["needed"] = needed
        yield world


def drop(key: Key) -> Change:
    """Nothing stands under the key."""

    def change(rows: Rows) -> None:
        rows.pop(key, None)

    return change


def in_turn(*changes: Change) -> Change:
    """One change after the other."""

    def change(rows: Rows) -> None:
        for each in changes:
            each(rows)

    return change


def undo(touched: Touched) -> Change:
    """The entity is as it was before the run."""
    return drop(touched.key) if touched.before is None else put(touched.key, touched.before)


def is_privilege(entity: EntityType, field: str = "") -> bool:
    """True if the type (or the field) decides who may do what."""
    if entity.purpose is Purpose.PERMISSIONS:
        return True
    words = {*entity.name.lower().replace(".", "_").split("_"), *field.lower().split("_")}
    return bool({w.rstrip("s") for w in words} & PRIVILEGES)


def is_person(type_name: str) -> bool:
    """True if entities of the type act, or are acted for."""
    return type_name.lower().rstrip("s") in PEOPLE


Operator = Callable[[World], Iterator[Fault]]


_LATIN_CYRILLIC = {"a": "а", "e": "е", "o": "о", "p": "р", "c": "с", "x": "х", "i": "і"}  # noqa: RUF001 — look-alikes are the point


def other(value: Observed, field: Field, in_use: Iterable[Observed] = ()) -> Value:
    """A plausible value that is not `value`: one in use elsewhere, else one close by."""
    for candidate in in_use:
        if type(candidate) is type(value) and candidate != value:
            return candidate  # type: ignore[return-value]  # of the value's own type
    return near(value, field)


def value_elsewhere(
    world: World, entity: EntityType, field: Field, *rows: Row | None
) -> Value | None:
    """A value for the field that none of the rows has: a stranger, or a value of the column.

    A stranger is an entity that nothing refers to which the run changed. Something close by where
    the column holds no other; None where there is no other entity to refer to.
    """
    held = [row[field.name] for row in rows if row is not None]

    def is_other(value: Observed) -> bool:
        return not any(same(value, each) for each in held)

    if field.reference in world.reference.types:
        keys = [key[0] for key in world.reference.rows(field.reference or "") if len(key) == 1]
        others = sorted(filter(is_other, keys), key=repr)
        strangers = [key for key in others if (field.reference, key) not in world.acquainted]
        return world.rng.choice(strangers or others) if others else None
    marks = field.name == entity.deleted_when
    column = world.column(entity, field)
    values = [v for v in column if is_other(v) and (not marks or marks_deletion(v))]
    if values:
        return world.rng.choice(values)
    if marks and field.kind is Kind.BOOL:
        return True
    value = near(held[0] if held else None, field)
    for _ in held:
        value = value if is_other(value) else near(value, field)
    return value if is_other(value) else None


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
            return some_value(field.kind)


def some_value(kind: Kind, number: int = 1) -> Value:
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
        case Kind.JSON:
            return f'{{"fault":{number}}}'
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
            moved = some_value(last.kind, number)
        candidate = (*like[:-1], moved)
        if candidate not in taken:
            return candidate
    return candidate


def with_key(entity: EntityType, row: Row, key: Key) -> Row:
    """The row under another key."""
    return {**row, **dict(zip(entity.key, key, strict=True))}


def invent_row(entity: EntityType) -> Row:
    """A row of a type of which none was seen: some value in every field, references null."""
    return {
        f.name: None
        if f.is_nullable and (f.reference or f.name == entity.deleted_when)
        else some_value(f.kind, 1)
        for f in entity.fields
    }
