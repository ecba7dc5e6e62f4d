"""Many changed rows under clauses that range over other rows: no more work for each of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.contract.evaluation import evaluate as evaluation
from statediff.contract.evaluation import gathering, likely
from statediff.contract.language import context as language
from statediff.evaluate import evaluate, parse_contract
from statediff.model.readings import Capture
from statediff.policy.matching import JudgingContext
from tests.judging import (
    CUT,
    HIDDEN,
    capture,
    contract,
    document,
    item,
    part,
    state,
    user,
)

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


def judgement(
    body: str, world: tuple[Any, Any], sorted_after: int, most: int
) -> tuple[Any, list[Any]]:
    """The judged trial, and what each evaluation in it came to."""
    contexts: list[Any] = []
    fresh = JudgingContext.eval_context

    def kept(*given: Any) -> Any:
        contexts.append(fresh(*given))
        return contexts[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(likely, "SORTED_AFTER", sorted_after)
        patch.setattr(likely, "MAX_STEPS", most)
        patch.setattr(language, "MAX_STEPS", most)
        patch.setattr(JudgingContext, "eval_context", kept)
        done = evaluate(parse_contract(contract(body).encode(), "c.yaml"), *sides(world))
    seen = [
        (c.steps, c.causes, c.undefined, [entry._replace(looked=None) for entry in c.seen])
        for c in contexts
    ]
    return (document(done.judgement), done), seen


@given(
    worlds(), st.sampled_from(CONDITIONS), st.sampled_from(CLAUSES), st.sampled_from([40, 10**6])
)
def test_sorted_entities_judge_as_each_does(
    world: tuple[Any, Any], condition: str, clause: str, most: int
) -> None:
    body = clause.format(condition)
    judgement(body, world, 10**9, most)  # a contract that is met for the first time is tried out
    (by_each, each), seen = judgement(body, world, 10**9, most)
    (by_sorted, sorted_), seen_sorted = judgement(body, world, 0, most)
    assert by_sorted == by_each
    assert seen_sorted == seen
    assert sorted_ == each


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


@pytest.mark.parametrize("clause", CLAUSES)
def test_a_row_is_compared_with_few_others(clause: str) -> None:
    """Twice the rows, twice the comparisons."""
    few, many = (counted(clause.format(OWNED), n, evaluation, "_compare") for n in (40, 80))
    assert many < 2.5 * few


def test_a_witness_looks_at_no_more_than_it_shows() -> None:
    never = "any(u.name == it.t for u in before.user)"
    body = f"require: [{{id: c, update: item, where: '{never}'}}]"
    assert counted(body, 40, gathering, "_nearest") <= 12
