"""Additions to the command line by distributions and files, and those that are refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.installing import install

NOTES = Path(__file__).parents[2] / "docs" / "plugin" / "notes_plugin.py"


def test_a_file_in_the_folder_of_plug_ins_is_one(tmp_path: Path, statediff: Call) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "pack.sandbox.yaml").write_text(
        "sandbox: own\nversion: 1.0.0\nabout: one source\nsources:\n  n: {kind: notes}\n"
    )
    without = statediff("sandbox", "up", "./pack.sandbox.yaml", "--seconds", "1")
    assert (without.code, "is of kind 'notes'; there are:" in without.err) == (2, True)
    shutil.copy(NOTES, tmp_path / "plugins" / "notes.py")
    env = {"STATEDIFF_PLUGINS": str(tmp_path / "plugins")}
    found = statediff("sandbox", "up", "./pack.sandbox.yaml", "--seconds", "1", env=env)
    assert "is of kind 'notes'; there are:" not in found.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("PLUGIN = 1\n", "expected a SystemPlugin, found int"),
        ("nothing = 1\n", "cannot be loaded"),
        ("1 / 0\n", "cannot be loaded: division by zero"),
        ("def\n", "cannot be loaded"),
        (
            "from statediff.systems.base.plugin import SystemPlugin as S\nPLUGIN=S(interface=2)",
            "is made for version 2 of statediff's interface",
        ),
    ],
)
def test_a_file_that_is_none_is_refused(
    text: str, told: str, tmp_path: Path, statediff: Call
) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "own.py").write_text(text)
    said = statediff("--plugins", "plugins", "doctor", env={})
    assert (said.code, told in said.err) == (2, True), said.err


def test_no_folder_and_a_name_that_is_taken_are_refused(tmp_path: Path, statediff: Call) -> None:
    said = statediff("--plugins", "none", "doctor", env={})
    assert (said.code, "expected a folder, found none" in said.err) == (2, True)
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "sqlite.py").write_text("PLUGIN = 1\n")
    said = statediff("--plugins", "plugins", "doctor", env={})
    assert (said.code, "an installed plug-in has this name" in said.err) == (2, True)


def test_a_distribution_adds_a_command(tmp_path: Path, statediff: Call) -> None:
    (tmp_path / "greetings.py").write_text(
        'def greet(name: str) -> int:\n    """Say hello."""\n    print("hello", name)\n'
        "    return 0\n\n\nNONE = 1.5\n"
    )
    install(tmp_path, "statediff.commands", "greet", "greetings:greet")
    env = {"PYTHONPATH": str(tmp_path)}
    assert statediff("greet", "Ada", env=env).out == "hello Ada\n"
    install(tmp_path, "statediff.commands", "lab.other", "greetings:NONE")
    said = statediff("lab", "--help", env=env)
    assert (said.code, "other: expected a function, found float" in said.err) == (2, True)


def test_a_command_that_moved_runs_and_says_what_it_is_called(statediff: Call) -> None:
    said = statediff("conformance", "--help", env={})
    assert (said.code, said.err) == (
        0, "`statediff conformance` is now `statediff lab conformance`\n",
    )  # fmt: skip
