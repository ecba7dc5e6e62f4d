"""Recorded runs of a made-up benchmark: agents move money between accounts.

accounts.json: the balances before, {account: balance}. tasks.json: {task: {account: balance}}.
runs.jsonl: {"run_id", "task", "agent", "after": {account: balance}, "passed"} a line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from statediff_lab.importers.pack import compose_yaml
from statediff_lab.importers.recorded import (
    Compat,
    Half,
    Labels,
    NotARun,
    Prepared,
    RecordedRun,
    RunFile,
    RunLine,
    SeededChange,
    TaskId,
    parse,
)
from statediff_lab.importers.states import Base, Edit

from statediff.contract.file import ContractFile, parse_contract
from statediff.errors import InputError, UsageError
from statediff.model.values import printable

DOMAIN: Final = "bank"
MAX_BYTES: Final = 1024 * 1024


def open_cases(folder: Path) -> Ledger:
    """The folder as a suite. `UsageError` if it holds no runs of this format."""
    return Ledger(folder)


class Ledger:
    """One folder: its runs are all of one domain."""

    name = "ledger"

    def __init__(self, folder: Path) -> None:
        self._runs = folder / "runs.jsonl"
        if not self._runs.is_file():
            raise UsageError(f"{printable(str(folder))}: expected runs.jsonl, found none")
        self._accounts = _balances(_document(folder / "accounts.json"), "accounts.json")
        self._tasks = {
            name: _balances(balances, "tasks.json")
            for name, balances in _document(folder / "tasks.json").items()
        }
        self._base = Base("bank", {"accounts": [_row(*each) for each in self._accounts.items()]})

    @property
    def files(self) -> Sequence[RunFile]:
        """The one file of runs."""
        return (RunFile(self._runs, DOMAIN),)

    def run(self, domain: str, line: Mapping[str, Any]) -> tuple[RecordedRun, Labels]:
        """The run in a parsed line and, apart, its labels. `NotARun` where it is none."""
        run_id, task, passed = line.get("run_id"), line.get("task"), line.get("passed")
        if not isinstance(run_id, str):
            raise NotARun("expected `run_id` as text")
        if not isinstance(task, str) or task not in self._tasks:
            raise NotARun("expected `task` as one of tasks.json")
        if passed is not None and not isinstance(passed, bool):
            raise NotARun("expected `passed` as true or false")
        run = RecordedRun(run_id, TaskId(domain, task), str(line.get("agent") or ""), line)
        return run, Labels(compat=passed, official=passed)

    def tasks(self) -> Sequence[TaskId]:
        """Every task, sorted."""
        return sorted(TaskId(DOMAIN, name) for name in self._tasks)

    def half(self, task: TaskId) -> Half:
        """Names of an even number of letters were developed on."""
        return Half.HELD_OUT if len(task.name) % 2 else Half.DEVELOPED

    def contract(self, task: TaskId) -> ContractFile:
        """The closed contract: these balances change, and nothing else."""
        wanted = self._changed(self._tasks[task.name])
        changes = [
            {"update": "accounts", "where": f"it.id == {json.dumps(name)}", "set": {"balance": n}}
            for name, n in wanted.items()
        ]
        text = compose_yaml(
            {
                "contract": f"ledger/{task.name}",
                "version": "1.0.0",
                "owner": "ledger",
                "intent": f"The balances of task {task.name}.",
                "allow": [],
                "require": changes,
            }
        )
        return parse_contract(text, f"contract of {task}")

    def compat(self, run: RecordedRun, seeded: Sequence[SeededChange] = ()) -> Compat:
        """A pass if the accounts that the task names end as it says; no others are looked at."""
        after = {**self._accounts, **_balances(run.raw.get("after"), "after")}
        for change in seeded:
            after[str(change.key[0])] = None if change.after is None else change.after["balance"]
        wrong = [name for name, n in self._tasks[run.task.name].items() if after.get(name) != n]
        return Compat(not wrong, tuple(f"{printable(name)} ends otherwise" for name in wrong))

    def reward(self, run: RecordedRun, seeded: Sequence[SeededChange] = ()) -> bool | None:
        """As its own rules say."""
        return self.compat(run, seeded).passes

    def strip(self, run: RecordedRun, *, acts: bool, speaks: bool) -> RecordedRun:
        """The run without its transfers; it says nothing anyway."""
        return run if acts else replace(run, raw={**run.raw, "after": {}})

    def prepare(self, run: RecordedRun) -> Prepared:
        """The run as a trial: its balances over those before."""
        return self._trial(run.task, _balances(run.raw.get("after"), "after"))

    def still(self, task: TaskId) -> Prepared:
        """The trial in which no money moves."""
        return self._trial(task, {})

    def minimal(self, task: TaskId) -> RecordedRun | None:
        """The run that leaves what the task names."""
        raw = {"after": self._tasks[task.name]}
        return RecordedRun(f"minimal:{task.name}", task, "", raw)

    def is_named(self, run: RecordedRun, change: SeededChange) -> bool:
        """True if the task names the account."""
        return change.key[0] in self._tasks[run.task.name]

    def _changed(self, balances: Mapping[str, Any]) -> dict[str, Any]:
        return {
            n: b for n, b in balances.items() if n not in self._accounts or self._accounts[n] != b
        }

    def _trial(self, task: TaskId, balances: Mapping[str, Any]) -> Prepared:
        edits = []
        for name, balance in self._changed(balances).items():
            known = _row(name, self._accounts[name]) if name in self._accounts else None
            edits.append(Edit("accounts", known, _row(name, balance)))
        before, after = self._base.pair((), edits)
        return Prepared(self.contract(task), before, after)


def _row(name: str, balance: int) -> dict[str, Any]:
    return {"id": name, "balance": balance}


def _balances(tree: object, what: str) -> dict[str, int]:
    if not isinstance(tree, dict) or not all(type(balance) is int for balance in tree.values()):
        raise InputError(f"{what}: expected accounts and whole numbers")
    return dict(tree)


def _document(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InputError(f"{path.name}: more than {MAX_BYTES} bytes")
        return parse(RunLine(path.name, 1, data))
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read: {error.strerror}") from error
    except NotARun as error:
        raise InputError(f"{path.name}: {error}") from error
