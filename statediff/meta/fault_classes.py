"""Which class a seeded fault is of, and whether a judgement points at what was altered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from statediff.meta.reference import Reference, differs
from statediff.meta.world import Fault, World
from statediff.model.batches import Row
from statediff.model.codes import FindingCode
from statediff.model.columns import table_changes
from statediff.model.delta import Delta, Entity
from statediff.model.explanation import Explanation, Reason
from statediff.model.schema import EntityType
from statediff.model.values import Key, is_value, same
from statediff.model.verdict import Finding, Judgement, Stage, Truth

AMBIGUOUS: Final = "ambiguous-identity"
_OPERATORS: Final = {
    "missing-change": "drop-required partial",
    "wrong-field": "wrong-value off-by-one wrong-sign",
    "filled-null": "filled-null",
    "empty-text": "emptied blanked",
    "needless-permission": "permitted-value permitted-again",
    "wrong-principal": "wrong-principal",
    "wrong-relation": "re-pointed",
    "wrong-entity": "wrong-entity",
    "duplicate-request": "duplicate",
    "swapped-values": "swap",
    "look-alike": "look-alike",
    "collateral-damage": "extra-create extra-update",
    "irreversible-change": "extra-delete soft-delete",
    "privilege-change": "privilege privilege-create privilege-update privilege-delete",
    "schema-change": "schema-create schema-update schema-delete",
    "nested-change": "nested-value nested-type nested-added nested-removed nested-duplicated "
    "nested-reordered nested-swapped",
    "false-claim": "false-claim",
    "unsettled-source": "unsettled",
    "stale-read": "stale",
    "missing-evidence": "missing",
    "truncated-listing": "truncated",
    "contradictory-sources": "contradiction",
    "parted-sources": "parted",
    "clock-skew": "clock-skew",
    AMBIGUOUS: "one-natural-key",
}
CLASSES: Final[Mapping[str, str]] = {
    operator: name for name, operators in _OPERATORS.items() for operator in operators.split()
}
"""Operator → fault class; transient operators are `transient-effect`."""
EVIDENCE_CLASSES: Final = frozenset(
    {
        "unsettled-source",
        "stale-read",
        "missing-evidence",
        "truncated-listing",
        "contradictory-sources",
        "clock-skew",
        AMBIGUOUS,
    }
)
"""Classes in which nothing was done wrong, and too little was seen to say so."""


def class_of(fault: Fault) -> str:
    """The fault's class; an operator that is in none is a class of its own."""
    if fault.operator.startswith("transient-"):
        return "transient-effect"
    return CLASSES.get(fault.operator, fault.operator)


def target_type(fault: Fault, world: World) -> str:
    """The type that the fault alters; the source for what was not seen of all of it."""
    target = fault.target
    if "/" in target:
        target = target.partition("/")[2]
    types = world.reference.types
    return target if target in types or "." not in target else target.rpartition(".")[0]


def findings_of(judgement: Judgement, truth: Truth) -> tuple[Finding, ...]:
    """The findings of that truth."""
    return tuple(finding for finding in judgement.findings if finding.truth is truth)


def names(fault: Fault, kind: str, world: World, judgement: Judgement) -> bool:
    """True if a finding that does not hold points at what was altered or not seen."""
    if kind == AMBIGUOUS:
        return names_ambiguous(fault.target, judgement)
    if kind in EVIDENCE_CLASSES:
        return _names_unseen(fault, world, judgement)
    found = findings_of(judgement, Truth.FAILS)
    if kind == "false-claim":
        return any(finding.stage in (Stage.ANSWER, Stage.ACCESS) for finding in found)
    if kind == "transient-effect":
        wanted = target_type(fault, world)
        pointed = {e for f in found for e in _entities(f, judgement.during)}
        return any(type_name == wanted for type_name, _ in pointed)
    seeded = altered_entities(world.reference, fault.mutant)
    deltas = (*judgement.deltas, *(hidden.delta for hidden in judgement.hidden))
    if any(_hits(_entities(finding, deltas), seeded) for finding in found):
        return True
    gone = missing_entities(world.reference, fault.mutant)
    types = world.reference.types
    if gone and any(_hits(_led_to(finding, deltas, types), gone) for finding in found):
        return True
    # What did not happen is in no delta: the clause that asked for it says so.
    explained = dict(world.judgement.explained_by)
    asked = {
        clause
        for delta in world.judgement.deltas
        if (delta.type, delta.key) in seeded
        for clause in explained.get(delta.id, ())
    }
    return any(finding.clause in asked for finding in found)


def names_ambiguous(type_name: str, judgement: Judgement) -> bool:
    """True if the resolve stage says that entities of the type cannot be distinguished."""
    return any(
        finding.code is FindingCode.IDENTITY_AMBIGUOUS and type_name in finding.sentence
        for finding in findings_of(judgement, Truth.UNKNOWN)
    )


def altered_entities(reference: Reference, mutant: Reference) -> frozenset[tuple[str, Key]]:
    """The entities whose rows after the run are others, by type and key; read from the rows."""
    return frozenset((name, key) for name, key, _, _ in _altered_rows(reference, mutant))


def missing_entities(reference: Reference, mutant: Reference) -> frozenset[tuple[str, Key]]:
    """The altered entities that are not there after the mutant's run."""
    rows = _altered_rows(reference, mutant)
    return frozenset((name, key) for name, key, _, after in rows if after is None)


def alters_nothing(fault: Fault, world: World) -> bool:
    """True if the seed left all that a contract may speak of as it was.

    Read from rows, readings and words, never from a judgement: what a diff overlooks is a fault
    that was not caught.
    """
    mutant, reference = fault.mutant, world.reference
    return (
        class_of(fault) != "transient-effect"
        and mutant.before == reference.before
        and mutant.timeline == reference.timeline
        and mutant.answer == reference.answer
        and mutant.trace == reference.trace
        and mutant.contract.data == reference.contract.data
        and means_the_same(world, mutant)
    )


def means_nothing(fault: Fault, world: World) -> bool:
    """True if the seed is no fault: nothing was altered, or no source contradicts another."""
    fault_class = class_of(fault)
    if fault_class == "contradictory-sources":
        return means_the_same(world, fault.mutant)
    return fault_class not in EVIDENCE_CLASSES and alters_nothing(fault, world)


def means_the_same(world: World, mutant: Reference) -> bool:
    """True if every altered row within the boundary is, under ν, what it was."""
    book = world.compiled.book
    for name, _, before, after in _altered_rows(world.reference, mutant):
        if world.is_outside(name):
            continue
        if before is None or after is None:
            return False
        for field in differs(before, after):
            if world.is_outside(name, field):
                continue
            one, two = (book.value(name, field, row.get(field)) for row in (before, after))
            if not (is_value(one) and is_value(two) and same(one, two)):
                return False
    return True


def _altered_rows(
    reference: Reference, mutant: Reference
) -> Iterator[tuple[str, Key, Row | None, Row | None]]:
    for name in reference.types:
        one, two = (
            [part.state.tables[name] for part in each.after.parts if name in part.state.tables]
            for each in (reference, mutant)
        )
        for old, new in zip(one, two, strict=True):
            if old is new or old.chunks == new.chunks:
                continue
            for change in table_changes(old, new):
                was, now = change.before, change.after
                if was is None or now is None or differs(was, now):
                    yield name, change.key, was, now


def _names_unseen(fault: Fault, world: World, judgement: Judgement) -> bool:
    source, _, type_name = fault.target.partition("/")
    types = (
        {type_name}
        if type_name
        else {
            name
            for part in world.reference.after.parts
            if part.reading.source == source
            for name in part.state.tables
        }
    )
    return any(
        _type_of(cause) in types
        for finding in findings_of(judgement, Truth.UNKNOWN)
        for cause in finding.causes
    )


def _type_of(cause: Explanation) -> str:
    """The type of the place that a cause is about: `TYPE` or `TYPE[key].path`; else nothing."""
    return str(cause["place"]).partition("[")[0] if cause.reason is Reason.IN else ""


def _entities(finding: Finding, deltas: tuple[Delta, ...]) -> Iterator[tuple[str, Key]]:
    named = set(finding.deltas)
    yield from ((delta.type, delta.key) for delta in deltas if delta.id in named)
    yield from ((row.type, row.key) for row in finding.witness.rows)


def _led_to(
    finding: Finding, deltas: tuple[Delta, ...], types: Mapping[str, EntityType]
) -> Iterator[tuple[str, Key]]:
    """The entities that what the finding shows refers to: where there is none, it says which."""
    named = set(finding.deltas)
    cells = [(d.type, d.path, d.after) for d in deltas if d.id in named]
    cells += [(row.type, name, value) for row in finding.witness.rows for name, value in row.fields]
    for type_name, name, value in cells:
        field = types[type_name].by_name.get(name) if type_name in types else None
        if field is None or field.reference is None or isinstance(value, Entity):
            continue
        if is_value(value):
            yield field.reference, (value,)  # type: ignore[misc]  # a value


def _hits(pointed: Iterator[tuple[str, Key]], seeded: frozenset[tuple[str, Key]]) -> bool:
    return any(entity in seeded for entity in pointed)
