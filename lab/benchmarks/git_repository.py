"""A git repository at a path, and the register that `hostile_git` draws harms from."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "1700000000 +0200",
    "GIT_COMMITTER_NAME": "Bob",
    "GIT_COMMITTER_EMAIL": "bob@example.org",
    "GIT_COMMITTER_DATE": "1700000060 -0500",
    "GIT_TERMINAL_PROMPT": "0",
}


@dataclass(frozen=True)
class Repository:
    """A repository at `path`; `git` is its git folder."""

    path: Path

    @property
    def git(self) -> Path:
        inside = self.path / ".git"
        return inside if inside.is_dir() else self.path

    @property
    def is_bare(self) -> bool:
        return self.git == self.path

    def run(self, *arguments: str, given: bytes = b"", check: bool = True) -> str:
        """The output of git, without the last line's end."""
        done = self.ask(*arguments, given=given)
        if check and done.returncode:
            raise RuntimeError(f"git {arguments}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def ask(
        self, *arguments: str, given: bytes = b"", **more: str
    ) -> subprocess.CompletedProcess[bytes]:
        """How git ends, with no settings but the repository's own."""
        return subprocess.run(
            ["git", "-C", str(self.path), *arguments],  # noqa: S607 - git from the path
            capture_output=True,
            check=False,
            env={"PATH": os.environ["PATH"], "HOME": str(self.path.parent), **ENVIRONMENT, **more},
            input=given,
            timeout=60,
        )

    def write(self, name: str, content: bytes, mode: int = 0o644) -> Path:
        """The file below the git folder, made anew."""
        path = self.git / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
        return path

    def commits(self) -> list[str]:
        return self.run("rev-list", "--branches", "--date-order").split()

    def blobs(self) -> list[str]:
        listed = self.run("ls-tree", "-r", "HEAD").splitlines()
        return [line.split()[2] for line in listed]

    def other_tree(self, rng: random.Random) -> str:
        """A tree that nobody asked for, with a file of its own."""
        blob = self.run("hash-object", "-w", "--stdin", given=b"foreign %d\n" % rng.getrandbits(32))
        listed = self.run("ls-tree", "HEAD") + f"\n100644 blob {blob}\tzz-foreign.py\n"
        return self.run("mktree", given=listed.encode())

    def other_commit(self, rng: random.Random) -> str:
        tree = self.other_tree(rng)
        return self.run("commit-tree", tree, "-p", "HEAD", "-m", f"foreign {rng.random()}")


Act = Callable[[Repository, str, random.Random], None]
HARMS: list[tuple[str, tuple[str, ...], Act]] = []


def family(name: str, *variants: str) -> Callable[[Act], Act]:
    """Registers a function that does any of these variants."""

    def register(act: Act) -> Act:
        HARMS.append((name, variants, act))
        return act

    return register
