"""Agreement: what is counted where, and intervals that depend on nothing but their seed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from statediff_lab.importers.agreement import RunTally, compat_summary, report
from statediff_lab.importers.pack import Reviewed
from statediff_lab.importers.recorded import BadLine, Half, Labels, TaskId
from statediff_lab.importers.rejudge import RejudgedRun, Wanted, Why, rejudge, reviewed_reasons
from statediff_lab.importers.taxonomy import Cause
from statediff_lab.importers.workers import CaseFolder, Workers
from statediff_lab.reports.agreement import mix_lines

from statediff.model.verdict import Verdict

MATCH, DIVERGE, INCONCLUSIVE = Verdict.MATCH, Verdict.DIVERGE, Verdict.INCONCLUSIVE


def run(number, verdict, task="t1", half=Half.DEVELOPED, why=(), reviewed=(), **labels):
    at = TaskId("shop", task)
    return RejudgedRun(
        f"r{number}", at, "a", half, Labels(**labels), verdict=verdict, why=why, reviewed=reviewed
    )


def reported(*runs, seed=0):
    tally = RunTally()
    for each in runs:
        tally.add(each)
    return report("x", "closed", tally, seed)


def test_every_run_is_counted_once_on_the_side_it_belongs_to():
    [domain] = reported(
        run(1, MATCH, official=True),
        run(2, MATCH, official=False),
        run(3, DIVERGE, official=True),
        run(4, DIVERGE, official=False),
        run(5, INCONCLUSIVE, official=True),
        run(6, MATCH),
        run(7, None, official=True),
    ).domains
    found = domain.official
    assert (found.runs, found.agree, found.inconclusive) == (5, 2, 1)
    assert (found.false_pass, found.false_fail) == (1, 1)
    assert found.agree + found.false_pass + found.false_fail + found.inconclusive == found.runs
    assert domain.faults == 1
    assert [d.judged.run_id for d in domain.disagreements] == ["r2", "r3"]


def test_every_disagreement_has_labels_and_unexplained_is_said():
    frame = Why("frame", "unexplained-change", "frame", "…")
    required = Why("paid", "missing-change", "require", "…")
    unsure = Why("said", "claim-unknown", "answer", "…", is_sure=False)
    [domain] = reported(
        replace(run(1, DIVERGE, official=True), why=(required, frame, unsure)),
        replace(run(2, MATCH, official=False), causes=(Cause.SUBSTRING,)),
        run(3, MATCH, official=False),
        run(4, DIVERGE, corrected={"a": True}),
        replace(run(5, DIVERGE, corrected={"a": True}), reviewed=("the label is wrong",)),
    ).domains
    assert {d.judged.run_id: d.labels for d in domain.disagreements} == {
        "r1": (Cause.MISALIGNMENT, Cause.INCOMPLETE),
        "r2": (Cause.SUBSTRING,),
        "r3": (Cause.UNEXPLAINED,),
        "r4": (Cause.OWN_ERROR,),
        "r5": (Cause.ANNOTATION,),
    }


def test_the_mix_of_failures_counts_a_run_under_each_rule_that_failed_it():
    frame = Why("frame", "unexplained-change", "frame", "…")
    again = replace(frame, on=("issue",))
    required = Why("paid", "missing-change", "require", "…")
    unsure = Why("said", "claim-unknown", "answer", "…", is_sure=False)
    [domain] = reported(
        replace(run(1, DIVERGE, official=False, failed=("DB", "ACTION")), why=(required, frame)),
        replace(run(2, DIVERGE, official=False, failed=("DB",)), why=(frame, again, unsure)),
        run(3, MATCH, official=False),
        run(4, MATCH, official=True),
        replace(run(5, INCONCLUSIVE, official=True), why=(unsure,)),
        run(6, DIVERGE, official=False, failed=("DB",), uses_language=True),
    ).domains
    mix = domain.mix
    assert (mix.passed, mix.failed, mix.unnamed) == (2, 3, 1)
    assert list(mix.kinds.items()) == [("DB", 2), ("ACTION", 1)]
    assert list(mix.ours.items()) == [("unexplained-change", 2), ("missing-change", 1)]
    lines = [line.strip() for line in mix_lines(domain)]
    assert lines == [
        "fails officially 3 of 5: DB 2 (67%), ACTION 1 (33%), no rule named 1 (33%)",
        "DIVERGE 2 of 5: unexplained-change 2 (100%), missing-change 1 (50%)",
    ]
    [passing] = reported(run(1, MATCH, official=True)).domains
    assert list(mix_lines(passing)) == []


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("agent-diff", {"no match"}),
        ("tau2", {"COMMUNICATE", "DB"}),
        (
            "bfcl",
            {
                "empty_turn_model_response",
                "execution_response_mismatch",
                "instance_state_mismatch",
            },
        ),
    ],
)
def test_a_published_failure_is_named_by_the_rules_of_its_benchmark(samples, name, kinds):
    with Workers(CaseFolder(name, samples / name), 1) as workers:
        found = [outcome.labels for outcome in rejudge(workers, Wanted())]
    assert {kind for labels in found for kind in labels.failed} == kinds
    assert not any(labels.failed for labels in found if labels.official is not False)


def test_corrections_that_agree_are_the_corrected_verdict_and_those_that_differ_are_disputed():
    [domain] = reported(
        run(1, MATCH, corrected={"a": True, "b": True}),
        run(2, MATCH, corrected={"a": False}),
        run(3, INCONCLUSIVE, corrected={"a": True, "b": False}),
        run(4, MATCH, corrected={"a": True, "b": False}),
    ).domains
    assert (domain.corrected.runs, domain.corrected.agree, domain.corrected.false_pass) == (2, 1, 1)
    assert (domain.disputed.runs, domain.disputed.agree, domain.disputed.false_pass) == (2, 1, 1)


def test_runs_that_hang_on_language_are_in_no_agreement():
    [domain] = reported(
        run(1, MATCH, official=False, corrected={"a": False}, uses_language=True),
        run(2, MATCH, official=True),
    ).domains
    assert (domain.official.runs, domain.corrected.runs) == (1, 0)
    assert domain.language[MATCH] == 1
    assert domain.disagreements == ()


def test_what_the_official_evaluator_did_not_see_is_grouped_and_says_what_was_reviewed():
    frame = Why("frame", "unexplained-change", "frame", "x 1 created", ("x",), ("x[1]",))
    [domain] = reported(
        run(1, DIVERGE, official=True, why=(frame, frame), reviewed=("because",)),
        run(2, DIVERGE, "t2", official=True, why=(frame,)),
        run(3, DIVERGE, official=False, why=(frame,)),
    ).domains
    [unseen] = domain.unseen
    assert (unseen.clause, unseen.on, unseen.runs) == ("frame", "x", 2)
    assert (unseen.tasks, unseen.reviewed) == (2, 1)
    assert [j.run_id for j in domain.unreviewed] == ["r2"]


def test_an_interval_is_over_tasks_reproducible_and_holds_the_share():
    runs = [run(i, MATCH, f"t{i % 7}", official=i % 7 < i // 10) for i in range(70)]
    first, again, other = (reported(*runs, seed=s).domains[0].official for s in (1, 1, 2))
    assert first.interval == again.interval
    assert first.interval != other.interval
    assert first.interval.low <= first.share <= first.interval.high


def test_one_task_alone_has_no_interval_and_no_run_no_share():
    [domain] = reported(run(1, MATCH, official=True), run(2, DIVERGE, official=True)).domains
    assert domain.official.interval is None
    assert domain.corrected.share is None


def test_halves_are_told_where_there_are_two():
    both = reported(run(1, MATCH), run(2, MATCH, half=Half.HELD_OUT)).halves
    assert [(h.half, h.runs) for h in both] == [(Half.DEVELOPED, 1), (Half.HELD_OUT, 1)]
    assert reported(run(1, MATCH)).halves == ()


def test_compatible_mode_sums_up_in_four_numbers_and_hides_nothing():
    tally = RunTally()
    for each in (
        run(1, MATCH, compat=True),
        run(2, MATCH, compat=False),
        run(3, DIVERGE, compat=True),
    ):
        tally.add(each)
    four = {"runs": 3, "agree": 1, "false_pass": 1, "false_fail": 1}
    assert compat_summary(tally) == four
    tally.add(BadLine("f", 4, "not JSON"))
    tally.add(run(5, None, compat=True))
    tally.add(run(6, MATCH))
    assert compat_summary(tally) == {
        **four, "runs": 5, "unlabelled": 1, "faults": 1, "bad_lines": 1,
    }  # fmt: skip


def why(clause, *on):
    return Why(clause, "code", "frame", "sentence", on)


@pytest.mark.parametrize(
    ("notes", "found", "covered"),
    [
        ([("frame", "a", "")], [why("frame", "x")], True),
        ([("frame", "a", "x")], [why("frame", "x.f")], True),
        ([("frame", "a", "x.f")], [why("frame", "x.f")], True),
        ([("frame", "a", "x.f")], [why("frame", "x.g")], False),
        ([("frame", "a", "x")], [why("frame", "xy")], False),
        ([("frame", "a", "x")], [why("frame", "x", "y")], False),
        ([("frame", "a", "x")], [why("frame", "x"), why("other")], False),
        ([("frame", "a", "x"), ("other", "b", "")], [why("frame", "x"), why("other")], True),
        ([("frame", "a", "x")], [why("frame")], False),
    ],
)
def test_a_reason_covers_what_it_is_about_and_nothing_beside_it(notes, found, covered):
    assert bool(reviewed_reasons([Reviewed(*note) for note in notes], found)) is covered
