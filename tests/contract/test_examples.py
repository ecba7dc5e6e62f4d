"""The page of examples: twelve kinds of task, in lines of the contracts that judge them."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from statediff.cli.main import run
from statediff.contract.file import load_contract

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BUILD = runpy.run_path(str(DOCS / "build_reference.py"))
PAGE = BUILD["examples"]()
TOLD = YAML(typ="safe").load(DOCS / "examples" / "explained.yaml")
EXCHANGE = DOCS / "examples" / "exchange-from-either"


def test_twelve_kinds_of_task_are_told_each_with_its_own_contract() -> None:
    sections = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert sections == [task["kind"] for task in TOLD]
    assert len(set(sections)) == len({task["contract"] for task in TOLD}) == 12


def test_every_link_of_the_page_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert len(links) > 12
    assert [x for x in links if not (DOCS / x).exists() and x not in BUILD["PAGES"]] == []


@pytest.mark.parametrize("task", TOLD, ids=lambda task: task["kind"])
def test_what_is_shown_stands_in_the_contract_and_is_no_other_clause(task: dict[str, str]) -> None:
    path = ROOT / task["contract"] / "contract.yaml"
    load_contract(path)
    section = PAGE.partition(f"## {task['kind']}\n")[2].partition("\n## ")[0]
    (shown,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    whole = YAML(typ="safe").load(path)
    for key, part in YAML(typ="safe").load(shown).items():
        if any(name.startswith(f"{key}/") for name in task["show"]):
            ids = {name.partition("/")[2] for name in task["show"] if name.startswith(f"{key}/")}
            assert {clause["id"] for clause in part} == ids
            assert all(clause in whole[key] for clause in part)
        else:
            assert part == whole[key]
    text = path.read_text(encoding="utf-8")
    assert all(f"{line}\n" in text for line in shown.splitlines())


def test_a_clause_that_the_contract_lacks_is_not_made_up() -> None:
    excerpt = BUILD["excerpt"]
    with pytest.raises(KeyError, match="gone"):
        excerpt("require:\n  - {id: there, create: note}\n", ["require/gone"])


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ("from-north", "MATCH"), ("from-south", "MATCH"),
        ("before", "DIVERGE"), ("both", "DIVERGE"), ("mixed", "DIVERGE"), ("unsent", "DIVERGE"),
    ],
)  # fmt: skip
def test_an_exchange_from_either_warehouse_is_right_and_no_mixture_is(
    after: str, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = ["--before", str(EXCHANGE / "before.json"), "--after", str(EXCHANGE / f"{after}.json")]
    code = run(["judge", str(EXCHANGE / "contract.yaml"), *tables, "--json"])
    assert json.loads(capsys.readouterr().out)["verdict"] == verdict
    assert code == (0 if verdict == "MATCH" else 1)
