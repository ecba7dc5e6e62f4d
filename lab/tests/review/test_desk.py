"""The rights of a reviewer: what to see and sign, and when."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from statediff_lab.labels import Cause, Failure, Label, Labelled, Review, labels_in, sign_label
from statediff_lab.review.pages import PAGE, case_page, desk_page

from lab.tests.review.conftest import ADA, BO, KINDS, NOON, TRUST, Clock, MakeDesk
from statediff.errors import BundleError, UsageError
from statediff.evidence.canonical import write
from statediff.evidence.package import Bundle, load, save
from statediff.reports.wording.worded import worded_judgement
from tests.judging import TIMELINE, item, run, user
from tests.reports.test_html import BUNDLES, Page

WRONG = Review(Label.INCORRECT, 0, blind=False, note="user 2 is gone")
TOLD = (
    "DIVERGE", "MATCH", "INCONCLUSIVE", "fails", "holds", "forbidden", "unexplained",
    "not as required", "insufficient evidence", "cannot be decided", "Something", "explains",
    "irreversible", "✗", "✓ ", "reason",
)  # fmt: skip


def words(page: str) -> str:
    """The evidence, without what the form offers to say of it."""
    sections = Page(page).sections
    return " ".join(text for name, text in sections.items()
                    if name not in ("style", "script", "label"))  # fmt: skip


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_a_blind_page_holds_the_evidence_and_nothing_that_statediff_thinks_of_it(
    make_desk: MakeDesk, number: int
) -> None:
    page = case_page(make_desk(), number, "/x")
    shown = words(page)
    for told in TOLD:
        assert told not in shown, told
    judged = worded_judgement(BUNDLES[KINDS[number]])
    for finding in judged["findings"]:
        if finding["truth"] == "FAILS" and finding["sentence"] not in [
            clause["sentence"] for clause in judged["clauses"]
        ]:
            assert finding["sentence"] not in page
    for clause in judged["clauses"]:
        assert clause["sentence"] in Page(page).sections["clauses"]
    for delta in judged["deltas"]:
        assert f"{delta['type']} {delta['key'][0][1]}" in Page(page).sections["state"]
    assert "Change what the test says." in page
    assert "n 2" in re.sub(r"\s+", " ", Page(page).sections["answer"])
    assert BUNDLES[KINDS[number]].digest not in page


def rejudged(bundle: Bundle) -> Bundle:
    """The bundle with everything that only a judgement says replaced by something else."""
    judged = bundle.document("judgement.json")
    other = {"MATCH": "DIVERGE", "DIVERGE": "MATCH", "INCONCLUSIVE": "MATCH"}[judged["verdict"]]
    flip = {"HOLDS": "FAILS", "FAILS": "HOLDS", "UNKNOWN": "FAILS"}
    changed = {
        **judged, "verdict": other, "findings": [], "explained_by": [],
        "clauses": [{**c, "truth": flip[c["truth"]]} for c in judged["clauses"]],
        "deltas": [{**d, "label": "reversible"} for d in judged["deltas"]],
        "metrics": dict.fromkeys(judged["metrics"], "1/7"),
    }  # fmt: skip
    files = {**bundle.files, "judgement.json": write(changed)}
    return Bundle({**bundle.manifest, "verdict": other}, files)


@pytest.mark.parametrize("kind", BUNDLES)
def test_a_blind_page_is_the_same_bytes_whatever_the_judgement_was(
    make_desk: MakeDesk, kind: str
) -> None:
    bundle = BUNDLES[kind]
    there = make_desk(bundles={kind: bundle})
    other = make_desk(bundles={kind: bundle})
    changed = rejudged(bundle)
    other.cases = (replace(other.cases[0], digest=changed.digest, read=lambda: changed),)
    assert case_page(there, 0, "/x") == case_page(other, 0, "/x")


def test_what_was_hidden_shows_once_the_label_is_signed_and_the_label_stands(
    make_desk: MakeDesk, tmp_path: Path
) -> None:
    desk = make_desk(trust=TRUST)
    desk.look(0)
    desk.sign(0, WRONG)
    page = case_page(desk, 0, "/x")
    assert "DIVERGE" in page
    assert "user 2 deleted" in Page(page).sections["clauses"]
    with pytest.raises(UsageError, match="incorrect blind"):
        desk.sign(0, replace(WRONG, label=Label.CORRECT))
    desk.sign(0, replace(WRONG, cause=Cause.AGENT))
    labels, _ = labels_in(tmp_path / "forbidden", desk.cases[0].digest, TRUST)
    assert [(e.reviewer, e.given.label, e.given.blind, e.given.cause) for e in labels] == [
        ("Ada", Label.INCORRECT, True, Cause.AGENT)
    ]
    assert len(list((tmp_path / "forbidden" / "labels").iterdir())) == 2
    assert "DIVERGE" not in words(case_page(desk, 1, "/x"))  # of the others nothing shows


def test_a_blind_reviewer_says_whose_fault_only_afterwards(make_desk: MakeDesk) -> None:
    desk = make_desk()
    desk.look(0)
    assert 'name="cause"' not in case_page(desk, 0, "/x")
    with pytest.raises(UsageError, match="after the label"):
        desk.sign(0, replace(WRONG, cause=Cause.AGENT))
    desk.sign(0, WRONG)
    assert 'name="cause"' in case_page(desk, 0, "/x")


def test_a_reviewer_who_sees_the_verdict_may_change_their_mind(
    make_desk: MakeDesk, tmp_path: Path
) -> None:
    desk = make_desk(is_blind=False)
    assert "DIVERGE" in case_page(desk, 0, "/x")
    ways = (Failure.OVER_SPECIFICATION, Failure.LOCK_IN)
    deep = replace(WRONG, cause=Cause.CONTRACT, failures=ways)
    with pytest.raises(UsageError, match="in order"):
        desk.sign(0, replace(deep, failures=ways[:1] * 2))
    desk.sign(0, deep)
    desk.sign(0, replace(WRONG, label=Label.CORRECT, cause=None))
    [label], _ = labels_in(tmp_path / "forbidden", desk.cases[0].digest, TRUST)
    assert (label.given.label, label.given.blind) == (Label.CORRECT, False)


def test_nobody_sees_anothers_label_before_their_own_is_signed(make_desk: MakeDesk) -> None:
    first = make_desk(is_blind=False)
    first.sign(0, replace(WRONG, note="what Ada thinks"))
    for is_blind in (True, False):
        second = make_desk(key=BO, trust=TRUST, is_blind=is_blind)
        assert "Ada" not in case_page(second, 0, "/x")
        assert "what Ada thinks" not in case_page(second, 0, "/x")
        assert second.label(0) is None
    second.sign(0, replace(WRONG, label=Label.CORRECT))
    assert "what Ada thinks" in case_page(second, 0, "/x")
    without_trust = make_desk(key=BO, is_blind=False)
    assert "what Ada thinks" not in case_page(without_trust, 0, "/x")


def test_time_runs_for_the_trial_that_was_opened_last_and_adds_up(
    make_desk: MakeDesk, clock: Clock
) -> None:
    desk = make_desk(is_blind=False)
    for number, seconds in ((0, 30), (1, 7), (0, 12)):
        desk.look(number)
        clock.seconds += seconds
    desk_page(desk, "/x")
    clock.seconds += 1000  # reading the list is nobody's review
    desk.look(0)
    clock.seconds += 3
    assert desk.sign(0, WRONG).given.seconds == 45
    desk.look(1)
    assert desk.sign(1, WRONG).given.seconds == 7
    desk.look(0)
    clock.seconds += 5
    assert desk.sign(0, WRONG).given.seconds == 50


def test_a_desk_that_was_left_goes_on_where_it_was(make_desk: MakeDesk) -> None:
    first = make_desk()
    first.sign(1, WRONG)
    again = make_desk()
    assert [each is not None for each in again.labels()] == [False, True, False]
    assert [again.next(n) for n in range(3)] == [2, 2, 0]
    assert again.is_judged(1)
    assert not again.is_judged(0)
    assert "1 of 3 signed" in re.sub(r"<[^>]+>", "", desk_page(again, "/x"))
    for number in (0, 2):
        again.sign(number, WRONG)
    assert again.next(0) is None
    assert "All 3 signed" in desk_page(again, "/x")


def test_a_label_for_another_judgement_or_by_another_key_is_not_ones_own(
    make_desk: MakeDesk, tmp_path: Path
) -> None:
    labels = tmp_path / "forbidden" / "labels"
    make_desk()
    labels.mkdir(parents=True)
    (labels / "a.json").write_bytes(sign_label("0" * 64, WRONG, NOON, ADA))
    (labels / "b.json").write_bytes(sign_label(make_desk().cases[0].digest, WRONG, NOON, BO))
    (labels / "c.json").write_bytes(b"\xff not a label")
    assert make_desk().labels() == (None, None, None)


def test_a_bundle_that_was_changed_meanwhile_is_not_shown(
    make_desk: MakeDesk, tmp_path: Path
) -> None:
    desk = make_desk()
    save(BUNDLES["unmet"], tmp_path / "forbidden" / "bundle")
    assert load(tmp_path / "forbidden" / "bundle").digest == BUNDLES["unmet"].digest
    with pytest.raises(BundleError, match="another than when the review began"):
        desk.look(0)


def test_what_is_missing_stands_beside_the_rule_that_needed_it(make_desk: MakeDesk) -> None:
    page = Page(case_page(make_desk(is_blind=False), 1, "/x"))
    shown = page.sections["missing"]
    judged = worded_judgement(BUNDLES["unknown"])
    unknown = [f for f in judged["findings"] if f["truth"] == "UNKNOWN"]
    assert unknown
    sentences = {c["clause"]: c["sentence"] for c in judged["clauses"]}
    for finding in unknown:
        assert sentences[finding["clause"]] in shown
        for cause in finding["missing"]:
            assert cause in shown


def test_matched_and_unmatched_entities_are_listed(make_desk: MakeDesk) -> None:
    shown = Page(case_page(make_desk(), 0, "/x")).sections["entities"]
    assert "Only before: user 2" in shown
    assert "Only after: item 2" in shown
    assert "item 1" in shown


def many(count: int) -> Bundle:
    """A trial with so many changes."""
    before = {"user": [user(1)], "item": [item(n, 0, owner=1) for n in range(count)]}
    after = {"user": [user(1)], "item": [item(n, n + 1, owner=1) for n in range(count)]}
    body = "forbid:\n  - {id: no-users, delete: user}\nallow:\n  - {id: n, update: item}\n"
    return run(body, before, after, timeline=TIMELINE).bundle


def test_many_changes_are_paged_and_filtered(make_desk: MakeDesk) -> None:
    desk = make_desk(bundles={"many": many(1_001)})
    first = case_page(desk, 0, "/x")
    assert len(first) < 200_000
    assert first.count("<tr data-row") <= PAGE + 20
    assert "1–100 of 1,001" in first
    last = case_page(desk, 0, "/x", page=10)
    assert "1,001–1,001 of 1,001" in last
    assert case_page(desk, 0, "/x", page=10**5) == last
    found = case_page(desk, 0, "/x", query="item 999")
    assert "1–1 of 1 that fit" in found
    assert "none fits" in case_page(desk, 0, "/x", query="<script>alert(1)</script>")
    assert isinstance(desk.sign(0, WRONG), Labelled)
