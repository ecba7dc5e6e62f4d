"""Files of a git folder that git itself makes of the rest: whether one is what git would make.

`info/refs` is what `git update-server-info` writes after each `git gc`, for clients that read a
repository as plain files. `FETCH_HEAD` is what `git fetch` writes: which branches of which remote
it found where. Both are out of date as soon as a ref moves, and nobody minds. Where either says
exactly what the refs say now, it says nothing of its own, and `GitSource` takes it for the copy
that stood there before. Where it says anything else it is a file like any other: `git merge
FETCH_HEAD` and clients without a server believe it. Which of the branches that were fetched
`git merge FETCH_HEAD` would take is not looked at: any `git fetch origin BRANCH` chooses it.

`ORIG_HEAD` is where HEAD was before a merge, a pull, a reset or a rebase, and `AUTO_MERGE` the tree
that the last merge made, which a stash that is taken back leaves behind. Git does nothing with
either by itself. `ORIG_HEAD` says nothing of its own where a ref or the reflog of HEAD leads to its
commit too, and `AUTO_MERGE` where it names a tree and no merge is under way.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from statediff.model.batches import Row
from statediff.model.values import Unobserved
from statediff.systems.files.tree import Entry, EntryKind, Folder, NotRead
from statediff_git.objects import Objects
from statediff_git.refs import Setting

INFO_REFS: Final = b"info/refs"
FETCH_HEAD: Final = b"FETCH_HEAD"
ORIG_HEAD: Final = b"ORIG_HEAD"
AUTO_MERGE: Final = b"AUTO_MERGE"
_UNDER_WAY: Final = (
    *(b"MERGE_HEAD", b"CHERRY_PICK_HEAD", b"REVERT_HEAD"),
    *(b"rebase-apply", b"rebase-merge", b"sequencer"),
)
MAX_REFLOG_BYTES: Final = 16 * 1024 * 1024
MOVE: Final = re.compile(
    rb"([0-9a-f]{40}(?:[0-9a-f]{24})?) ([0-9a-f]{40}(?:[0-9a-f]{24})?) "
    rb"[^<>\n]*<[^<>\n]*> [0-9]{1,18} [+-][0-9]{4}(?:\t[^\n]*)?"
)
"""A line of a reflog: from where, to where, by whom, when and why."""
_NOTED_BYTES: Final = 4096
_NOTED: Final = re.compile(rb"([0-9a-f]{40}(?:[0-9a-f]{24})?)\n")
_FETCHED: Final = re.compile(
    rb"([0-9a-f]{40})\t(?:not-for-merge)?\t(branch|tag) '([^ \n]+)' of ([^\n]+)\n"
)
_URL_OF_REMOTE: Final = re.compile(rb"remote\.(.+)\.url", re.DOTALL)
_USER: Final = re.compile(rb"^([A-Za-z][A-Za-z0-9+.-]*://)?[^/:@]*(?::[^/@]*)?@")
_UNUSUAL: Final = 0o113
"""Permission bits that git gives neither file: to run it, and to write it for everybody."""


def left_behind(git: Folder, commits: Sequence[Row], objects: Objects) -> frozenset[bytes]:
    """Which of `ORIG_HEAD` and `AUTO_MERGE` say nothing of their own. Unknown is none.

    `commits` are the rows of those that refs lead to.
    """
    found: set[bytes] = set()
    with contextlib.suppress(NotRead):
        was = _noted(git, ORIG_HEAD)
        if was is not None and (
            any(row["id"] == was for row in commits)
            or (was in _heads(git) and objects.kind(was) == "commit")
        ):
            found.add(ORIG_HEAD)
    with contextlib.suppress(NotRead):
        made = _noted(git, AUTO_MERGE)
        if made is not None and objects.kind(made) == "tree":
            found |= {AUTO_MERGE} if all(git.kind(name) is None for name in _UNDER_WAY) else set()
    return frozenset(found)


def _noted(git: Folder, name: bytes) -> str | None:
    """The one object that the file names."""
    match = _NOTED.fullmatch(git.read(name, _NOTED_BYTES) or b"")
    return None if match is None else match[1].decode()


def _heads(git: Folder) -> set[str]:
    """The commits that HEAD has been at, as its reflog has it."""
    lines = (git.read(b"logs/HEAD", MAX_REFLOG_BYTES) or b"").split(b"\n")
    moves = filter(None, map(MOVE.fullmatch, lines))
    return {oid.decode() for move in moves for oid in move.groups()}


def is_derived(
    entry: Entry,
    refs: Sequence[Row],
    tags: Sequence[Row],
    settings: Sequence[Setting],
    left: frozenset[bytes],
) -> bool:
    """True if git, asked now, would write the file as it is, with `refs` and `tags` all there are.

    `refs` and `tags` are rows of those types, `left` the files of `left_behind`. Unknown is no.
    """
    if entry.kind is not EntryKind.FILE or entry.cause is not None or entry.mode & _UNUSUAL:
        return False
    if entry.path in left:
        return True
    if entry.path == INFO_REFS:
        made = _info_refs(refs, tags)
        return made is not None and hashlib.sha256(made).hexdigest() == entry.digest
    if entry.path == FETCH_HEAD and entry.content is not None:
        return _says_what_was_fetched(entry.content, refs, settings)
    return False


def peeled(tags: Sequence[Row]) -> Callable[[str], str | None]:
    """A function from a tag's id to the id of the object at its end; None for any other id."""
    tagged = {str(row["id"]): str(row["target"]) for row in tags}

    def find(oid: str) -> str | None:
        found = oid
        while found in tagged:  # an id is made of its target's, so there is no circle
            found = tagged[found]
        return None if found == oid else found

    return find


def _info_refs(refs: Sequence[Row], tags: Sequence[Row]) -> bytes | None:
    """The file that `git update-server-info` would write; None where that is not known."""
    peel = peeled(tags)
    lines: dict[bytes, bytes] = {}
    for row in refs:
        target, name = row["target"], _name(row)
        if isinstance(target, Unobserved) or isinstance(row["commit"], Unobserved):
            return None
        if target is None:  # a symbolic ref that leads nowhere yet
            continue
        line = str(target).encode() + b"\t" + name + b"\n"
        end = peel(str(target))
        lines[name] = line if end is None else line + end.encode() + b"\t" + name + b"^{}\n"
    return b"".join(lines[name] for name in sorted(lines))


def _says_what_was_fetched(stored: bytes, refs: Sequence[Row], settings: Sequence[Setting]) -> bool:
    """True if each line says of a remote what the refs that follow it, or our tags, say too."""
    targets: Mapping[bytes, object] = {_name(row): row["target"] for row in refs}
    remotes: dict[bytes, list[bytes]] = {}
    for setting in settings:
        match = _URL_OF_REMOTE.fullmatch(setting.name)
        if match and setting.value is not None:
            remotes.setdefault(_as_noted(setting.value), []).append(match[1])
    at = 0
    while at < len(stored):
        match = _FETCHED.match(stored, at)
        if match is None:
            return False
        at = match.end()
        oid, kind, name, url = match.groups()
        starts = [b"refs/remotes/" + remote + b"/" for remote in remotes.get(_as_noted(url), ())]
        places = starts if kind == b"branch" else [b"refs/tags/"][: len(starts)]
        if not any(targets.get(start + name) == oid.decode() for start in places):
            return False
    return True


def _name(row: Row) -> bytes:
    name = row["name"]
    return name if isinstance(name, bytes) else str(name).encode()


def _as_noted(url: bytes) -> bytes:
    """A remote's URL as `git fetch` notes it: without user, last slashes and `.git`."""
    return _USER.sub(rb"\1", url).rstrip(b"/").removesuffix(b".git")
