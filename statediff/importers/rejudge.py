"""Recorded runs judged again, in order, by as many processes as are wanted.

1. Lines are read here, a chunk at a time, and handed to the workers unparsed.
2. A worker parses a line, parts its labels, judges what is left, and only then puts the outcome
   beside the labels.
3. Outcomes come back in the order of the lines, whoever was first; at most a few chunks wait.

A run that cannot be judged (a contract that does not fit it, a run of another format) is an
outcome without a verdict. What stops everything is an interrupt, or a folder that cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from itertools import islice
from typing import Final

from statediff.errors import StatediffError, UsageError
from statediff.evaluate import TrialFacts, evaluate
from statediff.evidence.package import Bundle
from statediff.importers.exporting import tables_json
from statediff.importers.lines import Line, parse, read_lines, without_labels
from statediff.importers.pack import open_pack
from statediff.importers.recorded import (
    BadLine,
    Half,
    Labels,
    NotARun,
    Prepared,
    RecordedRun,
    Suite,
    TaskId,
)
from statediff.importers.reviewed import Why, reasons, reviewed_by
from statediff.importers.workers import Workers
from statediff.model.values import printable
from statediff.model.verdict import Verdict

CHUNK_LINES: Final = 8
"""Lines a worker gets at once: enough to hide the hand-over, few enough to end soon."""

MAX_WHY: Final = 50
"""Findings kept of one run, the gravest; its bundle holds all."""


class Mode(Enum):
    """Whose rules decide: the benchmark's own, or a closed contract."""

    COMPAT = "compat"
    CLOSED = "closed"


@dataclass(frozen=True)
class Judged:
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
    fault: str = ""
    bundle: Bundle | None = None
    states: tuple[tuple[str, bytes], ...] = ()
    """(`before-SOURCE` or `after-SOURCE`, JSON tables), where they were asked for."""

    @property
    def passes(self) -> bool:
        return self.verdict is Verdict.MATCH


Outcome = Judged | BadLine


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
class Chunk:
    """A few lines of one file, unparsed, and what is wanted of them."""

    domain: str
    lines: Sequence[Line | BadLine]
    wanted: Wanted


def rejudged(workers: Workers, wanted: Wanted) -> Iterator[Outcome]:
    """Every run that is wanted, judged, in the order of files and lines."""
    found = chunks(workers.suite, wanted.domain)
    pieces = (Chunk(domain, lines, wanted) for domain, lines in found)
    for outcomes in workers.in_order(judged_chunk, pieces):
        yield from outcomes


def chunks(suite: Suite, domain: str | None) -> Iterator[tuple[str, list[Line | BadLine]]]:
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


def judged_chunk(suite: Suite, chunk: Chunk) -> list[Outcome]:
    """The outcome of each line that is wanted, in order."""
    found = (
        line if isinstance(line, BadLine) else _judged_line(suite, chunk, line)
        for line in chunk.lines
    )
    return [outcome for outcome in found if outcome is not None]


def _judged_line(suite: Suite, chunk: Chunk, line: Line) -> Outcome | None:
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
        return _closed(suite, run, labels, wanted)
    except StatediffError as error:
        known = (run.run_id, run.task, run.agent, suite.half(run.task), labels)
        return Judged(*known, verdict=None, fault=str(error))


def read_run(suite: Suite, domain: str, line: Line) -> tuple[RecordedRun, Labels]:
    """The run of a line and, apart, its labels. `NotARun` where it holds none."""
    run, labels = suite.run(domain, parse(line))
    # Whatever the reader left in: nobody who judges gets to see a label.
    return RecordedRun(run.run_id, run.task, run.agent, without_labels(run.raw)), labels


_VERDICT: Final = {
    (True, True): Verdict.MATCH,
    (True, False): Verdict.DIVERGE,
    (False, False): Verdict.INCONCLUSIVE,
}


def _by_own_rules(suite: Suite, run: RecordedRun, labels: Labels) -> Judged:
    compat = suite.compat(run)
    return Judged(
        run.run_id,
        run.task,
        run.agent,
        suite.half(run.task),
        labels,
        verdict=_VERDICT[compat.is_decided, compat.passes],
        why=tuple(Why("", "", "", r, is_sure=compat.is_decided) for r in compat.reasons),
    )


def _closed(suite: Suite, run: RecordedRun, labels: Labels, wanted: Wanted) -> Judged:
    trial = suite.prepare(run)
    evaluated = evaluate(
        trial.contract, trial.before, trial.after, trace=trial.trace, answer=trial.answer,
        facts=TrialFacts(run.run_id, agent=run.agent, isolation="unknown"),
    )  # fmt: skip
    why = reasons(evaluated.judgement)
    notes = open_pack(suite.name, run.task.domain).notes(run.task.name)
    return Judged(
        run.run_id,
        run.task,
        run.agent,
        suite.half(run.task),
        labels,
        verdict=evaluated.judgement.verdict,
        why=why[:MAX_WHY],
        reviewed=reviewed_by(notes.reviewed, why),
        bundle=evaluated.bundle if wanted.with_bundles else None,
        states=tuple(_states(trial)) if wanted.with_states else (),
    )


def _states(trial: Prepared) -> Iterator[tuple[str, bytes]]:
    for moment, capture in (("before", trial.before), ("after", trial.after)):
        for source, content in tables_json(capture):
            yield f"{moment}-{source}", content
