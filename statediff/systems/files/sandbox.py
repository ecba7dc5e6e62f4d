"""A folder of files that is put back from memory and proven entry by entry.

The base is read from the pack when the sandbox starts and kept in the evaluator's memory only. A
pack holds files, folders and links that lead nowhere else; of their modes it keeps what git keeps:
whether a file may be executed. The proof is a SHA-256 over all paths, kinds, modes and contents; it
uses nothing that captures state.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Final

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.errors import SandboxError
from statediff.model.values import printable
from statediff.packs import PackSource
from statediff.systems.base.folders import empty, make_folder, remove
from statediff.systems.base.protocol import Drift, SourceProof
from statediff.systems.files.leaves import Leaf, files_digest, held, restore, scan
from statediff.systems.files.owners import beside_of, make_plain
from statediff.systems.files.source import ROOT, FilesSource
from statediff.systems.files.tree import EntryKind, Folder, Limits, NotRead, shown

METHOD: Final = "sha256 of all paths, kinds, modes, owners, attributes and contents of the folder"
MAX_FILE_BYTES: Final = 16 * 1024 * 1024
MAX_LOOKED_AT: Final = 100_000
"""Entries that waiting for rest looks at."""
_PACK: Final = Limits(file_bytes=MAX_FILE_BYTES, content_bytes=MAX_FILE_BYTES)
_LOOK_SECONDS: Final = 0.04


class EmbeddedDirectory:
    """A `System`: one folder, which the agent may fill as it likes."""

    FILES: ClassVar[Mapping[str, bool]] = {"tree": False}
    LOOKS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self.folder = folder.absolute()
        tree = source.file("tree")
        self._hold({} if tree is None else dict(_pack_files(source.name, tree)))
        self._read = FilesSource(source.name, self.folder, source.refinement())

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    def start(self) -> None:
        """Nothing runs."""

    def stop(self) -> None:
        """Nothing runs."""

    def sources(self) -> tuple[Source, ...]:
        return (self._read,)

    def feeds(self) -> tuple[Feed, ...]:
        return ()

    def keep(self, to: Path) -> None:
        """The folder at the place holds what this one does. `OSError` where it cannot."""
        restore(held(self.folder), to)

    def begin_at(self, kept: Path) -> None:
        """The base is what was kept there, of this system or of another one."""
        self._hold(held(kept))

    def _hold(self, content: Mapping[str, Leaf]) -> None:
        self._content = content
        self._base = {ROOT: Leaf.folder()} | {p: f.summary() for p, f in content.items()}

    def unplug(self, source: str) -> None:
        """The folder is gone until the next reset."""
        make_folder(self.folder)
        empty(self.folder)
        remove(self.folder)
        self._read.is_unplugged = True

    def reset(self) -> None:
        """The folder holds the base and nothing else, each entry made anew."""
        try:
            make_folder(self.folder)
            empty(self.folder)
            make_plain(self.folder)
            restore(self._content, self.folder)
            self._read.is_unplugged = False
        except OSError as error:
            raise SandboxError(
                f"{self.source}: the files could not be put back at {self.folder}: {error}"
            ) from error

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        """The entries of the folder, and every one that is not as in the base."""
        found = self._scan_place()
        drift = tuple(
            Drift(
                self.source,
                f"file {shown(os.fsencode(path))}",
                _words(self._base.get(path)),
                _words(found.get(path)),
            )
            for path in sorted(self._base.keys() | found.keys())
            if self._base.get(path) != found.get(path)
        )
        expected, digest = files_digest(self._base), files_digest(found)
        return SourceProof(self.source, METHOD, expected, digest, len(self._base)), drift

    def unsettled(self, deadline: float) -> str | None:
        """Waits until two looks in succession show the same sizes and times; else what changes."""
        if self.folder.is_symlink():
            return None  # reading says so
        if any(place.is_symlink() for place in self.folder.parents[:2]):
            return "a link stands above the folder"
        earlier = _look(self.folder)
        while True:
            time.sleep(_LOOK_SECONDS)
            later = _look(self.folder)
            if later == earlier:
                return None
            if time.monotonic() >= deadline:
                changing = min(path for path, _ in earlier.items() ^ later.items())
                return f"{shown(changing)} is still changing"
            earlier = later

    def _scan_place(self) -> dict[str, Leaf]:
        try:
            status = self.folder.lstat()
        except OSError:
            return {}
        if not stat.S_ISDIR(status.st_mode):
            return {ROOT: Leaf("link" if stat.S_ISLNK(status.st_mode) else "other", 0)}
        more = beside_of(os.fsencode(self.folder), status)
        top = Leaf("folder", stat.S_IMODE(status.st_mode), beside=more)
        return {ROOT: top, **scan(self.folder)}


def _pack_files(source: str, folder: Path) -> Iterator[tuple[str, Leaf]]:
    """Path → what is to be written there."""
    try:
        with Folder.open(folder) as opened:
            tree = opened.tree(_PACK)
    except NotRead as error:
        raise SandboxError(f"{source}: {folder} cannot be read: {error}") from error
    if tree.causes:
        raise SandboxError(f"{source}: {folder} cannot be read: {tree.causes[0]}")
    for entry in tree.entries:
        path = os.fsdecode(entry.path)
        if entry.kind is EntryKind.FILE and entry.content is not None:
            yield path, Leaf.of(entry.content, bool(entry.mode & stat.S_IXUSR))
        elif entry.kind is EntryKind.DIRECTORY:
            yield path, Leaf.folder()
        elif entry.kind is EntryKind.LINK and _stays_inside(
            path, os.fsdecode(entry.target or b"/")
        ):
            yield path, Leaf.of(entry.target or b"", is_link=True)
        else:
            what = entry.cause or f"a {entry.kind.value}"
            raise SandboxError(
                f"{source}: {folder} holds {shown(entry.path)}, {what}; expected folders, links"
                f" that stay inside, and files of at most {MAX_FILE_BYTES} bytes"
            )


def _stays_inside(path: str, target: str) -> bool:
    """True if a link leads to a place in the folder, by its text: nothing is looked up."""
    at = os.path.normpath(os.path.join(os.path.dirname(path), target))  # noqa: PTH118, PTH120 - text
    return not target.startswith("/") and at != ".." and not at.startswith("../")


def _words(leaf: Leaf | None) -> str:
    return "nothing" if leaf is None else printable(leaf.words())


def _look(folder: Path) -> dict[bytes, tuple[int, ...]]:
    """Path → identity, size and time of what is below the folder, as far as it can be listed."""
    seen: dict[bytes, tuple[int, ...]] = {}
    root = os.fsencode(folder)
    waiting = [b""]
    while waiting and len(seen) < MAX_LOOKED_AT:
        above = waiting.pop()
        try:
            with os.scandir(root + b"/" + above) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    seen[above + entry.name] = (status.st_ino, status.st_size, status.st_ctime_ns)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(above + entry.name + b"/")
        except OSError as error:
            seen[above] = (error.errno or 0,)  # gone meanwhile, or not to be listed
    return seen
