"""What `runs`, `stats`, `compare` and a dashboard take over many stored trials.

    python -m lab.benchmarks.suites [TRIALS]

Two runs of TRIALS/2 trials each under 50 contracts, one in ten without a match and with a finding.
The folders are sparse: a manifest's stamp is all that is read of a trial that is known. Modules are
compiled before anything is measured, as they are where the package was installed. Of each command
the medians of five runs are reported, and how far the times by the clock went apart.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from statediff.suite.indexing import TrialContent, index_run, stamp_of
from statediff.suite.overview import failures, matrix, trend, violations
from statediff.suite.records import Ended, Loose
from statediff.suite.store import file_url, open_store
from statediff.trial_folder import write_run
from statediff.workspace.runfolders import run_facts

CONTRACTS = 50
RUNS = 5


def build(base: Path, name: str, times: int) -> None:
    """The run's folder is there, and the store knows its trials."""
    folder = base / "runs" / name
    names = [f"shop/task-{n}" for n in range(CONTRACTS)]
    write_run(folder, name, {f"{n}@1.0.0": "0" for n in names}, {"trials": times, "agents": ["a"]})
    for contract in names:
        for number in range(1, times + 1):
            bundle = folder / "trials" / f"{contract.replace('/', '-')}-{number}" / "bundle"
            bundle.mkdir(parents=True)
            (bundle / "manifest.json").write_text("{}")
    with open_store(file_url(base / "store.sqlite")) as store:
        run = index_run(
            store, folder, run_facts(folder), lambda _: TrialContent(None, Ended.UNFINISHED)
        )
        found = []
        for at, trial in enumerate(store.trials(run.id)):
            failed = at % 10 == len(name)
            found.append(replace(
                trial, ended=Ended.DIVERGE if failed else Ended.MATCH,
                stamp=stamp_of(folder / "trials" / trial.name),
                loose=(Loose("told", "missing-change", "require", "FAILS"),) if failed else (),
            ))  # fmt: skip
        for start in range(0, len(found), 1000):
            store.put_trials(found[start : start + 1000])


def measured(base: Path, *command: str) -> tuple[list[float], list[float]]:
    """Seconds of the command, its start included: by the clock, and of CPU, its processes' too."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(base / "compiled")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    clock, cpu = [], []
    for _ in range(RUNS + 1):  # the first one compiles
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "statediff", *command, "--store", "sqlite:///store.sqlite"],
            cwd=base, check=False, stdout=subprocess.DEVNULL, env=env,
        )  # fmt: skip
        assert done.returncode in (0, 1, 3), done
        clock.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return sorted(clock[1:]), sorted(cpu[1:])


def main() -> None:
    """Prints the seconds that each command took."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        for name in ("a", "bb"):
            build(base, name, trials // 2 // CONTRACTS)
        for command in (["runs"], ["stats", "runs/a", "runs/bb", "-k", "5"],
                        ["lab", "compare", "runs/a", "runs/bb"]):  # fmt: skip
            clock, cpu = measured(base, *command)
            print(
                f"{command[0]:8} {trials} trials  {clock[RUNS // 2]:.2f} s "
                f"({clock[0]:.2f} – {clock[-1]:.2f}), {cpu[RUNS // 2]:.2f} s CPU"
            )
        with open_store(file_url(base / "store.sqlite")) as store:
            for ask in (matrix, trend, violations, failures):
                began = time.process_time()
                ask(store)
                print(f"{ask.__name__:10} {time.process_time() - began:.2f} s CPU")


if __name__ == "__main__":
    main()
