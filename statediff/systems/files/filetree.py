"""Trees of files as values: put back from memory, looked at without following a link, compared."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from statediff.systems.base.folders import make_folder

FILE_MODE: Final = 0o600
EXECUTABLE_MODE: Final = 0o700
_START_BYTES: Final = 100


@dataclass(frozen=True)
class Leaf:
    """One file, folder or link. `content` is kept where it is to be written, not where found."""

    kind: str
    """`file`, `folder`, `link`, or `other` for a pipe, socket or device."""
    mode: int
    digest: str = ""
    start: bytes = b""
    """The first bytes, or a link's target."""
    content: bytes = b""
    names: int = 1
    """How many names a file has: one that another name leads to can be changed from there."""

    @staticmethod
    def of(content: bytes, is_executable: bool = False, *, is_link: bool = False) -> Leaf:
        """A file, or a link to `content`."""
        digest = hashlib.sha256(content).hexdigest()
        mode = EXECUTABLE_MODE if is_executable else FILE_MODE
        kind, mode = ("link", 0) if is_link else ("file", mode)
        return Leaf(kind, mode, digest, content[:_START_BYTES], content)

    @staticmethod
    def folder() -> Leaf:
        return Leaf("folder", 0o700)

    def summary(self) -> Leaf:
        """The same without its content: what `scan` finds where this was written."""
        return replace(self, content=b"")

    def words(self) -> str:
        """What it is, for people."""
        if self.kind == "link":
            return f"a link to {self.start.decode(errors='replace')!r}"
        about = f"{self.kind} of mode {self.mode:04o}"
        if self.kind != "file":
            return about
        also = "" if self.names == 1 else f" and {self.names} names"
        return f"{about}{also}, sha256 {self.digest[:10]}…"


Files = Mapping[str, Leaf]
"""Path relative to the tree's root, with `/`, → what is there."""


def restore(files: Files, root: Path) -> None:
    """`root` holds `files` and nothing else. What is as it should be is not touched.

    What differs is removed and made anew: nothing is followed, and nothing is written into.
    `OSError` where something cannot be removed, e.g. a folder that cannot be listed.
    """
    make_folder(root)
    found = scan(root)
    kept: set[str] = set()
    for path, leaf in sorted(found.items()):
        wanted = files.get(path)
        above = path.rpartition("/")[0]
        if wanted is not None and wanted.summary() == leaf and (not above or above in kept):
            kept.add(path)
    for path in sorted(found.keys() - kept, reverse=True):
        (Path.rmdir if found[path].kind == "folder" else Path.unlink)(root / path)
    for path in sorted(files.keys() - kept):
        _write(files[path], f"{root}/{path}")


def _write(leaf: Leaf, at: str) -> None:
    match leaf.kind:
        case "folder":
            os.mkdir(at, leaf.mode)  # noqa: PTH102 - at every reset, a hundred times
        case "link":
            os.symlink(leaf.content, os.fsencode(at))  # noqa: PTH211 - as above
        case _:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            descriptor = os.open(at, flags, leaf.mode)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, leaf.mode)  # whatever the umask says
                file.write(leaf.content)


def scan(root: Path) -> dict[str, Leaf]:
    """What lies under `root`, links not followed; what cannot be read is there as `unreadable`."""
    found: dict[str, Leaf] = {}
    pending = [""]
    while pending:
        inside = pending.pop()
        try:
            with os.scandir(f"{root}/{inside}") as entries:
                for entry in entries:
                    path = inside + entry.name
                    found[path] = _look(entry)
                    if found[path].kind == "folder":
                        pending.append(f"{path}/")
        except OSError as error:
            found[inside.rstrip("/")] = Leaf(f"unreadable ({error.strerror})", 0)
    return found


def _look(entry: os.DirEntry[str]) -> Leaf:
    try:
        status = entry.stat(follow_symlinks=False)
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            return Leaf.of(os.fsencode(os.readlink(entry.path)), is_link=True).summary()  # noqa: PTH115
        if stat.S_ISDIR(status.st_mode):
            return Leaf("folder", mode)
        if not stat.S_ISREG(status.st_mode):
            return Leaf("other", mode)
        descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            start = file.peek(_START_BYTES)[:_START_BYTES]
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return Leaf("file", mode, digest, start, names=status.st_nlink)
    except OSError as error:
        return Leaf(f"unreadable ({error.strerror})", 0)


def digest_of(files: Files) -> str:
    """One digest of a whole tree: path, kind, mode and bytes of everything in it."""
    hasher = hashlib.sha256()
    for path, leaf in sorted(files.items()):
        line = f"{path}\0{leaf.kind}\0{leaf.mode:o}\0{leaf.digest}\n"
        hasher.update(line.encode("utf-8", "surrogateescape"))
    return hasher.hexdigest()
