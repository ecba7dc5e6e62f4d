"""Recorded runs, followed call by call: what is lost never ends in a match."""

from __future__ import annotations

from pathlib import Path

import pytest
from statediff_lab.importers.recorded import open_suite
from statediff_lab.importers.rejudge import readable_runs

from lab.benchmarks.so_far import HISTORY, Followed, follow, table

CASES = Path(__file__).parents[3] / "fixtures" / "imported"


def followed(name: str, folder: str) -> list[Followed]:
    suite = open_suite(name, CASES / folder)
    return [each for _, _, run, _ in readable_runs(suite) for each in follow(suite, run)]


@pytest.mark.parametrize("folder", ["tau2", "tau2-sample"])
def test_a_recorded_run_that_is_lost_ends_in_no_match(folder: str) -> None:
    found = followed("tau2", folder)
    assert not [each for each in found if each.lost and each.verdict == "MATCH"]
    asked = [each for each in found if each.under == HISTORY]
    plain = [each for each in found if each.under != HISTORY]
    assert len(asked) == len(plain) > 0
    assert not [each for each in plain if each.lost]
    if folder == "tau2-sample":
        assert sum(each.lost is not None for each in asked) > 5
        assert [each for each in asked if each.lost and each.lost < each.calls]
    assert all(each.denied is None or each.denied <= each.calls for each in found)
    assert sum(line.startswith("| tau2") for line in table(found)) == (2 if folder == "tau2" else 4)


def test_a_run_whose_calls_recorded_no_change_is_judged_at_its_end() -> None:
    found = followed("agent-diff", "agent-diff")
    assert {each.verdict for each in found} == {"MATCH", "DIVERGE"}
    denied = [each for each in found if each.denied_once]
    assert [(each.denied, each.calls) for each in denied] == [(2, 2), (8, 9)]
    assert all(each.right == each.calls for each in found if each.verdict == "MATCH")
