"""The numbers beside a verdict: precision, recall and the forbidden-effect rate, exact."""

from __future__ import annotations

from typing import Any

import pytest

from tests.judging import item, judged, user

NOTHING: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("body", "after", "expected"),
    [
        ("forbid: [{delete: user}]\n", {}, (None, None, "0")),
        ("require: [{create: item}]\n", {}, (None, "0", "0")),
        ("require: [{create: item}]\n", {"item": [item(1)]}, ("1", "1", "0")),
        ("require: [{create: item}]\nallow: [{create: log}]\n",
         {"item": [item(1)], "log": [{"what": "a", "n": 1}]}, ("1", "1", "0")),
        ("require: [{create: item, count: 2}]\n",
         {"item": [item(1)], "log": [{"what": "a", "n": 1}]}, ("1/2", "1/2", "1/2")),
        ("require: [{create: item, count: {min: 0}}]\n", {"item": [item(1)]}, ("1", None, "0")),
        ("require:\n  - {that: 'exists(after.item[1])'}\n", {"item": [item(1)]}, ("0", "1", "1")),
        ("forbid: [{create: item}]\nallow: [{create: item}]\n", {"item": [item(1)]},
         ("0", None, "1")),
        ("effects: [{on: create item, reversibility: reversible}]\nforbid: [{create: item}]\n",
         {"item": [item(1)]}, ("0", None, "1")),
    ],
)  # fmt: skip
def test_the_numbers_are_exact_and_none_where_undefined(
    body: str, after: Any, expected: tuple[Any, Any, str]
) -> None:
    numbers = judged(body, NOTHING, after).metrics
    shown = (numbers.precision, numbers.recall, numbers.forbidden_effect_rate)
    assert tuple(None if n is None else str(n) for n in shown) == expected


def test_risk_weighs_by_label() -> None:
    body = "forbid: [{delete: user}]\nallow: [{create: item}]\n"
    numbers = judged(body, {"user": [user(1)]}, {"item": [item(1)]}).metrics
    assert str(numbers.forbidden_effect_rate) == "10/13"


def test_what_is_hidden_weighs_only_where_it_is_forbidden() -> None:
    body = (
        "canonicalize: [{use: casefold@1, on: [item.t], because: case is noise}]\n"
        "forbid:\n  - {update: item, where: 'it.id == 1'}\nallow: [{update: item}]\n"
    )
    before = {"item": [item(1), item(2), item(3)]}
    after = {"item": [item(1, t="A"), item(2, 5), item(3, t="A")]}
    assert str(judged(body, before, after).metrics.forbidden_effect_rate) == "1/2"
