"""A sample of `python -m lab.benchmarks.crashes`: something is killed in the middle of trials."""

import os
from pathlib import Path

import pytest
from statediff_containers.engine import connect

from lab.benchmarks.crashes import Crash, run, things_of

pytestmark = pytest.mark.docker("git")


@pytest.mark.parametrize("victim", ["evaluator", "container", "server"])
def test_what_is_killed_in_mid_trial_leaves_nothing_and_no_wrong_verdict(
    victim: str, tmp_path: Path
) -> None:
    # Late enough that the container runs, whatever the machine is busy with: see `strike`.
    outcome = run(Crash("git", "opens_the_gate", victim, 0.4), tmp_path, 6.0, trials=2)
    assert outcome.wrong == ()
    assert len(outcome.verdicts) == 2
    assert "MATCH" not in outcome.verdicts


@pytest.mark.docker("mariadb")
def test_a_database_that_ends_under_an_agent_is_held_against_nobody(tmp_path: Path) -> None:
    outcome = run(Crash("mariadb", "hasty", "server", 0.8), tmp_path, 12.0, trials=2)
    assert outcome.wrong == ()
    assert "MATCH" not in outcome.verdicts


@pytest.mark.docker("redmine")
def test_a_tracker_whose_evaluator_is_killed_is_gone_too(tmp_path: Path) -> None:
    outcome = run(Crash("redmine", "edits_comment", "evaluator", 0.5), tmp_path, 12.0, trials=1)
    assert outcome.wrong == ()
    assert "MATCH" not in outcome.verdicts


def test_a_harness_that_looks_for_leftovers_finds_them() -> None:

    engine = connect()
    volume = engine.api.create_volume(labels=engine.labels)["Name"]
    try:
        assert volume in things_of(engine, os.getpid())
    finally:
        engine.api.remove_volume(volume)
