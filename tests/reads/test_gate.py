"""The gate fails closed, tells nothing of what it hides, and records all that was asked of it."""

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
from statediff.reads.cone import Index
from statediff.reads.config import EvaluationConfig, parse_config
from statediff.reads.gate import (
    NOT_THERE,
    CallKind,
    Gate,
    Library,
    ReadOutcome,
    ReadTrace,
    citing,
    window,
)
from statediff.reads.log import Corpus, corpus_of
from statediff.reads.questions import Asked, Track
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
from tests.reads.office import CONFIG, DAY, artifact


def gate(config: EvaluationConfig, corpus: Corpus, actor: str, as_of: int = 5 * DAY) -> Gate:
    return Gate(corpus, Index(corpus), config, Asked("q", Track.PERSPECTIVE, actor, as_of, "?"))


def test_what_is_hidden_is_answered_as_what_does_not_exist(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    it = gate(office, corpus, "patty")
    answers = [it.fetch(name) for name in ("t1", "late", "none-such")]
    assert answers == [None] * 3
    assert it.call("fetch", {"id": "t1"}) == {"error": NOT_THERE}
    assert it.trace().outcomes[:3] == (
        ReadOutcome.BLOCKED, ReadOutcome.BLOCKED, ReadOutcome.MISSING,
    )  # fmt: skip
    assert it.search("issue", "jira") == it.search("issue", "no-such") == {"results": []}


def test_a_search_names_only_what_the_cone_holds_and_never_its_text(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    found = gate(office, corpus, "alex").search("issue")["results"]
    assert {hit["id"] for hit in found} == {f"j{n}" for n in range(11)}
    assert all(set(hit) == {"id", "subsystem", "title", "at"} for hit in found)


@pytest.mark.parametrize("actor", ["ghost", "stranger", "eve", ""])
def test_nobody_unknown_sees_anything(office: EvaluationConfig, corpus: Corpus, actor: str) -> None:
    it = gate(office, corpus, actor)
    assert it.search("meeting") == {"results": []}
    assert it.fetch("z1") is None
    assert window(corpus, office, it.asked) == ()


def test_taking_part_grants_nothing_unless_the_configuration_says_so(corpus: Corpus) -> None:
    opened = CONFIG + b"\nvisibility: {participation: true}\n"
    for config, seen in ((CONFIG, False), (opened, True)):
        it = gate(parse_config(config, "c").content, corpus, "patty")
        assert (it.fetch("t1") is not None) is seen
    # Somebody who is not known has taken part in nothing.
    config = parse_config(opened, "c").content
    stranger = corpus_of((), [artifact("a", "zoom", people=("stranger",))])
    assert gate(config, stranger, "stranger").fetch("a") is None


def test_broadcast_reaches_every_known_actor(corpus: Corpus) -> None:
    config = parse_config(CONFIG + b"\nvisibility: {broadcast: [jira]}\n", "c").content
    assert gate(config, corpus, "eve").fetch("j1") is not None
    assert gate(config, corpus, "stranger").fetch("j1") is None


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("fetch", {}), ("fetch", {"id": 3}), ("fetch", {"id": "j1", "as": "root"}), ("fetch", None),
     ("search", {"query": ""}), ("search", ["x"]), ("delete_everything", {}), ("", {})],
)  # fmt: skip
def test_calls_that_make_no_sense_are_answered_and_recorded(
    office: EvaluationConfig, corpus: Corpus, tool: str, arguments: Any
) -> None:
    it = gate(office, corpus, "alex")
    assert "error" in it.call(tool, arguments)
    [call] = it.trace().calls()
    assert call.outcome is ReadOutcome.INVALID
    assert (call.kind is CallKind.OTHER) == (tool not in ("fetch", "search"))


def test_every_answer_is_json(office: EvaluationConfig, corpus: Corpus) -> None:
    it = gate(office, corpus, "alex")
    for tool, arguments in (("search", {"query": "issue"}), ("fetch", {"id": "j1"})):
        assert json.loads(json.dumps(it.call(tool, arguments)))


def test_a_trace_is_the_same_in_rows_and_columns(office: EvaluationConfig, corpus: Corpus) -> None:
    it = gate(office, corpus, "alex")
    it.search("issue", "jira")
    it.fetch("j1")
    assert ReadTrace.of(it.trace().calls()) == it.trace()


def test_a_search_narrows_by_words_subsystem_and_limit(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    it = gate(office, corpus, "alex")
    assert it.search("issue of later")["results"] == []  # it lies in the future
    assert (
        gate(office, corpus, "alex", 20 * DAY).search("LATER issue")["results"][0]["id"] == "late"
    )
    assert it.search("meeting", "jira") == {"results": []}
    assert len(it.index.search(it._cone, "issue", limit=3)) == 3


def test_in_context_mode_a_citation_is_a_fetch_and_the_rest_is_not_observed() -> None:
    trace = citing(frozenset({"a"}), ("a", "b"))
    assert trace.outcomes == (ReadOutcome.DELIVERED, ReadOutcome.MISSING)
    assert trace.gap is not None


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
