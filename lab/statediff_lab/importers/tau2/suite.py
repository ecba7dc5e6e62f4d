"""Recorded runs of τ²-bench and its kin as trials: a `recorded.Suite` over a folder of cases.

The state before is the domain's initial state with the run's `init_delta`, the state after that
with the run's `delta`; both share every row they leave alone. A task's reference is the gold delta
of its `gold_key`, or what later corrections of the task make of it (`tau2/contract.py`).

Compatible mode is τ²'s own deterministic rules, exactly as it has them, with their blind spots:

* DB: the whole state after is the state that the reference actions leave, list order and spelling
  included.
* COMMUNICATE: each text is found, in lower case, somewhere in a message of the agent from which
  the commas were removed, so that "327" is found in "$1327.00".
* ACTION: for each reference action some call has its name and the arguments that count.

What rests on code or language that is not in the files (ENV_ASSERTION, NL_ASSERTION) is not
computed: `reward` is then None.

The recording carries a replay on the real environment. From it come the state after a run and what
each call changed by itself. Where a call that changes something gave another output in the replay
than in the recording, the replay went another way: what that call touched is not known. Where the
calls' own changes do not add up to the state after, nobody can say which call made which.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from statediff.contract.file import ContractFile
from statediff.errors import InputError, UsageError
from statediff.model.delta import delta_id
from statediff.model.readings import Capture, SourceCapture
from statediff.model.state import State
from statediff.model.trace import Action, ActionClass, Trace
from statediff.model.values import Map, printable
from statediff_lab.importers.pack import open_pack
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
    read_objects,
    without_labels,
)
from statediff_lab.importers.states import Edit, value_of
from statediff_lab.importers.tau2.answer import SILENT, answer_of
from statediff_lab.importers.tau2.domain import (
    Domain,
    Known,
    criteria_of_run,
    gold_key,
    objects,
    task_name,
)
from statediff_lab.importers.tau2.format import (
    Criteria,
    Expectation,
    Operation,
    Tree,
    apply,
    delta_of,
    read_cases,
    same_json,
)
from statediff_lab.importers.taxonomy import Cause, labels_of

RUNS: Final = "runs_"
SUFFIX: Final = ".jsonl.gz"
_PRINCIPALS: Final = {"assistant": "agent", "user": "user"}
_CLASSES: Final = {"read": ActionClass.READ, "write": ActionClass.CONDITIONAL_UPDATE}


class Tau2:
    """A folder of τ² cases."""

    name = "tau2"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._domains: dict[str, Domain] = {}
        names = sorted(
            path.name.removeprefix(RUNS).removesuffix(SUFFIX)
            for path in folder.glob(f"{RUNS}*{SUFFIX}")
        )
        if not names:
            raise UsageError(f"{printable(str(folder))}: expected {RUNS}DOMAIN{SUFFIX}, found none")
        self._names = names

    @property
    def files(self) -> tuple[RunFile, ...]:
        """The files of runs, by domain."""
        return tuple(RunFile(self._folder / f"{RUNS}{name}{SUFFIX}", name) for name in self._names)

    def domain(self, name: str) -> Domain:
        """One domain; opened when it is first asked for."""
        if name not in self._names:
            raise InputError(f"no domain {printable(name[:60])} in this folder")
        if name not in self._domains:
            runs = self._folder / f"{RUNS}{name}{SUFFIX}"
            cases = read_cases(self._folder, name)
            self._domains[name] = Domain(cases, runs, open_pack(self.name, name))
        return self._domains[name]

    def run(self, domain: str, line: Tree) -> tuple[RecordedRun, Labels]:
        """The run in a parsed line and, apart, its labels. `NotARun` where it is none."""
        raw = without_labels(line)
        run_id = raw.get("run_id")
        if not isinstance(run_id, str):
            raise NotARun("expected a run with a run_id")
        gold_key(raw)
        agent = str(raw.get("agent_llm") or raw.get("source") or "unknown")
        run = RecordedRun(run_id, TaskId(domain, task_name(raw)), agent, raw)
        return run, self._labels(line, run_id)

    def _labels(self, line: Tree, run_id: str) -> Labels:
        labels, official = line.get("labels"), line.get("official")
        recorded = labels.get("recorded_task") if isinstance(labels, dict) else None
        matched = recorded.get("db_match") if isinstance(recorded, dict) else None
        reward = official.get("reward") if isinstance(official, dict) else None
        basis = official.get("reward_basis") if isinstance(official, dict) else None
        return Labels(
            matched if isinstance(matched, bool) else None,
            None if reward is None else reward == 1,
            self._corrected.get(run_id, {}),
            isinstance(basis, list) and "NL_ASSERTION" in basis,
            () if reward == 1 or not isinstance(official, dict) else _failed_parts(official),
        )

    @cached_property
    def _corrected(self) -> dict[str, dict[str, bool]]:
        path = self._folder / "adjudicated.jsonl.gz"
        if not path.exists():
            return {}
        found: dict[str, dict[str, bool]] = {}
        for place, entry in read_objects(path):
            labels = entry.get("labels") or {}
            if not isinstance(labels, dict):
                raise InputError(f"{place}: expected `labels` as an object")
            found[str(entry.get("run_id"))] = {
                version: label["label"] == 1
                for version, label in labels.items()
                if isinstance(label, dict) and label.get("label") is not None
            }
        return found

    def tasks(self) -> tuple[TaskId, ...]:
        """Every task of every domain, sorted."""
        return tuple(
            sorted(TaskId(name, task) for name in self._names for task in self.domain(name).known)
        )

    def half(self, task: TaskId) -> Half:
        """Even numbers were developed on; a name that is no number counts by its SHA-256."""
        digits = task.name if task.name.isdecimal() else _digest_digit(task.name)
        return Half.DEVELOPED if int(digits) % 2 == 0 else Half.HELD_OUT

    def contract(self, task: TaskId) -> ContractFile:
        """The closed contract of the task."""
        return self._of(task)[0].contract(task.name)

    def _of(self, task: TaskId) -> tuple[Domain, Known]:
        domain = self.domain(task.domain)
        if task.name not in domain.known:
            raise InputError(f"no task {printable(str(task)[:80])} in this folder")
        return domain, domain.known[task.name]

    def components(self, run: RecordedRun) -> Components:
        """The findings of the benchmark's deterministic rules on the run."""
        domain = self.domain(run.task.domain)
        return components(
            apply(domain.cases.initial, _delta(run.raw, "before", "init_delta")),
            _delta(run.raw, "after", "delta"),
            domain.gold(gold_key(run.raw)).delta,
            self.criteria(run),
            objects(run.raw, "trace"),
            objects(run.raw, "texts"),
        )

    def criteria(self, run: RecordedRun) -> Criteria:
        """The criteria of the run's own version of its task."""
        return criteria_of_run(run.raw, self.domain(run.task.domain).version(run.raw))

    def compat(self, run: RecordedRun, seeded: Sequence[SeededChange] = ()) -> Compat:
        """A pass if the state after is the reference's. Seeded changes count where DB does."""
        found = self.components(run)
        touches = any(c.before != c.after for c in seeded) and "DB" in self.criteria(run).basis
        reasons = [f"differs at {place}" for place in found.differs_at]
        if touches:
            reasons.append("a seeded change is in no reference")
        passes = found.db and not touches
        ordinary = {"final-text": all(found.communicate), "raw-equality": passes}
        failing = {n for n, part in found.parts().items() if not part}
        failing &= set(self.criteria(run).basis)
        causes = labels_of(cause for part in failing for cause in _CAUSES[part])
        return Compat(passes, tuple(reasons), evaluators=ordinary, causes=causes)

    def reward(self, run: RecordedRun, seeded: Sequence[SeededChange] = ()) -> bool | None:
        """True if the reward is 1; None where it rests on code or language that is not here."""
        found = self.components(run)
        if any(change.before != change.after for change in seeded):
            found = replace(found, db=False)
        reward = found.reward(self.criteria(run).basis)
        return None if reward is None else reward == 1

    def strip(self, run: RecordedRun, *, acts: bool, speaks: bool) -> RecordedRun:
        """The run without its calls and what they changed, or without its words."""
        raw = dict(run.raw)
        if not acts:
            raw |= {"after": {"delta": []}, "trace": []}
        return replace(run, raw=raw if speaks else {**raw, "texts": []})

    def prepare(self, run: RecordedRun) -> Prepared:
        """The run as a trial under its task's closed contract."""
        domain, _ = self._of(run.task)
        before = apply(domain.cases.initial, _delta(run.raw, "before", "init_delta"))
        after = apply(before, _delta(run.raw, "after", "delta"))
        captures = domain.base.pair(
            domain.layout.edits(domain.cases.initial, before), domain.layout.edits(before, after)
        )
        calls = objects(run.raw, "trace")
        done = replay_calls(domain, before, after, calls)
        tools = domain.user_tools if run.raw.get("solo_mode") is True else frozenset()
        trace = Trace(tuple(_actions(calls, done.effects, tools)), is_complete=True, cause="")
        last = _unobserved(captures[1], done.astray) if done.astray else captures[1]
        answer = answer_of(objects(run.raw, "texts"))
        return Prepared(self.contract(run.task), captures[0], last, trace, answer)

    def still(self, task: TaskId) -> Prepared:
        """The trial in which the agent does and says nothing."""
        domain, known = self._of(task)
        moved = domain.layout.edits(domain.cases.initial, domain.start(known))
        before, _ = domain.base.pair(moved, ())
        nothing = Trace((), is_complete=True, cause="")
        return Prepared(self.contract(task), before, before, nothing, SILENT)

    def minimal(self, task: TaskId) -> RecordedRun | None:
        """The run that makes the reference's changes and calls and tells what is to be reported.

        None where the rules that would have to pass it are not in the files.
        """
        domain, known = self._of(task)
        if not set(known.criteria.basis) <= COMPUTED:
            return None
        trace = [
            {"name": e.name, "args": dict(e.arguments), "requestor": e.requestor}
            for e in known.criteria.actions or ()
        ]
        told = " ; ".join(known.criteria.communicate)
        raw = {
            "task_id": task.name,
            "task_key": next(
                (v.key for v in domain.cases.tasks.values() if v.criteria is known.criteria), None
            ),
            "labels": {"recorded_task": {"gold_key": known.gold_key}},
            "before": {"init_delta": [_operation(o) for o in known.init]},
            "after": {"delta": [_operation(o) for o in domain.gold(known.gold_key).delta]},
            "trace": trace,
            "texts": [{"role": "assistant", "text": told}] if told else [],
        }
        return RecordedRun(f"reference of {task}", task, "reference", raw)

    def is_named(self, run: RecordedRun, change: SeededChange) -> bool:
        """True if the reference changes the very entity."""
        domain, _ = self._of(run.task)
        return any(
            edit.type == change.type and (edit.before or edit.after or {}).get("id") in change.key
            for reading in domain.readings(run.task.name)
            for edit in reading.changes
        )


def open_cases(folder: Path) -> Tau2:
    """The folder as a suite. `UsageError` if it holds no runs of this format."""
    return Tau2(folder)


# ---------------------------------------------------------------- parts of a line


def _delta(raw: Tree, part: str, name: str) -> tuple[Operation, ...]:
    held = raw.get(part)
    return delta_of((held.get(name) if isinstance(held, dict) else None) or [], f"{part}.{name}")


def _unobserved(capture: Capture, types: Mapping[str, str]) -> Capture:
    """The capture with nothing known of the types; each has its cause."""
    (part,) = capture.parts
    tables = {
        name: table.unobserved(types[table.type.source_table])
        if table.type.source_table in types
        else table
        for name, table in part.state.tables.items()
    }
    state = State(part.state.schema, tables)
    reading = replace(part.reading, is_complete=False, cause=min(types.values()))
    return Capture((SourceCapture(reading, state),), capture.history)


def _operation(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {"op": operation.op, "path": list(operation.path)}
    return found if operation.op == "remove" else {**found, "new": operation.new}


def _actions(
    trace: Iterable[Mapping[str, Any]],
    effects: Sequence[tuple[str, ...] | None],
    user_tools: Collection[str],
) -> Iterator[Action]:
    """The calls; one of `user_tools` was made in the user's place, no matter who made it."""
    for at, (call, left) in enumerate(zip(trace, effects, strict=True)):
        arguments = call.get("args")
        result = value_of(call.get("output"))
        is_error = call.get("error") is True
        tool = str(call.get("name"))
        by = "user" if tool in user_tools else _PRINCIPALS.get(str(call.get("requestor")))
        yield Action(
            str(at),
            tool,
            action_class=_CLASSES.get(str(call.get("tool_type")), ActionClass.UNKNOWN),
            arguments=Map.of({str(k): value_of(v) for k, v in arguments.items()})
            if isinstance(arguments, dict)
            else Map(()),
            result=result,
            error=(result if isinstance(result, str) else "error") if is_error else None,
            principal=by,
            effects=left,
        )


def _digest_digit(name: str) -> str:
    return str(int(hashlib.sha256(name.encode()).hexdigest()[-1], 16))


@dataclass(frozen=True)
class ReplayedCalls:
    """The replay of one run's calls."""

    effects: tuple[tuple[str, ...] | None, ...]
    """For each call the ids of what it changed; None throughout where they do not add up."""
    astray: Mapping[str, str]
    """Types of which nothing is known after the run, each with the cause."""


def replay_calls(
    domain: Domain, before: Tree, after: Tree, calls: Sequence[Mapping[str, Any]]
) -> ReplayedCalls:
    """The effects of the calls, in their order."""
    effects: list[tuple[str, ...]] = []
    astray: dict[str, str] = {}
    state, adds_up = before, True
    for at, call in enumerate(calls):
        delta = delta_of(call.get("delta") or [], f"trace[{at}].delta")
        if not delta:
            effects.append(())
            continue
        try:
            left = apply(state, delta)
        except InputError:
            adds_up = False
            break
        edits = domain.layout.edits(state, left)
        effects.append(tuple(sorted({name for edit in edits for name in _names(edit)})))
        if call.get("replay_equal") is False:
            cause = f"replaying call {at} ({call.get('name')}) gave another output than recorded"
            for edit in edits:
                astray.setdefault(edit.type, printable(cause))
        state = left
    if adds_up and same_json(state, after):
        return ReplayedCalls(tuple(effects), astray)
    return ReplayedCalls((None,) * len(calls), astray)


def _names(edit: Edit) -> Iterator[str]:
    before, after = edit.before, edit.after
    key = ((after if before is None else before) or {})["id"]
    if before is None or after is None:
        yield delta_id(edit.type, (key,), "")
        return
    for name in {*before, *after}:
        if before.get(name) != after.get(name):
            yield delta_id(edit.type, (key,), name)


COMPUTED: Final = frozenset({"DB", "ACTION", "COMMUNICATE"})
_CAUSES: Final = {
    "DB": (Cause.OVER_SPECIFICATION, Cause.WHOLE_OBJECT),
    "ACTION": (Cause.LOCK_IN,),
    "COMMUNICATE": (Cause.SUBSTRING,),
}


@dataclass(frozen=True)
class Components:
    """The findings of the deterministic rules on one run."""

    db: bool
    communicate: tuple[bool, ...]
    actions: tuple[bool, ...]
    differs_at: tuple[str, ...] = ()
    """Where the states differ, the first few."""

    def parts(self) -> dict[str, float]:
        """The parts of the reward that the files decide, as the benchmark counts them."""
        return {
            "DB": float(self.db),
            "COMMUNICATE": float(all(self.communicate)),
            "ACTION": float(all(self.actions)),
        }

    def reward(self, basis: Sequence[str]) -> float | None:
        """The product of the parts of the basis; None where one of them is not decided here."""
        if not set(basis) <= COMPUTED:
            return None
        parts = self.parts()
        return float(all(parts[name] == 1.0 for name in basis))


_ACTIONS: Final = ("r_actions", "r_outputs")
"""The parts of the older suite's reward."""


def _failed_parts(official: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts of a published reward that are less than one, by their names."""
    listed = official.get("reward_breakdown")
    parts = listed if isinstance(listed, dict) else {name: official.get(name) for name in _ACTIONS}
    return tuple(n for n, part in parts.items() if isinstance(part, int | Decimal) and part < 1)


def components(
    before: Tree,
    delta: Sequence[Operation],
    gold: Sequence[Operation],
    criteria: Criteria,
    trace: Sequence[Mapping[str, Any]],
    texts: Sequence[Mapping[str, Any]],
) -> Components:
    """The parts of the reward, from what a run did and said."""
    reached, wanted = apply(before, delta), apply(before, gold)
    said = [
        str(text.get("text")).lower().replace(",", "")
        for text in texts
        if text.get("role") == "assistant" and text.get("text")
    ]
    return Components(
        same_json(reached, wanted),
        tuple(any(info.lower() in text for text in said) for info in criteria.communicate),
        tuple(any(_is_call(one, call) for call in trace) for one in criteria.actions or ()),
        tuple(_differences(reached, wanted, ())[:6]),
    )


def _is_call(wanted: Expectation, call: Mapping[str, Any]) -> bool:
    if call.get("name") != wanted.name:
        return False
    made = call.get("args")
    made = made if isinstance(made, dict) else {}
    counted = made.keys() if wanted.compare is None else wanted.compare
    if not counted:
        return True
    # As the benchmark compares arguments: 2 and 2.0 are one here.
    return {name: value for name, value in made.items() if name in counted} == {
        name: value for name, value in wanted.arguments.items() if name in counted
    }


def _differences(a: Any, b: Any, path: tuple[str, ...]) -> list[str]:
    if same_json(a, b):
        return []
    if not (isinstance(a, dict) and isinstance(b, dict)):
        return [printable("/".join(path)[:200])]
    return [
        place
        for name in sorted({*a, *b})
        if name not in a or name not in b or not same_json(a[name], b[name])
        for place in (
            _differences(a[name], b[name], (*path, name))
            if name in a and name in b
            else [printable("/".join((*path, name))[:200])]
        )
    ]
