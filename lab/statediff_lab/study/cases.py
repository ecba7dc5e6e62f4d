"""Labelled runs made of right ones: faults, observations that fail, and harmless twins.

The label holds by how the run was made, whatever any evaluator says of it: harm is incorrect,
what was not seen is unresolvable, another representation is correct. What changes nothing within
the boundary is no case, nor is what the contract's owner lets pass, with reasons, in `cases.yaml`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from statediff.errors import BundleError, UsageError
from statediff.evidence.package import Bundle
from statediff.kernel.policy.findings import fold
from statediff.meta import stage_cases
from statediff.meta.cases import Cases
from statediff.meta.fault_classes import EVIDENCE_CLASSES, class_of, means_nothing
from statediff.meta.metatest import PERMITTED, SEEDED, UNUSED
from statediff.meta.mutate import Argued, is_argued, judge_fault, seed_faults
from statediff.meta.reference import Reference, Rows
from statediff.meta.twins import TWINS, recut
from statediff.meta.world import Fault, World, in_order, is_privilege
from statediff.model.verdict import ClauseTruth, Stage, Truth, Verdict
from statediff_lab.labels import Label, Labelled
from statediff_lab.study.evaluators import ABLATIONS, EVALUATORS, score_case
from statediff_lab.study.trials import (
    EvaluatorOpinion,
    Gold,
    LabelledCase,
    Look,
    Origin,
    ScoredCase,
)

RIGHT: Final = "right-run"


def seed_cases(
    runs: Sequence[Reference], seed: int, argued: Mapping[str, Argued], each: int
) -> Iterator[LabelledCase]:
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
        for fault in _sample(seed_faults(world, SEEDED), each, world):
            kind = class_of(fault)
            label = Label.UNRESOLVABLE if kind in EVIDENCE_CLASSES else Label.INCORRECT
            case = _judge_case(_labelled_case(world, gold, fault, kind, label), world, argued)
            if case is not None:
                yield case
        for fault in unauthorized_runs(world):
            yield _labelled_case(world, gold, fault, fault.operator, Label.INCORRECT)
        for fault in _sample(stage_cases.unapproved_spellings(world), each, world):
            yield _labelled_case(world, gold, fault, fault.operator, Label.INCORRECT)
        for fault in _sample(stage_cases.alike_entities(world), each, world):
            yield _labelled_case(world, gold, fault, fault.operator, Label.UNRESOLVABLE)
        for twin in _sample(seed_faults(world, (*TWINS, recut)), each, world):
            yield _labelled_case(world, gold, twin, twin.operator, Label.CORRECT)
        world.leave(UNUSED, PERMITTED, len(world.unused))
        right = _labelled_case(world, gold, None, RIGHT, Label.CORRECT)
        yield replace(right, judgement=judgement, untried=in_order(world.untried))


def unauthorized_runs(world: World) -> Iterator[Fault]:
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
            was = replace(run, after=run.before).edited({name: _clear})
            mutant = replace(run.edited({name: _clear}), before=was.after)
            sentence = f"{effect.id}: there was no {name}"
            yield Fault("unauthorised", name, sentence, mutant)


def _clear(rows: Rows) -> None:
    rows.clear()


def _labelled_case(
    world: World, gold: Gold, fault: Fault | None, kind: str, label: Label
) -> LabelledCase:
    run = world.reference
    content = run.contract.content
    is_variant = fault is not None and label is Label.CORRECT
    return LabelledCase(
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


def _sample(faults: Iterable[Fault], each: int, world: World) -> list[Fault]:
    """So many of each class, picked by the seed; all in their order."""
    known = list(faults)
    if not each:
        return known
    by_kind: dict[str, list[int]] = {}
    for at, fault in enumerate(known):
        by_kind.setdefault(class_of(fault), []).append(at)
    picked = {
        at for places in by_kind.values() for at in world.rng.sample(places, min(each, len(places)))
    }
    world.leave("seeded cases", "of each class, a sample is tried", len(known) - len(picked))
    return [known[at] for at in sorted(picked)]


def _judge_case(
    case: LabelledCase, world: World, argued: Mapping[str, Argued]
) -> LabelledCase | None:
    """The case, judged; None where nothing was seeded, or the owner lets it pass."""
    fault = case.fault
    if fault is None:
        return case
    if is_argued(fault, argued) or means_nothing(fault, world):
        return None
    return replace(case, judgement=judge_fault(fault, world.reference.name)[1])


StageFilter = Callable[[Stage], bool]
_FOLDS: Final[Mapping[str, StageFilter]] = {
    "per-turn": lambda stage: stage in (Stage.STEPS, Stage.ACTIONS),
    "assertions": lambda stage: stage is Stage.REQUIRE,
    "statediff": lambda _: True,
    "without-labels": lambda stage: stage is not Stage.FORBID,
    "without-frame": lambda stage: stage is not Stage.FRAME,
}


@dataclass(frozen=True)
class ReviewedTrial:
    """A trial that reviewers labelled, with its whole states where its run kept them."""

    bundle: Bundle
    label: Label
    labels: tuple[Labelled, ...]
    run: Reference | None
    looks: tuple[Labelled, ...] = ()
    """By reviewers who saw one evaluator's view alone."""


def reviewed_cases(trials: Sequence[ReviewedTrial]) -> Iterator[ScoredCase]:
    """Each trial with its settled label. `BundleError`.

    From stored states every evaluator judges, and the judge with each part gone. What compares with
    right runs is given those that reviewers found right of the same contract, but for the trial
    itself. A bundle by itself holds what its own decision read: there only evaluators that drop
    whole stages are compared.
    """
    right: dict[str, list[Reference]] = {}
    for each in trials:
        if each.run is not None and each.label is Label.CORRECT:
            right.setdefault(each.run.contract.digest, []).append(each.run)
    for each in trials:
        case = _folded_case(each)
        if each.run is not None:
            others = right.get(each.run.contract.digest, ())
            gold = Gold(tuple(run for run in others if run is not each.run))
            found = _score_stored(case, each.run, gold)
            case = replace(case, opinions=found.opinions, errors=found.errors)
        yield case


def _score_stored(case: ScoredCase, run: Reference, gold: Gold) -> ScoredCase:
    labelled = LabelledCase(
        domain=case.domain,
        task=case.task,
        name=case.name,
        origin=case.origin,
        kind=case.kind,
        sentence=case.sentence,
        label=case.label,
        run=run,
        gold=gold,
    )
    return score_case(labelled, (*EVALUATORS, *ABLATIONS))


def _folded_case(trial: ReviewedTrial) -> ScoredCase:
    """The trial, and what can be read from the clauses of its bundle."""
    judgement = trial.bundle.document("judgement.json")
    facts, about = trial.bundle.manifest, trial.bundle.document("trial.json")
    try:
        clauses = [_clause(entry) for entry in judgement["clauses"]]
        contract = str(facts["contract"])
        domain = str(about["sandbox"] or contract.partition("/")[0])
    except (KeyError, TypeError, ValueError) as error:
        raise BundleError(f"judgement.json: no judgement as bundles hold it: {error!r}") from error
    # Whether reviewers took the run as one that only looks different, they do not say.
    return ScoredCase(
        domain=domain,
        task=contract,
        name=str(facts["trial"]),
        origin=Origin.REVIEWED,
        kind="reviewed",
        sentence="as reviewed",
        label=trial.label,
        is_variant=False,
        opinions={name: _fold_opinion(clauses, keeps) for name, keeps in _FOLDS.items()},
        errors={},
        seconds=tuple(each.given.seconds for each in trial.labels if each.given.seconds),
        looks=tuple(
            Look(each.given.shown, each.given.seconds, each.given.label is trial.label)
            for each in trial.looks
            if each.given.shown is not None
        ),
        told=tuple(
            (each.given.stage, each.given.is_correctable, each.given.failures)
            for each in trial.labels
            if each.given.stage is not None or each.given.failures
        ),
    )


def _fold_opinion(clauses: Sequence[ClauseTruth], keeps: StageFilter) -> EvaluatorOpinion:
    kept = [clause for clause in clauses if keeps(clause.stage)]
    verdict = fold(kept) if kept else Verdict.MATCH  # a check that asserts nothing passes all
    return EvaluatorOpinion(verdict, shows=True)


def _clause(entry: Mapping[str, Any]) -> ClauseTruth:
    return ClauseTruth(str(entry["clause"]), Stage(entry["stage"]), Truth(entry["truth"]))


def live_cases(
    trials: Iterable[Reference], cases: Cases, gold: Sequence[Reference]
) -> Iterator[LabelledCase]:
    """The trials of a contract's faulty agents, labelled as `cases.yaml` has it."""
    wrong = {each.agent: each for each in cases.faulty}
    for trial in trials:
        content = trial.contract.content
        kind = f"agent:{cases.drift.get(trial.name, 'faulty')}"
        yield LabelledCase(
            domain=content.sandbox or "recorded",
            task=content.contract,
            name=f"agent {trial.name}",
            origin=Origin.LIVE,
            kind=kind,
            sentence=wrong[trial.name].why,
            label=Label.INCORRECT,
            run=trial,
            gold=Gold(tuple(gold)),
        )
