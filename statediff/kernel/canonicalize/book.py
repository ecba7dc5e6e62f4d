"""ν at run time: rules of canonicalization, bound to fields, and what they make of a row.

A rule is pure, row-local and idempotent. A change to what a rule does is a new version beside the
old one, never a change of the old one [SSD §VI].
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, TypeAlias, cast

from statediff.model.batches import Row
from statediff.model.explanation import NEEDS_CONTENT
from statediff.model.instants import in_zone, parse_instant
from statediff.model.json_values import canonical_json, others_read, read_json_value
from statediff.model.nested import keyed
from statediff.model.paths import Every, Item, Selection, Step, may_meet, render, replaced, selects
from statediff.model.schema import Kind, Schema
from statediff.model.values import (
    Absent,
    Digested,
    Excluded,
    Observed,
    Unobserved,
    Unordered,
    Value,
    order_key,
    same,
)

Transform: TypeAlias = Callable[[Value], Observed]
"""A known value (null included) in canonical form; its digest where nobody knows what it says."""

OPAQUE: Final = "\u2039opaque\u203a"
"""Stands for every non-null value under `opaque@1`."""

MAX_DIGITS: Final = 10_000
"""A number with more digits than this is left as it is: writing it out could fill the memory."""

ROUNDINGS: Final = {
    "half_even": decimal.ROUND_HALF_EVEN,
    "half_up": decimal.ROUND_HALF_UP,
    "down": decimal.ROUND_DOWN,
    "up": decimal.ROUND_UP,
    "floor": decimal.ROUND_FLOOR,
    "ceiling": decimal.ROUND_CEILING,
}
_YEAR_ONE: Final = datetime.min  # noqa: DTZ901 - local timestamps have no zone
RANK_REST: Final = 3
"""The last rank of a rule on a field."""
_ROUNDS: Final = 8
"""A bound, not a need: three rounds are the most that any text is known to take."""


@dataclass(frozen=True)
class Setting:
    """A parameter with its checked value; `text` is how records write it."""

    name: str
    value: Any
    text: str


@dataclass(frozen=True)
class Parameter:
    """A parameter a rule takes. `parse` raises `ValueError` saying what was expected."""

    name: str
    default: Any
    parse: Callable[[str, Any], Setting]


@dataclass(frozen=True)
class Rule:
    """A named, versioned canonicalization rule."""

    name: str
    version: int
    docs: str
    kinds: frozenset[Kind]
    """The kinds of field it may be used on."""
    make: Callable[[Mapping[str, Any]], Transform]
    """The transformation under checked settings."""
    parameters: tuple[Parameter, ...] = ()
    is_removal: bool = False
    """The value is taken out of the comparison."""
    keeps_references: bool = False
    """Two different references stay different, so that it may be used on a reference field."""
    unorders: bool = False
    """Takes the order from a list; it comes after the rules inside the list's items."""
    zips: bool = False
    """May be used on several parallel lists at once."""
    stands_alone: bool = False
    """Leaves nothing for another rule on the same field to do."""
    rank: int = RANK_REST
    """Rules on one field stand in rising rank; two of one rank exclude each other, except the last
    rank's, which apply to different kinds of value."""
    yields: Kind | None = None
    """The kind of the values it makes, where that is not the field's own."""

    @property
    def id(self) -> str:
        return f"{self.name}@{self.version}"


# --- what rules do ---


def text_rule(change: Callable[[str], str]) -> Callable[[Mapping[str, Any]], Transform]:
    """Change texts, and leave what is none."""

    def transform(value: Value) -> Value:
        return change(value) if isinstance(value, str) else value

    return lambda _settings: transform


def leave(_settings: Mapping[str, Any]) -> Transform:
    """Leave every value."""
    return lambda value: value


def truncate(settings: Mapping[str, Any]) -> Transform:
    """Towards the past, counted from the first instant of year 1, so that no result underflows."""
    step = timedelta(microseconds=settings["resolution"])

    def transform(value: Value) -> Value:
        if not isinstance(value, datetime):
            return value
        local = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        floor = local - (local - _YEAR_ONE) % step
        return floor if value.tzinfo is None else floor.replace(tzinfo=UTC)

    return transform


def instant(settings: Mapping[str, Any]) -> Transform:
    """Read an instant that is kept as text."""
    zone = settings["zone"]

    def transform(value: Value) -> Value:
        read = parse_instant(value) if isinstance(value, str) else value
        if isinstance(read, datetime) and read.tzinfo is None and zone is not None:
            read = in_zone(read, zone) or read
        return value if read is None else read

    return transform


def multiset(_settings: Mapping[str, Any]) -> Transform:
    """Sort a list, whose order means nothing."""

    def transform(value: Value) -> Value:
        return Unordered(sorted(value, key=order_key)) if isinstance(value, tuple) else value

    return transform


def by_key(settings: Mapping[str, Any]) -> Transform:
    """Sort a list by the key of its items."""

    def transform(value: Value) -> Value:
        return keyed(value, settings["key"]) if isinstance(value, tuple) else value

    return transform


def rescale(settings: Mapping[str, Any]) -> Transform:
    """Round a number to a scale."""
    unit = Decimal(1).scaleb(-settings["scale"])
    mode = ROUNDINGS[settings["round"]]
    context = decimal.Context(
        prec=MAX_DIGITS + 200,
        Emax=decimal.MAX_EMAX,
        Emin=decimal.MIN_EMIN,
        traps=[decimal.InvalidOperation],
    )

    def transform(value: Value) -> Value:
        if isinstance(value, bool) or not isinstance(value, (int, Decimal, float)):
            return value
        exact = Decimal(value)  # exact for floats too
        if not exact.is_finite() or exact.adjusted() > MAX_DIGITS:
            return value
        scaled = exact.quantize(unit, rounding=mode, context=context)
        return scaled or scaled.copy_abs()  # minus zero is zero

    return transform


def from_json(_settings: Mapping[str, Any]) -> Transform:
    """Read a JSON text into its value."""

    def transform(value: Value) -> Observed:
        match value:
            case str():
                read = read_json_value(value)
                if read is None and others_read(value):
                    return Digested.of(value)
                return value if read is None else read
            case bytes():  # binary JSON, or none: nobody knows what it says
                return Digested.of(value)
            case _:
                return canonical_json(value)

    return transform


def nested(_settings: Mapping[str, Any]) -> Transform:
    """Give each number inside a JSON value its one form."""
    return canonical_json


def opaque(_settings: Mapping[str, Any]) -> Transform:
    """Keep only whether there is a value."""
    return lambda value: None if value is None else OPAQUE


JSON_TYPE: Final = Rule(
    "json", 1, "The equality of JSON inside objects and lists that were read as such.",
    frozenset({Kind.MAP, Kind.LIST}), nested, keeps_references=True,
)  # fmt: skip
"""The transform of `json@1` for values that are read already."""
_OF_TEXT: Final = frozenset({JSON_TYPE.id, "raw@1"})


# --- rules on fields ---


@dataclass(frozen=True)
class BoundRule:
    """One rule on a field, on what is inside it, or on parallel list fields zipped together."""

    rule: Rule
    type: str
    fields: tuple[str, ...]
    because: str
    settings: tuple[Setting, ...]
    transform: Transform
    steps: Selection = ()
    """The places inside the field's values that the rule is on; none: whole values."""

    @property
    def places(self) -> tuple[str, ...]:
        """The fields, or the path inside one, as they are written."""
        return tuple(render(name, self.steps) for name in self.fields)

    @property
    def depth(self) -> tuple[int, int, bool]:
        """When it applies: what reads a field first, then from inside out; order goes last."""
        is_first = not self.steps and not self.rule.unorders
        return (not is_first, -len(self.steps), self.rule.unorders)

    @cached_property
    def text(self) -> str:
        """How findings and hidden deltas name it: `rule@version (reason)`."""
        return f"{self.rule.id} ({self.because})"


class RuleBook:
    """ν over one schema: a `model.view.Canonicalizer`. `rule_book` builds it from a contract."""

    def __init__(self, schema: Schema, uses: Iterable[BoundRule] = ()) -> None:
        self.schema = schema
        self.uses = tuple(uses)
        self._by_type: dict[str, dict[str, list[BoundRule]]] = {}
        self._zipped: dict[str, list[tuple[str, ...]]] = {}
        for use in self.uses:
            by_field = self._by_type.setdefault(use.type, {})
            for name in use.fields:
                by_field.setdefault(name, []).append(use)
            if len(use.fields) > 1:
                self._zipped.setdefault(use.type, []).append(use.fields)
        self._exact = {
            (type_name, name)
            for type_name, by_field in self._by_type.items()
            for name, on in by_field.items()
            if all(use.rule is JSON_TYPE for use in on)
            and _kind_in(schema, type_name, name) is Kind.DECIMAL
        }
        """(type, field) of plain numbers, which are compared by their value everywhere anyhow."""
        self._alone: dict[str, list[tuple[str, list[BoundRule]]]] = {}
        """By type: the fields with the rules that read no other field, in the order they apply."""
        for type_name, by_field in self._by_type.items():
            for name, on in by_field.items():
                on.sort(key=lambda use: use.depth)
                alone = [use for use in on if len(use.fields) == 1]
                if alone:
                    self._alone.setdefault(type_name, []).append((name, alone))

    def ruled(self, type_name: str) -> Collection[str]:
        """The fields of the type that a rule is on."""
        return self._by_type.get(type_name, ())

    def leaves(self, type_name: str, fields: Iterable[str]) -> bool:
        """True if no rule is on any of the fields."""
        ruled = self._by_type.get(type_name, {})
        return not any(name in ruled and (type_name, name) not in self._exact for name in fields)

    def inside(self, type_name: str, field_name: str) -> tuple[tuple[Selection, str, bool], ...]:
        """Lists (place, rule, True if it removes) of the rules inside the field's values."""
        on = self._on(type_name, field_name)
        return tuple((use.steps, use.text, use.rule.is_removal) for use in on if use.steps)

    def row(self, type_name: str, row: Row) -> Row:
        """The row with every rule of the type applied: a new one where there is a rule."""
        if type_name not in self._by_type:
            return row
        canonical = dict(row)
        for name, uses in self._alone.get(type_name, ()):
            if name in canonical:
                canonical[name] = _apply(uses, canonical[name])
        for names in self._zipped.get(type_name, ()):
            _sort_zipped(canonical, names)
        return canonical

    def value(self, type_name: str, field_name: str, value: Observed) -> Observed:
        """One value, such as a contract's literal, as the field's values become under ν.

        A zipped list has no companions here and is sorted alone.
        """
        return _apply(self._on(type_name, field_name), value)

    def literal(
        self, type_name: str, field_name: str, steps: Selection = ()
    ) -> Callable[[Value], Observed] | None:
        """`value` for one field or one place inside it, or None when no rule applies to it."""
        if not steps:
            if not self._on(type_name, field_name):
                return None
            return lambda value: self.value(type_name, field_name, value)
        uses = [
            replace(use, steps=use.steps[len(steps) :])
            for use in self._on(type_name, field_name)
            if len(use.steps) >= len(steps) and selects(use.steps[: len(steps)], steps)
        ]
        return (lambda value: _apply(uses, canonical_json(value))) if uses else None

    def kind_of(self, type_name: str, field_name: str) -> Kind | None:
        """The kind of the field's canonical values where a rule changes it, else None."""
        kinds = [use.rule.yields for use in self._on(type_name, field_name) if not use.steps]
        return next((kind for kind in reversed(kinds) if kind is not None), None)

    def ignores(self, type_name: str, field_name: str) -> str | None:
        """The text of the rule that removes the field's values, or None."""
        uses = self._on(type_name, field_name)
        return next((use.text for use in uses if use.rule.is_removal and not use.steps), None)

    def misplaced(
        self, type_name: str, field_name: str, steps: Selection, *, is_compared: bool = True
    ) -> str | None:
        """Why nothing is at the place under the rules, however the field's values are; or None.

        A rule of its own may change what is not compared: the items of a multiset.
        """
        on = self._on(type_name, field_name)
        for use in on:
            inner = steps[len(use.steps) :]
            if use.rule.stands_alone and inner and may_meet(use.steps, steps):
                return f"{use.rule.id} leaves nothing inside {_named(use)}"
        for length, step in enumerate(steps):
            wrong = _misstep(on, field_name, steps[:length], step, is_compared)
            if wrong is not None:
                return wrong
        return None

    def rules_on(self, type_name: str, field_name: str) -> tuple[str, ...]:
        """The rules on a field, each as `rule@version (reason)`, in the order they apply."""
        return tuple(use.text for use in self._on(type_name, field_name))

    def _on(self, type_name: str, field_name: str) -> Sequence[BoundRule]:
        return self._by_type.get(type_name, {}).get(field_name, ())


def _misstep(
    on: Sequence[BoundRule], field: str, before: Selection, step: Step | Every, is_compared: bool
) -> str | None:
    """Why the step from the place reads no item of a list there."""
    place = render(field, before)
    here = [u for u in on if u.rule.unorders and len(u.steps) == len(before)]
    lists = [use for use in here if may_meet(use.steps, before)]
    if isinstance(step, Item):
        keys = [_key_of(use) for use in lists if selects(use.steps, before)]
        if step.key not in keys:
            other = next((f"write {_item_by(key)}" for key in keys if key), None)
            own = ", ".join(step.key)
            key = own if len(step.key) == 1 else f"[{own}]"
            use = f"say `{{use: keyed@1, key: {key}, on: […]}}` under canonicalize"
            return f"no rule tells the items of {place} apart by {own}; {other or use}"
    elif isinstance(step, int) and lists:
        members = _key_of(lists[0])
        hint = f"write {_item_by(members)}" if members else f"write {place}, all of it"
        return f"under {lists[0].rule.id} an item of {place} has no index; {hint}"
    elif step is Every.ITEM and is_compared and any(not _key_of(use) for use in lists):
        return f"under {lists[0].rule.id} {place} is one value; write {place}"
    return None


def _key_of(use: BoundRule) -> tuple[str, ...]:
    return next((s.value for s in use.settings if s.name == "key"), ())


def _item_by(key: tuple[str, ...]) -> str:
    return f"[{','.join(f'{name}=…' for name in key)}]"


def _named(use: BoundRule) -> str:
    return f"{use.type}.{use.places[0]}"


def _kind_in(schema: Schema, type_name: str, name: str) -> Kind | None:
    entity_type = schema.by_name.get(type_name)
    field = None if entity_type is None else entity_type.by_name.get(name)
    return None if field is None else field.kind


def _apply(uses: Sequence[BoundRule], value: Observed) -> Observed:
    """The value under the rules of one field, in their order, until they change nothing more.

    Once is not always enough: case folding can leave text that is not normalized (U+1F90 followed
    by U+0343 needs a second round).
    """
    for _ in range(_ROUNDS):
        previous = value
        for use in uses:
            if use.rule.is_removal and not use.steps:
                value = Excluded(use.text)
            elif isinstance(value, Digested):
                if use.rule.id in _OF_TEXT and not use.steps:
                    continue  # what is too long to be read is the text that it is
                # Two contents that the rule makes equal have two digests.
                value = Unobserved(f"{value.cause}; {use.rule.id} {NEEDS_CONTENT}")
            elif isinstance(value, (Absent, Excluded, Unobserved)):
                continue
            elif not use.steps:
                value = use.transform(value)
            elif not use.rule.is_removal:
                # Inside objects and lists are values only, and a rule makes no more of them.
                value = replaced(value, use.steps, cast(Callable[[Value], Value], use.transform))
        if len(uses) < 2 or same(previous, value):
            break
    return value


def _sort_zipped(row: Row, names: tuple[str, ...]) -> None:
    """Sort parallel lists together, by their items in the order of `names`.

    Lists of different lengths are not parallel, and a marker or null is no list: they stay.
    """
    lists = [row.get(name) for name in names]
    tuples = [items for items in lists if isinstance(items, tuple)]
    if len(tuples) < len(lists) or len({len(items) for items in tuples}) > 1:
        return
    together = sorted(
        zip(*tuples, strict=True), key=lambda items: tuple(order_key(item) for item in items)
    )
    for at, name in enumerate(names):
        row[name] = Unordered(items[at] for items in together)
