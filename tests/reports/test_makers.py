"""Reports say who made each change, and which call broke which clause."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

from rich.console import Console

from statediff.capture.feed import actions_of_history
from statediff.kernel import Evaluated
from statediff.model.readings import History
from statediff.model.trace import Mark, Trace
from statediff.reports.attribution import Makers
from statediff.reports.html import page
from statediff.reports.html.trial import trial_view
from statediff.reports.text import trial_report
from tests.histories import course, seen
from tests.judging import item, state
from tests.traces import call, log

BEFORE = {"item": [item(1), item(2)]}
BODY = """\
forbid: [{id: no-two, delete: item}]
allow: [{update: item}]
steps:
  - id: low
    always: all(i.n < 9 for i in now.item)
"""
MIDDLE = {"item": [item(1, n=5), item(2)]}
AFTER = {"item": [item(1, n=5)]}


def report(found: Evaluated) -> str:
    out = StringIO()
    Console(file=out, width=160).print(trial_report(found.bundle))
    return out.getvalue()


def judged(trace: Trace, *states: Any) -> Evaluated:
    between = states or (MIDDLE, AFTER)
    return course(BODY, BEFORE, between[:-1], between[-1], trace=trace)


def marked(tool: str, name: str, **arguments: Any) -> Any:
    return replace(call(tool, **arguments), transactions=(Mark("db", name),))


def test_a_finding_names_the_call_that_did_it_and_each_change_its_maker() -> None:
    text = report(judged(log(marked("set", "t1", n=5), marked("drop", "t2", id=2))))
    findings, _, changes = text.partition("\nFindings\n")[2].partition("\nChanges\n")
    assert "done by: call-2 drop {id: 2}" in findings
    assert "call-1" not in findings
    assert "call-1 set {n: 5}" in changes
    assert "✘ call-2 drop {id: 2}  item 2 deleted  breaks no-two, frame" in text


def test_the_page_lists_each_call_with_what_it_changed() -> None:
    view = trial_view(judged(log(marked("set", "t1"), marked("drop", "t2"))).bundle, "b")
    first, second = view["actions"]
    assert (first["changes"], first["breaks"]) == ("item 1 n", ())
    assert (second["changes"], second["breaks"]) == ("item 2 deleted", ("no-two", "frame"))
    html = page.render("trial.html", view)
    assert "Done by: <b>call-2 drop" in html
    assert "changed: item 2 deleted" in html


def test_what_no_call_is_known_to_have_made_is_called_unattributed() -> None:
    text = report(judged(log(marked("set", "t1"))))
    assert "unattributed" in text
    assert "done by" not in text


def test_a_report_of_a_log_without_transactions_says_nothing_of_makers() -> None:
    text = report(judged(log(call("set"))))
    assert "unattributed" not in text
    assert "What was done" not in text


def test_a_moment_of_the_run_is_of_the_call_that_left_it() -> None:
    broken = {"item": [item(1, n=99), item(2)]}
    found = judged(log(marked("raise", "t1"), marked("lower", "t2")), broken, BEFORE)
    assert "done by: call-1 raise" in report(found)


def test_without_recorded_calls_the_transactions_of_the_history_are_named() -> None:
    states = [state(MIDDLE), state(AFTER)]
    trace = Trace(observed=observed_of(states))
    text = report(judged(trace))
    assert "done by: transaction t2" in text
    assert "✘ transaction t2  item 2 deleted" in text


def observed_of(states: list[Any]) -> Any:
    return actions_of_history(History((), seen("db", states).transactions), Trace())


def test_hostile_names_of_calls_stay_names() -> None:
    tool = "<script>\x1b[2J\u202e"
    found = judged(log(marked("set", "t1"), marked(tool, "t2", id="</b>\x00")))
    text, html = report(found), page.render("trial.html", trial_view(found.bundle, "b"))
    assert "\x1b" not in text
    assert "<script>\\x1b" not in html
    assert "&lt;script&gt;" in html


def test_a_log_of_many_calls_is_listed_within_bounds() -> None:
    trace = log(*(marked("set", f"x{n}") for n in range(300)), marked("drop", "t2"))
    text = report(judged(trace))
    assert "300 of 301 left no change" in text


def test_a_bundle_that_names_makers_that_are_nowhere_is_no_crash() -> None:
    judgement = {"deltas": [], "during": [], "findings": []}
    makers = Makers(judgement, {"actions": []}, {"transactions": []})
    assert makers.title("call-9") == "call-9"
    assert list(makers.doings()) == []
