"""Directories read without following links: every entry with its kind, mode, digest and target.

A folder is opened component by component, each relative to the open folder above it and none of
them through a link, so that nobody can lead the walk out of the tree while it runs. Only regular
files are opened: a pipe, a socket or a device is an entry, never something to wait on. What cannot
be read, what is too large, and what changes while it is read is said with its cause; a limit makes
the tree incomplete, never shorter.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Final, Self

from statediff.errors import StatediffError
from statediff.model.explanation import unread_because
from statediff.model.values import Map, Unobserved, printable
from statediff.systems.base.folders import is_mounted, is_of_the_path
from statediff.systems.base.pristine import version_of
from statediff.systems.files.owners import (
    NOTHING,
    OWN,
    attributes,
    entry_path,
    owner_of,
)

BLOCK_BYTES: Final = 1024 * 1024
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class NotRead(StatediffError):
    """A file or folder could not be read; the message is the cause."""


class EntryKind(Enum):
    """The kind of thing under a name in a folder."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    FIFO = "fifo"
    SOCKET = "socket"
    DEVICE = "device"


@dataclass(frozen=True)
class Limits:
    """How much of a tree is read; what lies beyond is unobserved."""

    entries: int = 100_000
    depth: int = 200
    """Folders inside each other; each of them is one open descriptor during the walk."""
    path_bytes: int = 4096
    file_bytes: int = 64 * 1024 * 1024
    total_bytes: int = 1024 * 1024 * 1024
    content_bytes: int = 64 * 1024
    """Files up to this size are kept with their content."""
    enters_mounts: bool = True
    """A folder of the same file system that is mounted in the tree is read like any other."""


@dataclass(frozen=True)
class Entry:
    """One entry of a tree. `path` is relative, its parts joined by `/`, as the bytes it is."""

    path: bytes
    kind: EntryKind
    mode: int
    """Type and permission bits, as `stat` gives them."""
    size: int
    """Bytes of a file, 0 for everything else."""
    digest: str | None = None
    """SHA-256 of a file's content, hex; None for other kinds and where `cause` says why."""
    content: bytes | None = None
    """The content of a small file (`Limits.content_bytes`)."""
    target: bytes | None = None
    """The target of a link, as text; it is never looked up."""
    device: int | None = None
    """The number of a device."""
    is_empty: bool = False
    """A directory in which nothing was found, and that was read to its end."""
    cause: str | None = None
    """Why its content, its target or what lies in it is not known."""
    owner: str = OWN
    group: str = OWN
    attributes: Map | Unobserved = NOTHING
    """Extended attributes, access lists and capabilities by name; see `owners`."""
    names: int = 1
    """How many names a file has: one that another name leads to can be changed from there."""


@dataclass(frozen=True)
class Tree:
    """The entries found below a folder, sorted by path.

    `gaps` is why entries may be missing, each with how the paths of those begin; empty means that
    there are no others. A file that could not be read is an entry with its own cause, and no gap.
    """

    entries: tuple[Entry, ...]
    gaps: tuple[tuple[bytes, str], ...]
    linked: Mapping[bytes, bytes] = field(default_factory=dict)
    """File → the first path, by order, of those below the folder that lead to the same file."""

    @property
    def causes(self) -> tuple[str, ...]:
        """Why entries may be missing, each cause once."""
        return tuple(dict.fromkeys(cause for _, cause in self.gaps))


@dataclass
class _Walk:
    limits: Limits
    leave_out: frozenset[bytes]
    device: int
    bytes_left: int
    entries: list[Entry] = field(default_factory=list)
    gaps: list[tuple[bytes, str]] = field(default_factory=list)
    is_full: bool = False
    names: dict[tuple[int, int], list[bytes]] = field(default_factory=dict)
    """Device and number of each file with several names → those below the folder."""


class Folder:
    """An open directory. What is below it is never reached through a link.

    Paths are bytes relative to it. Every method raises `NotRead` with the cause.
    """

    def __init__(self, descriptor: int, name: str, path: Path | None = None) -> None:
        self._fd, self._name = descriptor, name
        self.path = path  # where it was opened, if by a path

    @classmethod
    def open(cls, path: Path) -> Folder:
        """The folder at `path`, which itself may not be a link."""
        return cls(_open_entry(os.fsencode(path), None, _FOLDER, path.name), path.name, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def itself(self) -> Entry:
        """The folder as an entry, with an empty path."""
        status = os.fstat(self._fd)
        owner, group = owner_of(status)
        found = attributes(entry_path(self._fd, b"."))
        return Entry(
            b"", EntryKind.DIRECTORY, status.st_mode, 0, owner=owner, group=group, attributes=found
        )

    def attributes(self, path: bytes) -> Map | Unobserved:
        """Extended attributes, access lists and flags of what stands at `path`; see `owners`."""
        with self._parent(path) as (parent, name):
            return attributes(entry_path(parent, name or b"."))

    def kind(self, path: bytes) -> EntryKind | None:
        """The kind of thing at `path`; None when there is none."""
        found = self.look(path)
        return None if found is None else found.kind

    def look(self, path: bytes) -> Entry | None:
        """The entry at `path`, without its content; None when there is none."""
        status = self.status(path)
        if status is None:
            return None
        kind = _kind(status.st_mode)
        names = status.st_nlink if kind is EntryKind.FILE else 1
        return Entry(path, kind, status.st_mode, status.st_size, names=names)

    def status(self, path: bytes) -> os.stat_result | None:
        """The file system's facts of the entry at `path`; None when there is none."""
        with (
            _explained(shown(path), "read"),
            suppress(FileNotFoundError),
            self._parent(path) as (parent, name),
        ):
            return os.lstat(name or b".", dir_fd=parent)
        return None

    def folder(self, path: bytes) -> Folder:
        """The folder at `path`, open."""
        try:
            with self._parent(path) as (parent, name):
                return Folder(_open_entry(name, parent, _FOLDER, shown(path)), shown(path))
        except FileNotFoundError as error:
            raise NotRead(f"{shown(path)} is not there") from error

    def read(self, path: bytes, limit: int) -> bytes | None:
        """The whole content of the regular file at `path`; None when nothing is there."""
        with _explained(shown(path), "read"), suppress(FileNotFoundError):
            return b"".join(self._content(path, limit))
        return None

    def copy(self, path: bytes, to: Path, limit: int) -> int:
        """How many bytes the regular file at `path` has, now also in the new file `to`."""
        with _explained(shown(path), "copied"), to.open("xb") as copied:
            return sum(copied.write(block) for block in self._content(path, limit))

    def _content(self, path: bytes, limit: int) -> Iterator[bytes]:
        with self._parent(path) as (parent, name):
            status = os.lstat(name, dir_fd=parent)
            if stat.S_ISREG(status.st_mode) and status.st_size > limit:
                raise NotRead(f"{shown(path)} is larger than {limit} bytes")
            yield from _blocks(parent, name, status, path)

    def target(self, path: bytes) -> bytes:
        """The target of the link at `path`."""
        with _explained(shown(path), "read"), self._parent(path) as (parent, name):
            return os.readlink(name, dir_fd=parent)

    def names(self) -> list[bytes]:
        """The names in the folder, sorted; none of them need still be there."""
        with _explained(printable(self._name), "listed"):
            return _names(self._fd)

    def tree(self, limits: Limits | None = None, leave_out: frozenset[bytes] = frozenset()) -> Tree:
        """Everything below the folder, without the paths `leave_out` and what lies in them."""
        limits = limits or Limits()
        walk = _Walk(limits, leave_out, os.fstat(self._fd).st_dev, limits.total_bytes)
        cause = _descend(walk, self._fd, b"", 0)[1]
        if cause is not None:
            walk.gaps.append((b"", cause))
        entries = tuple(sorted(walk.entries, key=lambda entry: entry.path))
        linked = {name: min(own) for own in walk.names.values() for name in own if name != min(own)}
        return Tree(entries, tuple(walk.gaps), linked)

    @contextmanager
    def _parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        """The open folder that holds the last part of `path`, and that part."""
        *above, name = path.split(b"/")
        current = self._fd
        try:
            for part in above:
                deeper = _open_entry(part, current, _FOLDER, shown(path))
                if current != self._fd:
                    os.close(current)
                current = deeper
            yield current, name
        finally:
            if current != self._fd:
                os.close(current)


def shown(path: bytes) -> str:
    """A path for a message: shortened, and nothing in it reaches a terminal as it is."""
    text = printable(path[:200].decode("utf-8", "backslashreplace"))
    return text if len(path) <= 200 else text + "…"


def text_or_bytes(stored: bytes) -> str | bytes:
    """The text that UTF-8 bytes are; other bytes as they are."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def small_text(content: bytes | None) -> str | None:
    """The text of a small file; None where it is large or not UTF-8."""
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return None


def _open_entry(path: bytes, parent: int | None, flags: int, shown_as: str) -> int:
    try:
        return os.open(path, flags, dir_fd=parent)
    except FileNotFoundError:
        if parent is None:
            raise NotRead(f"{printable(shown_as)} is not there") from None
        raise
    except NotADirectoryError as error:  # a link too: O_DIRECTORY is looked at first
        raise NotRead(f"{printable(shown_as)} is not a folder, or a link to one") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise NotRead(f"{printable(shown_as)} cannot be opened: {reason}") from error


def _refusal(what: str, done: str, error: OSError) -> str:
    cause = f"{what} cannot be {done}: {error.strerror}"
    return cause if is_of_the_path(error) else unread_because(cause)


@contextmanager
def _explained(what: str, done: str) -> Iterator[None]:
    """An error of the system is `NotRead`, with the cause."""
    try:
        yield
    except OSError as error:
        raise NotRead(_refusal(what, done, error)) from error


def _names(folder: int) -> list[bytes]:
    return sorted(os.fsencode(name) for name in os.listdir(folder))


_KINDS: Final = {
    stat.S_IFREG: EntryKind.FILE,
    stat.S_IFDIR: EntryKind.DIRECTORY,
    stat.S_IFLNK: EntryKind.LINK,
    stat.S_IFIFO: EntryKind.FIFO,
    stat.S_IFSOCK: EntryKind.SOCKET,
}


def _kind(mode: int) -> EntryKind:
    return _KINDS.get(stat.S_IFMT(mode), EntryKind.DEVICE)


def _blocks(parent: int, name: bytes, status: os.stat_result, path: bytes) -> Iterator[bytes]:
    """The content of the regular file that `status` describes; `NotRead` if it changes."""
    if not stat.S_ISREG(status.st_mode):
        raise NotRead(f"{shown(path)} is a {_kind(status.st_mode).value}, not a file")
    with _explained(shown(path), "opened"):
        descriptor = os.open(name, _FILE, dir_fd=parent)
    try:
        if version_of(os.fstat(descriptor)) != version_of(status):
            raise NotRead(unread_because(f"{shown(path)} changed while it was read"))
        left = status.st_size
        while left >= 0:
            block = os.read(descriptor, min(left + 1, BLOCK_BYTES))
            if not block:
                break
            left -= len(block)
            yield block
        if left or version_of(os.fstat(descriptor)) != version_of(status):
            raise NotRead(unread_because(f"{shown(path)} changed while it was read"))
    except OSError as error:
        raise NotRead(_refusal(shown(path), "read", error)) from error
    finally:
        os.close(descriptor)


def _descend(walk: _Walk, folder: int, path: bytes, depth: int) -> tuple[bool, str | None]:
    """All that is below an open folder is in `walk`: whether it is empty, and what hid entries."""
    before = os.fstat(folder)
    try:
        names = _names(folder)
    except OSError as error:
        return False, _refusal(shown(path) or "the folder", "listed", error)
    for name in names:
        below = path + b"/" + name if path else name
        if below in walk.leave_out:
            continue
        if len(walk.entries) >= walk.limits.entries:
            if not walk.is_full:
                walk.gaps.append((b"", f"there are more than {walk.limits.entries} entries"))
            walk.is_full = True
            break
        if len(below) > walk.limits.path_bytes:
            why = f"{shown(below)} is longer than {walk.limits.path_bytes} bytes"
            walk.gaps.append((below, why))
            continue
        try:
            status = os.lstat(name, dir_fd=folder)
        except OSError as error:
            walk.gaps.append((below, _refusal(shown(below), "read", error)))
            continue
        _visit(walk, folder, name, below, status, depth)
    if not walk.is_full and version_of(os.fstat(folder)) != version_of(before):
        return not names, unread_because(f"{shown(path) or 'the folder'} changed while it was read")
    return not names, None


def _visit(
    walk: _Walk, parent: int, name: bytes, path: bytes, status: os.stat_result, depth: int
) -> None:
    kind = _kind(status.st_mode)
    mode = status.st_mode
    at = len(walk.entries)
    if kind is EntryKind.FILE:
        walk.entries.append(_file(walk, parent, name, path, status))
        if status.st_nlink > 1:
            walk.names.setdefault((status.st_dev, status.st_ino), []).append(path)
    elif kind is EntryKind.LINK:
        try:
            target, cause = os.readlink(name, dir_fd=parent), None
        except OSError as error:
            target, cause = None, _refusal(shown(path), "read", error)
        walk.entries.append(Entry(path, kind, mode, 0, target=target, cause=cause))
    elif kind is EntryKind.DIRECTORY:
        walk.entries.append(Entry(path, kind, mode, 0))
        is_empty, cause = _subfolder(walk, parent, name, path, status, depth + 1)
        walk.gaps += [] if cause is None else [(path + b"/", cause)]
        is_empty &= cause is None
        walk.entries[at] = Entry(path, kind, mode, 0, is_empty=is_empty, cause=cause)
    else:
        device = status.st_rdev if kind is EntryKind.DEVICE else None
        walk.entries.append(Entry(path, kind, mode, 0, device=device))
    owner, group = owner_of(status)
    found = attributes(entry_path(parent, name))
    names = status.st_nlink if kind is EntryKind.FILE else 1
    walk.entries[at] = replace(
        walk.entries[at], owner=owner, group=group, attributes=found, names=names
    )


def _subfolder(
    walk: _Walk, parent: int, name: bytes, path: bytes, status: os.stat_result, depth: int
) -> tuple[bool, str | None]:
    if depth > walk.limits.depth:
        return False, f"{shown(path)} lies deeper than {walk.limits.depth} folders"
    if status.st_dev != walk.device:
        return False, f"{shown(path)} is another file system"
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=parent)
    except OSError as error:
        return False, _refusal(shown(path), "opened", error)
    try:
        if os.fstat(descriptor).st_ino != status.st_ino:
            return False, unread_because(f"{shown(path)} changed while it was read")
        if not walk.limits.enters_mounts and is_mounted(descriptor):
            return False, f"{shown(path)} is mounted there"
        return _descend(walk, descriptor, path, depth)
    finally:
        os.close(descriptor)


def _file(walk: _Walk, parent: int, name: bytes, path: bytes, status: os.stat_result) -> Entry:
    mode, size = status.st_mode, status.st_size
    cause = None
    if size > walk.limits.file_bytes:
        cause = f"{shown(path)} is larger than {walk.limits.file_bytes} bytes"
    elif size > walk.bytes_left:
        cause = f"the tree holds more than {walk.limits.total_bytes} bytes"
    if cause is not None:
        return Entry(path, EntryKind.FILE, mode, size, cause=cause)
    walk.bytes_left -= size
    hasher = hashlib.sha256()
    is_kept, kept = size <= walk.limits.content_bytes, list[bytes]()
    try:
        for block in _blocks(parent, name, status, path):
            hasher.update(block)
            if is_kept:
                kept.append(block)
    except NotRead as error:
        return Entry(path, EntryKind.FILE, mode, size, cause=str(error))
    content = b"".join(kept) if is_kept else None
    return Entry(path, EntryKind.FILE, mode, size, hasher.hexdigest(), content)
