"""A tree of ours: what it holds, how it is put back, and a digest of all of it.

Each folder is opened within the one above it, and what is in it is reached from there: nobody leads
a reset out of the tree, by a link or a mount, while it runs. No time of a file stands for its
content: a program that has it open can write without one that moves.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from statediff.model.values import printable
from statediff.systems.base.folders import discard, inner_folder, make_folder
from statediff.systems.base.pristine import version_of
from statediff.systems.files.owners import beside, entry_path

FILE_MODE: Final = 0o600
EXECUTABLE_MODE: Final = 0o700
FOLDER_MODE: Final = 0o700
_PUT_BACK: Final = ("file", "folder", "link")
_START_BYTES: Final = 100
MAX_DEPTH: Final = 200
"""Folders within each other; each of them is one open descriptor."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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


def restore(files: Files, root: Path) -> None:
    """The root holds `files` and nothing else. What is as it should be stays, by its content.

    What differs is removed and made anew: nothing is followed, nothing is written into, and what
    somebody mounts there is not entered. `OSError` where something cannot be removed.
    """
    make_folder(root)
    found = scan(root)
    kept = {path for path, leaf in files.items() if found.get(path) == leaf.summary()}
    below: dict[str, list[str]] = {}
    for path in sorted(files):
        above, _, name = path.rpartition("/")
        below.setdefault(above, []).append(name)
    top = os.open(root, _FOLDER)
    try:
        _put(top, "", files, below, kept)
    finally:
        os.close(top)


def _put(
    folder: int, at: str, files: Files, below: Mapping[str, list[str]], kept: set[str]
) -> None:
    """The open folder at the path is as in `files`; what is `kept` stays."""
    names = below.get(at, ())
    start = at and f"{at}/"
    there = {name for name in names if start + name in kept}
    present = set(os.listdir(folder))
    for name in present - there:
        discard(name, folder)
    for name in names:
        path = start + name
        leaf, is_new = files[path], name not in there & present
        if is_new:
            _write(leaf, name, folder)
        if leaf.kind == "folder":
            inner = inner_folder(name, folder)
            try:
                if is_new:
                    os.fchmod(inner, leaf.mode)  # whatever the umask says
                _put(inner, path, files, below, kept)
            finally:
                os.close(inner)


def scan(root: Path) -> dict[str, Leaf]:
    """What lies there, links not followed; what cannot be read is there as `unreadable`."""
    return {path: leaf.summary() for path, leaf in _found(root, keeps=False)}


def held(root: Path) -> dict[str, Leaf]:
    """What lies there, with its content. `OSError` names what could not be put back so."""
    found = dict(_found(root, keeps=True))
    for path, leaf in found.items():
        is_plain = leaf.kind in _PUT_BACK and not leaf.beside and leaf.names == 1
        if not is_plain or (leaf.kind == "folder" and leaf.mode & 0o700 != 0o700):
            raise OSError(f"{printable(path)} is {leaf.words()}, which is not put back")
    return found


def _found(root: Path, *, keeps: bool) -> Iterator[tuple[str, Leaf]]:
    try:
        top = os.open(root, _FOLDER)
    except OSError as error:
        yield "", _unreadable(error)
        return
    try:
        yield from _inside(top, "", keeps=keeps)
    except OSError as error:
        yield "", _unreadable(error)
    finally:
        os.close(top)


def _inside(folder: int, start: str, depth: int = 0, *, keeps: bool) -> Iterator[tuple[str, Leaf]]:
    """Path → what is there, of all that lies in the open folder."""
    with os.scandir(folder) as listed:
        entries = list(listed)
    for entry in entries:
        path = start + entry.name
        leaf = _look(entry, folder, keeps=keeps)
        yield path, leaf
        if leaf.kind != "folder":
            continue
        try:
            if depth >= MAX_DEPTH:
                raise OSError(errno.ENAMETOOLONG, f"deeper than {MAX_DEPTH} folders")
            inner = inner_folder(entry.name, folder, is_ours=False)
            try:
                yield from _inside(inner, f"{path}/", depth + 1, keeps=keeps)
            finally:
                os.close(inner)
        except OSError as error:
            yield path, _unreadable(error)


def _unreadable(error: OSError) -> Leaf:
    return Leaf(f"unreadable ({error.strerror})", 0)


def _write(leaf: Leaf, name: str, folder: int) -> None:
    match leaf.kind:
        case "folder":
            os.mkdir(name, FOLDER_MODE, dir_fd=folder)
        case "link":
            os.symlink(leaf.content, os.fsencode(name), dir_fd=folder)
        case _:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name, flags, leaf.mode, dir_fd=folder)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, leaf.mode)  # whatever the umask says
                file.write(leaf.content)


def _look(entry: os.DirEntry[str], folder: int, *, keeps: bool) -> Leaf:
    try:
        status = entry.stat(follow_symlinks=False)
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            return Leaf.of(os.readlink(os.fsencode(entry.name), dir_fd=folder), is_link=True)
        more = beside(entry_path(folder, os.fsencode(entry.name)), status)
        if stat.S_ISDIR(status.st_mode):
            return Leaf("folder", mode, beside=more)
        if not stat.S_ISREG(status.st_mode):
            return Leaf("other", mode, beside=more)
        descriptor = os.open(entry.name, _FILE, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as file:
            start = file.peek(_START_BYTES)[:_START_BYTES]
            content = file.read() if keeps else b""
            digest = (
                hashlib.sha256(content).hexdigest()
                if keeps
                else hashlib.file_digest(file, "sha256").hexdigest()
            )
            if version_of(os.fstat(descriptor)) != version_of(status):
                return Leaf("unreadable (it changed meanwhile)", 0)
            return Leaf("file", mode, digest, start, content, status.st_nlink, more)
    except OSError as error:
        return _unreadable(error)


def files_digest(files: Files) -> str:
    """One digest of a whole tree: path, kind, mode and bytes of everything in it."""
    hasher = hashlib.sha256()
    for path, leaf in sorted(files.items()):
        more = f"\0{leaf.beside}" if leaf.beside else ""
        line = f"{path}\0{leaf.kind}\0{leaf.mode:o}\0{leaf.digest}{more}\n"
        hasher.update(line.encode("utf-8", "surrogateescape"))
    return hasher.hexdigest()
