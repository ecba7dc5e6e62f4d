"""The formulas of [GE] and what the code released with it gets wrong."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statediff_lab.reads.config import EvaluationConfig, parse_config
from statediff_lab.reads.gate import CallKind, ReadCall, ReadOutcome, ReadTrace
from statediff_lab.reads.log import Corpus, corpus_of
from statediff_lab.reads.questions import (
    Asked,
    Bucket,
    CounterfactualTruth,
    PerspectiveTruth,
    Question,
    SilenceTruth,
    Track,
    Truth,
)
from statediff_lab.reads.scores import ReadRun, Scorer

from lab.tests.reads.office import CONFIG, DAY, artifact

JIRA = frozenset(f"j{n}" for n in range(11))


def asked(track: Track, truth: Truth, actor: str = "alex", as_of: int = 5 * DAY) -> Question:
    it = Asked(track.value, track, actor, as_of, "?")
    return Question(it, truth, Bucket.LINKED, "easy", "spec", "event", "type")


PERSPECTIVE = asked(
    Track.PERSPECTIVE,
    PerspectiveTruth(False, frozenset(), frozenset({"zoom_transcript"})),
    "patty",
)
COUNTERFACTUAL = asked(
    Track.COUNTERFACTUAL,
    CounterfactualTruth(
        True, frozenset({"incident_coordination", "external_coordination"}), "e1", "e2",
        frozenset({"j0", "j1"}), frozenset({"j1", "j2", "j3"}),
        frozenset({"alex", "jax", "hanna", "bo"}),
    ),
)  # fmt: skip
SILENCE = asked(Track.SILENCE, SilenceTruth(True, JIRA, frozenset({"j5"})))


def fetch(name: str, outcome: ReadOutcome = ReadOutcome.DELIVERED, **more: Any) -> ReadCall:
    return ReadCall(CallKind.FETCH, outcome, artifact=name, **more)


def search(subsystem: str | None = None, *found: str, **more: Any) -> ReadCall:
    return ReadCall(CallKind.SEARCH, subsystem=subsystem, found=found, **more)


def score(
    config: EvaluationConfig, corpus: Corpus, question: Question, answer: Any, *calls: ReadCall
) -> dict[str, Any]:
    scores = Scorer(corpus, config, [question]).score(ReadRun(0, ReadTrace(calls), answer))
    return dataclasses.asdict(scores)


def test_silence_with_one_of_eleven_artifacts_covered(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    got = score(office, corpus, SILENCE, {"exists": False}, search("jira", "j0"), fetch("j0"))
    assert (got["answer"], round(got["trajectory"], 3), round(got["adjusted"], 3)) == (
        0, 0.273, 0.191,
    )  # fmt: skip


def test_counterfactual_that_follows_the_topic_instead_of_the_join(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    answer = {
        "outcome_changed": False, "mechanism": "none", "evidence": ["j1", "j2"],
        "actors": ["alex", "jax", "hanna"], "direction": "none",
    }  # fmt: skip
    got = score(office, corpus, COUNTERFACTUAL, answer, search("jira", "j1"), fetch("j1"))
    assert (got["answer"], got["trajectory"]) == (0.0625, pytest.approx(0.6375))
    assert round(got["combined"], 3) == 0.350


def test_perspective_that_takes_attendance_for_permission(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    calls = [search("zoom", "z1"), fetch("z1"), fetch("z2"), fetch("z3")]
    blocked = [fetch(f"t{n}", ReadOutcome.BLOCKED) for n in range(7)]
    answer = {"could_actor_have_known": True, "evidence": ["t1"]}
    got = score(office, corpus, PERSPECTIVE, answer, *calls, *blocked)
    assert (got["answer"], round(got["trajectory"], 3), round(got["combined"], 3)) == (
        0, 0.384, 0.230,
    )  # fmt: skip
    assert (got["actor_violations"], got["violating"], got["calls"]) == (7, 7, 11)
    # The paper's example applies no compliance factor although v is 7 of 11; the formula does.
    assert got["adjusted"] == pytest.approx(got["combined"] * (4 / 11) ** 2, abs=1e-6)


@pytest.mark.parametrize(("bad", "factor"), [(0, 1), (1, 0.5625), (2, 0.25), (3, 0.0625)])
def test_the_compliance_factor_at_the_papers_rates(
    office: EvaluationConfig, corpus: Corpus, bad: int, factor: float
) -> None:
    calls = [fetch("j1") if n >= bad else fetch("late", ReadOutcome.BLOCKED) for n in range(4)]
    got = score(office, corpus, SILENCE, {"exists": True}, *calls)
    assert got["adjusted"] == pytest.approx(got["combined"] * factor, abs=1e-6)


def test_a_call_counts_once_however_many_rules_it_breaks(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    strayed = fetch("late", ReadOutcome.BLOCKED, actor="jax", as_of=99 * DAY)
    got = score(office, corpus, dataclasses.replace(
        PERSPECTIVE, asked=dataclasses.replace(PERSPECTIVE.asked)
    ), {}, strayed)  # fmt: skip
    assert (got["actor_violations"], got["subsystem_violations"], got["horizon_violations"]) == (
        1, 1, 1,
    )  # fmt: skip
    assert got["violating"] == 1


def test_attempted_blocked_and_leaked_are_three_things(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    got = score(
        office, corpus, PERSPECTIVE, {}, fetch("t1", ReadOutcome.BLOCKED), fetch("t2"), fetch("z1")
    )
    assert (got["violating"], got["leaked"]) == (2, 1)


def test_an_unknown_role_actor_or_subsystem_sees_nothing(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    for actor in ("ghost", "stranger", "eve"):
        question = dataclasses.replace(
            SILENCE, asked=dataclasses.replace(SILENCE.asked, actor=actor)
        )
        got = score(office, corpus, question, {}, fetch("j1"), search("nowhere"))
        assert (got["violating"], got["fetched"]) == (2, 0), actor


def test_backfilled_artifacts_are_not_in_the_past(office: EvaluationConfig, corpus: Corpus) -> None:
    got = score(office, corpus, SILENCE, {}, fetch("backfilled"), fetch("late"), fetch("j1"))
    assert got["horizon_violations"] == 2


def test_a_thousand_citations_are_seen_for_what_they_are(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    cited = [*sorted(corpus.artifacts), *(f"made-up-{n}" for n in range(1000))]
    got = score(office, corpus, SILENCE, {"exists": True, "evidence": cited}, fetch("j5"))
    assert got["cited"] == len(cited)
    assert got["cited_unknown"] == 1000
    assert got["cited_outside"] == 2  # later, or written later
    assert got["cited_unread"] == len(cited) - 1000 - 2 - 1


def test_other_calls_are_counted_and_earn_nothing(office: EvaluationConfig, corpus: Corpus) -> None:
    got = score(office, corpus, SILENCE, {"exists": True}, ReadCall(CallKind.OTHER))
    assert (got["others"], got["calls"], got["trajectory"]) == (1, 0, 0)


calls = st.builds(
    ReadCall,
    st.sampled_from(CallKind),
    outcome=st.sampled_from(ReadOutcome),
    artifact=st.sampled_from([None, "j1", "t1", "z1", "late", "none-such"]),
    subsystem=st.sampled_from([None, "jira", "zoom", "zoom_transcript", "nowhere"]),
    actor=st.sampled_from([None, "alex", "patty", "x"]),
    as_of=st.sampled_from([None, DAY, 99 * DAY]),
    found=st.sampled_from([(), ("j1",)]),
)
answers = st.sampled_from(
    [None, {}, {"exists": True, "evidence": ["j1", "x"]}, {"could_actor_have_known": False},
     {"exists": "yes", "evidence": "j1"}, {"evidence": [None, 3, ["j1"]], "mechanism": 4}]
)  # fmt: skip
CONFIGURED = parse_config(CONFIG, "config.yaml").content
QUESTIONS = [PERSPECTIVE, COUNTERFACTUAL, SILENCE]


SMALL = corpus_of(
    (), [artifact("j1", "jira"), artifact("t1", "zoom_transcript"), artifact("z1", "zoom"),
         artifact("late", "jira", 9 * DAY)],
)  # fmt: skip


@given(st.integers(0, 2), st.lists(calls, max_size=6), answers)
def test_a_score_is_a_share_and_what_broke_a_rule_was_a_call(
    question: int, made: list[ReadCall], answer: Any
) -> None:
    scorer = Scorer(SMALL, CONFIGURED, QUESTIONS)
    found = scorer.score(ReadRun(question, ReadTrace(tuple(made)), answer))
    for share in (found.answer, found.trajectory, found.combined, found.adjusted, found.rate):
        assert 0 <= share <= 1
    broken = (found.actor_violations, found.subsystem_violations, found.horizon_violations)
    assert max(broken) <= found.violating <= min(sum(broken), found.calls)
    assert found.leaked <= found.violating
    assert found.calls + found.others == len(made)
    assert found.cited_unknown + found.cited_outside + found.cited_unread <= found.cited
