"""The recipe for an importer in CONTRIBUTING.md, followed word for word in a copy of the tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
TOY = Path(__file__).parent / "ledger"
RECIPE = re.search(
    r"(?ms)^## Add a benchmark importer\n(.*?)^## ",
    (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
)
BEFORE_THE_CLASS = """
from pathlib import Path
from statediff_lab.importers.conformance import ImporterSuite

SAMPLES = Path(__file__).parents[3] / "fixtures" / "imported"
"""


def quoted(pattern: str) -> str:
    """What the recipe says at the one place that is like the pattern, for the toy."""
    assert RECIPE is not None
    [found] = set(re.findall(pattern, RECIPE[1]))
    return str(found).replace("<name>", "ledger")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout, as it is before the recipe."""
    shutil.copytree(CHECKOUT / "lab" / "statediff_lab", tmp_path / "lab" / "statediff_lab")
    shutil.copyfile(CHECKOUT / "lab" / "pyproject.toml", tmp_path / "lab" / "pyproject.toml")
    (tmp_path / "statediff").symlink_to(CHECKOUT / "statediff")
    (tmp_path / "contracts").symlink_to(CHECKOUT / "contracts")
    return tmp_path


def follow(checkout: Path) -> list[str]:
    """The recipe is followed; the paths that it touched, folders as one."""
    folder = quoted(r"One folder, `([^`]+)`")
    shutil.copytree(TOY, checkout / folder, ignore=shutil.ignore_patterns("sample", "__pycache__"))
    group = quoted(r"in the entry-point group `([^`]+)`")
    line = quoted(r"The line `([^`]+)`")
    settings = checkout / "lab" / "pyproject.toml"
    table = f'[project.entry-points."{group}"]\n'
    text = settings.read_text(encoding="utf-8")
    assert table in text
    settings.write_text(text.replace(table, f"{table}{line}\n"), encoding="utf-8")
    sample = quoted(r"A sample of a few runs in `([^`]+)`")
    shutil.copytree(TOY / "sample", checkout / sample)
    tests = quoted(r"its class in\s+`([^`]+)`")
    (checkout / tests).parent.mkdir(parents=True)
    cls = textwrap.dedent(quoted(r"(?ms)^( +class .*?\n)\n"))
    (checkout / tests).write_text(BEFORE_THE_CLASS + cls, encoding="utf-8")
    return [folder, f"lab/{settings.name}", sample, tests]


def install(checkout: Path) -> dict[str, str]:
    """The environment of a Python in which the checkout is installed, as by `make setup`."""
    project = tomllib.loads((checkout / "lab" / "pyproject.toml").read_text("utf-8"))["project"]
    metadata = checkout / "site" / f"statediff_lab-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: statediff-lab\nVersion: {project['version']}\n"
    )
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    path = os.pathsep.join(map(str, (checkout, checkout / "lab", metadata.parent)))
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.slow
def test_the_recipe_makes_an_importer_that_passes_the_kit(checkout: Path) -> None:
    paths = follow(checkout)
    assert paths == [
        "lab/statediff_lab/importers/ledger/",
        "lab/pyproject.toml",
        "fixtures/imported/ledger/",
        "lab/tests/importers/test_conformance.py",
    ]
    environment = install(checkout)
    kit = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(checkout),
         "-c", os.devnull, paths[3]],
        cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip
    assert kit.returncode == 0, kit.stdout
    assert re.search(r"\b12 passed", kit.stdout), kit.stdout
    command = subprocess.run(
        [sys.executable, "-m", "statediff", *quoted(r"`statediff (lab import [^`]+)`").split()[:4],
         paths[2], "--mode", "compat", "--json"],
        cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    *_, summary = map(json.loads, command.stdout.splitlines())
    assert summary == {"runs": 4, "agree": 4, "false_pass": 0, "false_fail": 0}
