"""The states that the history of a run tells, and the types of which it cannot tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from statediff.capture.feed import Seen, history_of
from statediff.errors import AdapterError
from statediff.kernel.resolve import IdentityRule, resolve
from statediff.model.readings import Capture, History, Transaction
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import State
from statediff.model.timelines import Resolution, SourceTimeline, Step, Timelines
from tests.histories import clock, told
from tests.judging import CUT, T0, capture, part, state

ONE = EntityType("one", ("id",), (Field("id", Kind.INT), Field("n", Kind.INT)))
TWO = EntityType("two", ("id",), ONE.fields)
WIDE = EntityType("one", ("id",), (*ONE.fields, Field("m", Kind.INT)))
NO_FEED = "no change feed was attached"


def world(
    one: int | None, two: int = 0, of: tuple[EntityType, ...] = (ONE, TWO), source: str = "db"
) -> State:
    """An entity `one` with this number (none at all where it is None), and a `two`."""
    rows = {"one": [] if one is None else [{"id": 1, "n": one}], "two": [{"id": 1, "n": two}]}
    return state(rows, types=of, source=source)


def transactions(source: str, *states: State) -> tuple[Transaction, ...]:
    return tuple(
        Transaction(f"t{n}", source, f"{10 * n}", T0, of, (f"also {n}",))
        for n, of in enumerate(states, start=1)
    )


def followed(
    first: State, *states: State, gap: str | None = None, last: State | None = None, **rest: Any
) -> Resolution:
    """The run of one source through these states; the last of them is the one after."""
    end = last or states[-1]
    after = capture("after", part("after", end))
    seen = Seen(transactions("db", *states), gap)
    return resolve(
        capture("before", part("before", first)), told(after, ("db", seen)), **rest
    )  # fmt: skip


def step(number: int, *touched: str) -> Step:
    return Step(f"t{number}", f"{10 * number}", T0, frozenset(touched), (f"also {number}",))


BOTH = frozenset({"one", "two"})


def seen_of(found: Resolution) -> dict[str, Any]:
    return {
        side: {
            name: [row["n"] for _, row in table.rows()] for name, table in between.tables.items()
        }
        for side, between in found.between.items()
    }


def test_a_whole_history_is_one_line_whose_last_step_left_the_state_after() -> None:
    found = followed(world(1), world(2), world(2, 5), world(3, 5))
    steps = step(1, "one"), step(2, "two"), step(3, "one")
    assert found.course == Timelines((SourceTimeline("db", BOTH, steps, None),))
    assert seen_of(found) == {
        "moment 1 of db": {"one": [2], "two": [0]}, "moment 2 of db": {"one": [2], "two": [5]},
    }  # fmt: skip


def test_a_history_with_a_gap_tells_what_it_saw_and_its_moments_are_whole() -> None:
    found = followed(world(1), world(2), world(3), gap="lost", last=world(4))
    assert found.course == Timelines(
        (SourceTimeline("db", BOTH, (step(1, "one"), step(2, "one")), "lost"),)
    )
    assert list(found.between) == ["moment 1 of db", "moment 2 of db"]
    for between in found.between.values():
        assert all(table.enumeration.is_complete for table in between.tables.values())


@pytest.mark.parametrize(
    ("first", "second", "touched"),
    [
        (world(1), world(1), ()),
        (world(1), world(2), ("one",)),
        (world(1), world(None), ("one",)),
        # A table made or dropped, or changed without a row of it.
        (world(1, of=(TWO,)), world(1), ("one",)),
        (world(1), world(1, of=(TWO,)), ("one",)),
        (world(None), world(None, of=(WIDE, TWO)), ("one",)),
        (world(1), state({"one": [{"id": 1, "n": 1}], "two": [{"id": 1, "n": 0}]}, {"one": CUT},
                         types=(ONE, TWO)), ("one",)),
    ],
)  # fmt: skip
def test_a_step_touched_what_differs(first: State, second: State, touched: Sequence[str]) -> None:
    found = followed(first, second, gap="lost", last=world(9))
    assert found.course.lines[0].steps == (step(1, *touched),)


def test_nothing_happened_where_the_feed_saw_nothing() -> None:
    after = capture("after", part("after", world(1)))
    before = capture("before", part("before", world(1)))
    found = resolve(before, told(after, ("db", Seen(()))))
    assert (found.course, found.between) == (Timelines((SourceTimeline("db", BOTH),)), {})


def test_without_a_feed_nothing_is_known_in_between() -> None:
    sides = [capture(side, part(side, world(1))) for side in ("before", "after")]
    found = resolve(sides[0], sides[1])
    assert found.course == Timelines((SourceTimeline("db", BOTH, (), NO_FEED),))
    other = told(sides[1], ("db", Seen((), "lost")))
    elsewhere = replace(other, history=History((replace(other.history.readings[0], source="x"),)))
    assert resolve(sides[0], elsewhere).course == found.course


@pytest.mark.parametrize("gap", [None, "lost"])
def test_a_feed_that_the_agent_could_forge_tells_nothing(gap: str | None) -> None:
    end = told(
        capture("after", part("after", world(2))), ("db", Seen(transactions("db", world(2)), gap))
    )
    forged = replace(end.history.readings[0], is_agent_influenced=True)
    end = replace(end, history=replace(end.history, readings=(forged,)))
    found = resolve(capture("before", part("before", world(1))), end)
    cause = "forgeable: the agent could have made this reading itself"
    assert (found.course, found.between) == (
        Timelines((SourceTimeline("db", BOTH, (), cause),)),
        {},
    )


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_refused_source_tells_nothing(side: str) -> None:
    found = followed(world(1), world(2), refused={(side, "db"): "stale", (side, "x"): "other"})
    assert (found.course, found.between) == (
        Timelines((SourceTimeline("db", BOTH, (), "stale"),)),
        {},
    )
    found = followed(world(1), world(2), refused={(side, "x"): "other"})
    assert found.course.lines[0].gap is None


def complete(after: Capture, *told_of: Transaction, source: str = "db") -> Capture:
    """With a history that claims to be all there was, whatever it ends in."""
    made = history_of("db", Seen(()), capture("after", part("after", world(1))), clock)
    reading = replace(made.readings[0], source=source)
    return replace(after, history=History((reading,), told_of))


@pytest.mark.parametrize("told_of", [(), transactions("db", world(2))])
def test_a_whole_history_that_ends_elsewhere_is_the_adapters_fault(told_of: Any) -> None:
    before = capture("before", part("before", world(1)))
    after = capture("after", part("after", world(3)))
    with pytest.raises(AdapterError, match="history of db does not end in the state"):
        resolve(before, complete(after, *told_of))


@pytest.mark.parametrize("told_of", [(), transactions("db", world(1))])
def test_a_whole_history_needs_the_source_at_both_ends(told_of: Any) -> None:
    both = [capture(side, part(side, world(1), "x")) for side in ("before", "after")]
    lone = [capture(side, part(side, world(1))) for side in ("before", "after")]
    for before, after in ((both[0], both[1]), (lone[0], both[1]), (both[0], lone[1])):
        trusting = {"authority": {"one": "db", "two": "db"}}
        with pytest.raises(AdapterError, match="history of db does not end in the state"):
            resolve(before, complete(after, *told_of), **trusting)


def test_of_what_two_sources_deliver_only_the_one_with_the_authority_tells() -> None:
    of_two = state({"two": [{"id": 1, "n": 0}]}, types=(TWO,), source="crm")
    before = capture("before", part("before", world(1)), part("before", of_two, "crm"))
    after = told(
        capture("after", part("after", world(2)), part("after", of_two, "crm")),
        ("db", Seen(transactions("db", world(1, 7), world(2)))),
    )
    found = resolve(before, after)
    cause = "crm and db deliver it, and the order of their commits is open"
    steps = step(1), step(2, "one")
    assert found.course == Timelines(
        (SourceTimeline("db", frozenset({"one"}), steps, None),), (("two", cause),)
    )  # fmt: skip
    assert seen_of(found) == {"moment 1 of db": {"one": [1]}}
    steps = step(1, "two"), step(2, "one", "two")
    found = resolve(before, after, authority={"two": "db"})
    assert found.course == Timelines((SourceTimeline("db", BOTH, steps, None),))
    found = resolve(before, after, authority={"two": "crm"})
    assert [(line.source, set(line.types), line.gap) for line in found.course.lines] == [
        ("crm", {"two"}, NO_FEED), ("db", {"one"}, None),
    ]  # fmt: skip
    found = resolve(before, after, authority={"two": "wiki"})
    assert found.course.unfollowed == (("two", cause),)


def test_of_what_a_rule_pairs_the_two_ends_are_known_only() -> None:
    rule = IdentityRule("one", 1, "no key", (("n", "", lambda value: value),))
    found = followed(world(1), world(2), world(3), rules=(rule,))
    assert found.course.unfollowed == (
        ("one", "ambiguous identity: its entities are paired at the two ends only"),
    )
    assert found.course.lines[0].types == {"two"}
    assert seen_of(found) == {"moment 1 of db": {"two": [0]}}


def test_a_feed_that_may_be_forged_takes_nothing_from_another() -> None:
    own = state({"two": [{"id": 1, "n": 0}]}, types=(TWO,), source="crm")
    ones = [world(n, of=(ONE,)) for n in (1, 2)]
    before = capture("before", part("before", own, "crm"), part("before", ones[0]))
    after = told(
        capture("after", part("after", own, "crm"), part("after", ones[1])),
        ("crm", Seen(())), ("db", Seen(transactions("db", ones[1]))),
    )  # fmt: skip
    readings = [replace(r, is_agent_influenced=r.source == "crm") for r in after.history.readings]
    forged = replace(after, history=replace(after.history, readings=tuple(readings)))
    lines = resolve(before, forged).course.lines
    assert [(line.source, line.steps, line.gap is None) for line in lines] == [
        ("crm", (), False), ("db", (step(1, "one"),), True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "touched"),
    [((TWO,), (ONE, TWO), {"one"}), ((ONE, TWO), (TWO,), {"one"}), ((TWO,), (TWO,), set())],
)
def test_a_table_that_nobody_vouches_for_is_touched_where_it_comes_or_goes(
    first: tuple[EntityType, ...], second: tuple[EntityType, ...], touched: set[str]
) -> None:
    # Another source delivers the type as well, so that its absence from one proves nothing.
    other = state({"one": [{"id": 1, "n": 1}]}, types=(ONE,), source="crm")
    before = capture("before", part("before", world(1, of=first)), part("before", other, "crm"))
    seen = Seen(transactions("db", world(1, of=second)), "lost")
    after = told(
        capture("after", part("after", world(1, of=second)), part("after", other, "crm")),
        ("db", seen),
    )
    refused = {("before", "crm"): "stale"}
    found = resolve(before, after, authority={"one": "db"}, refused=refused, must_report=("db",))
    line = next(line for line in found.course.lines if line.source == "db")
    assert line.steps[0].touched == touched
