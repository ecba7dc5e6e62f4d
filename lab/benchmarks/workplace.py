"""The tasks of NeMo Gym's workplace assistant that its package has, as tasks of an audit.

    hosts/tests/environments/environments.sh nemo-gym        # makes .hosts/nemo-gym
    .hosts/nemo-gym/bin/python -m lab.benchmarks.workplace DIR
    .hosts/nemo-gym/bin/python -m statediff lab audit DIR/tasks.yaml

Its five tables are exported as JSON tables; analytics are never written, and left out. The right
run is the calls of the ground truth. The verifier is the environment's own `is_correct`, which
compares the tables that a run leaves with those that the ground truth leaves: it is given the state
it is shown in the place of what a run's calls leave. Rows have the order that they had before, new
ones that of their ids, so that order alone fails nothing. The other 1,255 tasks are downloads.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pandas as pd
from resources_servers.workplace_assistant import utils

TOOLKITS: Final = (
    "email",
    "calendar",
    "analytics",
    "project_management",
    "customer_relationship_manager",
)
TABLES: Final[Mapping[str, tuple[str, str, str]]] = {
    "email": ("email", "_emails", "email_id"),
    "event": ("calendar", "_calendar_events", "event_id"),
    "plot": ("analytics", "_plots_data", "id"),
    "project_task": ("project_management", "_project_tasks", "task_id"),
    "customer": ("customer_relationship_manager", "_crm_data", "customer_id"),
}
"""Table → the tool that has it, the tool's attribute, and the column of its key."""
Tables = dict[str, list[dict[str, Any]]]


# ---------------------------------------------------------------- states


def tables_of(tools: Mapping[str, Any]) -> Tables:
    """Every row that a tool can write, with its key under `id` and `/` in names as `_or_`."""
    found: Tables = {}
    for table, (tool, attribute, key) in TABLES.items():
        frame = getattr(tools[tool], attribute)
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        found[table] = [
            {"id": row.get(key, str(at)), **{_said(n): v for n, v in row.items() if n != key}}
            for at, row in enumerate(rows)
        ]
    return found


def _said(column: str) -> str:
    return column.replace("/", "_or_")


def tools_of(tables: Tables, before: Tables) -> dict[str, Any]:
    """The tools, with the tables; `KeyError` or `TypeError` where these hold no such state."""
    made: dict[str, Any] = utils.get_tools(TOOLKITS)
    for table, (tool, attribute, key) in TABLES.items():
        holder = made["containers"][tool]
        pristine = getattr(holder, attribute)
        places = {row["id"]: at for at, row in enumerate(before[table])}
        come = (row["id"] for row in tables[table] if row["id"] not in places)
        places |= {new: len(places) + at for at, new in enumerate(sorted(come, key=str))}
        rows = {places[row["id"]]: row for row in tables[table]}
        columns = {
            name: pd.Series(
                {at: rows[at]["id" if name == key else _said(name)] for at in sorted(rows)},
                dtype=pristine[name].dtype,
            )
            for name in pristine.columns
        }
        setattr(holder, attribute, pd.DataFrame(columns))
    return made


# ---------------------------------------------------------------- tasks


def examples() -> list[dict[str, Any]]:
    """The tasks of the package."""
    spec = importlib.util.find_spec("environments.workplace_assistant")
    if spec is None or spec.origin is None:
        raise SystemExit("no environments.workplace_assistant; see this module's head")
    lines = Path(spec.origin).with_name("data") / "example.jsonl"
    return [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]


def export(folder: Path) -> int:
    """The states of every task and `tasks.yaml` are in the folder; how many tasks."""
    tasks = []
    before = tables_of(utils.get_tools(TOOLKITS)["containers"])
    for example in examples():
        name = f"{example['environment_name']}-{example['id']}"
        own = folder / name
        own.mkdir(parents=True)
        done = utils.execute_actions_and_reset_state(example["ground_truth"])
        after = tables_of(done["containers"])
        for side, tables in (("before", before), ("after", after)):
            (own / f"{side}.json").write_text(json.dumps(tables), encoding="utf-8")
        if not is_right(example, after, before):
            raise ValueError(f"{name}: the tables are another state than the ground truth leaves")
        tasks.append(
            {
                "task": name,
                "domain": "nemo-gym workplace",
                "verifier": f"python:lab.benchmarks.workplace:task__{example['id']}",
                "before": f"{name}/before.json",
                "after": f"{name}/after.json",
            }
        )
    (folder / "tasks.yaml").write_text(json.dumps({"tasks": tasks}), encoding="utf-8")
    return len(tasks)


# ---------------------------------------------------------------- the verifier


def __getattr__(name: str) -> Callable[[Path, Path], bool]:
    """`task__ID`: the check of that task."""
    kind, _, wanted = name.partition("__")
    if kind != "task" or not wanted:
        raise AttributeError(name)
    [example] = [each for each in examples() if str(each["id"]) == wanted]

    def check(state: Path, before: Path) -> bool:
        return is_right(example, json.loads(state.read_bytes()), json.loads(before.read_bytes()))

    return check


def is_right(example: Mapping[str, Any], state: Tables, before: Tables) -> bool:
    """What the environment says of a run that left the state."""
    truth = utils.execute_actions_and_reset_state(example["ground_truth"])
    left = iter((tools_of(state, before), truth))
    with patch.object(utils, "execute_actions_and_reset_state", lambda _calls: next(left)):
        return bool(utils.is_correct({}, example["ground_truth"], ""))


def main() -> None:
    """The tasks are in a new folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    print(export(parser.parse_args().folder), "tasks")


if __name__ == "__main__":
    main()
