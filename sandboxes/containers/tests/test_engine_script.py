"""`engine.sh` leaves an engine that it did not start as it is, and says what it needs."""

import os
import subprocess
from pathlib import Path

import pytest
from statediff_containers import engine_script
from statediff_containers.engine import connect


def engine(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    script = engine_script()
    return subprocess.run(
        ["bash", str(script), *arguments], env={**os.environ, **environment}, check=False,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.docker("git")
def test_an_engine_that_runs_already_stays_the_only_one_and_is_not_ended(tmp_path: Path) -> None:
    before = connect().api.info()["ID"]
    for wish in ("up", "up", "down"):
        done = engine(wish, STATEDIFF_ENGINE_STATE=str(tmp_path))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), wish
    assert connect().api.info()["ID"] == before
    assert list(tmp_path.iterdir()) == []


def test_a_pid_that_is_no_engine_any_more_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        (tmp_path / "dockerd.pid").write_text(str(other.pid))
        assert engine("down", STATEDIFF_ENGINE_STATE=str(tmp_path)).returncode == 0
        assert other.poll() is None
        other.kill()


def test_an_engine_that_was_named_and_does_not_answer_is_not_replaced(tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/none.sock"
    done = engine("up", DOCKER_HOST=nowhere, STATEDIFF_ENGINE_STATE=str(tmp_path))
    assert done.returncode == 1
    assert "DOCKER_HOST names an engine that does not answer" in done.stderr
    assert engine("base", DOCKER_HOST=nowhere).returncode == 1


@pytest.mark.parametrize("arguments", [(), ("start",)])
def test_what_it_does_not_know_it_does_not_do(arguments: tuple[str, ...]) -> None:
    done = engine(*arguments)
    assert (done.returncode, done.stderr) == (1, "error: expected up, base or down\n")
