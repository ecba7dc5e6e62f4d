"""BFCL v4's multi-turn tasks: their environment, their export, and what runs of them show.

    python -m lab.benchmarks.bfcl environment [FOLDER] the benchmark's package without what it needs
                                                     for models; .hosts/bfcl unless said
    python -m lab.benchmarks.bfcl export DIR             for `statediff lab import bfcl`
    python -m lab.benchmarks.bfcl digests                these rules' file, beside the held-out ones
    python -m lab.benchmarks.bfcl study DIR          the file of their runs in lab/benchmarks/league

`STATEDIFF_BFCL_PYTHON` names the environment's Python for all but the first. The contracts of the
held-out half were written, and their digests committed, before one of its runs was carried out:
those are of the first rules, with `bfcl.json` and `bfcl-runs.json`. Rules that came later, and what
runs show under them, are files of their own, and leave these alone.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from statediff_lab.importers.bfcl.checker import VARIABLE, Checker, named_checker
from statediff_lab.importers.bfcl.contract import Gates, contract_of
from statediff_lab.importers.bfcl.format import Course, Rules, Task, course_of, task_of
from statediff_lab.importers.bfcl.suite import CATEGORIES, Bfcl, half_of, open_cases
from statediff_lab.importers.recorded import Half, RunLine, TaskId, read_lines
from statediff_lab.importers.rejudge import read_run

from lab.benchmarks.bfcl_runs import AT_END, BY_KIND, WRONG, made_runs, outcome, same
from statediff._version import __version__
from statediff.errors import StatediffError, UsageError
from statediff.kernel import KERNEL, judgement_of
from statediff.model.verdict import Judgement, Truth, Verdict

ROOT: Final = Path(__file__).parents[2]
STORED: Final = Path(__file__).parent / "league"
RULES: Final = list(Rules)[-1]
"""The rules by which contracts are generated now."""
SPLIT: Final = (
    "held out: tasks whose scenario's number has a SHA-256 that begins with a one; the four tasks "
    "of one scenario are in one half"
)
TO_READ: Final = 50


# ---------------------------------------------------------------- environment and export


def environment(folder: Path) -> None:
    """The folder is an environment with the package, at the version that is required."""
    venv.create(folder, with_pip=True, clear=True)
    required = ROOT / "requirements" / "bfcl.txt"
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "-r", str(required)], check=True)
    print(f"{VARIABLE}={folder.absolute() / 'bin' / 'python'}")


def _checker() -> Checker:
    found = named_checker()
    if found is None:
        raise UsageError(f"{VARIABLE}: expected the Python of the benchmark's environment")
    return found


def export(folder: Path, half: Half | None, only: int | None, *, with_runs: bool) -> None:
    """Every task of the half, or of both, and runs of it, as files in the folder."""
    checker = _checker()
    for part in ("tasks", "runs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for category in CATEGORIES:
        tasks = [t for t in checker.tasks(category) if half in (None, half_of(str(t["id"])))]
        with (
            (folder / "tasks" / f"{category}.jsonl").open("w") as known,
            (folder / "runs" / f"{category}.jsonl").open("w") as runs,
        ):
            for raw in tasks[:only]:
                known.write(_line({**raw, "rules": RULES.value}))
                if with_runs:
                    runs.writelines(_line(run) for run in made_runs(task_of(raw), checker))


def _line(raw: Mapping[str, Any]) -> str:
    return json.dumps(raw, default=float, ensure_ascii=False, separators=(",", ":")) + "\n"


# ---------------------------------------------------------------- the held-out half


def registered(rules: Rules) -> Path:
    """Where the digests of these rules' contracts are."""
    return STORED / "held-out" / f"bfcl{_of(rules)}.json"


def _of(rules: Rules) -> str:
    return "" if rules is Rules.FIRST else f"-{rules.value}"


def digests(checker: Checker, rules: Rules) -> dict[str, str]:
    """The SHA-256 of the contract of every task that is held out."""
    return {
        raw["id"]: contract_of(task_of({**raw, "rules": rules.value})).digest
        for category in CATEGORIES
        for raw in checker.tasks(category)
        if half_of(raw["id"]) is Half.HELD_OUT
    }


# ---------------------------------------------------------------- the study


@dataclass(frozen=True)
class Judged:
    """One run, by the benchmark's checker and by us."""

    run: str
    kind: str
    half: str
    official: str
    """`pass`, or its error."""
    ours: str
    at_end: str
    """What the contract says that asks for everything only in the end; of no wrong run."""
    official_turn: int
    our_turn: int
    """The first turn that fails, 0 where none does."""
    labels: tuple[str, ...]

    @property
    def is_passed(self) -> bool:
        """True if our contract passes it; for a run that is right in the end, the one for that."""
        said = self.at_end if BY_KIND[self.kind].is_ == AT_END else self.ours
        return said == Verdict.MATCH.value

    @property
    def differs(self) -> bool:
        """True if the two say otherwise."""
        return self.is_passed != (self.official == "pass")


@lru_cache(maxsize=1)
def _suite(folder: Path) -> Bfcl:
    return open_cases(folder)


def judge(place: tuple[Path, str, Sequence[RunLine]]) -> list[Judged]:
    """A few runs of one file."""
    folder, category, lines = place
    return [_judged(_suite(folder), category, line) for line in lines]


def _judged(suite: Bfcl, category: str, line: RunLine) -> Judged:
    run, _ = read_run(suite, category, line)
    official = json.loads(line.data)["official"]
    task, course = suite.task(run.task), course_of(run.raw)
    ours = _judgement(suite, run.task, course, Gates.TURN)
    at_end = ours
    is_wrong = BY_KIND[run.agent].is_ == WRONG
    if not is_wrong and (ours is None or ours.verdict is not Verdict.MATCH):
        at_end = _judgement(suite, run.task, course, Gates.END)
    failed = [] if ours is None else [f for f in ours.findings if f.truth is Truth.FAILS]
    numbers = [int(f.clause[5:]) for f in failed if f.clause.startswith("turn-")]
    said = _Said(
        run.agent,
        "pass" if official["valid"] else str(official["error"]),
        int(official.get("turn", 0)),
        _word(ours),
        _word(at_end),
    )
    return Judged(
        run.run_id,
        run.agent,
        suite.half(run.task).value,
        said.official,
        said.ours,
        said.at_end,
        said.turn,
        min(numbers, default=len(course.turns) if failed else 0),
        _labels(task, course, said),
    )


def _judgement(suite: Bfcl, task: TaskId, course: Course, gates: Gates) -> Judgement | None:
    try:
        trial = suite.trial(task, course, gates)
        return judgement_of(
            trial.contract, trial.before, trial.after, trace=trial.trace, answer=trial.answer
        )
    except StatediffError:
        return None


def _word(judgement: Judgement | None) -> str:
    return "not judged" if judgement is None else judgement.verdict.value


@dataclass(frozen=True)
class _Said:
    kind: str
    official: str
    turn: int
    ours: str
    at_end: str


def _labels(task: Task, course: Course, said: _Said) -> tuple[str, ...]:
    """Why the two differ [TV §3.4, §4.3]; empty where they do not."""
    is_wrong = BY_KIND[said.kind].is_ == WRONG
    if said.official == "pass":
        if said.ours == Verdict.MATCH.value:
            return ()
        return ("reward-misalignment",) if is_wrong else ("contract-over-specification",)
    if Verdict.MATCH.value not in (said.ours, said.at_end):
        return ()
    if said.ours != Verdict.MATCH.value:
        late = BY_KIND[said.kind].is_ == AT_END
        return ("trajectory-lock-in", "premature-termination") if late else ()
    if is_wrong:
        return ("missed-by-contract",)
    now, truth = course.documents[said.turn], task.truth.documents[said.turn]
    if said.official == "execution_response_mismatch":
        return ("trajectory-lock-in",)
    if said.official == "empty_turn_model_response":
        return ("trajectory-lock-in", "premature-termination")
    if same(task, now, truth):
        return ("state-over-specification", "task-irrelevant-state")
    if outcome(task, now, prose=False) == outcome(task, truth, prose=False):
        return ("exact-match-constraint", "punctuation-discrepancy")
    return ("state-over-specification",)


def study(folder: Path, jobs: int) -> list[Judged]:
    """Every run in the folder, judged; what was judged before is in `judged`, by category."""
    (folder / "judged").mkdir(exist_ok=True)
    found: list[Judged] = []
    with ProcessPoolExecutor(jobs) as pool:
        for file in _suite(folder).files:
            kept = folder / "judged" / file.path.name
            if not kept.exists():
                lines = [line for line in read_lines(file.path) if isinstance(line, RunLine)]
                some = [lines[at : at + 40] for at in range(0, len(lines), 40)]
                done = pool.map(judge, [(folder, file.domain, each) for each in some])
                text = "".join(_line(asdict(each)) for judged in done for each in judged)
                kept.write_text(text, encoding="utf-8")
            found += [_kept(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    return found


def rules_in(folder: Path) -> set[Rules]:
    """The rules by which the contracts of a folder's tasks are generated."""
    suite = _suite(folder)
    return {suite.task(task).rules for task in suite.tasks()}


def _kept(line: str) -> Judged:
    told = json.loads(line)
    return Judged(**{**told, "labels": tuple(told["labels"])})


def figures(judged: Sequence[Judged]) -> dict[str, Any]:
    """What is stored of one half."""
    kinds: dict[str, Counter[str]] = {}
    for each in judged:
        kinds.setdefault(each.kind, Counter())[f"{each.official}, {each.ours}, {each.at_end}"] += 1
    wrong = [e for e in judged if BY_KIND[e.kind].is_ == WRONG]
    right = [e for e in judged if BY_KIND[e.kind].is_ not in (WRONG, AT_END)]
    both = [e for e in wrong if e.official_turn and e.our_turn]
    apart = [e for e in judged if e.differs]
    return {
        "runs": len(judged),
        "official, by turn, by the end: runs": {
            k: dict(sorted(v.items())) for k, v in kinds.items()
        },
        "right runs": len(right),
        "right runs that the checker fails": sum(e.official != "pass" for e in right),
        "right runs that are not MATCH": sum(e.ours != "MATCH" for e in right),
        "wrong runs": len(wrong),
        "wrong runs that the checker passes": sum(e.official == "pass" for e in wrong),
        "wrong runs that are MATCH": sum(e.ours == "MATCH" for e in wrong),
        "failure mix": {
            name: dict(Counter(e.official for e in some if e.official != "pass"))
            for name, some in (("right", right), ("wrong", wrong))
        },
        "first failed turn of wrong runs": {
            "the same": sum(e.official_turn == e.our_turn for e in both),
            "ours is earlier": sum(e.official_turn > e.our_turn for e in both),
            "ours is later": sum(e.official_turn < e.our_turn for e in both),
        },
        "labels": dict(sorted(Counter(code for e in apart for code in e.labels).items())),
        "differences": len(apart),
        "differences by cause": _grouped(apart),
    }


def _grouped(apart: Sequence[Judged]) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[str]] = {}
    for each in apart:
        key = (each.kind, each.official, each.ours, each.at_end, each.labels)
        name = each.run.partition("/")[0].removeprefix("multi_turn_")
        groups.setdefault(key, []).append(name)
    return [
        {
            "kind": kind,
            "official": official,
            "ours": ours,
            "at_end": at_end,
            "labels": list(labels),
            "tasks": " ".join(sorted(tasks)),
        }
        for (kind, official, ours, at_end, labels), tasks in sorted(groups.items())
    ]


def to_read(judged: Sequence[Judged], seed: int) -> list[Judged]:
    """Differences drawn at random, to be read one by one."""
    apart = sorted((e for e in judged if e.differs), key=lambda e: e.run)
    return random.Random(seed).sample(apart, min(TO_READ, len(apart)))


def _halves(judged: Sequence[Judged]) -> Iterator[tuple[str, dict[str, Any]]]:
    for half in Half:
        some = [e for e in judged if e.half == half.value]
        if some:
            yield half.value, figures(some)


def main() -> None:
    """One command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("do", choices=("environment", "export", "digests", "study"))
    parser.add_argument("folder", type=Path, nargs="*", default=[ROOT / ".hosts" / "bfcl"])
    parser.add_argument("--half", type=Half, default=None)
    parser.add_argument("--tasks", action="store_true", help="export no runs: for `audit`")
    parser.add_argument("--only", type=int, help="tasks of each category")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="instead of lab/benchmarks/league")
    parser.add_argument("--read", type=int, metavar="SEED", help="print differences to be read")
    given = parser.parse_args()
    if given.do == "environment":
        environment(given.folder[0])
    elif given.do == "export":
        export(given.folder[0], given.half, given.only, with_runs=not given.tasks)
    elif given.do == "digests":
        found = {"split": SPLIT, "contracts": digests(_checker(), RULES)}
        with registered(RULES).open("x", encoding="utf-8") as file:
            file.write(json.dumps(found, indent=1) + "\n")
    else:
        [rules] = {r for folder in given.folder for r in rules_in(folder)}
        judged = [each for folder in given.folder for each in study(folder, given.jobs)]
        if given.read is not None:
            sys.stdout.writelines(_line(asdict(e)) for e in to_read(judged, given.read))
            return
        whole = {
            "statediff": __version__,
            "kernel": KERNEL,
            "split": SPLIT,
            "rules": rules.value,
            **dict(_halves(judged)),
        }
        out = given.out or STORED / f"bfcl-runs{_of(rules)}.json"
        out.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
