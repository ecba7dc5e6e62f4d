"""Functions over texts, lists and instants: their values, their types, and what nobody knows."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.evaluation.texts import mentions
from statediff.contract.language.context import FALSE, TRUE, UNDEFINED, EvalContext
from statediff.contract.language.english import operand
from statediff.contract.language.parser import ExpressionError, Scope, parse
from statediff.contract.language.written import text_of
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import COMPLETE, Coverage, Enumeration, MemoryChunks, State, build_table
from statediff.model.trace import NoAnswer
from statediff.model.values import Map, Observed, Unobserved
from statediff.model.verdict import Verdict
from statediff.model.view import StateView
from tests.judging import item, run, state

NOTE = EntityType(
    "note",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("title", Kind.TEXT),
        Field("body", Kind.TEXT),
        Field("n", Kind.INT),
        Field("at", Kind.TIMESTAMP),
        Field("seen", Kind.LOCAL_TIMESTAMP),
        Field("tags", Kind.LIST),
        Field("data", Kind.JSON),
    ),
)
SCHEMA = Schema("texts", "1", (NOTE,))
HIDDEN = Unobserved("hidden")
SCOPE = Scope(SCHEMA, {"tags": ("a", "b"), "word": "x"})


def world(*rows: dict[str, Observed], enumeration: Enumeration = COMPLETE) -> EvalContext:
    whole = [{f.name: row.get(f.name) for f in NOTE.fields} for row in rows]
    table = build_table(NOTE, whole, MemoryChunks(), enumeration=enumeration)
    side = StateView(State(SCHEMA, {"note": table}))
    return EvalContext(side, side, NoAnswer("none"), fields_of=lambda _: tuple(NOTE.by_name))


def mask(text: str, **fields: Observed) -> int:
    return outcomes(parse(text, SCOPE), world({"id": 1, **fields}), {})


N = "after.note[1]"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f'"Invitation: " + {N}.title == "Invitation: Tea"', TRUE),
        (f'{N}.title + "" == "Tea"', TRUE),
        (f'{N}.title + {N}.missing_none == "Tea"', None),
        (f'lower({N}.title) == "tea"', TRUE),
        ('lower("STRASSE") == "strasse"', TRUE),
        (f'count({N}.body, "a") == 2', TRUE),
        ('count("aaaa", "aa") == 2', TRUE),
        ('count("aaaa", "") == 0', UNDEFINED),
        (f'search({N}.body, "[Nn]oon$")', TRUE),
        (f'matches({N}.body, "[Nn]oon$")', FALSE),
        (f'ends_with({N}.body, "noon")', TRUE),
        (f'{N}.tags + ["c"] == ["b", "a", "b", "c"]', TRUE),
        (f'same_items({N}.tags, ["a", "b", "b"])', TRUE),
        (f'same_items({N}.tags, ["a", "b"])', FALSE),
        ('same_items([n.title for n in after.note], ["Tea"])', TRUE),
        (f'{N}.tags[0] == "b"', TRUE),
        (f'{N}.tags[len({N}.tags) - 2] == "a"', TRUE),
        (f'{N}.tags[{N}.n - 9] == "b"', FALSE),
        (f'{N}.tags[{N}.n + 9] == "b"', FALSE),
        (f'{N}.tags[{N}.n / 2] == "b"', UNDEFINED),
        ('input.tags[1] == "b"', TRUE),
        (f'timestamp({N}.data.at) == timestamp("2026-01-31T13:00:00+01:00")', TRUE),
        (f'timestamp({N}.data.at) < timestamp("2026-01-31T12:00:01Z")', TRUE),
        (f'timestamp({N}.title) == {N}.at', UNDEFINED),
        (f'date({N}.data.day) == date("2026-01-31")', TRUE),
        (f'timestamp({N}.data.local) == {N}.at', UNDEFINED),
    ],
)  # fmt: skip
def test_a_function_has_its_value(text: str, wanted: int | None) -> None:
    if wanted is None:
        with pytest.raises(ExpressionError):
            parse(text, SCOPE)
        return
    data = Map.of({
        "at": "2026-01-31T12:00:00Z", "day": "2026-01-31", "local": "2026-01-31 12:00:00",
    })  # fmt: skip
    fields: dict[str, Observed] = {
        "title": "Tea", "body": "Tea at noon", "n": 1, "tags": ("b", "a", "b"), "data": data,
    }  # fmt: skip
    assert mask(text, **fields) == wanted
    node = parse(text, SCOPE)
    assert text_of(parse(text_of(node), SCOPE)) == text_of(node)
    assert operand(node)


@pytest.mark.parametrize(
    "text",
    [
        "tomorrow", "31/01/2026", "2026-1-5T1:00Z", "20260131T120000Z", "2026-01-31", "",
        "2026-01-31T25:00:00Z", "2026-02-30T12:00:00Z", "2026-01-31T12:00:00", " 2026-01-31T12:00Z",
        "2026-01-31T12:00:00z", "2026-01-31T12:00:00.1234567Z", "2026-W05-6T12:00Z", "1769860800",
        "\uff12026-01-31T12:00:00Z", "2026-01-31T12:00:00Z\n", "2026-01-31T12:00:60Z",
    ],
)  # fmt: skip
def test_a_text_that_is_no_instant_is_never_guessed(text: str) -> None:
    wanted = 'timestamp(after.note[1].title) == timestamp("2026-01-31T12:00:00Z")'
    assert mask(wanted, title=text) == UNDEFINED


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("after.note[1].n = 5", "`=` is not a comparison; write `==`", ""),
        ("any(x.n = 5 for x in after.note)", "`=` is not a comparison; write `==`", ""),
        ('after.note[1].title == "=" && true', "`&&` is written `and`", ""),
        ('after.note[1].title.lower() == "a"', "only the language's own", "lower(after.note[1].t"),
        ('after.note[1].title.endswith("a")', "only the", 'ends_with(after.note[1].title, "a")'),
        ('appended(it.t, new.t) == "a"', "unknown function", "write `new.F == it.F + …`"),
        ('join(after.note[1].tags, ", ") == ""', "unknown function", "compare the list"),
        ('search("a+", after.note[1].title)', "is a text literal", "the text comes first"),
        ("lower(after.note[1].n) == 1", "takes texts", ""),
        ("same_items(after.note[1].tags, 1)", "compares two lists", ""),
        ("same_items([1], [true])", "can never equal", ""),
        ("same_items(after.note, after.note)", "compares two lists", "range over"),
        ('"a" + 1 == 1', "a number is expected", ""),
        ("after.note[1].tags[-1] == 1", "counts from 0", "len(after.note[1].tags) - 1"),
        ("after.note[1].tags[after.note[1].title] == 1", "an index is a number", ""),
        ("timestamp(after.note[1].n) == after.note[1].at", "takes a text", ""),
        ("timestamp(after.note[1].title) == after.note[1].seen", "can never equal", ""),
    ],
)
def test_what_is_wrong_has_the_words_for_it(text: str, message: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as found:
        parse(text, SCOPE)
    assert message in str(found.value)
    assert hint in found.value.hint


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f'"a" + {N}.title == "ab"', TRUE | FALSE | UNDEFINED),
        (f'lower({N}.title) == "ab"', TRUE | FALSE | UNDEFINED),
        (f'count({N}.title, "a") == 1', TRUE | FALSE | UNDEFINED),
        (f'search({N}.title, "a")', TRUE | FALSE | UNDEFINED),
        (f'timestamp({N}.title) == {N}.at', TRUE | FALSE | UNDEFINED),
        (f'{N}.tags + ["a"] == ["a"]', TRUE | FALSE | UNDEFINED),
        (f'["a"][{N}.n] == "a"', None),
        (f'input.tags[{N}.n] == "a"', TRUE | FALSE | UNDEFINED),
    ],
)  # fmt: skip
def test_what_is_not_observed_leaves_the_outcome_open(text: str, wanted: int | None) -> None:
    if wanted is None:
        with pytest.raises(ExpressionError):
            parse(text, SCOPE)
        return
    assert mask(text, title=HIDDEN, tags=HIDDEN, n=HIDDEN, at=None) == wanted


ITEMS = st.lists(st.sampled_from(["a", "b", None]), max_size=3)


def _completions(values: Iterable[str | None]) -> Iterable[tuple[str, ...]]:
    return product(*[("a", "b", "c", "d") if v is None else (v,) for v in values])


@given(one=ITEMS, two=ITEMS)
def test_same_items_is_decided_exactly_where_completions_agree(
    one: list[str | None], two: list[str | None]
) -> None:
    """None stands for an item whose value nobody has seen."""
    rows: list[dict[str, Observed]] = [
        {"id": number, "n": side, "title": HIDDEN if value is None else value}
        for number, (side, value) in enumerate([(1, v) for v in one] + [(2, v) for v in two])
    ]
    sides = (f"[x.title for x in after.note if x.n == {side}]" for side in (1, 2))
    text = f"same_items({', '.join(sides)})"
    found = outcomes(parse(text, SCOPE), world(*rows), {})
    real = {sorted(a) == sorted(b) for a in _completions(one) for b in _completions(two)}
    assert found & ~UNDEFINED == sum({TRUE if same else FALSE for same in real})


@given(one=ITEMS, more=st.booleans())
def test_an_incomplete_list_has_only_the_items_that_it_must(
    one: list[str | None], more: bool
) -> None:
    rows: list[dict[str, Observed]] = [
        {"id": number, "title": HIDDEN if value is None else value}
        for number, value in enumerate(one)
    ]
    cut = Enumeration(Coverage.INCOMPLETE, "cut") if more else COMPLETE
    text = 'same_items([x.title for x in after.note], ["a", "b"])'
    found = outcomes(parse(text, SCOPE), world(*rows, enumeration=cut), {})
    extra = [()] + ([("a",), ("b",), ("a", "b")] if more else [])
    real = {sorted((*a, *b)) == ["a", "b"] for a in _completions(one) for b in extra} | (
        {False} if more else set()
    )
    assert found & ~UNDEFINED == sum({TRUE if same else FALSE for same in real})


@given(values=st.lists(st.sampled_from(["a", "b", "c"]), max_size=4))
def test_same_items_means_any_order(values: list[str]) -> None:
    context = world({"id": 1, "tags": tuple(values)})
    for order in permutations(values):
        listed = ", ".join(f'"{value}"' for value in order)
        assert outcomes(parse(f"same_items({N}.tags, [{listed}])", SCOPE), context, {}) == TRUE


def test_literals_in_functions_go_through_the_rules_of_the_field() -> None:
    rule = "canonicalize: [{use: casefold@1, on: [item.t], because: names are typed by hand}]\n"
    before, after = state({"item": [item(1, 1, "Tea")]}), state({"item": [item(1, 1, "Tea NOON")]})
    for condition in (
        'contains(new.t, "TEA n")',
        'starts_with(new.t, "TEA ")',
        'ends_with(new.t, "Noon")',
        'count(new.t, "O") == 2',
        'new.t == it.t + " Noon"',
        'lower(new.t) == "TEA noon"',
    ):
        body = f"{rule}require:\n  - id: r\n    update: item\n    that: {condition}\n"
        assert run(body, before, after).judgement.verdict is Verdict.MATCH, condition


def test_a_text_appended_twice_is_caught() -> None:
    body = (
        "require:\n  - id: r\n    update: item\n    fields: [t]\n"
        '    that: new.t == it.t + "; done"\n'
    )
    before = state({"item": [item(1, 1, "Tea")]})
    once, twice = (state({"item": [item(1, 1, "Tea" + "; done" * n)]}) for n in (1, 2))
    assert run(body, before, once).judgement.verdict is Verdict.MATCH
    assert run(body, before, twice).judgement.verdict is Verdict.DIVERGE


def test_a_name_within_a_word_is_passed_over_and_found_behind_it() -> None:
    assert mentions("Joanna and Ann", "Ann")
    assert not mentions("Annabel, Joann", "Ann")
    assert mentions("on 12\r\n March", "12 March")
    assert not mentions("112 March", " ")
