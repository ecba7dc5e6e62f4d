"""How long `runs`, `stats` and `compare` take over many stored trials.

    python benchmarks/suites.py [TRIALS]

Two runs of TRIALS/2 trials each under 50 contracts, one in ten without a match and with a finding.
The folders are sparse: a manifest's stamp is all that is read of a trial that is known.
"""

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from statediff.cli.runfolders import run_facts
from statediff.harness import write_run
from statediff.suite.indexing import Found, index, stamp_of
from statediff.suite.records import Ended, Loose
from statediff.suite.store import file_url, opened

CONTRACTS = 50


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
    with opened(file_url(base / "store.sqlite")) as store:
        run = index(store, folder, run_facts(folder), lambda _: Found(None, Ended.UNFINISHED))
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


def main() -> None:
    """Prints the seconds that each command took."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        for name in ("a", "bb"):
            build(base, name, trials // 2 // CONTRACTS)
        for command in (["runs"], ["stats", "runs/a", "runs/bb", "-k", "5"],
                        ["compare", "runs/a", "runs/bb"]):  # fmt: skip
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "statediff", *command, "--store",
                 "sqlite:///store.sqlite"], cwd=base, check=False, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            print(f"{command[0]:8} {trials} trials  {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
