"""The git folder beside objects and refs: settings, hooks, index and administrative files.

Left out, because they say nothing that is state: reflogs (they repeat, with times, how refs moved;
that of the stash is kept, it holds the older stashes), the message of the last commit attempt, and
how objects are stored. Unreachable objects are storage too.

The index of a work tree is parsed by us too: entries and the flags that hide changes from git.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from statediff.model.batches import Row
from statediff.model.values import Observed, Unobserved
from statediff.systems.files.tree import Entry, EntryKind, Folder, NotRead, shown, text_or_bytes
from statediff.systems.git.derived import is_derived
from statediff.systems.git.history import History
from statediff.systems.git.objects import is_another_history
from statediff.systems.git.refs import MAX_CONFIG_BYTES, Refs, Setting, last, parse_config
from statediff.systems.git.types import Listing, entry_row

MAX_INDEX_BYTES: Final = 128 * 1024 * 1024
MAX_NAME_BYTES: Final = 4096
MAX_NAMES_BYTES: Final = 256 * 1024 * 1024
"""All names together: version 4 spells each by what it shares with the one before."""
_STAT_BYTES: Final = 40
_ASSUMED_UNCHANGED: Final = 0x8000
_EXTENDED: Final = 0x4000
_SKIPPED: Final = 0x4000
_INTENT_TO_ADD: Final = 0x2000
_OPTIONAL: Final = range(ord("A"), ord("Z") + 1)


@dataclass
class _Reader:
    stored: bytes
    at: int

    def take(self, count: int) -> bytes:
        part = self.stored[self.at : self.at + count]
        if len(part) < count:
            raise NotRead("the index is damaged: it ends in the middle of an entry")
        self.at += count
        return part

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def until_nul(self) -> bytes:
        end = self.stored.find(b"\0", self.at, self.at + MAX_NAME_BYTES + 1)
        if end < 0:
            raise NotRead("the index is damaged: a name has no end")
        name = self.stored[self.at : end]
        self.at = end + 1
        return name


def index_rows(stored: bytes) -> list[Row]:
    """The entries of an index file. `NotRead` where any of it is not understood."""
    width = _id_bytes(stored)
    reader = _Reader(stored[:-width], 0)
    if reader.take(4) != b"DIRC":
        raise NotRead("the index is damaged: it does not begin like one")
    version, count = reader.number(4), reader.number(4)
    if version not in (2, 3, 4):
        raise NotRead(f"the index has version {version}; 2 to 4 are read")
    rows: list[Row] = []
    name = b""
    names_left = MAX_NAMES_BYTES
    for _ in range(count):
        start = reader.at
        status = reader.take(_STAT_BYTES)
        oid = reader.take(width).hex()
        flags = reader.number(2)
        extended = reader.number(2) if flags & _EXTENDED and version > 2 else 0
        if version == 4:
            strip = _offset(reader)
            if strip > len(name):
                raise NotRead("the index is damaged: a name is shorter than nothing")
            name = name[: len(name) - strip] + reader.until_nul()
        else:
            name = reader.until_nul()
            reader.at = start + (reader.at - 1 - start) // 8 * 8 + 8
        names_left -= len(name)
        if names_left < 0 or len(name) > MAX_NAME_BYTES:
            raise NotRead("the names in the index are beyond the capture limit")
        rows.append(
            {
                "path": text_or_bytes(name),
                "stage": (flags >> 12) & 3,
                "mode": f"{int.from_bytes(status[24:28], 'big'):06o}",
                "blob": oid,
                "is_assumed_unchanged": bool(flags & _ASSUMED_UNCHANGED),
                "is_skipped_in_worktree": bool(extended & _SKIPPED),
                "is_intent_to_add": bool(extended & _INTENT_TO_ADD),
            }
        )
    _check_extensions(reader)
    return rows


def _id_bytes(stored: bytes) -> int:
    """How long ids are, by the checksum at the end: nothing else in the file says it."""
    if hashlib.sha1(stored[:-20]).digest() == stored[-20:]:  # noqa: S324 - git's own checksum
        return 20
    if hashlib.sha256(stored[:-32]).digest() == stored[-32:]:
        return 32
    if len(stored) > 32 and not any(stored[-20:]):  # index.skipHash
        return 20 if any(stored[-32:-20]) else 32
    raise NotRead("the index is damaged: its checksum is wrong")


def _offset(reader: _Reader) -> int:
    byte = reader.number(1)
    value = byte & 0x7F
    while byte & 0x80:
        byte = reader.number(1)
        value = ((value + 1) << 7) | (byte & 0x7F)
        if value > MAX_NAME_BYTES:
            raise NotRead("the index is damaged: a name is longer than allowed")
    return value


def _check_extensions(reader: _Reader) -> None:
    while reader.at < len(reader.stored):
        name = reader.take(4)
        if name[0] not in _OPTIONAL and name != b"sdir":
            known = " (a split index)" if name == b"link" else ""
            shown = name.decode("ascii", "backslashreplace")
            raise NotRead(f"the index needs its part {shown!r}, which is not read{known}")
        reader.take(reader.number(4))


CONFIG_FILES: Final = (b"config", b"config.worktree")
_FOLDERS: Final = (b"hooks", b"logs", b"objects", b"refs")
_FILES: Final = (
    b"COMMIT_EDITMSG",
    b"HEAD",
    b"config",
    b"config.worktree",
    b"index",
    b"packed-refs",
)
_STORAGE: Final = frozenset({b"packs", b"commit-graph", b"commit-graphs"})
_FORMATS: Final = frozenset({b"0", b"1"})


@dataclass(frozen=True)
class Config:
    """The settings as entities, and as git would look them up; None where a file is not read."""

    listing: Listing
    settings: list[Setting] | None
    unparsed: tuple[bytes, ...]
    """Files that are there and are no settings; their digests are known all the same."""


def read_config(git: Folder) -> Config:
    """Every entry of the repository's own settings."""
    listing, settings, unparsed = Listing(), list[Setting](), list[bytes]()
    for name in CONFIG_FILES:
        try:
            stored = git.read(name, MAX_CONFIG_BYTES)
            found = parse_config(stored or b"")
        except NotRead as error:
            listing.causes.append(f"{shown(name)}: {error}")
            unparsed.append(name)
            continue
        settings.extend(found)
        seen: Counter[bytes] = Counter()
        for setting in found:
            listing.rows.append(
                {
                    "file": name.decode(),
                    "name": text_or_bytes(setting.name),
                    "position": seen[setting.name],
                    "value": None if setting.value is None else text_or_bytes(setting.value),
                }
            )
            seen[setting.name] += 1
    if listing.causes:
        listing.rows.clear()
    return Config(listing, None if listing.causes else settings, tuple(unparsed))


def read_index(git: Folder) -> Listing:
    """Every entry of the index."""
    try:
        stored = git.read(b"index", MAX_INDEX_BYTES)
        return Listing([] if stored is None else index_rows(stored))
    except NotRead as error:
        return Listing([], [str(error)])


def read_hooks(git: Folder) -> Listing:
    """Every entry of the hooks folder, samples included; a link in its place is not followed."""
    try:
        if git.kind(b"hooks") is None:
            return Listing()
        with git.folder(b"hooks") as folder:
            tree = folder.tree()
    except NotRead as error:
        return Listing([], [str(error)])
    return Listing([entry_row("name", entry) for entry in tree.entries], list(tree.causes))


def read_admin(git: Folder, refs: Refs, config: Config, history: History) -> Listing:
    """Every other file of the git folder, and what stands where git expects something else."""
    odd = [
        name
        for names, kind in ((_FOLDERS, EntryKind.DIRECTORY), (_FILES, EntryKind.FILE))
        for name in names
        if git.kind(name) not in (None, kind)
    ]
    tree = git.tree(leave_out=frozenset((*_FOLDERS, *_FILES)) - {*odd, *config.unparsed})
    listing = Listing([], list(tree.causes))
    entries = [*tree.entries, *(replace(s, path=b"refs/" + s.path) for s in refs.strays)]
    for path in (b"objects/info", b"logs/refs"):
        try:
            if git.kind(path) is None:
                continue
            with git.folder(path) as folder:
                leave_out = _STORAGE if path == b"objects/info" else _all_but(folder, b"stash")
                below = folder.tree(leave_out=leave_out)
        except NotRead as error:
            listing.causes.append(str(error))
            continue
        listing.causes.extend(below.causes)
        entries.extend(replace(entry, path=path + b"/" + entry.path) for entry in below.entries)
    listing.rows.extend(entry_row("path", entry) for entry in entries if _is_listed(entry))
    if not (config.settings is None or history.refs.causes or history.tags.causes):
        listing.derived = frozenset(
            entry.path.decode()
            for entry in entries
            if is_derived(entry, history.refs.rows, history.tags.rows, config.settings)
        )
    return listing


def _all_but(folder: Folder, kept: bytes) -> frozenset[bytes]:
    return frozenset(name for name in folder.names() if name != kept)


def _is_listed(entry: Entry) -> bool:
    return entry.kind is not EntryKind.DIRECTORY or entry.is_empty or entry.cause is not None


def read_work_tree(root: Folder, has_git_folder: bool) -> Listing:
    """Every file of the work tree, tracked or not; a `.git` that is no folder is one of them."""
    leave_out = frozenset({b".git"}) if has_git_folder else frozenset()
    tree = root.tree(leave_out=leave_out)
    rows = [entry_row("path", entry) for entry in tree.entries if _is_listed(entry)]
    return Listing(rows, list(tree.causes))


def repository_row(
    git: Folder, refs: Refs, config: Config, commits: list[Row], is_bare: bool
) -> Row:
    """The repository itself: where HEAD points, and what about it is out of the ordinary.

    `commits` are those that its refs lead to.
    """
    head = refs.head
    head_text: Observed = head.oid if head.symbolic is None else text_or_bytes(head.symbolic)
    row: Row = {
        "name": ".",
        "is_bare": is_bare,
        "head": Unobserved(head.cause) if head.cause else head_text,
        "is_shallow": _stands(git, b"shallow"),
        "has_alternates": _stands(git, b"objects/info/alternates"),
    }
    if config.settings is None:
        doubt = Unobserved("; ".join(config.listing.causes))
        return row | dict.fromkeys(("object_format", "core_worktree", "oddities"), doubt)
    settings = config.settings
    try:
        oddities: Observed = tuple(sorted(_oddities(git, refs, settings, commits)))
    except NotRead as error:
        oddities = Unobserved(str(error))
    worktree = last(settings, b"core.worktree")
    return row | {
        "object_format": text_or_bytes(last(settings, b"extensions.objectformat") or b"sha1"),
        "core_worktree": None if worktree is None else text_or_bytes(worktree),
        "oddities": oddities,
    }


def _stands(git: Folder, path: bytes) -> Observed:
    try:
        return git.kind(path) is not None
    except NotRead as error:
        return Unobserved(str(error))


def _oddities(git: Folder, refs: Refs, settings: list[Setting], commits: list[Row]) -> set[str]:
    names = {setting.name for setting in settings}
    found = {
        f"extension {shown(name.removeprefix(b'extensions.'))}"
        for name in names
        if name.startswith(b"extensions.")
    }
    version = last(settings, b"core.repositoryformatversion") or b"0"
    if version not in _FORMATS:
        found.add(f"repository format {shown(version)}")
    for ending, oddity in (
        (b".promisor", "promisor remote"),
        (b".partialclonefilter", "partial clone"),
    ):
        if any(n.startswith(b"remote.") and n.endswith(ending) for n in names):
            found.add(oddity)
    if any(n == b"include.path" or n.startswith(b"includeif.") for n in names):
        found.add("included settings")
    if any(n.startswith(b"submodule.") for n in names) or git.kind(b"modules") is not None:
        found.add("submodules")
    if any(name.startswith(b"refs/replace/") for name in refs.by_name):
        found.add("replaced objects")
    if git.kind(b"info/grafts") is not None:
        found.add("grafts")
    if is_another_history(git, commits):
        found.add("a commit graph of another history")
    return found
