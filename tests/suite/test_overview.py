"""What a dashboard asks of a store: the same counts, however they are cut."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from statediff.suite.overview import (
    drilled,
    failures,
    flaky,
    groups,
    matrix,
    pooled,
    trend,
    violations,
)
from statediff.suite.records import Ended, Loose, Run, Trial
from statediff.suite.store import Store, opened
from tests.suite.test_summary import trials

TOLD = Loose("told", "missing-change", "require", "FAILS")


@pytest.fixture
def store() -> Iterator[Store]:
    """Two runs of two agents: r1 on the 1st, r2 on the 2nd of a month."""
    with opened("sqlite://") as made:
        for day, run in enumerate(("r1", "r2"), 1):
            made.put_run(
                Run(
                    run,
                    f"file://here/{run}",
                    name=run,
                    statediff="0",
                    kernel="4",
                    facts="{}",
                    contracts=(),
                    times=0,
                    agents=(),
                )
            )
            every: list[Trial] = []
            for agent, ends in (("careful", "MMD"), ("idle", "DFN")):
                every += [
                    replace(
                        trial, name=f"{agent}-{trial.name}", agent=agent,
                        started_at=f"2026-05-0{day}T00:00:00+00:00", cost_nano=7 * day,
                        agent_microseconds=10,
                        loose=(TOLD,) if trial.ended is Ended.DIVERGE else (),
                        cause="environment" if trial.ended is Ended.FAULT else "",
                    )
                    for trial in trials(run, "shop/a", ends, agent=agent)
                ]  # fmt: skip
            made.put_trials(every)
        yield made


def test_every_cut_counts_every_scheduled_trial(store: Store) -> None:
    cuts = (groups(store), matrix(store), trend(store))
    assert [pooled(each.counted for each in cut).scheduled for cut in cuts] == [12, 12, 12]
    careful, idle = matrix(store)
    assert (careful.agent, careful.counted.passed, careful.runs) == ("careful", 4, 2)
    assert (idle.counted.without_verdict, idle.cost_nano, idle.timed) == (4, 3 * 7 + 3 * 14, 6)
    assert pooled(each.counted for each in matrix(store, ["r1"])).scheduled == 6


def test_only_what_passes_and_fails_by_verdict_is_flaky(store: Store) -> None:
    assert [cell.agent for cell in flaky(store)] == ["careful"]


def test_a_trend_is_in_the_order_of_time(store: Store) -> None:
    assert [(p.run, p.agent) for p in trend(store)] == [
        ("r1", "careful"), ("r1", "idle"), ("r2", "careful"), ("r2", "idle")
    ]  # fmt: skip
    assert [p.cost_nano for p in trend(store)] == [21, 21, 42, 42]


def test_violations_and_failures_are_counted_by_trial_and_apart(store: Store) -> None:
    (one,) = violations(store)
    assert (one.clause, one.code, one.trials) == ("told", "missing-change", 4)
    assert failures(store) == {(Ended.FAULT, "environment"): 2, (Ended.NOT_RUN, ""): 2}


def test_drilling_down_leads_to_the_trials_behind_a_count(store: Store) -> None:
    found = drilled(store, runs=["r2"], agent="careful", ended=Ended.DIVERGE, clause="told")
    assert [(p.trial.run, p.trial.number, p.location) for p in found] == [
        ("r2", 3, "file://here/r2")
    ]
    pages = [drilled(store, limit=5, offset=at) for at in (0, 5, 10)]
    assert [len(page) for page in pages] == [5, 5, 2]
    assert len({(p.trial.run, p.trial.name) for page in pages for p in page}) == 12
