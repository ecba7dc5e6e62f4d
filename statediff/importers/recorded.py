"""What a reader of recorded runs delivers, whatever benchmark they are from.

1. A file of runs is read line by line (`lines`); a line that is no run is a `BadLine`.
2. `Suite.run` makes a `RecordedRun` and its `Labels` of a line. The labels go round the judges:
   nothing that decides a verdict takes them as an argument.
3. `Suite.compat` judges a run by the benchmark's own rules; `Suite.prepare` puts it as a trial
   that `evaluate` judges under a closed contract.
4. `Suite.tasks` names every task, run or not; `Suite.still` and `Suite.minimal` are the trial in
   which nothing happens and the least one that the benchmark's own rules pass.

Readers share `lines` (parsing, parting of labels), `states` (one base, many runs) and `pack` (what
is known of a domain, and contracts composed of it). Each has a function `open_cases(folder)`, named
by its entry point; `statediff.conformance.ImporterSuite` says what a suite must keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, Protocol

from statediff.errors import InputError
from statediff.evaluate import ContractFile
from statediff.model.batches import Row
from statediff.model.readings import Capture
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Key, Value

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
    """What others said of a run. Compared with a verdict, never read to reach one."""

    compat: bool | None = None
    """What the benchmark's own rules said, as recorded; the measure of compatible mode."""
    official: bool | None = None
    """Whether the published result counts the run as passed."""
    corrected: Mapping[str, bool] = field(default_factory=dict)
    """By correction (`verified`, `tau3`): whether it counts the run as passed."""
    uses_language: bool = False
    """The published result hangs on criteria in natural language: counted apart."""


@dataclass(frozen=True)
class Compat:
    """The outcome under the benchmark's own rules, and what they found wrong."""

    passes: bool
    reasons: tuple[str, ...] = ()
    is_decided: bool = True
    """False where those rules have an outcome that cannot be told safely; `reasons` say why."""


@dataclass(frozen=True)
class Change:
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

    def compat(self, run: RecordedRun, seeded: Sequence[Change] = ()) -> Compat:
        """The outcome by the benchmark's own rules; `seeded` changes count as made by the run."""
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

    def is_named(self, run: RecordedRun, change: Change) -> bool:
        """Whether some check of the run's task looks at this very change."""
        ...
