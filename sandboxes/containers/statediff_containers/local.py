"""Servers as processes of this machine, each in a folder of its own, and gone when we are.

A server runs as another user where this process is root, in a session of its own, so that Ctrl-C
passes it by, and with no variable of ours. Its folder is below one of this process's (`Place`),
which says whose it is: a reaper removes that when this process is gone, however it ended, and what
a dead owner left all the same is removed by the next who makes one.

Less than a container keeps is kept: it sees this machine's network and files as its user does, and
only the memory of each of its processes is bounded.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from statediff.errors import SandboxError
from statediff.systems.base.folders import clear, give, inhabitants, remove
from statediff.systems.base.owner import Owner, dying_children
from statediff.systems.base.reaper import Reaper
from statediff_containers.box import END_SECONDS, Box

SENT: Final = {
    0,
    *(-n for n in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM)),
}
"""How a process that is killed or asked to end does end."""
_PREFIX: Final = "statediff-servers-"
_OWNER: Final = "owner"
_ROOT_BYTES: Final = 52
"""So that the path of a socket below it is no longer than the kernel takes."""
_END_SECONDS: Final = 8.0
_KNOWN_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.02
_LOG_BYTES: Final = 4 * 1024 * 1024


class Place:
    """The folder of this process's servers; got by `place`."""

    def __init__(self) -> None:
        _remove_of_the_dead()
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_root()))
        self.folder.chmod(0o711)  # its servers have another user
        (self.folder / _OWNER).write_text(Owner.current().label, encoding="ascii")
        self._reaper = Reaper(end_servers, str(self.folder))
        self._lock = threading.Lock()
        self._made = 0

    def new_folder(self, user: int) -> Path:
        """An empty folder, of the user's where we are root, which nobody else but root enters."""
        with self._lock:
            if not self._reaper.is_running():
                self._reaper = Reaper(end_servers, str(self.folder))
            self._made += 1
            folder = self.folder / str(self._made)
        folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            give(folder, user)
        return folder


def place() -> Place:
    """This process's. `SandboxError` where it can have none."""
    try:
        return _place_of(os.getpid())
    except OSError as error:
        raise SandboxError(f"no folder for servers can be made: {error}") from error


@cache
def _place_of(_pid: int) -> Place:
    return Place()


def end_servers(folder: str) -> None:
    """Nothing is left of the folder; its servers were asked to end at once, then killed.

    A server that is asked gives back what outlives its processes, e.g. shared memory.
    """
    for pid in _first_of(inhabitants(folder)):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGQUIT)
    deadline = time.monotonic() + _END_SECONDS
    while inhabitants(folder) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    clear(folder)


def _first_of(pids: list[int]) -> list[int]:
    """Those that no other of them began."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
            if int(text.rpartition(")")[2].split()[1]) not in pids:
                found.append(pid)
    return found


def _remove_of_the_dead() -> None:
    """No folder is left whose owner is certain to be dead; others' are not looked at."""
    for root in _roots():
        for folder in root.glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                entry = folder.lstat()
                if not stat.S_ISDIR(entry.st_mode) or entry.st_uid != os.geteuid():
                    continue
                owner = Owner.parse((folder / _OWNER).read_text(encoding="ascii"))
                if owner is not None and owner.is_dead():
                    end_servers(str(folder))


def _roots() -> list[Path]:
    roots = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]  # noqa: S108 - `mkdtemp` makes ours
    return [root for root in dict.fromkeys(roots) if root.is_dir()]


def _root() -> Path:
    """A root where paths are short and every user may enter."""
    for root in _roots():
        is_short = len(os.fsencode(root)) <= _ROOT_BYTES
        if is_short and may_enter(root) and os.access(root, os.W_OK):
            return root
    raise SandboxError("no folder for servers: neither TMPDIR nor /tmp nor /var/tmp can be used")


def may_enter(path: Path) -> bool:
    """True if any user reaches what is at the path."""
    whole = path.resolve()
    return all(each.stat().st_mode & 0o001 for each in (whole, *whole.parents))


@dataclass(frozen=True)
class Program:
    """A program that is started as a server."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    user: int = 0
    """Who it runs as, where this process is root; else it runs as this process does."""
    memory_bytes: int = 0
    """Of each of its processes; 0 for no limit."""
    asks_to_end: int = signal.SIGINT
    """The signal upon which it writes down all that it has, and ends."""


class LocalServer(Box):
    """A `Box`: a process of this machine, in a folder of its own."""

    def __init__(
        self, name: str, folder: Path, program: Program, written: Path, undo: Callable[[], None]
    ) -> None:
        """Starts it. `folder`: where it may write; `written`: below it, what `ended` gives.

        `undo` is called when it was killed: what it could not give back. Raises `SandboxError`.
        """
        super().__init__(name, folder)
        self._folder = folder
        self._program = program
        self.written = written
        self._undo = undo
        self._log = folder / "log"
        is_root = os.geteuid() == 0
        own = {"HOME": str(folder), "TMPDIR": str(folder), "PATH": os.defpath}
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    program.command,
                    cwd=folder,
                    env={**own, **program.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    user=program.user if is_root else None,
                    group=program.user if is_root else None,
                    extra_groups=[] if is_root else None,
                )
        except OSError as error:
            raise SandboxError(
                f"{name}: {program.command[0]} cannot be started: {error}"
            ) from error
        self.pid = self._process.pid
        if program.memory_bytes:
            with contextlib.suppress(OSError):  # it has ended, which `await_ready` says
                resource.prlimit(self.pid, resource.RLIMIT_AS, (program.memory_bytes,) * 2)

    @property
    def user(self) -> int | None:
        """Who it runs as; None where that is this process's own user."""
        return self._program.user if os.geteuid() == 0 else None

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def pids(self) -> list[int]:
        return [self.pid]

    def ended_by_others(self, door: str = "") -> str | None:
        deadline = time.monotonic() + _KNOWN_SECONDS
        while dying_children(self.pid) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        code = self._process.poll()
        return "its server ended" if code in SENT else None

    def is_starved(self) -> bool:
        """Nobody knows: what is killed for want of memory was killed by others."""
        return False

    def log(self, lines: int = 0) -> str:
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, self._log.stat().st_size - _LOG_BYTES))
                said = file.read().decode(errors="replace")
        except OSError as error:
            return f"(no log: {error.strerror})"
        last = "\n".join(said.split("\n")[-(lines or 12) - 1 :])
        return last if lines else last.strip()[-1200:] or "(it printed nothing)"

    def remove(self) -> None:
        self._close_ports()
        self._end(signal.SIGQUIT, _END_SECONDS)
        if not self._folder.exists():
            return
        if self._process.returncode == -signal.SIGKILL:
            clear(str(self._folder))  # those that it began may not have noticed yet
            return
        try:
            remove(self._folder)
        except OSError:
            clear(str(self._folder))

    def ended(self, seconds: float = END_SECONDS) -> Hashable | None:
        if self._end(self._program.asks_to_end, seconds) != 0:
            return None
        kept = self._folder.with_name(f"{self._folder.name}-kept")
        try:
            self.written.rename(kept)
        except OSError as error:
            raise SandboxError(f"{self.name}: what it wrote cannot be kept: {error}") from error
        return kept

    def _end(self, by: int, seconds: float) -> int | None:
        """It has ended; with which code."""
        if self._process.poll() is None:
            self._process.send_signal(by)
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.returncode == -signal.SIGKILL:
            self._undo()
        return self._process.returncode


def copy_tree(source: Path, target: Path, user: int) -> None:
    """`target` is a copy of the folder, the user's own where this process is root.

    Raises `OSError`, of the first file that could not be copied.
    """
    try:
        shutil.copytree(source, target, symlinks=True)
    except shutil.Error as error:
        raise OSError(error.args[0][0][2]) from error
    target.chmod(0o700)
    if os.geteuid() == 0:
        give(target, user)


def free_shared_memory(number: int) -> None:
    """The segment of System V's shared memory is gone, if there was one of ours."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).shmctl(number, 0, None)  # IPC_RMID
