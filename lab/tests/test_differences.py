"""Differences of two trials of a case: what is told, and what is not known and never claimed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from statediff_lab.reports.differences import differences, differences_document, differences_lines

from statediff.errors import BundleError
from statediff.evidence.package import Bundle, make
from statediff.model.trace import Action, Turn
from statediff.model.values import Unobserved
from statediff.reports.plain import dumps
from tests.histories import course
from tests.judging import item
from tests.traces import READ, call, cut, log

BODY = """\
forbid: [{delete: item}]
allow: [{any: item}]
turns:
  - {prompt: one, require: ["all(i.n < 9 for i in now.item)"]}
  - {prompt: two, require: ["all(i.n == 3 for i in now.item)"]}
"""
SPOKEN = (Turn("one", 0, "done"), Turn("two", 0, "done"))
LOOK, SET = call("look", READ, at="7"), call("set", to=3)


def trial(*numbers: int, calls: tuple[Action, ...] = (), is_whole: bool = True) -> Bundle:
    rows = {"item": [item(key, n=n) for key, n in enumerate(numbers, 1)]}
    trace = log(*calls, turns=SPOKEN)
    before = {"item": [item(1, n=0)]}
    return course(BODY, before, [], rows, trace=trace if is_whole else cut(trace)).bundle


def test_deltas_are_new_or_vanished_by_what_they_did() -> None:
    found = differences(trial(3, 4), trial(5, 4, 1))
    assert [d["id"] for d in found.new.documents] == ["item[1].n", "item[3]"]
    assert [d["id"] for d in found.vanished.documents] == ["item[1].n"]
    told = differences_lines(found)
    assert "vanished delta: ~ item 1 n  0 → 3" in told
    assert "new delta: ~ item 1 n  0 → 5" in told
    assert json.loads(dumps(differences_document(found)))["deltas"]["vanished"] == {
        "number": 1, "first": [{"id": "item[1].n", "op": "update", "before": 0, "after": 3}],
    }  # fmt: skip


def test_a_trial_beside_itself_has_no_differences() -> None:
    one = trial(3, calls=(LOOK, SET))
    assert differences_lines(differences(one, one)) == []


def test_many_deltas_are_counted_and_few_are_shown() -> None:
    found = differences(trial(3), trial(*([3] * 40)))
    new = differences_document(found)["deltas"]["new"]
    assert (new["number"], len(new["first"])) == (39, 20)
    assert differences_lines(found)[-1] == "and 34 more new deltas"


def test_the_first_failed_turn_of_each_is_told() -> None:
    found = differences(trial(3), trial(4))
    assert (found.first_failed_turn_a, found.first_failed_turn_b) == (None, 2)
    assert "first failed turn: A none, B 2" in differences_lines(found)


@pytest.mark.parametrize(
    "other",
    [
        replace(SET, tool="put"),
        replace(SET, action_class=LOOK.action_class),
        call("set", to=4),
        call("set", to="3"),
    ],
)
def test_the_agents_part_at_the_first_call_of_another_tool_class_or_arguments(
    other: Action,
) -> None:
    found = differences(trial(3, calls=(LOOK, SET)), trial(3, calls=(LOOK, other)))
    assert found.parting is not None
    assert found.parting.number == 2


def test_one_and_true_are_different_arguments() -> None:
    one, true = (trial(3, calls=(call("set", to=value),)) for value in (1, True))
    assert differences(one, true).parting is not None


def test_times_results_and_ids_of_calls_are_no_parting() -> None:
    other = replace(SET, result="ok", id="x-2", attempt=2)
    assert differences(trial(3, calls=(SET,)), trial(3, calls=(other,))).parting is None


def test_one_that_ends_first_parts_there() -> None:
    found = differences(trial(3, calls=(LOOK, SET)), trial(3, calls=(LOOK,)))
    assert found.parting is not None
    assert (found.parting.number, found.parting.b) == (2, None)
    assert differences_document(found)["first_divergent_action"]["b"] is None
    assert differences_lines(found)[-1].endswith("B had ended")


def test_where_calls_may_be_missing_it_is_not_known_whether_the_agents_parted() -> None:
    whole, part = trial(3, calls=(LOOK, SET)), trial(3, calls=(LOOK,), is_whole=False)
    for pair in ((whole, part), (part, whole), (part, part)):
        found = differences(*pair)
        assert found.parting is None
        assert found.unknown is not None
        assert "unrecorded" in found.unknown
    hidden = replace(LOOK, arguments=Unobserved("redacted"))
    found = differences(trial(3, calls=(hidden,)), trial(3, calls=(hidden,)))
    assert (found.parting, found.unknown) == (None, "arguments of call 1 in A: redacted")


@pytest.mark.parametrize("what", ["op", "key", "before", "raw_after"])
def test_a_bundle_that_contradicts_itself_is_refused(what: str) -> None:
    good = trial(3)
    documents = {name: good.document(name) for name in good.files if name.endswith(".json")}
    documents["judgement.json"]["deltas"][0][what] = {"value": ["int", "three"]}
    facts = {n: v for n, v in good.manifest.items() if n not in ("format", "files")}
    with pytest.raises(BundleError, match="contradicts itself"):
        differences(trial(4), make(documents, good.files["contract.yaml"], facts))


def test_what_a_run_wrote_cannot_steer_the_terminal() -> None:
    evil = call("\x1b[31m\u202e", at="\x1b]0;x")
    (line,) = differences_lines(differences(trial(3), trial(3, calls=(evil,))))
    assert "\x1b" not in line
    assert "\u202e" not in line
