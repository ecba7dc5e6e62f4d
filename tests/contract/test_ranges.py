"""What a clause ranges over: the state its first word names, the deltas, or a variable."""

from typing import Any

import pytest

from statediff.contract.language.context import EntityRef, EntitySet, EvalContext, crowd_of
from statediff.contract.language.syntax import BOOL, Const, Entities, Variable
from statediff.model.state import COMPLETE, Enumeration
from statediff.model.trace import NoAnswer
from tests.contract.test_evaluation import INCOMPLETE, ITEM, view
from tests.explaining import in_words

BLANK: dict[str, Any] = {"n": None, "m": 0, "t": None, "next": None, "tags": None}
GONE = EntityRef("before", "item", (7,), None)


def world(enumeration: Enumeration = COMPLETE, now: str = "") -> EvalContext:
    sides = [view([{"id": number, **BLANK}], enumeration) for number in (1, 2, 3)]
    deltas = {("deleted", "item"): EntitySet((GONE,), "item", "before")}
    return EvalContext(
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
    entity_set = crowd_of(Entities(BOOL, 0, root, "item"), world(now=now), {})
    assert entity_set is not None
    assert [(entity_ref.side, entity_ref.key) for entity_ref in entity_set] == [(side, (key,))]
    assert (entity_set.type, entity_set.side, entity_set.incomplete) == ("item", side, frozenset())


def test_what_was_not_listed_to_its_end_says_so_and_why() -> None:
    entity_set = crowd_of(Entities(BOOL, 0, "after", "item"), world(INCOMPLETE), {})
    assert entity_set is not None
    assert in_words(entity_set.incomplete) == ["item after: cut short"]


def test_deltas_are_those_that_are_known_and_none_where_there_are_none() -> None:
    assert crowd_of(Entities(BOOL, 0, "deleted", "item"), world(), {}) == EntitySet(
        (GONE,), "item", "before"
    )
    none = crowd_of(Entities(BOOL, 0, "created", "item"), world(), {})
    assert none == EntitySet((), "item", "after")


def test_a_variable_is_what_it_stands_for_if_that_is_a_collection() -> None:
    entity_set = EntitySet((GONE,), "item", "before")
    assert crowd_of(Variable(BOOL, 0, "them"), world(), {"them": entity_set}) is entity_set
    assert crowd_of(Variable(BOOL, 0, "them"), world(), {"them": (1, 2)}) is None
    assert crowd_of(Variable(BOOL, 0, "them"), world(), {}) is None
    assert crowd_of(Const(BOOL, 0, True), world(), {}) is None
