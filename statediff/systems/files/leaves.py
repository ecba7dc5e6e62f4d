"""A tree of ours: what it holds, how it is put back, and a digest of all of it.

A file that was put back is not read again while it is of that version (`base.pristine`).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from statediff.model.values import printable
from statediff.systems.base.folders import make_folder
from statediff.systems.base.pristine import Version, version_of
from statediff.systems.files.owners import beside

FILE_MODE: Final = 0o600
EXECUTABLE_MODE: Final = 0o700
FOLDER_MODE: Final = 0o700
_PUT_BACK: Final = ("file", "folder", "link")
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
    beside: str = ""
    """An owner that is not ours, and attributes, in words; see `owners`."""

    @staticmethod
    def of(content: bytes, is_executable: bool = False, *, is_link: bool = False) -> Leaf:
        """A file, or a link to `content`."""
        digest = hashlib.sha256(content).hexdigest()
        mode = EXECUTABLE_MODE if is_executable else FILE_MODE
        kind, mode = ("link", 0) if is_link else ("file", mode)
        return Leaf(kind, mode, digest, content[:_START_BYTES], content)

    @staticmethod
    def folder() -> Leaf:
        return Leaf("folder", FOLDER_MODE)

    def summary(self) -> Leaf:
        """The same without its content: what `scan` finds where this was written."""
        return replace(self, content=b"")

    def words(self) -> str:
        """What it is, for people."""
        if self.kind == "link":
            return f"a link to {self.start.decode(errors='replace')!r}"
        about = f"{self.kind} of mode {self.mode:04o}{self.beside and f', {self.beside}'}"
        if self.kind != "file":
            return about
        also = "" if self.names == 1 else f" and {self.names} names"
        return f"{about}{also}, sha256 {self.digest[:10]}…"


Files = Mapping[str, Leaf]
"""Path relative to the tree's root, with `/`, → what is there."""


class OwnTree:
    """A folder that is put back, and what of it nobody has written to since."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._made: dict[str, tuple[Version, Leaf]] = {}

    def restore(self, files: Files) -> None:
        """The root holds `files` and nothing else. What nobody has touched stays.

        What differs is removed and made anew: nothing is followed, and nothing is written into.
        `OSError` where something cannot be removed, e.g. a folder that cannot be listed.
        """
        make_folder(self.root)
        found = self._looked_at(reads=False)
        kept: set[str] = set()
        for path, leaf in sorted(found.items()):
            wanted, above = files.get(path), path.rpartition("/")[0]
            if wanted is not None and wanted.summary() == leaf and (not above or above in kept):
                kept.add(path)
        for path in sorted(found.keys() - kept, reverse=True):
            (Path.rmdir if found[path].kind == "folder" else Path.unlink)(self.root / path)
        self._made = {path: made for path, made in self._made.items() if path in kept}
        for path in sorted(files.keys() - kept):
            version = _write(files[path], f"{self.root}/{path}")
            if version is not None:
                self._made[path] = version, files[path].summary()

    def held(self) -> dict[str, Leaf]:
        """What lies in it, with its content. `OSError` names what could not be put back so."""
        found = self.scan()
        for path, leaf in found.items():
            at = f"{self.root}/{path}"
            is_plain = leaf.kind in _PUT_BACK and not leaf.beside and leaf.names == 1
            if not is_plain or (leaf.kind == "folder" and leaf.mode & 0o700 != 0o700):
                raise OSError(f"{printable(path)} is {leaf.words()}, which is not put back")
            if leaf.kind == "link":
                found[path] = replace(leaf, content=os.fsencode(os.readlink(at)))  # noqa: PTH115 - bytes, as the link has them
            elif leaf.kind == "file":
                found[path] = replace(leaf, content=Path(at).read_bytes())
        return found

    def scan(self) -> dict[str, Leaf]:
        """What lies in it, links not followed; what cannot be read is there as `unreadable`."""
        return self._looked_at(reads=True)

    def _looked_at(self, *, reads: bool) -> dict[str, Leaf]:
        found: dict[str, Leaf] = {}
        pending = [""]
        while pending:
            inside = pending.pop()
            try:
                with os.scandir(f"{self.root}/{inside}") as entries:
                    for entry in entries:
                        path = inside + entry.name
                        found[path] = _look(entry, self._made.get(path), reads=reads)
                        if found[path].kind == "folder":
                            pending.append(f"{path}/")
            except OSError as error:
                found[inside.rstrip("/")] = Leaf(f"unreadable ({error.strerror})", 0)
        return found


def _write(leaf: Leaf, at: str) -> Version | None:
    """It is there; of a file, its version."""
    match leaf.kind:
        case "folder":
            os.mkdir(at, leaf.mode)  # noqa: PTH102 - at every reset, a hundred times
            if leaf.mode != FOLDER_MODE:
                os.chmod(at, leaf.mode)  # noqa: PTH101 - as above
        case "link":
            os.symlink(leaf.content, os.fsencode(at))  # noqa: PTH211 - as above
        case _:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            descriptor = os.open(at, flags, leaf.mode)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, leaf.mode)  # whatever the umask says
                file.write(leaf.content)
                file.flush()
                return version_of(os.fstat(descriptor))
    return None


def _look(entry: os.DirEntry[str], made: tuple[Version, Leaf] | None, *, reads: bool) -> Leaf:
    """What is there; a file that is not of the version that was made, only where it is read."""
    try:
        status = entry.stat(follow_symlinks=False)
        if made is not None and made[0] == version_of(status):
            return made[1]
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            return Leaf.of(os.fsencode(os.readlink(entry.path)), is_link=True).summary()  # noqa: PTH115 - bytes, as the link has them
        more = beside(os.fsencode(entry.path), status)
        if stat.S_ISDIR(status.st_mode):
            return Leaf("folder", mode, beside=more)
        if not stat.S_ISREG(status.st_mode) or not reads:
            return Leaf("other", mode, beside=more)
        descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            start = file.peek(_START_BYTES)[:_START_BYTES]
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return Leaf("file", mode, digest, start, names=status.st_nlink, beside=more)
    except OSError as error:
        return Leaf(f"unreadable ({error.strerror})", 0)


def files_digest(files: Files) -> str:
    """One digest of a whole tree: path, kind, mode and bytes of everything in it."""
    hasher = hashlib.sha256()
    for path, leaf in sorted(files.items()):
        more = f"\0{leaf.beside}" if leaf.beside else ""
        line = f"{path}\0{leaf.kind}\0{leaf.mode:o}\0{leaf.digest}{more}\n"
        hasher.update(line.encode("utf-8", "surrogateescape"))
    return hasher.hexdigest()
