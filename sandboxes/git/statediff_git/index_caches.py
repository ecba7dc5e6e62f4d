"""An index, read by git with the caches in it and without them."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from statediff.systems.files.tree import Folder, NotRead, shown
from statediff_git.clean import Clean
from statediff_git.index import MAX_INDEX_BYTES, Index, id_bytes, own_part, parse_index

_MAX_NAMED: Final = 20
_CACHED: Final = re.compile(rb"([^\0]*)\0(-?[0-9]{1,9}) ([0-9]{1,9})\n", re.DOTALL)
_BLOCKS: Final = (b"EOIE", b"IEOT")
_BEFORE_IGNORED: Final = 2 * 36 + 4
"""Bytes of the cache of untracked files between whose it is and the id of `info/exclude`."""
_EXCLUDE: Final = b"info/exclude"
_MAX_EXCLUDE_BYTES: Final = 1024 * 1024
_SPLIT: Final = b"the index is split, and the program git does not put it together"


def whole_index(git: Folder, work: Folder | None, stored: bytes) -> Index:
    """The index with all its entries, and what in it git believes and they do not say.

    `NotRead` where it is not understood, or where git would have to be asked and is not there.
    """
    index, width = parse_index(stored), id_bytes(stored)
    with tempfile.TemporaryDirectory(prefix="statediff-git-") as private:
        asked = _Asked(git, stored, width, Path(private))
        if any(name == b"link" for name, _ in index.parts):
            whole = parse_index(asked.unsplit(index))
            index = replace(index, entries=whole.entries, oddities=_odd(index, whole))
        return replace(index, oddities=(*index.oddities, *asked.odd(index, work)))


def _odd(index: Index, whole: Index) -> tuple[str, ...]:
    """The order counts of all entries, and the parts are those of the index itself."""
    own = (text for text in index.oddities if not text.endswith("out of order"))
    return (*(text for text in whole.oddities if text.endswith("out of order")), *own)


class _Asked:
    """One index in a clean copy."""

    def __init__(self, git: Folder, stored: bytes, width: int, private: Path) -> None:
        self._git, self._stored, self._width, self._private = git, stored, width, private
        self._now = Clean(private / "now", width)
        self._put(stored)

    def _put(self, stored: bytes) -> None:
        """The index of the copy is this, as old as the other."""
        place, status = self._now.place / "index", self._git.status(b"index")
        place.unlink(missing_ok=True)
        place.write_bytes(stored)
        if status is not None:
            os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))

    def unsplit(self, index: Index) -> bytes:
        """The index with the entries that it shares. `NotRead` where git does not make one."""
        link = dict(index.parts)[b"link"][: self._width]
        name = b"sharedindex." + link.hex().encode()
        if not self._now.take(self._git, name, MAX_INDEX_BYTES):
            raise NotRead(f"{shown(name)}, which the index needs, is not there")
        shared = self._now.made(name.decode()) or b""
        if shared[-self._width :] != link or id_bytes(shared) != self._width:
            raise NotRead(f"{shown(name)} is not the one that the index needs")
        said = self._now.ask("update-index", "--no-split-index", "--force-write-index")
        found = self._now.made("index")
        if said is None or found is None:
            raise NotRead(_SPLIT.decode())
        self._put(self._stored)
        return found

    def odd(self, index: Index, work: Folder | None) -> Iterator[str]:
        """The parts with which git says otherwise than without, in words."""
        parts = dict(index.parts)
        if not parts.keys().isdisjoint(_BLOCKS) and not self._lists(index):
            yield from (own_part(name, parts[name]) for name in _BLOCKS if name in parts)
        if b"TREE" in parts and not self._are_trees(index, parts[b"TREE"]):
            yield own_part(b"TREE", parts[b"TREE"])
        if b"UNTR" in parts and work is not None and work.path is not None:
            try:
                yield from self._untracked(parts[b"UNTR"], str(work.path.resolve()))
            except NotRead:
                yield own_part(b"UNTR", parts[b"UNTR"])

    def _lists(self, index: Index) -> bool:
        """True where git finds the same entries by several threads."""
        wanted = (
            b"%06o %s %d\t%s\0" % (each.mode, each.blob.hex().encode(), each.stage, each.name)
            for each in index.entries
        )
        folders = ("--sparse",) if any(name == b"sdir" for name, _ in index.parts) else ()
        said = self._now.ask("-c", "index.threads=4", "ls-files", "--stage", "-z", *folders)
        return said == b"".join(wanted)

    def _are_trees(self, index: Index, part: bytes) -> bool:
        """True where each tree is the one that a commit of the entries would make."""
        cached = _nodes(part, self._width)
        if not cached:
            return cached is not None
        again = Clean(self._private / "again", self._width)
        given = b"".join(
            b"%06o %s 0\t%s\0" % (each.mode, each.blob.hex().encode(), each.name)
            for each in index.entries
            if each.is_in_trees
        )
        again.ask("update-index", "-z", "--index-info", given=given)
        if again.ask("write-tree", "--missing-ok") is None:
            return False
        made = parse_index(again.made("index") or b"")
        nodes = _nodes(dict(made.parts).get(b"TREE", b""), self._width) or {}
        others = [each.name for each in index.entries if not each.is_in_trees]
        return all(
            nodes.get(path) == known and not any(name.startswith(path) for name in others)
            for path, known in cached.items()
        )

    def _untracked(self, part: bytes, work: str) -> Iterator[str]:
        """The files that git hides or invents, where it believes the cache of those untracked."""
        self._put(self._stored.replace(part, self._ours(part, work)))
        self._now.take(self._git, _EXCLUDE, _MAX_EXCLUDE_BYTES)
        found: set[str] = set()
        for how in ("normal", "all"):
            one, other = (self._listed(work, how, cache) for cache in ("keep", "false"))
            if one is None or other is None:
                raise NotRead("git does not list the files that are not tracked")
            found |= {f"the index hides {shown(path)}" for path in other - one}
            found |= {f"the index invents {shown(path)}" for path in one - other}
        yield from sorted(found)[:_MAX_NAMED]
        if len(found) > _MAX_NAMED:
            yield f"the index has {len(found)} files otherwise"

    def _listed(self, work: str, how: str, cache: str) -> set[bytes] | None:
        said = self._now.ask(
            *("-c", f"core.untrackedCache={cache}", "status", "--porcelain", "-z", "--no-renames"),
            *("--ignore-submodules=all", f"--untracked-files={how}"),
            work=work,
        )
        lines = () if said is None else said.split(b"\0")
        return None if said is None else {line[3:] for line in lines if line.startswith(b"?? ")}

    def _ours(self, part: bytes, work: str) -> bytes:
        """The cache as if git had made it here, without settings of a user: else it is made anew.

        It says first where its work tree is, by length, and which ignore files it was made with.
        """
        at = 0
        while at < len(part) and part[at] & 0x80:
            at += 1
        end = part.find(b"\0", at + 1) + 1
        ignored = end + _BEFORE_IGNORED + self._width
        if not end or len(part) < ignored + self._width or not part[at + 1 :].startswith(b"Loc"):
            raise NotRead("the cache of untracked files is cut short")
        whose = os.fsencode(f"Location {work}, system {os.uname().sysname}") + b"\0"
        length = bytearray([len(whose) & 0x7F])
        rest = len(whose) >> 7
        while rest:
            rest -= 1
            length.insert(0, rest & 0x7F | 0x80)
            rest >>= 7
        rest_of = part[ignored + self._width :]
        return bytes(length) + whose + part[end:ignored] + bytes(self._width) + rest_of


def _nodes(part: bytes, width: int) -> dict[bytes, tuple[bytes, int]] | None:
    """Each folder of a cache of trees, with a slash at its end → its tree and number of entries.

    One whose tree the cache does not know is left out. None for what is no such cache.
    """
    found: dict[bytes, tuple[bytes, int]] = {}
    pending = [(b"", 1)]
    at = 0
    while pending:
        above, left = pending.pop()
        if left > 1:
            pending.append((above, left - 1))
        match = _CACHED.match(part, at)
        if match is None or b"/" in match[1] or bool(match[1]) is (at == 0):
            return None
        path = above + match[1] + b"/" if at else b""
        at, count, below = match.end(), int(match[2]), int(match[3])
        if count >= 0:
            found[path] = part[at : at + width], count
            at += width
        if below:
            pending.append((path, below))
    return found if at == len(part) else None
