"""Drafts of two or three right runs, on the runs of the same task that were held out.

    python -m lab.benchmarks.drafts agent-diff linear CASES/agent-diff [--examples 2] [--seed 0]
    python -m lab.benchmarks.drafts tau2 retail CASES/tau2
    python -m lab.benchmarks.drafts shipped '*' contracts        # in .packs: needs all servers

Of each task so many runs are drawn that its suite passes and its contract matches; the contracts
were written by hand. Each recorded run's two states are files of JSON, and a contract is drafted
from them as `init --after` does, without a line by hand. A shipped task's agents run live, the
right ones three times, and an example is taken of each in turn: one program's runs show one way.
The draft judges every other run of the task, and what it says is held against what the contract by
hand says: apart of the runs that are right by it, of those whose states are wrong, and of those
that are wrong in calls or answer alone, of which a draft from states says nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from statediff_lab.importers.recorded import (
    BadLine,
    Suite,
    open_suite,
    parse,
    read_lines,
)
from statediff_lab.importers.states import tables_json
from statediff_lab.importers.sweep import reference_of
from statediff_lab.statistics.draws import lot

from statediff.contract.file import load_contract, parse_contract
from statediff.errors import UsageError
from statediff.meta.cases import read_cases
from statediff.meta.reference import Reference
from statediff.model.verdict import Judgement, Truth, Verdict
from statediff.reports.interview import Question
from statediff.suite.campaign import SandboxPool
from statediff.workspace import drafts
from statediff.workspace.inputs import Refinements, capture_pair, one_capture, unrefined
from statediff.workspace.interview import Answers, interview
from statediff.workspace.references import live_references

REPEATS: Final = 3
"""How often each right agent of a shipped task runs."""
SHOWN: Final = 3
ONCE: Final = {"agent-diff": ("issues", "identifier")}
"""What is given once: a run that gives one again began with another state than is recorded."""


class Held(NamedTuple):
    """One run that no draft was made from, with the verdicts of three contracts."""

    run: str
    kind: str
    by_hand: str
    drafted: str
    asked: str
    """That of the draft after its questions, each answered by its default."""
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
    """A run, and what the contract by hand says of it."""

    run: Reference
    judgement: Judgement
    is_example: bool
    """True if an owner would show it as a right run."""
    turn: int = 0
    """How often its agent ran before."""

    @property
    def kind(self) -> str:
        """How it is counted; empty where nothing decides it."""
        if self.judgement.verdict is not Verdict.DIVERGE:
            return "right" * (self.judgement.verdict is Verdict.MATCH)
        return "wrong" if self.judgement.outcome is Verdict.DIVERGE else "aside"


def known_runs(suite: Suite, domain: str) -> dict[str, list[Known]]:
    """The runs of each task, judged by the contract by hand."""
    found: dict[str, list[Known]] = defaultdict(list)
    for line in (ln for f in suite.files if f.domain == domain for ln in read_lines(f.path)):
        if isinstance(line, BadLine):
            continue
        run, labels = suite.run(domain, parse(line))
        one = reference_of(suite, run)
        if suite.name not in ONCE or not is_torn(suite.name, one):
            said = one.judged()
            is_right = labels.official is True and said.verdict is Verdict.MATCH
            found[str(run.task)].append(Known(one, said, is_right))
    return found


def shipped(folder: Path, packs: str = "*") -> list[Path]:
    """The contracts of tasks in which something is to be done, and that have agents."""
    found = sorted(folder.glob(f"{packs}/*/contract.yaml"))
    some = [path for path in found if read_cases(path.parent).agents]
    return [path for path in some if not load_contract(path).content.noop]


def live_runs(path: Path, repeats: int) -> list[Known]:
    """The runs of a shipped task's agents, the right ones so often."""
    file, cases = load_contract(path), read_cases(path.parent)
    wrong = [agent for agent in cases.agents if agent not in cases.references]
    turns = [(n, agent) for n in range(repeats) for agent in cases.references]
    turns += [(0, agent) for agent in wrong]
    with closing(SandboxPool()) as pool:
        runs = live_references(file, path, [agent for _, agent in turns], pool)
        named = [replace(r, name=f"{r.name} {n}") for r, (n, _) in zip(runs, turns, strict=True)]
    said = [(run, run.judged()) for run in named]
    return [
        Known(run, judged, judged.verdict is Verdict.MATCH, turn)
        for (run, judged), (turn, _) in zip(said, turns, strict=True)
    ]


def is_torn(suite: str, run: Reference) -> bool:
    """True if the run began with another state than the recorded one."""
    (table, given), ends = ONCE[suite], (run.before.parts[0], run.after.parts[0])
    first, last = ({k: r[given] for k, r in end.state.tables[table].rows()} for end in ends)
    return bool({last[key] for key in last.keys() - first.keys()} & {*first.values()})


def tried(task: str, runs: Sequence[Known], count: int, seed: int, *, asks: bool) -> Tried | None:
    """The draft of so many right runs, on the others; None where there are too few."""
    right = [k for k in runs if k.is_example]
    right.sort(key=lambda k: (k.turn, lot(seed, "run", k.run.name)))
    examples = right[:count]
    held = [k for k in runs if not any(k is one for one in examples)]
    if len(examples) < count or not held:
        return None
    found = Tried(task)
    with tempfile.TemporaryDirectory(prefix="statediff-drafts-") as named:
        folder = Path(named)
        try:
            drafted = draft_of_runs(folder, examples)
        except UsageError as error:
            return Tried(found.task, error=str(error))

        def answer(_number: int, _count: int, question: Question) -> bool:
            found.questions.append(question.asks)
            return False

        end = interview(drafted, Answers(), answer)[0] if asks else drafted
        file, asked = (
            parse_contract(each.draft.text.encode(), "the draft") for each in (drafted, end)
        )
        refined = drafts.refinements_of(drafted.schema_text)
        for each in held:
            run = _as_read(folder, each, refined)
            said = replace(run, contract=file).judged()
            broken = [f for f in said.findings if f.truth is not Truth.HOLDS][:SHOWN]
            why = "; ".join(f"{f.clause}: {f.sentence}" for f in broken)
            after = replace(run, contract=asked).judged()
            told = [v.verdict.value for v in (each.judgement, said, after)]
            found.held.append(Held(run.name, each.kind, told[0], told[1], told[2], why))
    return found


def draft_of_runs(folder: Path, examples: Sequence[Known]) -> drafts.Drafted:
    """The draft of `init` from the runs' states, and of `watch --draft` from live runs."""

    def read(refined: Refinements) -> drafts.Examples:
        runs = (_as_read(folder, each, refined) for each in examples)
        return drafts.Examples(tuple(drafts.SeenRun(r.before, r.after, r.timeline) for r in runs))

    if examples[0].run.timeline:
        return drafts.draft_of("drafts/live", read(unrefined))
    first = [_file(folder, examples[0], "before")]
    return drafts.draft("drafts/recorded", read, lambda: one_capture(first, unrefined))


def _as_read(folder: Path, run: Known, refined: Refinements) -> Reference:
    """The run as a draft is made of it and judges it."""
    if run.run.timeline:
        return run.run
    first, last = ([_file(folder, run, moment)] for moment in ("before", "after"))
    before, after = capture_pair(first, last, refined, alike=refined is unrefined)
    return replace(run.run, before=before, after=after)


def _file(folder: Path, run: Known, moment: str) -> str:
    """A state of the run as a JSON file, made when it is first asked for."""
    path = folder / f"{lot(0, 'file', run.run.name)}-{moment}.json"
    if not path.exists():
        [(_, content)] = tables_json(getattr(run.run, moment))
        path.write_bytes(content)
    return f"app={path}"


def work(asked: argparse.Namespace, number: int) -> list[Tried]:
    """Every so many-th task of a domain."""
    mine = islice(_tasks(asked), number, None, asked.jobs)
    every = (tried(t, runs(), asked.examples, asked.seed, asks=asked.ask) for t, runs in mine)
    return [each for each in every if each is not None]


def _tasks(asked: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Sequence[Known]]]]:
    """The name of each task that is wanted, and its runs."""
    every: dict[str, Callable[[], Sequence[Known]]] = {}
    if asked.suite == "shipped":
        for path in shipped(asked.folder, asked.domain):
            every["/".join(path.parts[-3:-1])] = partial(live_runs, path, REPEATS)
    else:
        known = known_runs(open_suite(asked.suite, asked.folder), asked.domain)
        every = {task: partial(list, runs) for task, runs in known.items()}
    return ((t, every[t]) for t in sorted(every) if not asked.task or t in asked.task)


def lines(every: Sequence[Tried]) -> Iterator[str]:
    """The figures, and each run on which the two contracts do not agree."""
    held = [run for each in every for run in each.held]
    yield f"{len(every)} tasks, {sum(bool(e.error) for e in every)} not drafted"
    for kind in ("right", "wrong", "aside"):
        those = [run for run in held if run.kind == kind]
        agree = (sum(r[n] == r.by_hand for r in those) for n in (3, 4))
        of = len(those)
        same = (f"{n} of {of} ({n / max(1, of):.1%})" for n in agree)
        yield f"{kind}: {' by default, '.join(same)} after the answers"
    asked = [len(each.questions) for each in every]
    yield f"questions: {sum(asked)}, at most {max(asked, default=0)} a task"
    for each in every:
        yield from (f"{each.task}: {said}" for said in (each.error, *each.questions) if said)
        for run in each.held:
            if {run.drafted, run.asked} != {run.by_hand}:
                told = f"{run.by_hand} by hand, {run.drafted} drafted, {run.asked} answered"
                yield f"{each.task} {run.run} ({run.kind}): {told}: {run.why}"


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("suite", "domain"):
        parser.add_argument(name)
    parser.add_argument("folder", type=Path)
    for name, number in (("--examples", 2), ("--seed", 0), ("--jobs", 2)):
        parser.add_argument(name, type=int, default=number)
    parser.add_argument("--ask", action="store_true", help="also with the default answers")
    parser.add_argument("--task", action="append", help="only this one; repeatable")
    asked = parser.parse_args()
    with ProcessPoolExecutor(asked.jobs) as pool:
        parts = pool.map(partial(work, asked), range(asked.jobs))
        every = sorted((t for part in parts for t in part), key=lambda t: t.task)
    sys.stdout.write("\n".join(lines(every)) + "\n")


if __name__ == "__main__":
    main()
