"""A dashboard's questions to a store: the same counts, however they are cut."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from statediff.suite.figures import DomainFigures, Figures
from statediff.suite.figures import figures as figures_of
from statediff.suite.overview import (
    TrialChoice,
    failures,
    find_trials,
    groups,
    matrix,
    passes,
    pool,
    trend,
    violations,
)
from statediff.suite.records import Ended, Loose, Run, Trial
from statediff.suite.store import Store, open_store

TOLD = Loose("told", "missing-change", "require", "FAILS")


def known_run(name: str) -> Run:
    """A run that the store knows, and nothing of it."""
    place = f"file://here/{name}"
    return Run(name, place, name=name, statediff="0", kernel="6", facts="{}", contracts=(),
               times=0, agents=())  # fmt: skip


@pytest.fixture
def store() -> Iterator[Store]:
    """Two runs of two agents: r1 on the 1st, r2 on the 2nd of a month."""
    with open_store("sqlite://") as made:
        for day, run in enumerate(("r1", "r2"), 1):
            made.put_run(known_run(run))
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
    assert [pool(each.counted for each in cut).scheduled for cut in cuts] == [12, 12, 12]
    careful, idle = matrix(store)
    assert (careful.agent, careful.counted.passed, careful.runs) == ("careful", 4, 2)
    assert (idle.counted.without_verdict, idle.cost_nano, idle.timed) == (4, 3 * 7 + 3 * 14, 6)
    assert pool(each.counted for each in matrix(store, ["r1"])).scheduled == 6


def test_only_what_passes_and_fails_by_verdict_is_flaky(store: Store) -> None:
    assert [cell.agent for cell in matrix(store) if cell.is_flaky] == ["careful"]


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
    found = find_trials(
        store, TrialChoice(agent="careful", ended=Ended.DIVERGE, clause="told"), runs=["r2"]
    )
    assert [(p.trial.run, p.trial.number, p.location) for p in found] == [
        ("r2", 3, "file://here/r2")
    ]
    pages = [find_trials(store, TrialChoice(), limit=5, offset=at) for at in (0, 5, 10)]
    assert [len(page) for page in pages] == [5, 5, 2]
    assert len({(p.trial.run, p.trial.name) for page in pages for p in page}) == 12


def trials(
    run: str, contract: str, ends: str, version: str = "1.0.0", kernel: str = "4",
    agent: str = "careful", digest: str = "d",
) -> list[Trial]:  # fmt: skip
    """A letter a trial: Match, Diverge, Inconclusive, Fault, Not run; those two name no agent."""
    ways = {
        "M": Ended.MATCH, "D": Ended.DIVERGE, "I": Ended.INCONCLUSIVE, "F": Ended.FAULT,
        "N": Ended.NOT_RUN,
    }  # fmt: skip
    return [
        Trial(
            run,
            f"{contract}-{number}",
            ways[end],
            contract=contract,
            version=version,
            digest=digest,
            kernel=kernel,
            agent=agent if end in "MDI" else "",
            number=number,
        )
        for number, end in enumerate(ends, 1)
    ]


def figures(every: Sequence[Trial], ks: Sequence[int]) -> Figures:
    """By way of a database that adds them up."""
    with open_store("sqlite://") as store:
        for run in sorted({trial.run for trial in every}):
            store.put_run(known_run(run))
        store.put_trials(every)
        return figures_of(groups(store), passes(store), ks)


def domain(found: Figures, name: str) -> DomainFigures:
    (one,) = (each for each in found.domains if each.domain == name)
    return one


def test_every_scheduled_trial_is_counted_and_only_a_match_passes() -> None:
    (found,) = figures(trials("r", "shop/a", "MMDIFN"), [1, 2, 7]).contracts
    assert (found.counted.scheduled, found.counted.passed) == (6, 2)
    assert found.counted.without_verdict == 2
    assert found.at == {1: Fraction(1, 3), 2: Fraction(3, 5), 7: None}
    assert found.all == {1: Fraction(1, 3), 2: Fraction(1, 15), 7: None}
    assert found.agent == "careful"


def test_versions_digests_kernels_and_agents_are_never_pooled() -> None:
    every = [
        *trials("r1", "shop/a", "M"), *trials("r2", "shop/a", "M", version="1.1.0"),
        *trials("r3", "shop/a", "M", kernel="5"), *trials("r4", "shop/a", "M", agent="bold"),
        *trials("r5", "shop/a", "M", digest="e"), *trials("r6", "shop/a", "D"),
    ]  # fmt: skip
    found = figures(every, [1])
    assert sorted(each.counted.scheduled for each in found.contracts) == [1, 1, 1, 1, 2]
    for rows in (found.domains, found.pooled):
        assert sorted(each.counted.scheduled for each in rows) == [1, 1, 1, 1, 2]
    assert found.counted.scheduled == 6


def test_a_domain_is_the_mean_over_its_contracts_and_not_over_their_trials() -> None:
    found = figures([*trials("r", "shop/a", "M"), *trials("r", "shop/b", "DDDD")], [1])
    assert domain(found, "shop").at == {1: Fraction(1, 2)}


def test_a_rerun_is_one_pass_over_all_contracts_of_one_run() -> None:
    every = [
        *trials("r1", "shop/a", "MM"), *trials("r1", "shop/b", "MD"),
        *trials("r1", "repo/c", "DD"),
        *trials("r2", "shop/a", "FD"), *trials("r2", "shop/b", "DD"),
        *trials("r2", "repo/c", "MM"),
    ]  # fmt: skip
    found = figures(every, [1])
    shop = domain(found, "shop").reruns
    assert (shop.number, shop.lowest, shop.highest) == (4, 0, 1)
    assert shop.mean == Fraction(3, 8)
    assert shop.deviation == pytest.approx(0.4787, abs=1e-4)
    (everything,) = found.pooled
    assert everything.reruns.mean == Fraction(5, 12)
    assert len(everything.contracts) == 3


def test_a_run_of_other_contracts_is_no_rerun_of_the_first() -> None:
    found = figures([*trials("r1", "shop/a", "M"), *trials("r2", "shop/b", "D")], [1])
    assert [each.reruns.number for each in found.domains] == [1] * 2


def test_an_incomplete_pass_is_no_rerun() -> None:
    found = figures([*trials("r", "shop/a", "MM"), *trials("r", "shop/b", "M")], [1])
    assert domain(found, "shop").reruns.number == 1
