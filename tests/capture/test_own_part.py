"""The agent's own part of a run beside others, over random schedules of both."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.capture.own_part import IN_TURNS, OthersWork, OwnPart, own_parts
from statediff.model.readings import (
    Capture,
    History,
    Reading,
    ReadingKind,
    SourceCapture,
    Transaction,
)
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import COMPLETE, MemoryChunks, State, build_table
from statediff.model.values import Unobserved

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
ITEM = EntityType(
    "item",
    ("id",),
    (Field("id", Kind.INT, is_nullable=False), Field("sum", Kind.INT), Field("name", Kind.INT)),
)
SCHEMA = Schema("s", "1", (ITEM,), (("s", ("item",)),))
AMOUNTS = frozenset({("item", "sum")})
World = dict[int, dict[str, Any]]
BASE: World = {n: {"id": n, "sum": 100, "name": 0} for n in range(4)}
Step = tuple[bool, str, int, int]
"""Whether the agent does it, what, to which item, and with which number."""
STEPS = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from(["add", "name", "make", "remove"]),
        st.integers(0, 5),
        st.integers(1, 5),
    ),
    max_size=12,
)


def after_step(world: World, step: Step) -> World:
    _, what, item, number = step
    found = {key: dict(row) for key, row in world.items()}
    if what == "make":
        found.setdefault(item, {"id": item, "sum": number, "name": 0})
    elif what == "remove":
        found.pop(item, None)
    elif item in found and what == "add":
        found[item]["sum"] += number
    elif item in found:
        found[item]["name"] = number
    return found


def part(moment: str, state: State) -> SourceCapture:
    reading = Reading(
        f"{moment}/s",
        "s",
        ReadingKind.SCAN,
        as_of=NOON,
        clock="trial",
        is_complete=True,
        digest=state.digest(),
    )
    return SourceCapture(reading, state)


class Run:
    """A schedule as captured; a step that changes nothing is no transaction."""

    def __init__(self, steps: list[Step], gap: str | None = None) -> None:
        self.store = MemoryChunks()
        self.worlds = [BASE]
        self.is_own: list[bool] = []
        for step in steps:
            world = after_step(self.worlds[-1], step)
            if world != self.worlds[-1]:
                self.worlds.append(world)
                self.is_own.append(step[0])
        states = [self._state(world) for world in self.worlds]
        transactions = tuple(
            Transaction(f"s/{n}", "s", str(10 * n), None, state)
            for n, state in enumerate(states)
            if n
        )
        feed = Reading(
            "during/s",
            "s",
            ReadingKind.FEED,
            as_of=NOON,
            clock="trial",
            is_complete=gap is None,
            digest=states[-1].digest(),
            cause=gap,
        )
        self.before = Capture((part("before", states[0]),))
        self.after = Capture((part("after", states[-1]),), History((feed,), transactions))
        self.others = OthersWork(
            source="s",
            transactions=frozenset(
                str(10 * n) for n, is_own in enumerate(self.is_own, start=1) if not is_own
            ),
        )

    def _state(self, world: World) -> State:
        table = build_table(ITEM, [world[key] for key in sorted(world)], self.store)
        return State(SCHEMA, {"item": table})

    def parts(self, amounts: frozenset[tuple[str, str]] = AMOUNTS) -> list[OwnPart]:
        found = own_parts(self.before, self.after, [self.others], amounts, self.store)
        return [part for part in (found.left, found.found) if part is not None]

    def touches(self, item: int) -> list[tuple[Any, Any]]:
        """The change that each of the agent's transactions made to the item."""
        pairs = zip(self.worlds, self.worlds[1:], self.is_own, strict=False)
        found = [(one.get(item), two.get(item)) for one, two, is_own in pairs if is_own]
        return [(one, two) for one, two in found if one != two]


def rows(capture: Capture) -> Mapping[Any, Any]:
    table = capture.parts[0].state.tables["item"]
    assert table.enumeration == COMPLETE
    return dict(table.rows())


@given(STEPS)
def test_only_what_the_agent_changed_differs_and_as_it_found_and_left_it(steps: list[Step]) -> None:
    run = Run(steps)
    for part in run.parts():
        before, after = rows(part.before), rows(part.after)
        for item in range(6):
            touches = run.touches(item)
            one, two = before.get((item,)), after.get((item,))
            if not touches:
                assert one == two
            elif all(left[1] == right[0] for left, right in itertools.pairwise(touches)):
                assert (one, two) == (touches[0][0], touches[-1][1])
            elif not any(found for found, _ in touches):
                assert (one, two) == (None, touches[-1][1])
            elif not any(left for _, left in touches):
                assert one in (touches[0][0], touches[-1][0])
                assert two is None
            elif not all((*(t[0] for t in touches[1:]), *(t[1] for t in touches[:-1]))):
                assert one is not None
                assert two == {
                    "id": item,
                    "sum": Unobserved(IN_TURNS),
                    "name": Unobserved(IN_TURNS),
                }
            elif one is not None and two is not None:
                assert two["sum"] - one["sum"] == sum(t[1]["sum"] - t[0]["sum"] for t in touches)


@given(STEPS)
def test_the_history_leads_from_before_to_after_by_the_agents_transactions(
    steps: list[Step],
) -> None:
    run = Run(steps)
    for part in run.parts():
        history = part.after.history
        own = [f"s/{n}" for n, is_own in enumerate(run.is_own, start=1) if is_own]
        assert [t.id for t in history.transactions] == own
        [reading] = history.readings
        assert reading.digest == part.after.parts[0].reading.digest
        assert reading.digest == part.after.parts[0].state.digest()
        last = part.before.parts[0].state if not own else history.transactions[-1].state
        assert last.digest() == reading.digest


@given(STEPS)
def test_without_others_and_with_others_elsewhere_nothing_is_another(steps: list[Step]) -> None:
    alone = Run([(True, *step[1:]) for step in steps])
    [part] = alone.parts()
    assert part == OwnPart(alone.before, alone.after)
    beside: list[Step] = []
    for step in steps:
        beside += [(True, *step[1:]), (False, "name", 3, 1 + len(beside) % 5)]
    theirs = Run([s for s in beside if not (s[0] and s[2] == 3)])
    mine = Run([(True, *s[1:]) for s in steps if s[2] != 3])
    for part in theirs.parts():
        found = [rows(part.before), rows(part.after)]
        expected = [rows(mine.before), rows(mine.after)]
        assert [{k: r for k, r in each.items() if k != (3,)} for each in found] == [
            {k: r for k, r in each.items() if k != (3,)} for each in expected
        ]


def test_a_field_that_is_no_amount_and_was_written_in_turns_is_unobserved() -> None:
    steps = [(True, "add", 1, 5), (False, "add", 1, 2), (True, "add", 1, 5)]
    [part] = Run(steps).parts(frozenset())
    assert rows(part.after)[1,]["sum"] == Unobserved(IN_TURNS)
    [part] = Run(steps).parts()
    assert rows(part.after)[1,]["sum"] - rows(part.before)[1,]["sum"] == 10


def test_a_sum_that_was_written_over_what_others_did_is_the_agents() -> None:
    run = Run([(False, "add", 1, 5), (True, "remove", 1, 0), (True, "make", 1, 3)])
    [part] = run.parts()
    assert rows(part.before)[1,]["sum"] == 105
    assert rows(part.after)[1,]["sum"] == 3


@pytest.mark.parametrize(
    ("gap", "transactions", "why"),
    [
        ("the log was cut off", frozenset({"10"}), "the log was cut off"),
        (None, frozenset({"10", "77"}), "does not have their transactions"),
    ],
)
def test_where_a_history_or_a_record_is_not_whole_nothing_of_the_source_is_known(
    gap: str | None, transactions: frozenset[str], why: str
) -> None:
    run = Run([(False, "add", 1, 5), (True, "add", 1, 2)], gap)
    others = OthersWork(source="s", transactions=transactions)
    found = own_parts(run.before, run.after, [others], AMOUNTS, run.store)
    enumeration = found.left.after.parts[0].state.tables["item"].enumeration
    assert why in enumeration.cause
    assert found.left.after.parts[0].reading.digest is None
    unsure = OthersWork(source="s", gap="a commit has no name")
    run = Run([(True, "add", 1, 2)])
    found = own_parts(run.before, run.after, [unsure], AMOUNTS, run.store)
    assert found.left.after.parts[0].reading.digest is None
