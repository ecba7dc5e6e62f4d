"""The state of a seeded run as a git repository: its worktree by files, its history by git."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from statediff_lab.audit import folders
from statediff_lab.audit.folders import Refused, Unwritable
from statediff_lab.importers.recorded import SeededChange

WRITTEN: Final = frozenset({"git.file", "git.ref", "git.work_file"})
"""What a run writes of a repository; all else follows from that."""
_SOMEBODY: Final = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "a"), ("EMAIL", "a@example.org"), ("DATE", "@1000000000 +0000"))
}


def write_changes(root: Path, changes: Sequence[SeededChange]) -> None:
    """The repository holds the changes. Raises `Unwritable`."""
    for change in changes:
        if change.type == "git.ref":
            _write_ref(root, change)
        elif change.type == "git.file":
            _commit(root, change)
    folders.write_entries(root, [each for each in changes if each.type == "git.work_file"])


def _write_ref(root: Path, change: SeededChange) -> None:
    [name] = change.key
    if change.after is None:
        _git(root, "update-ref", "-d", str(name))
    elif isinstance(target := change.after.get("target"), str):
        _git(root, "update-ref", str(name), target)
    else:
        raise Unwritable("it is a name for another name")


def _commit(root: Path, change: SeededChange) -> None:
    """The branch has one more commit, made beside the worktree."""
    branch, path = map(str, change.key)
    with tempfile.TemporaryDirectory() as folder:
        own = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        _git(root, "read-tree", branch, own=own)
        if change.after is None:
            _git(root, "update-index", "--force-remove", path, own=own)
        elif isinstance(text := change.after.get("text"), str):
            if change.before is not None and change.before.get("text") == text:
                text += "\0"  # other content, whatever it is
            blob = _git(root, "hash-object", "-w", "--stdin", given=text)
            entry = f"{change.after['mode']},{blob},{path}"
            _git(root, "update-index", "--add", "--cacheinfo", entry, own=own)
        else:
            raise Unwritable("it is not known as text")
        tree = _git(root, "write-tree", own=own)
        commit = _git(root, "commit-tree", tree, "-p", branch, "-m", "a change", own=_SOMEBODY)
    _git(root, "update-ref", f"refs/heads/{branch.removeprefix('refs/heads/')}", commit)


def _git(root: Path, *words: str, own: Mapping[str, str] | None = None, given: str = "") -> str:
    done = subprocess.run(
        [shutil.which("git") or "git", "-C", str(root), "-c", "core.hooksPath=/dev/null", *words],
        input=given.encode(), capture_output=True, env={**os.environ, **(own or {})}, check=False,
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise Refused(f"git refuses it: {said[:200]}")
    return done.stdout.decode().strip()
