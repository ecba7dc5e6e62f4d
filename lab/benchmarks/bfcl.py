"""BFCL v4's multi-turn tasks: their environment, and their export.

    python -m lab.benchmarks.bfcl environment [FOLDER] the benchmark's package without what it needs
                                                     for models; .hosts/bfcl unless said
    python -m lab.benchmarks.bfcl export DIR             for `statediff lab audit --cases bfcl=DIR`

`STATEDIFF_BFCL_PYTHON` names the environment's Python for the second. The contracts of the held-out
half were written, and their digests committed, before one of its runs was carried out: those are of
the first rules. Rules that came later have a file of their own, and leave that alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import venv
from pathlib import Path
from typing import Final

from statediff_lab.importers.bfcl.checker import VARIABLE, Checker, named_checker
from statediff_lab.importers.bfcl.contract import contract_of
from statediff_lab.importers.bfcl.format import Rules, task_of
from statediff_lab.importers.bfcl.suite import CATEGORIES, half_of
from statediff_lab.importers.recorded import Half

from statediff.errors import UsageError

ROOT: Final = Path(__file__).parents[2]
RULES: Final = list(Rules)[-1]
"""The rules by which contracts are generated now."""


def environment(folder: Path) -> None:
    """The folder is an environment with the package, at the version that is required."""
    venv.create(folder, with_pip=True, clear=True)
    required = ROOT / "requirements" / "bfcl.txt"
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "-r", str(required)], check=True)
    print(f"{VARIABLE}={folder.absolute() / 'bin' / 'python'}")


def export(folder: Path) -> None:
    """Every task, as files in the folder; none was run."""
    checker = named_checker()
    if checker is None:
        raise UsageError(f"{VARIABLE}: expected the Python of the benchmark's environment")
    for part in ("tasks", "runs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for category in CATEGORIES:
        lines = [
            json.dumps(
                {**raw, "rules": RULES.value},
                default=float,
                ensure_ascii=False,
                separators=(",", ":"),
            )
            for raw in checker.tasks(category)
        ]
        text = "".join(f"{line}\n" for line in lines)
        (folder / "tasks" / f"{category}.jsonl").write_text(text, encoding="utf-8")
        (folder / "runs" / f"{category}.jsonl").touch()


def registered(rules: Rules) -> Path:
    """The file of the digests of these rules' contracts."""
    suffix = "" if rules is Rules.FIRST else f"-{rules.value}"
    return Path(__file__).parent / "league" / "held-out" / f"bfcl{suffix}.json"


def digests(checker: Checker, rules: Rules) -> dict[str, str]:
    """The SHA-256 of the contract of every task that is held out."""
    return {
        raw["id"]: contract_of(task_of({**raw, "rules": rules.value})).digest
        for category in CATEGORIES
        for raw in checker.tasks(category)
        if half_of(raw["id"]) is Half.HELD_OUT
    }


def main() -> None:
    """One command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("do", choices=("environment", "export"))
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / ".hosts" / "bfcl")
    given = parser.parse_args()
    if given.do == "environment":
        environment(given.folder)
    else:
        export(given.folder)


if __name__ == "__main__":
    main()
