"""A process that is known again after it is dead: whose things they are that it left behind.

Others use a pid again, so the owner's label has the time at which the process started too; a
machine that was started anew has none of its old processes. Only Linux shows all of this.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
STARTED_FIELD: Final = 19
"""The field of /proc/PID/stat, counted behind the name, which may hold blanks, and the state."""


@dataclass(frozen=True)
class Owner:
    """One process: its number, when it started, and where numbers mean what they mean."""

    pid: int
    started: int
    """In ticks since the machine started."""
    namespace: int
    """The namespace of process numbers: a container's are not the machine's."""
    boot: str

    @property
    def label(self) -> str:
        """The text that `parse` reads back; fit for a file's name."""
        return f"{self.pid}-{self.started}-{self.namespace}-{self.boot}"

    @staticmethod
    def current() -> Owner:
        """This process."""
        return _of(os.getpid())

    @staticmethod
    def parse(label: str) -> Owner | None:
        """The owner that a label names; None if it names none."""
        pid, _, rest = label.partition("-")
        started, _, rest = rest.partition("-")
        namespace, _, boot = rest.partition("-")
        if not (boot and all(part.isdecimal() for part in (pid, started, namespace))):
            return None
        return Owner(int(pid), int(started), int(namespace), boot)

    def is_dead(self) -> bool:
        """True if it is certain that the process is gone; what cannot be known is False."""
        if self.boot != _boot():
            return True
        if self.namespace != _namespace():
            return False
        return started_at(self.pid) != self.started


@cache
def _of(pid: int) -> Owner:
    return Owner(pid, started_at(pid) or 0, _namespace(), _boot())


@cache
def _boot() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip().replace("-", "")


@cache
def _namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def stat_of(pid: int) -> tuple[str, list[int]] | None:
    """The state of a process and the numbers that follow it; None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()
    return state, [int(each) for each in rest]


def started_at(pid: int) -> int | None:
    """When the process started, in ticks of this machine; None if it is gone or only a zombie."""
    found = stat_of(pid)
    return None if found is None or found[0] in ("Z", "X") else found[1][STARTED_FIELD - 1]


EXITING: Final = 0x4
"""The kernel's flag of what has begun to die: its files are closed some time before it is gone."""
_PARENT_FIELD: Final = 1
_FLAGS_FIELD: Final = 6


def dying_children(pid: int) -> list[int]:
    """Processes that this one began and that have died, or begun to, of which it may not know."""
    found = []
    for each in (int(entry.name) for entry in Path("/proc").glob("[0-9]*")):
        state, rest = stat_of(each) or ("", [])
        is_child = bool(rest) and rest[_PARENT_FIELD - 1] == pid
        if is_child and (state in ("Z", "X") or rest[_FLAGS_FIELD - 1] & EXITING):
            found.append(each)
    return found
