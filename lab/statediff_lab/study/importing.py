"""Public benchmarks' recorded runs as labelled cases, each with harm seeded beside it as well.

The label of a run is what later human corrections agree on, unresolvable where they differ. Where
nobody corrected a suite it is the published verdict, which then is no evaluator there. Runs whose
published verdict hangs on natural language are left out. Harm is seeded into runs that the
benchmark's own rules pass and whose label is correct: such a run is incorrect by construction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Final

from statediff.errors import InputError, StatediffError
from statediff.kernel import KERNEL
from statediff.meta.checkpoint import checkpoint, digest_of
from statediff.meta.world import World
from statediff.model.verdict import Verdict
from statediff_lab.importers.recorded import (
    BadLine,
    Labels,
    NotARun,
    RecordedRun,
    RunLine,
    Suite,
    TaskId,
    read_lines,
)
from statediff_lab.importers.rejudge import read_run, readable_runs
from statediff_lab.importers.sweep import changes_of, pick_harm, reference_of
from statediff_lab.importers.workers import Workers
from statediff_lab.labels import Label
from statediff_lab.study.evaluators import (
    ABLATIONS,
    EVALUATORS,
    Evaluator,
    changed_entities,
    score_case,
)
from statediff_lab.study.passes import Labelling
from statediff_lab.study.planning import PlannedRun, Registration, digest_over, draw
from statediff_lab.study.trials import (
    SCORED,
    EvaluatorOpinion,
    Gold,
    LabelledCase,
    Origin,
    ScoredCase,
)

CHUNK: Final = 4
_BY_CONTRACT: Final = frozenset({"per-turn", "contract-diff", "statediff"})
_ABLATED: Final = frozenset(
    {"without-canonicalization", "without-labels", "without-evidence", "without-frame"}
)
"""Recorded runs have no clock and no history, and their types have stable keys."""
MEASURED: Final = (
    "agreement",
    "false acceptance",
    "false rejection",
    "inconclusive",
    "what each ablation gets wrong that the whole judge gets right",
)
"""What is counted of every evaluator, domain by domain, with intervals over tasks and runs."""
_PUBLISHED: Final = {True: "published as passed", False: "published as failed", None: "unpublished"}
OFFICIAL: Final = Evaluator("official", "the benchmark's published verdict")


@dataclass(frozen=True)
class StudyPiece:
    """A few lines of one domain."""

    domain: str
    lines: Sequence[RunLine]
    seed: int
    harms: int
    keep: Path | None = None
    """Where what was judged is kept."""
    files: str = ""
    """The digest of the suite's folder, where something is kept."""
    settled: Mapping[str, Label] | None = None
    """By run, the labels that count instead of the published ones; other runs are left out."""


def imported_cases(
    workers: Workers, seed: int, runs: int, harms: int, keep: Path | None = None
) -> Iterator[ScoredCase]:
    """`runs` runs of each domain (0: all), and `harms` harms in each that passes, judged.

    Which runs, a hash of their place and the seed decides; what is no run is left out. What is kept
    of the same runs is not judged again.
    """
    suite = workers.suite
    files = "" if keep is None else digest_of(workers.cases.folder.rglob("*"))
    for file in suite.files:
        lines = [line for line in read_lines(file.path) if not isinstance(line, BadLine)]
        ranked = sorted(lines, key=partial(_rank, seed))
        chosen = sorted(ranked[: runs or None], key=lambda line: line.number)
        pieces = (
            StudyPiece(
                f"{suite.name} {file.domain}", chosen[at : at + CHUNK], seed, harms, keep, files
            )
            for at in range(0, len(chosen), CHUNK)
        )
        for done in workers.in_order(judge_piece, pieces):
            yield from done


def labelled_cases(workers: Workers, found: Labelling) -> Iterator[ScoredCase]:
    """The suite's runs of a registered sample with the labels that passes settled, judged.

    Raises `InputError` where a run that was registered is not there as it was.
    """
    suite = workers.suite
    for file in suite.files:
        domain = f"{suite.name} {file.domain}"
        wanted = {each.digest for each in found.registration.sample if each.domain == domain}
        read = (line for line in read_lines(file.path) if not isinstance(line, BadLine))
        lines = [line for line in read if hashlib.sha256(line.data).hexdigest() in wanted]
        if len(lines) != len(wanted):
            raise InputError(
                f"{domain}: of {len(wanted)} runs that were registered, {len(lines)} are there"
            )
        settled = {run: label for (d, run), label in found.settled.items() if d == domain}
        pieces = (
            StudyPiece(domain, lines[at : at + CHUNK], 0, 0, settled=settled)
            for at in range(0, len(lines), CHUNK)
        )
        for done in workers.in_order(judge_piece, pieces):
            yield from done


def population(suite: Suite) -> Iterator[PlannedRun]:
    """Every run of the suite that a study may draw, with its published verdict as its stratum."""
    for domain, line, run, labels in readable_runs(suite):
        yield PlannedRun(
            f"{suite.name} {domain}",
            run.run_id,
            run.task.name,
            _PUBLISHED[labels.official],
            hashlib.sha256(line.data).hexdigest(),
        )


def registered(
    suites: Mapping[str, Suite],
    within: Fraction,
    expected: Fraction,
    seed: int,
    protocol: Mapping[str, str],
) -> Registration:
    """The plan of a study of these suites: a sample so large, judged by every evaluator here."""
    everything = [run for suite in suites.values() for run in population(suite)]
    strata, sample = draw(everything, within, expected, seed)
    return Registration(
        seed=seed,
        within=_decimal(within),
        expected=_decimal(expected),
        contracts=contracts_digest(suites, sample),
        kernel=str(KERNEL),
        evaluators=tuple(each.name for each in (OFFICIAL, *EVALUATORS, *ABLATIONS)),
        measures=("agreement of the passes", *MEASURED),
        protocol=protocol,
        strata=strata,
        sample=sample,
    )


def _decimal(share: Fraction) -> str:
    return f"{float(share):.9f}".rstrip("0")


def contracts_digest(suites: Mapping[str, Suite], sample: Sequence[PlannedRun]) -> str:
    """One digest over the contracts of the sample's tasks, as these suites make them."""
    tasks = sorted({(*each.domain.split(" ", 1), each.task) for each in sample})
    return digest_over(
        [suites[suite].contract(TaskId(domain, task)).data for suite, domain, task in tasks]
    )


def _rank(seed: int, line: RunLine) -> bytes:
    return hashlib.sha256(f"{seed}\0{line.file}\0{line.number}".encode()).digest()


def judge_piece(suite: Suite, piece: StudyPiece) -> tuple[ScoredCase, ...]:
    """Every case that the lines give, judged by every evaluator that can judge it."""
    places = [[line.file, line.number] for line in piece.lines]
    asked = [piece.domain, piece.seed, piece.harms, piece.files, places]
    name = f"{piece.domain} {piece.lines[0].number}"
    return checkpoint(piece.keep, name, asked, lambda: _judge_runs(suite, piece), SCORED)


def _judge_runs(suite: Suite, piece: StudyPiece) -> Iterator[ScoredCase]:
    for line in piece.lines:
        try:
            run, labels = read_run(suite, piece.domain.partition(" ")[2], line)
        except NotARun:
            continue
        label = label_of(labels) if piece.settled is None else piece.settled.get(run.run_id)
        if label is not None:
            yield from _judge_run(suite, run, labels, label, piece)


def label_of(labels: Labels) -> Label | None:
    """The known label of the run; None where only a published judgement of language says it."""
    said = set(labels.corrected.values())
    if labels.uses_language:
        return None
    if len(said) > 1:
        return Label.UNRESOLVABLE
    is_right = said.pop() if said else labels.official
    if is_right is None:
        return None
    return Label.CORRECT if is_right else Label.INCORRECT


def _judge_run(
    suite: Suite, run: RecordedRun, labels: Labels, label: Label, piece: StudyPiece
) -> Iterator[ScoredCase]:
    try:
        reference = reference_of(suite, run)
        case = LabelledCase(
            domain=piece.domain,
            task=run.task.name,
            name=run.run_id,
            origin=Origin.IMPORTED if piece.settled is None else Origin.LABELLED,
            kind="recorded-run",
            sentence="as recorded",
            label=label,
            run=reference,
            gold=Gold(()),
        )
        is_trial = bool(labels.corrected) or piece.settled is not None
        yield score_case(case, _evaluators(suite, run, case, labels.official if is_trial else None))
        if label is Label.CORRECT and piece.harms and suite.compat(run).passes:
            yield from _harm(suite, run, case, piece)
    except StatediffError:
        return


def _harm(
    suite: Suite, run: RecordedRun, right: LabelledCase, piece: StudyPiece
) -> Iterator[ScoredCase]:
    judgement = right.run.judged()
    world = World(right.run, judgement, piece.seed)
    harms = list(pick_harm(suite, run, right.run, judgement, piece.seed))
    for fault in world.rng.sample(harms, min(piece.harms, len(harms))):
        case = replace(
            right,
            name=f"{run.run_id}: {fault.id}",
            origin=Origin.HARMED,
            kind=fault.operator,
            sentence=fault.sentence,
            label=Label.INCORRECT,
            run=fault.mutant,
            world=world,
            fault=fault,
        )
        yield score_case(case, _evaluators(suite, run, case, None))


def _evaluators(
    suite: Suite, run: RecordedRun, case: LabelledCase, official: bool | None
) -> list[Evaluator]:
    """Ours, and the benchmark's own rules; what it published, where that is on trial."""
    before = case.run if case.world is None else case.world.reference
    compat = suite.compat(run, () if case.fault is None else changes_of(before, case.run))
    ordinary = dict(compat.evaluators or {})
    if compat.evaluators is None and compat.is_decided:
        ordinary["assertions"] = compat.passes
    found = [_constant(name, _opinion(case, passes)) for name, passes in ordinary.items()]
    if official is not None:
        found.append(_constant(OFFICIAL.name, _opinion(case, official)))
    found += [e for e in EVALUATORS if e.name in _BY_CONTRACT]
    return found + [e for e in ABLATIONS if e.name in _ABLATED]


def _constant(name: str, opinion: EvaluatorOpinion) -> Evaluator:
    """An evaluator whose opinion is known already."""
    return Evaluator(name, "", lambda _: opinion)


def _opinion(case: LabelledCase, passes: bool) -> EvaluatorOpinion:
    """The word of an evaluator that points at nothing: its reader looks at all that was done."""
    return EvaluatorOpinion(
        Verdict.MATCH if passes else Verdict.DIVERGE,
        len(changed_entities(case.run.before, case.run.after)),
        len(case.run.trace.actions),
        hits=False if case.fault else None,
    )
