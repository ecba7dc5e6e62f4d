"""The git folder beside objects and refs: settings, hooks, index and administrative files.

Every file is read by a strict reader, made again from what it was derived of (`git.derived`,
`git.store`), or state by its digest; so is what a reader refuses. Left out, because they say
nothing that is state: what reflogs tell (they repeat, with times, how refs moved;
that of the stash is kept, it holds the older stashes), the message of the last commit attempt, and
how objects are stored. Unreachable objects are storage too.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from statediff.model.batches import Row
from statediff.model.values import Map, Observed, Unobserved
from statediff.systems.files.owners import NOTHING, OWN
from statediff.systems.files.tree import (
    Entry,
    EntryKind,
    Folder,
    Limits,
    NotRead,
    shown,
    text_or_bytes,
)
from statediff_git.derived import MAX_REFLOG_BYTES, MOVE, is_derived, peeled
from statediff_git.history import History
from statediff_git.index import MAX_INDEX_BYTES, Index, parse_index
from statediff_git.index_caches import whole_index
from statediff_git.objects import Objects
from statediff_git.packed import PACKED
from statediff_git.refs import (
    MAX_CONFIG_BYTES,
    Refs,
    Setting,
    last,
    parse_config,
)
from statediff_git.store import Store
from statediff_git.types import Listing, entry_row

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
_SHARED_INDEX: Final = re.compile(rb"sharedindex\.[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MAX_MISSING: Final = 20
"""Objects that are named one by one."""
_ODD_BITS: Final = 0o6002
"""To run it as somebody else, and to write it for everybody."""
_ODD_BITS_OF_FOLDERS: Final = 0o002
_FOR_THE_GROUP: Final = 0o020
"""To write it for a group: shown of what git makes at the beginning, and never anew."""
_FOR_ALL_TO_READ: Final = (0o044, 0o055)
"""Of a file, and of a folder: without it git does nothing there for other accounts."""
_MADE_ONCE: Final = frozenset(
    (b".", b"config", b"hooks", b"objects", b"refs", b"refs/heads", b"refs/tags")
)
_PLACES: Final = (
    *(b".", b"hooks", b"info", b"logs", b"objects", b"objects/info", b"objects/pack"),
    *(b"refs", b"refs/heads", b"refs/tags"),
)
_PROMISES: Final = (
    (b".promisor", "promisor remote"),
    (b".partialclonefilter", "partial clone"),
)
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
                    "place": len(listing.rows),
                    "value": None if setting.value is None else text_or_bytes(setting.value),
                }
            )
            seen[setting.name] += 1
    if listing.causes:
        listing.rows.clear()
    return Config(listing, None if listing.causes else settings, tuple(unparsed))


@dataclass(frozen=True)
class ReadIndex:
    """The entries of the index as entities, and the index itself; None where it is not read."""

    listing: Listing
    index: Index | None


def is_promised(config: Config) -> bool:
    """True if the settings say that objects are missing that another repository has."""
    return any(
        setting.name == b"extensions.partialclone"
        or (setting.name.startswith(b"remote.") and setting.name.endswith(_PROMISES[0][0]))
        for setting in config.settings or ()
    )


def read_index(git: Folder, work: Folder | None) -> ReadIndex:
    """Every entry of the index, which says what is untracked in `work`."""
    try:
        stored = git.read(b"index", MAX_INDEX_BYTES)
        index = Index(()) if stored is None else whole_index(git, work, stored)
    except NotRead as error:
        return ReadIndex(Listing([], [str(error)]), None)
    return ReadIndex(Listing([entry.row() for entry in index.entries]), index)


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


@dataclass(frozen=True)
class Known:
    """The readers' view of the git folder; of what they did not read, the bytes are state."""

    refs: Refs
    config: Config
    index: Index | None
    history: History
    store: Store
    reflogs: Listing
    """The entries of reflogs that are more than reflogs, and why there may be others."""
    left: frozenset[bytes]
    """Files in which commands noted where they began, and that say nothing of their own."""
    missing: tuple[str, ...]
    """Objects that something leads to and that are surely nowhere."""


def read_admin(git: Folder, known: Known) -> Listing:
    """Every other file of the git folder, and what stands where git expects something else."""
    refs, history = known.refs, known.history
    odd = {
        name
        for names, kind in ((_FOLDERS, EntryKind.DIRECTORY), (_FILES, EntryKind.FILE))
        for name in names
        if git.kind(name) not in (None, kind)
    }
    odd |= {*known.config.unparsed, *([b"index"] if known.index is None else [])}
    odd |= {b"HEAD"} if refs.is_head_odd else set()
    is_true = refs.packed.is_true(peeled(history.tags.rows), frozenset(refs.by_name) - refs.loose)
    odd |= set() if is_true else {PACKED}
    tree = git.tree(leave_out=frozenset((*_FOLDERS, *_FILES)) - odd)
    listing = Listing([], [*tree.causes, *known.store.causes, *known.reflogs.causes])
    entries = [
        *(entry for entry in tree.entries if not _is_shared_index(git, entry)),
        *(replace(stray, path=b"refs/" + stray.path) for stray in refs.strays),
        *known.store.entries,
    ]
    listing.rows.extend(entry_row("path", entry) for entry in entries if _is_listed(entry))
    listing.rows.extend(known.reflogs.rows)
    if not (known.config.settings is None or history.refs.causes or history.tags.causes):
        refs_and_tags = history.refs.rows, history.tags.rows
        listing.derived = frozenset(
            entry.path.decode()
            for entry in entries
            if is_derived(entry, *refs_and_tags, known.config.settings, known.left)
        )
    return listing


def _is_shared_index(git: Folder, entry: Entry) -> bool:
    """True if it is a file that a split index shares, or once did: its name is its checksum."""
    if entry.kind is not EntryKind.FILE or not _SHARED_INDEX.fullmatch(entry.path):
        return False
    try:
        stored = git.read(entry.path, MAX_INDEX_BYTES) or b""
        width = len(entry.path[12:]) // 2
        parse_index(stored)
    except NotRead:
        return False
    return stored[-width:].hex().encode() == entry.path[12:]


def read_reflogs(git: Folder, refs: Refs, objects: Objects, *, is_whole: bool) -> Listing:
    """The entries below `logs` that are no reflog of a ref, or not one that git would write.

    Git adds to a reflog in place: through a link, and to a file that has another name. `is_whole`
    where all objects that reflogs name should be there.
    """
    try:
        if git.kind(b"logs") is not EntryKind.DIRECTORY:
            return Listing()
        with git.folder(b"logs") as folder:
            tree = folder.tree(Limits(content_bytes=MAX_REFLOG_BYTES))
    except NotRead as error:
        return Listing([], [str(error)])
    names = {b"HEAD", *refs.by_name} - {b"refs/stash"}
    there: dict[bytes, bool] = {}
    rows = [
        entry_row("path", replace(entry, path=b"logs/" + entry.path))
        for entry in tree.entries
        if (entry.kind is not EntryKind.DIRECTORY or entry.cause is not None)
        and not (
            entry.path in names
            and entry.names == 1
            and _is_reflog(entry, objects, there if is_whole else None)
        )
    ]
    return Listing(rows, list(tree.causes))


def _is_reflog(entry: Entry, objects: Objects, there: dict[bytes, bool] | None) -> bool:
    """True if each line is a move between objects; `there` keeps which of them are there."""
    if entry.kind is not EntryKind.FILE or entry.content is None or not entry.mode & 0o200:
        return False
    *lines, end = entry.content.split(b"\n")
    for line in lines:
        match = MOVE.fullmatch(line)
        if match is None:
            return False
        for oid in match.groups() if there is not None else ():
            if there is not None and oid not in there:
                there[oid] = not oid.strip(b"0") or objects.is_there(oid.decode())
            if there is not None and not there[oid]:
                return False
    return not end


def _is_listed(entry: Entry) -> bool:
    return entry.kind is not EntryKind.DIRECTORY or entry.is_empty or entry.cause is not None


def read_work_tree(root: Folder, has_git_folder: bool) -> Listing:
    """Every file of the work tree, tracked or not; a `.git` that is no folder is one of them."""
    leave_out = frozenset({b".git"}) if has_git_folder else frozenset()
    tree = root.tree(leave_out=leave_out)
    rows = [entry_row("path", entry) for entry in tree.entries if _is_listed(entry)]
    return Listing(rows, list(tree.causes))


def repository_row(git: Folder, known: Known, work: Folder | None) -> Row:
    """The repository itself: where HEAD points, and what about it is out of the ordinary.

    `work` is its work tree; None of a bare one.
    """
    head, config = known.refs.head, known.config
    head_text: Observed = head.oid if head.symbolic is None else text_or_bytes(head.symbolic)
    row: Row = {
        "name": ".",
        "is_bare": work is None,
        "head": Unobserved(head.cause) if head.cause else head_text,
        "is_shallow": _stands(git, b"shallow"),
        "has_alternates": _stands(git, b"objects/info/alternates"),
    }
    if config.settings is None:
        doubt = Unobserved("; ".join(config.listing.causes))
        return row | dict.fromkeys(("object_format", "core_worktree", "oddities"), doubt)
    settings = config.settings
    try:
        odd = _oddities(git, known, settings) | _strangers(git, work)
        oddities: Observed = tuple(sorted(odd))
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


def _oddities(git: Folder, known: Known, settings: list[Setting]) -> set[str]:
    names = {setting.name for setting in settings}
    found = {
        f"extension {shown(name.removeprefix(b'extensions.'))}"
        for name in names
        if name.startswith(b"extensions.")
    }
    version = last(settings, b"core.repositoryformatversion") or b"0"
    if version not in _FORMATS:
        found.add(f"repository format {shown(version)}")
    for ending, oddity in _PROMISES:
        if any(n.startswith(b"remote.") and n.endswith(ending) for n in names):
            found.add(oddity)
    if any(n == b"include.path" or n.startswith(b"includeif.") for n in names):
        found.add("included settings")
    if any(n.startswith(b"submodule.") for n in names) or git.kind(b"modules") is not None:
        found.add("submodules")
    if any(name.startswith(b"refs/replace/") for name in known.refs.by_name):
        found.add("replaced objects")
    if git.kind(b"info/grafts") is not None:
        found.add("grafts")
    if known.index is not None:
        found.update(known.index.oddities)
    found.update(f"object {oid} is missing" for oid in known.missing[:_MAX_MISSING])
    if len(known.missing) > _MAX_MISSING:
        found.add(f"{len(known.missing)} objects are missing")
    return found | _unusual_modes(git) | _attributes_beside(git)


def _strangers(git: Folder, work: Folder | None) -> set[str]:
    """Folders of another user than the evaluator: git does nothing in them for anybody else."""
    named = {"its folder": git} if work is None else {"its folder": git, "its work tree": work}
    owners = {name: folder.itself().owner for name, folder in named.items()}
    return {f"{name} belongs to {owner}" for name, owner in owners.items() if owner != OWN}


def _attributes_beside(git: Folder) -> set[str]:
    """Parts with attributes, access lists or flags that no row has, and new ones do not inherit.

    `NotRead` where that cannot be seen.
    """
    models = {name: _attributes_of(git, name) for name in (b"config", b".")}
    found: set[str] = set()
    for name in (*_PLACES, *_FILES):
        said = models.get(name) or _attributes_of(git, name)
        model = models[b"config" if name in _FILES else b"."]
        if said != NOTHING and (name in models or said != model):
            words = ", ".join(f"{what}: {v}" for what, v in said.items if isinstance(v, str))
            found.add(f"{shown(name)} has {words}")
    return found


def _attributes_of(git: Folder, name: bytes) -> Map:
    try:
        if git.kind(name) not in (EntryKind.DIRECTORY, EntryKind.FILE):
            return NOTHING
        said = git.attributes(name)
    except (FileNotFoundError, NotRead):  # gone, or below a link, which is an entry of its own
        return NOTHING
    if isinstance(said, Unobserved):
        raise NotRead(said.cause)
    return said


def _unusual_modes(git: Folder) -> set[str]:
    """Parts whose modes no row has, and that others may write, or that git cannot use.

    A file may be as the settings are, and a folder as the outermost: they are there from the
    beginning, and show the umask. What git makes anew may be a group's by the umask of the program
    that ran it. What is made once says also whether other accounts may read: to take that from them
    locks them out, and to give it shows them what was private.
    """
    found: set[str] = set()
    first = {name: git.look(name) for name in (b"config", b".")}
    for name in (*_PLACES, *_FILES):
        try:
            entry = git.look(name)
        except NotRead:  # below a link, which is an entry of its own
            continue
        if entry is None or entry.kind not in (EntryKind.DIRECTORY, EntryKind.FILE):
            continue
        is_file = entry.kind is EntryKind.FILE
        unusual = _ODD_BITS if is_file else _ODD_BITS_OF_FOLDERS
        unusual |= _FOR_THE_GROUP if name in _MADE_ONCE else 0
        model = first[b"config" if is_file else b"."]
        if model is not None and name not in first:
            unusual &= ~model.mode
        needed = 0o400 if is_file else 0o700
        closed = ~entry.mode & _FOR_ALL_TO_READ[not is_file] if name in _MADE_ONCE else 0
        if model is not None and name not in first:
            closed &= model.mode
        if entry.mode & unusual or entry.mode & needed != needed or closed:
            found.add(f"{shown(name)} has mode {entry.mode & 0o7777:04o}")
        if entry.names > 1:
            found.add(f"{shown(name)} has another name")
    return found
