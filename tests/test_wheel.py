"""The wheel carries the packs: an installed statediff needs no checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.test_docs import blocks, check, put_programs, python_programs
from tests.wheels import build

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow

PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import statediff.packs
assert statediff.packs.__file__.startswith(sys.path[0]), statediff.packs.__file__
assert str(statediff.packs.packs_folder("sandboxes")).startswith(sys.path[0])
from statediff.cli.main import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the wheels that `demo` and the tutorial need were unpacked, once for all tests."""
    tmp_path = tmp_path_factory.mktemp("wheel")
    installed = tmp_path / "installed"
    wheels = build(tmp_path)
    for name in (
        "statediff",
        *(f"statediff-{room}" for room in ("git", "office", "trackers", "lab")),
    ):
        with zipfile.ZipFile(wheels[name]) as archive:
            names = archive.namelist()
            archive.extractall(installed)
        assert not [each for each in names if "__pycache__" in each or each.startswith("tests/")]
    assert [*installed.glob("statediff-*.dist-info/licenses/LICENSE")]
    assert (installed / "statediff" / "py.typed").is_file()
    recorded = installed / "statediff" / "_packs" / "docs" / "examples" / "reads" / "recorded.yaml"
    assert recorded.is_file(), "what a bare metatest reads"
    templates = {path.name for path in (ROOT / "statediff/reports/html/templates").iterdir()}
    packed = (installed / "statediff" / "reports" / "html" / "templates").iterdir()
    assert {path.name for path in packed} == templates
    return installed


def test_the_demo_of_an_installed_wheel_runs_outside_a_checkout(
    installed: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ran = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, str(installed), "demo", "--json"],
        cwd=elsewhere, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    *trials, last = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {t["agent"]: t["verdict"] for t in trials} == {
        "careful": "MATCH",
        "hasty": "DIVERGE",
        "plausible": "DIVERGE",
        "unplugged": "INCONCLUSIVE",
        "accounts": "DIVERGE",
        "helpdesk": "DIVERGE",
        "repo": "DIVERGE",
    }
    assert set(last) == {"summary"}


@pytest.mark.timeout(600)  # every command of a page, one after the other
def test_the_tutorial_runs_as_written_from_an_installed_wheel(
    installed: Path, tmp_path: Path
) -> None:
    tutorial = ROOT / "docs" / "tutorial.md"
    program = "-c 'from statediff.cli.main import main; main()'"
    put_programs(tmp_path, {"statediff": program, **python_programs(str(installed))})
    shown = blocks(tutorial)
    for _, name, content in shown:
        if name:
            (tmp_path / name).write_text(content, encoding="utf-8")
    commands = [content for language, _, content in shown if language == "console"]
    assert len(commands) >= 6
    where = "$ python -c 'import statediff; print(statediff.__file__)'\n"
    check(f"{where}{installed}/statediff/__init__.py\n", tmp_path, str(installed))
    for content in commands:
        check(content, tmp_path, str(installed))
