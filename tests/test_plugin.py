"""The third-party system of the docs plugs in by one entry point: sandbox, tools, states, kit."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

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
    assert int(re.findall(r"(\d+) passed", said)[0]) >= 19


def test_without_its_entry_point_its_kind_is_unknown(installed: dict[str, str]) -> None:
    installed["PYTHONPATH"] = installed["PYTHONPATH"].rpartition(os.pathsep)[0]
    code, said = pytest_of(installed)
    assert code == 1
    assert "is of kind 'notes'; there are: " in said


def command(environment: dict[str, str], folder: Path, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "statediff", *arguments, "--json"],
        env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    """A folder with the notes of two days, and of a third that cannot be read."""
    folder = tmp_path / "diary"
    folder.mkdir()
    for name, done in (("monday", "false"), ("tuesday", "true")):
        text = f'{{"note": [{{"id": 1, "text": "call Ada", "done": {done}}}]}}'
        (folder / f"{name}.notes").write_text(text)
    (folder / "never.notes").write_text("{")
    (folder / "tables.json").write_text("{}")
    return folder


def test_commands_read_its_states_by_path(installed: dict[str, str], diary: Path) -> None:
    sides = ("--before", "monday.notes", "--after", "tuesday.notes")
    found = command(installed, diary, "diff", *sides)
    assert '"done"' in json.dumps(found)
    assert "before/notes" in json.dumps(found)
    refused = command(installed, diary, "diff", "--before", "monday.notes", "--after",
                      "notes=tables.json")  # fmt: skip
    message = "notes: one side is a file of notes, the other JSON tables; both sides"
    assert message in refused["error"]["message"]


def test_its_state_that_cannot_be_read_is_unobserved(
    installed: dict[str, str], diary: Path
) -> None:
    found = command(installed, diary, "diff", "--before", "monday.notes", "--after", "never.notes")
    assert "the notes cannot be read" in json.dumps(found)


def test_without_its_entry_point_its_states_are_json_tables(
    installed: dict[str, str], diary: Path
) -> None:
    installed["PYTHONPATH"] = installed["PYTHONPATH"].rpartition(os.pathsep)[0]
    found = command(installed, diary, "diff", "--before", "monday.notes", "--after",
                    "tuesday.notes")  # fmt: skip
    assert "before/tables" in json.dumps(found)
