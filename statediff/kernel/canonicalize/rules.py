"""The rules of canonicalization there are, and how a contract's section binds them to fields.

Identity rules use them on the fields they match by.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from statediff.contract.document.contract import Canonicalize
from statediff.contract.parts import seconds
from statediff.kernel.canonicalize.book import (
    JSON_TYPE,
    RANK_REST,
    ROUNDINGS,
    BoundRule,
    Parameter,
    Rule,
    RuleBook,
    Setting,
    by_key,
    from_json,
    instant,
    leave,
    multiset,
    opaque,
    rescale,
    text_rule,
    truncate,
)
from statediff.model.boundary import RuleError, did_you_mean, locate
from statediff.model.paths import Selection, may_meet, render
from statediff.model.schema import INSTANTS, NESTED, EntityType, Field, Kind, Schema

_ANY_KIND: Final = frozenset(Kind)
_TEXT: Final = frozenset({Kind.TEXT, Kind.ANY})
_NORMAL, _FOLD, _TRIM = range(RANK_REST)


def _duration(name: str, raw: Any) -> Setting:
    expected = f"`{name}` is a duration such as 1s, 250ms or 1d, not {raw!r}"
    if not isinstance(raw, str):
        raise ValueError(expected)
    try:
        microseconds = seconds(raw) * 1_000_000
    except ValueError:
        raise ValueError(expected) from None
    if microseconds < 1 or microseconds != int(microseconds):
        raise ValueError(f"`{name}` is a positive whole number of microseconds, not {raw}")
    return Setting(name, int(microseconds), raw)


def _scale(name: str, raw: Any) -> Setting:
    if not isinstance(raw, int) or isinstance(raw, bool) or not 0 <= raw <= 100:
        raise ValueError(f"`{name}` is a whole number of digits from 0 to 100, not {raw!r}")
    return Setting(name, raw, str(raw))


def _rounding(name: str, raw: Any) -> Setting:
    if not isinstance(raw, str) or raw not in ROUNDINGS:
        hint = did_you_mean(str(raw), ROUNDINGS)
        raise ValueError(f"`{name}` is a rounding mode, not {raw!r}{hint}")
    return Setting(name, raw, raw)


def _zone(name: str, raw: Any) -> Setting:
    if raw is None:
        return Setting(name, None, "none")
    if not isinstance(raw, str) or not 1 <= len(raw) <= 100:
        raise ValueError(f"`{name}` is a zone such as UTC or Europe/Paris, not {raw!r}")
    try:
        return Setting(name, ZoneInfo(raw), raw)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"`{name}` is a zone such as UTC or Europe/Paris, not {raw!r}") from None


def _member(name: str, raw: Any) -> Setting:
    members = (raw,) if isinstance(raw, str) else raw
    is_list = isinstance(members, list | tuple) and all(isinstance(m, str) and m for m in members)
    if not is_list or not members or len(set(members)) < len(members):
        given = "" if raw is None else f", not {raw!r}"
        raise ValueError(f"`{name}` is the member that tells the items apart, or a list{given}")
    return Setting(name, tuple(sorted(members)), ", ".join(sorted(members)))


_ALL: Final = (
    Rule(
        "ignore",
        1,
        "Removes the value from the comparison; it stays captured and shown.",
        _ANY_KIND,
        leave,
        is_removal=True,
        keeps_references=True,
        stands_alone=True,
    ),
    Rule(
        "timestamp",
        1,
        "Truncates timestamps, with or without a zone, to a resolution.",
        frozenset({Kind.TIMESTAMP, Kind.LOCAL_TIMESTAMP, Kind.ANY}),
        truncate,
        (Parameter("resolution", "1s", _duration),),
    ),
    Rule(
        "instant",
        1,
        "Reads an instant kept as text however it is spelled; `zone` is that of texts without one.",
        frozenset({*INSTANTS, Kind.ANY}),
        instant,
        (Parameter("zone", None, _zone),),
    ),
    Rule(
        "nfc",
        1,
        "Unicode normalization form C: one code sequence for canonically equal text.",
        _TEXT,
        text_rule(lambda text: unicodedata.normalize("NFC", text)),
        rank=_NORMAL,
    ),
    Rule(
        "nfkc",
        1,
        "Unicode normalization form KC: as NFC, and compatibility characters unified.",
        _TEXT,
        text_rule(lambda text: unicodedata.normalize("NFKC", text)),
        rank=_NORMAL,
    ),
    Rule(
        "casefold",
        1,
        "Removes distinctions of case by full Unicode case folding.",
        _TEXT,
        text_rule(str.casefold),
        rank=_FOLD,
    ),
    Rule(
        "trim",
        1,
        "Removes white space at both ends.",
        _TEXT,
        text_rule(str.strip),
        rank=_TRIM,
    ),
    Rule(
        "unordered",
        1,
        "Makes a list a multiset; parallel lists are zipped and sorted together.",
        frozenset({Kind.LIST, Kind.JSON, Kind.ANY}),
        multiset,
        keeps_references=True,
        unorders=True,
        zips=True,
    ),
    Rule(
        "keyed",
        1,
        "Compares a list of objects by the member `key` of each, or a list of members, in any "
        "order. Where an object lacks the key, or two share it, the list keeps its order.",
        frozenset({Kind.LIST, Kind.JSON, Kind.ANY}),
        by_key,
        (Parameter("key", None, _member),),
        unorders=True,
    ),
    Rule(
        "decimal",
        1,
        "Makes a number a decimal with exactly this many digits after the point.",
        frozenset({Kind.INT, Kind.DECIMAL, Kind.FLOAT, Kind.ANY}),
        rescale,
        (Parameter("scale", 2, _scale), Parameter("round", "half_even", _rounding)),
        yields=Kind.DECIMAL,
    ),
    Rule(
        "json",
        1,
        "The equality of JSON: white space, order of keys, escapes and the spelling of numbers "
        "mean nothing. It is on every JSON field, unless `raw@1` is.",
        frozenset({Kind.JSON, Kind.TEXT, Kind.ANY}),
        from_json,
        yields=Kind.ANY,
    ),
    Rule(
        "raw",
        1,
        "Compares a JSON field as the text that was written.",
        frozenset({Kind.JSON, Kind.MAP, Kind.LIST}),
        leave,
        stands_alone=True,
    ),
    Rule(
        "opaque",
        1,
        "Keeps only whether there is a value; for identifiers that mean nothing.",
        _ANY_KIND,
        opaque,
        stands_alone=True,
        yields=Kind.TEXT,
    ),
)


RULES: Final[Mapping[str, Rule]] = {rule.id: rule for rule in _ALL}
"""Every rule by `name@version`."""


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
