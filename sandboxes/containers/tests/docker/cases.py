"""The cases of a pack's tasks, as parameters of a test, and what a trial must show for one.

All of them take minutes on every server, so a test run tries each task's references and its first
faulty agent; `make variants` tries every agent.
"""

import os
from typing import Any

import pytest
from ruamel.yaml import YAML

from statediff.harness import JudgedTrial
from statediff.model.verdict import Truth, Verdict
from statediff.packs import contract_folders


def cases_of(pack: str, *, every: bool = bool(os.environ.get("STATEDIFF_EVERY_CASE"))) -> list[Any]:
    """(folder, case) of the cases of every task of the pack."""
    return [
        pytest.param(
            folder, case, id=f"{folder.name}:{case['agent']}{':unplugged' * ('unplug' in case)}"
        )
        for folder in contract_folders()
        if folder.name.startswith(f"{pack}/")
        for case in _chosen(YAML(typ="safe").load(folder.cases)["cases"], every=every)
    ]


def _chosen(cases: list[Any], *, every: bool) -> list[Any]:
    if every:
        return cases
    references = [case for case in cases if case["verdict"] == "MATCH"]
    faulty = [case for case in cases if case["verdict"] == "DIVERGE"]
    return [*references, *faulty[:1]]


def check(trial: JudgedTrial, case: dict[str, str], *, is_first: bool = True) -> None:
    """The trial has the verdict of its case, for the reason that it names.

    `is_first`: that reason stands before all others.
    """
    assert trial.observed.run.error is None, trial.observed.run.stderr.text
    judgement = trial.evaluated.judgement
    wrong = [f for f in judgement.findings if f.truth is not Truth.HOLDS]
    if judgement.verdict is Verdict.DIVERGE:
        wrong = [f for f in wrong if f.truth is Truth.FAILS]
        wrong = wrong[:1] if is_first else wrong
    found = [(f.stage.value, f.clause, f.code) for f in wrong]
    assert judgement.verdict.value == case["verdict"], found
    if judgement.verdict is Verdict.MATCH:
        assert found == []
    else:
        assert (case["stage"], case["clause"], case["code"]) in found
