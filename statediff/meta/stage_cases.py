"""Cases that must fail at one stage of the evaluator, and say so [SSD §VIII].

One omission a stage: a snapshot that the contract calls authoritative is not there (capture), a
value is spelled in a way that no rule of ν approves (canonicalize), a write that a clause forbids
(policy), an item that the decision rests on is taken out of the bundle (evidence). Many entities
share one natural key (resolve): of a type that the contract identifies by one, else of a listing
without keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from statediff.contract.clauses.patterns import Pattern
from statediff.errors import BundleError
from statediff.evaluate import evaluate, replay
from statediff.evidence.canonical import read, write
from statediff.evidence.leaf_partition import pieces
from statediff.evidence.package import Bundle
from statediff.meta.evidence_faults import ALIKE, keyless_listing, missing_readings
from statediff.meta.faults import OPERATIONS, extras
from statediff.meta.reference import Change, Reference, Rows
from statediff.meta.world import Fault, World, near, put
from statediff.model.batches import Row
from statediff.model.delta import key_name
from statediff.model.values import Key, is_value, same
from statediff.model.verdict import Verdict

FRAGMENTS: Final = 4
"""Fragments taken out of the bundle of each reference, one at a time."""


@dataclass(frozen=True)
class Removal:
    """What the replay of a bundle said from which one item was taken."""

    place: str
    """File and place in it, e.g. `captures.json#/after/0`."""
    verdict: Verdict | None
    refused: str
    """Why the replay refused the bundle; empty where it did not."""


def unread_sources(world: World) -> Iterator[Fault]:
    """Capture: an authoritative source was not read."""
    yield from missing_readings(world)


def unapproved_spellings(world: World) -> Iterator[Fault]:
    """Canonicalize: a text the run left alone is in other letters, and no rule of ν allows it."""
    book = world.compiled.book
    for entity in world.types:
        found = world.pick(world.untouched(entity))
        if found is None:
            continue
        key, row = found
        for field in world.fields(entity):
            value = row[field.name]
            if not isinstance(value, str) or field.reference is not None:
                continue
            kept, spelled = book.value(entity.name, field.name, value), value.swapcase()
            again = book.value(entity.name, field.name, spelled)
            if not is_value(kept) or not is_value(again) or same(kept, again):
                continue
            sentence = f"{entity.name} {key_name(key)}: {field.name} in a spelling nobody approved"
            changes = {entity.name: put(key, {**row, field.name: spelled})}
            yield world.faulty("unapproved-spelling", entity.name, sentence, changes)
            break


def alike_entities(world: World) -> Iterator[Fault]:
    """Resolve: so many entities share a natural key that none can be distinguished from another."""
    reference = world.reference
    yield from keyless_listing(world)
    for rule in world.compiled.identities:
        entity = reference.types.get(rule.type)
        found = None if entity is None else world.pick(world.untouched(entity))
        natural = {name for name, _, _ in rule.fields}
        if entity is None or found is None:
            continue
        free = [field for field in world.fields(entity) if field.name not in natural]
        if not free:
            continue
        key, row = found
        made: list[Row] = []
        value = row[free[0].name]
        for _ in range(2 * ALIKE):
            value = near(value, free[0])
            made.append({**row, free[0].name: value})
        was = replace(reference, after=reference.before).edited(
            {rule.type: _add(key, made[:ALIKE])}
        )
        mutant = reference.edited({rule.type: _add(key, made[ALIKE:])})
        sentence = f"{ALIKE} of {rule.type} have the natural key of {key_name(key)}"
        yield Fault("one-natural-key", rule.type, sentence, replace(mutant, before=was.after))


def forbidden_writes(world: World) -> Iterator[tuple[Fault, frozenset[str]]]:
    """Policy: a write that a clause forbids whatever its values, and the clauses that do."""
    whole = [
        clause
        for clause in world.compiled.contract.forbid
        if isinstance(clause, Pattern)
        and clause.low <= 1
        and clause.by is None
        and clause.fields is None
        and not clause.sets
        and not clause.froms
        and not any(clause.that.values())
    ]
    for fault in extras(world):
        kind = OPERATIONS[fault.operator.rpartition("-")[2]]
        named = fault.target if fault.target in world.reference.types else ""
        type_name = named or fault.target.rpartition(".")[0]
        clauses = frozenset(
            clause.id
            for clause in whole
            if clause.operations & kind
            and type_name in clause.types
            and clause.where.get(type_name) is None
        )
        if clauses:
            yield fault, clauses


def removals(world: World) -> Iterator[Removal]:
    """Evidence: the bundle without each reading, and some rows; its manifest agrees with it."""
    whole = bundle_of(world.reference)
    places = places_in(whole)
    readings = [
        p for p in places if p.startswith(("captures.json#/before/", "captures.json#/after/"))
    ]
    rows = [p for p in places if p.startswith("fragments.json#") and "/rows/" in p]
    for place in (*readings, *sorted(world.rng.sample(rows, min(FRAGMENTS, len(rows))))):
        yield remove_item(whole, place)


def places_in(whole: Bundle) -> list[str]:
    """Every item that can be taken out of the bundle."""
    return [piece.path for piece in pieces(whole) if not piece.path.endswith("#")]


def remove_item(whole: Bundle, place: str) -> Removal:
    """What the replay says of the bundle without that item."""
    try:
        return Removal(place, replay(without_item(whole, place)).verdict, "")
    except BundleError as error:
        return Removal(place, None, str(error))


def _add(key: Key, made: list[Row]) -> Change:
    def change(rows: Rows) -> None:
        for number, row in enumerate(made):
            rows[*key, number] = row

    return change


def bundle_of(reference: Reference) -> Bundle:
    """The bundle of the reference trial, judged as it is."""
    return evaluate(
        reference.contract,
        reference.before,
        reference.after,
        trace=reference.trace,
        answer=reference.answer,
        timeline=reference.timeline,
        facts=reference.facts,
    ).bundle


def without_item(whole: Bundle, place: str) -> Bundle:
    """The bundle as somebody would leave it who removes one item and hides that he did."""
    name, _, pointer = place.partition("#")
    steps = [int(step) if step.isdigit() else step for step in pointer.split("/")[1:]]
    document = read(whole.files[name], name)
    holder = document
    for step in steps[:-1]:
        holder = holder[step]
    del holder[steps[-1]]
    files = {**whole.files, name: write(document)}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    return Bundle({**whole.manifest, "files": digests}, files)
