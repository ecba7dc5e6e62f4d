"""The third-party system of the docs plugs in through its entry point and passes the kit."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
PLUGIN = CHECKOUT / "docs" / "plugin"


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The environment of a Python in which the example's distribution is installed."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [(group, points)] = project["entry-points"].items()
    metadata = tmp_path / "site" / f"statediff_notes-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\n")
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    path = [str(CHECKOUT), str(PLUGIN), str(metadata.parent)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}


def pytest_of(environment: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(PLUGIN),
         "-c", os.devnull, str(PLUGIN / "test_notes.py")],
        env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_the_example_of_the_docs_passes_the_kit(installed: dict[str, str]) -> None:
    code, said = pytest_of(installed)
    assert code == 0, said
    assert int(re.findall(r"(\d+) passed", said)[0]) >= 14


def test_without_its_entry_point_its_kind_is_unknown(installed: dict[str, str]) -> None:
    installed["PYTHONPATH"] = installed["PYTHONPATH"].rpartition(os.pathsep)[0]
    code, said = pytest_of(installed)
    assert code == 1
    assert "is of kind 'notes'; there are: files" in said
