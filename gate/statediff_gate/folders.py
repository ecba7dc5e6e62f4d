"""A folder or a checkout behind the gate: a copy of it takes its place in one step.

1. A run works on a copy beside the folder (`copied`), in the same file system.
2. Its statement is `adopt ROOT COPY`: ROOT is the root of what the copy was made of, so that a
   folder to which others wrote since is not put back by it.
3. The copy is copied once more, and that is what is judged: a process that the run left behind has
   the other one. To commit is to let the two folders change places (`RENAME_EXCHANGE` of Linux),
   so that a gate that is killed leaves one or the other. What was there before is then removed.

What somebody writes between the last look and that step goes with the folder that was there.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from statediff.capture.source import Source, SourceUnavailable, clock
from statediff.errors import InputError, UsageError
from statediff.model.readings import SourceCapture
from statediff.model.schema import Schema
from statediff.model.state import MemoryChunks, State
from statediff.model.values import printable
from statediff.systems.base.folders import remove
from statediff.systems.base.plugin import Refinement
from statediff.systems.files.source import FilesSource
from statediff.systems.relational.tools import Scalar
from statediff_gate.course import Course, Prepared
from statediff_gate.entries import rewrite
from statediff_gate.participant import Answer, Participant, Refused
from statediff_gate.statements import Rewrite, RowEdit

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_HERE: Final = -100
_EXCHANGE: Final = 2
_WORD: Final = "adopt"
_RUN, _OWN = "run", "gate"


def source_of(name: str, path: Path, refine: Refinement | None, *, is_checkout: bool) -> Source:
    """The folder as a source."""
    if is_checkout:
        from statediff_git.source import GitSource  # noqa: PLC0415 - of checkouts alone

        return GitSource(name, path, refine, is_bare=False)
    return FilesSource(name, path, refine)


def read(name: str, path: Path, refine: Refinement | None, *, is_checkout: bool) -> SourceCapture:
    """The folder as a state. Raises `InputError`."""
    try:
        source = source_of(name, path, refine, is_checkout=is_checkout)
        return source.read(MemoryChunks(), clock, None)
    except SourceUnavailable as error:
        raise InputError(f"{name}: cannot be read: {error}") from error


def root_of(state: State) -> str:
    """One digest of all that the state shows."""
    chunks = [[n, [ref.digest for ref in t.chunks]] for n, t in sorted(state.tables.items())]
    return hashlib.sha256(json.dumps(chunks).encode()).hexdigest()


def require_folder(name: str, path: Path) -> bool:
    """True for a checkout, False for another folder. `UsageError` where no gate can stand there."""
    if not hasattr(_LIBC, "renameat2"):
        raise UsageError(f"{name}: this system cannot exchange two folders in one step; Linux can")
    git = path / ".git"
    if path.is_symlink() or os.path.ismount(path):
        raise UsageError(f"{name}: a link, or the top of a file system, cannot be exchanged")
    if git.is_symlink() or git.is_file():
        raise UsageError(f"{name}: is a worktree whose repository lies elsewhere")
    return git.is_dir()


def copied(path: Path, beside: Path, what: str = _RUN) -> tuple[Path, int]:
    """A whole copy of the folder beside another one, and its open descriptor, which locks it.

    Raises `UsageError`.
    """
    try:
        copy = tempfile.mkdtemp(dir=beside.parent, prefix=_copies(beside, what))
        lock = os.open(copy, _FOLDER)
    except OSError as error:
        raise UsageError(f"{beside.parent}: cannot be written: {error.strerror}") from error
    fcntl.flock(lock, fcntl.LOCK_EX)
    words = ["cp", "-a", "--", f"{path}/.", copy]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        drop(Path(copy), lock)
        raise UsageError(f"{path}: cannot be copied: {printable(done.stderr.strip()[:300])}")
    return Path(copy), lock


def _copies(folder: Path, what: str) -> str:
    """How the names of copies of the folder begin, which lie beside it."""
    return f".{folder.name}.statediff-{what}-"


def drop(copy: Path, lock: int) -> None:
    """The copy is gone; the next gate tries again where it cannot be removed now."""
    with contextlib.suppress(OSError):
        remove(copy)
    os.close(lock)


def adoption(state: State, copy: Path) -> str:
    """The statement that the copy, made of a folder in this state, takes its place."""
    return f"{_WORD} {root_of(state)} {copy}"


class FolderGate(Participant):
    """One folder behind the gate."""

    def __init__(self, name: str, path: Path, refine: Refinement | None = None) -> None:
        self.name = name
        self._path, self._refine = path.absolute(), refine
        self._is_checkout = require_folder(name, self._path)
        self._own: tuple[Path, int] | None = None
        self._made: tuple[Path, int] | None = None
        self._wanted: Path | None = None
        self._drop_left()
        state = self._read(self._path)
        self._course, self._root = Course(name, state), root_of(state)

    def _read(self, path: Path) -> State:
        state = read(self.name, path, self._refine, is_checkout=self._is_checkout).state
        for table in state.tables.values():
            if not table.enumeration.is_complete:
                raise InputError(f"{self.name}: not read whole: {table.enumeration.cause}")
        return state

    def _drop_left(self) -> None:
        """Remove what gates that are gone had copied."""
        for left in self._path.parent.iterdir():
            if not left.name.startswith(_copies(self._path, _OWN)):
                continue
            lock = os.open(left, _FOLDER)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)  # its gate is at work
            else:
                drop(left, lock)

    def begin(self, transaction: str) -> None:
        state = self._present_state()
        if root_of(state) != self._root:
            self._course.others(self._course.part_of(state)[1])
            self._root = root_of(state)

    def _present_state(self) -> State:
        """The folder as it is. Raises `Refused`."""
        try:
            return self._read(self._path)
        except InputError as error:
            raise Refused(str(error)) from error

    def rewriting(self, edits: Sequence[RowEdit], schema: Schema) -> Iterable[Rewrite]:
        copy, _ = self._made = copied(self._path, self._path)
        rewrite(copy, edits, self._course.row, is_checkout=self._is_checkout)
        return [(f"{_WORD} {self._root} {copy}", ())]

    def run(self, statement: str, values: Sequence[Scalar] = ()) -> Answer:
        word, root, copy = [*statement.split(" ", 2), "", ""][:3]
        place, prefix = Path(copy), _copies(self._path, _RUN)
        is_copy = place.parent == self._path.parent and place.name.startswith(prefix)
        if word != _WORD or not is_copy:
            raise Refused(f"{self.name}: a folder changes by a run on a copy of it alone")
        if self._wanted is not None:
            raise Refused(f"{self.name}: one copy takes its place in a transaction")
        if root != self._root:
            raise Refused(f"{self.name}: somebody wrote there since it was copied; run again")
        self._wanted = place
        return Answer()

    def prepare(self) -> Prepared:
        state = self._course.committed()
        if self._wanted is not None:
            try:
                self._own = copied(self._wanted, self._path, _OWN)
                state = self._read(self._own[0])
            except (InputError, UsageError) as error:
                raise Refused(f"{self.name}: the copy: {error}") from error
        own, changes = self._course.part_of(state)
        self._proposed = state, own
        return self._course.prepared(state, changes)

    def commit(self) -> None:
        if self._own is not None and self._wanted is not None:
            copy, lock = self._own
            _LIBC.syncfs(lock)  # what takes the place is there after a power cut
            if root_of(self._present_state()) != self._root:
                raise Refused(f"{self.name}: somebody wrote there in this moment; run again")
            _exchange(copy, self._path)
            with contextlib.suppress(OSError):
                remove(self._wanted)
            self._root = root_of(self._proposed[0])
        self._course.accept(*self._proposed)
        self.abort()

    def abort(self) -> None:
        for each in filter(None, (self._own, self._made)):
            drop(*each)
        self._own = self._made = self._wanted = None


def _exchange(one: Path, other: Path) -> None:
    """The two folders change places at once. Raises `Refused`."""
    if _LIBC.renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) != 0:
        cause = os.strerror(ctypes.get_errno())
        raise Refused(f"{other}: the file system does not exchange it: {cause}")
