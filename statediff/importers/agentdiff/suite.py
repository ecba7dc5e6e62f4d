"""Recorded runs of Agent-Diff: the door to a folder of its suites, seeds and runs.

A task belongs to the half its number says: the first whole number in its name, even ones were
developed on (`test_6b` is even). A task without a number is held out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from statediff.errors import UsageError
from statediff.evaluate import ContractFile
from statediff.importers.agentdiff.contract import contract_for
from statediff.importers.agentdiff.domain import Domain
from statediff.importers.agentdiff.fold import folded
from statediff.importers.agentdiff.format import (
    Journal,
    TaskSuite,
    Test,
    Update,
    diff_of,
    journal_from,
    read_seed,
    read_suite,
)
from statediff.importers.agentdiff.minimal import minimal
from statediff.importers.agentdiff.rules import satisfies, score
from statediff.importers.pack import DomainPack, open_pack
from statediff.importers.recorded import (
    Change,
    Compat,
    Half,
    Labels,
    NotARun,
    Prepared,
    RecordedRun,
    RunFile,
    TaskId,
)
from statediff.model.batches import Row
from statediff.model.values import ABSENT, Map, Observed, printable

NAME: Final = "agent-diff"
_RUNS: Final = re.compile(r"runs-(.+)\.jsonl(?:\.gz)?")


def open_cases(folder: Path) -> Cases:
    """The folder of suites, seeds and runs. `UsageError` where it holds no suite."""
    return Cases(folder)


class Cases:
    """One folder: every `suite-*.json` in it is a domain."""

    name = NAME

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        found = sorted(folder.glob("suite-*.json"))
        if not found:
            raise UsageError(f"{printable(str(folder))}: expected suite-NAME.json, found none")
        self._suites = {suite.name: suite for suite in map(read_suite, found)}
        self._by_prompt: dict[str, dict[str, list[Test]]] = {}
        for suite in self._suites.values():
            prompts = self._by_prompt.setdefault(suite.name, {})
            for test in suite.tests:
                prompts.setdefault(test.prompt, []).append(test)
        self._tests = {
            TaskId(suite.name, test.id): test
            for suite in self._suites.values()
            for test in suite.tests
        }
        self._domains: dict[str, Domain] = {}
        self._packs: dict[str, DomainPack] = {}
        self._contracts: dict[TaskId, ContractFile] = {}

    @cached_property
    def files(self) -> Sequence[RunFile]:
        """The files of runs whose name is that of a suite, sorted by domain."""
        named = ((path, _RUNS.fullmatch(path.name)) for path in sorted(self._folder.iterdir()))
        return [RunFile(p, f[1]) for p, f in named if f is not None and f[1] in self._suites]

    def run(self, domain: str, line: Mapping[str, Any]) -> tuple[RecordedRun, Labels]:
        """The run in a parsed line and, apart, its labels."""
        run_id, prompt, passed = line.get("run_id"), line.get("prompt"), line.get("passed")
        if not isinstance(run_id, str) or not isinstance(prompt, str):
            raise NotARun("expected `run_id` and `prompt` as text")
        if not isinstance(line.get("diff"), dict):
            raise NotARun("expected `diff` as an object")
        if passed is not None and not isinstance(passed, bool):
            raise NotARun("expected `passed` as true or false")
        test = self._test_of(domain, prompt, line.get("test_id"))
        task = TaskId(domain, test.id)
        return (
            RecordedRun(run_id, task, str(line.get("model") or ""), line),
            Labels(compat=passed, official=passed),
        )

    def _test_of(self, domain: str, prompt: str, test_id: object) -> Test:
        tests = self._by_prompt.get(domain, {}).get(prompt, [])
        if len(tests) > 1 and test_id is not None:
            tests = [test for test in tests if test.id == test_id]
        if len(tests) == 1:
            return tests[0]
        how_many = "no task" if not tests else f"{len(tests)} tasks"
        raise NotARun(f"{how_many} of {printable(domain)} with the prompt {printable(prompt[:60])}")

    def tasks(self) -> Sequence[TaskId]:
        """Every task of every suite, sorted."""
        return sorted(self._tests)

    def half(self, task: TaskId) -> Half:
        """Even numbers were developed on, all else is held out."""
        number = re.search(r"[0-9]+", task.name)
        is_even = number is not None and int(number[0]) % 2 == 0
        return Half.DEVELOPED if is_even else Half.HELD_OUT

    def contract(self, task: TaskId) -> ContractFile:
        """The closed contract of the task; made once."""
        if task not in self._contracts:
            test, domain = self._tests[task], self._domain(task.domain)
            self._contracts[task] = contract_for(domain, test, self.pack(task.domain))
        return self._contracts[task]

    def pack(self, domain: str) -> DomainPack:
        """What is known of the domain beside its files."""
        if domain not in self._packs:
            self._packs[domain] = open_pack(NAME, domain)
        return self._packs[domain]

    def _domain(self, name: str) -> Domain:
        if name not in self._domains:
            suite = self._suites[name]
            templates = sorted({test.seed for test in suite.tests})
            for seed in templates:
                if not re.fullmatch(r"[\w.-]+", seed):  # a name from a file must not lead elsewhere
                    raise UsageError(f"{name}: not the name of a seed: {printable(seed[:60])!r}")
            seeds = {seed: read_seed(self._folder / f"seed-{seed}.json") for seed in templates}
            self._domains[name] = Domain(suite, seeds, self.pack(name))
        return self._domains[name]

    def _suite(self, task: TaskId) -> tuple[TaskSuite, Test]:
        return self._suites[task.domain], self._tests[task]

    def compat(self, run: RecordedRun, seeded: Sequence[Change] = ()) -> Compat:
        """The outcome by Agent-Diff's own assertions, each over the entries of the diff."""
        suite, test = self._suite(run.task)
        journal = _with(journal_from(run.raw["diff"]), seeded)
        found = score(suite, test, journal)
        return Compat(found.passes is True, found.failures, found.passes is not None)

    def prepare(self, run: RecordedRun) -> Prepared:
        """The run as a trial: the seed, moved to where the run found it, and what it made of it."""
        _, test = self._suite(run.task)
        ground = self._domain(run.task.domain).ground(test.seed)
        fold = folded(ground, journal_from(run.raw["diff"]))
        before, after = ground.base.pair(fold.moved, fold.made)
        return Prepared(self.contract(run.task), before, after)

    def still(self, task: TaskId) -> Prepared:
        """The trial in which nothing happens, on the seed as it is."""
        _, test = self._suite(task)
        before, after = self._domain(task.domain).ground(test.seed).base.pair((), ())
        return Prepared(self.contract(task), before, after)

    def minimal(self, task: TaskId) -> RecordedRun | None:
        """The least run that passes the assertions; None where none could be made."""
        suite, test = self._suite(task)
        ground = self._domain(task.domain).ground(test.seed)
        journal = minimal(suite, test, ground, self.pack(task.domain))
        if journal is None:
            return None
        line = {"run_id": f"minimal:{task.domain}:{task.name}", "prompt": test.prompt}
        return RecordedRun(line["run_id"], task, "", {**line, "diff": diff_of(journal)})

    def is_named(self, run: RecordedRun, change: Change) -> bool:
        """Whether an assertion of the task is about such a change of such a row."""
        _, test = self._suite(run.task)
        rows = [_raw(row) for row in (change.before, change.after) if row is not None]
        kind = "changed" if len(rows) > 1 else "removed" if change.after is None else "added"
        return any(
            a.diff_type in (kind, "unchanged")
            and a.entity == change.type
            and any(satisfies(row, a.where) for row in rows)
            for a in test.assertions
        )


def _with(journal: Journal, seeded: Sequence[Change]) -> Journal:
    """The journal with further changes at its end, each an entry of its own."""
    inserts, updates, deletes = list(journal.inserts), list(journal.updates), list(journal.deletes)
    for change in seeded:
        if change.before is not None and change.after is not None:
            updates.append(Update(change.type, _raw(change.before), _raw(change.after)))
        elif change.after is not None:
            inserts.append((change.type, _raw(change.after)))
        elif change.before is not None:
            deletes.append((change.type, _raw(change.before)))
    return Journal(tuple(inserts), tuple(updates), tuple(deletes))


def _raw(row: Row) -> dict[str, Any]:
    return {name: _json(value) for name, value in row.items() if value is not ABSENT}


def _json(value: Observed) -> Any:
    match value:
        case datetime() | date():
            return value.isoformat()
        case tuple():
            return [_json(item) for item in value]
        case Map(items):
            return {name: _json(item) for name, item in items}
        case _:
            return value
