"""A study in words, as a document, as a table and as a page: the same numbers everywhere."""

import csv
import io
import json
import re
from dataclasses import asdict, replace

import pytest
from statediff_lab.labels import Component, Failure, Label
from statediff_lab.reports.pages import study_html
from statediff_lab.reports.study import document, study_text, table
from statediff_lab.study.evaluators import ABLATIONS, EVALUATORS
from statediff_lab.study.measures import Study, study
from statediff_lab.study.trials import EvaluatorOpinion, Origin, ScoredCase, scored_from

from statediff.meta.world import Untried
from statediff.model.verdict import Verdict
from statediff.reports.plain import dumps

ABOUT = {each.name: each.about for each in (*EVALUATORS, *ABLATIONS)}
HOSTILE = "<script>x</script>\x1b[31m\u202e"


def case(number: int, label: Label, **verdicts: Verdict) -> ScoredCase:
    opinions = {
        name.replace("_", "-"): EvaluatorOpinion(v, 1, 2, True) for name, v in verdicts.items()
    }
    kind = {Label.UNRESOLVABLE: "stale-read"}.get(label, "collateral-damage")
    return ScoredCase(
        domain="shop",
        task=f"shop/{number % 2}",
        name=f"case {number}",
        origin=Origin.SEEDED,
        kind=kind,
        sentence=HOSTILE,
        label=label,
        is_variant=False,
        opinions=opinions,
        errors={},
    )


@pytest.fixture(scope="module")
def found() -> Study:
    match, diverge, open_ = Verdict.MATCH, Verdict.DIVERGE, Verdict.INCONCLUSIVE
    cases = [
        case(n, label, statediff=ours, final_text=match, contract_diff=near, assertions=loose,
             without_frame=match)
        for n in range(6)
        for label, ours, near, loose in (
            (Label.CORRECT, match, match, match),
            (Label.INCORRECT, diverge, diverge, match if n % 2 else diverge),
            (Label.UNRESOLVABLE, open_, match, match),
        )
    ]  # fmt: skip
    told_of = (Component.CAPTURE, True, (Failure.ANNOTATION, Failure.REWARD))
    cases.append(replace(cases[0], name="reviewed", seconds=(40, 60), told=(told_of,)))
    cases.append(replace(cases[0], name="refused", opinions={}, errors={"statediff": HOSTILE}))
    return study(cases, ABOUT, 1, 200)


def test_the_document_the_table_and_the_words_say_the_same(found: Study):
    text = json.loads(dumps(document(found)))
    ours = text["domains"]["shop"]["evaluators"]["statediff"]
    assert (ours["agreement"]["hits"], ours["agreement"]["of"], ours["failed"]) == (13, 13, 1)
    assert ours["false_passes_prevented"] == 6
    [row] = [r for r in csv.DictReader(io.StringIO(table(found))) if r["evaluator"] == "statediff"]
    assert (row["agreement_hits"], row["agreement_of"]) == ("13", "13")
    assert (row["domain"], row["false_passes_prevented"]) == ("shop", "6")
    words = study_text(found)
    assert "shop: 20 cases of 2 tasks" in words
    assert "✔ accepts harm: final-text > assertions, by 50.0 points" in words
    assert "without-frame: collateral-damage wrong in 6 of 13 (MATCH 6)" in words


def test_what_reviewers_recorded_is_in_it(found: Study):
    reviews = document(found)["domains"]["shop"]["reviews"]
    assert reviews["median_seconds"] == 50
    assert (reviews["correctable"], reviews["stage:capture"]) == (1, 1)
    assert (reviews["failure:annotation-error"], reviews["failure:reward-misalignment"]) == (1, 1)


def test_an_ordering_that_does_not_hold_is_said():
    turned = [
        replace(c, opinions={"final-text": c.opinions["statediff"],
                             "assertions": c.opinions["final-text"]})
        for c in (case(n, Label.INCORRECT, statediff=Verdict.DIVERGE, final_text=Verdict.MATCH)
                  for n in range(4))
    ]  # fmt: skip
    other = study(turned, ABOUT, 1, 50)
    assert "✘ accepts harm: final-text > assertions, by -100.0 points" in study_text(other)
    assert "0 of 1 expected comparisons hold." in study_html(other)


def test_the_page_holds_every_number_and_nothing_that_a_run_wrote_acts(found: Study):
    page = study_html(found)
    assert study_html(found) == page
    assert page.count('role="img"') == 3  # no case is a twin
    legend = page[page.index('<section id="legend">') : page.index('<section id="evaluators">')]
    for text in ("statediff, the whole judge", "one part gone", "accepts harm", "95 %"):
        assert text in legend
    assert not re.search("[α-ωΑ-Ω]", page)
    assert "<script>x" not in page
    assert "\x1b" not in page + study_text(found) + table(found)
    assert "\u202e" not in page + study_text(found)
    assert "Not judged" in page


def test_a_name_cannot_be_a_formula_of_a_spreadsheet(found: Study):
    [domain] = found.domains
    named = replace(found, domains=(replace(domain, name="=1+1"),))
    assert "\n'=1+1,statediff," in table(named)


def test_what_nothing_seeded_tries_is_summed_and_said_everywhere() -> None:
    left = Untried(HOSTILE, "a sample is tried", 3)
    one = replace(case(1, Label.CORRECT, statediff=Verdict.MATCH), untried=(left,))
    two = replace(one, name="case 2", untried=(left, Untried("types", "too large", 1)))
    whole = study([one, two], ABOUT, 1, 20)
    assert [(each.what, each.number) for each in whole.untried] == [(HOSTILE, 6), ("types", 1)]
    assert [each["number"] for each in document(whole)["untried"]] == [6, 1]
    page = study_html(whole)
    for told in (study_text(whole), page):
        assert "1 types (too large)" in told
        assert "no source delivers as a row" in told
        assert HOSTILE not in told
    kept = scored_from(json.loads(json.dumps(asdict(two), default=lambda each: each.value)))
    assert kept.untried == two.untried
