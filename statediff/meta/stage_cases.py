"""Cases that must fail at one stage of the evaluator, and say so [SSD §VIII].

* capture: a snapshot that the contract calls authoritative is not there;
* resolve: many entities share one natural key, of a type that the contract identifies by one, else
  of a listing without keys;
* canonicalize: a value is spelled in a way that no rule of ν approves; of a text that a rule is on
  nothing but a digest was captured;
* diff: a row is another one where all rows come in other chunks; more rows of a listing without
  keys are unknown than are ever compared;
* policy: a write that a clause forbids;
* evidence: an item that the decision rests on is taken out of the bundle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isqrt
from typing import Final

from statediff.contract.clauses.patterns import Pattern
from statediff.contract.file import parse_contract
from statediff.errors import BundleError
from statediff.evidence.canonical import read, write
from statediff.evidence.leaf_partition import pieces
from statediff.evidence.package import Bundle
from statediff.kernel import evaluate, replay
from statediff.meta.evidence_faults import (
    ALIKE,
    keyless_listing,
    missing_readings,
    with_listing,
)
from statediff.meta.faults import OPERATIONS, extras
from statediff.meta.reference import Change, Reference, Rows
from statediff.meta.twins import recut
from statediff.meta.world import Fault, World, near, other, put
from statediff.model.batches import Row
from statediff.model.columns import MAX_COMPARISONS
from statediff.model.delta import key_name
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import Digested, Key, Unobserved, is_value, same
from statediff.model.verdict import Verdict

FRAGMENTS: Final = 4
"""Fragments taken out of the bundle of each reference, one at a time."""


@dataclass(frozen=True)
class Removal:
    """The replay of a bundle from which one item was taken."""

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
        and not any(clause.pins.values())
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


def digested_texts(world: World) -> Iterator[Fault]:
    """Canonicalize: a rule is on a text, and of that text the capture holds the digest only.

    A contract without rules gets one.
    """
    reference, book = world.reference, world.compiled.book
    has_rules = bool(reference.contract.content.canonicalize)
    for entity in world.types:
        found = world.pick(world.untouched(entity))
        texts = [
            field
            for field in world.fields(entity)
            if field.kind is Kind.TEXT
            and field.reference is None
            and (not has_rules or book.rules_on(entity.name, field.name))
        ]
        known = [f for f in texts if found is not None and isinstance(found[1][f.name], str)]
        if found is None or not known:
            continue
        (key, row), field = found, world.rng.choice(known)
        ruled = reference if has_rules else _with_rule(reference, f"{entity.name}.{field.name}")
        change = put(key, {**row, field.name: Digested.of(f"{row[field.name]} and more")})
        sentence = f"{entity.name} {key_name(key)}: {field.name} is a digest under a rule"
        yield Fault("digested-text", entity.name, sentence, ruled.edited({entity.name: change}))


def _with_rule(reference: Reference, on: str) -> Reference:
    rule = f"{{use: nfc@1, on: [{on}], because: one letter has several spellings}}"
    data = reference.contract.data + f"\ncanonicalize: [{rule}]\n".encode()
    file = parse_contract(data, "the contract with a rule")
    return replace(reference, contract=file)


def altered_in_other_chunks(world: World) -> Iterator[Fault]:
    """Diff: an entity that the run left alone is another one, and all rows are cut otherwise."""
    for twin in recut(world):
        if twin.operator != "other-chunks":
            continue
        entity = world.reference.types[twin.target]
        found = world.pick(world.untouched(entity))
        fields = [f for f in world.fields(entity) if f.reference is None and not f.is_immutable]
        if found is None or not fields:
            continue
        key, row = found
        field = world.rng.choice(fields)
        change = put(key, {**row, field.name: other(row[field.name], field)})
        mutant = twin.mutant.edited({entity.name: change})
        sentence = f"{entity.name} {key_name(key)}: {field.name} is another one in other chunks"
        yield Fault("altered-in-other-chunks", entity.name, sentence, mutant)


def incomparable_rows(world: World) -> Iterator[Fault]:
    """Diff: more rows without a key are unknown in part than are ever compared one by one."""
    reference = world.reference
    name = "unknown_listing"
    if not reference.after.parts or name in reference.types:
        return
    number = isqrt(MAX_COMPARISONS) + 1
    unseen = Unobserved("the listing was torn")
    listing = EntityType(name, (), (Field("at", Kind.INT), Field("what", Kind.TEXT)))
    sides = [
        with_listing(side, listing, [{"at": first + n, "what": unseen} for n in range(number)])
        for side, first in ((reference.before, 0), (reference.after, number))
    ]
    mutant = replace(reference, before=sides[0]).with_parts(sides[1].parts)
    yield Fault("incomparable-rows", name, f"{number} rows of {name} are unknown in part", mutant)


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
    """Replay the bundle without that item."""
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
