"""Many changed rows under clauses that range over other rows: no more work for each of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.contract.evaluation import evaluate as evaluation
from statediff.contract.evaluation import gathering, joins
from statediff.contract.file import parse_contract
from statediff.kernel import evaluate
from statediff.model.readings import Capture
from tests.judging import CUT, HIDDEN, capture, contract, document, item, part, state, user

OWNED = "any(u.id == it.owner for u in before.user)"
CONDITIONS = (
    OWNED,
    'any(u.role == "admin" and u.name == it.t for u in before.user)',
    'any(it.t == u.name and u.role != "user" for u in before.user if u.id < 4)',
    'all(u.role == "admin" for u in after.user if u.name == it.t)',
    'all(u.role == "admin" for u in after.user if u.id > 1 and u.name == it.owner.name)',
    "not any(j.owner == it.owner and j.n > it.n for j in updated.item)",
    "any(j.n == new.n for j in updated.item if j.id != it.id)",
    'any(u.name == before.user[it.n].name for u in before.user if u.role in ["admin"])',
    "any(j.owner.name == new.t for j in after.item)",
    "any(u.id <= it.n and u.name == it.t for u in after.user)",
    'any(it.owner.role == u.role and u.id >= new.n and u.name != "b" for u in before.user)',
    "all(j.n == it.n or j.t != it.t for j in before.item)",
    "all(not (j.owner == it.owner) or j.n < new.n for j in after.item)",
    "sum(j.n for j in after.item if j.owner == it.owner) > 2",
    "count(j for j in after.item if j.n <= it.n) == 1",
    "min(j.n for j in before.item if j.owner == it.owner) == it.n",
    "max(j.t for j in before.item if j.n >= it.n) == it.t",
    "unique(j.n for j in after.item if j.owner == it.owner)",
    "count(u for u in before.user for j in after.item if j.owner == u.id and u.name == it.t) > 0",
    "any(u.name == it.t for u in before.user if it.n > 0)",
    "same_items([it.t], (u.name for u in before.user if u.id == it.owner))",
    "count(u for u in after.user if any(j.owner == u.id for j in updated.item)) > it.n",
)
CLAUSES = (
    "allow: [{{id: c, update: item, where: '{0}'}}]",
    "forbid: [{{id: c, update: item, where: '{0}'}}]\nallow: [{{id: a, update: item}}]",
    "require: [{{id: c, update: item, where: '{0}'}}]\nallow: [{{id: a, update: item}}]",
    "allow: [{{id: c, update: item, that: '{0}'}}]",
)
texts = st.sampled_from(["a", "b", None, HIDDEN])
numbers = st.sampled_from([0, 1, 2, 3, None, HIDDEN])


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Any, Any]:
    roles = st.sampled_from(["admin", "user", None, HIDDEN])
    users = [user(n, draw(roles), draw(texts)) for n in range(draw(st.integers(0, 4)))]
    before = [
        item(n, draw(numbers), draw(texts), draw(numbers)) for n in range(draw(st.integers(1, 4)))
    ]
    after = [{**row, "n": draw(numbers)} for row in before]
    coverage = draw(st.sampled_from([None, {"user": CUT}]))
    return ({"user": users, "item": before}, coverage), ({"user": users, "item": after}, coverage)


def sides(world: tuple[Any, Any]) -> tuple[Capture, Capture]:
    before, after = (
        part(name, state(*of)) for name, of in zip(("before", "after"), world, strict=True)
    )
    return capture("before", before), capture("after", after)


def judged_with(body: str, world: tuple[Any, Any], indexed_after: int) -> tuple[Any, Any]:
    """The judgement as a document, and all that the trial leaves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joins, "INDEXED_AFTER", indexed_after)
        done = evaluate(parse_contract(contract(body).encode(), "c.yaml"), *sides(world))
    return document(done.judgement), done


@given(worlds(), st.sampled_from(CONDITIONS), st.sampled_from(CLAUSES))
def test_an_index_judges_as_each_row_does(
    world: tuple[Any, Any], condition: str, clause: str
) -> None:
    body = clause.format(condition)
    judged_with(body, world, 10**9)  # a contract that is met for the first time is tried out
    by_each, each = judged_with(body, world, 10**9)
    by_index, indexed = judged_with(body, world, 0)
    assert by_index == by_each
    assert indexed == each


def counted(body: str, many: int, place: Any, name: str) -> int:
    """How often one function was called in judging so many altered rows."""
    users = [user(n) for n in range(many)]
    before = [item(n, 1, f"a{n}", n) for n in range(many)]
    after = [{**row, "n": 2} for row in before]
    both = sides((({"user": users, "item": before}, None), ({"user": users, "item": after}, None)))
    file = parse_contract(contract(body).encode(), "c.yaml")
    evaluate(file, *both)
    calls: list[None] = []
    work = getattr(place, name)

    def noted(*given: Any) -> Any:
        calls.append(None)
        return work(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, name, noted)
        evaluate(file, *both)
    return len(calls)


TIED = (
    "count(u for u in after.user if u.id == it.owner) == 1",
    "sum(u.id for u in after.user if u.id == it.owner) == it.owner",
    "any(lower(u.name) == lower(it.t) for u in before.user) or it.t != null",
    "any(j.owner.id == it.owner for j in before.item)",
    "any(u.id >= it.owner for u in before.user)",
    "count(j for j in updated.item if j.owner <= it.owner) > 0",
    "min(u.id for u in before.user if u.id >= it.owner) == it.owner",
    "unique(u.id for u in before.user if u.id == it.owner)",
    "all(u.role != null or u.id != it.owner for u in before.user)",
    "all(any(j.id == u.id for j in updated.item if j.n == 1) for u in before.user)",
    "all(count(j for j in after.item if j.owner == u.id) <= 50 for u in after.user)",
    "any(j.owner == it.owner for u in before.user if u.id == it.owner for j in updated.item)",
)


@pytest.mark.parametrize("condition", TIED)
def test_what_is_tied_is_compared_with_few_others(condition: str) -> None:
    """Twice the rows, twice the comparisons, and a verdict."""
    body = f"require: [{{id: c, update: item, count: every, that: '{condition}'}}]"
    few, many = (counted(body, n, evaluation, "_compare") for n in (60, 120))
    assert many < 2.4 * few + 60


def test_no_number_of_rows_leaves_a_clause_undecided() -> None:
    users, before = [user(n) for n in range(3000)], [item(n, 1, "a", n) for n in range(3000)]
    after = [{**row, "n": 2} for row in before]
    ends = sides((({"user": users, "item": before}, None), ({"user": users, "item": after}, None)))
    for that, verdict in (
        (OWNED, "MATCH"),
        (OWNED.replace("u.id", "u.id > 0 and u.id"), "DIVERGE"),
    ):
        body = f"require: [{{id: c, update: item, count: every, that: '{that}'}}]"
        file = parse_contract(contract(body).encode(), "c.yaml")
        assert evaluate(file, *ends).judgement.verdict.value == verdict


@pytest.mark.parametrize("clause", CLAUSES)
def test_a_row_is_compared_with_few_others(clause: str) -> None:
    """Twice the rows, twice the comparisons."""
    few, many = (counted(clause.format(OWNED), n, evaluation, "_compare") for n in (40, 80))
    assert many < 2.5 * few


def test_a_witness_looks_at_no_more_than_it_shows() -> None:
    never = "any(u.name == it.t for u in before.user)"
    body = f"require: [{{id: c, update: item, where: '{never}'}}]"
    assert counted(body, 40, gathering, "_nearest") <= 12
