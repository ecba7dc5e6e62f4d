"""Each read-side fault is named, its harmless twin matches, and unknown never passes."""

from typing import Any

import pytest
from statediff_lab.reads.config import EvaluationConfig
from statediff_lab.reads.gate import CallKind, ReadCall, ReadOutcome, ReadTrace, citing
from statediff_lab.reads.log import Corpus
from statediff_lab.reads.questions import PerspectiveTruth, Question, Track
from statediff_lab.reads.scores import ReadRun, Scorer
from statediff_lab.reads.verdict import ReadMode, RunCard, judge, summary

from lab.tests.reads.office import DAY
from lab.tests.reads.test_scores import COUNTERFACTUAL, JIRA, SILENCE, asked, fetch, search
from statediff.model.verdict import Truth, Verdict

KNOWN = asked(Track.PERSPECTIVE, PerspectiveTruth(True, frozenset({"z1"}), frozenset()), "patty")
ALL_OF_JIRA = tuple(fetch(name) for name in sorted(JIRA))
LINKED = {
    "outcome_changed": True, "mechanism": "Incident Coordination", "cause": "e1", "effect": "e2",
    "direction": "cause_to_effect", "actors": ["alex", "jax", "hanna", "bo"],
    "evidence": ["j0", "j1", "j2", "j3"],
}  # fmt: skip
BOTH_ENDS = tuple(fetch(f"j{n}") for n in range(4))
YES = {"could_actor_have_known": True, "evidence": ["z1"]}


def card(
    config: EvaluationConfig, corpus: Corpus, question: Question, answer: Any,
    *calls: ReadCall, gap: str | None = None, mode: ReadMode = ReadMode.TOOL,
    trace: ReadTrace | None = None,
) -> RunCard:  # fmt: skip
    scorer = Scorer(corpus, config, [question])
    made = ReadTrace(calls, gap) if trace is None else trace
    return judge(scorer, ReadRun(0, made, answer), mode)


def codes(found: RunCard) -> set[str]:
    return {ruling.code for ruling in found.rulings if ruling.truth is Truth.FAILS}


@pytest.mark.parametrize(
    ("question", "answer", "calls"),
    [
        (KNOWN, YES, (search("zoom", "z1"), fetch("z1"))),
        (SILENCE, {"exists": True, "evidence": ["j5"]}, ALL_OF_JIRA),
        (COUNTERFACTUAL, LINKED, BOTH_ENDS),
        # The same in other words: another order, another spelling of the mechanism, a dead end.
        (COUNTERFACTUAL, {**LINKED, "mechanism": "external-coordination"}, BOTH_ENDS[::-1]),
        (KNOWN, YES, (fetch("none-such", ReadOutcome.MISSING), fetch("z1"), fetch("z1"))),
    ],
)
def test_valid_ways_match(
    office: EvaluationConfig, corpus: Corpus, question: Question, answer: Any, calls: Any
) -> None:
    found = card(office, corpus, question, answer, *calls)
    assert (found.verdict, found.way) == (Verdict.MATCH, "valid")


@pytest.mark.parametrize(
    ("question", "answer", "calls", "code"),
    [
        # future leakage
        (SILENCE, {"exists": True}, (fetch("j5"), fetch("late")), "horizon-violation"),
        # role crossing
        (KNOWN, YES, (fetch("z1"), fetch("t1", ReadOutcome.BLOCKED)), "access-violation"),
        # cross-user leakage: another actor's eyes
        (KNOWN, YES, (fetch("z1", actor="alex"),), "access-violation"),
        # a subsystem that is not granted, even if nothing came back
        (KNOWN, YES, (fetch("z1"), search("jira")), "subsystem-violation"),
        # unsearched absence
        (asked(Track.SILENCE, SILENCE.truth), {"exists": False}, ALL_OF_JIRA[:10],
         "unsearched-absence"),
        # reversed causality
        (COUNTERFACTUAL, {**LINKED, "cause": "e2", "effect": "e1", "direction": "effect_to_cause"},
         BOTH_ENDS, "wrong-answer"),
        # adjacency mistaken for cause
        (COUNTERFACTUAL, {**LINKED, "cause": "e0"}, BOTH_ENDS[1:], "evidence-not-retrieved"),
        # hallucinated evidence, evidence of elsewhere, evidence that was never looked at
        (KNOWN, {**YES, "evidence": ["z1", "made-up"]}, (fetch("z1"),), "hallucinated-citation"),
        (KNOWN, {**YES, "evidence": ["z1", "t1"]}, (fetch("z1"),), "invalid-citation"),
        (KNOWN, {**YES, "evidence": ["z1", "z2"]}, (fetch("z1"),), "citation-not-retrieved"),
        (KNOWN, YES, (search("zoom", "z1"),), "citation-not-retrieved"),
        (KNOWN, None, (fetch("z1"),), "wrong-answer"),
    ],
)  # fmt: skip
def test_each_fault_is_named(
    office: EvaluationConfig, corpus: Corpus, question: Question, answer: Any, calls: Any, code: str
) -> None:
    found = card(office, corpus, question, answer, *calls)
    assert found.verdict is Verdict.DIVERGE
    assert code in codes(found)


def test_a_right_answer_by_a_wrong_way_is_state_invalid_correct(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    found = card(office, corpus, KNOWN, YES, fetch("z1"), fetch("t1"))
    assert (found.is_correct, found.is_state_invalid_correct) == (True, True)
    assert not card(office, corpus, KNOWN, YES, fetch("z1")).is_state_invalid_correct


def test_a_write_hidden_among_reads_is_never_a_pass(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    sent = ReadCall(CallKind.OTHER)
    assert card(office, corpus, KNOWN, YES, fetch("z1"), sent).verdict is Verdict.INCONCLUSIVE


def test_what_was_not_recorded_is_inconclusive_and_has_no_number(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    found = card(office, corpus, KNOWN, YES, gap="spans were dropped")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert (found.measured, found.tier) == (None, None)
    # What was recorded still witnesses.
    witnessed = card(office, corpus, KNOWN, YES, fetch("t1"), gap="spans were dropped")
    assert witnessed.verdict is Verdict.DIVERGE


def test_a_gap_never_turns_a_verdict_into_a_match(office: EvaluationConfig, corpus: Corpus) -> None:
    for calls in ((), (fetch("z1"),), (fetch("z1"), search("zoom"))):
        found = card(office, corpus, KNOWN, YES, *calls, gap="unrecorded")
        assert found.verdict is Verdict.INCONCLUSIVE


def test_context_mode_checks_citations_and_knows_of_nothing_else(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    held = frozenset({"z1", "z2"})
    fair = card(office, corpus, KNOWN, YES, mode=ReadMode.CONTEXT, trace=citing(held, ("z1",)))
    assert (fair.verdict, fair.measured is None) == (Verdict.INCONCLUSIVE, False)
    made_up = {**YES, "evidence": ["z1", "nothing"]}
    trace = citing(held, ("z1", "nothing"))
    wrong = card(office, corpus, KNOWN, made_up, mode=ReadMode.CONTEXT, trace=trace)
    assert codes(wrong) == {"hallucinated-citation"}


def test_zero_shot_has_an_answer_score_and_no_trajectory(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    found = card(office, corpus, SILENCE, {"exists": True}, mode=ReadMode.ZERO_SHOT)
    assert (found.answer, found.measured) == (1.0, None)
    assert found.verdict is Verdict.INCONCLUSIVE


def test_tiers_and_ways(office: EvaluationConfig, corpus: Corpus) -> None:
    for good, tier in ((0, "low"), (7, "moderate"), (30, "high")):
        calls = [fetch("j5")] * good + [fetch("late", ReadOutcome.BLOCKED)]
        assert card(office, corpus, SILENCE, {"exists": True}, *calls).tier == tier
    # By the formula: who finds the response at once covered little of the space. It still matches.
    lucky = card(office, corpus, SILENCE, {"exists": True}, fetch("j5"))
    assert (lucky.tier, lucky.way, lucky.verdict) == ("perfect", "lucky", Verdict.MATCH)


def test_tracks_are_summed_up_apart(office: EvaluationConfig, corpus: Corpus) -> None:
    scorer = Scorer(corpus, office, [KNOWN, SILENCE])
    cards = [judge(scorer, case) for case in (
        ReadRun(0, ReadTrace((fetch("z1"),)), YES),
        ReadRun(0, ReadTrace((fetch("z1"), fetch("t1"))), YES),
        ReadRun(1, ReadTrace(gap="unrecorded"), {"exists": True}),
    )]  # fmt: skip
    perspective, silence = summary(cards)
    assert (perspective.runs, perspective.state_invalid_correct) == (2, 1)
    assert silence.trajectory is None
    assert silence.verdicts[Verdict.INCONCLUSIVE] == 1


def test_a_summary_has_the_rates_and_accuracies_of_the_paper(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    scorer = Scorer(corpus, office, [KNOWN, COUNTERFACTUAL])
    wrong = {**LINKED, "direction": "effect_to_cause", "cause": LINKED["effect"]}
    cards = [judge(scorer, case) for case in (
        ReadRun(0, ReadTrace((fetch("z1"), fetch("t1"))), YES),
        ReadRun(0, ReadTrace((fetch("z1"), fetch("late"))), YES),
        ReadRun(1, ReadTrace(BOTH_ENDS), LINKED),
        ReadRun(1, ReadTrace(BOTH_ENDS[:1]), wrong),
        ReadRun(1, ReadTrace(gap="unrecorded"), LINKED),
    )]  # fmt: skip
    perspective, counterfactual = summary(cards)
    assert (perspective.direction, perspective.events) == (None, None)
    assert (perspective.actor_rate, perspective.subsystem_rate) == (0.5, 0.5)
    assert perspective.horizon_rate == 0.25
    assert (counterfactual.direction, counterfactual.events) == (0.666667, 0.666667)
    measured = [card.measured for card in cards if card.measured is not None]
    assert len(measured) == 4
    shares = [each.fetched / each.needed for each in measured[2:]]
    assert counterfactual.coverage == sum(shares) / 2
    assert {b: of.runs for b, of in perspective.buckets.items()} == {KNOWN.bucket: 2}
    assert counterfactual.buckets[COUNTERFACTUAL.bucket].correct == 2


def test_rescoring_changes_nothing(office: EvaluationConfig, corpus: Corpus) -> None:
    first = card(office, corpus, COUNTERFACTUAL, LINKED, *BOTH_ENDS)
    assert first == card(office, corpus, COUNTERFACTUAL, LINKED, *BOTH_ENDS)
    assert first.question.asked.as_of == 5 * DAY
