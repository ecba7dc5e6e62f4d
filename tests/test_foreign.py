"""Faults of another making: they are made, a closed contract lets none pass, an open one does."""

from __future__ import annotations

import json
from pathlib import Path

from statediff_lab.audit.tasks import FileTask
from statediff_lab.auditing import right_run

from lab.benchmarks import foreign
from statediff.meta.world import World

BEFORE = {
    "person": [
        {"id": n, "name": name, "since": f"2026-01-0{n}T10:00:00", "boss": 1, "cents": 1200 + n}
        for n, name in enumerate(("Ada", "Bóris", "Cy", "Dee"), start=1)
    ],
    "place": [{"id": 1, "name": "Cork"}, {"id": 2, "name": "Galway"}],
}
OPEN = """\
contract: people/raise
version: 1.0.0
owner: people
intent: Raise two.
frame: {open: nobody looks}
require:
  - {id: raised, update: person, where: it.id == 2, set: {cents: 2400}}
"""


def worlds(tmp_path: Path) -> tuple[World, World]:
    raised = {2: 2400, 3: 3600}
    people = [{**p, "cents": raised.get(p["id"], p["cents"])} for p in BEFORE["person"]]
    after = {**BEFORE, "person": people}
    for name, document in (("before", BEFORE), ("after", after)):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    (tmp_path / "open.yaml").write_text(OPEN)
    ends = {m: (str(tmp_path / f"{m}.json"),) for m in ("before", "after")}
    found = []
    for contract in (None, tmp_path / "open.yaml"):
        task = FileTask(name="raise", verifier="true", contract=contract, **ends)
        run, _, _ = right_run(task)
        found.append(World(run, run.judged(), 0))
    return found[0], found[1]


def test_a_closed_contract_lets_none_of_them_pass_and_an_open_one_many(tmp_path: Path) -> None:
    closed, open_one = worlds(tmp_path)
    counts, passed = foreign.trial(closed, seed=0, each=2)
    made = {operator for operator, _ in counts}
    assert made >= {*foreign.VALUES} - {"other-type"}
    assert made >= {"table-permuted", "column-rotated", "row-copied-over", "partly-written"}
    assert not passed
    _, passed = foreign.trial(open_one, seed=0, each=2)
    assert {each.operator for each in passed} >= {"letters-look-alike", "other-zone"}


def test_of_a_wide_schema_only_the_types_of_the_task_are_tried(tmp_path: Path) -> None:
    _, open_one = worlds(tmp_path)
    assert [each.name for each in open_one.types] == ["person", "place"]
    assert [each.name for each in foreign.named(open_one).types] == ["person"]
    targets = {each.target for each in foreign.trial(foreign.named(open_one), seed=0, each=1)[1]}
    assert targets
    assert not [each for each in targets if each.startswith("place")]
