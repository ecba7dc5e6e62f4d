"""The reads of a run, as its reports show them: per call, bounded, escaped, blind where asked."""

from __future__ import annotations

import io
import re

from rich.console import Console
from statediff_lab.review.desk import Unjudged, unjudged

from statediff.contract.file import parse_contract
from statediff.kernel import Evaluated, evaluate
from statediff.model.trace import Trace
from statediff.model.values import Map
from statediff.reports.html import trial_html
from statediff.reports.html.trial import trial_view
from statediff.reports.readside import MAX_CALLS, MAX_CITED, ReadSide
from statediff.reports.text import trial_report
from tests.judging import capture, contract, part
from tests.policy.test_access import CONTRACT, COVERED, NO, NOTES, fetch, search, world
from tests.traces import call, log


def run(trace: Trace, answer: dict, body: str = CONTRACT) -> Evaluated:
    before, after = (capture(s, part(s, world(*NOTES))) for s in ("before", "after"))
    file = parse_contract(contract(body).encode(), "c.yaml")
    return evaluate(file, before, after, trace=trace, answer=Map.of(answer))


def side(found: Evaluated) -> ReadSide:
    reads = trial_view(found.bundle, "b")["reads"]
    assert reads is not None
    return reads


def text(found: Evaluated) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(trial_report(found.bundle))
    return out.getvalue()


def strays() -> Evaluated:
    """Refused outside of the grants, delivered outside of them, asked in vain, searched."""
    return run(
        log(
            search("wiki:a"), fetch("zoom:m", error="there is no such artifact"), fetch("zoom:m"),
            fetch("wiki:none", error="there is no such artifact"), call("elsewhere"), *COVERED[:1],
        ),
        {**NO, "sources": ("wiki:a", "wiki:never")},
    )  # fmt: skip


def test_each_call_is_told_with_what_came_of_it_and_whether_it_leaked() -> None:
    reads = side(strays())
    told = [(c.verb, c.about, c.outcome.partition(":")[0], c.fault) for c in reads.calls]
    assert told[1:4] == [
        ("asked for", "zoom:m", "refused", "blocked"),
        ("fetched", "zoom:m", "delivered", "leaked"),
        ("asked for", "wiki:none", "refused", ""),
    ]
    assert told[0][0] == "searched"
    assert told[0][2] == "1 named"
    assert "1 blocked, 1 leaked" in reads.tally
    assert reads.tally.endswith("1 call of other tools.")
    assert dict(reads.cited)["wiki:never"] == "never fetched"


def test_the_text_and_the_page_have_the_section_with_what_was_never_fetched() -> None:
    found = run(log(search("wiki:a")), NO)
    missed = [f.sentence for f in found.judgement.findings if f.code == "unsearched-absence"]
    assert missed
    page = trial_html(found.bundle, "b")
    section = page[page.index('<section id="reads">') :].partition("</section>")[0]
    told = re.sub(r"\s+", " ", text(found).partition("What was read")[2])
    for sentence in missed:
        assert sentence in section
        assert sentence in told
    assert '<a href="#reads">' in page


def test_a_contract_that_says_nothing_of_reads_has_no_such_section() -> None:
    found = run(log(*COVERED), NO, CONTRACT[: CONTRACT.index("access:")])
    assert trial_view(found.bundle, "b")["reads"] is None
    assert 'id="reads"' not in trial_html(found.bundle, "b")
    assert "What was read" not in text(found)


def test_who_reviews_blind_sees_the_calls_and_nothing_of_what_was_made_of_them() -> None:
    found = strays()
    blind = trial_view(unjudged(found.bundle, "b"), "b", Unjudged)["reads"]
    assert blind is not None
    assert [c.about for c in blind.calls] == [c.about for c in side(found).calls]
    assert not any(c.fault for c in blind.calls)
    assert blind.missed == ()
    assert "leaked" not in blind.tally
    assert "blocked" not in blind.tally


def test_what_an_agent_wrote_is_bounded_and_escaped() -> None:
    hostile = "<script>alert(1)</script>\x1b[2J\u202e" + "x" * 5_000
    many = [fetch(hostile, error=hostile)] * (MAX_CALLS + 7)
    found = run(log(*many), {**NO, "sources": (hostile,) * (MAX_CITED + 3)})
    reads = side(found)
    assert len(reads.calls) == MAX_CALLS
    assert len(reads.cited) == MAX_CITED
    assert reads.more_calls.startswith("and 7 more calls")
    assert reads.more_cited.startswith("and 3 more citations")
    assert max(len(c.about) + len(c.outcome) for c in reads.calls) < 600
    page, told = trial_html(found.bundle, "b"), text(found)
    section = page[page.index('<section id="reads">') :].partition("</section>")[0]
    assert "<script" not in section
    for steering in ("\x1b", "\u202e"):
        assert steering not in section
        assert steering not in told
