"""The history that refs lead to: commits, annotated tags, and files at tips of local branches."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from statediff.model.batches import Row
from statediff.model.values import Observed, Unobserved
from statediff.systems.files.tree import NotRead, shown, small_text, text_or_bytes
from statediff_git.objects import GitObject, Objects
from statediff_git.refs import Ref, Refs
from statediff_git.types import Listing, TreeEntry, commit_row, tag_row, tree_entries

MAX_COMMITS: Final = 200_000
MAX_TAG_STEPS: Final = 32
MAX_RECORD_BYTES: Final = 1024 * 1024
"""One commit or tag; a message beyond that is no message."""
MAX_ALL_RECORD_BYTES: Final = 256 * 1024 * 1024
MAX_TREE_BYTES: Final = 8 * 1024 * 1024
MAX_ENTRIES: Final = 200_000
"""Files and folders at the tips of all branches together."""
MAX_PAST_ENTRIES: Final = 1_000_000
"""Files and folders in all commits together, equal folders counted once."""
MAX_DEPTH: Final = 200
MAX_PATH_BYTES: Final = 4096
MAX_TEXT_BYTES: Final = 64 * 1024
MAX_ALL_TEXT_BYTES: Final = 256 * 1024 * 1024
_BRANCHES: Final = b"refs/heads/"
_KINDS: Final = (
    (_BRANCHES, "branch"),
    (b"refs/tags/", "tag"),
    (b"refs/remotes/", "remote"),
    (b"refs/notes/", "note"),
)


@dataclass(frozen=True)
class History:
    """The four types that are read through refs."""

    refs: Listing
    tags: Listing
    commits: Listing
    files: Listing


class _Walk:
    def __init__(self, refs: Refs, objects: Objects) -> None:
        self._refs = refs
        self._objects = objects
        self._commits: dict[str, Row] = {}
        self._tags: dict[str, Row] = {}
        self._trees: dict[str, list[TreeEntry]] = {}
        self._blobs: dict[str, tuple[Observed, Observed, Observed]] = {}
        self._pending: list[str] = []
        self._faults: dict[str, str | None] = {}
        self._text_left = MAX_ALL_TEXT_BYTES
        self._record_left = MAX_ALL_RECORD_BYTES
        self._entries_left = MAX_ENTRIES
        self._past_entries_left = MAX_PAST_ENTRIES
        self.history = History(Listing(), Listing(), Listing(), Listing())

    def run(self) -> None:
        found = self.history
        for causes in (found.refs, found.tags, found.commits, found.files):
            causes.causes.extend(self._refs.causes)
        for ref in self._refs.by_name.values():
            row, commit = self._ref(ref)
            found.refs.rows.append(row)
            if ref.name.startswith(_BRANCHES):
                self._branch(ref.name, row["target"], commit)
        self._ref(self._refs.head)  # a detached HEAD leads to commits as well
        self._reach()
        for row in self._commits.values():
            fault = self._fault(str(row["tree"]), is_tree=True, depth=0)
            row["is_intact"] = True if fault is None else Unobserved(fault)
        found.commits.rows.extend(self._commits.values())
        found.tags.rows.extend(self._tags.values())

    def _ref(self, ref: Ref) -> tuple[Row, Observed]:
        kind = next((k for start, k in _KINDS if ref.name.startswith(start)), "other")
        symbolic = None if ref.symbolic is None else text_or_bytes(ref.symbolic)
        target: Observed
        commit: Observed
        try:
            target = self._refs.resolved(ref)
            commit = None if target is None else self._commit_of_tag(target)
        except NotRead as error:
            target = commit = Unobserved(str(error))
            for listing in (self.history.tags, self.history.commits):
                listing.causes.append(str(error))
        if isinstance(commit, str):
            self._pending.append(commit)
        row: Row = {
            "name": text_or_bytes(ref.name),
            "kind": kind,
            "target": target,
            "commit": commit,
            "symbolic_target": Unobserved(ref.cause) if ref.cause else symbolic,
        }
        return row, commit

    def _commit_of_tag(self, oid: str) -> Observed:
        """The commit at the end of a tag; None where it leads to something else."""
        if oid in self._commits:
            return oid
        for _ in range(MAX_TAG_STEPS):
            try:
                found = self._objects.read(oid)
                match found.type:
                    case "commit":
                        self._commits[oid], parents = commit_row(oid, self._record(oid, found))
                        self._pending.extend(parents)
                        return oid
                    case "tag":
                        self._tags[oid], oid = tag_row(oid, self._record(oid, found))
                    case _:
                        return None
            except NotRead as error:
                self.history.tags.causes.append(str(error))
                self.history.commits.causes.append(str(error))
                return Unobserved(str(error))
        cause = "a tag leads from tag to tag without an end"
        self.history.tags.causes.append(cause)
        self.history.commits.causes.append(cause)
        return Unobserved(cause)

    def _record(self, oid: str, found: GitObject) -> bytes:
        """The content of a commit or tag, if it is not beyond the limits."""
        size = len(found.content)
        self._record_left -= size
        if size > MAX_RECORD_BYTES or self._record_left < 0:
            raise NotRead(f"{found.type} {oid} is beyond the capture limit ({size} bytes)")
        return found.content

    def _reach(self) -> None:
        """All commits that the pending ones lead to are known, or there is a cause."""
        commits = self._commits
        lost: set[str] = set()
        while self._pending:
            oid = self._pending.pop()
            if oid in commits or oid in lost:
                continue
            if len(commits) >= MAX_COMMITS:
                self.history.commits.causes.append(f"there are more than {MAX_COMMITS} commits")
                return
            try:
                found = self._objects.read(oid)
                if found.type != "commit":
                    raise NotRead(f"object {oid} is a {found.type}, not a commit")
                commits[oid], parents = commit_row(oid, self._record(oid, found))
            except NotRead as error:
                lost.add(oid)
                if len(lost) <= 3:  # one damaged pack hides thousands, for one reason
                    self.history.commits.causes.append(str(error))
                continue
            self._pending.extend(parents)

    def _branch(self, name: bytes, target: Observed, commit: Observed) -> None:
        files = self.history.files
        branch = text_or_bytes(name.removeprefix(_BRANCHES))
        if target is None:
            return  # not yet born
        if not isinstance(commit, str):
            cause = commit.cause if isinstance(commit, Unobserved) else "it leads to no commit"
            files.causes.append(f"{shown(name)}: {cause}")
            return
        root = self._commits[commit]["tree"]
        pending: list[tuple[bytes, str, int]] = [(b"", str(root), 0)]
        while pending:
            above, oid, depth = pending.pop()
            try:
                entries = self._tree(oid)
            except NotRead as error:
                files.causes.append(str(error))
                continue
            for entry in entries:
                path = above + entry.name
                self._entries_left -= 1
                if self._entries_left < 0:
                    files.causes.append(f"the branches hold more than {MAX_ENTRIES} entries")
                    return
                if len(path) > MAX_PATH_BYTES or depth >= MAX_DEPTH:
                    files.causes.append(f"{shown(path)} in {shown(name)} is too long or too deep")
                elif entry.is_tree:
                    pending.append((path + b"/", entry.oid, depth + 1))
                else:
                    files.rows.append(self._file(branch, path, entry))

    def _tree(self, oid: str) -> list[TreeEntry]:
        entries = self._trees.get(oid)
        if entries is None:
            entries = self._trees[oid] = self._read_tree(oid)
        return entries

    def _read_tree(self, oid: str) -> list[TreeEntry]:
        found = self._objects.read(oid)
        if found.type != "tree":
            raise NotRead(f"object {oid} is a {found.type}, not a tree")
        if len(found.content) > MAX_TREE_BYTES:
            raise NotRead(f"tree {oid} is larger than {MAX_TREE_BYTES} bytes")
        return tree_entries(oid, found.content)

    def _fault(self, oid: str, *, is_tree: bool, depth: int) -> str | None:
        """Why a folder or file of some commit is not known to be what its id says; else None."""
        if oid in self._faults:
            return self._faults[oid]
        fault: str | None = None
        try:
            if not is_tree:
                size = self._blobs[oid][0] if oid in self._blobs else None
                if isinstance(size, Unobserved):
                    fault = size.cause
                elif size is None and (kind := self._objects.read(oid).type) != "blob":
                    fault = f"object {oid} is a {kind}, not a blob"
            elif depth >= MAX_DEPTH:
                return f"tree {oid} lies deeper than {MAX_DEPTH} folders"  # here, not everywhere
            else:
                for entry in self._trees.get(oid) or self._read_tree(oid):
                    self._past_entries_left -= 1
                    if self._past_entries_left < 0:
                        raise NotRead(f"all commits hold more than {MAX_PAST_ENTRIES} entries")
                    if not entry.is_submodule:
                        fault = self._fault(entry.oid, is_tree=entry.is_tree, depth=depth + 1)
                    if fault is not None:
                        break
        except NotRead as error:
            fault = str(error)
        self._faults[oid] = fault
        return fault

    def _file(self, branch: str | bytes, path: bytes, entry: TreeEntry) -> Row:
        size, digest, text = (None, None, None) if entry.is_submodule else self._blob(entry.oid)
        if isinstance(text, str) and isinstance(size, int):
            self._text_left -= size  # for each file: one blob may stand under any number of paths
            if self._text_left < 0:
                text = Unobserved(f"the branches hold more than {MAX_ALL_TEXT_BYTES} bytes of text")
        return {
            "branch": branch,
            "path": text_or_bytes(path),
            "mode": f"{entry.mode:06o}",
            "blob": entry.oid,
            "size": size,
            "digest": digest,
            "text": text,
        }

    def _blob(self, oid: str) -> tuple[Observed, Observed, Observed]:
        known = self._blobs.get(oid)
        if known is None:
            known = self._blobs[oid] = self._read_blob(oid)
        return known

    def _read_blob(self, oid: str) -> tuple[Observed, Observed, Observed]:
        try:
            found = self._objects.read(oid)
        except NotRead as error:
            doubt = Unobserved(str(error))
            return doubt, doubt, doubt
        if found.type != "blob":
            doubt = Unobserved(f"object {oid} is a {found.type}, not a blob")
            return doubt, doubt, doubt
        size = len(found.content)
        text = small_text(found.content if size <= MAX_TEXT_BYTES else None)
        return size, hashlib.sha256(found.content).hexdigest(), text


def read_history(refs: Refs, objects: Objects) -> History:
    """Everything that the refs lead to. No replacement, graft or shallow boundary is obeyed."""
    walk = _Walk(refs, objects)
    walk.run()
    return walk.history
