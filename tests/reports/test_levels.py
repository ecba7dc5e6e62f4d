"""Checks of single steps beside checks of the whole run: what their disagreement says."""

from __future__ import annotations

import itertools

import pytest

from statediff.reports.record import disagreement


def told(steps: str, whole: str) -> str:
    clauses = [{"stage": "steps", "truth": steps}, {"stage": "frame", "truth": whole}]
    return disagreement([*clauses, {"stage": "actions", "truth": "HOLDS"}])


@pytest.mark.parametrize(
    ("steps", "whole"), list(itertools.product(("HOLDS", "UNKNOWN", "FAILS"), repeat=2))
)
def test_levels_that_differ_are_a_diagnosis_and_levels_that_agree_are_none(
    steps: str, whole: str
) -> None:
    assert bool(told(steps, whole)) == (steps != whole)


def test_a_repaired_run_is_told_from_one_that_no_step_shows() -> None:
    assert "repaired" in told("FAILS", "HOLDS")
    assert "no single step" in told("HOLDS", "FAILS")


def test_one_level_alone_disagrees_with_nothing() -> None:
    assert disagreement([{"stage": "frame", "truth": "FAILS"}]) == ""
    assert disagreement([{"stage": "answer", "truth": "FAILS"}]) == ""
