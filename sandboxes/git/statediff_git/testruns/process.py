"""One run of tests: a copy of the files, a program that is shut off, lines read with suspicion.

The tested code runs as another user where the evaluator is root, in a session of its own, with
limits, an environment of ours, no input and no output. On Linux it also has no network, a process
namespace of its own and, outside the tests' process, no file but its own copy, the standard library
and the machine's programs, where that is allowed. Whatever it prints, forks, kills or writes, this
side waits no longer than its limit and believes only lines that are complete and in order. What
stays possible: inside the tests' process the code can forge a line, which `Results.is_forgeable`
says; and where no process namespace is allowed, a process that leaves the session outlives the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from statediff.errors import InputError, StatediffError
from statediff.model.explanation import unread_because
from statediff.model.strictjson import read_json
from statediff.model.values import Map, Value
from statediff.systems import base
from statediff.systems.files.tree import Folder, NotRead, shown
from statediff_git.objects import Objects
from statediff_git.refs import read_refs
from statediff_git.types import TreeEntry, tree_entries

MAX_FILES: Final = 5_000
MAX_BYTES: Final = 64 * 1024 * 1024
_EXECUTABLE: Final = 0o100755


@dataclass(frozen=True)
class HeldFile:
    """A file's content. A link is a file that holds its target: nothing is ever followed."""

    content: bytes
    is_executable: bool = False


BranchFiles: TypeAlias = Mapping[str, HeldFile]
"""Path → file. Submodules are left out: their content is in another repository."""


def read_branch(repository: Path, branch: str) -> dict[str, HeldFile] | None:
    """The files at the tip of the branch; None if there is no such branch.

    Raises `NotRead` with the cause: what cannot be read, has a name no file can have, or is more
    than is read.
    """
    name = f"refs/heads/{branch}".encode()
    with (
        tempfile.TemporaryDirectory() as private,
        Folder.open(repository) as git,
    ):
        objects = Objects(git, Path(private))
        try:
            refs = read_refs(git)
            ref = refs.by_name.get(name)
            if ref is None:
                if refs.causes:
                    raise NotRead(refs.causes[0])
                return None
            oid = refs.resolved(ref)
            return None if oid is None else _files(objects, _tree_of(objects, oid))
        finally:
            objects.close()


def _tree_of(objects: Objects, oid: str) -> str:
    commit = objects.read(oid)
    first, _, _ = commit.content.partition(b"\n")
    if commit.type != "commit" or not first.startswith(b"tree "):
        raise NotRead(f"object {oid} is no commit with a tree")
    return first[5:].decode("ascii", "replace")


def _files(objects: Objects, root: str) -> dict[str, HeldFile]:
    found: dict[str, HeldFile] = {}
    left = MAX_BYTES
    pending = [("", root)]
    while pending:
        above, oid = pending.pop()
        tree = objects.read(oid)
        if tree.type != "tree":
            raise NotRead(f"object {oid} is a {tree.type}, not a tree")
        for entry in tree_entries(oid, tree.content):
            path = above + _name(entry)
            if path.count("/") > 50 or len(found) >= MAX_FILES:
                raise NotRead(f"it holds more than {MAX_FILES} files, or some of them too deep")
            if entry.is_tree:
                pending.append((f"{path}/", entry.oid))
            elif not entry.is_submodule:
                blob = objects.read(entry.oid)
                left -= len(blob.content)
                if blob.type != "blob" or left < 0 or path in found:
                    raise NotRead(f"{path!r} is no file, is there twice, or is too large")
                found[path] = HeldFile(blob.content, entry.mode == _EXECUTABLE)
    return found


def _name(entry: TreeEntry) -> str:
    try:
        name = entry.name.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotRead(f"the name {shown(entry.name)} is not UTF-8") from error
    if name in ("", ".", "..") or "/" in name or "\0" in name or len(name) > 255:
        raise NotRead(f"a tree has an entry that no file can be called: {shown(entry.name)}")
    return name


OUTCOMES: Final = frozenset({"passed", "failed", "error", "skipped", "timeout"})
_PROGRAM: Final = Path(__file__).with_name("program.py")
# Not -I: it would ignore PYTHONHASHSEED, and the order of a set may show in a result.
_PYTHON: Final = ("-s", "-S", "-P", "-B")
_MAX_LINE: Final = 1024 * 1024
_MAX_DETAIL: Final = 300


class NotRun(StatediffError):
    """The tests could not be run to a result; the message is the cause."""


@dataclass(frozen=True)
class Limits:
    """The limits of one run. CPU time is a module's, wall time the whole run's."""

    cpu_seconds: int = 5
    wall_seconds: float = 20.0
    memory_bytes: int = 1024**3
    file_bytes: int = 16 * 1024**2
    processes: int = 64
    result_bytes: int = 4 * 1024**2


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True)
class Case:
    """How one test ended, or why that is not known."""

    name: str
    outcome: str = ""
    detail: str | None = None
    unknown: str | None = None


@dataclass(frozen=True)
class Results:
    """All tests of a run, sorted by name, and how the run was shut off."""

    ran_as: str
    """`nobody`, or `evaluator` where there was no other user to be had."""
    network: str
    """`none`, or `machine` where the tests could reach what the machine reaches."""
    is_forgeable: bool
    """True if the tested code could have made a test pass that did not."""
    cases: tuple[Case, ...]


def run_tests(
    files: BranchFiles,
    modules: Sequence[str],
    import_from: Sequence[str],
    known: Iterable[str],
    limits: Limits,
    outside: BranchFiles | None = None,
) -> Results:
    """The results of `modules` on a copy of `files`, which is gone afterwards.

    The modules are among the files; or they are those `outside`, which run in a process that the
    code of `files` is not in. `known` are tests that must have a result even if their module cannot
    be imported any more. Raises `NotRun`.
    """
    with _folder() as folder, _folder() as apart:
        user = _other_user(folder)
        try:
            _copy(files, folder, user)
            _copy(outside or {}, apart, None)
        except (OSError, ValueError) as error:
            raise NotRun(unread_because(f"the files cannot be copied: {error}")) from error
        order: dict[str, object] = {
            "folder": str(folder),
            "tests": None if outside is None else str(apart),
            "import_from": list(import_from),
            "modules": list(modules),
            "user": user,
            "cpu_seconds": limits.cpu_seconds,
            "memory_bytes": limits.memory_bytes,
            "file_bytes": limits.file_bytes,
            "processes": limits.processes,
        }
        # Where the copy lay shows in no result: the next one lies elsewhere.
        written = _output(order, folder, limits)
        for place in (folder, apart):
            written = written.replace(str(place).encode(), b".")
        return _Lines(written, list(known)).results(modules)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder of the evaluator's, gone afterwards. Raises `NotRun` where there is no place."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="statediff-tests-"))
    except OSError as error:
        raise NotRun(
            unread_because(f"there is no place for a copy of the files: {error}")
        ) from error
    try:
        yield folder
    finally:
        # Tests may leave folders nested deeper than any recursion of Python's reaches.
        subprocess.run(
            ["/bin/rm", "-rf", "--", str(folder)], stderr=subprocess.DEVNULL, check=False
        )


def _other_user(folder: Path) -> int | None:
    """Whom root becomes, and owns the folder from now on; None where there is nobody else.

    A root of a user namespace may have no other user: files cannot be given to one.
    """
    if os.getuid() != 0:
        return None
    try:
        user = pwd.getpwnam("nobody").pw_uid
    except KeyError:
        user = 65534
    try:
        os.chown(folder, user, user)
    except OSError:
        return None
    return user


def _copy(files: BranchFiles, folder: Path, user: int | None) -> None:
    made = {folder}
    for path, held in sorted(files.items()):
        at = folder / path
        for parent in reversed(at.parents):
            if folder in parent.parents and parent not in made:
                parent.mkdir(mode=0o700)
                made.add(parent)
        at.write_bytes(held.content)
        at.chmod(0o700 if held.is_executable else 0o600)
        made.add(at)
    if user is not None:
        for each in made:
            os.chown(each, user, user, follow_symlinks=False)


def _output(order: dict[str, object], folder: Path, limits: Limits) -> bytes:
    """All that the program wrote, once it and its session are gone."""
    reader, writer = os.pipe()
    try:
        process = _start_program(order, folder, writer)
        try:
            return _attend(process, reader, limits)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        os.close(reader)
        os.close(writer)


def _start_program(order: dict[str, object], folder: Path, writer: int) -> subprocess.Popen[bytes]:
    order = order | {"results": writer, "base": str(Path(str(base.__file__)).parent)}
    command = [sys.executable, *_PYTHON, str(_PROGRAM), json.dumps(order)]
    environment = {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }
    nothing = subprocess.DEVNULL
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            pass_fds=(writer,),
            start_new_session=True,
        )
    except OSError as error:
        raise NotRun(unread_because(f"the tests cannot be started: {error}")) from error


def _attend(process: subprocess.Popen[bytes], reader: int, limits: Limits) -> bytes:
    deadline = time.monotonic() + limits.wall_seconds
    written = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        while True:
            # A process that the tests left behind may hold the pipe open: no end is awaited.
            is_over = process.poll() is not None
            if selector.select(0 if is_over else 0.02):
                written += os.read(reader, 65536)
                if len(written) > limits.result_bytes:
                    raise NotRun(f"the results are more than {limits.result_bytes} bytes")
            elif is_over:
                return bytes(written)
            if time.monotonic() > deadline:
                raise NotRun(f"the tests did not end within {limits.wall_seconds:g} s")


@dataclass
class _Lines:
    """Reads the lines of a run in the one order they can have; anything else is `NotRun`."""

    written: bytes
    known: list[str]
    _at: int = 0
    _lines: list[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._lines = self.written.split(b"\n")

    def results(self, modules: Sequence[str]) -> Results:
        start = self._next()
        cases: dict[str, Case] = {}
        for module in modules:
            for case in self._module(module):
                if case.name in cases:
                    raise NotRun(f"two tests are called {case.name!r}")
                cases[case.name] = case
        if self._lines[self._at :] != [b""]:
            raise NotRun("the results are garbled: there is more after the last module")
        ran_as, network = self._text(start, "ran_as"), self._text(start, "network")
        is_forgeable = start.get("is_forgeable") is not False
        found = tuple(cases[name] for name in sorted(cases))
        return Results(ran_as, network, is_forgeable, found)

    def _module(self, module: str) -> Iterable[Case]:
        line = self._next()
        if _has(line, "unimportable", module):
            why = f"{module} cannot be imported: {self._text(line, 'detail')}"
            self._leave(module)
            return self._import_failures(module, "error", why)
        if "left" in line:
            if not self._spend(line, module):
                raise NotRun(f"the process of {module} ended while it was imported")
            return self._import_failures(
                module, "timeout", "importing its module used up the CPU time"
            )
        listed = line.get("tests")
        if not _has(line, "module", module) or not isinstance(listed, tuple):
            raise self._garbled_output()
        found: dict[str, Case] = {}
        running: str | None = None
        while True:
            line = self._next()
            if "start" in line and running is None:
                running = self._text(line, "start")
            elif running is not None and _has(line, "test", running):
                found[running] = self._case(line, running)
                running = None
            elif _has(line, "ended", module) and running is None:
                self._leave(module)
                why = "not run: what it needs set up could not be"
                return [found.get(name) or Case(name, "error", why) for name in _texts(listed)]
            elif "left" in line:
                return self._cut(line, module, found, running, _texts(listed))
            else:
                raise self._garbled_output()

    def _import_failures(self, module: str, outcome: str, detail: str) -> list[Case]:
        lost = [name for name in self.known if name.startswith(f"{module}.")]
        return [Case(name, outcome, detail[:_MAX_DETAIL]) for name in lost or [module]]

    def _cut(
        self,
        line: dict[str, Value],
        module: str,
        found: dict[str, Case],
        running: str | None,
        listed: list[str],
    ) -> list[Case]:
        """The module's process ended early: a result only where its CPU time was used up.

        That does not depend on how busy the machine is. Any other end could be the doing of
        somebody else, so nothing is concluded from it.
        """
        if not self._spend(line, module):
            during = running or "no test"
            raise NotRun(
                f"the process of {module} ended during {during}, status {line['status']!r}"
            )
        why = f"not run: {running or 'its module'} used up the CPU time"
        ended = {running: Case(running, "timeout", "its CPU time was used up")} if running else {}
        return [(found | ended).get(name, Case(name, unknown=why)) for name in listed]

    def _spend(self, line: dict[str, Value], module: str) -> bool:
        if not _has(line, "left", module) or not isinstance(line.get("status"), int):
            raise self._garbled_output()
        return line["status"] == -signal.SIGXCPU or line.get("spent") is True

    def _leave(self, module: str) -> None:
        if not _has(self._next(), "left", module):
            raise self._garbled_output()

    def _case(self, line: dict[str, Value], name: str) -> Case:
        outcome, detail = line.get("outcome"), line.get("detail")
        if not isinstance(outcome, str) or outcome not in OUTCOMES:
            raise self._garbled_output()
        if not (detail is None or isinstance(detail, str)):
            raise self._garbled_output()
        return Case(name, outcome, detail and detail[:_MAX_DETAIL])

    def _next(self) -> dict[str, Value]:
        # The text after the last newline is no line: a process may have died while it wrote.
        if self._at >= len(self._lines) - 1:
            raise NotRun("the results end too early: the processes that ran the tests are gone")
        raw = self._lines[self._at]
        self._at += 1
        try:
            line = read_json(raw, "a result", max_bytes=_MAX_LINE, max_depth=4)
        except InputError as error:
            raise NotRun(f"the results are garbled: {error}") from error
        if not isinstance(line, Map):
            raise self._garbled_output()
        return dict(line.items)

    def _text(self, line: dict[str, Value], key: str) -> str:
        value = line.get(key)
        if not isinstance(value, str):
            raise self._garbled_output()
        return value

    def _garbled_output(self) -> NotRun:
        return NotRun(f"the results are garbled at line {self._at}")


def _has(line: dict[str, Value], key: str, value: str) -> bool:
    return line.get(key) == value


def _texts(values: tuple[Value, ...]) -> list[str]:
    return [value for value in values if isinstance(value, str)]
