"""The stored corpus: seeded cases that anyone can judge again, without a sandbox or an agent.

A file holds the trial of one contract's reference, and of each case what differs from it: captures,
contract, answer, timeline. Beside it stand what it must get (verdict, stage, clause, codes), why in
one sentence, and its harmless twin. `gathered` makes such a file, `replayed` judges it.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from statediff.errors import UsageError
from statediff.evidence.canonical import write
from statediff.meta import stagecases
from statediff.meta.equivalents import twin_of
from statediff.meta.fault_classes import kind_of
from statediff.meta.metatest import (
    SEEDED,
    Case,
    Part,
    beside_case,
    fault_case,
    removed_case,
    stage_case,
    staged,
)
from statediff.meta.mutate import Argued, seeded
from statediff.meta.reference import Reference
from statediff.meta.stored import Opened, Pool
from statediff.meta.world import Fault, World
from statediff.model.verdict import Verdict

SCHEMA: Final = "statediff/corpus/1"
SUFFIX: Final = ".corpus.gz"
REMOVED: Final = 3
"""Items that are taken out of a bundle, one at a time."""
MAX_BYTES: Final = 64 * 1024 * 1024

Json = Any


def gathered(reference: Reference, seed: int, argued: Mapping[str, Argued], most: int) -> bytes:
    """A corpus of one reference: of each fault class at most so many cases, picked by the seed.

    Raises `UsageError` if the reference does not MATCH.
    """
    judgement = reference.judged()
    if judgement.verdict is not Verdict.MATCH:
        raise UsageError(f"{reference.name} gets {judgement.verdict.value}, not MATCH")
    world = World(reference, judgement, seed)
    pool, rng = Pool(), random.Random(f"{seed} {reference.contract.digest}")  # noqa: S311 — reproducible
    base = pool.trial(reference)
    cases: list[Json] = []
    counts: Counter[str] = Counter()
    faults = list(seeded(world, SEEDED))
    for fault in rng.sample(faults, len(faults)):
        kind = kind_of(fault)
        case = None if counts[kind] >= most else fault_case(fault, world, argued)
        if case is not None:
            counts[kind] += 1
            twin = twin_of(fault, world)
            told = {"trial": pool.trial(twin.mutant, reference), **_fault(twin)}
            cases.append({**_case(case, fault, pool, reference), "twin": told})
    listed = list(staged(world))
    for stage, fault, clauses in rng.sample(listed, len(listed)):
        if counts[f"stage {stage}"] < most:
            counts[f"stage {stage}"] += 1
            case = stage_case(stage, fault, clauses, world)
            told = _case(case, fault, pool, reference)
            cases.append({**told, "stage": stage, "clauses": sorted(clauses)})
    removals = list(stagecases.removals(world))
    cases += (
        {"part": Part.STAGE.value, "stage": "evidence", "place": removal.place}
        for removal in rng.sample(removals, min(REMOVED, len(removals)))
    )
    document = {"schema": SCHEMA, "seed": seed, **pool.document, "reference": base, "cases": cases}
    return gzip.compress(write(document), mtime=0)


def _case(case: Case, fault: Fault, pool: Pool, reference: Reference) -> Json:
    expected = {
        "verdict": case.expected.value, "clause": case.clause, "stage": case.stage,
        "codes": list(case.codes),
    }  # fmt: skip
    trial = pool.trial(fault.mutant, reference)
    return {"part": case.part.value, **_fault(fault), "expected": expected, "trial": trial}


def _fault(fault: Fault) -> Json:
    return {"operator": fault.operator, "target": fault.target, "sentence": fault.sentence}


def corpus_files(folder: Path) -> list[Path]:
    """The files of a corpus, sorted. Raises `UsageError` if there is none."""
    found = sorted(folder.rglob(f"*{SUFFIX}"))
    if not found:
        raise UsageError(f"{folder}: expected a corpus, which is files named *{SUFFIX}; found none")
    return found


def replayed(path: Path, sample: int = 0, seed: int = 0) -> Iterator[Case]:
    """The cases of a file, judged again; with `sample`, so many, picked by the seed.

    A case that gets another clause, stage or code than it says is not named. Raises `UsageError` if
    the file is no corpus, or if its reference no longer gets MATCH.
    """
    document = _read(path)
    opened = Opened(document)
    reference = opened.trial(document["reference"])
    judgement = reference.judged()
    if judgement.verdict is not Verdict.MATCH:
        raise UsageError(f"{path}: the reference gets {judgement.verdict.value}, not MATCH")
    world = World(reference, judgement, seed)
    cases: list[Json] = document["cases"]
    every = range(len(cases))
    picked = sorted(world.rng.sample(every, min(sample, len(cases)))) if sample else every
    for told in (cases[at] for at in picked):
        yield from _judged(told, opened, world)


def _judged(told: Json, opened: Opened, world: World) -> Iterator[Case]:
    if told.get("place"):
        whole = stagecases.bundle_of(world.reference)
        yield removed_case(stagecases.removed(whole, told["place"]), world)
        return
    fault = _seeded(told, opened, world)
    if told["part"] == Part.STAGE.value:
        case = stage_case(told["stage"], fault, frozenset(told["clauses"]), world)
    else:
        found = fault_case(fault, world, {})
        if found is None:
            raise UsageError(f"the corpus is damaged: {fault.id} changes nothing; build it anew")
        case = found
    yield _held(case, told["expected"])
    if "twin" in told:
        twin = _seeded(told["twin"], opened, world, is_twin=True)
        yield beside_case(twin, case, world)


def _held(case: Case, expected: Json) -> Case:
    """The case, not named where it says something else than was stored."""
    wanted = (expected["clause"], expected["stage"], tuple(expected["codes"]))
    if wanted == (case.clause, case.stage, case.codes):
        return case
    said = f"expected {wanted}, found {(case.clause, case.stage, case.codes)}"
    return replace(case, is_named=False, error=case.error or said)


def _seeded(told: Json, opened: Opened, world: World, is_twin: bool = False) -> Fault:
    trial = opened.trial(told["trial"], world.reference)
    return Fault(told["operator"], told["target"], told["sentence"], trial, is_twin)


def _read(path: Path) -> Json:
    try:
        with gzip.open(path) as file:
            data = file.read(MAX_BYTES + 1)
        document = json.loads(data) if len(data) <= MAX_BYTES else None
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read as a corpus: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UsageError(f"{path}: expected a corpus, {SCHEMA}, of at most {MAX_BYTES} bytes")
    return document
