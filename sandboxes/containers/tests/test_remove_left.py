"""Removing a dead owner's containers asks the engine for nothing while the owner lives."""

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from statediff_containers.engine import remove_left

from statediff.systems.base import reaper
from statediff.systems.base.owner import Owner


class Engine:
    """A socket where an engine would listen: it counts who asks, and answers nobody."""

    def __init__(self, path: Path) -> None:
        self.asked = 0
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(path))
        self._door.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._door.accept()
            except OSError:
                return
            self.asked += 1
            line.close()

    def close(self) -> None:
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setattr(reaper, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine")
    listening = Engine(tmp_path / "engine")
    yield listening
    listening.close()


def test_the_things_of_the_living_stay(engine: Engine) -> None:
    remove_left(Owner.current().label)
    assert engine.asked == 0


@pytest.mark.parametrize("label", ["", "1-2-3", "x-2-3-b"])
def test_what_names_no_owner_has_nothing(engine: Engine, label: str) -> None:
    remove_left(label)
    assert engine.asked == 0


def test_another_process_that_has_the_number_now_does_not_keep_them(engine: Engine) -> None:
    me = Owner.current()
    remove_left(replace(me, started=me.started - 1).label)
    assert engine.asked >= reaper.TRIES


def test_an_engine_that_fails_is_asked_again(engine: Engine) -> None:
    process = subprocess.Popen(["sleep", "60"])
    started = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    owner = replace(Owner.current(), pid=process.pid, started=started)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    remove_left(owner.label)
    process.wait()
    assert engine.asked >= reaper.TRIES
