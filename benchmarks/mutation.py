"""How many changes to the judging kernel its tests notice.

    python -m benchmarks.mutation [--part NAME] [--module NAME] [--sample N] [--seed N] [--jobs N]
                                  [--again FILE] [--json FILE]

The part's tests run once, as they are, and it is noted which test comes by which line. Then every
mutant gets a process of its own, forked from one that has loaded everything: the changed function
is put in force there, and the tests that come by the changed lines run, the quickest first, until
one fails. A mutant that none of them notices survives and is listed; `docs/mutation.md` argues for
some. The seed draws the sample: the same seed asks the same questions. `--again` tries only what
survived in an earlier run, by the file that its `--json` wrote.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final, NamedTuple

import coverage
import pytest

from benchmarks.mutants import Mutant, apply, mutants_of

CHECKOUT: Final = Path(__file__).parents[1]
NOTICED, SURVIVED, SLOW, BROKEN = 0, 1, 2, 3
SLACK_SECONDS: Final = 3
"""CPU a mutant may take beside ten times what its tests take as they are."""
WALL: Final = 30
"""Times its CPU that a mutant may wait, on a machine that others use as well."""


class Part(NamedTuple):
    """Modules of the kernel, and the tests that must notice a change to them."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


PARTS: Final[dict[str, Part]] = {
    "expressions": Part(
        tuple(f"statediff/contract/{name}.py" for name in (
            "assertions", "bind", "bindrun", "calls", "changes", "columnar", "conduct", "derived",
            "evaluation", "functions", "gathering", "kernels", "kinds", "operations", "parser",
            "patterns", "ranges", "relations", "scalars", "shape", "syntax", "transition", "world",
        )),
        ("tests/contract", "tests/policy"),
    ),
    "diff": Part(("statediff/diff.py",), ("tests/test_diff.py", "tests/policy")),
    "resolve": Part(("statediff/resolve/*.py",), ("tests/test_resolve.py", "tests/policy")),
    "canonicalize": Part(
        ("statediff/canonicalize.py",), ("tests/test_canonicalize.py", "tests/policy")
    ),
    "policy": Part(("statediff/policy/*.py",), ("tests/policy", "tests/test_evaluate.py")),
    "admission": Part(("statediff/policy/admission.py",), ("tests/policy/test_admission.py",)),
    "verifier": Part(
        ("statediff/evidence/verify.py", "statediff/evidence/merkle.py"), ("tests/evidence",)
    ),
}  # fmt: skip
KERNEL: Final = ("expressions", "diff", "resolve", "canonicalize", "policy", "verifier")


class Score(NamedTuple):
    """What became of the mutants that were tried."""

    there: int
    """Mutants that the part has."""
    tried: int
    survived: tuple[str, ...]
    slow: tuple[str, ...]
    """Those that ran out of time: noticed, but by no test's word."""

    @property
    def killed(self) -> int:
        return self.tried - len(self.survived)


class Mutation:
    """A pytest plugin whose loop over the tests is one over mutants."""

    def __init__(self, mutants: list[Mutant], jobs: int, is_quiet: bool) -> None:
        self.mutants = mutants
        self.jobs = jobs
        self.is_quiet = is_quiet
        self.codes: dict[Mutant, int] = {}
        self.failed: str = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        lines, seconds = self._baseline(list(items.values()))
        running: dict[int, tuple[Mutant, float]] = {}
        for mutant in self.mutants:
            first, last = mutant.lines
            known = lines.get(str(mutant.path), {})
            names = {name for at in range(first, last + 1) for name in known.get(at, ())}
            tests = sorted(names, key=lambda name: (seconds[name], name))
            budget = SLACK_SECONDS + 10 * sum(seconds[name] for name in tests)
            if not tests:
                self._told(mutant, SURVIVED)
                continue
            while len(running) >= self.jobs:
                self._wait(running)
            child = os.fork()
            if child == 0:
                self._child(mutant, [items[name] for name in tests], budget)
            running[child] = (mutant, time.monotonic() + WALL * budget)
        while running:
            self._wait(running)
        return True

    def _baseline(
        self, items: list[pytest.Item]
    ) -> tuple[dict[str, dict[int, list[str]]], dict[str, float]]:
        """Which tests come by which line, and what each takes; `SystemExit` where one fails."""
        with tempfile.TemporaryDirectory(prefix="statediff-mutation-") as scratch:
            note = Path(scratch) / "lines.json"
            child = os.fork()
            if child == 0:
                paths = sorted({str(mutant.path) for mutant in self.mutants})
                cover = coverage.Coverage(data_file=None, include=paths, config_file=False)
                cover.start()
                seconds: dict[str, float] = {}
                for item in items:
                    cover.switch_context(item.nodeid)
                    began = time.process_time()
                    self._run(item)
                    seconds[item.nodeid] = time.process_time() - began
                    if self.failed:
                        break
                cover.stop()
                found = cover.get_data()
                lines = {path: found.contexts_by_lineno(path) for path in paths}
                note.write_text(json.dumps([self.failed, lines, seconds]))
                os._exit(0)
            os.waitpid(child, 0)
            failed, lines, seconds = json.loads(note.read_text())
        if failed:
            raise pytest.UsageError(f"{failed} fails as it is; there is nothing to measure")
        numbered = {
            path: {int(line): [n for n in names if n] for line, names in known.items()}
            for path, known in lines.items()
        }
        return numbered, seconds

    def _run(self, item: pytest.Item) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)

    def _child(self, mutant: Mutant, items: list[pytest.Item], budget: float) -> None:
        """The mutant's process: it never returns."""
        code = BROKEN
        try:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_CPU, (int(budget) + 1, int(budget) + 2))
            apply(mutant)
            code = SURVIVED
            for item in items:
                self._run(item)
                if self.failed:
                    code = NOTICED
                    break
        except BaseException:  # noqa: BLE001 - whatever a mutant does to pytest itself is noticed
            code = NOTICED if code == SURVIVED else BROKEN
        finally:
            os._exit(code)

    def _wait(self, running: dict[int, tuple[Mutant, float]]) -> None:
        """Wait until one of them ended, and note how."""
        while True:
            for child, (mutant, until) in list(running.items()):
                ended, status = os.waitpid(child, os.WNOHANG)
                is_late = not ended and time.monotonic() > until
                if is_late:
                    os.killpg(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                if ended or is_late:
                    del running[child]
                    signalled = is_late or os.WIFSIGNALED(status)
                    self._told(mutant, SLOW if signalled else os.WEXITSTATUS(status))
                    return
            time.sleep(0.005)

    def _told(self, mutant: Mutant, code: int) -> None:
        if code == BROKEN:
            raise pytest.UsageError(f"{mutant.name}: cannot be put in force")
        self.codes[mutant] = code
        if not self.is_quiet and code != NOTICED:
            word = "survives" if code == SURVIVED else "runs out of time"
            print(f"  {word}: {mutant.name}", flush=True)


def mutants_in(part: Part) -> list[Mutant]:
    """Every mutant of the part's modules."""
    paths = sorted({path for pattern in part.modules for path in CHECKOUT.glob(pattern)})
    return [mutant for path in paths for mutant in mutants_of(path)]


def scored(
    name: str,
    sample: int,
    seed: int,
    jobs: int,
    is_quiet: bool = False,
    modules: frozenset[str] = frozenset(),
    again: frozenset[str] | None = None,
) -> Score:
    """The score of a part, all mutants or some; `SystemExit` where the tests fail as is."""
    part = PARTS[name]
    known = [
        each for each in mutants_in(part)
        if (not modules or each.path.stem in modules) and (again is None or each.name in again)
    ]  # fmt: skip
    chosen = known
    if sample and sample < len(known):
        picked = random.Random(f"{seed} {name}").sample(range(len(known)), sample)
        chosen = [known[at] for at in sorted(picked)]
    plugin = Mutation(chosen, jobs, is_quiet)
    options = [
        "-p", "no:terminal", "-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider",
        "-n", "0", "--timeout=0",
    ]  # fmt: skip
    code = pytest.main([*options, *(str(CHECKOUT / test) for test in part.tests)], [plugin])
    if len(plugin.codes) != len(chosen):
        raise SystemExit(f"{name}: pytest ended with {code} before all mutants were tried")
    told: dict[int, list[str]] = defaultdict(list)
    for mutant in chosen:
        told[plugin.codes[mutant]].append(mutant.name)
    return Score(len(known), len(chosen), tuple(told[SURVIVED]), tuple(told[SLOW]))


def main() -> int:
    """Print the score of each part and every survivor."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutation")
    parser.add_argument("--part", action="append", choices=sorted(PARTS), help="default: all")
    parser.add_argument("--module", action="append", default=[], help="only these, e.g. frame")
    parser.add_argument("--sample", type=int, default=0, help="mutants of each part (0: all)")
    parser.add_argument("--seed", type=int, default=0, help="draws the sample")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--again", type=Path, help="only what survived in the scores written there")
    parser.add_argument("--json", type=Path, help="write the scores there as well")
    wanted = parser.parse_args()
    kept: dict[str, Any] = {}
    before = json.loads(wanted.again.read_text(encoding="utf-8")) if wanted.again else None
    for name in wanted.part or (KERNEL if before is None else before):
        again = None if before is None else frozenset(before[name]["survived"])
        modules = frozenset(wanted.module)
        score = scored(name, wanted.sample, wanted.seed, wanted.jobs, False, modules, again)
        share = 100 * score.killed / max(1, score.tried)
        print(
            f"{name}: {score.killed} of {score.tried} mutants noticed ({share:.1f} %), "
            f"{len(score.slow)} of them by running out of time; the part has {score.there}",
            flush=True,
        )
        kept[name] = score._asdict()
    if wanted.json:
        wanted.json.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
