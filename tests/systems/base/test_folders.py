"""A folder goes with whatever runs in it, and nothing that runs elsewhere is touched."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from statediff.systems.base import folders, reaper
from statediff.systems.base.folders import clear, inhabitants


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / "inner").mkdir(parents=True)
    (tmp_path / "home-of-others").mkdir()
    return folder


@pytest.fixture
def begun() -> Iterator[list["subprocess.Popen[bytes]"]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def sleeper(cwd: Path | str, **variables: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "600"], cwd=cwd, env=variables, start_new_session=True)


def test_what_lives_below_is_killed_and_its_neighbors_live(
    home: Path, begun: list["subprocess.Popen[bytes]"]
) -> None:
    inside = [
        sleeper(home / "inner"), sleeper(home), sleeper("/", HOME=f"{home}/inner"),
        sleeper("/", TMPDIR=f"{home}/"),
    ]  # fmt: skip
    outside = [
        sleeper(home.parent), sleeper(home.parent / "home-of-others"),
        sleeper("/", HOME=f"{home}-of-others/x", OTHER=f"{home}/inner"),
    ]  # fmt: skip
    begun += inside + outside
    assert set(inhabitants(str(home))) == {process.pid for process in inside}
    clear(str(home))
    assert not home.exists()
    assert [process.wait(10) for process in inside] == [-signal.SIGKILL] * 4
    time.sleep(0.2)
    assert [process.poll() for process in outside] == [None] * 3


def test_a_number_that_another_process_has_since_kills_nobody(
    home: Path, begun: list["subprocess.Popen[bytes]"]
) -> None:
    # As when an inhabitant was listed, ended, and its number was given out again.
    begun.append(sleeper("/"))
    folders._kill(begun[0].pid, str(home))
    time.sleep(0.2)
    assert begun[0].poll() is None


def test_a_process_that_has_ended_is_no_error(home: Path) -> None:
    process = sleeper(home)
    process.kill()
    process.wait()
    folders._kill(process.pid, str(home))


def test_this_process_is_never_among_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    assert inhabitants(str(home)) == []


def test_however_deep_it_is_nested_it_goes(home: Path) -> None:
    top = Path.cwd()
    try:
        os.chdir(home)
        for _ in range(1500):
            os.mkdir("d")  # noqa: PTH102 - deeper than a path may be long
            os.chdir("d")
    finally:
        os.chdir(top)
    clear(str(home))
    assert not home.exists()


def test_a_link_is_removed_and_what_it_leads_to_stays(home: Path) -> None:
    kept = home.parent / "kept"
    kept.write_text("kept")
    (home / "link").symlink_to(kept)
    (home / "folder").symlink_to(home.parent / "home-of-others")
    clear(str(home))
    assert not home.exists()
    assert kept.read_text() == "kept"
    assert (home.parent / "home-of-others").is_dir()


def test_it_ends_though_the_folder_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "_PAUSE_SECONDS", 0.0)
    clear("/proc/self/fdinfo")  # nobody can
    clear(str(tmp_path / "never-was"))
    assert Path("/proc/self/fdinfo").exists()
