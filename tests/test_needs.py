"""A need of a test that a machine lacks is told in one line, or fails where it is required."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
NEEDY = {
    "docker": "sandboxes/git/tests/docker/test_githttp.py",
    "browser": "tests/reports/test_html_sealed.py",
    "node": "tests/editors/test_language_server.py",
    "clients": "tests/agents/test_tracker_attribution.py",
    "host": "hosts/tests/environments/test_pages.py",
}


def tried(tmp_path: Path, need: str, required: str) -> subprocess.CompletedProcess[str]:
    """The tests of one need on a machine that has nothing: no engine, nothing on the PATH."""
    environment = {
        "PATH": str(tmp_path), "HOME": str(tmp_path), "PYTHONPATH": str(CHECKOUT),
        "DOCKER_HOST": f"unix://{tmp_path}/no-engine.sock", "STATEDIFF_REQUIRE": required,
        "STATEDIFF_HOSTS": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "-m", need, "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, NEEDY[need]], cwd=CHECKOUT, env={**environment}, check=False,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("need", NEEDY)
def test_an_unmet_need_is_one_line_and_a_required_one_fails(tmp_path: Path, need: str) -> None:
    skipped = tried(tmp_path, need, "")
    assert skipped.returncode == 0, skipped.stdout
    _, _, summary = skipped.stdout.partition("NOT RUN")
    [line] = [line for line in summary.splitlines() if "needs" in line]
    assert " passed" not in skipped.stdout
    failed = tried(tmp_path, need, f"other {need}")
    assert failed.returncode == 1, failed.stdout
    assert " skipped" not in failed.stdout
    assert line.partition("needs ")[2].partition(":")[0] in failed.stdout
