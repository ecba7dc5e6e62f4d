"""BFCL v4's multi-turn tasks and runs of them, as a suite.

    tasks/CATEGORY.jsonl   a task a line, with its ground truth carried out
    runs/CATEGORY.jsonl    a run a line: its calls by turn, their results, the states they left

Both are written by `python -m lab.benchmarks.bfcl`. What the benchmark's checker says of a run is
under `official`. `compat` and `reward` ask the checker itself (`checker`); without one, they
say nothing.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

from statediff.capture.feed import Seen, history_of, with_history
from statediff.contract.file import ContractFile
from statediff.errors import AdapterError, InputError, UsageError
from statediff.model.readings import Transaction
from statediff.model.state import State
from statediff.model.trace import Action, ActionClass, Mark, Trace, Turn
from statediff.model.values import Map, printable
from statediff_lab.importers.bfcl.checker import VARIABLE, named_checker
from statediff_lab.importers.bfcl.contract import Gates, contract_of
from statediff_lab.importers.bfcl.format import Course, Made, Task, course_of, task_of
from statediff_lab.importers.bfcl.layout import (
    BY_NAME,
    POSITION,
    SOURCE,
    Document,
    Then,
    attributes_of,
    documents_of,
    plain_record,
    schema_of,
    state_of,
)
from statediff_lab.importers.recorded import (
    Compat,
    Half,
    Labels,
    NotARun,
    Prepared,
    RecordedRun,
    RunFile,
    SeededChange,
    TaskId,
    expect,
    read_objects,
)
from statediff_lab.importers.states import EPOCH, capture_of, value_of

CATEGORIES: Final = ("base", "long_context", "miss_func", "miss_param")
TASKS_KEPT: Final = 16
REFERENCE: Final = "reference"
"""Who made the runs that `minimal` gives."""


class Bfcl:
    """A folder of the format. `UsageError` if it holds no runs of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._categories = [
            name
            for name in CATEGORIES
            if self._place("tasks", name).is_file() and self._place("runs", name).is_file()
        ]
        if not self._categories:
            raise UsageError(
                f"{printable(str(folder))}: expected tasks/CATEGORY.jsonl and runs/CATEGORY.jsonl"
            )
        self._task = lru_cache(maxsize=TASKS_KEPT)(self._read_task)
        self._contract = lru_cache(maxsize=TASKS_KEPT)(self._compose)
        self._before = lru_cache(maxsize=TASKS_KEPT)(self._state_before)

    def _place(self, part: str, category: str) -> Path:
        return self._folder / part / f"{category}.jsonl"

    @property
    def name(self) -> str:
        """The format."""
        return "bfcl"

    @property
    def files(self) -> Sequence[RunFile]:
        """One file of runs a category."""
        return [RunFile(self._place("runs", name), name) for name in self._categories]

    @cached_property
    def _lines(self) -> Mapping[TaskId, Mapping[str, Any]]:
        found: dict[TaskId, Mapping[str, Any]] = {}
        for category in self._categories:
            for where, raw in read_objects(self._place("tasks", category)):
                try:
                    task = task_of(raw)
                except InputError as error:
                    raise InputError(f"{where}: {error}") from error
                identity = TaskId(category, task.name)
                if task.category != category or identity in found:
                    raise InputError(
                        f"{where}: a task of another category, or one that came before"
                    )
                found[identity] = raw
        return found

    def _read_task(self, task: TaskId) -> Task:
        if task not in self._lines:
            raise InputError(f"no task {printable(str(task)[:80])} in this folder")
        return task_of(self._lines[task])

    def run(self, domain: str, line: Mapping[str, Any]) -> tuple[RecordedRun, Labels]:
        """The run in a line; what the checker said of it is its label."""
        name = line.get("run_id"), line.get("task"), line.get("agent")
        if not all(isinstance(each, str) and each for each in name):
            raise NotARun("expected `run_id`, `task` and `agent` as texts")
        task = TaskId(domain, str(name[1]))
        if task not in self._lines:
            raise NotARun(f"no task {printable(str(task)[:80])} in this folder")
        course = _course(line)
        if len(course.turns) != len(self._task(task).messages):
            raise NotARun("expected as many turns as the task has messages")
        official = line.get("official")
        valid = official.get("valid") if isinstance(official, dict) else None
        said = valid if isinstance(valid, bool) else None
        error = official.get("error") if isinstance(official, dict) else None
        failed = (error,) if said is False and isinstance(error, str) else ()
        run = RecordedRun(str(name[0]), task, str(name[2]), line)
        return run, Labels(said, said, failed=failed)

    def tasks(self) -> Sequence[TaskId]:
        """Every task, sorted."""
        return sorted(self._lines)

    def half(self, task: TaskId) -> Half:
        """By the first bit of the SHA-256 of the scenario's number, which four tasks share."""
        return half_of(task.name)

    def contract(self, task: TaskId) -> ContractFile:
        """The closed contract of the task, with a gate after each turn."""
        return self._contract(task, Gates.TURN)

    def _compose(self, task: TaskId, gates: Gates) -> ContractFile:
        return contract_of(self._task(task), gates)

    def task(self, task: TaskId) -> Task:
        """The task with its ground truth. `InputError` if there is no such task."""
        return self._task(task)

    def compat(self, run: RecordedRun, seeded: Sequence[SeededChange] = ()) -> Compat:
        """The checker's result for the run."""
        said = self.official(run, seeded)
        is_equal = (
            not seeded and _course(run.raw).systems[-1] == self._task(run.task).truth.systems[-1]
        )
        ordinary = {"raw-equality": is_equal}
        if said is None:
            why = f"the checker is not here; {VARIABLE} names it"
            return Compat(False, (why,), is_decided=False, evaluators=ordinary)
        passes = said["valid"] is True
        reasons = (str(said["error"]),) if "error" in said else ()
        return Compat(passes, reasons, evaluators={"assertions": passes, **ordinary})

    def reward(self, run: RecordedRun, seeded: Sequence[SeededChange] = ()) -> bool | None:
        """True if the checker passes the run; None where there is no checker."""
        said = self.official(run, seeded)
        return None if said is None else said["valid"] is True

    def official(
        self, run: RecordedRun, seeded: Sequence[SeededChange] = ()
    ) -> Mapping[str, Any] | None:
        """The checker's verdict, its error, turn and attributes; None where there is none."""
        if self._checker is None:
            return None
        course = _course(run.raw)
        turns = [[call.text for call in turn] for turn in course.turns]
        patch = _patch(course, seeded) if seeded else None
        if patch == {}:
            return None  # the simulators cannot be in such a state
        try:
            found = self._checker.run(run.task.name, turns, patch=patch)["official"]
        except AdapterError:
            return None
        return expect(found, dict, "official", "an object")  # type: ignore[no-any-return]  # a dict

    @cached_property
    def _checker(self) -> Any:
        return named_checker()

    def strip(self, run: RecordedRun, *, acts: bool, speaks: bool) -> RecordedRun:
        """The run without its calls; what is said is not recorded."""
        if acts:
            return run
        course = _course(run.raw)
        states = [dict(course.systems[0]), *({} for _ in course.turns)]
        return replace(run, raw={**run.raw, "turns": [[] for _ in course.turns], "states": states})

    def prepare(self, run: RecordedRun) -> Prepared:
        """The run as a trial under its task's contract.

        What `minimal` makes is there for harm to be seeded into the state after it. Of a state that
        nobody saw come about no turn but the last can be judged: its gates are at the end.
        """
        gates = Gates.END if run.agent == REFERENCE else Gates.TURN
        return self.trial(run.task, _course(run.raw), gates)

    def trial(self, task: TaskId, course: Course, gates: Gates = Gates.TURN) -> Prepared:
        """The run as a trial, turn by turn."""
        known = self._task(task)
        if course.systems[0] != known.truth.systems[0]:
            raise InputError("the run began in another state than the task does")
        if any(set(each) != set(known.systems) for each in course.systems):
            raise InputError("the run has other systems than the task")
        before = self._before(task)
        states: list[State] = []
        for then, now in zip(course.documents, course.documents[1:], strict=False):
            last = states[-1] if states else before
            is_still = then == now
            states.append(last if is_still else state_of(now, before.schema, Then(then, last)))
        capture = capture_of(SOURCE, "after", states[-1])
        marks, transactions = _transactions([before, *states])
        told = history_of(SOURCE, Seen(tuple(transactions)), capture, lambda: EPOCH)
        return Prepared(
            self._contract(task, gates),
            capture_of(SOURCE, "before", before),
            with_history(capture, [told]),
            _trace(known, course, marks),
        )

    def _state_before(self, task: TaskId) -> State:
        truth = self._task(task).truth
        return state_of(truth.documents[0], schema_of(truth.systems[0]))

    def still(self, task: TaskId) -> Prepared:
        """The trial in which the agent does nothing."""
        truth = self._task(task).truth
        idle = Course(
            tuple(() for _ in truth.turns), tuple(truth.systems[0] for _ in truth.systems)
        )
        return self.trial(task, idle)

    def minimal(self, task: TaskId) -> RecordedRun | None:
        """The ground truth as a run; None where there is no checker to pass it."""
        if self._checker is None:
            return None
        raw = {name: self._lines[task][name] for name in ("turns", "states")}
        run = RecordedRun(f"ground truth of {task}", task, REFERENCE, raw)
        return run if self.reward(run) else None

    def is_named(self, run: RecordedRun, change: SeededChange) -> bool:
        """True if a check of the task looks at the change: the checker compares whole states."""
        return change.type in BY_NAME


def half_of(name: str) -> Half:
    """The half of a task by its name."""
    number = name.rpartition("_")[2]
    is_held_out = hashlib.sha256(number.encode()).digest()[0] & 0x80
    return Half.HELD_OUT if is_held_out else Half.DEVELOPED


def open_cases(folder: Path) -> Bfcl:
    """The folder as a suite. `UsageError` if it holds no runs of this format."""
    return Bfcl(folder)


def _course(line: Mapping[str, Any]) -> Course:
    try:
        course = course_of(line)
        if not course.documents:
            raise NotARun("expected turns")
    except NotARun:
        raise
    except InputError as error:
        raise NotARun(str(error)) from error
    return course


def _transactions(
    states: Sequence[State],
) -> tuple[dict[int, Mark], list[Transaction]]:
    """The changes of each turn, as one transaction, and the turn whose last call made it."""
    marks: dict[int, Mark] = {}
    found = []
    for number, (then, now) in enumerate(itertools.pairwise(states), 1):
        if then is not now:
            marks[number] = Mark(SOURCE, str(number))
            found.append(Transaction(f"turn-{number}", SOURCE, str(number), None, now))
    return marks, found


def _trace(task: Task, course: Course, marks: Mapping[int, Mark]) -> Trace:
    actions: list[Action] = []
    turns = []
    for number, (message, calls) in enumerate(zip(task.messages, course.turns, strict=True), 1):
        turns.append(Turn(message, len(actions)))
        for at, call in enumerate(calls, 1):
            own = (marks[number],) if number in marks and at == len(calls) else ()
            actions.append(_action(f"{number}.{at}", len(actions), call, own))
    return Trace(tuple(actions), is_complete=True, cause="", turns=tuple(turns))


def _action(name: str, place: int, call: Made, marks: tuple[Mark, ...]) -> Action:
    """The call; no clock was recorded, so a second stands for its place among the others."""
    tool, arguments = call.parts
    at = EPOCH + timedelta(seconds=place)
    return Action(
        name,
        tool or printable(call.text)[:100] or "no call",
        action_class=ActionClass.CONDITIONAL_UPDATE if call.writes else ActionClass.READ,
        arguments=Map.of({each: value_of(value) for each, value in arguments.items()}),
        result=call.result,
        error=call.result[:500] if call.is_error else None,
        principal="agent",
        started_at=at,
        finished_at=at,
        transactions=marks,
    )


def _patch(course: Course, seeded: Sequence[SeededChange]) -> dict[str, dict[str, Any]]:
    """The attributes as they are once the changes were made in the state after the run.

    Empty where records that come of such attributes are others.
    """
    last = course.systems[-1]
    types = schema_of(last).by_name
    document: Document = {name: list(rows) for name, rows in course.documents[-1].items()}
    touched = set()
    for change in seeded:
        table = BY_NAME[change.type]
        touched.add((table.system, table.attribute))
        rows = document[table.name]
        was = next((row for row in rows if row[table.key] == change.key[0]), {})
        rows[:] = [row for row in rows if row is not was]
        if change.after is not None:
            rows.append(plain_record(types[table.name], change.after, was))
    whole = attributes_of(document, last)
    if _unplaced(documents_of(whole)) != _unplaced(document):
        return {}
    return {
        system: {
            name: value
            for name, value in attributes.items()
            if (system, name) in touched or ((system, "") in touched and name not in _taken(system))
        }
        for system, attributes in whole.items()
        if any(system == each for each, _ in touched)
    }


def _unplaced(document: Document) -> dict[str, list[str]]:
    """The records, wherever in their lists they are."""
    return {
        name: sorted(str(sorted((n, str(v)) for n, v in r.items() if n != POSITION)) for r in rows)
        for name, rows in document.items()
    }


def _taken(system: str) -> frozenset[str]:
    return frozenset(t.attribute for t in BY_NAME.values() if t.system == system)
