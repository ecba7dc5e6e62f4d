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


SEVERAL = "Order 1009: refunded 39 EUR, not 45 USD; unpaid 7 EUR, paid: **8** EUR."
NAMES = ("Ada", "Ada Lovelace", "Grace", "C++")


@pytest.mark.parametrize(
    ("text", "asked", "wanted"),
    [
        # A number is read where it is there in one way.
        ("I refunded 39.00 EUR.", "number", Decimal("39.00")),
        ("Done: 39.", "number", Decimal(39)),
        ("It is **1,234.50**!", "number", Decimal("1234.50")),
        ("(-5)", "number", Decimal(-5)),
        ("The balance is −5 now", "number", Decimal(-5)),
        ("39 and again 39.0", "number", Decimal(39)),
        ("on 2026-01-31 at 12:30 I closed 3 tickets", "number", Decimal(3)),
        ("ticket A12 is the 2nd", "number", None),
        ("three tickets", "number", None),
        ("", "number", None),
        ("It is 1\u00a0234.50 now", "number", Decimal("1234.50")),
        ("1\u202f234\u202f567", "number", Decimal(1234567)),
        ("10.0", "number", Decimal(10)),
        ("5\u00a0EUR", "number", Decimal(5)),
        ("12\u00a034", "number", Unobserved),
        ("1\u00a0234\u202f567", "number", Unobserved),
        ("1\u200b234", "number", Unobserved),
        ("\u206039", "number", Unobserved),
        ("39\ufeff", "number", Unobserved),
        ("39 or 45", "number", Unobserved),
        ("10-20", "number", Unobserved),
        ("version 1.2.3", "number", Unobserved),
        ("1,50 EUR", "number", Unobserved),
        ("12,34,567", "number", Unobserved),
        ("٣٩ EUR or 39", "number", Unobserved),
        ("9" * 101, "number", Unobserved),
        # Words beside a value choose it.
        (SEVERAL, "refunded {number}", 39),
        (SEVERAL, "refunded {number} EUR", 39),
        (SEVERAL, "{number} USD", 45),
        (SEVERAL, "paid {number}", 8),
        ("39EUR of 2 orders", "{number} eur", 39),
        (SEVERAL, "{number} EUR", Unobserved),
        # The comma is the point where that is declared.
        ("1.234,50 EUR", "comma number", Decimal("1234.50")),
        ("1,234.50", "comma number", Unobserved),
        # So is a quoted text ...
        ('I sent "Tea at noon".', "{quoted}", "Tea at noon"),
        ("I sent “Tea”, as “Tea”.", "{quoted}", "Tea"),
        ("I sent «Tea» or `Tea`", "{quoted}", "Tea"),
        ("It's Ada's, isn't it?", "{quoted}", None),
        ('"Tea" or "Coffee"', "{quoted}", Unobserved),
        ('5" screen', "{quoted}", Unobserved),
        ('"Tea" and 5"', "{quoted}", Unobserved),
        # ... and one of several names.
        ("I asked Ada.", NAMES, "Ada"),
        ("I asked Ada Lovelace; Ada Lovelace agreed.", NAMES, "Ada Lovelace"),
        ("Adam and adaptable", NAMES, None),
        ("Ada or Grace", NAMES, Unobserved),
        ("in C++, of course", ("C++",), "C++"),
    ],
)
def test_a_value_is_read_where_it_is_there_in_one_way(
    text: str, asked: str | tuple[str, ...], wanted: object
) -> None:
    found = extracted(text, asked)
    assert isinstance(found, Unobserved) if wanted is Unobserved else found == wanted


@given(text=st.text(max_size=60), number=st.integers(0, 10**6))
def test_no_text_around_a_number_makes_it_another_one(text: str, number: int) -> None:
    """The number decided is the one that was written, or one that the text itself holds."""
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
