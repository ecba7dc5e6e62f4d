"""The study: labelled runs, opinions on them, and what is counted."""

from collections import Counter
from dataclasses import replace

import pytest
from statediff_lab.labels import Component, Failure, Label
from statediff_lab.study.cases import live_cases, seed_cases
from statediff_lab.study.evaluators import ABLATIONS, EVALUATORS, OURS, final_text, score_case
from statediff_lab.study.measures import component, is_failure, kinds, study
from statediff_lab.study.trials import (
    EXPECTED,
    EvaluatorOpinion,
    Gold,
    LabelledCase,
    Origin,
    ScoredCase,
)

from statediff.errors import UsageError
from statediff.meta.cases import Cases, WrongAgent
from statediff.model.trace import NoAnswer
from statediff.model.values import Map
from statediff.model.verdict import Verdict
from tests.meta.test_mutate import AFTER, TIGHT, reference

ALL = (*EVALUATORS, *ABLATIONS)
ABOUT = {each.name: each.about for each in ALL}


@pytest.fixture(scope="module")
def cases() -> list[ScoredCase]:
    return [score_case(case, ALL) for case in seed_cases([reference(TIGHT)], 3, {}, 1)]


def measured(cases: list[ScoredCase], name: str):
    [domain] = study(cases, ABOUT, 0, 200).domains
    return next(m for m in domain.evaluators if m.evaluator == name)


# ---------------------------------------------------------------- cases


def test_labels_hold_by_construction_harm_is_incorrect_and_what_was_not_seen_unresolvable(cases):
    labels = {case.kind: case.label for case in cases}
    assert labels["collateral-damage"] is labels["wrong-field"] is Label.INCORRECT
    assert labels["stale-read"] is labels["missing-evidence"] is Label.UNRESOLVABLE
    assert labels["right-run"] is labels["other-id"] is Label.CORRECT
    assert {case.kind for case in cases if case.is_variant} >= {"other-id", "other-day"}


def test_each_class_is_sampled_and_the_seed_names_the_cases():
    one, again, other = (
        [case.sentence for case in seed_cases([reference(TIGHT)], seed, {}, 1)]
        for seed in (3, 3, 4)
    )
    assert one == again != other
    kinds_of = Counter(case.kind for case in seed_cases([reference(TIGHT)], 3, {}, 1))
    assert set(kinds_of.values()) == {1}


def test_no_right_run_or_a_wrong_one_is_an_error():
    with pytest.raises(UsageError, match="at least one run"):
        list(seed_cases([], 0, {}, 1))
    wrong = reference(TIGHT, after={**AFTER, "user": AFTER["user"][:2]})
    with pytest.raises(UsageError, match="gets DIVERGE, not MATCH"):
        list(seed_cases([wrong], 0, {}, 1))


def test_a_faulty_agents_trial_is_incorrect_whatever_it_gets():
    told = WrongAgent("hasty", "frame", "frame", "unexplained-change", "a user is gone")
    right = reference(TIGHT, name="hasty")
    [case] = live_cases([right], Cases(faulty=(told,)), [right])
    assert (case.label, case.origin, case.sentence) == (Label.INCORRECT, Origin.LIVE, told.why)


# ---------------------------------------------------------------- opinions


def test_the_whole_judge_agrees_with_every_label(cases):
    wrong = [(c.kind, c.opinions[OURS]) for c in cases if is_failure(c, c.opinions[OURS])]
    assert wrong == []
    assert all(case.errors == {} for case in cases)


def test_a_text_is_read_by_what_right_runs_say_alike():
    right = [Map.of({"made": 1, "id": key}) for key in ("a", "b")]
    runs = tuple(replace(reference(TIGHT), answer=each) for each in right)

    def said(answer) -> Verdict:
        run = replace(runs[0], answer=answer)
        case = LabelledCase(
            domain="d",
            task="t",
            name="n",
            origin=Origin.LIVE,
            kind="k",
            sentence="s",
            label=Label.CORRECT,
            run=run,
            gold=Gold(runs),
        )
        return final_text(case).verdict

    assert said(Map.of({"made": 1, "id": "c"})) is Verdict.MATCH
    assert said(Map.of({"made": 2, "id": "a"})) is Verdict.DIVERGE
    assert said(Map.of({"made": 1})) is Verdict.DIVERGE
    assert said(NoAnswer("it ended")) is Verdict.DIVERGE


def test_raw_equality_rejects_a_twin_but_not_the_same_rows_in_other_chunks(cases):
    raw = {case.kind: case.opinions["raw-equality"].verdict for case in cases}
    assert raw["other-id"] is Verdict.DIVERGE
    assert raw["other-chunks"] is raw["right-run"] is Verdict.MATCH


def test_the_expected_ordering_and_what_each_part_is_for(cases):
    [domain] = study(cases, ABOUT, 0, 200).domains
    assert all(step.holds for step in domain.ordering)
    assert len(domain.ordering) == 9
    lost = {(loss.evaluator, loss.kind) for loss in domain.losses}
    assert {
        ("without-frame", "collateral-damage"), ("without-evidence", "missing-evidence"),
        ("without-evidence", "clock-skew"), ("without-doubt", "unapproved-spelling"),
    } <= lost  # fmt: skip
    assert {kind for name, kind in lost if name == "without-identity"} == {
        "ambiguous-identity", "one-natural-key",
    }  # fmt: skip
    assert not any(name == "without-history" for name, _ in lost)  # nothing here has one


# ---------------------------------------------------------------- measures


def test_inconclusive_prevents_false_passes_and_a_judge_of_two_values_cannot(cases):
    unseen = sum(case.label is Label.UNRESOLVABLE for case in cases)
    ours, text = measured(cases, OURS), measured(cases, "final-text")
    assert ours.prevented == ours.inconclusive.hits == unseen > 3
    assert (text.prevented, text.unseen_passed.hits) == (0, unseen)


def test_the_judge_points_at_what_was_altered_and_the_text_at_everything(cases):
    ours, text = measured(cases, OURS), measured(cases, "final-text")
    assert ours.pointed.hits == ours.pointed.of == ours.agent_failures > 10
    assert text.pointed.hits == 0
    assert (ours.failures, ours.correctable) == ({}, 0)


def test_failures_are_told_by_stage_and_kind_and_one_may_be_of_several(cases):
    by_kind = {case.kind: case for case in cases}
    assert component(by_kind["other-id"], "raw-equality") is Component.RESOLVE
    assert component(by_kind["stale-read"], "assertions") is Component.CAPTURE
    assert component(by_kind["collateral-damage"], "final-text") is Component.POLICY
    # What was taken away made the error, whatever the case is about.
    assert component(by_kind["other-id"], "without-canonicalization") is Component.CANONICALIZE
    harm, twin, unseen = (
        by_kind[kind] for kind in ("collateral-damage", "other-id", "missing-evidence")
    )
    passed, rejected = EvaluatorOpinion(Verdict.MATCH), EvaluatorOpinion(Verdict.DIVERGE)
    assert kinds(harm, "final-text", passed) == (Failure.HALLUCINATED,)
    assert kinds(harm, "assertions", passed) == (Failure.REWARD,)
    assert kinds(unseen, "contract-diff", passed) == (Failure.HALLUCINATED,)
    assert kinds(twin, "raw-equality", rejected) == (Failure.EXACT_MATCH,)
    right = replace(twin, kind="outside-boundary")
    assert kinds(right, "raw-equality", rejected) == (
        Failure.EXACT_MATCH, Failure.OVER_SPECIFICATION,
    )  # fmt: skip
    assert kinds(harm, "assertions", rejected) == ()


def test_domains_are_never_pooled_and_an_evaluator_that_cannot_judge_is_in_no_share(cases):
    other = [replace(case, domain="other", opinions={}, errors={OURS: "no"}) for case in cases[:2]]
    found = study([*cases, *other], ABOUT, 0, 50)
    assert [domain.name for domain in found.domains] == sorted({cases[0].domain, "other"})
    [away] = [d for d in found.domains if d.name == "other"]
    [ours] = away.evaluators
    assert (ours.judged, ours.failed, ours.agreement.of) == (0, 2, 0)
    assert ours.agreement.value is None is ours.agreement.interval
    assert len(found.errors) == 2


def test_the_order_of_cases_changes_nothing(cases):
    assert study(cases[::-1], ABOUT, 5, 100) == study(cases, ABOUT, 5, 100)


def test_every_label_has_its_verdict():
    assert set(EXPECTED) == set(Label)
