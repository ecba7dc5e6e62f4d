"""Git repositories that are put back file by file and proven by their bytes.

Two kinds of system: `git`, a bare repository that agents push to, and `git-checkout`, somebody's
clone of it with a work tree and uncommitted work. Both are built from the pack's `history.fi` when
the sandbox starts, with libgit2 and the commits' own authors and dates, so that every object id is
the same everywhere; the image is kept in the evaluator's memory. The proof is a SHA-256 over the
path, kind, mode and bytes of every file; it knows nothing of git and uses nothing that captures
state. Whatever an agent does to hooks, config or refs is therefore seen, and nothing is executed.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import pygit2

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import load_schema_file
from statediff.errors import SandboxError, UsageError
from statediff.model.schema import Schema
from statediff.packs import PackSource
from statediff.systems.base.folders import empty, make_folder, remove
from statediff.systems.base.receipt import Drift, SourceProof
from statediff.systems.files.filetree import Files, Leaf, digest_of, restore, scan
from statediff.systems.git.fastimport import import_history
from statediff.systems.git.source import GitSource
from statediff.systems.git.testruns.source import TestPlan, TestRunSource, read_test_plan
from statediff.systems.git.testruns.tree import BranchFiles, HeldFile

METHOD: Final = "sha256 over path, kind, mode and bytes of every file"
_BARE_CONFIG: Final = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"
_CLONE_CONFIG: Final = _BARE_CONFIG.replace(b"bare = true", b"bare = false")
_HEAD: Final = "refs/heads/main"
_POLL_SECONDS: Final = 0.01
_WORDS: Final = (
    ("refs/heads/", "branch "),
    ("refs/tags/", "tag "),
    ("refs/remotes/", "remote branch "),
    ("hooks/", "hook "),
    ("logs/", "reflog of "),
)
"""How drift names what lies under a folder of the repository."""


@dataclass(frozen=True)
class _Built:
    """What a pack's history makes."""

    image: Mapping[str, Leaf]
    """Every file by its path under the system's folder."""
    subjects: Mapping[str, str]
    """The first line of each commit's message, by its id."""
    branches: Mapping[str, BranchFiles]
    """The files at the tip of each branch: whose tests count, whatever an agent does to them."""


_OVERLAYS: Final = ("admin", "work")
_BUILDING: Final = threading.Lock()
_BUILT: Final[dict[Hashable, _Built]] = {}
"""By everything that it was made of; nobody changes what is in here."""


class EmbeddedRepository:
    """A `System`: one bare repository, with the test results of its branches as a further look."""

    FILES: ClassVar[Mapping[str, bool]] = {"history": True, "admin": False}
    LOOKS: ClassVar[frozenset[str]] = frozenset({"git-tests"})
    PREFIX: ClassVar[str] = "git"
    IS_BARE: ClassVar[bool] = True

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self.folder = folder
        refined: Callable[[Schema], Schema] | None = None
        if source.schema is not None:
            refined = refine(load_schema_file(source.schema), source.name)
        built = self._build(source)
        self.image, self.subjects = built.image, built.subjects
        self.expected = {path: leaf.summary() for path, leaf in self.image.items()}
        self.digest = digest_of(self.expected)
        self._read = GitSource(
            source.name, self.place, refined, prefix=self.PREFIX, is_bare=self.IS_BARE
        )
        self._sources: tuple[Source, ...] = (
            self._read,
            *(
                TestRunSource(look.name, self.place, _plan_of(look), built.branches)
                for look in looks
            ),
        )

    @property
    def place(self) -> Path:
        """Where the repository lies: for a checkout, its work tree."""
        return self.folder / f"{self.source}.git"

    @property
    def administration(self) -> Path:
        """The folder that holds HEAD, refs and objects."""
        return self.place

    @property
    def url(self) -> str:
        return self.place.as_uri()

    def start(self) -> None:
        """Nothing runs: git's own programs, or a library, work on the files."""

    def stop(self) -> None:
        """Nothing runs."""

    def sources(self) -> tuple[Source, ...]:
        return self._sources

    def feeds(self) -> tuple[Feed, ...]:
        return ()

    def unplug(self, source: str) -> None:
        """The repository is gone until the next reset."""
        self._clear()
        remove(self.folder)

    def reset(self) -> None:
        """Every file that is not as in the base is made anew; what lies beside them is gone."""
        try:
            try:
                restore(self.image, self.folder)
            except OSError:  # e.g. folders nested deeper than any path is long
                self._clear()
                restore(self.image, self.folder)
        except OSError as error:
            raise SandboxError(
                f"{self.source}: the repository could not be put back at {self.place}: {error}"
            ) from error

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        found = self._scan()
        proof = SourceProof(self.source, METHOD, self.digest, digest_of(found), len(self.expected))
        inside = f"{self.administration.relative_to(self.folder)}/objects/"
        drift: list[Drift] = []
        strange_objects = 0
        for path in sorted(self.expected.keys() | found.keys()):
            if found.get(path) == self.expected.get(path):
                continue
            if path.startswith(inside):
                strange_objects += 1
                continue
            before, after = self._described(path, self.expected), self._described(path, found)
            drift.append(Drift(self.source, self._called(path), before, after))
        if strange_objects:
            told = f"{strange_objects} files or folders that are new, changed or gone"
            drift.append(Drift(self.source, "object store", "the objects of the base", told))
        return proof, tuple(drift)

    def unsettled(self, deadline: float) -> str | None:
        """Waits until no git command holds a lock; which one is held, if `deadline` passes.

        A lock that a dead command left behind cannot be told from one that is in use.
        """
        while True:
            if not self._is_in_place():
                return "the repository is gone"
            lock = self._lock()
            if lock is None or time.monotonic() >= deadline:
                return lock and f"{lock} exists: a git command is running, or died"
            time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))

    def _scan(self) -> Files:
        """Every file of the system's, as it is now."""
        return scan(self.folder)

    def _clear(self) -> None:
        make_folder(self.folder)
        empty(self.folder)

    def _is_in_place(self) -> bool:
        folders = (self.administration, *self.administration.parents[:3])
        return self.administration.is_dir() and not any(f.is_symlink() for f in folders)

    def _lock(self) -> str | None:
        for folder, folders, files in os.walk(self.administration):
            for name in sorted(files):
                if name.endswith(".lock") or name.startswith(("tmp_pack_", "tmp_idx_")):
                    at = Path(folder, name).relative_to(self.administration)
                    return f"the lock file {at}" if name.endswith(".lock") else f"the file {at}"
            for name in sorted(folders):
                if name.startswith(("incoming-", "tmp_objdir-incoming-")):
                    return f"the quarantine folder objects/{name} of a push"
        return None

    def _called(self, path: str) -> str:
        """What a person calls the file at `path` under the system's folder."""
        root = str(self.administration.relative_to(self.folder))
        if not f"{path}/".startswith(f"{root}/"):
            place = self.place.name
            return f"work file {path[len(place) + 1 :]}" if path.startswith(place) else path
        inner = path[len(root) + 1 :]
        if inner.endswith(".lock"):
            return f"lock file {inner}"
        for start, word in _WORDS:
            if inner.startswith(start):
                return word + inner.removeprefix(start)
        return inner or "the repository"

    def _described(self, path: str, tree: Files) -> str:
        leaf = tree.get(path)
        if leaf is None:
            return "nothing there"
        oid = leaf.start.decode("ascii", "replace").strip()
        if "/refs/" in path and leaf.kind == "file" and len(oid) == 40:
            subject = self.subjects.get(oid)
            return f"{oid[:10]} {subject!r}" if subject else f"{oid[:10]}, unknown to the base"
        return leaf.words()

    def _build(self, source: PackSource) -> _Built:
        """What the history makes, made once in a process: it is most of what a start takes."""
        history = source.files["history"]
        try:
            text = history.read_text(encoding="utf-8")
            overlays = [_given(source.file(name)) for name in _OVERLAYS]
            key = (type(self).__name__, source.name, text, *overlays)
            with _BUILDING:
                if key not in _BUILT:
                    _BUILT[key] = self._made(source, text)
                return _BUILT[key]
        except (OSError, UnicodeDecodeError, ValueError, pygit2.GitError) as error:
            raise SandboxError(f"{self.source}: {history} makes no repository: {error}") from error

    def _made(self, source: PackSource, text: str) -> _Built:
        history = source.files["history"]
        with tempfile.TemporaryDirectory() as made:
            repository = pygit2.init_repository(made, bare=True)
            import_history(text, str(history), repository)
            if _HEAD not in repository.references:
                raise SandboxError(f"{history}: expected a branch `main`, found none")
            layout = self._layout(repository, source)
            subjects, branches = _subjects(repository), _branches(repository)
            layout |= self._administered(_packed(repository))
        if (admin := source.file("admin")) is not None:
            layout |= self._administered(_overlay(admin))
        for path in list(layout):
            for parent in Path(path).parents[:-1]:
                layout.setdefault(str(parent), Leaf.folder())
        return _Built(layout, subjects, branches)

    def _layout(self, repository: pygit2.Repository, source: PackSource) -> dict[str, Leaf]:
        refs = {name: str(repository.references[name].target) for name in repository.references}
        return self._administered(_skeleton(_BARE_CONFIG, refs))

    def _administered(self, tree: Mapping[str, Leaf]) -> dict[str, Leaf]:
        root = self.administration.relative_to(self.folder)
        return {f"{root}/{path}": leaf for path, leaf in tree.items()}


class EmbeddedCheckout(EmbeddedRepository):
    """A `System`: a clone of the history, its work tree at `main`, and uncommitted work over it."""

    FILES: ClassVar[Mapping[str, bool]] = {"history": True, "admin": False, "work": False}
    LOOKS: ClassVar[frozenset[str]] = frozenset()
    PREFIX: ClassVar[str] = "checkout"
    IS_BARE: ClassVar[bool] = False

    @property
    def place(self) -> Path:
        return self.folder / self.source

    @property
    def administration(self) -> Path:
        return self.place / ".git"

    def _layout(self, repository: pygit2.Repository, source: PackSource) -> dict[str, Leaf]:
        names = list(repository.references)
        refs = {
            name.replace("refs/heads/", "refs/remotes/origin/", 1): str(
                repository.references[name].target
            )
            for name in names
        }
        main = repository.references[_HEAD].peel(pygit2.Commit)
        refs[_HEAD] = str(main.id)
        repository.index.read_tree(main.tree)
        layout = {
            f"{self.place.name}/{entry.path}": Leaf.of(
                repository[entry.id].read_raw(),
                entry.mode == pygit2.enums.FileMode.BLOB_EXECUTABLE,
                is_link=entry.mode == pygit2.enums.FileMode.LINK,
            )
            for entry in repository.index
        }
        # Its entries hold no times of files, so that it is the same in every sandbox.
        repository.index.write()
        index = Leaf.of(Path(repository.path, "index").read_bytes())
        layout |= self._administered(_skeleton(_CLONE_CONFIG, refs) | {"index": index})
        if (work := source.file("work")) is not None:
            layout |= {f"{self.place.name}/{path}": leaf for path, leaf in _overlay(work).items()}
        return layout


def _skeleton(config: bytes, refs: Mapping[str, str]) -> dict[str, Leaf]:
    tree = {path: Leaf.folder() for path in ("hooks", "objects/info", "refs/tags")}
    tree |= {"HEAD": Leaf.of(f"ref: {_HEAD}\n".encode()), "config": Leaf.of(config)}
    tree |= {"info/exclude": Leaf.of(b"")}
    return tree | {name: Leaf.of(f"{target}\n".encode()) for name, target in refs.items()}


def _packed(repository: pygit2.Repository) -> dict[str, Leaf]:
    """All objects as one pack with its index: two files instead of hundreds at every reset."""
    with tempfile.TemporaryDirectory() as made:
        repository.pack(made, n_threads=1)
        return {f"objects/pack/{p.name}": Leaf.of(p.read_bytes()) for p in Path(made).iterdir()}


def _subjects(repository: pygit2.Repository) -> dict[str, str]:
    objects = (repository[oid] for oid in repository)
    return {
        str(found.id): found.message.partition("\n")[0]
        for found in objects
        if isinstance(found, (pygit2.Commit, pygit2.Tag))
    }


def _branches(repository: pygit2.Repository) -> dict[str, BranchFiles]:
    found: dict[str, BranchFiles] = {}
    executable = pygit2.enums.FileMode.BLOB_EXECUTABLE
    for name in repository.branches.local:
        repository.index.read_tree(repository.branches.local[name].peel(pygit2.Tree))
        found[name] = {
            entry.path: HeldFile(repository[entry.id].read_raw(), entry.mode == executable)
            for entry in repository.index
        }
    return found


def _plan_of(look: PackSource) -> TestPlan:
    path = look.file("plan")
    if path is None:
        raise UsageError(f"source {look.name!r} of kind {look.kind} needs `plan`")
    return read_test_plan(path)


def _given(folder: Path | None) -> Hashable:
    """What a folder of the pack holds, if there is one."""
    return (
        None if folder is None else digest_of({p: f.summary() for p, f in _overlay(folder).items()})
    )


def _overlay(folder: Path) -> dict[str, Leaf]:
    """The files of a folder of the pack; those in `hooks/` can be executed."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    found = {path.relative_to(folder).as_posix(): path for path in paths}
    return {
        name: Leaf.of(path.read_bytes(), name.startswith("hooks/")) for name, path in found.items()
    }
