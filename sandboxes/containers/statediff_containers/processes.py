"""The processes of a container, as the kernel lists them: the engine takes far longer to say.

A server that serves no more was either ended from outside or ended itself. The first is nobody's
fault who used it; the second may be what somebody made it do. What ends itself crashes (a fault, an
abort, an exit code of its own) or has used up its memory, of which the kernel keeps count. What is
killed, or asked to end, was ended from outside: no account that an agent gets can send a signal.

A server that serves somebody loses its connections before its parent, the engine or a note of its
own can say why. So a caller that wants the cause waits until both are known (`await_told`): nothing
in the container has died that its parent may not know of, and the server has answered since, which
anyone who has begun to end does no more; or it has ended.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import docker
from docker.errors import DockerException, NotFound

from statediff.systems.base.owner import EXITING, STARTED_FIELD, started_at
from statediff_containers.forward import Connection

_SENT: Final = {
    0,
    *(128 + n for n in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)),
    128 + signal.SIGKILL,
    128 + signal.SIGTERM,
}
"""How a process that is killed or asked to end does end."""
_TOLD_SECONDS: Final = 2.0
_ENDING_SECONDS: Final = 30.0
"""How long a server that serves no more may take to end: a database writes down all that it has."""
_ANSWER_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02


@dataclass(frozen=True)
class Life:
    """A container's first process, as it was started, which no other can be taken for."""

    container: str
    pid: int
    started: int | None
    """None where this machine's processes are not the engine's: then only the engine knows."""

    @staticmethod
    def of(api: docker.APIClient, container: str) -> Life:
        """The life of a container that was just started. Raises `DockerException`."""
        pid = int(api.inspect_container(container)["State"]["Pid"])
        try:
            group_of(pid, container)
        except (OSError, ValueError):
            return Life(container, pid, None)
        return Life(container, pid, started_at(pid))

    def has_ended(self, api: docker.APIClient) -> bool:
        """True if it is certain that it runs no more."""
        if self.started is not None:
            return started_at(self.pid) != self.started
        try:
            state = api.inspect_container(self.container)["State"]
        except NotFound:
            return True
        except DockerException:
            return False
        return not state["Running"] or state["Pid"] != self.pid

    def ended_by_others(
        self, api: docker.APIClient, was_asked: Callable[[], bool] = lambda: False
    ) -> str | None:
        """How somebody ended it, or may have; None where it runs, or ended itself.

        `was_asked` says whether it has noted that it was asked to, whatever it then ended with.
        """
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
        if state["OOMKilled"]:
            return None
        return "its server ended" if state["ExitCode"] in _SENT or was_asked() else None

    def is_starved(self) -> bool:
        """True if the kernel has ever ended something in it because its memory was used up."""
        for file in ("memory.oom_control", "memory.events"):
            try:
                text = (group_of(self.pid, self.container, "memory") / file).read_text("ascii")
            except (OSError, ValueError):
                continue
            counts = dict(line.split(" ", 1) for line in text.splitlines())
            return int(counts.get("oom_kill", 0)) > 0
        return False

    def has_dying(self) -> bool:
        """True if something in it has died, or begun to, of which its parent may not know yet.

        The kernel counts whatever its parent has not taken note of. Where as many are plainly
        alive, the same ones before the count and after, there is nothing else.
        """
        try:
            group = group_of(self.pid, self.container)
            alive = _alive(group)
            counted = int((group / "pids.current").read_text("ascii"))
            return counted != len(alive) or _alive(group) != alive
        except (OSError, ValueError):
            return False  # it has ended, or this is not ours to see

    def names(self) -> list[str]:
        """The programs that run in it, by name. Raises `OSError` or `ValueError`."""
        pids = (group_of(self.pid, self.container) / "cgroup.procs").read_text("ascii").split()
        return [Path(f"/proc/{pid}/comm").read_text("utf-8").rstrip("\n") for pid in pids]

    def _state(self, api: docker.APIClient) -> dict[str, Any]:
        state: dict[str, Any] = api.inspect_container(self.container)["State"]
        return state


def await_told(
    life: Life, api: docker.APIClient, dial: Callable[[], Connection], call: bytes
) -> None:
    """Wait until its server, answering `call`, knows what died in it; or until it has ended.

    `dial` connects to the server. Gives up on one that takes connections and does not answer, and
    on one that takes none for long and has not ended.
    """
    deadline = time.monotonic() + _ENDING_SECONDS
    while not life.has_ended(api) and time.monotonic() < deadline:
        if not life.has_dying():
            try:
                with contextlib.closing(dial()) as caller:
                    caller.settimeout(_ANSWER_SECONDS)
                    caller.sendall(call)
                    if caller.recv(1):
                        return
            except TimeoutError:
                return
            except OSError:
                pass  # it ends, or has ended
        time.sleep(_POLL_SECONDS)


def await_known(life: Life) -> None:
    """Nothing in it has died of which its parent may not know; gives up after some time."""
    deadline = time.monotonic() + _ENDING_SECONDS
    while life.has_dying() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _alive(group: Path) -> dict[int, str]:
    """Every thread of a group that has not begun to die, and when it started."""
    listed = group / "cgroup.threads"
    found = {}
    for thread in (listed if listed.exists() else group / "tasks").read_text("ascii").split():
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{thread}/stat").read_text("utf-8", errors="replace")
            state, *rest = stat.rpartition(")")[2].split()
            if state not in ("Z", "X") and not int(rest[5]) & EXITING:
                found[int(thread)] = rest[STARTED_FIELD - 1]
    return found


def group_of(pid: int, container: str, controller: str = "pids") -> Path:
    """The cgroup's folder in which the kernel keeps a container's processes, of which `pid` is one.

    Raises `OSError` or `ValueError` where that is not this machine's to see.
    """
    for line in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, place = line.split(":", 2)
        if container in place and controllers in ("", controller):
            return Path("/sys/fs/cgroup", controllers, place.lstrip("/"))
    raise ValueError(f"{pid} is no process of {container}")
