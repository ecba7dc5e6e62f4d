"""Readers of recorded runs: what they deliver, which are installed, and how lines are read.

1. A file of runs is read line by line (`read_lines`), gzipped or not, within bounds; a line that is
   no run is a `BadLine`. A gzip that breaks off yields what it held and one `BadLine` for the rest.
2. `Suite.run` makes a `RecordedRun` and its `Labels` of a line. The labels go round the judges:
   `without_labels` removes them, and nothing that decides a verdict takes them as an argument.
3. `Suite.compat` judges a run by the benchmark's own rules; `Suite.prepare` puts it as a trial
   that `evaluate` judges under a closed contract.
4. `Suite.tasks` names every task, run or not; `Suite.still` and `Suite.minimal` are the trial in
   which nothing happens and the least one that the benchmark's own rules pass.

Readers share this module, `states` (one base, many runs) and `pack` (what is known of a domain, and
contracts composed of it). Each has a function `open_cases(folder)`, named by its entry point in the
group `statediff.importers`; it is imported when its format is asked for, so that a broken one does
not stop the others. `statediff.conformance.ImporterSuite` says what a suite must keep.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from json import JSONDecodeError
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, cast

from statediff.contract.file import ContractFile
from statediff.entrypoints import plug_ins
from statediff.errors import InputError, UsageError
from statediff.model.batches import Row
from statediff.model.readings import Capture
from statediff.model.strictjson import Flaw, FlawKind, Limits, read_tree
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import MAX_DEPTH, Key, Value, printable
from statediff_lab.importers.taxonomy import Cause

NO_ANSWER: Final = NoAnswer("the recording holds no structured answer")


@dataclass(frozen=True)
class BadLine:
    """A line that holds no run that can be judged, and why; the others are judged all the same."""

    file: str
    number: int
    """1-based line in the uncompressed file; 0 where the file itself cannot be read."""
    why: str


class NotARun(InputError):
    """A line is JSON but not a run of this format; it becomes a `BadLine`."""


class Half(Enum):
    """On which half of its tasks a pack was developed, and on which it was then run once."""

    DEVELOPED = "developed"
    HELD_OUT = "held-out"


@dataclass(frozen=True, order=True)
class TaskId:
    """One task of a domain, as the benchmark names it."""

    domain: str
    name: str

    def __str__(self) -> str:
        return f"{self.domain} {self.name}"


@dataclass(frozen=True)
class RecordedRun:
    """One run as recorded, without a word on what its verdict was."""

    run_id: str
    task: TaskId
    agent: str
    raw: Mapping[str, Any]
    """The parsed line, labels parted; numbers with a fraction are `Decimal`."""


@dataclass(frozen=True)
class Labels:
    """The labels that others gave a run. Compared with a verdict, never read to reach one."""

    compat: bool | None = None
    """What the benchmark's own rules said, as recorded; the measure of compatible mode."""
    official: bool | None = None
    """Whether the published result counts the run as passed."""
    corrected: Mapping[str, bool] = field(default_factory=dict)
    """By correction (`verified`, `tau3`): whether it counts the run as passed."""
    uses_language: bool = False
    """The published result hangs on criteria in natural language: counted apart."""
    failed: tuple[str, ...] = ()
    """Which of its rules failed the run, by the names that the benchmark gives them, each once."""


@dataclass(frozen=True)
class Compat:
    """The outcome under the benchmark's own rules, and what they found wrong."""

    passes: bool
    reasons: tuple[str, ...] = ()
    is_decided: bool = True
    """False where those rules have an outcome that cannot be known safely; `reasons` say why."""
    evaluators: Mapping[str, bool] | None = None
    """What each kind of ordinary evaluator among those rules says, by its name in a study.

    None: the rules are assertions, and `passes` is what they say.
    """
    causes: tuple[Cause, ...] = ()
    """How the rules that fail the run can be wrong about it, in the words of the taxonomy."""


@dataclass(frozen=True)
class SeededChange:
    """One row before and after a seeded fault; None where there is none.

    `type` is the source's own name of the table, rows are by its own columns. `before` is the row
    as the run left it.
    """

    type: str
    key: Key
    before: Row | None
    after: Row | None


@dataclass(frozen=True)
class Prepared:
    """A recorded run as a trial: what `evaluate` takes. Readings carry `EPOCH`: no clock."""

    contract: ContractFile
    before: Capture
    after: Capture
    trace: Trace = Trace()  # noqa: RUF009 - frozen, and the same for all
    answer: Value | NoAnswer = NO_ANSWER


@dataclass(frozen=True)
class RunFile:
    """One file of runs, gzipped or not, and the domain whose runs it holds."""

    path: Path
    domain: str


class Suite(Protocol):
    """A folder of one format, opened. Cheap to open: every worker process opens its own.

    State that many runs share (the base of a task, its contract) is made once and kept, bounded.
    """

    @property
    def name(self) -> str:
        """The format: `agent-diff`, `tau2`."""
        ...

    @property
    def files(self) -> Sequence[RunFile]:
        """The files of runs, in the order in which they are judged."""
        ...

    def run(self, domain: str, line: Mapping[str, Any]) -> tuple[RecordedRun, Labels]:
        """The run in a parsed line and, apart, its labels. `NotARun` where it is none."""
        ...

    def tasks(self) -> Sequence[TaskId]:
        """Every task of every domain, whether or not it was run; sorted."""
        ...

    def half(self, task: TaskId) -> Half:
        """Which half of the split the task belongs to, by its number alone."""
        ...

    def contract(self, task: TaskId) -> ContractFile:
        """The closed contract of the task."""
        ...

    def compat(self, run: RecordedRun, seeded: Sequence[SeededChange] = ()) -> Compat:
        """The outcome by the benchmark's own rules; `seeded` changes count as made by the run."""
        ...

    def reward(self, run: RecordedRun, seeded: Sequence[SeededChange] = ()) -> bool | None:
        """True if the published result would count the run as passed; None if the files lack that.

        `seeded` changes are of the state after: one of a row that the run changed replaces what the
        run made of it.
        """
        ...

    def strip(self, run: RecordedRun, *, acts: bool, speaks: bool) -> RecordedRun:
        """The run without what it did, or without what it said."""
        ...

    def prepare(self, run: RecordedRun) -> Prepared:
        """The run as a trial under its task's closed contract. `InputError` where it is none."""
        ...

    def still(self, task: TaskId) -> Prepared:
        """The trial in which the agent does and says nothing."""
        ...

    def minimal(self, task: TaskId) -> RecordedRun | None:
        """The least run that the benchmark's own rules pass, made from the task; None if none."""
        ...

    def is_named(self, run: RecordedRun, change: SeededChange) -> bool:
        """True if some check of the run's task looks at this very change."""
        ...


GROUP: Final = "statediff.importers"

Reader = Callable[[Path], Suite]


def reader_of(name: str) -> Reader:
    """The reader of folders of the format; `UsageError` if unknown, broken or claimed twice."""
    installed = plug_ins(GROUP)
    if name not in installed:
        known = ", ".join(installed)
        raise UsageError(f"no format {printable(name)!r}; there are: {known}")
    reader = installed[name].load()
    if not callable(reader):
        raise UsageError(
            f"{installed[name]}: expected a function from a folder to a Suite, "
            f"found {type(reader).__name__}"
        )
    return cast("Reader", reader)


def open_suite(name: str, folder: Path) -> Suite:
    """The folder of recorded runs, read as the format `name`. `UsageError` if it is not one."""
    reader = reader_of(name)
    if not folder.is_dir():
        found = "something that is no folder" if folder.exists() else "nothing"
        raise UsageError(f"{printable(str(folder))}: expected a folder of cases, found {found}")
    return reader(folder)


MAX_LINE_BYTES: Final = 16 * 1024 * 1024
MAX_DIGITS: Final = 400
MAX_EXPONENT: Final = 308
LABELS: Final = frozenset({"passed", "score", "failures", "status", "official", "labels"})
"""Members of a line that tell its verdict. Of `labels` one thing is no verdict: which gold it is
compared with (`recorded_task.gold_key`)."""

# A longer line is never handed over whole, see `read_lines`.
_LIMITS: Final = Limits(MAX_LINE_BYTES, MAX_DEPTH, MAX_DIGITS, MAX_EXPONENT)
_GZIP: Final = b"\x1f\x8b"


@dataclass(frozen=True)
class RunLine:
    """One line that is not empty, not yet parsed."""

    file: str
    number: int
    data: bytes


def expect(value: Any, kind: type | tuple[type, ...], what: str, wanted: str) -> Any:
    """The value, which is of the kind. Raises `InputError` with what was found instead."""
    if isinstance(value, kind):
        return value
    found = "nothing" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"
    raise InputError(f"{what}: expected {wanted}, found {printable(found)}")


def read_lines(path: Path) -> Iterator[RunLine | BadLine]:
    """Every line of the file that is not blank, in order; what cannot be read is a `BadLine`.

    `InputError` if there is no such file.
    """
    name = printable(path.name)
    number = 0
    try:
        with _open_lines(path) as stream:
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    _skip(stream, line)
                    yield BadLine(name, number, f"longer than {MAX_LINE_BYTES} bytes")
                elif stripped := line.strip():
                    yield RunLine(name, number, stripped)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        why = f"the gzip is damaged ({error}); no line from here on can be read"
        yield BadLine(name, number + 1, why)
    except OSError as error:
        if not number:
            raise InputError(f"{printable(str(path))}: cannot be read: {error.strerror}") from error
        yield BadLine(name, number + 1, f"cannot be read: {error.strerror}")


@contextmanager
def _open_lines(path: Path) -> Iterator[BinaryIO]:
    if not path.is_file():  # opening a pipe would wait for ever
        raise InputError(f"{printable(str(path))}: expected a file of runs, found none")
    with path.open("rb") as raw:
        if raw.peek(2)[:2] != _GZIP:
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as inside:
            yield cast("BinaryIO", inside)


def _skip(stream: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = stream.readline(MAX_LINE_BYTES)


def parse(line: RunLine) -> Mapping[str, Any]:
    """The object in the line, numbers with a fraction as `Decimal`.

    `NotARun`, naming the reason, for all that is not one unambiguous JSON object.
    """
    try:
        tree = read_tree(line.data, _LIMITS)
    except Flaw as flaw:
        raise NotARun(_flaw_words(flaw)) from flaw
    if not isinstance(tree, dict):
        raise NotARun("expected a JSON object")
    return tree


def read_objects(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The place of each line of a file, and its object; each has to hold one. `InputError`."""
    for line in read_lines(path):
        where = f"{line.file}: line {line.number}"
        if isinstance(line, BadLine):
            raise InputError(f"{where}: {line.why}")
        try:
            tree = parse(line)
        except NotARun as error:  # it is no line of runs that is at fault
            raise InputError(f"{where}: {error}") from error
        yield where, tree


def _flaw_words(flaw: Flaw) -> str:
    if flaw.kind is FlawKind.KEY_TWICE:
        return "a key stands twice in one object"
    if flaw.kind is FlawKind.TOO_DEEP:
        return f"nested deeper than {MAX_DEPTH} levels"
    if isinstance(flaw.__cause__, JSONDecodeError):
        return f"not JSON: {flaw.__cause__.msg} at column {flaw.__cause__.colno}"
    return str(flaw)


def without_labels(line: Mapping[str, Any]) -> dict[str, Any]:
    """The line as judges see it: no label but for the gold key."""
    kept = {name: value for name, value in line.items() if name not in LABELS}
    labels = line.get("labels")
    task = labels.get("recorded_task") if isinstance(labels, dict) else None
    if isinstance(task, dict) and isinstance(task.get("gold_key"), str):
        kept["labels"] = {"recorded_task": {"gold_key": task["gold_key"]}}
    return kept
