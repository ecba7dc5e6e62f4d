"""The processes of a container, as the kernel lists them: the engine takes far longer to say.

A server that serves no more was either ended from outside or ended itself. The first is nobody's
fault who used it; the second may be what somebody made it do. What ends itself crashes (a fault, an
abort, an exit code of its own) or has used up its memory, of which the kernel keeps count. What is
killed, or asked to end, was ended from outside: no account that an agent gets can send a signal.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import docker
from docker.errors import DockerException, NotFound

from statediff.sandbox.owner import started_at

_SENT: Final = {0, *(128 + n for n in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)),
                128 + signal.SIGKILL, 128 + signal.SIGTERM}  # fmt: skip
"""How whoever is killed or asked to end does end."""
_TOLD_SECONDS: Final = 2.0
_ENDING_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.02


@dataclass(frozen=True)
class Life:
    """What was started as a container's first process, which no other can be taken for."""

    container: str
    pid: int
    started: int | None
    """None where this machine's processes are not the engine's: then only the engine knows."""

    @staticmethod
    def of(api: docker.APIClient, container: str) -> Life:
        """Of a container that was just started. Raises `DockerException`."""
        pid = int(api.inspect_container(container)["State"]["Pid"])
        try:
            group_of(pid, container)
        except (OSError, ValueError):
            return Life(container, pid, None)
        return Life(container, pid, started_at(pid))

    def has_ended(self, api: docker.APIClient) -> bool:
        """Whether it is certain that it runs no more."""
        if self.started is not None:
            return started_at(self.pid) != self.started
        try:
            state = api.inspect_container(self.container)["State"]
        except NotFound:
            return True
        except DockerException:
            return False
        return not state["Running"] or state["Pid"] != self.pid

    def ended_by_others(self, api: docker.APIClient) -> str | None:
        """How somebody ended it, or may have; None where it runs, or ended itself."""
        if not self.has_ended(api):
            return None
        deadline = time.monotonic() + _TOLD_SECONDS
        try:
            while (state := self._state(api))["Running"] and state["Pid"] == self.pid:
                if time.monotonic() >= deadline:
                    return "its server ended"
                time.sleep(_POLL_SECONDS)  # the engine hears of it later than the kernel
        except NotFound:
            return "its container was removed"
        except DockerException:
            return "its server ended"
        if state["Running"]:
            return "its server ended and was started again"
        if state["Error"]:  # the engine's; over a volume nothing is started twice
            return "its server ended and could not be started again"
        if state["OOMKilled"] or state["ExitCode"] not in _SENT:
            return None
        return "its server ended"

    def is_starved(self) -> bool:
        """Whether the kernel has ever ended something in it because its memory was used up."""
        for file in ("memory.oom_control", "memory.events"):
            try:
                text = (group_of(self.pid, self.container, "memory") / file).read_text("ascii")
            except (OSError, ValueError):
                continue
            counts = dict(line.split(" ", 1) for line in text.splitlines())
            return int(counts.get("oom_kill", 0)) > 0
        return False

    def names(self) -> list[str]:
        """The programs that run in it, by name. Raises `OSError` or `ValueError`."""
        pids = (group_of(self.pid, self.container) / "cgroup.procs").read_text("ascii").split()
        return [Path(f"/proc/{pid}/comm").read_text("utf-8").rstrip("\n") for pid in pids]

    def _state(self, api: docker.APIClient) -> dict[str, Any]:
        state: dict[str, Any] = api.inspect_container(self.container)["State"]
        return state


def await_end(door: Path, has_ended: Callable[[], bool]) -> None:
    """A server that is asked to end closes its door some time before it does: it has ended, then.

    Returns at once where the door is open, and after some seconds where nothing comes of it.
    """
    deadline = time.monotonic() + _ENDING_SECONDS
    while not has_ended() and time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
            caller.settimeout(_ENDING_SECONDS)
            try:
                caller.connect(str(door))
            except OSError:
                time.sleep(_POLL_SECONDS)
            else:
                return


def group_of(pid: int, container: str, controller: str = "pids") -> Path:
    """Where the kernel keeps what a container's processes do, of which `pid` is one.

    Raises `OSError` or `ValueError` where that is not this machine's to see.
    """
    for line in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, place = line.split(":", 2)
        if container in place and controllers in ("", controller):
            return Path("/sys/fs/cgroup", controllers, place.lstrip("/"))
    raise ValueError(f"{pid} is no process of {container}")
