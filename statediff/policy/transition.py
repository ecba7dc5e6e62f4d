"""A recorded transition: the net, canonical deltas of the run are exactly the expected ones.

Keys of entities created in the run may be named instead of written (`{new: refund}`): one name, one
key, and different names different keys. Nothing else is compared loosely.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from statediff.contract.clauses.transition import BoundTransition, Expected, New
from statediff.contract.evaluation.relations import comparison_key, equal
from statediff.contract.language.context import FALSE, TRUE
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta, Doubt, Entity, Op
from statediff.model.explanation import Cause, Explanation, Reason, cause
from statediff.model.values import ABSENT, Absent, Excluded, Key, Observed, Unobserved, told_apart
from statediff.model.verdict import Finding, Stage
from statediff.policy.findings import doubt_causes, fails, holds, unknown
from statediff.policy.frame import ExplanationVote
from statediff.policy.matching import TOO_COSTLY, JudgingContext
from statediff.policy.witness import change

ID: Final = "transition"
MAX_NAMINGS: Final = 2_000
"""Ways to name created entities that are tried; beyond, the clause is UNKNOWN."""


Naming: TypeAlias = Mapping[str, Any]
"""Name of a new entity → the key part that it stands for; a name not in it stands for any."""
NO_NAMES: Final[Naming] = {}
_STAGE: Final = Stage.REQUIRE


@dataclass(frozen=True)
class Checked:
    """The finding, what it says of each delta, and how many expected deltas were found."""

    finding: Finding
    said: tuple[ExplanationVote, ...]
    found: int


@dataclass(frozen=True)
class _One:
    """One expected delta: a whole entity, or one field of an update."""

    of: Expected
    path: str = ""

    @property
    def kind(self) -> tuple[Op, str, str]:
        return self.of.op, self.of.type, self.path

    def explanation(self) -> Explanation:
        """The expected delta as an argument."""
        key = tuple(
            Reason.NEW_KEY(name=part.name) if isinstance(part, New) else str(part)
            for part in self.of.key
        )
        return Reason.EXPECTED(
            operation=self.of.op.value, entity_type=self.of.type, key=key, path=self.path
        )


def check_transition(rule: BoundTransition, context: JudgingContext) -> Checked:
    """Whether exactly the expected deltas happened."""
    expected = [
        _One(wanted, path)
        for wanted in rule.changes
        for path in (wanted.values if wanted.op is Op.UPDATE else ("",))
    ]
    found = list(_whole_fields(context))
    actual = [delta for delta, _ in found]
    pairs = _Pairs(expected, actual)
    masks = [_any(_matches(one, d, {}) for one in pairs.expected_of(d)) for d in actual]
    met = [_any(_matches(one, d, {}) for d in pairs.actual_of(one)) for one in expected]
    said = tuple(
        ExplanationVote(part, ID, mask, _gaps(d))
        for (d, parts), mask in zip(found, masks, strict=True)
        if mask != FALSE
        for part in parts
    )
    extra = [d for d, mask in zip(actual, masks, strict=True) if mask == FALSE]
    missing = [
        one
        for one, mask in zip(expected, met, strict=True)
        if mask == FALSE and not any(_may_be(one, doubt) for doubt in context.doubts)
    ]
    causes = doubt_causes(context.doubts).union(*(entry.causes for entry in said))
    if extra or missing:
        finding = _differs(missing, extra)
    elif causes or any(mask != TRUE for mask in (*met, *masks)):
        finding = unknown(ID, _STAGE, causes, (), tuple(actual))
    else:
        finding = _exactly(expected, actual, pairs)
    return Checked(finding, said, sum(mask == TRUE for mask in met))


def _whole_fields(context: JudgingContext) -> Iterator[tuple[Delta, tuple[Delta, ...]]]:
    """Each change with the deltas that it is: a field that changed inside is one change of it."""
    for made in context.changes:
        inside: dict[str, list[Delta]] = {}
        for delta in made.deltas:
            if delta.steps:
                inside.setdefault(delta.path, []).append(delta)
            else:
                yield delta, (delta,)
        for name, deltas in inside.items():
            rows = (v.row(made.type, made.key) for v in (context.before, context.after))
            before, after = (ABSENT if row is None else row.get(name, ABSENT) for row in rows)
            yield replace(deltas[0], steps=(), before=before, after=after), tuple(deltas)


def _exactly(expected: list[_One], actual: list[Delta], pairs: _Pairs) -> Finding:
    """The finding where all is known: the same number, and one naming that makes them equal."""
    deltas = tuple(actual)
    if len(expected) != len(actual):
        other = Reason.OTHER_NUMBER(number=len(actual), recorded=len(expected))
        return fails(ID, FindingCode.TRANSITION_DIFFERS, _STAGE, other, deltas)
    for tried, naming in enumerate(_namings(expected, pairs)):
        if tried == MAX_NAMINGS:
            return unknown(ID, _STAGE, [TOO_COSTLY], (), deltas)
        if naming is not None and all(
            any(_matches(one, d, naming) == TRUE for d in pairs.actual_of(one, naming))
            for one in expected
        ):
            return holds(ID, _STAGE, Reason.AS_RECORDED(number=len(expected)), deltas)
    return fails(ID, FindingCode.TRANSITION_DIFFERS, _STAGE, Reason.NO_NAMING(), deltas)


class _Pairs:
    """Which deltas can be which at all: of one operation, type and field, and of one key."""

    def __init__(self, expected: list[_One], actual: list[Delta]) -> None:
        self._expected: dict[Any, list[_One]] = {}
        self._open: dict[Any, list[_One]] = {}
        self._actual: dict[Any, list[Delta]] = {}
        self._of_kind: dict[Any, list[Delta]] = {}
        for one in expected:
            key = _named_key(one.of.key, {})
            if key is None:
                self._open.setdefault(one.kind, []).append(one)
            else:
                self._expected.setdefault((one.kind, key), []).append(one)
        for delta in actual:
            kind = (delta.op, delta.type, delta.path)
            self._of_kind.setdefault(kind, []).append(delta)
            self._actual.setdefault((kind, _named_key(delta.key, {})), []).append(delta)

    def expected_of(self, delta: Delta) -> Iterator[_One]:
        kind = (delta.op, delta.type, delta.path)
        yield from self._expected.get((kind, _named_key(delta.key, {})), ())
        yield from self._open.get(kind, ())

    def actual_of(self, one: _One, naming: Naming = NO_NAMES) -> list[Delta]:
        key = _named_key(one.of.key, naming)
        if key is None:
            return self._of_kind.get(one.kind, [])
        return self._actual.get((one.kind, key), [])


def _named_key(key: tuple[Any, ...], naming: Naming) -> tuple[Any, ...] | None:
    """The key in a form that is equal where keys are; None while a part has no name yet."""
    parts = [
        naming.get(part.name) if isinstance(part, New) else comparison_key(part) for part in key
    ]
    return None if None in parts else tuple(parts)


def _differs(missing: list[_One], extra: list[Delta]) -> Finding:
    first_missing = tuple(one.explanation() for one in missing[:1])
    first_extra = tuple(change(delta) for delta in extra[:1])
    why = Reason.OTHER_CHANGES(
        missing=first_missing,
        extra=first_extra,
        more=len(missing) + len(extra) - len(first_missing) - len(first_extra),
    )
    return fails(ID, FindingCode.TRANSITION_DIFFERS, _STAGE, why, tuple(extra))


def _any(masks: Iterable[int]) -> int:
    total = FALSE
    for mask in masks:
        if mask == TRUE:
            return TRUE
        total |= mask
    return total


def _may_be(one: _One, doubt: Doubt) -> bool:
    """Whether the doubted change may turn out to be the expected one."""
    if doubt.type != one.of.type or (doubt.path and doubt.path != one.path):
        return False
    return doubt.key is None or _same_key(one.of.key, doubt.key, {})


# ---------------------------------------------------------------- one against one


def _matches(one: _One, delta: Delta, naming: Naming) -> int:
    """Whether the delta, of the same kind, is the expected one."""
    of = one.of
    if not _same_key(of.key, delta.key, naming):
        return FALSE
    if delta.op is Op.UPDATE:
        cells = [(of.values[one.path], delta.after)]
        cells += [(of.olds[one.path], delta.before)] if one.path in of.olds else []
    elif delta.op in (Op.CREATE, Op.LINK):
        fields = _fields(delta.after)
        named = {*of.values, *fields} - set(of.key_fields)
        cells = [(of.values.get(name), fields.get(name)) for name in sorted(named)]
    else:
        fields = _fields(delta.before)
        cells = [(value, fields.get(name)) for name, value in of.olds.items()]
    total = TRUE
    for wanted, held in cells:
        mask = _is(wanted, held, naming)
        if mask == FALSE:
            return FALSE
        total |= mask
    return total


def _fields(side: Observed | Entity) -> dict[str, Observed]:
    return side.as_row() if isinstance(side, Entity) else {}


def _is(wanted: Any, held: Any, naming: Naming) -> int:
    told = told_apart(wanted, held)
    if told is not None:
        return TRUE if told else FALSE
    if isinstance(held, Unobserved):
        return TRUE | FALSE
    if isinstance(held, Excluded):
        return TRUE
    if isinstance(wanted, New):
        if wanted.name not in naming:
            return TRUE
        return TRUE if comparison_key(held) == naming[wanted.name] else FALSE
    held = None if isinstance(held, Absent) else held
    return TRUE if equal(wanted, held) else FALSE


def _same_key(wanted: tuple[Any, ...], key: Key, naming: Naming) -> bool:
    return len(wanted) == len(key) and all(
        _is(part, held, naming) == TRUE for part, held in zip(wanted, key, strict=True)
    )


def _gaps(delta: Delta) -> frozenset[Cause]:
    cells = {**_fields(delta.before), **_fields(delta.after)}
    return frozenset(
        Reason.IN(place=f"{delta.id}.{name}", cause=cause(cell.cause))
        for name, cell in cells.items()
        if isinstance(cell, Unobserved)
    )


# ---------------------------------------------------------------- names of new keys


def _namings(expected: list[_One], pairs: _Pairs) -> Iterator[Naming | None]:
    """Every way to give each named creation a key of its own, in a fixed order.

    None for each step on the way, so that the caller can bound the search.
    """
    created = [one for one in expected if one.of.op in (Op.CREATE, Op.LINK)]
    created = [one for one in created if any(isinstance(part, New) for part in one.of.key)]

    def assigned(at: int, naming: Naming) -> Iterator[Naming | None]:
        if at == len(created):
            yield naming
            return
        one = created[at]
        for delta in pairs.actual_of(one, naming):
            yield None
            parts = [
                (part.name, comparison_key(held))
                for part, held in zip(one.of.key, delta.key, strict=True)
                if isinstance(part, New)
            ]
            place = {(delta.type, held) for _, held in parts}
            if len(delta.key) == 1 and place & {
                (other.of.type, naming[part.name])
                for other in created[:at]
                for part in other.of.key
                if isinstance(part, New)
            }:
                continue
            if _matches(one, delta, naming) == TRUE:
                yield from assigned(at + 1, {**naming, **dict(parts)})

    return assigned(0, {})
