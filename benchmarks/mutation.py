"""How many changes to the judging kernel its tests notice, by mutmut in a copy of the checkout.

    python -m benchmarks.mutation [--part NAME] [--sample N] [--seed N] [--jobs N]

Every mutant changes one function a little; a mutant that no test notices survives and is listed.
A sample is drawn by the seed, over all parts named, so that the same seed asks the same questions.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

CHECKOUT: Final = Path(__file__).parents[1]
LEFT_BEHIND: Final = shutil.ignore_patterns(
    ".git", ".venv", "dist", "build", "mutants", "__pycache__", ".*_cache", ".hypothesis"
)
EXTRA: Final = ("contracts", "sandboxes", "fixtures", "docs", "benchmarks", "README.md")
SURVIVED: Final = 0
"""pytest's exit code where every test passed: nobody noticed."""
NOT_COVERED: Final = 33
"""mutmut's exit code where no test comes by."""


class Part(NamedTuple):
    """Modules of the kernel, and the tests that must notice a change to them."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


PARTS: Final[dict[str, Part]] = {
    "expressions": Part(("statediff/contract/*",), ("tests/contract", "tests/policy")),
    "diff": Part(("statediff/diff.py",), ("tests/test_diff.py", "tests/policy")),
    "resolve": Part(("statediff/resolve/*",), ("tests/test_resolve.py", "tests/policy")),
    "canonicalize": Part(("statediff/canonicalize.py",), ("tests/test_canonicalize.py",)),
    "policy": Part(("statediff/policy/*",), ("tests/policy", "tests/test_evaluate.py")),
    "admission": Part(("statediff/policy/admission.py",), ("tests/policy/test_admission.py",)),
    "verifier": Part(("statediff/evidence/verify.py",), ("tests/evidence",)),
}
KERNEL: Final = ("expressions", "diff", "resolve", "canonicalize", "policy", "verifier")


class Score(NamedTuple):
    """What became of the mutants that were tried."""

    tried: int
    survived: tuple[str, ...]

    @property
    def killed(self) -> int:
        return self.tried - len(self.survived)


def scored(parts: list[str], sample: int, seed: int, jobs: int) -> Score:
    """The score of the parts, all mutants or a sample; `SystemExit` where the tests fail as is."""
    with tempfile.TemporaryDirectory(prefix="statediff-mutation-") as scratch:
        copy = Path(scratch) / "checkout"
        shutil.copytree(CHECKOUT, copy, ignore=LEFT_BEHIND, symlinks=True)
        with (copy / "pyproject.toml").open("a", encoding="utf-8") as file:
            file.write(configuration(parts))
        chosen: list[str] = []
        if sample:
            # A name that no mutant has: the mutants are made, and none is tried.
            said = _mutmut(copy, jobs, ["statediff.none-such"])
            known = sorted(_codes(copy))
            if not known:
                raise SystemExit(f"no mutants were made; mutmut said: {said}")
            chosen = sorted(random.Random(seed).sample(known, min(sample, len(known))))
        said = _mutmut(copy, jobs, chosen)
        codes = {name: code for name, code in _codes(copy).items() if code is not None}
    tried = {name: code for name, code in codes.items() if not chosen or name in chosen}
    if not tried:
        raise SystemExit(f"no mutant was tried; mutmut said: {said}")
    survived = sorted(n for n, code in tried.items() if code in (SURVIVED, NOT_COVERED))
    return Score(len(tried), tuple(survived))


def configuration(parts: list[str]) -> str:
    """The table of mutmut in `pyproject.toml`, for these parts of the kernel."""
    modules = sorted({module for part in parts for module in PARTS[part].modules})
    tests = sorted({test for part in parts for test in PARTS[part].tests})
    lists = {
        "source_paths": ["statediff"], "only_mutate": modules, "also_copy": list(EXTRA),
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-n", "0", "--timeout=120"],
        "pytest_add_cli_args_test_selection": tests,
    }  # fmt: skip
    lines = [f"{name} = {json.dumps(values)}" for name, values in lists.items()]
    return "\n".join(["", "[tool.mutmut]", *lines, ""])


def _mutmut(copy: Path, jobs: int, names: list[str]) -> str:
    """Run mutmut in the copy, and return what it complained of."""
    # The copy's own package is what is changed and tested, wherever this one was imported from.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(jobs), *names]
    done = subprocess.run(
        command, cwd=copy, check=False, env=kept, capture_output=True, text=True, errors="replace"
    )
    return done.stderr[-2000:]


def _codes(copy: Path) -> dict[str, int | None]:
    """Mutant → pytest's exit code; None where it was not tried."""
    found: dict[str, int | None] = {}
    for path in sorted((copy / "mutants").rglob("*.meta")):
        found |= json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    return found


def main() -> int:
    """Print the score and every survivor."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutation")
    parser.add_argument("--part", action="append", choices=sorted(PARTS), help="default: all")
    parser.add_argument("--sample", type=int, default=0, help="mutants to try (0: all)")
    parser.add_argument("--seed", type=int, default=0, help="draws the sample")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    wanted = parser.parse_args()
    parts = wanted.part or list(KERNEL)
    score = scored(parts, wanted.sample, wanted.seed, wanted.jobs)
    share = 100 * score.killed / score.tried
    print(f"{', '.join(parts)}: {score.killed} of {score.tried} mutants noticed ({share:.1f} %)")
    for name in score.survived:
        print(f"  survives: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
