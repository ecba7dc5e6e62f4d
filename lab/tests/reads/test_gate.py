"""The gate fails closed, tells nothing of what it hides, and records all that was asked of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from statediff_lab.reads.config import EvaluationConfig
from statediff_lab.reads.gate import CallKind, Gate, ReadOutcome, citing, window
from statediff_lab.reads.log import Corpus
from statediff_lab.reads.questions import Asked, Track

from lab.tests.reads.office import DAY
from statediff.reads.index import Index
from statediff.reads.library import NOT_THERE


def gate(config: EvaluationConfig, corpus: Corpus, actor: str, as_of: int = 5 * DAY) -> Gate:
    return Gate(
        corpus,
        Index(corpus.artifacts.values()),
        config,
        Asked("q", Track.PERSPECTIVE, actor, as_of, "?"),
    )


def test_what_is_hidden_is_answered_as_what_does_not_exist(
    office: EvaluationConfig, corpus: Corpus
) -> None:
    it = gate(office, corpus, "patty")
    answers = [it.fetch(name) for name in ("t1", "late", "none-such")]
    assert answers == [None] * 3
    assert it.call("fetch", {"id": "t1"}) == {"error": NOT_THERE}
    assert tuple(call.outcome for call in it.trace().calls[:3]) == (
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
    [call] = it.trace().calls
    assert call.outcome is ReadOutcome.INVALID
    assert (call.kind is CallKind.OTHER) == (tool not in ("fetch", "search"))


def test_every_answer_is_json(office: EvaluationConfig, corpus: Corpus) -> None:
    it = gate(office, corpus, "alex")
    for tool, arguments in (("search", {"query": "issue"}), ("fetch", {"id": "j1"})):
        assert json.loads(json.dumps(it.call(tool, arguments)))


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
    assert tuple(call.outcome for call in trace.calls) == (
        ReadOutcome.DELIVERED,
        ReadOutcome.MISSING,
    )
    assert trace.gap is not None
