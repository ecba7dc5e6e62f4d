"""A fault planted in one line of each folder: `make quick` of the folder has to turn red.

    python -m lab.benchmarks.planted [--seed N] [--as-is] [PKG...]

A clone of the last commit is made. For each folder (`statediff/reports` is `PKG=reports`,
`sandboxes/git` is `PKG=git`) a change is drawn from all that `mutants` knows there, written into
the clone, and `make quick PKG=…` runs until a first test fails. `--as-is` plants nothing. Printed
are seconds, those of processors, and the machine's load. Exits with the number of folders that
answered wrongly. `PACKS` names the environment of packs, `.packs` unless said.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from lab.benchmarks.mutants import Mutant, mutants_of, written

CHECKOUT: Final = Path(__file__).parents[2]


def folders(checkout: Path) -> dict[str, Path]:
    """Each `PKG` of `make quick` with the folder of its source."""
    core = [each for each in checkout.glob("statediff/*") if (each / "__init__.py").exists()]
    rooms = [*checkout.glob("sandboxes/*/statediff_*")]
    rooms += [checkout / name / f"statediff_{name}" for name in ("gate", "hosts", "lab")]
    found = {each.name: each for each in core}
    return dict(sorted((found | {each.parent.name: each for each in rooms}).items()))


def drawn(folder: Path, seed: str) -> Mutant:
    """One change to the folder, drawn by the seed from all of its modules."""
    modules = sorted(folder.rglob("*.py"))
    return random.Random(seed).choice([each for path in modules for each in mutants_of(path)])


def quick(checkout: Path, name: str) -> tuple[int, str, str]:
    """The exit code of `make quick` in a checkout, what it took, and the last line it printed."""
    found = {str(each.parent) for each in folders(checkout).values()}
    tops = sorted(found - {str(checkout / "statediff")})  # it has a `statistics` of its own
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(checkout), *tops]),
        "PYTEST_ADDOPTS": "-x -p no:cacheprovider",
    }
    virtual = Path(sys.executable).parents[1]
    packs = Path(os.environ.get("PACKS", CHECKOUT / ".packs")).absolute()
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(
        ["make", "-o", "setup", "-o", "packs-setup", "quick", f"PKG={name}", f"VENV={virtual}",
         f"PACKS={packs}"],
        cwd=checkout, env=environment, check=False, capture_output=True, text=True,
    )  # fmt: skip
    [*_, last] = ["", *(line for line in ran.stdout.splitlines() if line.strip())]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    took = f"{time.monotonic() - began:4.0f} s, CPU {busy:4.0f} s, load {os.getloadavg()[0]:.1f}"
    return ran.returncode, took, last


def main() -> int:
    """Print what became of each folder; how many answered wrongly."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.planted")
    parser.add_argument("packages", nargs="*", metavar="PKG", help="default: all")
    parser.add_argument("--seed", type=int, default=51, help="draws the faults")
    parser.add_argument("--as-is", action="store_true", help="plant nothing: each must be green")
    asked = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="statediff-planted-") as made:
        clone = Path(made) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(clone)], check=True)
        found = folders(clone)
        for name in asked.packages or found:
            fault = drawn(found[name], f"{asked.seed} {name}")
            text = fault.path.read_text(encoding="utf-8")
            if not asked.as_is:
                fault.path.write_text(written(fault), encoding="utf-8")
            code, took, last = quick(clone, name)
            fault.path.write_text(text, encoding="utf-8")
            is_right = (code == 0) is asked.as_is
            wrong += not is_right
            change = "as is" if asked.as_is else f"{fault.path.relative_to(clone)}: {fault.name}"
            color = ("ok    " if is_right else "WRONG ") + ("red  " if code else "green")
            print(f"{color} {took}  {name:12} {change}")
            print(f"        {last}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
