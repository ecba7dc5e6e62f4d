"""The commands of an external system: started without a shell, and ended as a group.

One without a limit of its own may take as long as it works (`base.waiting`). Nothing of a command
outlives its time or Ctrl-C: its process group is killed. The last lines that it wrote are kept for
the message.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from statediff.errors import SandboxError
from statediff.model.values import printable
from statediff.systems.base.waiting import LOOK_SECONDS, Patience

_SAID: Final = 4096


@dataclass(frozen=True)
class Ended:
    """How a command ended. `code` is None where nobody waited any longer."""

    code: int | None
    said: str
    """The last lines that it wrote, on one line."""
    why: str = ""
    """Why nobody waited any longer."""


def end_of(
    words: Sequence[str],
    folder: Path,
    seconds: float | None,
    environment: Mapping[str, str] | None = None,
    *,
    given: bytes = b"",
    output: IO[bytes] | None = None,
) -> Ended:
    """How the command ended, alone or because its time was up. `OSError` if it cannot start.

    `seconds` is its time; None: as long as it works. It reads `given`; with `output`, what it
    prints goes there, and what it says is its errors.
    """
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as stdin:
        stdin.write(given)
        stdin.seek(0)
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=stdin,
            stdout=said if output is None else output,
            stderr=said,
            start_new_session=True,
        )
        try:
            code, why = _wait(process, seconds, said)
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        size = said.seek(0, os.SEEK_END)
        said.seek(max(0, size - _SAID))
        text = said.read().decode(errors="replace").strip()
        last = "; ".join(line.strip() for line in text.splitlines()[-3:] if line.strip())
        return Ended(code, printable(last)[:500], why)


def _wait(
    process: subprocess.Popen[bytes], seconds: float | None, said: IO[bytes]
) -> tuple[int | None, str]:
    """The exit code, or None and why nobody waits any longer."""
    if seconds is not None:
        try:
            return process.wait(seconds), ""
        except subprocess.TimeoutExpired:
            return None, f"took more than {seconds:g} s; raise `timeout:`"
    patience = Patience(lambda: [process.pid], lambda: os.fstat(said.fileno()).st_size)
    while True:
        try:
            return process.wait(LOOK_SECONDS), ""
        except subprocess.TimeoutExpired:
            if (why := patience.is_over()) is not None:
                return None, f"was ended: {why}; `timeout:` gives it a time of its own"


def run_command(
    name: str,
    command: str,
    folder: Path,
    seconds: float | None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """The command has ended well; `SandboxError` says how it did not, with its last words."""
    try:
        ended = end_of(shlex.split(command), folder, seconds, environment)
    except ValueError as error:
        raise SandboxError(f"{name}: `{printable(command)}` cannot be split: {error}") from error
    except OSError as error:
        raise SandboxError(
            f"{name}: `{printable(command)}` cannot be started in {folder}: {error.strerror}"
        ) from error
    code, last = ended.code, ended.said
    if code is None:
        raise SandboxError(f"{name}: `{printable(command)}` {ended.why}{last and ': '}{last}")
    if code:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise SandboxError(f"{name}: `{printable(command)}` {how}{last and ': '}{last}")


def clean_up(name: str, command: str, folder: str, seconds: str) -> None:
    """Do the work of `down`, where the process that was to call it is gone."""
    with contextlib.suppress(SandboxError):
        run_command(name, command, Path(folder), float(seconds) if seconds else None)


def lock(name: str, place: str) -> int:
    """An open lock of this machine: while it is open, nobody else uses the system.

    `SandboxError` where somebody does. The kernel takes it back however this process ends.
    """
    folder = Path(tempfile.gettempdir()) / f"statediff-locks-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.lstat().st_uid != os.geteuid():
            raise SandboxError(f"{folder}: belongs to another user; remove it")
        path = folder / hashlib.sha256(place.encode()).hexdigest()[:32]
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise SandboxError(f"{name}: cannot be locked: {error}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise SandboxError(
            f"{name}: is in use by another run; an external system takes one trial at a time"
        ) from error
    return handle
