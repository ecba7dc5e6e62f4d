"""The index's cache of untracked files: whether git, believing it, would hide or invent a file.

Git does not look into a folder again that has the times and the ignore file noted in the cache. A
cache that leaves a name out keeps that file from `git status` and `git add`. So what git would list
is compared with what is there; a folder that git would look into again is passed over.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pygit2

from statediff.systems.files.tree import EntryKind, Folder, Limits, NotRead, shown
from statediff_git.ewah import read_ewah

_STAT_BYTES: Final = 36
_MAX_BLOCKS: Final = 100_000
_MAX_DEPTH: Final = 200
_MAX_IGNORE_BYTES: Final = 1024 * 1024
_MAX_NAMED: Final = 20
_IGNORE: Final = b".gitignore"
_NOTHING: Final = Limits(file_bytes=0, content_bytes=0)


@dataclass
class _Block:
    """One folder of the cache: the names that git lists in it, and the folders it looks into."""

    listed: frozenset[bytes]
    below: dict[bytes, _Block] = field(default_factory=dict)
    times: bytes | None = None
    ignore: bytes = b""
    is_probe: bool = False
    """Git only wanted to know whether there is anything."""


def odd_untracked(
    part: bytes, work: Folder, git: Folder, tracked: frozenset[bytes], width: int
) -> list[str]:
    """What git would hide or invent, in words. `NotRead` where the cache is not understood."""
    root, exclude = _parse(part, width)
    look = git.status(b"index")
    if root is None or look is None or exclude != _blob_id(git, b"info/exclude", width):
        return []  # git makes it anew
    tree = work.tree(_NOTHING, frozenset({b".git"}))
    files = [e.path for e in tree.entries if e.kind is not EntryKind.DIRECTORY]
    with tempfile.TemporaryDirectory(prefix="statediff-git-") as place:
        ignores = _Ignores(Path(place), work, git, files)
        found = _Look(work, int(look.st_mtime), width, ignores)
        odd = [
            f"the index hides {shown(path)}"
            for path in files
            if path not in tracked and not ignores.ignored(path) and found.hides(root, path)
        ]
        there = {path[: n + 1] for path in files for n, byte in enumerate(path) if byte == 47}
        odd += [
            f"the index invents {shown(path)}"
            for path in found.listed(root, b"")
            if path in tracked or path not in there | set(files) or ignores.ignored(path)
        ]
    more = [f"the index has {len(odd)} files otherwise"] if len(odd) > _MAX_NAMED else []
    return [*sorted(odd)[:_MAX_NAMED], *more]


class _Ignores:
    """Which paths the ignore files of the work tree leave out: copied, and matched by libgit2."""

    def __init__(self, place: Path, work: Folder, git: Folder, files: list[bytes]) -> None:
        self._repository = pygit2.init_repository(str(place))
        for path in files:
            if path.rpartition(b"/")[2] == _IGNORE:
                self._copy(work, path, place / os.fsdecode(path))
        self._copy(git, b"info/exclude", place / ".git/info/exclude")

    @staticmethod
    def _copy(folder: Folder, name: bytes, to: Path) -> None:
        stored = folder.read(name, _MAX_IGNORE_BYTES) or b""
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(stored)

    def ignored(self, path: bytes) -> bool:
        return bool(self._repository.path_is_ignored(os.fsdecode(path)))


@dataclass
class _Look:
    """How git walks through the cache, with what it looks at again."""

    work: Folder
    written: int
    width: int
    ignores: _Ignores
    _believed: dict[bytes, bool] = field(default_factory=dict)

    def believes(self, block: _Block, path: bytes) -> bool:
        """Whether git takes a folder's names from the cache."""
        if path not in self._believed:
            status = self.work.status(path or b".")
            is_same = status is not None and block.times is not None
            if status is not None and block.times is not None:
                seconds = (int(status.st_ctime), int(status.st_mtime))
                noted = (block.times[0:4], block.times[8:12])
                is_same = tuple(n & 0xFFFFFFFF for n in seconds) == tuple(
                    int.from_bytes(n, "big") for n in noted
                )
                is_same &= int(status.st_mtime) < self.written
                is_same &= block.ignore == _blob_id(self.work, path + _IGNORE, self.width)
            self._believed[path] = is_same
        return self._believed[path]

    def hides(self, root: _Block, path: bytes) -> bool:
        """Whether git would not come upon an untracked file."""
        block, above = root, b""
        *folders, name = path.split(b"/")
        for folder in folders:
            is_believed = self.believes(block, above)
            if is_believed and folder + b"/" in block.listed:
                return False
            inner = block.below.get(folder)
            if inner is None:
                return is_believed
            if inner.is_probe:  # git looks again whether there is anything, and lists the folder
                return False
            block, above = inner, above + folder + b"/"
        return self.believes(block, above) and name not in block.listed

    def listed(self, block: _Block, path: bytes) -> Iterator[bytes]:
        """What git would list without looking."""
        if self.believes(block, path):
            yield from (path + name for name in block.listed)
        for name, inner in block.below.items():
            if not inner.is_probe:
                yield from self.listed(inner, path + name + b"/")


def _blob_id(folder: Folder, path: bytes, width: int) -> bytes:
    """The id of a file's content; zeros where it is not there."""
    stored = folder.read(path, _MAX_IGNORE_BYTES)
    if stored is None:
        return bytes(width)
    hasher = hashlib.sha1 if width == 20 else hashlib.sha256
    return hasher(b"blob %d\0" % len(stored) + stored).digest()


@dataclass
class _Reader:
    stored: bytes
    at: int = 0

    def take(self, count: int) -> bytes:
        part = self.stored[self.at : self.at + count]
        if len(part) < count:
            raise NotRead("the cache of untracked files is cut short")
        self.at += count
        return part

    def number(self) -> int:
        byte = self.take(1)[0]
        value = byte & 0x7F
        while byte & 0x80:
            byte = self.take(1)[0]
            value = (value + 1 << 7) | byte & 0x7F
            if value > len(self.stored):
                raise NotRead("the cache of untracked files is damaged")
        return value

    def text(self) -> bytes:
        end = self.stored.find(b"\0", self.at)
        if end < 0:
            raise NotRead("the cache of untracked files is cut short")
        return self.take(end + 1 - self.at)[:-1]


def _parse(part: bytes, width: int) -> tuple[_Block | None, bytes]:
    """The outermost folder, and the id of `info/exclude` that the cache was made with."""
    reader = _Reader(part)
    reader.take(reader.number())
    reader.take(2 * _STAT_BYTES + 4)
    exclude = reader.take(width)
    reader.take(width)
    if reader.text() != _IGNORE:
        raise NotRead("the cache of untracked files goes by other ignore files")
    count = reader.number() if reader.at < len(part) else 0
    if not count:
        return None, exclude
    blocks: list[_Block] = []
    name, root = _block(reader, blocks, 0)
    if name or len(blocks) != count:
        raise NotRead("the cache of untracked files is damaged")
    valid, at = read_ewah(part, reader.at, (count + 63) // 64 * 64)
    probes, at = read_ewah(part, at, (count + 63) // 64 * 64)
    hashed, reader.at = read_ewah(part, at, (count + 63) // 64 * 64)
    for number, block in enumerate(blocks):
        block.is_probe = bool(probes >> number & 1)
        block.ignore = bytes(width)
        if valid >> number & 1:
            block.times = reader.take(_STAT_BYTES)
    for number, block in enumerate(blocks):
        if hashed >> number & 1:
            block.ignore = reader.take(width)
    if reader.take(1) != b"\0" or reader.at != len(part):
        raise NotRead("the cache of untracked files is damaged")
    return root, exclude


def _block(reader: _Reader, blocks: list[_Block], depth: int) -> tuple[bytes, _Block]:
    names, below = reader.number(), reader.number()
    name = reader.text()
    block = _Block(frozenset(reader.text() for _ in range(names)))
    blocks.append(block)
    if len(blocks) > _MAX_BLOCKS or depth > _MAX_DEPTH:
        raise NotRead("the cache of untracked files is beyond the capture limit")
    for _ in range(below):
        inner_name, inner = _block(reader, blocks, depth + 1)
        block.below[inner_name] = inner
    return name, block
