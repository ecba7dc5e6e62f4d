"""The calls of a trace as entities: what an expression reads of each, and what nobody knows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from statediff.contract.language.calls import CALL, TRACE, Log, some_call
from statediff.contract.language.context import EntityRef
from statediff.contract.language.syntax import CALL_TYPE
from statediff.model.trace import Action, ActionClass, Trace, Turn
from statediff.model.values import Map, Unobserved

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TOLD = Action(
    "a",
    "refund",
    action_class=ActionClass.READ,
    arguments=Map.of({"order": 1}),
    result="done",
    error="slow",
    principal="agent",
    attempt=2,
    started_at=NOON,
    finished_at=NOON.replace(hour=13),
)
BARE = Action("b", "look")
WHOLE = Trace((TOLD, BARE, BARE), is_complete=True, turns=(Turn("Hi", 1), Turn("And?", 2)))


def rows(trace: Trace) -> list[dict[str, Any]]:
    return [dict(entity_ref.row or {}) for entity_ref in Log(trace)]


def test_a_call_has_a_field_for_all_that_was_recorded() -> None:
    row: dict[str, Any] = {
        "id": "a", "position": 1, "turn": None, "tool": "refund", "class": "read",
        "arguments": Map.of({"order": 1}), "result": "done", "error": "slow",
        "principal": "agent", "attempt": 2, "started_at": NOON,
        "finished_at": NOON.replace(hour=13),
    }  # fmt: skip
    assert Log(WHOLE).call(0) == EntityRef(TRACE, CALL_TYPE, ("a",), row)
    assert tuple(row) == tuple(CALL.by_name)


def test_what_the_log_does_not_say_of_a_call_is_unobserved() -> None:
    def unsaid(what: str) -> Unobserved:
        return Unobserved(f"in b, the log does not say {what}")

    row = rows(WHOLE)[1]
    assert {name: row[name] for name in row if isinstance(row[name], Unobserved)} == {
        "class": unsaid("its class"),
        "principal": unsaid("who made it"),
        "started_at": unsaid("when it began"),
        "finished_at": unsaid("when it ended"),
    }
    assert (row["result"], row["error"], row["attempt"]) == (None, None, 1)


def test_positions_and_turns_count_from_one_where_all_calls_and_turns_are_told() -> None:
    assert [(row["position"], row["turn"]) for row in rows(WHOLE)] == [(1, None), (2, 1), (3, 2)]
    assert [Log(WHOLE).turn(at) for at in range(4)] == [0, 1, 2, 2]
    untold = Trace(WHOLE.actions, is_complete=True)
    assert [Log(untold).turn(at) for at in range(3)] == [0, 0, 0]
    assert [(row["position"], row["turn"]) for row in rows(untold)] == [
        (at, Unobserved("the log does not tell turns apart")) for at in (1, 2, 3)
    ]
    for partial in (Trace(WHOLE.actions, turns=WHOLE.turns), Trace(WHOLE.actions)):
        assert [(row["position"], row["turn"]) for row in rows(partial)] == [
            (gap, gap)
            for name in "abb"
            for gap in [Unobserved(f"the log may lack what came before {name}")]
        ]


def test_the_first_calls_are_a_collection_that_says_why_there_may_be_more() -> None:
    whole, cut = Log(WHOLE).first(2, None), Log(WHOLE).first(1, "cut")
    assert [entity_ref.key for entity_ref in whole] == [("a",), ("b",)]
    assert (whole.type, whole.side, whole.incomplete) == (CALL_TYPE, TRACE, frozenset())
    assert [entity_ref.key for entity_ref in cut] == [("a",)]
    assert cut.incomplete == {"cut"}
    assert some_call("cut") == EntityRef(TRACE, CALL_TYPE, (), None, "cut")
