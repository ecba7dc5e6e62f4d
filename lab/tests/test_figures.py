"""The figures of trials beside verdicts: exact means, C, levels, turns, and labels by agent."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statediff_lab.comparison import side_figures
from statediff_lab.labels import Label
from statediff_lab.opinions import ReviewedTrial, ReviewerOpinions, labeled

from statediff.suite.measures import CallCounts, Components, Levels, Measures, together
from statediff.suite.overview import JudgedContract, groups
from statediff.suite.records import Ended, Run, Trial, judged_trial, levels
from statediff.suite.store import open_store
from tests.suite.folders import Folders, remade
from tests.suite.test_overview import figures, trials

HALF, THIRD = 500_000_000, 333_333_333


def measured(every: Sequence[Trial]) -> Measures:
    return together(each.measures for each in figures(every, [1]).contracts)


def test_means_are_over_the_trials_in_which_a_figure_is_defined() -> None:
    one, two, three, four = trials("r", "shop/a", "MDMF")
    found = measured([
        replace(one, precision_nano=10**9, recall_nano=HALF, forbidden_nano=0),
        replace(two, precision_nano=None, recall_nano=0, forbidden_nano=THIRD),
        replace(three, precision_nano=0, recall_nano=0, forbidden_nano=0),
        four,
    ])  # fmt: skip
    assert (found.precision.value, found.precision.number) == (Fraction(1, 2), 2)
    assert (found.recall.value, found.recall.number) == (Fraction(1, 6), 3)
    assert (found.f1.value, found.f1.number) == (Fraction(666_666_666, 2 * 10**9), 2)
    assert found.forbidden.value == Fraction(THIRD, 3 * 10**9)
    assert measured([four]).recall.value is None


def test_the_three_results_are_counted_together_and_the_levels_beside_them() -> None:
    one, two, three, four = trials("r", "shop/a", "MDDN")
    found = measured([
        replace(one, tool="MATCH", outcome="MATCH", along="HOLDS", whole="HOLDS"),
        replace(two, tool="MATCH", outcome="DIVERGE", along="HOLDS", whole="FAILS"),
        replace(three, task="DIVERGE", along="FAILS", whole="HOLDS"),
        four,
    ])  # fmt: skip
    assert found.components == {
        Components("MATCH", None, "MATCH"): 1,
        Components("MATCH", None, "DIVERGE"): 1,
        Components(None, "DIVERGE", None): 1,
    }
    assert (found.result("tool"), found.result("task")) == ({"MATCH": 2}, {"DIVERGE": 1})
    assert (found.leveled, found.only_along, found.only_whole) == (3, 1, 1)
    assert found.levels[Levels("HOLDS", "HOLDS")] == 1


def test_calls_are_counted_one_by_one_and_beside_how_the_trial_ended() -> None:
    one, two, three, four = trials("r", "shop/a", "MDDM")
    found = measured([
        replace(one, outcome="MATCH", calls=3, calls_wrong=1),
        replace(two, outcome="DIVERGE", calls=2),
        replace(three, outcome="DIVERGE", calls=2, calls_unknown=1),
        replace(four, outcome="MATCH"),
    ])  # fmt: skip
    assert found.calls == CallCounts(7, 1, 1, only_calls=1, only_end=1)


@given(st.lists(st.tuples(st.sampled_from(("steps", "actions", "frame", "require", "answer")),
                          st.sampled_from(("HOLDS", "UNKNOWN", "FAILS")))))  # fmt: skip
def test_a_level_is_its_worst_clause_and_the_answer_is_of_none(
    clauses: list[tuple[str, str]],
) -> None:
    found = levels({"stage": stage, "truth": truth} for stage, truth in clauses)
    for level, own in zip(found, (("steps", "actions"), ("frame", "require")), strict=True):
        truths = [truth for stage, truth in clauses if stage in own]
        worst = next((t for t in ("FAILS", "UNKNOWN", "HOLDS") if t in truths), None)
        assert level == worst


def test_sides_and_domains_stay_apart() -> None:
    every = [
        replace(trial, recall_nano=share, turns=2, turns_first=1, turns_after=2)
        for contract, share in (("shop/a", 10**9), ("desk/b", 0))
        for trial in trials("r", contract, "M")
    ]
    found = figures(every, [1])
    assert [(d.domain, d.measures.recall.value) for d in found.domains] == [
        ("desk", 0),
        ("shop", 1),
    ]
    (pooled,) = found.pooled
    assert (pooled.measures.recall.value, pooled.measures.turns.after) == (Fraction(1, 2), 4)
    with open_store("sqlite://") as store:
        store.put_run(Run("r", "file://h/r", name="r", statediff="0", kernel="4", facts="{}",
                          contracts=(), times=0, agents=()))  # fmt: skip
        store.put_trials(every)
        sides = side_figures(groups(store))
    assert {name: side.measures.recall.value for name, side in sides.items()} == {
        "desk": 0, "shop": 1,
    }  # fmt: skip


def reviewed(ended: str, label: Label | None, agent: str = "careful") -> ReviewedTrial:
    return ReviewedTrial(
        run="r", trial="t", number=1, judged=JudgedContract("shop/a", "1.0.0", "d", "4"),
        agent=agent, ended=Ended(ended), label=label, flags=(),
    )  # fmt: skip


def test_labels_stand_beside_the_agent_they_are_of_and_are_never_made_up() -> None:
    found = figures(
        [*trials("r", "shop/a", "MMDIF"), *trials("q", "shop/a", "M", agent="bold")], [1]
    )
    said = ReviewerOpinions(
        (
            reviewed("MATCH", Label.CORRECT), reviewed("MATCH", Label.INCORRECT),
            reviewed("DIVERGE", Label.CORRECT), reviewed("INCONCLUSIVE", Label.CORRECT),
            reviewed("DIVERGE", Label.UNRESOLVABLE), reviewed("MATCH", None),
            reviewed("MATCH", Label.CORRECT, agent="somebody else"),
        ),
        0,
    )  # fmt: skip
    bold, careful = sorted(labeled(found, said), key=lambda row: row.figures.agent)
    assert (bold.gates, bold.agreement) == (1, None)
    agreement = careful.agreement
    assert agreement is not None
    assert (careful.gates, careful.correct, agreement.trials) == (4, 3, 5)
    assert (agreement.decided, agreement.agree) == (3, 1)
    assert (agreement.false_acceptances, agreement.false_rejections) == (1, 1)
    assert [row.agreement for row in labeled(found, ReviewerOpinions((), 0))] == [None, None]


@pytest.mark.parametrize("share", ["-1/2", "1/0", "5" * 60 + "/1", "x/2", 3])
def test_a_bundle_with_no_share_is_damaged_and_stops_nothing_else(
    folders: Folders, share: object
) -> None:

    bundle = remade(folders.bundle("notes/close", "MATCH"), precision=share)
    assert judged_trial(Trial("r", "t", Ended.NOT_RUN), bundle, "").ended is Ended.DAMAGED
