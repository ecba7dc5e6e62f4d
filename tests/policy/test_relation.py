"""A pattern is held against the changes that it can match alone, and nobody can tell."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from statediff.contract.clauses.patterns import Pattern
from statediff.contract.file import parse_contract
from statediff.contract.language.context import FALSE
from statediff.kernel import compile_contract
from statediff.kernel.diff import diff
from statediff.kernel.policy import matching
from statediff.kernel.policy.matching import JudgingContext, Match
from statediff.kernel.policy.relation import Change
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import COMPLETE, Coverage, Enumeration, State
from statediff.model.values import Digested, Observed, Unobserved
from statediff.model.view import Ledger, RecordingView, StateView
from tests.judging import contract, state

THING = EntityType(
    "thing",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("code", Kind.TEXT),
        Field("n", Kind.ANY),
        Field("price", Kind.DECIMAL),
        Field("ok", Kind.BOOL),
        Field("owner", Kind.INT, reference="thing"),
    ),
)
CELLS: dict[str, list[Observed]] = {
    "code": ["a", "b", "c", None, Digested.of("a"), Unobserved("not seen")],
    "n": [1, 1.0, True, Decimal("1.0"), "1", None, float("nan"), 2, (1, 2), Unobserved("hidden")],
    "price": [Decimal(1), Decimal("1.00"), Decimal("2.5"), None, Unobserved("hidden")],
    "ok": [True, False, None],
    "owner": [0, 1, 2, None, Unobserved("hidden")],
}
OWN = ("it", "new")
ANSWER: dict[str, Observed] = {"number": 3, "text": "b"}
TESTS = (
    "{0}.id == {1}", "{1} == {0}.id", "{0}.id in [1, 2, {1}]", "{0}.id != {1}", "{0}.id < {1}",
    '{0}.code == "a"', '{0}.code != "b"', '{0}.code in ["a", "c"]', '{0}.code not in ["a"]',
    "{0}.n == 1", "{0}.n == null", '{0}.n == "1"', "{0}.price == 1", "{0}.price > 1",
    "{0}.price <= 2.5", "{0}.ok == true", "{0}.owner == 1", "{0}.owner.id == {1}",
    '{0}.owner.code == "a"', "before.thing[{1}].ok == true", 'starts_with({0}.code, "a")',
    'any(x.id == {0}.id for x in before.thing)', "{0}.id == answer.number", "not {0}.ok",
    "({0}.id == {1} or {0}.id == 2)",
)  # fmt: skip
VALUES = ("code: a", "code: null", "n: 1", "n: true", "price: 1", "price: 2.5", "ok: false",
    "n:\n        is: 0 + 1",
          "owner: 1", "code:\n        is: answer.text",
          "owner:\n        is: >-\n          before.thing[1].owner")  # fmt: skip


def patterns(chance: random.Random, number: int) -> tuple[Pattern, ...]:
    clauses: dict[str, list[str]] = {"forbid": [], "require": [], "allow": []}
    for at in range(number):
        section, operation = chance.choice(list(clauses)), chance.choice(["update"] * 3 + ["any"])
        operation = chance.choice([operation] * 4 + ["create", "delete"])
        names = OWN if operation == "update" else OWN[:1]
        parts = [
            chance.choice(TESTS).format(chance.choice(names), chance.randrange(12))
            for _ in range(chance.randrange(1, 4))
        ]
        keys = [f"id: c{at}", f"{operation}: thing"]
        if chance.random() < 0.7:
            keys.append(f"where: >-\n      {' and '.join(parts)}")
        for key, never in (("set", "delete"), ("from", "create")):
            if chance.random() < 0.4 and operation != never:
                held = {v.split(":")[0]: v for v in chance.sample(VALUES, chance.randrange(1, 3))}
                keys.append(f"{key}:\n      " + "\n      ".join(held.values()))
        if chance.random() < 0.3:
            keys.append("fields: [code, n, price, owner, ok]")
        clauses[section].append("  - " + "\n    ".join(keys) + "\n")
    body = "answer: {schema: {number: int, text: text}}\n"
    body += "".join(f"{name}:\n{''.join(held)}" for name, held in clauses.items() if held)
    file = parse_contract(contract(body).encode(), "c.yaml")
    schema = state({}, types=(THING,)).schema
    return compile_contract(file, schema).contract.patterns


def row(chance: random.Random, key: int) -> dict[str, Observed]:
    return {"id": key, **{name: chance.choice(cells) for name, cells in CELLS.items()}}


def states(chance: random.Random) -> tuple[State, State]:
    before = [row(chance, key) for key in range(10)]
    after = [dict(each) for each in before if chance.random() < 0.9]
    for each in after:
        for name in chance.sample(list(CELLS), chance.randrange(3)):
            each[name] = chance.choice(CELLS[name])
    after += [row(chance, key) for key in range(10, 10 + chance.randrange(3))]
    cut = Enumeration(Coverage.INCOMPLETE, "cut short")
    covered = {"thing": chance.choice((COMPLETE, COMPLETE, cut))}
    sides = [state({"thing": rows}, covered, types=(THING,)) for rows in (before, after)]
    return sides[0], sides[1]


def looks(ledger: Ledger) -> Any:
    looks = {
        clause: sorted(map(repr, {look for part in parts for look in part}))
        for clause, parts in ledger.looks.items()
    }
    return looks, ledger.scans


def kept(pair: tuple[State, State], deltas: Any, doubts: Any) -> JudgingContext:
    """The same changes where nobody asks who read what."""
    before, after = map(StateView, pair)
    return JudgingContext(before, after, deltas, doubts, ANSWER)


def recorded(pair: Iterable[State], deltas: Any, doubts: Any) -> tuple[JudgingContext, Ledger]:
    ledger = Ledger()
    before, after = (
        RecordingView(StateView(held), side, ledger)
        for held, side in zip(pair, ("before", "after"), strict=True)
    )
    context = JudgingContext(before, after, deltas, doubts, ANSWER)
    context.record(ledger)
    return context, ledger


def shown(matches: Iterable[Match]) -> Any:
    """All of them but what a quantifier looks at when somebody reads it."""
    return [replace(m, seen=tuple(each._replace(looked=None) for each in m.seen)) for m in matches]


@pytest.mark.parametrize("seed", range(12))
def test_what_is_passed_over_fails_and_reads_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "FEW", 0)
    chance = random.Random(seed)
    pair = states(chance)
    found = diff(*pair)
    context, ledger = recorded(pair, found.deltas, found.doubts)
    singly, each_read = recorded(pair, found.deltas, found.doubts)
    quiet = kept(pair, found.deltas, found.doubts)
    for pattern in patterns(chance, 25):
        ledger.begin(pattern.id)
        each_read.begin(pattern.id)
        every = [singly.match(pattern, change) for change in singly.changes]
        wanted = [m for m in every if m is not None and m.mask != FALSE]
        assert context.matches(pattern) == quiet.matches(pattern) == wanted
        masks = [singly.possible(pattern, doubt) for doubt in found.doubts]
        doubted = [(at, mask) for at, mask in enumerate(masks) if mask != FALSE]
        assert list(context.doubted(pattern)) == list(quiet.doubted(pattern)) == doubted
        near = context.unmatched(pattern, context.matches(pattern))
        assert shown(near) == shown(m for m in every if m is not None and m.mask == FALSE)
    assert looks(ledger) == looks(each_read)


def test_a_clause_that_fixes_its_row_is_held_against_that_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matching, "FEW", 0)
    before: list[dict[str, Observed]] = [{"id": n, "code": "a", "n": 0} for n in range(30)]
    after: list[dict[str, Observed]] = [{**each, "code": f"k{each['id']}"} for each in before]
    one, two = (state({"thing": rows}, types=(THING,)) for rows in (before, after))
    found = diff(one, two)
    held: list[Any] = []
    body = "require:\n  - {update: thing, where: it.n == 0 and it.id == 7, set: {code: k7}}\n"
    body += "allow:\n  - {update: thing, set: {code: k9}}\n  - {update: thing, where: it.n < 1}\n"
    file = parse_contract(contract(body).encode(), "c.yaml")
    context = kept((one, two), found.deltas, found.doubts)
    meet = context.meet

    def noted(pattern: Pattern, change: Change) -> Match:
        held.append(change.key[0])
        return meet(pattern, change)

    monkeypatch.setattr(context, "meet", noted)
    for pattern in compile_contract(file, one.schema).contract.patterns:
        held.append(-1)
        context.matches(pattern)
    assert held == [-1, 7, -1, 9, -1, *range(30)]
