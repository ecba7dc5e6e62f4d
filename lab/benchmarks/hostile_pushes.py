"""The hostile corpus of git, as far as it can be pushed, through the gate's hooks.

`python -m lab.benchmarks.hostile_pushes [SEED]` does each harm of `hostile_git` to a mirror of a
served repository, and pushes all of the mirror, forced and pruned. After each push the repository
is read past the gate: whatever is not as before has to be what the contract allows.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from statediff_gate.pushes.hooks import install
from statediff_gate.records import read_decisions
from statediff_git.source import GitSource

import statediff
from gate.tests.test_pushes import CONTRACT, served
from lab.benchmarks.git_repository import HARMS, Repository
from lab.benchmarks.hostile_git import families
from sandboxes.git.tests.git_repositories import git
from statediff import kernel
from statediff.capture.source import clock
from statediff.capture.take import take
from statediff.evidence.keys import generate
from statediff.model.state import MemoryChunks


def main(seed: int = 7) -> None:
    counts = Counter[str](families=len(families()))
    with tempfile.TemporaryDirectory(prefix="statediff-proof-") as folder:
        home, store = Path(folder), MemoryChunks()
        place, records = served(home), home / "records"
        (home / "c.yaml").write_text(CONTRACT, "utf-8")
        generate(home / "key")
        said = home / "c.yaml", {"origin": str(place)}, {}, records, home / "key", None
        install(*said)
        sources, contract = [GitSource("origin", place)], statediff.load_contract(home / "c.yaml")
        before = take(sources, store, clock, None, "before")
        for name, variants, act in HARMS:
            for variant in variants:
                mirror = home / "mirror.git"
                git(home, "clone", "-q", "--mirror", str(place), str(mirror))
                try:
                    act(Repository(mirror), variant, random.Random(f"{seed} {name} {variant}"))
                except (AssertionError, IndexError, OSError, RuntimeError, ValueError):
                    counts["not of a bare repository"] += 1
                words = ["git", "-C", str(mirror), "push", "-q", "--force", "--prune", str(place)]
                subprocess.run([*words, "refs/*:refs/*"], check=False, capture_output=True)
                after = take(sources, store, clock, before, "after")
                verdict = kernel.evaluate(contract, before, after).judgement.verdict
                moved = kernel.comparison(before, after).diff.deltas
                counts["harms"] += 1
                counts[f"left the repository {'changed' if moved else 'as it was'}"] += 1
                if moved:
                    print(f"{name}: {variant}: {verdict.value}", flush=True)
                    counts["committed, and DIVERGE"] += verdict is statediff.Verdict.DIVERGE
                    install(*said)
                    before = take(sources, store, clock, None, "before")
                shutil.rmtree(mirror)
            made = Counter(str(each["decision"]) for each in read_decisions(records))
            print(name, dict(counts), dict(made), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
