"""A participant for the kit whose transaction is a push by git itself.

The push waits in a hook `pre-receive` of the test's (`HOOK`), while what it would do is read from
its objects in quarantine; then the hook says yes or no, and git does the rest.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from statediff_gate.course import Prepared
from statediff_gate.participant import Answer, Refused
from statediff_gate.repository import GitGate, process

HOOK: Final = """#!/bin/sh
cat > {at}/lines
echo "$(basename "$GIT_QUARANTINE_PATH") $PPID" > {at}/said && mv {at}/said {at}/ready
while kill -0 "$(cat {at}/pid)" && [ ! -e {at}/go ]; do sleep 0.02; done 2> /dev/null
exit "$(cat {at}/go)"
"""
"""It waits in the folder `at` for the word, as long as the process `pid` is there."""
_PERSON: Final = {
    "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org",
}  # fmt: skip


class Pushed(GitGate):
    """The adapter, whose transaction is a push by git that waits in a hook of the test's."""

    def __init__(self, place: Path) -> None:
        self._place, self._work = place, place.parent / "work"
        self._push: subprocess.Popen[bytes] | None = None
        while quarantine(place):  # of a push whose gate was killed
            time.sleep(0.05)
        super().__init__("origin", place, None, place.parent / "kept")

    def begin(self, transaction: str) -> None:
        self._specs: list[str] = []
        _git(self._place.parent, "clone", "-q", str(self._place), str(self._work))

    def run(self, statement: str, values: object = ()) -> Answer:
        command, *words = shlex.split(statement)
        if command == "push":
            self._specs += words
            return Answer()
        _git(self._work, command, *words)
        return Answer()

    def prepare(self) -> Prepared:
        at = self._work / ".git" / "hook"
        at.mkdir()
        (at / "pid").write_text(str(os.getpid()))
        words = ["git", "-C", str(self._work), "push", "-q", "--atomic", "origin"]
        self._push = subprocess.Popen([*words, *(self._specs or ["main"])])
        while self._push.poll() is None and not (at / "ready").exists():
            time.sleep(0.01)
        said, lines = ("", "", str(os.getpid())), ""
        if (at / "ready").exists():
            said, lines = (at / "ready").read_text().partition(" "), (at / "lines").read_text()
        kept, owner = self._place.parent / "kept", process(int(said[2]))
        super().__init__("origin", self._place, None, kept, said[0].encode(), owner)
        for old, new, name in (line.split() for line in lines.splitlines()):
            super().run(f"{name} {old} {new}")
        return super().prepare()

    def commit(self) -> None:
        super().commit()
        if self._end(0):
            raise Refused("git did not make the push that was allowed")

    def abort(self) -> None:
        super().abort()
        self._end(1)

    def _end(self, code: int) -> int:
        push, self._push = self._push, None
        if push is not None:
            (self._work / ".git" / "hook" / "go").write_text(str(code))
        ended = 0 if push is None else push.wait(60)
        shutil.rmtree(self._work, ignore_errors=True)
        return ended

    close = abort


def quarantine(place: Path) -> list[str]:
    """The names of the folders of pushes that are not decided."""
    return [each.name for each in (place / "objects").glob("*objdir*")]


def _git(folder: Path, *words: str) -> None:
    """Run git in the folder. Raises `Refused`."""
    asked = ("git", "-C", str(folder), *words)
    given = {**os.environ, **_PERSON}
    done = subprocess.run(asked, check=False, capture_output=True, text=True, env=given)
    if done.returncode:
        raise Refused(done.stderr)
