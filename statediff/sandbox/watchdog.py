"""Waits for the end of one process and removes what it left: `… -m statediff.sandbox.watchdog`.

It has nothing to wait for but the process itself, so that neither Ctrl-C, nor `kill -9`, nor a
crash of the evaluator leaves a container behind. If the engine is gone too, the next `connect`
removes what is left.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from typing import Final

from statediff.sandbox.owner import Owner

TRIES: Final = 20
"""What a dying process had asked the engine for may appear a moment after its death."""
_PAUSE_SECONDS: Final = 0.1


def start(owner: Owner) -> int:
    """The pid of a process that waits for the owner's end."""
    quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    # Not a `Popen`: that wants to be waited for, and this process is to outlive us.
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-m", __name__, owner.label],
        {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        file_actions=quiet,
        setsid=True,
    )


def runs(pid: int) -> bool:
    """Whether a process that `start` made for this one has not ended yet."""
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False


def await_end(owner: Owner) -> None:
    """The process is gone."""
    try:
        watched = os.pidfd_open(owner.pid)
    except ProcessLookupError:
        return
    try:
        while not owner.is_dead():
            select.select([watched], [], [], 1.0)
    finally:
        os.close(watched)


def main(label: str) -> None:
    """Nothing that `label` names as its owner is left, once that owner is dead."""
    owner = Owner.parse(label)
    if owner is None:
        raise SystemExit(f"{label!r} names no process")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    await_end(owner)
    # Imported late: while it waits, this process is small.
    from docker.errors import DockerException  # noqa: PLC0415

    from statediff.sandbox.containers import Engine  # noqa: PLC0415

    engine = Engine(owner)
    for _ in range(TRIES):
        with contextlib.suppress(DockerException):
            engine.remove_of(label)
        time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1])
