"""Labelled runs made of right ones: faults, observations that fail, and harmless twins.

The label holds by how the run was made, whatever any evaluator says of it: harm is incorrect,
what was not seen is unresolvable, another representation is correct. What changes nothing within
the boundary is no case, nor is what the contract's owner lets pass, with reasons, in `cases.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from statediff.errors import UsageError
from statediff.meta import stagecases
from statediff.meta.fault_classes import EVIDENCE, alters_nothing, kind_of, means_the_same
from statediff.meta.metatest import SEEDED
from statediff.meta.mutate import TWINS, Argued, is_argued, judged, seeded
from statediff.meta.reference import Reference, Rows
from statediff.meta.study.chunks import recut
from statediff.meta.study.trials import Case, Gold, Origin
from statediff.meta.world import Fault, World, is_privilege
from statediff.model.verdict import Verdict
from statediff.suite.review_terms import Label

RIGHT: Final = "right-run"


def seeded_cases(
    runs: Sequence[Reference], seed: int, argued: Mapping[str, Argued], each: int
) -> Iterator[Case]:
    """The right runs of one contract, and `each` cases of each class seeded into each (0: all).

    Raises `UsageError` if there is none, or one of them does not MATCH.
    """
    if not runs:
        raise UsageError("a study needs at least one run that gets MATCH")
    gold = Gold(tuple(runs))
    for run in runs:
        content = run.contract.content
        judgement = run.judged()
        if judgement.verdict is not Verdict.MATCH:
            raise UsageError(
                f"{content.contract}: {run.name} gets {judgement.verdict.value}, not MATCH; "
                "faults are seeded into right runs only"
            )
        world = World(run, judgement, seed)
        yield replace(_case(world, gold, None, RIGHT, Label.CORRECT), judgement=judgement)
        for fault in _some(seeded(world, SEEDED), each, world):
            kind = kind_of(fault)
            label = Label.UNRESOLVABLE if kind in EVIDENCE else Label.INCORRECT
            case = _counted(_case(world, gold, fault, kind, label), world, argued)
            if case is not None:
                yield case
        for fault in unauthorised(world):
            yield _case(world, gold, fault, fault.operator, Label.INCORRECT)
        for fault in _some(stagecases.unapproved(world), each, world):
            yield _case(world, gold, fault, fault.operator, Label.INCORRECT)
        for fault in _some(stagecases.ambiguous(world), each, world):
            yield _case(world, gold, fault, fault.operator, Label.UNRESOLVABLE)
        for twin in _some(seeded(world, (*TWINS, recut)), each, world):
            yield _case(world, gold, twin, twin.operator, Label.CORRECT)


def unauthorised(world: World) -> Iterator[Fault]:
    """The right run, and nobody had approved of what it did: an authorization that Λ asks for.

    Every entity is gone, on both sides, of a type that says who may do what and that decides
    whether an effect of this run was authorized.
    """
    run = world.reference
    done = {(delta.op, delta.type) for delta in world.judgement.deltas}
    for effect in world.compiled.contract.effects:
        if effect.authorized_by is None or not any(
            op in effect.operations and name == effect.type for op, name in done
        ):
            continue
        read = {each.type for each in effect.reads if each.root == "before"}
        for name in sorted(read & {t.name for t in world.types if is_privilege(t)}):
            was = replace(run, after=run.before).edited({name: _cleared})
            mutant = replace(run.edited({name: _cleared}), before=was.after)
            sentence = f"{effect.id}: there was no {name}"
            yield Fault("unauthorised", name, sentence, mutant)


def _cleared(rows: Rows) -> None:
    rows.clear()


def _case(world: World, gold: Gold, fault: Fault | None, kind: str, label: Label) -> Case:
    run = world.reference
    content = run.contract.content
    is_variant = fault is not None and label is Label.CORRECT
    return Case(
        domain=content.sandbox or "recorded",
        task=content.contract,
        name=run.name if fault is None else f"{run.name}: {fault.id}",
        origin=Origin.SEEDED,
        kind=kind,
        sentence="a run that was right" if fault is None else fault.sentence,
        label=label,
        run=run if fault is None else fault.mutant,
        gold=gold,
        is_variant=is_variant,
        world=world,
        fault=fault,
    )


def _some(faults: Iterable[Fault], each: int, world: World) -> list[Fault]:
    """So many of each class, picked by the seed; all in their order."""
    known = list(faults)
    if not each:
        return known
    by_kind: dict[str, list[int]] = {}
    for at, fault in enumerate(known):
        by_kind.setdefault(kind_of(fault), []).append(at)
    picked = {
        at for places in by_kind.values() for at in world.rng.sample(places, min(each, len(places)))
    }
    return [known[at] for at in sorted(picked)]


def _counted(case: Case, world: World, argued: Mapping[str, Argued]) -> Case | None:
    """The case, judged; None where nothing was seeded, or the owner lets it pass."""
    fault = case.fault
    if fault is None:
        return case
    if is_argued(fault, argued):
        return None
    if case.kind not in EVIDENCE and alters_nothing(fault, world):
        return None
    if case.kind == "contradictory-sources" and means_the_same(world, fault.mutant):
        return None
    return replace(case, judgement=judged(fault, world.reference.name)[1])
