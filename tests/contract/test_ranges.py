"""What a clause ranges over: the state its first word names, the deltas, or a variable."""

from typing import Any

import pytest

from statediff.contract.ranges import crowd_of
from statediff.contract.syntax import BOOL, Const, Entities, Variable
from statediff.contract.world import Crowd, Thing, World
from statediff.model.state import COMPLETE, Enumeration
from statediff.model.trace import NoAnswer
from tests.contract.test_evaluation import INCOMPLETE, ITEM, view

BLANK: dict[str, Any] = {"n": None, "m": 0, "t": None, "next": None, "tags": None}
GONE = Thing("before", "item", (7,), None)


def world(enumeration: Enumeration = COMPLETE, now: str = "") -> World:
    sides = [view([{"id": number, **BLANK}], enumeration) for number in (1, 2, 3)]
    deltas = {("deleted", "item"): Crowd((GONE,), "item", "before")}
    return World(
        sides[0], sides[1], NoAnswer("none"), deltas, lambda _: tuple(ITEM.by_name),
        now=now, moments={"at 3": sides[2]},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("root", "now", "side", "key"),
    [
        ("before", "at 3", "before", 1), ("after", "at 3", "after", 2),
        ("now", "at 3", "at 3", 3), ("now", "before", "before", 1), ("now", "after", "after", 2),
    ],
)  # fmt: skip
def test_a_state_is_that_of_the_first_word(root: str, now: str, side: str, key: int) -> None:
    crowd = crowd_of(Entities(BOOL, 0, root, "item"), world(now=now), {})
    assert crowd is not None
    assert [(thing.side, thing.key) for thing in crowd] == [(side, (key,))]
    assert (crowd.type, crowd.side, crowd.incomplete) == ("item", side, frozenset())


def test_what_was_not_listed_to_its_end_says_so_and_why() -> None:
    crowd = crowd_of(Entities(BOOL, 0, "after", "item"), world(INCOMPLETE), {})
    assert crowd is not None
    assert crowd.incomplete == {"item after: cut short"}


def test_deltas_are_those_that_are_known_and_none_where_there_are_none() -> None:
    assert crowd_of(Entities(BOOL, 0, "deleted", "item"), world(), {}) == Crowd(
        (GONE,), "item", "before"
    )
    none = crowd_of(Entities(BOOL, 0, "created", "item"), world(), {})
    assert none == Crowd((), "item", "after")


def test_a_variable_is_what_it_stands_for_if_that_is_a_collection() -> None:
    crowd = Crowd((GONE,), "item", "before")
    assert crowd_of(Variable(BOOL, 0, "them"), world(), {"them": crowd}) is crowd
    assert crowd_of(Variable(BOOL, 0, "them"), world(), {"them": (1, 2)}) is None
    assert crowd_of(Variable(BOOL, 0, "them"), world(), {}) is None
    assert crowd_of(Const(BOOL, 0, True), world(), {}) is None
