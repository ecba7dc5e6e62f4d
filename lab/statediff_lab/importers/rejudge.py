"""Recorded runs judged again, in order, by as many processes as are wanted.

1. Lines are read here, a chunk at a time, and handed to the workers unparsed.
2. A worker parses a line, parts its labels, judges what is left, and only then puts the outcome
   beside the labels.
3. Outcomes come back in the order of the lines; at most a few chunks wait.

A run that cannot be judged (a contract that does not fit it, a run of another format) is an
outcome without a verdict. What stops everything is an interrupt, or a folder that cannot be read.

Why a run did not match is data. A pack's reviewed reasons are words about a verdict and change
none. They cover a run only where they cover every finding against it.

An agent that does nothing is judged on every task as well: only a contract that says `noop: true`
may give it MATCH. A contract that would match it without saying so is refused by `evaluate`, and is
a fault here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from itertools import islice
from typing import Final

from statediff.errors import StatediffError, UsageError
from statediff.evidence.package import Bundle
from statediff.kernel import Evaluated, TrialFacts, evaluate
from statediff.model.delta import Delta
from statediff.model.values import printable
from statediff.model.verdict import Finding, Judgement, Truth, Verdict
from statediff_lab.importers.pack import Reviewed, open_pack
from statediff_lab.importers.recorded import (
    BadLine,
    Half,
    Labels,
    NotARun,
    Prepared,
    RecordedRun,
    RunLine,
    Suite,
    TaskId,
    parse,
    read_lines,
    without_labels,
)
from statediff_lab.importers.states import tables_json
from statediff_lab.importers.taxonomy import Cause
from statediff_lab.importers.workers import Workers

CHUNK_LINES: Final = 8
"""Lines a worker gets at once: enough to hide the hand-over, few enough to end soon."""

MAX_WHY: Final = 50
"""Findings kept of one run, the gravest; its bundle holds all."""


class Mode(Enum):
    """Whose rules decide: the benchmark's own, or a closed contract."""

    COMPAT = "compat"
    CLOSED = "closed"


@dataclass(frozen=True)
class RejudgedRun:
    """One run with its outcome, beside what others said of it."""

    run_id: str
    task: TaskId
    agent: str
    half: Half
    labels: Labels
    _: KW_ONLY
    verdict: Verdict | None
    """None where the run could not be judged; `fault` says why."""
    why: tuple[Why, ...] = ()
    """What speaks against MATCH, gravest first; empty for MATCH."""
    reviewed: tuple[str, ...] = ()
    """The pack's reasons for this task, where together they cover everything in `why`."""
    causes: tuple[Cause, ...] = ()
    """How the benchmark's rules, where they fail a run that matches, can be wrong about it."""
    fault: str = ""
    bundle: Bundle | None = None
    states: tuple[tuple[str, bytes], ...] = ()
    """(`before-SOURCE` or `after-SOURCE`, JSON tables), where they were asked for."""

    @property
    def passes(self) -> bool:
        return self.verdict is Verdict.MATCH


RunOutcome = RejudgedRun | BadLine


@dataclass(frozen=True)
class Wanted:
    """Which runs are judged, and how."""

    mode: Mode = Mode.CLOSED
    domain: str | None = None
    half: Half | None = None
    """Only runs of tasks in this half; of the others nothing is said."""
    with_bundles: bool = False
    with_states: bool = False


@dataclass(frozen=True)
class LineChunk:
    """A few lines of one file, unparsed, and what is wanted of them."""

    domain: str
    lines: Sequence[RunLine | BadLine]
    wanted: Wanted


def rejudge(workers: Workers, wanted: Wanted) -> Iterator[RunOutcome]:
    """Every run that is wanted, judged, in the order of files and lines."""
    found = chunks(workers.suite, wanted.domain)
    pieces = (LineChunk(domain, lines, wanted) for domain, lines in found)
    for outcomes in workers.in_order(judge_chunk, pieces):
        yield from outcomes


def chunks(suite: Suite, domain: str | None) -> Iterator[tuple[str, list[RunLine | BadLine]]]:
    """The lines of all files of the domain, or of every domain, a few at a time.

    `UsageError` if there is no such file.
    """
    files = [f for f in suite.files if domain in (None, f.domain)]
    if not files:
        known = ", ".join(sorted({f.domain for f in suite.files})) or "none"
        of = "" if domain is None else f" of the domain {printable(domain)!r}"
        raise UsageError(f"no runs{of} here; there are runs of: {known}")
    for file in files:
        lines = read_lines(file.path)
        while chunk := list(islice(lines, CHUNK_LINES)):
            yield file.domain, chunk


def judge_chunk(suite: Suite, chunk: LineChunk) -> list[RunOutcome]:
    """The outcome of each line that is wanted, in order."""
    found = (
        line if isinstance(line, BadLine) else _judge_line(suite, chunk, line)
        for line in chunk.lines
    )
    return [outcome for outcome in found if outcome is not None]


def _judge_line(suite: Suite, chunk: LineChunk, line: RunLine) -> RunOutcome | None:
    try:
        run, labels = read_run(suite, chunk.domain, line)
    except NotARun as error:
        return BadLine(line.file, line.number, str(error))
    wanted = chunk.wanted
    if wanted.half not in (None, suite.half(run.task)):
        return None
    try:
        if wanted.mode is Mode.COMPAT:
            return _by_own_rules(suite, run, labels)
        return _by_contract(suite, run, labels, wanted)
    except StatediffError as error:
        known = (run.run_id, run.task, run.agent, suite.half(run.task), labels)
        return RejudgedRun(*known, verdict=None, fault=str(error))


def readable_runs(
    suite: Suite, domain: str | None = None
) -> Iterator[tuple[str, RunLine, RecordedRun, Labels]]:
    """Every run of the suite, or of one of its domains, that can be read, with domain and line."""
    for file in suite.files:
        for line in read_lines(file.path) if domain in (None, file.domain) else ():
            if isinstance(line, BadLine):
                continue
            try:
                yield file.domain, line, *read_run(suite, file.domain, line)
            except NotARun:
                continue


def read_run(suite: Suite, domain: str, line: RunLine) -> tuple[RecordedRun, Labels]:
    """The run of a line and, apart, its labels. `NotARun` where it holds none."""
    run, labels = suite.run(domain, parse(line))
    # Whatever the reader left in: nobody who judges gets to see a label.
    return RecordedRun(run.run_id, run.task, run.agent, without_labels(run.raw)), labels


_VERDICT: Final = {
    (True, True): Verdict.MATCH,
    (True, False): Verdict.DIVERGE,
    (False, False): Verdict.INCONCLUSIVE,
}


def _by_own_rules(suite: Suite, run: RecordedRun, labels: Labels) -> RejudgedRun:
    compat = suite.compat(run)
    return RejudgedRun(
        run.run_id,
        run.task,
        run.agent,
        suite.half(run.task),
        labels,
        verdict=_VERDICT[compat.is_decided, compat.passes],
        why=tuple(Why("", "", "", r, is_sure=compat.is_decided) for r in compat.reasons),
    )


def judge_trial(trial: Prepared, facts: TrialFacts | None = None) -> Evaluated:
    """The trial, judged under its contract."""
    return evaluate(
        trial.contract,
        trial.before,
        trial.after,
        trace=trial.trace,
        answer=trial.answer,
        facts=facts or TrialFacts("trial"),
    )


def _by_contract(suite: Suite, run: RecordedRun, labels: Labels, wanted: Wanted) -> RejudgedRun:
    trial = suite.prepare(run)
    evaluated = judge_trial(trial, TrialFacts(run.run_id, agent=run.agent, isolation="unknown"))
    why = reasons(evaluated.judgement)
    verdict = evaluated.judgement.verdict
    notes = open_pack(suite.name, run.task.domain).notes(run.task.name)
    return RejudgedRun(
        run.run_id,
        run.task,
        run.agent,
        suite.half(run.task),
        labels,
        verdict=verdict,
        why=why[:MAX_WHY],
        reviewed=reviewed_reasons(notes.reviewed, why),
        causes=suite.compat(run).causes if verdict is Verdict.MATCH else (),
        bundle=evaluated.bundle if wanted.with_bundles else None,
        states=tuple(_written_states(trial)) if wanted.with_states else (),
    )


def _written_states(trial: Prepared) -> Iterator[tuple[str, bytes]]:
    for moment, capture in (("before", trial.before), ("after", trial.after)):
        for source, content in tables_json(capture):
            yield f"{moment}-{source}", content


@dataclass(frozen=True)
class Why:
    """One finding against a run. All empty but `sentence` under a benchmark's own rules."""

    clause: str
    code: str
    stage: str
    sentence: str
    on: tuple[str, ...] = ()
    """Where its deltas are: TYPE, or TYPE.FIELD for updates; sorted."""
    deltas: tuple[str, ...] = ()
    """The deltas that show it, by id."""
    is_sure: bool = True
    """False where the finding is UNKNOWN."""


def reasons(judgement: Judgement) -> tuple[Why, ...]:
    """The reasons against MATCH: what fails before what is unknown, else in report order."""
    places = {delta.id: _delta_place(delta) for delta in judgement.deltas}
    places |= {hidden.delta.id: _delta_place(hidden.delta) for hidden in judgement.hidden}
    against = [f for f in judgement.findings if f.truth is not Truth.HOLDS]
    return tuple(
        _reason(finding, places)
        for finding in sorted(against, key=lambda f: f.truth is not Truth.FAILS)
    )


def _reason(finding: Finding, places: Mapping[str, str]) -> Why:
    on = {places[d] for d in finding.deltas if d in places}
    return Why(
        finding.clause,
        finding.code.value,
        finding.stage.value,
        finding.sentence,
        tuple(sorted(on)),
        finding.deltas,
        finding.truth is Truth.FAILS,
    )


def _delta_place(delta: Delta) -> str:
    return f"{delta.type}.{delta.path}" if delta.path else delta.type


def reviewed_reasons(notes: Sequence[Reviewed], why: Sequence[Why]) -> tuple[str, ...]:
    """The reasons that cover all of `why`, in the pack's order; none where something is left."""
    used: set[Reviewed] = set()
    for each in why:
        covering = _covering(notes, each)
        if not covering:
            return ()
        used |= covering
    return tuple(dict.fromkeys(note.because for note in notes if note in used))


def _covering(notes: Sequence[Reviewed], why: Why) -> set[Reviewed]:
    here = [note for note in notes if note.clause == why.clause]
    if whole := {note for note in here if not note.on}:
        return whole
    found: set[Reviewed] = set()  # stays empty where nothing says what the finding is about
    for place in why.on:
        about = {note for note in here if place == note.on or place.startswith(f"{note.on}.")}
        if not about:
            return set()
        found |= about
    return found


TASKS_AT_ONCE: Final = 8


@dataclass(frozen=True)
class StillTask:
    """One task, and what doing nothing gets."""

    task: TaskId
    half: Half
    is_noop: bool
    """The contract declares that the null transition is right."""
    verdict: Verdict | None
    """None where the contract is refused; `fault` says why."""
    fault: str = ""

    @property
    def is_right(self) -> bool:
        """True if nothing passes that was not declared to."""
        return self.verdict is not None and (self.is_noop or self.verdict is not Verdict.MATCH)


def still_tasks(workers: Workers, wanted: Wanted) -> Iterator[StillTask]:
    """Every task that is wanted, run or not, in order."""
    suite = workers.suite
    tasks = iter(
        [
            task
            for task in suite.tasks()
            if wanted.domain in (None, task.domain) and wanted.half in (None, suite.half(task))
        ]
    )
    pieces = iter(lambda: tuple(islice(tasks, TASKS_AT_ONCE)), ())
    for found in workers.in_order(_judge_still_tasks, pieces):
        yield from found


def _judge_still_tasks(suite: Suite, tasks: Sequence[TaskId]) -> list[StillTask]:
    return [_judge_still(suite, task) for task in tasks]


def _judge_still(suite: Suite, task: TaskId) -> StillTask:
    half, is_noop = suite.half(task), False
    try:
        trial = suite.still(task)
        is_noop = trial.contract.content.noop
        verdict = judge_trial(trial, TrialFacts(str(task))).judgement.verdict
    except StatediffError as error:
        return StillTask(task, half, is_noop, None, str(error))
    return StillTask(task, half, is_noop, verdict)
