"""A contract's clauses about the run: their forms and names, and what is wrong with others."""

from __future__ import annotations

import ast

import pytest

from statediff.contract.file import parse_contract
from statediff.contract.language.parser import parse_python
from statediff.errors import ContractError
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import Map
from tests.judging import FAILS, HOLDS, contract, run, state, truths

REST = "forbid: [{delete: user}]\n"


def problems(body: str) -> list[str]:
    with pytest.raises(ContractError) as caught:
        run(REST + body, {}, {})
    return [str(p) for p in caught.value.problems]


def step(text: str) -> str:
    return "steps:\n  - " + text.replace("\n", "\n    ") + "\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (step("id: x"), "needs one of always, on, where"),
        (step("always: exists(now.item[1])\non: a\nthat: 1 == 1"), "names both always and on"),
        (step("on: a"), "`on` needs `that`"),
        (step("where: call.tool == 'a'"), "`where` needs `count`"),
        (step("always: exists(now.item[1])\nthat: 1 == 1"), "`that` belongs to `on`"),
        (step("on: create item"), "`on` needs `that` or `before`"),
        (step("always: exists(now.item[1])\nbefore: create item"), "`before` belongs to `on`"),
        (step("always: exists(now.item[1])\ncount: 1"), "`count` belongs to `where`"),
        (step("on: a\nthat: 1 == 1\nduring: calls"), "`during` belongs to `always`"),
        (step("on: make item\nbefore: create user"), "an operation and a type"),
        (step("on: create itm\nbefore: create user"), "unknown entity type `itm`"),
        (step("on: create item\nbefore: create item"), "cannot come before itself"),
        (step("on: {}\nthat: 1 == 1"), "needs `tool`, `classes` or both"),
        (step("on: {classes: [reads]}\nthat: 1 == 1"), "`classes`, item 1: expected one of `read`"),
        (step("where: call.tool == 'a'\ncount: {min: 0}"), "any number of calls is no assertion"),
        (step("where: call.tool == 'a'\ncount: {min: 2, max: 1}"), "max is below min"),
        (step("always: exists(after.item[1])"), "does not read `now`"),
        (step("always: exists(now.itm[1])"), "unknown entity type `itm`"),
        (step("always: call.tool == 'a'"), "`call` belongs to steps and turns"),
        (step("on: a\nthat: exists(now.item[1])"), "`now` belongs to steps and turns"),
        (step("on: a\nthat: call.toool == 'a'"), "a call has no field `toool`"),
        (step("on: a\nthat: calls.tool == 'a'"), "cannot be read from the calls"),
        (step("on: a\nthat: call.class == 'reads'"), "no call has the class 'reads'"),
        (step("on: a\nthat: call.class in ['read', 'x']"), "no call has the class 'x'"),
        (step("on: a\nthat: call.attempt == 'one'"), "can never equal"),
        (step("on: a\nthat: call == before.item[1]"), "can never equal"),
        (step("on: a\nthat: any(call.tool == 'a' for call in calls)"), "already has a meaning"),
        (step("id: frame\nalways: exists(now.item[1])"), "a clause that every contract has"),
        ("actions: {}\n", "needs `allow`, `forbid` or `count`"),
        ("actions: {allow: {}}\n", "needs `classes`, `tool` or both"),
        ("actions: {count: 0}\n", "within how many attempts"),
        (
            "actions: {allow: {tool: [a]}, forbid: {tool: [a]}}\n",
            "`a` is both allowed and forbidden",
        ),
        ("turns:\n  - {prompt: Hi}\n", "missing key `require`"),
        ("turns:\n  - {prompt: Hi, require: []}\n", "a list of conditions"),
        ("turns:\n  - {prompt: Hi, require: ['reply']}\n", None),
        (
            "turns:\n  - {prompt: Hi, replies: [{prompt: a}, {prompt: b}], require: ['reply']}\n",
            "it is last",
        ),
        ("turns:\n  - {prompt: Hi, require: ['call.tool == \"a\"']}\n", "`call` belongs to steps"),
        ("turns:\n  - {prompt: Hi, require: [exists(now.item[1])]}\n", "on a line of its own"),
        ("require:\n  - that: count(c for c in calls) == 0\n", "`calls` belongs to steps"),
        ("require:\n  - that: exists(now.item[1])\n", "`now` belongs to steps"),
    ],
)
def test_what_is_wrong_is_said(body: str, message: str | None) -> None:
    if message is None:
        assert run(REST + body, {}, {})
        return
    found = problems(body)
    assert any(message in problem for problem in found), found


def test_ids_are_distinct_across_sections() -> None:
    body = "steps:\n  - id: same\n    always: exists(now.item[1])\n"
    both = body + "turns:\n  - id: same\n    prompt: Hi\n    require: ['true']\n"
    with pytest.raises(ContractError, match="expected an id of its own, found `same` again"):
        parse_contract(contract(both).encode(), "c.yaml")
    named = "steps:\n  - id: actions-allow\n    always: exists(now.item[1])\n"
    assert any(
        "two clauses are called `actions-allow`" in p
        for p in problems(named + "actions: {allow: {classes: [read]}}\n")
    )
    effects = "effects: [{on: create item, retry_safe: false}]\n"
    retried = named.replace("actions-allow", "retried-create-item")
    assert any("two clauses are called" in p for p in problems(retried + effects))


@pytest.mark.parametrize("body", [step("always: exists(now.item[1])"), "actions: {count: 1}\n"])
def test_a_contract_about_the_run_alone_is_one(body: str) -> None:
    assert run(body, {}, {}).contract.assertions


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("call.class", "call.klass"),
        ("it.from.class == 'a.class'", "it.frum.klass == 'a.class'"),
        ('"é".class == "x.if" and a.not_', '"e".klass == "x.if" and a.not_'),
        ("a.classes", "a.classes"),
    ],
)
def test_after_a_dot_any_word_is_a_name(text: str, same: str) -> None:
    expected = ast.dump(ast.parse(same, mode="eval"), include_attributes=True)
    # Every offset counts characters, as if each were one byte.
    found = ast.dump(parse_python(text), include_attributes=True).replace("é", "e")
    assert found == expected.replace("klass", "class").replace("'frum'", "'from'")


@pytest.mark.parametrize("text", ["class", "a.class = 1", "'a.class", "lambda: 1 if", "a.'class'"])
def test_elsewhere_a_reserved_word_stays_one(text: str) -> None:
    with pytest.raises(SyntaxError):
        parse_python(text)


def test_a_field_may_be_named_like_a_reserved_word() -> None:
    fields = (Field("id", Kind.INT, is_nullable=False), Field("from", Kind.TEXT))
    mail = EntityType("mail", ("id",), fields)
    body = "require:\n  - id: c\n    create: mail\n    where: it.from == 'Ada'\n"
    before = state({}, types=[mail])
    for sender, truth in (("Ada", HOLDS), ("Eve", FAILS)):
        after = state({"mail": [{"id": 1, "from": sender}]}, types=[mail])
        assert truths(run(body, before, after).judgement)["c"] is truth


@pytest.mark.parametrize(
    ("plan", "verdict"),
    [
        (({"tool": "look"}, {"tool": "drop", "asks": True}), "MATCH"),
        (({"tool": "drop", "asks": False},), "DIVERGE"),
        (({"tool": "drop"},), "DIVERGE"),
        (("drop",), "DIVERGE"),
    ],
)
def test_the_plan_in_an_answer_is_judged_part_by_part(plan: object, verdict: str) -> None:
    body = (
        "forbid: [{delete: user}]\nanswer:\n  schema: {plan: list}\n  claims:\n"
        '    - all(s.tool != "drop" or s.asks == true for s in answer.plan)\n'
    )
    steps = tuple(Map.of(s) if isinstance(s, dict) else s for s in plan)  # type: ignore[attr-defined]
    assert run(body, {}, {}, answer={"plan": steps}).judgement.verdict.value == verdict
