"""Drafts of two or three recorded right runs, on the runs of the same task that were held out.

    python -m lab.benchmarks.drafts agent-diff linear CASES/agent-diff [--examples 2] [--seed 0]
    python -m lab.benchmarks.drafts tau2 retail CASES/tau2

Of each task so many runs are drawn that its suite passes and its contract matches; the suite's
contracts were written by hand. Each run's two states are files of JSON, and a contract is drafted
from them as `init --after` does, without a line by hand. It judges every other run of the task,
and what it says is held against what the contract by hand says: apart of the runs that are right
by it, and of those that are wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from statediff_lab.importers.recorded import (
    BadLine,
    Labels,
    Prepared,
    RecordedRun,
    Suite,
    TaskId,
    open_suite,
    parse,
    read_lines,
)
from statediff_lab.importers.states import schema_yaml, tables_json
from statediff_lab.statistics.draws import lot

from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import parse_schema_file
from statediff.contract.file import parse_contract
from statediff.errors import UsageError
from statediff.kernel import evaluate
from statediff.meta.reference import Reference
from statediff.model.readings import Capture
from statediff.model.verdict import Truth, Verdict
from statediff.reports.interview import Question
from statediff.workspace import drafts
from statediff.workspace.inputs import Refinements, capture_pair, one_capture, unrefined
from statediff.workspace.interview import Answers, interview

SHOWN: Final = 3
ONCE: Final = {"agent-diff": ("issues", "identifier")}
"""What is given once: a run that gives one again began with another state than is recorded."""


class Held(NamedTuple):
    """One run that no draft was made from, with the verdicts of three contracts."""

    run: str
    by_hand: str
    drafted: str
    asked: str
    """That of the draft with its owner's answers."""
    why: str


@dataclass
class Tried:
    """One task: what its draft says of the runs that were held out."""

    task: str
    held: list[Held] = field(default_factory=list)
    error: str = ""
    questions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Known:
    """A recorded run with the verdict of the contract by hand."""

    run: RecordedRun
    labels: Labels
    trial: Prepared
    verdict: Verdict

    @property
    def is_example(self) -> bool:
        """True if an owner would show it as a right run."""
        return self.labels.official is True and self.verdict is Verdict.MATCH


def known_runs(suite: Suite, domain: str) -> dict[TaskId, list[Known]]:
    """The runs of each task, judged by the contract by hand."""
    found: dict[TaskId, list[Known]] = defaultdict(list)
    for line in (ln for f in suite.files if f.domain == domain for ln in read_lines(f.path)):
        if isinstance(line, BadLine):
            continue
        run, labels = suite.run(domain, parse(line))
        trial = suite.prepare(run)
        if suite.name not in ONCE or not is_torn(suite.name, trial):
            verdict = _verdict(trial, trial.before, trial.after)
            found[run.task].append(Known(run, labels, trial, verdict))
    return found


def _verdict(trial: Prepared, before: Capture, after: Capture) -> Verdict:
    said = evaluate(trial.contract, before, after, trace=trial.trace, answer=trial.answer)
    return said.judgement.verdict


def is_torn(suite: str, trial: Prepared) -> bool:
    """True if the run began with another state than the recorded one."""
    (table, given), ends = ONCE[suite], (trial.before.parts[0], trial.after.parts[0])
    first, last = ({k: r[given] for k, r in end.state.tables[table].rows()} for end in ends)
    return bool({last[key] for key in last.keys() - first.keys()} & {*first.values()})


def tried(runs: Sequence[Known], count: int, seed: int, *, asks: bool) -> Tried | None:
    """The draft of so many right runs, on the others; None where there are too few."""
    right = sorted((k for k in runs if k.is_example), key=lambda k: lot(seed, "run", k.run.run_id))
    examples = right[:count]
    held = [each for each in runs if each not in examples]
    if len(examples) < count or not held:
        return None
    found = Tried(str(runs[0].run.task))
    with tempfile.TemporaryDirectory(prefix="statediff-drafts-") as named:
        folder = Path(named)
        try:
            drafted = draft_of_runs(folder, examples)
        except UsageError as error:
            return Tried(found.task, error=str(error))
        owner = Owner(folder, examples[0])
        end = interview(drafted, Answers(), owner.answer)[0] if asks else drafted
        found.questions = owner.asked
        file, asked = (
            parse_contract(each.draft.text.encode(), "the draft") for each in (drafted, end)
        )
        refined = drafts.refinements_of(drafted.schema_text)
        for each in held:
            pair = _pair(folder, each, refined)
            said = evaluate(file, *pair).judgement
            broken = [f for f in said.findings if f.truth is not Truth.HOLDS][:SHOWN]
            why = "; ".join(f"{f.clause}: {f.sentence}" for f in broken)
            after = evaluate(asked, *pair).judgement
            told = [v.value for v in (each.verdict, said.verdict, after.verdict)]
            found.held.append(Held(each.run.run_id, told[0], told[1], told[2], why))
    return found


class Owner:
    """Who wrote the contract by hand: says yes where it matches all that *yes* lets pass."""

    def __init__(self, folder: Path, example: Known) -> None:
        self._folder, self._trial = folder, example.trial
        [part] = self._trial.before.parts
        self._source = part.reading.source
        text = schema_yaml("recorded", part.state.schema)
        self._refined = refine(parse_schema_file(text, "schema.yaml"), self._source)
        self.asked: list[str] = []

    def answer(self, _number: int, _count: int, question: Question) -> bool:
        is_yes = all(map(self._passes, question.runs))
        self.asked.append(f"{'yes' if is_yes else 'no'}: {question.asks}")
        return is_yes

    def _passes(self, run: Reference) -> bool:
        before, after = (self._folder / f"asked-{moment}.json" for moment in ("before", "after"))
        before.write_bytes(tables_json(run.before)[0][1])
        after.write_bytes(tables_json(run.after)[0][1])
        first, last = ([f"{self._source}={path}"] for path in (before, after))
        pair = capture_pair(first, last, lambda _: self._refined, alike=False)
        return _verdict(self._trial, *pair) is Verdict.MATCH


def draft_of_runs(folder: Path, examples: Sequence[Known]) -> drafts.Drafted:
    """The draft that `init` makes of the runs' states."""

    def read(refined: Refinements) -> drafts.Examples:
        return drafts.Examples(tuple(drafts.SeenRun(*_pair(folder, e, refined)) for e in examples))

    first = [_file(folder, examples[0], "before")]
    return drafts.draft("drafts/recorded", read, lambda: one_capture(first, unrefined))


def _pair(folder: Path, run: Known, refined: Refinements) -> tuple[Capture, Capture]:
    before, after = ([_file(folder, run, moment)] for moment in ("before", "after"))
    return capture_pair(before, after, refined, alike=refined is unrefined)


def _file(folder: Path, run: Known, moment: str) -> str:
    """A state of the run as a JSON file, made when it is first asked for."""
    path = folder / f"{lot(0, 'file', run.run.run_id)}-{moment}.json"
    if not path.exists():
        [(_, content)] = tables_json(getattr(run.trial, moment))
        path.write_bytes(content)
    return f"app={path}"


def work(asked: argparse.Namespace, number: int) -> list[Tried]:
    """Every so many-th task of a domain."""
    known = sorted(known_runs(open_suite(asked.suite, asked.folder), asked.domain).items())
    wanted = [runs for task, runs in known if not asked.task or task.name in asked.task]
    mine = wanted[number :: asked.jobs]
    found = (tried(runs, asked.examples, asked.seed, asks=asked.ask) for runs in mine)
    return [each for each in found if each is not None]


def lines(every: Sequence[Tried]) -> Iterator[str]:
    """The figures, and each run on which the two contracts do not agree."""
    held = [run for each in every for run in each.held]
    yield f"{len(every)} tasks, {sum(bool(e.error) for e in every)} not drafted"
    for verdict, kind in (("MATCH", "right"), ("DIVERGE", "wrong")):
        those = [run for run in held if run.by_hand == verdict]
        told = (sum(r.drafted == verdict for r in those), sum(r.asked == verdict for r in those))
        of = len(those)
        same = (f"{n} of {of} ({n / max(1, of):.1%})" for n in told)
        yield f"{kind}: {' by default, '.join(same)} after the answers"
    asked = [len(each.questions) for each in every]
    yield f"questions: {sum(asked)}, at most {max(asked, default=0)} a task"
    for each in every:
        yield from (f"{each.task}: {said}" for said in (each.error, *each.questions) if said)
        for run in each.held:
            if {run.drafted, run.asked} != {run.by_hand}:
                said = (
                    f"{run.by_hand} by hand, {run.drafted} drafted, {run.asked} after the answers"
                )
                yield f"{each.task} {run.run}: {said}: {run.why}"


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("suite", "domain"):
        parser.add_argument(name)
    parser.add_argument("folder", type=Path)
    for name, number in (("--examples", 2), ("--seed", 0), ("--jobs", 2)):
        parser.add_argument(name, type=int, default=number)
    parser.add_argument("--ask", action="store_true", help="also with the answers of its owner")
    parser.add_argument("--task", action="append", help="only this one; repeatable")
    asked = parser.parse_args()
    with ProcessPoolExecutor(asked.jobs) as pool:
        parts = pool.map(partial(work, asked), range(asked.jobs))
        every = sorted((t for part in parts for t in part), key=lambda t: t.task)
    sys.stdout.write("\n".join(lines(every)) + "\n")


if __name__ == "__main__":
    main()
