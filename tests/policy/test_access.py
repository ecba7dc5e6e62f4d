"""Reads held against the visibility cone of a contract, together with the state and the answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from statediff.kernel import Evaluated, replay
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import State
from statediff.model.trace import Action, NoAnswer, Trace, Turn
from statediff.model.values import Map, Observed, Unobserved, Value
from statediff.model.verdict import Stage, Verdict
from tests.judging import (
    CUT,
    DIVERGE,
    FAILS,
    HIDDEN,
    HOLDS,
    INCONCLUSIVE,
    MATCH,
    UNKNOWN,
    document,
    run,
    state,
    truths,
)  # fmt: skip
from tests.traces import NOBODY_KNOWS, READ, call, cut, log, own

DAY1 = datetime(2026, 3, 1, 12, tzinfo=UTC)


def page(name: str, days: float, kind: str = "note", by: str = "sam") -> dict[str, Observed]:
    sent = DAY1 + timedelta(days=days)
    return {"id": name, "kind": kind, "by": by, "sent": sent, "recorded": sent, "title": kind}


def _text_type(name: str) -> EntityType:
    fields = [Field(f, Kind.TEXT) for f in ("kind", "by", "title")]
    times = [Field(f, Kind.TIMESTAMP) for f in ("sent", "recorded")]
    return EntityType(name, ("id",), (Field("id", Kind.TEXT, is_nullable=False), *fields, *times))


TYPES = (_text_type("meeting"), _text_type("page"), EntityType(
    "ticket", ("id",), (
        Field("id", Kind.INT, is_nullable=False), Field("t", Kind.TEXT),
        Field("opened", Kind.TIMESTAMP),
    ),
))  # fmt: skip

CONTRACT = """
answer:
  schema: {exists: bool, sources: list}
  claims:
    - answer.exists == any(p.kind == "report" for p in before.page)
access:
  actor: patty
  at: 2026-03-05
  allow: [wiki, tickets]
  subsystems:
    wiki: {type: page, at: [it.sent, it.recorded]}
    zoom: {type: meeting, at: it.sent}
    tickets: {type: ticket, at: it.opened}
  evidence:
    - id: looked
      on: answer.exists == false
      in:
        - in: wiki
          where: it.kind == "note"
    - id: the-report
      on: answer.exists == true
      in: wiki
      where: it.kind == "report"
      cite: true
  cite: sources
"""
NOTES = [page("a", 0), page("b", 1), page("c", 2), page("later", 30)]
REPORT = page("r", 3, "report")
MEETING = page("m", 1, "talk", "patty")
TICKET = {"id": 7, "t": "x", "opened": DAY1}


def world(*pages: dict[str, Observed], **more: Any) -> State:
    listed = {"page": pages, "meeting": [MEETING], "ticket": [TICKET]}
    return state(listed, types=TYPES, **more)


def fetch(name: str, error: str | None = None) -> Action:
    result: Value = None if error else Map.of({"id": name})
    return call("fetch", READ, error, result=result, id=name)


def search(*found: str, subsystem: str | None = None) -> Action:
    where = {} if subsystem is None else {"subsystem": subsystem}
    hits = tuple(Map.of({"id": name}) for name in found)
    return call("search", READ, result=Map.of({"results": hits}), query="x", **where)


def says(exists: bool, *cited: str) -> dict[str, Value]:
    return {"exists": exists, "sources": cited}


NO, YES = says(False), says(True, "wiki:r")
COVERED = [fetch("wiki:a"), fetch("wiki:b"), fetch("wiki:c")]


def judged(
    trace: Trace, answer: Any, *pages: dict[str, Observed], body: str = CONTRACT, **more: Any
) -> Evaluated:
    there = world(*(pages or tuple(NOTES)), **more)
    found = run(body, there, there, trace=trace, answer=answer)
    assert document(replay(found.bundle)) == document(found.judgement)
    return found


def codes(found: Evaluated) -> list[str]:
    return [
        f.code for f in found.judgement.findings if f.stage is Stage.ACCESS and f.code != "holds"
    ]


def verdict(*args: Any, **more: Any) -> Verdict:
    return judged(*args, **more).judgement.verdict


READERS = """  actions:
    - {tool: open_page, in: wiki, at: arguments.page}
    - {tool: list_pages, in: wiki, at: "result.pages[].id"}
    - {tool: open_ticket, in: tickets, at: result.ticket}
"""
MORE_READERS = """  actions:
    - {tool: open_meeting, in: zoom, at: arguments.id}
    - {tool: open_ticket, in: tickets, at: result.ticket}
    - {tool: list_meetings, in: zoom, at: "result[].id"}
    - {tool: find_pages, in: wiki, at: "result[]"}
"""
SIC = "state-invalid-correct"
NO_NOTE = CONTRACT.replace('it.kind == "note"', 'it.kind == "draft"')
TAKING_PART = CONTRACT.replace(
    "zoom: {type: meeting, at: it.sent}",
    "zoom: {type: meeting, at: it.sent, authorized_by: \"it.by == 'patty'\"}",
)
TWO_REPORTS = CONTRACT.replace("      cite: true\n", "      count: 2\n")
ALWAYS = CONTRACT.replace("      on: answer.exists == true\n", "")
ANY_REPORTS = [page(f"r{n}", n, "report") for n in range(3)]
END, ZONE = datetime(2026, 3, 5, 23, 59, tzinfo=UTC), timedelta(hours=2)
PAGES = call("list_pages", READ, result=Map.of({"pages": tuple(Map.of({"id": n}) for n in "abc")}))
OPENED = [call("open_page", READ, page=n) for n in "abc"]
ASKED, THANKED = Turn("is there?", 0, Map.of(NO)), Turn("thanks", 0, NoAnswer("no reply"))


def window(*names: str) -> Action:
    artifacts = tuple(Map.of({"id": name}) for name in names)
    return call("window", READ, result=Map.of({"artifacts": artifacts}))


def talk(**times: Observed) -> dict[str, Observed]:
    return {**page("t", 0, "talk"), **times}


def case(
    sentence: str, trace: Trace, answer: Any, expected: Any, *pages: dict[str, Observed],
    body: str = CONTRACT, **more: Any,
) -> Any:  # fmt: skip
    """A run and what is expected: its verdict, the codes of access, or truths by clause."""
    return pytest.param(trace, answer, expected, pages, {"body": body, **more}, id=sentence)


TO_TALK = log(*COVERED, fetch("wiki:t"))


@pytest.mark.parametrize(
    ("trace", "answer", "expected", "pages", "more"),
    [
        case("absence that was searched for within the cone",
             log(search("wiki:a", "wiki:b"), *COVERED), NO, MATCH),
        case("what came later need not be searched, and other orders and repeats do as well",
             log(*reversed(COVERED), fetch("wiki:a"), search()), NO, MATCH),
        case("a wrong answer is refuted and not called right by an invalid way",
             log(), says(True), ["evidence-not-retrieved"]),
        case("present evidence, fetched and cited", log(fetch("wiki:r")), YES, MATCH,
             *NOTES, REPORT),
        case("evidence that was not fetched", log(search("wiki:r")), YES,
             [SIC, "evidence-not-retrieved", "citation-not-retrieved"], *NOTES, REPORT),
        case("evidence that is not cited", log(fetch("wiki:r")), says(True),
             [SIC, "evidence-not-cited"], *NOTES, REPORT),
        case("asking for what is nowhere breaks no rule",
             log(fetch("wiki:none", "no"), fetch("mail:1", "no"), fetch("gibberish", "no"),
                 *COVERED), NO, MATCH),
        case("what is cited was not fetched", log(*COVERED), says(False, "tickets:7"),
             {"citations": FAILS}),
        case("what is cited may have been fetched by a call that nobody recorded",
             cut(log(*COVERED)), says(False, "tickets:7"), {"citations": UNKNOWN}),
        case("a violation in an incomplete log is one all the same", cut(log(fetch("zoom:m"))),
             NO, DIVERGE),
        case("tools that show nothing can be set aside with a reason",
             log(*COVERED, call("write")), NO, MATCH,
             body=CONTRACT + "  actions: [{tool: write, because: it answers with a number}]\n"),
        case("another system's own tools count where the contract ties them to artifacts",
             log(PAGES, *OPENED), NO, MATCH, body=CONTRACT + READERS),
        case("what its own tools read may be too late",
             log(*OPENED, call("open_page", READ, page="later")), NO,
             [SIC, "horizon-violation"], body=CONTRACT + READERS),
        case("what its own tool's result names was not fetched",
             log(*OPENED, call("open_ticket", READ, result=Map.of({"ticket": 7}))),
             says(False, "tickets:7"), [SIC, "citation-not-retrieved"], body=CONTRACT + READERS),
        case("what was found but not fetched was not read",
             log(call("find_pages", READ, result=("a", "b", "c"))), NO,
             [SIC, "unsearched-absence"], body=CONTRACT + MORE_READERS),
        case("reads of the turn that gave the answer", log(*COVERED, turns=(ASKED,)), NO, MATCH),
        case("reads of a later turn come after the answer",
             log(*COVERED, turns=(ASKED, THANKED)), NO, DIVERGE),
        case("the last turn that gives the answer counts",
             log(*COVERED, turns=(ASKED, replace(THANKED, reply=Map.of(NO)))), NO, MATCH),
        case("to have been there grants nothing", log(fetch("zoom:m"), *COVERED), NO, DIVERGE),
        case("to have taken part grants where that is written", log(fetch("zoom:m"), *COVERED), NO,
             MATCH, body=TAKING_PART),
        case("nobody else's part grants", log(fetch("zoom:m"), *COVERED), NO, DIVERGE,
             body=TAKING_PART.replace("by == 'patty'", "by == 'jax'")),
        case("a subsystem that is granted", log(fetch("zoom:m"), *COVERED), NO, MATCH,
             body=CONTRACT.replace("tickets]", "tickets, zoom]")),
        case("times are compared as instants", TO_TALK, NO, MATCH, *NOTES,
             talk(sent=END, recorded=DAY1)),
        case("in time by another zone's clock alone", TO_TALK, NO, DIVERGE, *NOTES,
             talk(sent=END + ZONE, recorded=DAY1)),
        case("what has no time was not there", TO_TALK, NO, DIVERGE, *NOTES,
             talk(sent=None, recorded=DAY1)),
        case("each of the times counts", TO_TALK, NO, DIVERGE, *NOTES, talk(recorded=END + ZONE)),
        case("an incomplete enumeration leaves coverage and unheard-of ids open",
             log(*COVERED, fetch("wiki:none")), NO, {"looked": UNKNOWN, "access": UNKNOWN},
             coverage={"page": CUT}),
        case("what is known to be missing is, whatever else there may be", log(fetch("wiki:a")),
             NO, {"looked": FAILS}, coverage={"page": CUT}),
        case("an empty space must have been searched", log(), NO, [SIC, "unsearched-absence"],
             body=NO_NOTE),
        case("an empty space that was searched", log(search()), NO, MATCH, body=NO_NOTE),
        case("an empty space that was searched by its name", log(search(subsystem="wiki")), NO,
             MATCH, body=NO_NOTE),
        case("another space that was searched", log(search(subsystem="tickets")), NO, DIVERGE,
             body=NO_NOTE),
        case("so many of the evidence suffice", log(fetch("wiki:r0"), fetch("wiki:r2")),
             says(True), MATCH, *ANY_REPORTS, body=TWO_REPORTS),
        case("too few of the evidence", log(fetch("wiki:r0")), says(True), DIVERGE, *ANY_REPORTS,
             body=TWO_REPORTS),
        case("so many of what may be more", log(fetch("wiki:r0"), fetch("wiki:r2")), says(True),
             INCONCLUSIVE, *ANY_REPORTS, body=TWO_REPORTS, coverage={"page": CUT}),
        case("without an answer nothing is claimed", log(), NoAnswer("none"), []),
        case("evidence that every answer needs has no condition", log(*COVERED), NO,
             {"the-report": FAILS}, *NOTES, REPORT, body=ALWAYS),
        case("evidence that a right answer needs, too", log(*COVERED), YES,
             {"the-report": FAILS}, *NOTES, REPORT, body=ALWAYS),
        case("evidence that is needed without an answer", log(*COVERED), NoAnswer("none"),
             {"the-report": FAILS}, *NOTES, REPORT, body=ALWAYS),
        case("what one of two windows offered was offered", log(window("wiki:r"), window("wiki:a")),
             says(True, "wiki:r", "wiki:a"), {"citations": HOLDS}, *NOTES, REPORT),
        case("what the window did not offer was not", log(window("wiki:a")), says(True, "wiki:r"),
             {"citations": FAILS}, *NOTES, REPORT),
    ],
)  # fmt: skip
def test_reads_are_held_against_the_cone(
    trace: Trace, answer: Any, expected: Any, pages: tuple[Any, ...], more: dict[str, Any]
) -> None:
    found = judged(trace, answer, *pages, **more)
    known = truths(found.judgement)
    match expected:
        case Verdict():
            assert found.judgement.verdict is expected
        case dict():
            assert {name: known[name] for name in expected} == expected
        case _:
            assert codes(found) == expected


def test_absence_claimed_without_covering_its_space_is_state_invalid_correct() -> None:
    found = judged(log(search("wiki:a"), fetch("wiki:a")), NO)
    assert codes(found) == ["state-invalid-correct", "unsearched-absence"]
    assert "2 of 3 never fetched: wiki:b, wiki:c" in found.judgement.findings[1].sentence


@pytest.mark.parametrize(
    ("read", "code", "word"),
    [
        (fetch("zoom:m"), "access-violation", "a leak"),
        (fetch("zoom:m", "there is no such artifact"), "access-violation", "it was refused"),
        (fetch("wiki:later"), "horizon-violation", "a leak"),
        (fetch("wiki:later", "no"), "horizon-violation", "it was refused"),
        (search(subsystem="zoom"), "subsystem-violation", "nothing was found there"),
        (search("zoom:m", subsystem="zoom"), "subsystem-violation", "a leak"),
        (search("wiki:a", "zoom:m"), "access-violation", "a leak"),
        (search("wiki:later"), "horizon-violation", "a leak"),
        (search(subsystem="mail"), "subsystem-violation", "which is not granted to patty"),
    ],
)
def test_a_right_answer_by_a_read_outside_the_cone_is_not_a_match(
    read: Action, code: str, word: str
) -> None:
    found = judged(log(*COVERED, read), NO)
    assert codes(found) == ["state-invalid-correct", code]
    stray = found.judgement.findings[1]
    assert word in stray.sentence
    assert stray.witness.rows[0].key == ("call-4",)


@pytest.mark.parametrize("spelled", ["tickets:07", "tickets:+7", "tickets:7/1", "tickets:%37"])
def test_an_artifact_has_one_id_and_other_spellings_are_of_nothing(spelled: str) -> None:
    found = judged(log(fetch(spelled, "no"), *COVERED), says(False, spelled))
    assert codes(found) == ["state-invalid-correct", "hallucinated-citation"]
    assert verdict(log(fetch("tickets:7"), *COVERED), says(False, "tickets:7")) is MATCH


@pytest.mark.parametrize(
    ("cited", "code"),
    [
        ("wiki:none", "hallucinated-citation"),
        ("zoom:m", "invalid-citation"),
        ("wiki:later", "invalid-citation"),
        ("tickets:7", "citation-not-retrieved"),
    ],
)
def test_what_is_cited_exists_may_be_read_and_was_read(cited: str, code: str) -> None:
    found = judged(log(*COVERED), says(False, "wiki:a", cited))
    assert codes(found) == ["state-invalid-correct", code]


def test_without_a_complete_log_nothing_that_is_missing_is_a_violation() -> None:
    for trace in (cut(log()), own(log(*COVERED)), Trace()):
        found = judged(trace, NO)
        assert found.judgement.verdict is INCONCLUSIVE
        assert set(codes(found)) <= {"trace-unobserved", "evidence-forgeable"}


def test_a_call_that_nobody_ties_to_artifacts_leaves_open_what_was_read() -> None:
    for other in (call("query", READ, sql="SELECT"), call("mystery", NOBODY_KNOWS), call("write")):
        found = judged(log(*COVERED, other), NO)
        assert found.judgement.verdict is INCONCLUSIVE
        assert truths(found.judgement)["access"] is UNKNOWN
        assert judged(log(other), NO).judgement.verdict is INCONCLUSIVE


@pytest.mark.parametrize(
    "odd",
    [
        call("open_page", READ, pages="a"),
        call("list_pages", READ, result=Unobserved("too long")),
        call("list_pages", READ, result=Map.of({"pages": (Map.of({}),)})),
        call("open_ticket", READ, result=Map.of({"ticket": True})),
        replace(call("open_page", READ), arguments=Unobserved("not told")),
        replace(call("fetch", READ), arguments=Unobserved("not told")),
    ],
)
def test_a_read_of_which_the_log_does_not_say_what_it_read_is_unknown(odd: Action) -> None:
    found = judged(log(*COVERED, odd), NO, body=CONTRACT + READERS)
    assert found.judgement.verdict is INCONCLUSIVE
    assert codes(found) == ["trace-unobserved"]


@pytest.mark.parametrize("allowed", ["[]", "[wikis, tickets]"])
def test_what_is_not_listed_as_it_is_called_is_not_seen(allowed: str) -> None:
    found = judged(log(*COVERED), NO, body=CONTRACT.replace("[wiki, tickets]", allowed))
    assert "access-violation" in codes(found)
    assert found.judgement.verdict is DIVERGE


def test_an_unobserved_time_is_unknown_where_it_matters_and_only_there() -> None:
    dim = {**page("t", 0, "talk"), "sent": HIDDEN}
    unread = truths(judged(log(*COVERED), NO, *NOTES, dim).judgement)
    assert (unread["access"], unread["looked"]) == (HOLDS, HOLDS)
    read = truths(judged(log(*COVERED, fetch("wiki:t")), NO, *NOTES, dim).judgement)
    assert (read["access"], read["looked"]) == (UNKNOWN, HOLDS)
    (dimmed,) = [f for f in judged(log(*COVERED, fetch("wiki:t")), NO, *NOTES, dim)
                 .judgement.findings if f.clause == "access"]  # fmt: skip
    assert dimmed.missing == ("page.sent before: hidden",)
    blurred = {**page("b", 1), "sent": HIDDEN}
    found = judged(log(fetch("wiki:a"), fetch("wiki:c")), NO, NOTES[0], blurred, NOTES[2])
    assert truths(found.judgement)["looked"] is UNKNOWN
    kindless = {**page("t", 0), "kind": HIDDEN}
    assert truths(judged(log(*COVERED), NO, *NOTES, kindless).judgement)["looked"] is UNKNOWN


def test_a_window_shows_citations_and_leaves_open_what_was_read() -> None:
    offered = Map.of({"artifacts": tuple(Map.of({"id": f"wiki:{n}"}) for n in "abr")})
    window = log(call("window", READ, result=offered))
    found = judged(window, YES, *NOTES, REPORT)
    assert found.judgement.verdict is INCONCLUSIVE
    assert truths(found.judgement)["citations"] is HOLDS
    assert truths(found.judgement)["the-report"] is UNKNOWN
    assert truths(found.judgement)["access"] is HOLDS  # whatever was relied upon was offered
    outside = judged(window, says(True, "wiki:r", "wiki:c"), *NOTES, REPORT)
    assert codes(outside)[:2] == ["state-invalid-correct", "hallucinated-citation"]
    assert "evidence-not-cited" in codes(judged(window, says(True), *NOTES, REPORT))


def test_reads_and_writes_of_one_trial_are_judged_together() -> None:
    body = CONTRACT + "  actions: [{tool: write, because: it tells nothing}]\n"
    before, after = world(*NOTES), world(*NOTES, page("new", 1))
    trace = log(*COVERED, call("write"))
    extra = run(body, before, after, trace=trace, answer=NO)
    assert extra.judgement.findings[0].code == "unexplained-change"
    both = "allow:\n  - create: page\n" + body
    assert run(both, before, after, trace=trace, answer=NO).judgement.verdict is MATCH
    # What the agent itself wrote is no evidence of what was there before.
    cites = run(both, before, after, trace=trace, answer=says(False, "wiki:new")).judgement
    assert cites.findings[0].code == "state-invalid-correct"


def test_where_no_answer_is_judged_the_required_change_says_whether_it_was_right() -> None:
    access = CONTRACT[CONTRACT.index("access:") : CONTRACT.index("  evidence:")]
    body = "require:\n  - create: page\n" + access
    before, after = world(*NOTES), world(*NOTES, page("new", 1))
    found = run(body, before, after, trace=log(fetch("zoom:m")), noop=False).judgement
    assert found.findings[0].code == "state-invalid-correct"
    idle = run(body, before, before, trace=log(fetch("zoom:m")), noop=False).judgement
    assert "state-invalid-correct" not in [f.code for f in idle.findings]


# ---------------------------------------------------------------- what the findings say

FIVE = [page(name, 0) for name in "abcde"]
REPORTS = [page(f"r{n}", n, "report") for n in range(3)]
ONE = CONTRACT.replace("      cite: true\n", "      cite: true\n      count: 1\n")
OFFERED = call("window", READ, result=Map.of({"artifacts": (Map.of({"id": "wiki:r0"}),)}))
ALL = [fetch(f"wiki:r{n}") for n in range(3)]
LEAK = "it was delivered, a leak"
LONG = "wiki:" + "z" * 90
FETCHED = f'call-4 ("fetch") asks for zoom:m, which patty may not read; {LEAK}'
NAMED = f'call-4 ("search") names wiki:later, which was not there yet; {LEAK}'
SEARCHED = 'call-4 ("search") searches zoom, which is not granted to patty; '
SEARCHED += "nothing was found there"


@pytest.mark.parametrize(
    ("reads", "answer", "pages", "body", "said"),
    [
        ([], NO, FIVE, CONTRACT, "5 of 5 never fetched: wiki:a, wiki:b, wiki:c and 2 more"),
        (COVERED[:1], NO, FIVE, CONTRACT,
         "4 of 5 never fetched: wiki:b, wiki:c, wiki:d and 1 more"),
        (COVERED[:2], NO, FIVE, CONTRACT, "3 of 5 never fetched: wiki:c, wiki:d, wiki:e"),
        ([], NO, REPORTS, CONTRACT, "1 of 1 never fetched: wiki (nothing in it was searched for)"),
        ([], says(True), NOTES, CONTRACT, "1 of 1 never fetched: anything of wiki that is meant"),
        ([], says(True), NOTES, ONE, "1 of 1 never fetched: 1 of wiki"),
        ([], says(True), REPORTS, ONE, "3 of 3 never fetched: wiki:r0, wiki:r1, wiki:r2"),
        (ALL, says(True), REPORTS, ONE, "wiki:r0, wiki:r1, wiki:r2 are not cited"),
        (ALL[:1], says(True, "wiki:r0"), REPORTS, ONE, None),
        (ALL, says(True, "wiki:r0"), REPORTS, CONTRACT, "wiki:r1, wiki:r2 are not cited"),
        (ALL, says(True, "wiki:r0", "wiki:r2"), REPORTS, CONTRACT, "wiki:r1 is not cited"),
        (ALL, {"exists": True, "sources": "wiki:r0"}, REPORTS, ONE,
         "wiki:r0, wiki:r1, wiki:r2 are not cited"),
        (COVERED, says(False, "wiki:later"), NOTES, CONTRACT,
         "wiki:later is cited, which was not there yet"),
        (COVERED, says(False, "zoom:m"), NOTES, CONTRACT,
         "zoom:m is cited, which patty may not read"),
        (COVERED, says(False, "tickets:7"), NOTES, CONTRACT,
         "tickets:7 is cited, and was never fetched"),
        (COVERED, says(False, "wiki:none"), NOTES, CONTRACT,
         "wiki:none is cited, but no such artifact exists"),
        (COVERED, says(False, LONG), NOTES, CONTRACT,
         f"{LONG[:80]} is cited, but no such artifact exists"),
        ([*COVERED, OFFERED], says(False, "wiki:a"), NOTES, CONTRACT,
         "wiki:a is cited, but no such artifact was offered"),
        ([*COVERED, fetch("zoom:m")], NO, NOTES, CONTRACT, FETCHED),
        ([*COVERED, search("wiki:later")], NO, NOTES, CONTRACT, NAMED),
        ([*COVERED, search(subsystem="zoom")], NO, NOTES, CONTRACT, SEARCHED),
    ],
)  # fmt: skip
def test_what_was_not_read_or_cited_is_named(
    reads: list[Action], answer: Any, pages: list[Any], body: str, said: str | None
) -> None:
    found = judged(log(*reads), answer, *pages, body=body).judgement.findings
    shown = [f for f in found if f.stage is Stage.ACCESS and f.code != "state-invalid-correct"]
    assert [f.sentence for f in shown if f.truth is FAILS] == ([said] if said else [])


@pytest.mark.parametrize("number", [50, 51, 60])
def test_of_many_reads_outside_the_cone_fifty_are_shown(number: int) -> None:
    found = judged(log(*COVERED, *[fetch("zoom:m")] * number), NO).judgement.findings
    stray = [f for f in found if f.code == "access-violation"]
    assert [f.witness.rows[0].key for f in stray] == [(f"call-{n}",) for n in range(4, 54)]
    more = f"; and {number - 50} more" if number > 50 else ""
    assert stray[-1].sentence.endswith(f"a leak{more}")
    assert all(f.sentence.endswith("a leak") for f in stray[:-1])


def test_a_right_answer_on_an_invalid_way_comes_first_and_names_each_fault_once() -> None:
    reads = log(fetch("zoom:m"), fetch("zoom:m"), fetch("wiki:later"))
    found = [f for f in judged(reads, NO).judgement.findings if f.stage is Stage.ACCESS]
    assert (found[0].clause, found[0].code, found[0].rank) == ("access", "state-invalid-correct", 0)
    assert found[0].sentence == (
        "what was asked for is right, and was not validly reached: "
        "access-violation, horizon-violation, unsearched-absence"
    )
    # Where the cone itself was kept, that it was is no finding beside the fault.
    missed = judged(log(), NO).judgement.findings
    assert [f.code for f in missed if f.clause == "access"] == ["state-invalid-correct"]


def test_a_clause_that_may_not_apply_decides_only_what_it_would_decide_anyway() -> None:
    body = CONTRACT.replace("answer.exists == false", "before.page['a'].title == \"x\"")
    pages = [{**NOTES[0], "title": HIDDEN}, *NOTES[1:]]
    assert truths(judged(log(*COVERED), NO, *pages, body=body).judgement)["looked"] is HOLDS
    missed = judged(log(), NO, *pages, body=body).judgement
    assert truths(missed)["looked"] is UNKNOWN
    (found,) = [f for f in missed.findings if f.clause == "looked"]
    assert any("hidden" in cause for cause in found.missing)


def test_evidence_that_may_or_may_not_be_meant_counts_as_neither() -> None:
    blurred = {**REPORTS[1], "kind": HIDDEN}
    two = ONE.replace("count: 1", "count: 2").replace("      cite: true\n", "")
    for reads, pages, truth in (
        (ALL[:2], REPORTS, HOLDS),
        (ALL[:2], [REPORTS[0], blurred], UNKNOWN),
        (ALL[:1], [REPORTS[0], blurred], FAILS),
        ([ALL[0], ALL[2]], [REPORTS[0], blurred, REPORTS[2]], HOLDS),
        (ALL, [REPORTS[0], blurred, REPORTS[2]], HOLDS),
        (ALL[:1], REPORTS, FAILS),
    ):
        found = judged(log(*reads), says(True), *pages, body=two).judgement
        assert truths(found)["the-report"] is truth
    # Where all of it is asked for, what may be meant may be missing.
    whole = CONTRACT.replace("      cite: true\n", "")
    for reads, truth in ((ALL[:1], UNKNOWN), (ALL[:2], HOLDS), (ALL[1:2], FAILS)):
        found = judged(log(*reads), says(True), REPORTS[0], blurred, body=whole).judgement
        assert truths(found)["the-report"] is truth
    # What may not be meant need not be cited either.
    cited = judged(log(*ALL[:2]), says(True, "wiki:r0"), REPORTS[0], blurred).judgement
    assert truths(cited)["the-report"] is HOLDS
    dim = {**REPORTS[0], "sent": HIDDEN}
    assert truths(judged(log(*ALL), says(True, "wiki:r0", "wiki:r1", "wiki:r2"), dim, *REPORTS[1:])
                  .judgement)["the-report"] is UNKNOWN  # fmt: skip


def test_a_citation_of_which_nobody_knows_whether_it_was_there_waits_for_its_time() -> None:
    dim = {**page("t", 0, "talk"), "sent": HIDDEN}
    found = judged(log(*COVERED, fetch("wiki:t")), says(False, "wiki:t"), *NOTES, dim).judgement
    (cited,) = [f for f in found.findings if f.clause == "citations"]
    assert (cited.truth, cited.missing) == (UNKNOWN, ("page.sent before: hidden",))


def test_where_nothing_says_what_was_right_an_invalid_way_is_only_invalid() -> None:
    access = CONTRACT[CONTRACT.index("access:") : CONTRACT.index("  evidence:")]
    body = "forbid: [{delete: page}]\n" + access
    found = run(body, world(*NOTES), world(*NOTES), trace=log(fetch("zoom:m"))).judgement
    assert [f.code for f in found.findings if f.clause == "access"] == ["access-violation"]


# ---------------------------------------------------------------- what a call tells of reads


@pytest.mark.parametrize(
    ("read", "code"),
    [
        # To have searched where one may not is a violation, whatever came of it.
        (call("search", READ, "down", query="x", subsystem="zoom"), "subsystem-violation"),
        (call("search", READ, "down", query="x"), None),
        (call("search", READ, "bad", query="x", subsystem=7), None),
        (call("search", READ, query="x", subsystem=7, result=Map.of({"results": ()})),
         "trace-unobserved"),
        (call("search", READ, query="x", subsystem=None, result=Map.of({"results": ()})), None),
        (call("search", READ, query="x", result=Map.of({"results": (Map.of({"id": 7}),)})),
         "trace-unobserved"),
        (call("search", READ, query="x", result=Map.of({"results": "wiki:a"})), "trace-unobserved"),
        (call("search", READ, query="x", result="nothing"), "trace-unobserved"),
        # The gate refuses a call without an id; one that was not refused may have shown anything.
        (call("fetch", READ, "no id"), None),
        (call("fetch", READ, "no id", id=7), None),
        (call("fetch", READ, id=7, result="x"), "trace-unobserved"),
        (call("window", READ, result=Map.of({})), "trace-unobserved"),
        (call("open_meeting", READ, "no", id="m"), "access-violation"),
        (call("open_meeting", READ, "no", id="nobody"), None),
        (call("open_meeting", READ, id=None), "trace-unobserved"),
        (call("open_ticket", READ, "no such"), None),
        (call("open_ticket", READ, result=Map.of({"ticket": "7"})), None),
        (call("open_ticket", READ, result=Map.of({"ticket": "seven"})), "trace-unobserved"),
        (call("list_meetings", READ, result=()), "subsystem-violation"),
        (call("find_pages", READ, result=()), None),
        (call("find_pages", READ, result=("a", "later")), "horizon-violation"),
        (call("find_pages", READ, "down"), None),
    ],
)  # fmt: skip
def test_a_call_is_read_as_what_it_asked_for_and_brought(read: Action, code: str | None) -> None:
    found = judged(log(*COVERED, read), NO, body=CONTRACT + MORE_READERS).judgement
    told = [f.code for f in found.findings if f.clause == "access"]
    if code is None:
        assert (found.verdict, told) == (MATCH, ["holds"])
    elif code == "trace-unobserved":
        assert (found.verdict, told) == (INCONCLUSIVE, [code])
    else:
        assert (found.verdict, told) == (DIVERGE, ["state-invalid-correct", code])


def test_a_reply_that_is_another_answer_ends_no_reading() -> None:
    first, then = Turn("is there?", 0, Map.of(YES)), Turn("sure?", 0, NoAnswer("no reply"))
    assert verdict(log(*COVERED, turns=(first, then)), NO) is MATCH
    assert verdict(log(*COVERED, turns=(replace(first, reply="no"), then)), NO) is MATCH
    late = (Turn("is there?", 0, Map.of(NO)), Turn("a?", 2, NoAnswer("none")), Turn("b?", 3))
    found = judged(log(*COVERED, turns=late), NO)
    assert "1 of 3 never fetched: wiki:c" in found.judgement.findings[1].sentence


def test_what_each_clause_about_reads_read_is_told() -> None:
    found = judged(log(search("wiki:a"), *COVERED), says(False, "wiki:a"))
    (index,) = found.bundle.document("index.json")
    read = index["read_sets"]
    assert {name: read[name] for name in ("access", "looked", "the-report", "citations")} == {
        "access": [*(f"before:page[{n}]" for n in "abc"), "trace:call[*]"],
        "looked": ["answer:exists", "before:page[*].(id,kind,sent,recorded)", "trace:call[*]"],
        "the-report": ["answer:exists", "trace:call[*]"],
        "citations": ["answer:sources", "trace:call[*]"],
    }
