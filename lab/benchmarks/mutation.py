"""How many changes to the judging kernel its tests notice.

    python -m lab.benchmarks.mutation [--part NAME] [--module NAME] [--sample N] [--seed N]
                                  [--again FILE] [--json FILE]

The part's tests run once, as they are, and it is noted which test comes by which line. Then every
mutant gets a process of its own, forked from one that has loaded everything: the changed function
is put in force there, and the tests that come by the changed lines run, the quickest first, until
one fails. A mutant that none of them notices survives and is listed.
The seed draws the sample: the same seed asks the same questions. `--again` tries only what
survived in an earlier run, by the file that its `--json` wrote.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import itertools
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import coverage
import pytest

from lab.benchmarks.mutants import Mutant, apply, keep, mutants_of

CHECKOUT: Final = Path(__file__).parents[2]
NOTICED, SURVIVED, SLOW, BROKEN = 0, 1, 2, 3
SLACK_SECONDS: Final = 1
"""CPU a mutant may take for a test beside ten times what the test takes as it is."""
WALL: Final = 30
"""Times its CPU that a mutant may wait, on a machine that others use as well."""


class Part(NamedTuple):
    """Modules of the kernel, and the tests that must notice a change to them."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


PARTS: Final[dict[str, Part]] = {
    "expressions": Part(
        tuple(f"statediff/contract/{name}.py" for name in (
            "authoring/changes", "binding/bind", "clauses/conduct", "clauses/derive",
            "clauses/kind", "clauses/patterns",
            "evaluation/columns", "evaluation/evaluate", "evaluation/gathering",
            "evaluation/joins", "evaluation/operations", "evaluation/plans", "language/calls",
            "language/names", "language/kinds", "language/parser", "language/syntax",
            "language/context", "yaml/composer", "yaml/shape",
        )),
        ("tests/contract", "tests/policy"),
    ),
    "diff": Part(
        ("statediff/kernel/diff.py",), ("tests/test_diff.py", "tests/test_inside_values.py")
    ),
    "resolve": Part(("statediff/kernel/resolve/*.py",), ("tests/test_resolve.py", "tests/resolve")),
    "canonicalize": Part(
        ("statediff/kernel/canonicalize/*.py",),
        ("tests/test_canonicalize.py", "tests/test_inside_values.py"),
    ),
    "policy": Part(
        ("statediff/kernel/policy/**/*.py",), ("tests/policy", "tests/test_evaluate.py")
    ),
    "admission": Part(
        ("statediff/kernel/policy/admission.py",), ("tests/policy/test_admission.py",)
    ),
    "verifier": Part(
        ("statediff/evidence/verify.py", "statediff/evidence/merkle.py"),
        tuple(f"tests/evidence/test_{name}.py" for name in ("merkle", "seal", "verify")),
    ),
}  # fmt: skip
KERNEL: Final = ("expressions", "diff", "resolve", "canonicalize", "policy", "verifier")


class Score(NamedTuple):
    """The outcome of the mutants that were tried."""

    there: int
    """Mutants that the part has."""
    tried: int
    survived: tuple[str, ...]
    slow: tuple[str, ...]
    """Those that ran out of time: noticed, but by no test's word."""
    unfinished: tuple[str, ...]
    """Those among `survived` for which not all of their tests were run, for want of time."""

    @property
    def killed(self) -> int:
        return self.tried - len(self.survived)


Lines = dict[str, dict[int, list[str]]]
"""Module → its line → the tests that come by."""


class _Running(NamedTuple):
    """A mutant's process: when it is late, and where it tells which test failed."""

    mutant: Mutant
    until: float
    reads: int


class Mutation:
    """A pytest plugin whose loop over the tests is one over mutants."""

    def __init__(
        self, mutants: list[Mutant], paths: list[Path], jobs: int, limit: float, kept: Path | None
    ) -> None:
        self.mutants = mutants
        self.paths = paths
        self.jobs = jobs
        self.limit = limit
        self.kept = kept
        self.codes: dict[Mutant, int] = {}
        self.unfinished: set[Mutant] = set()
        self.failed: str = ""
        self._killers: dict[str, Counter[str]] = defaultdict(Counter)
        """By function, and by module: the tests that noticed its mutants so far."""

    def pytest_collection(self) -> None:
        """That an example fails is enough; nobody reads the smallest one."""
        from hypothesis import Phase, settings  # noqa: PLC0415 - pytest rewrites it first

        settings.register_profile(
            "mutants", settings.default, phases=(Phase.explicit, Phase.generate)
        )
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        lines, seconds = self._baseline(list(items.values()))
        gc.unfreeze()  # what conftest froze could not be found
        keep(self.paths)
        # What is there now is in every child: none of them needs a copy to look for garbage.
        gc.collect()
        gc.freeze()
        running: dict[int, _Running] = {}
        for mutant in self.mutants:
            first, last = mutant.lines
            known = lines.get(str(mutant.path), {})
            names = {name for at in range(first, last + 1) for name in known.get(at, ())}
            if not names:
                self._told(mutant, SURVIVED)
                continue
            while len(running) >= self.jobs:
                self._wait(running)
            tests = self._chosen(mutant, names, seconds)
            budget = SLACK_SECONDS + 10 * sum(seconds[name] for name in tests)
            reads, writes = os.pipe()
            child = os.fork()
            if child == 0:
                self._child(mutant, [(items[name], seconds[name]) for name in tests], writes)
            os.close(writes)
            running[child] = _Running(mutant, time.monotonic() + WALL * budget, reads)
        while running:
            self._wait(running)
        return True

    def _chosen(self, mutant: Mutant, names: set[str], seconds: dict[str, float]) -> list[str]:
        """The tests to run: first the quick, and those that noticed mutants of this function.

        As long as none did, those in the file that is named as the module are the likely ones, and
        those that noticed other mutants of the module. Tables take turns with their cases.
        """
        noticed = self._killers[_place(mutant)]
        nearby = self._killers[mutant.path.name]
        whole = 1 + noticed.total()
        own = f"test_{mutant.path.stem}.py::"

        def cost(name: str) -> tuple[float, str]:
            likely = 0.02 + (0.2 if own in name else 0) / whole + noticed[name] / whole
            likely += 0.2 * nearby[name] / (1 + nearby.total())
            return seconds[name] / likely, name

        # Of the cases of one table each says less than the one before it.
        cases: Counter[str] = Counter()
        costs: dict[str, tuple[float, str]] = {}
        for name in sorted(names, key=cost):
            table = name.partition("[")[0]
            costs[name] = cost(name)[0] * (1 + cases[table]), name
            cases[table] += 1
        ranked = sorted(names, key=costs.__getitem__)
        if not self.limit:
            return ranked
        spent = itertools.accumulate(seconds[name] for name in ranked)
        chosen = [
            name for name, by_then in zip(ranked, spent, strict=True) if by_then <= self.limit
        ]
        if len(chosen) < len(ranked):
            self.unfinished.add(mutant)
        return chosen or ranked[:1]

    def _baseline(self, items: list[pytest.Item]) -> tuple[Lines, dict[str, float]]:
        """Which tests come by which line, and what each takes; `UsageError` where one fails.

        What was noted of a test's file counts while neither it nor anything else has changed.
        """
        known = json.loads(self.kept.read_text()) if self.kept and self.kept.exists() else {}
        of_file: dict[Path, list[pytest.Item]] = defaultdict(list)
        for item in items:
            of_file[item.path].append(item)
        common = _digest([*CHECKOUT.glob("statediff/**/*.py"), *CHECKOUT.glob("tests/*.py")])
        digests = {
            path: _digest([path], common, *map(str, self.paths), *(item.nodeid for item in own))
            for path, own in of_file.items()
        }
        noted: dict[Path, Any] = {path: known.get(digest) for path, digest in digests.items()}
        new = [item for item in items if noted[item.path] is None]
        if new:
            for path, found in self._noted(new).items():
                noted[Path(path)] = found
        if self.kept:
            self.kept.write_text(json.dumps({digests[path]: noted[path] for path in digests}))
        lines: Lines = defaultdict(lambda: defaultdict(list))
        seconds: dict[str, float] = {}
        for found in noted.values():
            seconds |= found["seconds"]
            for path, by_line in found["lines"].items():
                for line, names in by_line.items():
                    lines[path][int(line)] += names
        return lines, seconds

    def _noted(self, items: list[pytest.Item]) -> dict[str, Any]:
        """By the tests' file: what each test takes, and which come by which line."""
        with tempfile.TemporaryDirectory(prefix="statediff-mutation-") as scratch:
            note = Path(scratch) / "lines.json"
            child = os.fork()
            if child == 0:
                paths = [str(path) for path in self.paths]
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
        files = {item.nodeid: str(item.path) for item in items}
        noted: dict[str, Any] = {
            file: {"seconds": {}, "lines": defaultdict(lambda: defaultdict(list))}
            for file in files.values()
        }
        for name, spent in seconds.items():
            noted[files[name]]["seconds"][name] = spent
        for path, by_line in lines.items():
            for line, names in by_line.items():
                for name in filter(None, names):
                    noted[files[name]]["lines"][path][line].append(name)
        return noted

    def _run(self, item: pytest.Item) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)

    def _child(self, mutant: Mutant, items: list[tuple[pytest.Item, float]], writes: int) -> None:
        """The mutant's process: it never returns."""
        code = BROKEN
        try:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            os.setpgid(0, 0)
            apply(mutant)
            code = SURVIVED
            for item, seconds in items:
                until = int(time.process_time() + SLACK_SECONDS + 10 * seconds) + 1
                hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
                resource.setrlimit(resource.RLIMIT_CPU, (until, hard))
                self._run(item)
                if self.failed:
                    code = NOTICED
                    os.write(writes, item.nodeid.encode())
                    break
        except BaseException:  # noqa: BLE001 - whatever a mutant does to pytest itself is noticed
            code = NOTICED if code == SURVIVED else BROKEN
        finally:
            os._exit(code)

    def _wait(self, running: dict[int, _Running]) -> None:
        """Wait until one of them ended, and note how."""
        while True:
            for child, (mutant, until, reads) in list(running.items()):
                ended, status = os.waitpid(child, os.WNOHANG)
                is_late = not ended and time.monotonic() > until
                if is_late:
                    os.killpg(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                if ended or is_late:
                    del running[child]
                    os.set_blocking(reads, False)
                    with contextlib.suppress(BlockingIOError):
                        if killer := os.read(reads, 4096).decode():
                            self._killers[_place(mutant)][killer] += 1
                            self._killers[mutant.path.name][killer] += 1
                    os.close(reads)
                    signalled = is_late or os.WIFSIGNALED(status)
                    self._told(mutant, SLOW if signalled else os.WEXITSTATUS(status))
                    return
            time.sleep(0.005)

    def _told(self, mutant: Mutant, code: int) -> None:
        if code == BROKEN:
            raise pytest.UsageError(f"{mutant.name}: cannot be put in force")
        self.codes[mutant] = code
        if code != SURVIVED:
            self.unfinished.discard(mutant)
        if code != NOTICED:
            word = "survives" if code == SURVIVED else "runs out of time"
            some = " the tests that it had time for" if mutant in self.unfinished else ""
            print(f"  {word}{some}: {mutant.name}", flush=True)


def _place(mutant: Mutant) -> str:
    return f"{mutant.path.name} {mutant.function}"


def _digest(files: Iterable[Path], *names: str) -> str:
    known = hashlib.sha256("\n".join(names).encode())
    for path in sorted(files):
        known.update(f"\n{path} ".encode() + path.read_bytes())
    return known.hexdigest()


def mutants_in(part: Part) -> list[Mutant]:
    """Every mutant of the part's modules."""
    return [mutant for path in _paths(part) for mutant in mutants_of(path)]


def _paths(part: Part) -> list[Path]:
    return sorted({path for pattern in part.modules for path in CHECKOUT.glob(pattern)})


def scored(  # noqa: PLR0913 - what the command's options say
    name: str,
    sample: int,
    *,
    seed: int,
    jobs: int,
    modules: frozenset[str] = frozenset(),
    again: frozenset[str] | None = None,
    limit: float = 0,
    kept: Path | None = None,
    tests: tuple[str, ...] = (),
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
    plugin = Mutation(chosen, _paths(part), jobs, limit, kept)
    options = [
        "-p", "no:terminal", "-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider",
        "-n", "0", "--timeout=0",
    ]  # fmt: skip
    if limit:  # nothing of what takes long would be tried
        options += ["-m", "not slow"]
    code = pytest.main(
        [*options, *(str(CHECKOUT / test) for test in tests or part.tests)], [plugin]
    )
    if len(plugin.codes) != len(chosen):
        raise SystemExit(f"{name}: pytest ended with {code} before all mutants were tried")
    told: dict[int, list[str]] = defaultdict(list)
    for mutant in chosen:
        told[plugin.codes[mutant]].append(mutant.name)
    unfinished = tuple(mutant.name for mutant in chosen if mutant in plugin.unfinished)
    return Score(len(known), len(chosen), tuple(told[SURVIVED]), tuple(told[SLOW]), unfinished)


def main() -> int:
    """Print the score of each part and every survivor; 1 if too few were noticed."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.mutation")
    parser.add_argument("--part", action="append", choices=sorted(PARTS), help="default: all")
    parser.add_argument("--module", action="append", default=[], help="only these, e.g. frame")
    parser.add_argument("--test", action="append", default=[], help="these instead of the part's")
    parser.add_argument("--sample", type=int, default=0, help="mutants of each part (0: all)")
    parser.add_argument("--seed", type=int, default=0, help="draws the sample")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--again", type=Path, help="only what survived in the scores written there")
    parser.add_argument("--within", type=float, default=0,
                        help="CPU seconds of tests for a mutant; then it survives")  # fmt: skip
    parser.add_argument("--lines", type=Path, help="keep there which test comes by which line")
    parser.add_argument("--least", type=float, default=0,
                        help="per cent of all tried; 1 if fewer are noticed")  # fmt: skip
    parser.add_argument("--json", type=Path, help="write the scores there as well")
    wanted = parser.parse_args()
    kept: dict[str, Any] = {}
    tried = killed = 0
    before = json.loads(wanted.again.read_text(encoding="utf-8")) if wanted.again else None
    for name in wanted.part or (KERNEL if before is None else before):
        again = None if before is None else frozenset(before[name]["survived"])
        modules = frozenset(wanted.module)
        score = scored(
            name,
            wanted.sample,
            seed=wanted.seed,
            jobs=wanted.jobs,
            modules=modules,
            again=again,
            limit=wanted.within,
            kept=wanted.lines,
            tests=tuple(wanted.test),
        )
        share = 100 * score.killed / max(1, score.tried)
        print(
            f"{name}: {score.killed} of {score.tried} mutants noticed ({share:.1f} %), "
            f"{len(score.slow)} of them by running out of time; the part has {score.there}"
            + (
                f"; {len(score.unfinished)} survivors had not time for all of their tests"
                if score.unfinished
                else ""
            ),
            flush=True,
        )
        kept[name] = score._asdict()
        tried, killed = tried + score.tried, killed + score.killed
    if wanted.json:
        wanted.json.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    if 100 * killed < wanted.least * tried:
        print(f"{killed} of {tried} is less than {wanted.least:g} %", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
