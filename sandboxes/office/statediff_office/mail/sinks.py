"""The evaluator's side of mail sinks: processes that are begun by one which has already loaded.

A sink is small, but to load Python and its modules takes a tenth of a second of a core. So the
first `begin` in a process starts a *nursery* (`python -m statediff_office.mail.sink`), which loads
them once and forks a sink for the caller:

1. The evaluator makes a pair of sockets for the new sink and gives the nursery one end of it, over
   a socket that only the two of them have.
2. The nursery forks, and keeps nothing that it was given. The new process has that one end, and
   nothing of any other sink's: not its token, which comes over the pair, nor its mail.
3. A sink ends when the evaluator's end is closed, in whatever way that comes about; so does the
   nursery. Neither outlives the evaluator, and a sink does not need the nursery any more.

A nursery that has died, or does not answer, is replaced.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from typing import IO, Final

from statediff.errors import SandboxError
from statediff.model.values import printable
from statediff.systems.base.privacy import allowed_environment
from statediff.systems.base.waiting import LOOK_SECONDS, Patience

START_SECONDS: Final = 10.0
_TRIES: Final = 2
"""An agent that is the evaluator's user may have ended or stopped the nursery that is there."""
_FIRST_LINE_BYTES: Final = 1000
_SAID_BYTES: Final = 100_000


@dataclass(frozen=True)
class Sink:
    """One running sink; made by `begin` only."""

    pid: int
    ports: dict[str, int]
    """Where it listens on 127.0.0.1: `smtp`, `control`."""
    token: bytes = field(repr=False)
    _line: socket.socket = field(repr=False)
    """Open as long as the sink is to run."""
    _handle: int | None = field(repr=False)
    """The process itself, no matter who has its number later; None where there is no such thing."""

    def has_ended(self, seconds: float = 0.0) -> bool:
        """True if the process is over, or is within so many seconds."""
        seen = select.poll()
        seen.register(self._line.fileno() if self._handle is None else self._handle, select.POLLIN)
        return bool(seen.poll(1000 * seconds))

    def end(self, seconds: float) -> None:
        """It has ended: by itself, as asked, or, if it does not within so many seconds, killed."""
        self._line.shutdown(socket.SHUT_WR)
        if not self.has_ended(seconds):
            self.kill()
        self._close()

    def kill(self) -> None:
        """It has been ended at once, as in a crash."""
        with contextlib.suppress(ProcessLookupError):
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            elif not self.has_ended():
                os.kill(self.pid, signal.SIGKILL)
        self.has_ended(START_SECONDS)
        self._close()

    def _close(self) -> None:
        self._line.close()
        if self._handle is not None:
            os.close(self._handle)


class _Nursery:
    """The process that forks sinks for this one, which is its parent."""

    def __init__(self) -> None:
        ours, its = socket.socketpair()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the nursery
        try:
            with its:
                self._child = subprocess.Popen(
                    [sys.executable, "-m", "statediff_office.mail.sink"],
                    stdin=its.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=self._complaints,
                    env=allowed_environment(),
                )
        except BaseException:
            ours.close()
            raise
        self._requests = ours
        self._lock = threading.Lock()

    def fork(self, line: socket.socket, complaints: IO[bytes]) -> None:
        """It was asked for a sink at the other end of `line`. Raises `OSError` if it has ended."""
        with self._lock:
            socket.send_fds(self._requests, [b"\n"], [line.fileno(), complaints.fileno()])

    def pids(self) -> list[int]:
        """The process itself, which the sinks come from."""
        return [self._child.pid]

    def last_complaint(self) -> str:
        """The last thing that it complained of."""
        return _last_line(self._complaints)

    def end(self) -> None:
        """It has ended; the sinks it began have not."""
        self._requests.close()
        self._child.kill()
        self._child.wait()
        self._complaints.close()


_lock: Final = threading.Lock()
_nurseries: Final[dict[int, _Nursery]] = {}
"""By the process that it serves: who was forked has none yet."""


def begin() -> Sink:
    """A sink that listens. Raises `SandboxError` when none works for `START_SECONDS`."""
    said = ""
    for _ in range(_TRIES):
        nursery = _nursery()
        try:
            return _begin(nursery)
        except (OSError, ValueError) as error:
            said = str(error) or nursery.last_complaint()
            end_nursery(nursery)
    raise SandboxError(f"the outbox did not start: {said or 'it said nothing'}")


def end_nursery(which: _Nursery | None = None) -> None:
    """This process has no nursery, or no more that one; its sinks run on."""
    with _lock:
        nursery = _nurseries.get(os.getpid())
        if nursery is not None and which in (None, nursery):
            del _nurseries[os.getpid()]
            nursery.end()


atexit.register(end_nursery)


def _nursery() -> _Nursery:
    with _lock:
        if os.getpid() not in _nurseries:
            _nurseries[os.getpid()] = _Nursery()
        return _nurseries[os.getpid()]


def _begin(nursery: _Nursery) -> Sink:
    """Raises `OSError`, or `ValueError` with what the sink complained of, if it said anything."""
    token = secrets.token_bytes(32)
    handles: list[int] = []
    with contextlib.ExitStack() as undo, tempfile.TemporaryFile() as complaints:
        ours, its = socket.socketpair()
        undo.callback(ours.close)  # Ctrl-C while waiting must not leave the sink behind
        undo.callback(_close_all, handles)
        with its:
            nursery.fork(its, complaints)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the empty line says so
            ours.sendall(token.hex().encode() + b"\n")
        try:
            patience = Patience(nursery.pids, stall_seconds=START_SECONDS)
            ready = json.loads(_line(ours, handles, patience))
            ports = {"smtp": int(ready["smtp"]), "control": int(ready["control"])}
            sink = Sink(int(ready["pid"]), ports, token, ours, handles[0] if handles else None)
        except (ValueError, LookupError, TypeError) as error:
            raise ValueError(_last_line(complaints)) from error
        undo.pop_all()
        return sink


def _line(stream: socket.socket, handles: list[int], patience: Patience) -> bytes:
    """The first line, or what came of it before the end or a stall; `handles` are with it."""
    line = b""
    while not line.endswith(b"\n"):
        seen = select.poll()
        seen.register(stream, select.POLLIN)
        if not seen.poll(1000 * LOOK_SECONDS):
            if patience.is_over() is not None:
                break
            continue
        part, given, _, _ = socket.recv_fds(stream, _FIRST_LINE_BYTES, 1)
        handles += given
        if not part:
            break
        line += part
    return line


def _close_all(handles: list[int]) -> None:
    for handle in handles:
        os.close(handle)


def _last_line(file: IO[bytes]) -> str:
    file.seek(0)
    said = file.read(_SAID_BYTES).decode("utf-8", "replace").strip()
    return printable(said.rpartition("\n")[2][:200])
