"""Verdicts beside what others said of the same runs: agreement, and every disagreement.

A *false pass* is a MATCH where the other says failed, a *false fail* a DIVERGE where it says
passed; INCONCLUSIVE is neither and is counted. Runs that hang on criteria in natural language are
counted apart, under no agreement. Where several corrections say the same, that is the corrected
verdict; where they differ, each is a reading, and what is expected is INCONCLUSIVE.

Intervals are percentiles of a bootstrap over *tasks*: runs of one task are not independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from statediff.model.verdict import Verdict
from statediff_lab.importers.recorded import BadLine, Half, TaskId
from statediff_lab.importers.rejudge import RejudgedRun, RunOutcome
from statediff_lab.importers.taxonomy import Cause, labels_of, missed
from statediff_lab.statistics.bootstrap import Interval, mean_interval

RESAMPLES: Final = 2000
MAX_LISTED: Final = 400
"""Disagreements of one kind kept in full; all are counted."""


@dataclass(frozen=True)
class OpinionAgreement:
    """How verdicts compare with one opinion. The four numbers add up to `runs`."""

    runs: int
    agree: int
    false_pass: int
    false_fail: int
    inconclusive: int
    interval: Interval | None = None
    """Of the share that agrees; None where there is no run, or one task only."""

    @property
    def share(self) -> float | None:
        return self.agree / self.runs if self.runs else None


@dataclass(frozen=True)
class Disagreement:
    """One run where a verdict and an opinion differ, with what the verdict rests on."""

    judged: RejudgedRun
    against: str
    """Whose opinion: `official`, or `corrected`."""
    is_false_pass: bool

    @property
    def labels(self) -> tuple[Cause, ...]:
        """Its labels in the taxonomy; at least one."""
        judged = self.judged
        if self.against == "corrected":
            # Where people have looked, they are right, unless a reviewed reason says otherwise.
            return (Cause.ANNOTATION,) if judged.reviewed else (Cause.OWN_ERROR,)
        if self.is_false_pass:
            return labels_of(judged.causes)
        return missed(why.stage for why in judged.why if why.is_sure)


@dataclass(frozen=True)
class UnseenHarm:
    """Something that runs did and the official evaluator passed, by clause and place."""

    clause: str
    code: str
    on: str
    runs: int
    tasks: int
    example: RejudgedRun
    reviewed: int
    """Runs of these that a reviewed reason of the pack covers."""


@dataclass(frozen=True, kw_only=True)
class FailureMix:
    """The reasons why runs fail: as was published, and as we judge them [TV Table 4].

    Each run is counted once under every rule that failed it, so that kinds may add up to more.
    """

    passed: int
    failed: int
    """Runs that have a published result, by it."""
    kinds: Mapping[str, int]
    """The benchmark's own rules that failed a run: how many runs each; the most frequent first."""
    unnamed: int
    """Published failures of which no rule is named."""
    ours: Mapping[str, int]
    """Of our DIVERGE, the codes of findings."""


@dataclass(frozen=True, kw_only=True)
class DomainReport:
    """One domain, or one half of its tasks."""

    domain: str
    half: Half | None
    runs: int
    tasks: int
    verdicts: Mapping[Verdict, int]
    faults: int
    language: Mapping[Verdict, int]
    """Runs that hang on natural language, by verdict; in none of the agreements."""
    official: OpinionAgreement
    corrected: OpinionAgreement
    """With the corrected verdict, where corrections that agree (or the only one) give one."""
    disputed: OpinionAgreement
    """Runs whose corrections differ; expected is INCONCLUSIVE, `agree` counts those."""
    mix: FailureMix
    disagreements: tuple[Disagreement, ...] = ()
    unseen: tuple[UnseenHarm, ...] = ()
    unreviewed: tuple[RejudgedRun, ...] = ()
    """Official passes that diverge without a reviewed reason."""


@dataclass(frozen=True)
class AgreementReport:
    """All domains, each whole and by half, and what could not be judged."""

    suite: str
    mode: str
    seed: int
    domains: tuple[DomainReport, ...]
    halves: tuple[DomainReport, ...]
    bad_lines: tuple[BadLine, ...]
    faults: tuple[RejudgedRun, ...]


@dataclass
class RunTally:
    """Outcomes as they come; of a run only what a report says is kept."""

    judged: list[RejudgedRun] = field(default_factory=list)
    bad_lines: list[BadLine] = field(default_factory=list)

    def add(self, outcome: RunOutcome) -> None:
        """One more outcome."""
        if isinstance(outcome, BadLine):
            self.bad_lines.append(outcome)
        else:
            self.judged.append(replace(outcome, bundle=None, states=()))

    @property
    def faults(self) -> list[RejudgedRun]:
        return [j for j in self.judged if j.verdict is None]


def report(suite: str, mode: str, tally: RunTally, seed: int) -> AgreementReport:
    """The report over everything that was judged."""
    domains = sorted({j.task.domain for j in tally.judged})
    parts = {
        (domain, half): [
            j for j in tally.judged if j.task.domain == domain and half in (None, j.half)
        ]
        for domain in domains
        for half in (None, *Half)
    }
    return AgreementReport(
        suite,
        mode,
        seed,
        tuple(_domain_report(d, None, parts[d, None], seed) for d in domains),
        tuple(
            _domain_report(d, h, parts[d, h], seed)
            for d in domains
            for h in Half
            if parts[d, h] and len(parts[d, h]) < len(parts[d, None])
        ),
        tuple(tally.bad_lines),
        tuple(tally.faults),
    )


def compat_summary(tally: RunTally) -> dict[str, int]:
    """Compatible mode in four numbers; more only where something could not be compared."""
    labelled = [(j, j.labels.compat) for j in tally.judged if j.labels.compat is not None]
    summary = {
        "runs": len(tally.judged),
        "agree": sum(j.verdict is not None and j.passes == said for j, said in labelled),
        "false_pass": sum(j.passes and not said for j, said in labelled),
        "false_fail": sum(j.verdict is Verdict.DIVERGE and bool(said) for j, said in labelled),
    }
    rest = {
        "unlabelled": len(tally.judged) - len(labelled),
        "faults": len(tally.faults),
        "bad_lines": len(tally.bad_lines),
    }
    return summary | {name: count for name, count in rest.items() if count}


def corrected_verdict(judged: RejudgedRun) -> bool | None:
    """The verdict that the corrections share; None where there are none, or they differ."""
    said = set(judged.labels.corrected.values())
    return said.pop() if len(said) == 1 else None


def is_disputed(judged: RejudgedRun) -> bool:
    """True if two corrections differ over the run."""
    return len(set(judged.labels.corrected.values())) > 1


def _domain_report(
    domain: str, half: Half | None, runs: Sequence[RejudgedRun], seed: int
) -> DomainReport:
    sound = [j for j in runs if j.verdict is not None]
    plain = [j for j in sound if not j.labels.uses_language]
    settled = [j for j in plain if not is_disputed(j)]
    return DomainReport(
        domain=domain,
        half=half,
        runs=len(runs),
        tasks=len({j.task for j in runs}),
        verdicts=_verdicts(plain),
        faults=len(runs) - len(sound),
        language=_verdicts(j for j in sound if j.labels.uses_language),
        official=_agreement([(j, j.labels.official) for j in plain], seed),
        corrected=_agreement([(j, corrected_verdict(j)) for j in settled], seed),
        disputed=_disputed_agreement([j for j in plain if is_disputed(j)], seed),
        mix=_mix(plain),
        disagreements=tuple(_disagreements(plain))[:MAX_LISTED],
        unseen=tuple(_unseen(plain)),
        unreviewed=tuple(
            j
            for j in plain
            if j.labels.official and j.verdict is Verdict.DIVERGE and not j.reviewed
        )[:MAX_LISTED],
    )


def _mix(runs: Sequence[RejudgedRun]) -> FailureMix:
    failed = [j for j in runs if j.labels.official is False]
    ours = [j for j in runs if j.verdict is Verdict.DIVERGE]
    return FailureMix(
        passed=sum(j.labels.official is True for j in runs),
        failed=len(failed),
        kinds=_most_frequent(kind for j in failed for kind in j.labels.failed),
        unnamed=sum(not j.labels.failed for j in failed),
        ours=_most_frequent(c for j in ours for c in {w.code for w in j.why if w.is_sure}),
    )


def _most_frequent(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def _verdicts(runs: Iterable[RejudgedRun]) -> dict[Verdict, int]:
    found = Counter(j.verdict for j in runs)
    return {verdict: found[verdict] for verdict in Verdict}


def _agreement(pairs: Sequence[tuple[RejudgedRun, bool | None]], seed: int) -> OpinionAgreement:
    told = [(j, said) for j, said in pairs if said is not None]
    agrees = [(j, j.verdict is (Verdict.MATCH if said else Verdict.DIVERGE)) for j, said in told]
    return OpinionAgreement(
        len(told),
        sum(same for _, same in agrees),
        sum(j.verdict is Verdict.MATCH and not said for j, said in told),
        sum(j.verdict is Verdict.DIVERGE and bool(said) for j, said in told),
        sum(j.verdict is Verdict.INCONCLUSIVE for j, _ in told),
        _interval(agrees, seed),
    )


def _disputed_agreement(runs: Sequence[RejudgedRun], seed: int) -> OpinionAgreement:
    undecided = [(j, j.verdict is Verdict.INCONCLUSIVE) for j in runs]
    agree = sum(same for _, same in undecided)
    return OpinionAgreement(
        len(runs),
        agree,
        sum(j.verdict is Verdict.MATCH for j in runs),
        sum(j.verdict is Verdict.DIVERGE for j in runs),
        0,
        _interval(undecided, seed),
    )


def _interval(pairs: Sequence[tuple[RejudgedRun, bool]], seed: int) -> Interval | None:
    tasks: dict[TaskId, list[bool]] = {}
    for judged, same in pairs:
        tasks.setdefault(judged.task, []).append(same)
    if len(tasks) < 2:
        return None
    return mean_interval([tasks[task] for task in sorted(tasks)], seed, RESAMPLES)


def _disagreements(runs: Sequence[RejudgedRun]) -> Iterable[Disagreement]:
    opinions: tuple[tuple[str, Callable[[RejudgedRun], bool | None]], ...] = (
        ("corrected", corrected_verdict),
        ("official", lambda j: j.labels.official),
    )
    for against, opinion in opinions:
        for judged in runs:
            said = opinion(judged)
            if said is False and judged.verdict is Verdict.MATCH:
                yield Disagreement(judged, against, is_false_pass=True)
            elif said is True and judged.verdict is Verdict.DIVERGE:
                yield Disagreement(judged, against, is_false_pass=False)


def _unseen(runs: Sequence[RejudgedRun]) -> Iterable[UnseenHarm]:
    """The harm that counts against official passes, each kind once; the most frequent first."""
    groups: dict[tuple[str, str, str], list[RejudgedRun]] = {}
    for judged in runs:
        if not judged.labels.official or judged.verdict is not Verdict.DIVERGE:
            continue
        kinds = {
            (why.clause, why.code, place)
            for why in judged.why
            if why.is_sure
            for place in (why.on or ("",))
        }
        for kind in kinds:
            groups.setdefault(kind, []).append(judged)
    for kind, found in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        reviewed = sum(bool(j.reviewed) for j in found)
        yield UnseenHarm(*kind, len(found), len({j.task for j in found}), found[0], reviewed)
