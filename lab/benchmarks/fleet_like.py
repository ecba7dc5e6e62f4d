"""Fleet's checks over the databases of our own packs, with lists made from a right run.

    python -m lab.benchmarks.fleet_like DIR
    cd DIR && PYTHONPATH=… .hosts/fleet/bin/python -m statediff lab audit tasks.yaml

Each task of the packs shop and accounts gives a database before and after its first reference
agent. What differs is the list that `SnapshotDiff.expect_only` and `expect_exactly` (of
fleet-python) are given. The checks are Fleet's, the lists ours; only the database is looked at.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from statediff_lab.audit.files import copied

from statediff.contract.file import load_contract
from statediff.meta.cases import read_cases
from statediff.packs import contract_folders
from statediff.suite.campaign import SandboxPool
from statediff.systems.base.protocol import Sandbox
from statediff.workspace.references import live_references

SOURCES: Final = {"shop": "shop-db", "accounts": "accounts-db"}
CHECKS: Final = ("expect_only", "expect_exactly")
_MODULE: Final = '''"""Fleet's checks, each with the list of its task."""

import json
from functools import partial
from pathlib import Path

from fleet.verifiers.db import DatabaseSnapshot

EXPECTED = json.loads((Path(__file__).parent / "expected.json").read_bytes())


def check(name, task, state, before):
    listed = [
        {key: [tuple(pair) for pair in value] if key.endswith("fields")
         else tuple(value) if isinstance(value, list) else value
         for key, value in each.items()}
        for each in EXPECTED[task][name]
    ]
    diff = DatabaseSnapshot(str(before)).diff(DatabaseSnapshot(str(state)))
    getattr(diff, name)(listed)


def __getattr__(name):
    check_name, _, task = name.partition("__")
    if task not in EXPECTED:
        raise AttributeError(name)

    def passes(state, before):
        check(check_name, task, state, before)

    return passes
'''


def write(folder: Path) -> int:
    """The tasks are in a new folder; how many."""
    folder.mkdir(parents=True)
    listed, expected = [], {}
    with closing(SandboxPool()) as pool:
        for task in contract_folders():
            path = task.contract
            pack = path.parent.parent.name
            if pack not in SOURCES:
                continue
            name = f"{pack}_{path.parent.name}".replace("-", "_")
            _run(path, folder / name, SOURCES[pack], pool)
            expected[name] = dict(_expected(folder / name))
            listed += [
                {
                    "task": f"{check} {pack}/{path.parent.name}",
                    "domain": f"{check} {pack}",
                    "verifier": f"python:fleet_checks:{check}__{name}",
                    "before": f"{name}/before.db",
                    "after": f"{name}/after.db",
                }
                for check in CHECKS
            ]
    (folder / "expected.json").write_text(json.dumps(expected, indent=1), encoding="utf-8")
    (folder / "fleet_checks.py").write_text(_MODULE, encoding="utf-8")
    (folder / "tasks.yaml").write_text(json.dumps({"tasks": listed}), encoding="utf-8")
    return len(listed)


def _run(path: Path, folder: Path, source: str, pool: SandboxPool) -> None:
    """The database before and after the first reference agent's run."""
    folder.mkdir()
    file = load_contract(path)

    def keep(moment: str, sandbox: Sandbox) -> None:
        database = Path(sandbox.access().urls[source].removeprefix("sqlite:///"))
        copied(database, folder).rename(folder / f"{moment}.db")

    with pool.lease(str(file.content.sandbox), "embedded") as sandbox:
        keep("before", sandbox)
    first = read_cases(path.parent).references[:1]
    list(live_references(file, path, first, pool, disturb=lambda box: keep("after", box)))


def _expected(folder: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    before, after = (_rows(folder / f"{moment}.db") for moment in ("before", "after"))
    only: list[dict[str, Any]] = []
    exactly: list[dict[str, Any]] = []
    for table, pk in sorted({*before, *after}, key=repr):
        place = {"table": table, "pk": pk[0] if len(pk) == 1 else list(pk)}
        old, new = before.get((table, pk)), after.get((table, pk))
        if old is None or new is None:
            mark = "__added__" if old is None else "__removed__"
            only.append({**place, "field": None, "after": mark})
            fields = {"fields": [*new.items()]} if new is not None else {}
            exactly.append({**place, "type": "delete" if new is None else "insert", **fields})
        elif moved := {name: value for name, value in new.items() if old.get(name) != value}:
            only += [{**place, "field": name, "after": value} for name, value in moved.items()]
            fields = {"resulting_fields": [*moved.items()], "no_other_changes": True}
            exactly.append({**place, "type": "modify", **fields})
    yield "expect_only", only
    yield "expect_exactly", exactly


def _rows(path: Path) -> Mapping[tuple[str, tuple[Any, ...]], dict[str, Any]]:
    found = {}
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        for (table,) in database.execute(names).fetchall():
            columns = database.execute(f'PRAGMA table_info("{table}")').fetchall()
            key = [c["name"] for c in sorted(columns, key=lambda c: c["pk"]) if c["pk"]]
            for row in database.execute(f'SELECT * FROM "{table}"').fetchall():  # noqa: S608 - ours
                found[table, tuple(row[name] for name in key)] = dict(row)
    return found


def main() -> None:
    """The tasks are in a new folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    print(write(parser.parse_args().folder), "tasks")


if __name__ == "__main__":
    main()
