"""The wheel carries the packs: an installed statediff needs no checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import statediff.packs
assert statediff.packs.__file__.startswith(sys.path[0]), statediff.packs.__file__
assert str(statediff.packs.packs_folder("sandboxes")).startswith(sys.path[0])
from statediff.cli.main import main
sys.exit(main())
"""


def test_the_demo_of_an_installed_wheel_runs_outside_a_checkout(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    [wheel] = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(installed)
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/")]
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)
    templates = {path.name for path in (ROOT / "statediff/reports/html/templates").iterdir()}
    packed = {name for name in names if name.startswith("statediff/reports/html/templates/")}
    assert {Path(name).name for name in packed} == templates
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
