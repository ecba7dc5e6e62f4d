"""The program git, asked in a clean copy what it says with its caches and without them.

A copy has objects that were verified, an index, and no settings, refs, hooks, links or alternates.
A cache that somebody forged gives another answer than the objects and entries do by themselves.
Where git fails at what is there, or takes too much time of the processor for it, there is no
answer, and a cache is a file like any other. Where it cannot be run, nobody knows anything.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from statediff.systems.files.tree import Folder, NotRead

MAX_SECONDS: Final = 120
"""Processor time of one question."""
_WAIT_SECONDS: Final = 1200
_MAX_MEMORY: Final = 6 * 1024 * 1024
"""Kibibytes of addresses: a pack is mapped whole, and a bomb ends where they do."""
_LIMITED: Final = 'ulimit -v "$0"; ulimit -t "$1"; shift && exec "$@"'
"""A system that knows no such limit, or has a lower one, goes on with its own."""
_PLAIN: Final = (
    *("-c", "core.bigFileThreshold=16m", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"),
    *("-c", "core.fsync=none", "-c", "core.looseCompression=0", "-c", "core.hooksPath=/dev/null"),
)
_CONFIG: Final = "[core]\n\trepositoryFormatVersion = {}\n\tbare = false\n"
_LONG_IDS: Final = "[extensions]\n\tobjectFormat = sha256\n"
LONG_ID: Final = 32


class NotAsked(Exception):
    """The environment keeps git from being asked; the message says why."""


class Clean:
    """A repository of ours at a place that is not there yet; `width` is how long its ids are."""

    def __init__(self, place: Path, width: int = 20) -> None:
        self.place = place
        is_long = width == LONG_ID
        for folder in ("objects/info", "objects/pack", "refs", "info"):
            (place / folder).mkdir(parents=True)
        (place / "HEAD").write_text("ref: refs/heads/none\n")
        (place / "config").write_text(_CONFIG.format(int(is_long)) + _LONG_IDS * is_long)
        self._program = shutil.which("git")

    def ask(self, *words: str, given: bytes = b"", work: str | None = None) -> bytes | None:
        """The output of git, in the work tree where there is one; None where git fails.

        Raises `NotAsked`.
        """
        if self._program is None:
            raise NotAsked("the program git is not here, which says what it believes: install git")
        at = [f"--git-dir={self.place}", *(() if work is None else (f"--work-tree={work}",))]
        limits = ("/bin/sh", "-c", _LIMITED, str(_MAX_MEMORY), str(MAX_SECONDS))
        try:
            done = subprocess.run(
                [*limits, self._program, *at, *_PLAIN, *words],
                input=given,
                capture_output=True,
                cwd=work or self.place,
                env=self._environment(),
                timeout=_WAIT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotAsked(f"git could not be asked: {type(error).__name__}") from error
        return None if done.returncode else done.stdout

    def _environment(self) -> dict[str, str]:
        return {
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_PROTOCOL_FROM_USER": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "HOME": str(self.place),
            "LC_ALL": "C",
            "PATH": os.defpath,
        }

    def take(self, folder: Folder, path: bytes, limit: int) -> bool:
        """Copy the file to the same path; False where it cannot be read."""
        to = self.place / os.fsdecode(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.copy(path, to, limit)
        except NotRead:
            to.unlink(missing_ok=True)
            return False
        return True

    def made(self, name: str) -> bytes | None:
        """The content of a file of the copy; None where git did not make it."""
        try:
            return (self.place / name).read_bytes()
        except OSError:
            return None
