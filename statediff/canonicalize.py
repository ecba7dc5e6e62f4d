"""Stage 3, canonicalize: ν as a book of named, versioned rules over the fields of entities.

The stage may change how a captured value is represented, by the rules the contract declares and
no others, each with its reason. It may not change the captured state (raw and canonical values
live side by side), touch a key, merge distinct keys, remove a field without a reason, or decide
whether a difference matters: what a rule hides is still shown, and read by forbid clauses
[SSD §III, §VI, §VII].

Rules are row-local and deterministic, and canonicalizing twice equals once. No table is
rewritten: ν is applied to the rows that are looked at. `ABSENT`, `Excluded` and `Unobserved` pass
through every rule except `ignore@1`; of a `Digested` content a rule leaves nothing to tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from statediff.contract.document.contract import Canonicalize
from statediff.contract.rules import JSON_TYPE, RANK_REST, RULES, Rule, Setting, Transform
from statediff.model.batches import Row
from statediff.model.boundary import RuleError, did_you_mean, locate
from statediff.model.json_values import canonical_json
from statediff.model.paths import Every, Item, Selection, Step, may_meet, render, replaced, selects
from statediff.model.schema import NESTED, EntityType, Field, Kind, Schema
from statediff.model.values import (
    Digested,
    Excluded,
    Observed,
    Unobserved,
    Unordered,
    Value,
    is_value,
    order_key,
    same,
)

__all__ = [
    "NEEDS_CONTENT", "RULES", "BoundRule", "Rule", "RuleBook", "RuleError", "equality_of_types",
    "rule_book",
]  # fmt: skip

_ROUNDS: Final = 8
"""A bound, not a need: three rounds are the most that any text is known to take."""
_OF_TEXT: Final = frozenset({JSON_TYPE.id, "raw@1"})
NEEDS_CONTENT: Final = "needs the content"
"""How a cause ends where a rule of ν had a digest to work on."""


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
    """What it is on inside the field's values; none for all of them."""

    @property
    def places(self) -> tuple[str, ...]:
        """The fields, or the path inside one, as they are written."""
        return tuple(render(name, self.steps) for name in self.fields)

    @property
    def depth(self) -> tuple[int, int, bool]:
        """When it applies: what reads a field first, then from inside out; order goes last."""
        is_first = not self.steps and not self.rule.unorders
        return (not is_first, -len(self.steps), self.rule.unorders)

    @property
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
        self._exact: set[tuple[str, str]] = set()
        """(type, field) of plain numbers, which are compared by their value everywhere anyhow."""
        for use in self.uses:
            by_field = self._by_type.setdefault(use.type, {})
            for name in use.fields:
                by_field.setdefault(name, []).append(use)
                if use.rule is JSON_TYPE and _kind_in(schema, use.type, name) is Kind.DECIMAL:
                    self._exact.add((use.type, name))
            if len(use.fields) > 1:
                self._zipped.setdefault(use.type, []).append(use.fields)
        for by_field in self._by_type.values():
            for on in by_field.values():
                on.sort(key=lambda use: use.depth)

    def touches(self, type_name: str) -> bool:
        """Whether any rule applies to the type."""
        return type_name in self._by_type

    def leaves(self, type_name: str, fields: Iterable[str]) -> bool:
        """Whether no rule is on any of the fields."""
        ruled = self._by_type.get(type_name, {})
        return not any(name in ruled and (type_name, name) not in self._exact for name in fields)

    def inside(self, type_name: str, field_name: str) -> tuple[tuple[Selection, str, bool], ...]:
        """What rules are on inside the field's values: where, their text, whether they remove."""
        on = self._on(type_name, field_name)
        return tuple((use.steps, use.text, use.rule.is_removal) for use in on if use.steps)

    def row(self, type_name: str, row: Mapping[str, object]) -> Row:
        """A new row with every rule of the type applied."""
        canonical = cast(Row, dict(row))
        for name, uses in self._by_type.get(type_name, {}).items():
            if name in canonical:
                alone = [use for use in uses if len(use.fields) == 1]
                canonical[name] = _apply(alone, canonical[name])
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
            other = next((f"write [{key}=…]" for key in keys if key), None)
            use = f"say `{{use: keyed@1, key: {step.key}, on: […]}}` under canonicalize"
            return f"no rule tells the items of {place} apart by {step.key}; {other or use}"
    elif isinstance(step, int) and lists:
        key = _key_of(lists[0])
        hint = f"write [{key}=…]" if key else f"write {place}, all of it"
        return f"under {lists[0].rule.id} an item of {place} has no index; {hint}"
    elif step is Every.ITEM and is_compared and any(not _key_of(use) for use in lists):
        return f"under {lists[0].rule.id} {place} is one value; write {place}"
    return None


def _key_of(use: BoundRule) -> str:
    return next((s.text for s in use.settings if s.name == "key"), "")


def _named(use: BoundRule) -> str:
    return f"{use.type}.{use.places[0]}"


def _kind_in(schema: Schema, type_name: str, name: str) -> Kind | None:
    entity_type = schema.by_name.get(type_name)
    field = None if entity_type is None else entity_type.by_name.get(name)
    return None if field is None else field.kind


def rule_book(schema: Schema, document_rules: tuple[Canonicalize, ...]) -> RuleBook:
    """The contract's `canonicalize` section over a schema.

    Raises `RuleError(index, message)` for the first rule that is unknown, names something the
    schema does not have, has a parameter it does not know, or would be unsound where it stands.
    """
    uses: list[BoundRule] = []
    places: list[int] = []
    for index, document in enumerate(document_rules):
        rule = _rule(document.use, index)
        if not document.because.strip():
            raise RuleError(index, f"{rule.id} has no reason; add `because:`")
        settings = _settings(rule, document.parameters, index)
        transform = rule.make({setting.name: setting.value for setting in settings})
        for target in document.on:
            type_name, fields, steps = _place(schema, rule, target, index)
            use = BoundRule(rule, type_name, fields, document.because, settings, transform, steps)
            for name in fields:
                _check_beside(use, name, [u for u in uses if _covers(u, type_name, name)], index)
            uses.append(use)
            places.append(index)
    book = RuleBook(schema, (*_implicit(schema, uses), *uses))
    for index, use in zip(places, uses, strict=True):
        wrong = book.misplaced(use.type, use.fields[0], use.steps, is_compared=False)
        if wrong is not None:
            raise RuleError(index, wrong)
    return book


def equality_of_types(before: Schema, after: Schema) -> RuleBook:
    """ν where no contract is: the equality of JSON types, and nothing else."""
    types = {**after.by_name, **before.by_name}
    return rule_book(Schema("types", "0", tuple(types[name] for name in sorted(types))), ())


_IMPLICIT: Final = "the equality of the JSON type"
_IN_JSON: Final = frozenset({Kind.MAP, Kind.LIST, Kind.DECIMAL, Kind.ANY})
"""The kinds of value in which JSON has more than one spelling."""


def _equality(entity_type: EntityType, field: Field) -> Rule | None:
    """The rule that is the equality of the field's own type, where it is not that of values."""
    if field.kind is Kind.JSON:
        return RULES["json@1"]
    is_json = field.kind is Kind.MAP or (entity_type.is_json and field.kind in _IN_JSON)
    return JSON_TYPE if is_json else None


def _implicit(schema: Schema, uses: Sequence[BoundRule]) -> Iterator[BoundRule]:
    """`json@1` on each field that holds JSON, but for keys and where a rule says otherwise."""
    for entity_type in schema.types:
        for field in entity_type.fields:
            rule = _equality(entity_type, field)
            if rule is None or field.name in entity_type.key or field.reference is not None:
                continue
            on = [use for use in uses if _covers(use, entity_type.name, field.name)]
            beside = [use.rule for use in on if not use.steps]
            if not any(other.stands_alone or other.name == "json" for other in beside):
                yield BoundRule(rule, entity_type.name, (field.name,), _IMPLICIT, (), rule.make({}))


def _rule(name: str, index: int) -> Rule:
    if name in RULES:
        return RULES[name]
    family = name.partition("@")[0]
    versions = sorted(rule.id for rule in RULES.values() if rule.name == family)
    if versions:
        raise RuleError(index, f"there is no {name}; known versions: {', '.join(versions)}")
    raise RuleError(index, f"there is no rule {name!r}{did_you_mean(name, RULES)}")


def _settings(rule: Rule, given: Mapping[str, Any], index: int) -> tuple[Setting, ...]:
    known = {parameter.name: parameter for parameter in rule.parameters}
    for name in given:
        if name not in known:
            takes = did_you_mean(name, known) if known else "; it takes none"
            raise RuleError(index, f"{rule.id} has no parameter {name!r}{takes}")
    settings: list[Setting] = []
    for name, parameter in known.items():
        raw = given.get(name, parameter.default)
        try:
            settings.append(parameter.parse(name, raw))
        except ValueError as error:
            raise RuleError(index, f"{rule.id}: {error}") from None
    return tuple(settings)


def _place(
    schema: Schema, rule: Rule, target: str | tuple[str, ...], index: int
) -> tuple[str, tuple[str, ...], Selection]:
    """The type and the fields a target names, checked against what the rule may be used on.

    Of one field also the steps to a place inside it.
    """
    places = (target,) if isinstance(target, str) else target
    if len(places) > 1 and not rule.zips:
        raise RuleError(
            index, f"{rule.id} takes fields one by one; write {', '.join(places)} without brackets"
        )
    found: list[tuple[EntityType, Field]] = []
    steps: Selection = ()
    for what in places:
        entity_type, field, steps = locate(schema, what, index)
        if field is None:
            raise RuleError(index, f"{what} is a type; {rule.id} is used on TYPE.FIELD")
        if steps and len(places) > 1:
            raise RuleError(index, f"{what} is inside a field; lists zipped together are fields")
        _check_field(rule, entity_type, field, index, steps)
        found.append((entity_type, field))
    if not found:
        raise RuleError(index, f"{rule.id} names no field; write TYPE.FIELD")
    types = {entity_type.name for entity_type, _ in found}
    if len(types) > 1:
        raise RuleError(index, f"lists zipped together belong to one type, not {sorted(types)}")
    names = tuple(field.name for _, field in found)
    if len(set(names)) < len(names):
        raise RuleError(index, f"a list is zipped with itself: {', '.join(names)}")
    return found[0][0].name, names, steps


_JSON_KINDS: Final = NESTED | {Kind.TEXT, Kind.BOOL, Kind.INT, Kind.DECIMAL}


def _check_field(
    rule: Rule, entity_type: EntityType, field: Field, index: int, steps: Selection
) -> None:
    where = f"{entity_type.name}.{render(field.name, steps)}"
    if field.name in entity_type.key:
        raise RuleError(
            index, f"{where} is part of the key of {entity_type.name}; rules never apply to keys"
        )
    if field.reference is not None and not rule.keeps_references:
        raise RuleError(
            index, f"{where} refers to {field.reference}: {rule.id} could make two different "
            "entities look like one"
        )  # fmt: skip
    # Of any kind: values of another kind pass the rule as they are.
    kind = Kind.ANY if steps else field.kind
    kinds = ", ".join(sorted(kind.value for kind in rule.kinds))
    if kind is not Kind.ANY and kind not in rule.kinds:
        raise RuleError(
            index, f"{where} is of kind {field.kind.value}; {rule.id} applies to {kinds}"
        )
    if steps and (Kind.ANY not in rule.kinds or rule.name == "json"):
        raise RuleError(index, f"{where} is inside a value; {rule.id} is for a whole field")
    is_json = field.kind is Kind.JSON or entity_type.is_json
    if steps and is_json and not rule.kinds - {Kind.ANY} & _JSON_KINDS:
        raise RuleError(index, f"{where} is in JSON, which has no {kinds}: {rule.id} does nothing")


def _covers(use: BoundRule, type_name: str, field_name: str) -> bool:
    return use.type == type_name and field_name in use.fields


def _check_beside(use: BoundRule, name: str, earlier: list[BoundRule], index: int) -> None:
    """Refuse what would make the result depend on luck: repeats, dead rules, unsound orders."""
    where = f"{use.type}.{render(name, use.steps)}"
    for other in earlier:
        pair = f"{other.rule.id} and {use.rule.id} on {where}"
        if not may_meet(other.steps, use.steps):
            continue
        if len(other.steps) != len(use.steps):
            above = min(other, use, key=lambda each: len(each.steps))
            if above.rule.stands_alone:
                raise RuleError(index, f"{pair}: {above.rule.id} leaves nothing for the other")
            continue
        if other.rule.name == use.rule.name:
            raise RuleError(index, f"{use.rule.name} is used twice on {where}; keep one")
        if other.rule.stands_alone or use.rule.stands_alone:
            alone = other.rule if other.rule.stands_alone else use.rule
            raise RuleError(index, f"{pair}: {alone.id} leaves nothing for the other to do")
        both_unorder = other.rule.unorders and use.rule.unorders
        if both_unorder or other.rule.rank == use.rule.rank < RANK_REST:
            raise RuleError(index, f"{pair} do the same work in two ways; keep one")
        if other.rule.rank > use.rule.rank:
            raise RuleError(
                index, f"{pair}: in this order the result is not canonical; "
                f"put {use.rule.id} before {other.rule.id}"
            )  # fmt: skip


def _apply(uses: Sequence[BoundRule], value: Observed) -> Observed:
    """The value under the rules of one field, in their order, until they change nothing more.

    Once is not always enough: case folding can leave text that is not normalized (U+1F90 followed
    by U+0343 needs a second round).
    """
    for _ in range(_ROUNDS if len(uses) > 1 else 1):
        previous = value
        for use in uses:
            if use.rule.is_removal and not use.steps:
                value = Excluded(use.text)
            elif isinstance(value, Digested):
                if use.rule.id in _OF_TEXT and not use.steps:
                    continue  # what is too long to be read is the text that it is
                # Two contents that the rule makes equal have two digests.
                value = Unobserved(f"{value.cause}; {use.rule.id} {NEEDS_CONTENT}")
            elif is_value(value) and not use.steps:
                value = use.transform(cast(Value, value))
            elif is_value(value) and not use.rule.is_removal:
                # Inside objects and lists are values only, and a rule makes no more of them.
                inner = cast(Callable[[Value], Value], use.transform)
                value = replaced(cast(Value, value), use.steps, inner)
        if same(previous, value):
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
