"""Git repositories that are put back file by file and proven by their bytes.

Two kinds of system: `git`, a bare repository that agents push to, and `git-checkout`, somebody's
clone of it with a work tree and uncommitted work. Both are built from the pack's `history.fi` when
the sandbox starts, with libgit2 and the commits' own authors and dates, so that every object id is
the same everywhere; the image is kept in the evaluator's memory. The proof is a SHA-256 over the
path, kind, mode and bytes of every file; it knows nothing of git and uses nothing that captures
state. Whatever an agent does to hooks, config or refs is therefore seen, and nothing is executed.

A pack's `history.fi` is text that people read in review and `git fast-import` reads alike; both
make the same objects (`import_history`). Understood are `commit`, `tag`, `reset`, `mark`, `author`,
`committer`, `tagger`, `from`, `merge`, `M <mode> inline <path>`, `D <path>`, `data <<END`, comments
and blank lines. Everything else is refused with its line. Built with libgit2, so that no git needs
to be installed.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import ClassVar, Final

import pygit2

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.errors import SandboxError, UsageError
from statediff.packs import PackSource
from statediff.systems.base.folders import empty, is_no_folder, make_folder, remove
from statediff.systems.base.protocol import Drift, SourceProof
from statediff.systems.files.leaves import Files, Leaf, files_digest, held, restore, scan
from statediff_git.copying import (
    Cut,
    branches_of,
    cut,
    head_line,
    open_repository,
    pack_files,
    shallow_line,
    subjects_of,
    work_files,
)
from statediff_git.source import GitSource
from statediff_git.testruns.process import BranchFiles
from statediff_git.testruns.source import TestPlan, TestRunSource, read_test_plan

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
    """The repository that a pack's history makes."""

    image: Mapping[str, Leaf]
    """Every file by its path under the system's folder."""
    subjects: Mapping[str, str]
    """The first line of each commit's message, by its id."""
    branches: Mapping[str, BranchFiles]
    """The files at the tip of each branch: whose tests count, whatever an agent does to them."""
    later: str = ""
    """Which work an agent can read that comes after the base, in words."""


_OVERLAYS: Final = ("admin", "work")
_BUILDING: Final = threading.Lock()
_BUILT: Final[dict[Hashable, _Built]] = {}
"""By everything that it was made of; nobody changes what is in here."""


class EmbeddedRepository:
    """A `System`: one bare repository, with the test results of its branches as a further look."""

    FILES: ClassVar[Mapping[str, bool]] = dict.fromkeys(("history", "repository", "admin"), False)
    LOOKS: ClassVar[frozenset[str]] = frozenset({"git-tests"})
    PREFIX: ClassVar[str] = "git"
    IS_BARE: ClassVar[bool] = True

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self.folder = folder
        built = self._build(source)
        self.subjects = built.subjects
        self.remarks = (built.later,) if built.later else ()
        self._hold(built.image)
        self._read = GitSource(
            source.name,
            self.place,
            source.refinement(),
            prefix=source.types or self.PREFIX,
            is_bare=self.IS_BARE,
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
        """The repository's folder: for a checkout, its work tree."""
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

    def keep(self, to: Path) -> None:
        """The folder at the place holds what this one does. `OSError` where it cannot."""
        restore(held(self.folder), to)

    def begin_at(self, kept: Path) -> None:
        """The base is what was kept there, of this system or of another one."""
        self._hold(held(kept))

    def _hold(self, image: Mapping[str, Leaf]) -> None:
        self.image = image
        self.expected = {path: leaf.summary() for path, leaf in image.items()}
        self.digest = files_digest(self.expected)

    def unplug(self, source: str) -> None:
        """The repository is gone until the next reset."""
        self._clear()
        remove(self.folder)
        self._read.is_unplugged = True

    def reset(self) -> None:
        """Every file that is not as in the base is made anew; what lies beside them is gone."""
        try:
            try:
                restore(self.image, self.folder)
            except OSError:  # e.g. folders nested deeper than any path is long
                self._clear()
                restore(self.image, self.folder)
            self._read.is_unplugged = False
        except OSError as error:
            raise SandboxError(
                f"{self.source}: the repository could not be put back at {self.place}: {error}"
            ) from error

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        found = self._scan()
        proof = SourceProof(
            self.source, METHOD, self.digest, files_digest(found), len(self.expected)
        )
        inside = f"{self.administration.relative_to(self.folder)}/objects/"
        drift: list[Drift] = []
        strange_objects = 0
        for path in sorted(self.expected.keys() | found.keys()):
            if found.get(path) == self.expected.get(path):
                continue
            if path.startswith(inside):
                strange_objects += 1
                continue
            before, after = self._describe(path, self.expected), self._describe(path, found)
            drift.append(Drift(self.source, self._name_of(path), before, after))
        if strange_objects:
            told = f"{strange_objects} files or folders that are new, changed or gone"
            drift.append(Drift(self.source, "object store", "the objects of the base", told))
        return proof, tuple(drift)

    def unsettled(self, deadline: float) -> str | None:
        """Waits until no git command holds a lock; which one is held, if `deadline` passes.

        A lock that a dead command left behind cannot be distinguished from one that is in use.
        """
        while True:
            if is_no_folder(self.place) and not self._read.is_unplugged:
                return None  # nobody writes to what is no repository: reading says what it is
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

    def _name_of(self, path: str) -> str:
        """The name that a person has for the file at `path` under the system's folder."""
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

    def _describe(self, path: str, tree: Files) -> str:
        leaf = tree.get(path)
        if leaf is None:
            return "nothing there"
        oid = leaf.short.decode("ascii", "replace").strip()
        if "/refs/" in path and leaf.kind == "file" and len(oid) == 40:
            subject = self.subjects.get(oid)
            return f"{oid[:10]} {subject!r}" if subject else f"{oid[:10]}, unknown to the base"
        return leaf.words()

    def _build(self, source: PackSource) -> _Built:
        """Build the history, once in a process: it is most of what a start takes."""
        if ("history" in source.files) == ("repository" in source.files):
            raise source.problem("kind", "a repository is made of `history` or of a `repository`")
        if (own := source.file("repository")) is not None:
            return self._copied(source, own)
        history = source.files["history"]
        try:
            text = history.read_text(encoding="utf-8")
            overlays = [_folder_identity(source.file(name)) for name in _OVERLAYS]
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
            return self._built(self._layout(repository, source), repository, source)

    def _copied(self, source: PackSource, own: Path) -> _Built:
        """Copy what leads to the base of a repository; later work and settings stay behind."""
        try:
            repository = open_repository(own)
            kept = cut(repository, source.keep or ())
            config = _BARE_CONFIG if self.IS_BARE else _CLONE_CONFIG
            layout = self._admin_files(_skeleton(config, kept.refs))
            layout |= self._admin_files({"HEAD": Leaf.of(head_line(repository))})
            if shallow := shallow_line(repository, kept.objects):
                layout |= self._admin_files({"shallow": Leaf.of(shallow)})
            if not self.IS_BARE:
                layout |= self._work_of(repository)
            return self._built(layout, repository, source, kept)
        except (OSError, ValueError, LookupError, pygit2.GitError) as error:
            why = error.args[0] if isinstance(error, LookupError) and error.args else error
            raise SandboxError(f"{self.source}: {own} cannot be copied: {why}") from error

    def _work_of(self, repository: pygit2.Repository) -> dict[str, Leaf]:
        """The index and the work tree of a checkout, without what git ignores."""
        work = repository.workdir
        if work is None:
            raise SandboxError(f"{self.source}: a bare repository is of kind `git`")
        files = {
            f"{self.place.name}/{path}": leaf for path, leaf in work_files(repository, Path(work))
        }
        index = Path(repository.path, "index")
        held = Leaf.of(index.read_bytes() if index.is_file() else b"")
        return files | (self._admin_files({"index": held}) if held.content else {})

    def _built(
        self,
        layout: dict[str, Leaf],
        repository: pygit2.Repository,
        source: PackSource,
        kept: Cut | None = None,
    ) -> _Built:
        """The layout with the objects, what the pack lays over it, and every folder above."""
        objects = tuple(repository) if kept is None else kept.objects
        refs = tuple(repository.references) if kept is None else kept.refs
        subjects, branches = subjects_of(repository, objects), branches_of(repository, refs)
        layout |= self._admin_files(pack_files(repository, objects))
        if (admin := source.file("admin")) is not None:
            layout |= self._admin_files(_overlay(admin))
        for path in list(layout):
            for parent in Path(path).parents[:-1]:
                layout.setdefault(str(parent), Leaf.folder())
        return _Built(layout, subjects, branches, "" if kept is None else kept.later)

    def _layout(self, repository: pygit2.Repository, source: PackSource) -> dict[str, Leaf]:
        refs = {name: str(repository.references[name].target) for name in repository.references}
        return self._admin_files(_skeleton(_BARE_CONFIG, refs))

    def _admin_files(self, tree: Mapping[str, Leaf]) -> dict[str, Leaf]:
        root = self.administration.relative_to(self.folder)
        return {f"{root}/{path}": leaf for path, leaf in tree.items()}


class EmbeddedCheckout(EmbeddedRepository):
    """A `System`: a clone of the history, its work tree at `main`, and uncommitted work over it."""

    FILES: ClassVar[Mapping[str, bool]] = dict.fromkeys(
        ("history", "repository", "admin", "work"), False
    )
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
        layout |= self._admin_files(_skeleton(_CLONE_CONFIG, refs) | {"index": index})
        if (work := source.file("work")) is not None:
            layout |= {f"{self.place.name}/{path}": leaf for path, leaf in _overlay(work).items()}
        return layout


def _skeleton(config: bytes, refs: Mapping[str, str]) -> dict[str, Leaf]:
    tree = {path: Leaf.folder() for path in ("hooks", "objects/info", "refs/tags")}
    tree |= {"HEAD": Leaf.of(f"ref: {_HEAD}\n".encode()), "config": Leaf.of(config)}
    tree |= {"info/exclude": Leaf.of(b"")}
    return tree | {name: Leaf.of(f"{target}\n".encode()) for name, target in refs.items()}


def _plan_of(look: PackSource) -> TestPlan:
    path = look.file("plan")
    if path is None:
        raise UsageError(f"source {look.name!r} of kind {look.kind} needs `plan`")
    return read_test_plan(path)


def _folder_identity(folder: Path | None) -> Hashable:
    """The digest of a folder of the pack, if there is one."""
    return (
        None
        if folder is None
        else files_digest({p: f.summary() for p, f in _overlay(folder).items()})
    )


def _overlay(folder: Path) -> dict[str, Leaf]:
    """The files of a folder of the pack; those in `hooks/` can be executed."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    found = {path.relative_to(folder).as_posix(): path for path in paths}
    return {
        name: Leaf.of(path.read_bytes(), name.startswith("hooks/")) for name, path in found.items()
    }


_PERSON: Final = re.compile(r"(.+) <([^<>]+)> ([0-9]{1,12}) ([+-])([0-9]{2})([0-9]{2})")
_MODES: Final = {
    "100644": pygit2.enums.FileMode.BLOB,
    "100755": pygit2.enums.FileMode.BLOB_EXECUTABLE,
    "120000": pygit2.enums.FileMode.LINK,
}

PackFiles = dict[str, tuple[pygit2.enums.FileMode, pygit2.Oid]]
"""Path → mode and blob, of one commit."""


def import_history(text: str, file: str, repository: pygit2.Repository) -> None:
    """All objects and refs of the stream are in `repository`.

    Raises `SandboxError` naming `file`, the line, and what was expected there.
    """
    _Import(_Lines(text, file), repository).run()


@dataclass
class _Lines:
    """The stream, a line at a time; errors name the line last taken."""

    text: str
    file: str
    number: int = 0
    _lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._lines = self.text.split("\n")

    def peek(self) -> str | None:
        """The next line that says something, not yet taken; None at the end."""
        while self.number < len(self._lines):
            line = self._lines[self.number]
            if line and not line.startswith("#"):
                return line
            self.number += 1
        return None

    def take(self, word: str) -> str | None:
        """The text after `word` where the next line begins with it; None where it does not."""
        line = self.peek()
        if line is None or not (line == word or line.startswith(f"{word} ")):
            return None
        self.number += 1
        return line[len(word) + 1 :]

    def need(self, word: str) -> str:
        rest = self.take(word)
        if rest is None:
            self.number += 1
            raise self.error(f"expected `{word} …`, found {self._found()!r}")
        return rest

    def block(self) -> str:
        """The text of `data <<END` up to the line that is `END`, each line with its newline."""
        opening = self.need("data")
        end = opening.removeprefix("<<")
        if not opening.startswith("<<") or not end:
            raise self.error(f"expected `data <<END`, found `data {opening}`")
        try:
            stop = self._lines.index(end, self.number)
        except ValueError:
            raise self.error(f"expected a line `{end}` that ends the data, found none") from None
        lines = self._lines[self.number : stop]
        self.number = stop + 1
        return "".join(f"{line}\n" for line in lines)

    def error(self, message: str) -> SandboxError:
        return SandboxError(f"{self.file}, line {self.number}: {message}")

    def _found(self) -> str:
        return self._lines[self.number - 1] if self.number <= len(self._lines) else "the end"


class _Import:
    """One pass over the stream. What a mark or a ref names is known once its command is read."""

    def __init__(self, lines: _Lines, repository: pygit2.Repository) -> None:
        self.lines = lines
        self.repository = repository
        self.marks: dict[str, pygit2.Oid] = {}
        self.files: dict[pygit2.Oid, PackFiles] = {}
        self.refs: dict[str, pygit2.Oid] = {}

    def run(self) -> None:
        while self.lines.peek() is not None:
            if (ref := self.lines.take("commit")) is not None:
                self._commit(ref)
            elif (ref := self.lines.take("reset")) is not None:
                self._set(ref, self._object(self.lines.need("from")))
            else:
                self._tag(self.lines.need("tag"))
        for ref, target in sorted(self.refs.items()):
            self.repository.references.create(ref, target, force=True)

    def _commit(self, ref: str) -> None:
        mark = self.lines.take("mark")
        author = self._person("author")
        committer = self._person("committer")
        message = self.lines.block()
        first = self.lines.take("from")
        start = self.refs.get(ref) if first is None else self._object(first)
        parents = [] if start is None else [start]
        while (merged := self.lines.take("merge")) is not None:
            parents.append(self._object(merged))
        files = dict(self.files[start]) if start is not None else {}
        self._change(files)
        oid = self.repository.create_commit(
            None, author, committer, message, self._tree(files), parents
        )
        self.files[oid] = files
        self._set(ref, oid)
        if mark is not None:
            self.marks[mark] = oid

    def _change(self, files: PackFiles) -> None:
        while True:
            if (changed := self.lines.take("M")) is not None:
                mode, _, rest = changed.partition(" ")
                where, _, path = rest.partition(" ")
                if mode not in _MODES or where != "inline":
                    raise self.lines.error(f"expected `M 100644 inline PATH`, found `M {changed}`")
                name = self._path(path)
                content = self.lines.block()
                if mode == "120000":
                    content = content.removesuffix("\n")
                files[name] = (_MODES[mode], self.repository.create_blob(content.encode()))
            elif (removed := self.lines.take("D")) is not None:
                if files.pop(self._path(removed), None) is None:
                    raise self.lines.error(f"expected a file to delete, found none at {removed!r}")
            else:
                return

    def _tag(self, name: str) -> None:
        target = self._object(self.lines.need("from"))
        tagger = self._person("tagger")
        kind = pygit2.enums.ObjectType.COMMIT
        oid = self.repository.create_tag(name, target, kind, tagger, self.lines.block())
        self.refs[f"refs/tags/{name}"] = oid  # libgit2 has made the ref as well

    def _set(self, ref: str, target: pygit2.Oid) -> None:
        if not ref.startswith("refs/") or not pygit2.reference_is_valid_name(ref):
            raise self.lines.error(f"expected the name of a ref, e.g. refs/heads/main, not {ref!r}")
        self.refs[ref] = target

    def _object(self, name: str) -> pygit2.Oid:
        found = self.marks.get(name) or self.refs.get(name)
        if found is None:
            raise self.lines.error(f"expected a mark or ref named above, found {name!r}")
        return found

    def _person(self, role: str) -> pygit2.Signature:
        found = _PERSON.fullmatch(self.lines.need(role))
        if found is None:
            raise self.lines.error(f"expected `{role} NAME <EMAIL> SECONDS +ZONE`")
        sign = -1 if found[4] == "-" else 1
        minutes = sign * (int(found[5]) * 60 + int(found[6]))
        return pygit2.Signature(found[1], found[2], int(found[3]), minutes, "utf-8")

    def _path(self, path: str) -> str:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or {"..", ".git"} & set(parts):
            raise self.lines.error(f"expected a path inside the repository, found {path!r}")
        return "/".join(parts)

    def _tree(self, files: PackFiles) -> pygit2.Oid:
        builder = self.repository.TreeBuilder()
        for name, entries in _by_first_part(files):
            if "" in entries:
                mode, oid = entries[""]
                builder.insert(name, oid, mode)
            else:
                builder.insert(name, self._tree(entries), pygit2.enums.FileMode.TREE)
        return builder.write()


def _by_first_part(files: PackFiles) -> Iterator[tuple[str, PackFiles]]:
    """Each name of a folder with what lies under it; a file is `{"": …}`."""
    found: dict[str, PackFiles] = {}
    for path, entry in files.items():
        name, _, rest = path.partition("/")
        found.setdefault(name, {})[rest] = entry
    yield from found.items()
