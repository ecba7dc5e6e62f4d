"""Laws of three-valued evaluation.

Decided truth is the truth of every completion; where each unobserved value occurs once, an
undecided outcome has completions that disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import FALSE, TRUE, UNDEFINED, EvalContext, Trail
from statediff.contract.language.parser import ExpressionError, Scope, parse
from statediff.model.batches import Row
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import COMPLETE, Coverage, Enumeration, MemoryChunks, State, build_table
from statediff.model.trace import NoAnswer
from statediff.model.values import Observed, Unobserved
from statediff.model.view import StateView

ITEM = EntityType(
    "item",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("n", Kind.INT),
        Field("m", Kind.INT, is_nullable=False),
        Field("t", Kind.TEXT),
        Field("next", Kind.INT, reference="item"),
        Field("tags", Kind.LIST),
    ),
)
SCHEMA = Schema("laws", "1", (ITEM,))
NUMBERS = (None, 0, 1, 2)
TEXTS = (None, "a", "b")
POINTERS = (None, 1, 9)
HIDDEN = Unobserved("hidden")
INCOMPLETE = Enumeration(Coverage.INCOMPLETE, "cut short")
DOMAINS: dict[str, tuple[Observed, ...]] = {
    "n": NUMBERS, "m": (0, 1, 2), "t": TEXTS, "next": POINTERS,
    "tags": (None, (), ("a",), ("a", "b")),
}  # fmt: skip


def view(rows: list[Row], enumeration: Enumeration = COMPLETE) -> StateView:
    table = build_table(ITEM, rows, MemoryChunks(), enumeration=enumeration)
    return StateView(State(SCHEMA, {"item": table}))


parsed = lru_cache(64)(lambda text: parse(text, Scope(SCHEMA)))


def mask_of(text: str, rows: list[Row], enumeration: Enumeration = COMPLETE) -> int:
    return outcomes(parsed(text), world_of(rows, enumeration), {})


def world_of(rows: list[Row], enumeration: Enumeration = COMPLETE) -> EvalContext:
    side = view(rows, enumeration)
    return EvalContext(
        side, side, NoAnswer("none"), fields_of=lambda _: tuple(ITEM.by_name), trail=Trail()
    )


def completions(rows: list[Row], enumeration: Enumeration) -> Iterator[list[Row]]:
    """Every state that agrees with what was observed (with at most one entity more)."""
    places = [(i, f) for i, row in enumerate(rows) for f in row if row[f] is HIDDEN]
    extra: list[list[Row]] = [[]]
    if not enumeration.is_complete:
        extra += [
            [{"id": 9, "n": n, "m": m, "t": t, "next": p, "tags": tags}]
            for n, m, t, p, tags in (
                (None, 0, None, None, None),
                (1, 2, "a", 1, ("a",)),
                (2, 0, "b", 9, ()),
            )
        ]
    for values in product(*(DOMAINS[f] for _, f in places)):
        filled = [dict(row) for row in rows]
        for (index, name), value in zip(places, values, strict=True):
            filled[index][name] = value
        for more in extra:
            yield filled + more


def terms(variable: str) -> st.SearchStrategy[str]:
    return st.sampled_from([
        f"{variable}.n == 1", f"{variable}.n > 0", f"{variable}.m <= 1", f"{variable}.n == null",
        f'{variable}.t == "a"', f'{variable}.t != null', f"{variable}.n + {variable}.m > 2",
        f"{variable}.next.m == 1", f"{variable}.next == 1", f"exists(before.item[{variable}.n])",
        f"before.item[{variable}.n].m == 1", f"exists(before.item[{variable}.n + 1])",
        f'contains({variable}.t, "a")', f"{variable}.m in [0, 1]", f"2 / {variable}.m > 1",
        f"{variable}.n in before.item", f"-{variable}.n < 2", f"{variable}.n < {variable}.m",
        f"{variable}.m + {variable}.m in before.item", f"1 in [{variable}.n + 1, {variable}.m]",
        f"[{variable}.n, {variable}.m] != [1, 1]", f"unique([{variable}.n + 1, {variable}.m])",
        f'"a" in {variable}.tags', f"len({variable}.tags) == 1", f"{variable}.tags == [\"a\"]",
        f"all(g == {variable}.t for g in {variable}.tags)", f"any(1 == 1 for g in {variable}.tags)",
        f"unique(g for g in {variable}.tags if g != {variable}.t)", f"unique({variable}.tags)",
        f"reaches({variable}, before.item[2], via=[item.next])",
        f"reaches(before.item[1], {variable}, via=[item.next])",
        f"reaches({variable}.next, before.item[{variable}.n], via=[(item.next, item.id)])",
    ])  # fmt: skip


def conditions(variable: str) -> st.SearchStrategy[str]:
    return st.recursive(
        terms(variable),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
                lambda p: f"({p[0]} {p[1]} {p[2]})"),
            inner.map(lambda c: f"(not {c})")),
        max_leaves=4,
    )  # fmt: skip


def expressions() -> st.SearchStrategy[str]:
    whole = st.one_of(
        st.tuples(st.sampled_from(["all", "any"]), conditions("x")).map(
            lambda p: f"{p[0]}({p[1]} for x in before.item)"),
        st.tuples(st.sampled_from(["all", "any"]), conditions("x"), terms("x")).map(
            lambda p: f"{p[0]}({p[1]} for x in before.item if {p[2]})"),
        st.tuples(st.sampled_from(["sum", "min", "max"]), st.sampled_from("nm"),
                  terms("x")).map(
            lambda p: f"{p[0]}(x.{p[1]} for x in before.item if {p[2]}) >= 1"),
        st.tuples(st.sampled_from(["x", "x.n", "x.n + 1"]), terms("x")).map(
            lambda p: f"count({p[0]} for x in before.item if {p[1]}) == 1"),
        st.tuples(st.sampled_from(["x.n", "x.n + x.m", "1"]), terms("x")).map(
            lambda p: f"unique({p[0]} for x in before.item if {p[1]})"),
        st.sampled_from(["unique(x.n for x in before.item)", "count(before.item) == 1"]),
        conditions("before.item[1]"),
        terms("y").map(lambda c: f"any(x.m == y.m and {c} for x in before.item "
                                 f"for y in before.item if x.id != y.id)"),
    )  # fmt: skip
    return st.one_of(
        whole,
        st.tuples(whole, st.sampled_from(["and", "or"]), st.one_of(whole, st.just("1 == 1"))).map(
            lambda p: f"{p[0]} {p[1]} {p[2]}"
        ),
    )


def cells(name: str) -> st.SearchStrategy[Observed]:
    return st.one_of(st.sampled_from(DOMAINS[name]), st.just(HIDDEN))


@st.composite
def partial_states(draw: st.DrawFn) -> tuple[list[Row], Enumeration]:
    rows: list[Row] = []
    budget = 2
    for key in range(1, draw(st.integers(0, 2)) + 1):
        row: Row = {"id": key}
        for name in DOMAINS:
            cell = draw(cells(name))
            if cell is HIDDEN:
                budget -= 1
                if budget < 0:
                    cell = DOMAINS[name][-1]
            row[name] = cell
        rows.append(row)
    return rows, draw(st.sampled_from([COMPLETE, INCOMPLETE]))


@given(expressions(), partial_states())
def test_what_every_completion_can_give_is_in_the_outcome(
    text: str, partial: tuple[list[Row], Enumeration]
) -> None:
    rows, enumeration = partial
    possible = mask_of(text, rows, enumeration)
    for completed in completions(rows, enumeration):
        exact = mask_of(text, completed)
        assert exact in (TRUE, FALSE, UNDEFINED)
        assert exact & possible, (text, completed)


@given(
    st.sampled_from(["all", "any"]),
    terms("x"),
    st.sampled_from(list(DOMAINS)),
    st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from(["a", "b"])), max_size=2),
)
def test_an_undecided_outcome_has_two_completions_that_disagree_when_a_value_occurs_once(
    quantifier: str, condition: str, hidden: str, others: list[tuple[int, str]]
) -> None:
    if condition.count(f".{hidden}") != 1 or "reaches" in condition:
        return  # a walk looks at an edge once for each entity that it begins at
    rows: list[Row] = [
        {"id": 1, "n": 1, "m": 1, "t": "a", "next": 1, "tags": ("a",), hidden: HIDDEN}
    ]
    rows += [
        {"id": i, "n": n, "m": n, "t": t, "next": 1, "tags": ()}
        for i, (n, t) in enumerate(others, 2)
    ]
    text = f"{quantifier}({condition} for x in before.item)"
    possible = mask_of(text, rows)
    seen = {mask_of(text, completed) for completed in completions(rows, COMPLETE)}
    if possible not in (TRUE, FALSE, UNDEFINED):
        assert len(seen) > 1, (text, rows, possible)


@given(conditions("x"), partial_states(), st.sampled_from(["all", "any"]))
def test_which_entity_comes_first_changes_nothing(
    condition: str, partial: tuple[list[Row], Enumeration], quantifier: str
) -> None:
    assume("next" not in condition and "before" not in condition)
    rows, enumeration = partial
    text = f"{quantifier}({condition} for x in before.item)"
    swapped = [{**row, "id": len(rows) - at} for at, row in enumerate(rows)]
    assert mask_of(text, rows, enumeration) == mask_of(text, swapped, enumeration)


@pytest.mark.parametrize(
    "text",
    [
        "before.item", "before.itm[1].n == 1", "before.item[1].x == 1", "it.n == 1", "1 + true",
        "__import__('os')", "before.__class__", "before.item[1].n.__class__ == 1",
        "(lambda: 1)()", "[x for x in before.item]", "before.item[1].t > 1", "f'{1}' == ''",
        "before.item[1].n is null", "9 ** 9 ** 9 > 1", "x if 1 == 1 else 2", "exec('1')",
        "before.item[1, 2].n == 1", "None == 1", "before.item[1].t == 1", "(" * 300 + "1",
        "not " * 5000 + "1 == 1", "matches(before.item[1].t, before.item[2].t)", "1 == 1;2", "a:=1",
        'matches("a", "(")', "all(1 for x in before.item)", "sum(x for x in before.item) == 1",
        "\x00", "1 == 1 == ", "before.item[1].n == input.secret", "answer.x == 1", "calls == 1",
        "all(before.item[1].n == 1)", "1 < 'a'", "before == after",
    ],
)  # fmt: skip
def test_what_is_not_of_the_language_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, Scope(SCHEMA))
    assert 0 <= caught.value.offset <= len(text)


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_a_typed_error(text: str) -> None:
    with suppress(ExpressionError):
        parse(text, Scope(SCHEMA))
