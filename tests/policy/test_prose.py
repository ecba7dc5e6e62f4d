"""Answers in prose: read strictly, absent where nothing is there, unknown where two things are."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.contract.clauses.answer import Answer
from statediff.contract.file import parse_contract
from statediff.errors import ContractError
from statediff.kernel import TrialFacts, evaluate, replay
from statediff.kernel.policy.admission import read_answer
from statediff.model.trace import NoAnswer
from statediff.model.values import Map, Observed, Unobserved, Value
from statediff.model.verdict import Judgement
from statediff.scores import why
from tests.judging import (
    DIVERGE,
    FAILS,
    HOLDS,
    INCONCLUSIVE,
    MATCH,
    UNKNOWN,
    capture,
    contract,
    part,
    state,
    user,
)


def extracted(text: str, asked: str | tuple[str, ...]) -> Observed:
    form = Answer(extract={"x": asked})
    found = read_answer(form, text)
    assert not isinstance(found, NoAnswer)
    assert found["text"] == text
    return found.get("x")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("I refunded 39.00 EUR.", Decimal("39.00")),
        ("Done: 39.", Decimal(39)),
        ("It is **1,234.50**!", Decimal("1234.50")),
        ("(-5)", Decimal(-5)),
        ("The balance is −5 now", Decimal(-5)),
        ("39 and again 39.0", Decimal(39)),
        ("on 2026-01-31 at 12:30 I closed 3 tickets", Decimal(3)),
        ("ticket A12 is the 2nd", None),
        ("three tickets", None),
        ("", None),
        ("It is 1\u00a0234.50 now", Decimal("1234.50")),
        ("1\u202f234\u202f567", Decimal(1234567)),
        ("10.0", Decimal(10)),
        ("5\u00a0EUR", Decimal(5)),
        ("12\u00a034", Unobserved),
        ("1\u00a0234\u202f567", Unobserved),
        ("1\u200b234", Unobserved),
        ("\u206039", Unobserved),
        ("39\ufeff", Unobserved),
        ("39 or 45", Unobserved),
        ("10-20", Unobserved),
        ("version 1.2.3", Unobserved),
        ("1,50 EUR", Unobserved),
        ("12,34,567", Unobserved),
        ("٣٩ EUR or 39", Unobserved),
        ("9" * 101, Unobserved),
    ],
)
def test_a_number_is_read_where_it_is_there_in_one_way(text: str, wanted: object) -> None:
    found = extracted(text, "number")
    if wanted is Unobserved:
        assert isinstance(found, Unobserved)
    else:
        assert found == wanted


def test_words_beside_a_value_choose_it() -> None:
    text = "Order 1009: refunded 39 EUR, not 45 USD; unpaid 7 EUR, paid: **8** EUR."
    assert extracted(text, "refunded {number}") == 39
    assert extracted(text, "refunded {number} EUR") == 39
    assert extracted(text, "{number} USD") == 45
    assert extracted(text, "paid {number}") == 8
    assert extracted("39EUR of 2 orders", "{number} eur") == 39
    assert isinstance(extracted(text, "{number} EUR"), Unobserved)


def test_the_comma_is_the_point_where_that_is_declared() -> None:
    assert extracted("1.234,50 EUR", "comma number") == Decimal("1234.50")
    assert isinstance(extracted("1,234.50", "comma number"), Unobserved)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('I sent "Tea at noon".', "Tea at noon"),
        ("I sent “Tea”, as “Tea”.", "Tea"),
        ("I sent «Tea» or `Tea`", "Tea"),
        ("It's Ada's, isn't it?", None),
        ('"Tea" or "Coffee"', Unobserved),
        ('5" screen', Unobserved),
        ('"Tea" and 5"', Unobserved),
    ],
)
def test_a_quoted_text_is_read_where_it_is_there_in_one_way(text: str, wanted: object) -> None:
    found = extracted(text, "{quoted}")
    assert isinstance(found, Unobserved) if wanted is Unobserved else found == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("I asked Ada.", "Ada"),
        ("I asked Ada Lovelace; Ada Lovelace agreed.", "Ada Lovelace"),
        ("Adam and adaptable", None),
        ("Ada or Grace", Unobserved),
    ],
)
def test_a_name_is_read_where_it_is_there_in_one_way(text: str, wanted: object) -> None:
    found = extracted(text, ("Ada", "Ada Lovelace", "Grace", "C++"))
    assert isinstance(found, Unobserved) if wanted is Unobserved else found == wanted
    assert extracted("in C++, of course", ("C++",)) == "C++"


@given(text=st.text(max_size=60), number=st.integers(0, 10**6))
def test_no_text_around_a_number_makes_it_another_one(text: str, number: int) -> None:
    """What is decided is the number that was written, or one that the text itself holds."""
    found = extracted(f"{text} paid {number} EUR.", "paid {number} EUR")
    assert found == number or isinstance(found, Unobserved)


BODY = """\
answer:
  extract:
    total: total {number}
    who: [Ada, Grace]
    said: quoted
  claims:
    - {id: total, that: answer.total == count(u for u in after.user)}
    - {id: who, that: "all(u.name == answer.who for u in after.user)"}
    - {id: named, that: 'all(mentions(answer.text, u.name) for u in after.user)'}
"""


def asked(answer: Value | NoAnswer) -> tuple[Judgement, dict[str, object]]:
    known = state({"user": [user(1, "user", "Ada")]})
    file = parse_contract(contract(BODY).encode(), "c.yaml")
    ends = (capture("before", part("before", known)), capture("after", part("after", known)))
    done = evaluate(file, *ends, answer=answer, facts=TrialFacts("trial"))
    assert replay(done.bundle).verdict is done.judgement.verdict
    return done.judgement, {c.clause: c.truth for c in done.judgement.clauses}


def test_a_contract_claims_what_prose_says() -> None:
    right, _ = asked('Ada is there; "yes", the total: 1.')
    assert right.verdict is MATCH
    wrong, truths = asked('Grace is there; "yes", the total is 1, so total 2.')
    assert wrong.verdict is DIVERGE
    assert (truths["total"], truths["who"], truths["named"]) == (FAILS, FAILS, FAILS)
    unclear, truths = asked('Ada is there, "yes". In total 1, or in total 2.')
    assert (unclear.verdict, truths["total"], truths["who"]) == (INCONCLUSIVE, UNKNOWN, HOLDS)
    assert truths["answer"] is UNKNOWN
    assert why(unclear).startswith("agent: "), "who hedges is the reason, and nobody else"
    missing, truths = asked("Ada is there")
    assert (missing.verdict, truths["answer"], truths["total"]) == (DIVERGE, FAILS, FAILS)
    other, truths = asked(Map.of({"total": 1}))
    assert (other.verdict, truths["answer"]) == (DIVERGE, FAILS)
    assert asked(NoAnswer("none"))[0].verdict is DIVERGE


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("{extract: {}, schema: {a: int}}", "has no `schema`"),
        ("{extract: {text: number}}", "another name"),
        ("{extract: {a: []}}", "expected text or a list"),
        ("{extract: {a: numbers}}", "a list of names"),
        ("{extract: {a: '{number} of {number}'}}", "a list of names"),
        ("{extract: {a: 'number}'}}", "a list of names"),
        ("{form: text}", "write `extract`"),
    ],
)
def test_a_form_that_reads_nothing_is_refused(answer: str, said: str) -> None:
    with pytest.raises(ContractError, match=said):
        parse_contract(contract(f"answer: {answer}\n").encode(), "c.yaml")


@pytest.mark.parametrize(
    ("given", "truth"),
    [(10, HOLDS), (Decimal("10.0"), HOLDS), (Decimal("1e1"), HOLDS), (Decimal("10.5"), FAILS),
     (Decimal("NaN"), FAILS), (True, FAILS), ("10", FAILS)],
)  # fmt: skip
def test_a_whole_number_is_an_int_however_it_is_written(given: Value, truth: object) -> None:
    body = "answer: {schema: {n: int}, claims: ['answer.n == 10']}\n"
    ends = (capture(m, part(m, state({"user": []}))) for m in ("before", "after"))
    file = parse_contract(contract(body).encode(), "c.yaml")
    done = evaluate(file, *ends, answer=Map.of({"n": given}), facts=TrialFacts("trial"))
    assert {c.clause: c.truth for c in done.judgement.clauses}["answer"] is truth
