"""AgentDojo's user tasks as tasks of an audit: typed states, its own utility checks, its attacks.

    hosts/tests/environments/environments.sh agentdojo        # makes .hosts/agentdojo
    export PYTHONHASHSEED=7
    .hosts/agentdojo/bin/python -m lab.benchmarks.dojo DIR       # the tasks, without the attacks
    .hosts/agentdojo/bin/python -m lab.benchmarks.dojo DIR --attacks # with them
    .hosts/agentdojo/bin/python -m statediff lab audit DIR/tasks.yaml

An environment is exported as JSON tables: a row for each entry of a list or an object, and one row
for the values that are in neither. What only fills an environment when it is made (`initial_…`) is
left out. An export is read back, and must be the same environment. The right run is the benchmark's
own ground truth, with its own answer; an attack is the ground truth of an injection task, made
before the user's calls or after them, in an environment without the attacker's text. The clock
stops, and the hash seed is given, so that two exports are the same bytes: a calendar's tool orders
participants as a set does.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import time_machine
from agentdojo.functions_runtime import FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suite, get_suites
from pydantic import BaseModel, TypeAdapter
from pydantic_core import to_jsonable_python

VERSION: Final = "v1.2.2"
HASH_SEED: Final = "7"
_NOW: Final = dt.datetime(2024, 5, 15, 12, tzinfo=dt.UTC)
Tables = dict[str, list[dict[str, Any]]]


# ---------------------------------------------------------------- states


def tables_of(environment: Any) -> Tables:
    """Every value of the environment, in a table by the name of its place."""
    found: Tables = {}
    _walk(environment, "", found)
    return found


def _fields(model: Any) -> Iterator[tuple[str, Any, Any]]:
    for name, field in type(model).model_fields.items():
        if not name.startswith("initial_"):
            yield name, getattr(model, name), field.annotation


def _walk(model: Any, prefix: str, found: Tables) -> None:
    alone: dict[str, Any] = {}
    for name, value, _ in _fields(model):
        place = f"{prefix}{name}"
        match value:
            case BaseModel():
                _walk(value, f"{place}_", found)
            case dict():
                found[place] = [{"id": key, **_row(entry)} for key, entry in value.items()]
                if any(isinstance(entry, list) for entry in value.values()):
                    found[place] = [{"id": key} for key in value]
                    found[f"{place}_item"] = [
                        {"id": f"{key}/{at}", "of": key, "at": at, **_row(item)}
                        for key, entry in value.items()
                        for at, item in enumerate(entry)
                    ]
            case list():
                found[place] = [{"id": at, **_row(item)} for at, item in enumerate(value)]
            case _:
                alone[name] = _plain(value)
    if alone:
        found[f"{prefix}values".lower()] = [{"id": "it", **alone}]


def _plain(value: Any) -> Any:
    return to_jsonable_python(value)


def _row(entry: Any) -> dict[str, Any]:
    plain = _plain(entry)
    named = (
        {f"own_{n}" if n == "id" else n: v for n, v in plain.items()}
        if isinstance(plain, dict)
        else None
    )
    return {"value": plain} if named is None else named


def environment_of(tables: Tables, pristine: Any) -> Any:
    """The environment that the tables hold; `ValueError` or the like where they hold none."""
    found = pristine.model_copy(deep=True)
    _fill(found, "", tables)
    return found


def _fill(model: Any, prefix: str, tables: Tables) -> None:
    alone = tables.get(f"{prefix}values".lower(), [{}])[0]
    for name, value, annotation in _fields(model):
        place = f"{prefix}{name}"
        held: Any
        match value:
            case BaseModel():
                _fill(value, f"{place}_", tables)
                continue
            case dict() if f"{place}_item" in tables:
                held = {row["id"]: [] for row in tables[place]}
                for row in sorted(tables[f"{place}_item"], key=lambda row: row["at"]):
                    held[row["of"]].append(_entry(row))
            case dict():
                held = {row["id"]: _entry(row) for row in tables[place]}
            case list():
                held = [_entry(row) for row in sorted(tables[place], key=lambda row: row["id"])]
            case _:
                held = alone[name]
        setattr(model, name, TypeAdapter(annotation).validate_python(held))


def _entry(row: Mapping[str, Any]) -> Any:
    if "value" in row:
        return row["value"]
    return {"id" if n == "own_id" else n: v for n, v in row.items() if n not in ("id", "of", "at")}


# ---------------------------------------------------------------- tasks


def export(folder: Path, *, attacks: bool) -> int:
    """The states of every user task and `tasks.yaml` are in the folder; how many tasks."""
    with time_machine.travel(_NOW, tick=False):
        tasks = [
            _export_task(folder, name, suite, task, attacks=attacks)
            for name, suite in get_suites(VERSION).items()
            for task in suite.user_tasks
        ]
    document = {"tasks": tasks}
    (folder / "tasks.yaml").write_text(json.dumps(document), encoding="utf-8")
    return len(tasks)


def _export_task(
    folder: Path, name: str, suite: Any, task: str, *, attacks: bool
) -> dict[str, Any]:
    own = Path(name) / task
    (folder / own).mkdir(parents=True)
    user = suite.get_user_task_by_id(task)
    before = user.init_environment(suite.load_and_inject_default_environment({}))
    right = _after(suite, before, user)
    _write(folder / own / "before.json", before)
    _write(folder / own / "after.json", right)
    said = json.dumps(user.GROUND_TRUTH_OUTPUT)
    (folder / own / "answer.json").write_text(said, encoding="utf-8")
    wrong = []
    for attack in suite.injection_tasks if attacks else ():
        injection = suite.get_injection_task_by_id(attack)
        for order, made in (("after", (user, injection)), ("before", (injection, user))):
            place = own / f"{attack}-{order}.json"
            try:
                ended = _after(suite, before, *made)
            except Exception as error:  # noqa: BLE001 - a tool refuses as it likes
                print(f"{name} {task}, {place.stem}: not made: {str(error)[:100]}")
                continue
            _write(folder / place, ended)
            wrong.append({"kind": f"attack-{order}", "run": attack, "after": str(place)})
    return {
        "task": f"{name} {task}",
        "domain": f"agentdojo {name}",
        "verifier": f"python:lab.benchmarks.dojo:{name}__{task}",
        "before": str(own / "before.json"),
        "after": str(own / "after.json"),
        "answer": str(own / "answer.json"),
        **({"wrong": wrong} if wrong else {}),
    }


def _after(suite: Any, before: Any, *tasks: Any) -> Any:
    environment, runtime = before.model_copy(deep=True), FunctionsRuntime(suite.tools)
    calls = [call for task in tasks for call in task.ground_truth(before.model_copy(deep=True))]
    for call in calls:
        runtime.run_function(environment, call.function, call.args, raise_on_error=True)
    return environment


def _write(path: Path, environment: Any) -> None:
    tables = tables_of(environment)
    text = json.dumps(tables)
    if environment_of(json.loads(text), environment) != environment:
        raise ValueError(f"{path}: the tables are another environment")
    path.write_text(text, encoding="utf-8")


# ---------------------------------------------------------------- the verifier


def __getattr__(name: str) -> Callable[[Path, Path, Path | None], object]:
    """`SUITE__TASK`: the task's own utility check."""
    if "__" not in name.strip("_"):
        raise AttributeError(name)
    suite, _, task = name.partition("__")

    def check(state: Path, before: Path, answer: Path | None) -> object:
        return utility(suite, task, state, before, answer)

    return check


def utility(name: str, task: str, state: Path, before: Path, answer: Path | None) -> object:
    """The benchmark's result for the state and the answer; a text where it asks for the calls."""
    suite = get_suite(VERSION, name)
    user = suite.get_user_task_by_id(task)
    pristine = suite.load_and_inject_default_environment({})
    then, now = (
        environment_of(json.loads(path.read_bytes()), pristine) for path in (before, state)
    )
    said = "" if answer is None else json.loads(answer.read_bytes())
    try:
        found = user.utility_from_traces(said, then, now, _Unknown())
    except _AskedForCallsError as asked:
        return str(asked)
    return bool(user.utility(said, then, now) if found is None else found)


class _AskedForCallsError(Exception):
    """A check looks at the calls."""


class _Unknown(Sequence[Any]):
    """Calls that no state holds: a check that looks at them gets no further."""

    def __len__(self) -> int:
        raise _AskedForCallsError("it rests on the calls, which no state holds")

    def __getitem__(self, at: Any) -> Any:
        return len(self)


def main() -> None:
    """The tasks are in a new folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--attacks", action="store_true")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        parser.error(f"start it with PYTHONHASHSEED={HASH_SEED}, or it is another export")
    print(export(given.folder, attacks=given.attacks), "tasks")


if __name__ == "__main__":
    main()
