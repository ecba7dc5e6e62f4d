"""The state that a contract lets its actor read: nothing else changes what anybody is told."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statediff.agents.recorder import Recorder
from statediff.agents.tools import tool_table
from statediff.contract.file import parse_contract
from statediff.kernel import library_of
from statediff.model.values import Observed
from statediff.reads.library import Library
from tests.judging import CUT, DIVERGE, HIDDEN, MATCH, at, capture, contract, part, run
from tests.policy.test_access import (
    CONTRACT,
    MEETING,
    NO,
    NOTES,
    REPORT,
    codes,
    page,
    world,
)  # fmt: skip


def library(*pages: dict[str, Observed], body: str = CONTRACT, **more: Any) -> Library:
    file = parse_contract(contract(body).encode(), "c.yaml")
    found = library_of(file, capture("before", part("before", world(*pages, **more))))
    assert found is not None
    return found


def names(replied: Any) -> list[str]:
    return [hit["id"] for hit in replied["results"]]


def test_search_names_what_may_be_read_with_metadata_only() -> None:
    found = library(*NOTES, REPORT).search("note")
    assert sorted(names(found)) == ["wiki:a", "wiki:b", "wiki:c"]
    assert set(found["results"][0]) == {"id", "subsystem", "title", "at"}
    assert names(library(*NOTES).search("talk")) == []
    assert names(library(*NOTES).search("note", "tickets")) == []


def test_fetch_gives_the_whole_artifact_or_nothing() -> None:
    whole = library(*NOTES).fetch("wiki:a")
    assert whole is not None
    assert whole["content"]["by"] == "sam"
    assert whole["at"] == "2026-03-01T12:00:00Z"
    for other in ("wiki:later", "zoom:m", "wiki:none", "x", "wiki:", ""):
        assert library(*NOTES).fetch(other) is None


def test_what_is_not_certain_to_be_granted_is_not_in_the_library() -> None:
    dim = {**page("dim", 0), "sent": HIDDEN}
    timeless = {**page("never", 0), "sent": None}
    held = library(*NOTES, dim, timeless)
    assert held.fetch("wiki:dim") is None
    assert held.fetch("wiki:never") is None
    assert library(*NOTES, coverage={"page": CUT}).fetch("wiki:a") is not None
    assert len(library(*NOTES, body=CONTRACT.replace("[wiki, tickets]", "[]"))) == 0


WORDS = st.sampled_from(["note", "talk", "report", "a", "secret", ""])


@settings(max_examples=30)
@given(st.lists(st.tuples(WORDS, st.integers(6, 60)), max_size=6), WORDS,
       st.sampled_from([None, "wiki", "zoom", "tickets", "no"]))  # fmt: skip
def test_nothing_outside_the_cone_changes_what_anybody_is_told(
    hidden: list[tuple[str, int]], query: str, subsystem: str | None
) -> None:
    later = [page(f"z{n}", days, kind) for n, (kind, days) in enumerate(hidden)]
    with_them, without = library(*NOTES[:3], *later), library(*NOTES[:3])
    assert with_them.search(query, subsystem) == without.search(query, subsystem)
    assert [with_them.fetch(f"wiki:z{n}") for n in range(3)] == [None] * 3
    assert with_them.window() == without.window()


def recorded(calls: list[tuple[str, dict[str, Any]]], held: Library) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        with Recorder(Path(folder, "calls.jsonl"), lambda: at(12)) as recorder:
            table = tool_table({}, recorder, held)
            replies = [table.call(name, given) for name, given in calls]
        return replies, recorder.trace()


def test_a_blocked_artifact_is_refused_in_the_very_words_of_a_missing_one() -> None:
    calls = [("fetch", {"id": name}) for name in ("zoom:m", "wiki:later", "wiki:none", "zoom:q")]
    replies, _ = recorded(calls, library(*NOTES))
    assert len({reply.text for reply in replies}) == 1
    assert all(reply.is_error for reply in replies)
    there, nowhere = (
        recorded([("search", {"query": "talk", "subsystem": s})], library(*NOTES))[0][0].text
        for s in ("zoom", "nowhere")
    )
    assert there == nowhere


def test_what_passed_the_gate_is_judged_from_its_record_alone() -> None:
    held = library(*NOTES)
    search = ("search", {"query": "note"})
    replies, _ = recorded([search], held)
    calls = [search, *(("fetch", {"id": n}) for n in names(json.loads(replies[0].text)))]
    _, trace = recorded(calls, held)
    state = world(*NOTES)
    assert run(CONTRACT, state, state, trace=trace, answer=NO).judgement.verdict is MATCH
    _, strayed = recorded([*calls, ("fetch", {"id": "zoom:m"})], held)
    found = run(CONTRACT, state, state, trace=strayed, answer=NO)
    assert found.judgement.verdict is DIVERGE
    assert codes(found) == ["state-invalid-correct", "access-violation"]
    assert MEETING["id"] == "m"


@pytest.mark.parametrize(
    "call",
    [("search", {}), ("search", {"query": ""}), ("search", {"query": 1}), ("fetch", {}),
     ("fetch", {"id": ["wiki:a"]}), ("fetch", {"id": "wiki:a", "actor": "jax"}),
     ("search", {"query": "x", "as_of": "2030"})],
)  # fmt: skip
def test_a_call_that_makes_no_sense_is_refused_recorded_and_shows_nothing(
    call: tuple[str, dict[str, Any]],
) -> None:
    replies, trace = recorded([call], library(*NOTES))
    assert replies[0].is_error
    assert len(trace.actions) == 1
    state = world(*NOTES)
    found = run(CONTRACT, state, state, trace=trace, answer=NO)
    assert codes(found) == ["state-invalid-correct", "unsearched-absence"]
