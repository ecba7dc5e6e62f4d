"""A run answers for what it left undefined; what was undefined before decides nothing."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pytest

from statediff.kernel import replay
from statediff.model.values import ABSENT, Digested, Map, Unobserved
from tests.judging import (
    DIVERGE,
    FAILS,
    HOLDS,
    INCONCLUSIVE,
    MATCH,
    UNKNOWN,
    document,
    item,
    judged,
    run,
    truths,
)
from tests.judging import user as staff

NAIVE: Final = datetime(2026, 1, 1)  # noqa: DTZ001 - without a zone
VALUES: Final[dict[str, Any]] = {
    "null": None, "absent": ABSENT, "empty": "", "text": "abc", "digits": "12", "zero": 0,
    "minus": -1, "big": 10**30, "float": 1.5, "nan": math.nan, "inf": math.inf, "-inf": -math.inf,
    "decimal": Decimal("2.50"), "decimal nan": Decimal("NaN"), "true": True, "false": False,
    "bytes": b"abc", "list": (1, 2), "no items": (), "map": Map.of({"a": 1}),
    "no names": Map.of({}), "date": date(2026, 1, 1), "naive": NAIVE,
    "aware": NAIVE.replace(tzinfo=UTC), "long": "x" * 70_000, "nul": "a\x00b", "space": " a",
    "no-break": "a\u00a0", "look-alike": "\u0430",
    "too long": Digested.of("x" * 2_000_000), "too many bytes": Digested.of(b"x" * 2_000_000),
    "emoji": "\U0001f600", "minus zero": -0.0, "pattern": "(", "case": "A",
}  # fmt: skip
ROW: Final = (
    "it.n < 5", "new.n < 5", "new.n == 5", "new.n != 1", "new.n in [1, 2]", "new.n + 1 > 3",
    "10 / new.n > 3", "within(new.n, 5, 1)", "-new.n < -3", "new.n > it.n", "not (new.n < 5)",
    'new.n < 5 or new.t == "q"', "any(u.id < new.n for u in after.user)",
    "all(u.id < new.n for u in after.user)", "count(u for u in after.user if u.id < new.n) > 3",
    "sum(i.n for i in after.item) > 5", "max(i.n for i in after.item) > 5",
    "min(i.n for i in after.item) > 5", 'contains(new.t, "a")', 'starts_with(new.t, "a")',
    'matches(new.t, "a+")', "len(new.t) > 3", 'lower(new.t) == "a"', 'mentions(new.t, "a")',
    'new.t + "x" == "ax"', 'new.owner.role == "admin"', 'after.user[new.owner].role == "admin"',
    'before.user[new.owner].role == "admin"',
)  # fmt: skip
WHOLE: Final = (
    "any(i.n < 5 for i in after.item)", "not all(i.n < 5 for i in after.item)",
    "sum(i.n for i in after.item) > 5", "count(i for i in after.item if i.n > 5) > 0",
    "max(i.n for i in after.item) > 5", "after.item[1].n > 5", "after.item[1].n != 1",
    'any(i.owner.role == "admin" for i in after.item)', "not unique(i.n for i in after.item)",
    'any(matches(i.t, "b+") for i in after.item)', "max(i.n for i in after.item if i.n < 9) > 5",
)  # fmt: skip
FORMS: Final = {
    "forbid": "allow: [{update: item}]\nforbid:\n  - {id: c, update: item, where: '%s'}\n",
    "allow": "forbid: [{delete: user}]\nallow:\n  - {update: item, where: '%s'}\n",
    "require": "allow: [{update: item}]\nrequire:\n  - {id: c, update: item, where: '%s'}\n",
    "effects": "allow: [{update: item}]\neffects:\n  - {on: update item, authorized_by: '%s'}\n",
    "forbid that": "allow: [{update: item}]\nforbid:\n  - {id: c, that: '%s'}\n",
    "require that": "allow: [{update: item}]\nrequire:\n  - {id: c, that: '%s'}\n",
}
BEFORE: Final = {"user": [staff(1), staff(2)], "item": [item(1, 3, "a", 1), item(2, 4, "b", 2)]}


def written(field: str, value: Any) -> dict[str, Any]:
    return {**BEFORE, "item": [{**item(1, 3, "a", 1), field: value}, item(2, 4, "b", 2)]}


def undecided(name: str, form: str) -> list[Any]:
    """The conditions that the value leaves undecided in this form."""
    conditions = WHOLE if "that" in form else ROW
    return [
        (condition, field)
        for condition in conditions
        for field in ("n", "t", "owner")
        if f".{field}" in condition
        and judged(FORMS[form] % condition, BEFORE, written(field, VALUES[name])).verdict
        is INCONCLUSIVE
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["null", "text", "decimal nan", "map", "too long"])
def test_nothing_that_a_run_writes_leaves_its_trial_undecided(name: str, form: str) -> None:
    assert undecided(name, form) == []


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", VALUES)
def test_no_value_at_all_does(name: str, form: str) -> None:
    assert undecided(name, form) == []


HARMS: Final = (item(2, 9, "abcd", 3), item(2, 1, "a", 1), item(2, 5, "q", 1))
WORLD: Final = {**BEFORE, "user": [*BEFORE["user"], staff(3, "admin")]}
FIELDS: Final = ("n", "t", "owner")


def harm(condition: str) -> Any:
    """A change of the second item that is forbidden by the condition; None where none is."""
    body, first = FORMS["forbid"] % condition, WORLD["item"][0]
    for wrong in HARMS:
        if judged(body, WORLD, {**WORLD, "item": [first, wrong]}).verdict is DIVERGE:
            return wrong
    return None


def hidden_by(name: str) -> list[Any]:
    """Conditions whose proven violation is no DIVERGE beside a row with the value."""
    found = []
    for condition in (each for each in ROW if "i in after.item" not in each):
        wrong = harm(condition)
        if wrong is None:
            assert condition.startswith("count(u")  # more users than there are
            continue
        for field in (each for each in FIELDS if f".{each}" in condition):
            poison = {**item(1, 3, "a", 1), field: VALUES[name]}
            touched = poison | ({"n": 7} if field == "t" else {"t": "other"})
            for first, then in ((WORLD["item"][0], poison), (poison, touched), (None, poison)):
                before = {**WORLD, "item": [*([first] if first else []), WORLD["item"][1]]}
                body = FORMS["forbid"].replace("{update: item}", "{any: item}") % condition
                after = {**WORLD, "item": [then, wrong]}
                if judged(body, before, after).verdict is not DIVERGE:
                    found.append((condition, field, first))
    return found


@pytest.mark.parametrize("name", ["null", "decimal nan", "too long"])
def test_a_proven_violation_stands_beside_any_row(name: str) -> None:
    assert hidden_by(name) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", VALUES)
def test_it_stands_beside_each_value(name: str) -> None:
    assert hidden_by(name) == []


ONE: Final = {"item": [item(1, None), item(2, 4)]}


@pytest.mark.parametrize(
    ("clause", "after", "truth"),
    [
        # Null was there before: nobody can say, whatever else the run did.
        ("that: any(i.n > 9 for i in after.item)", [item(1, None), item(2, 5)], UNKNOWN),
        ("that: sum(i.n for i in after.item) > 9", [item(1, None), item(2, 5)], UNKNOWN),
        ("that: max(i.n for i in after.item) > 9", [item(1, None), item(2, 5)], UNKNOWN),
        ("that: after.item[1].n > 9", [item(1, None, "b"), item(2, 4)], UNKNOWN),
        ("update: item, where: new.n > 9", [item(1, None, "b"), item(2, 4)], UNKNOWN),
        ("update: item, where: it.n > 9", [item(1, 10), item(2, 4)], UNKNOWN),
        # ... unless the run wrote another one.
        ("that: any(i.n > 9 for i in after.item)", [item(1, None), item(2, None)], FAILS),
        ("that: sum(i.n for i in after.item) > 9", [item(1, None), item(2, None)], FAILS),
        ("that: any(i.n > 9 for i in after.item)", [item(1, "x"), item(2, 4)], FAILS),
        # A row that came or went.
        ("that: after.item[2].n > 9", [item(1, None)], FAILS),
        ("that: after.item[3].n > 9", [item(1, None), item(2, 4)], UNKNOWN),
        ("that: max(i.n for i in after.item if i.n != null) > 9", [item(1, None)], FAILS),
        ("that: any(i.n > 9 for i in created.item)", [*ONE["item"], item(3, None)], FAILS),
        # A guard says otherwise, on the left.
        ("update: item, where: new.n != null and new.n > 9", [item(1, None), item(2, None)], HOLDS),
        ("update: item, where: new.n == null or new.n > 9", [item(1, None), item(2, None)], FAILS),
        ("that: any(i.n != null and i.n > 9 for i in after.item)", [item(2, None)], HOLDS),
        # What else the clause asks of the change still counts.
        ("update: item, where: new.n > 9, set: {t: z}", [item(1, None), item(2, None)], HOLDS),
        ("update: item, where: new.n > 9, set: {t: z}", [item(1, None), item(2, None, "z")], FAILS),
    ],
)  # fmt: skip
def test_it_is_by_the_run_only_where_the_run_wrote_it(
    clause: str, after: list[Any], truth: Any
) -> None:
    key, _, rest = clause.partition(": ")
    quoted = "\n".join(f"    {line}" for line in _lines(f"{key}: {rest}"))
    body = f"allow: [{{any: item}}]\nforbid:\n  - id: c\n{quoted}\n"
    assert truths(judged(body, ONE, {"item": after}))["c"] is truth


LONG: Final = Digested.of("x" * 2_000_000)


@pytest.mark.parametrize(
    ("clause", "old", "new", "truth"),
    [
        # What the run wrote cannot be read, and the condition hangs on it.
        ('update: item, where: contains(new.t, "q")', "a", LONG, FAILS),
        ('that: any(contains(i.t, "q") for i in after.item)', "a", LONG, FAILS),
        ('that: any(i.n == 3 and contains(i.t, "q") for i in after.item)', "a", LONG, FAILS),
        ('update: item, where: contains(new.t, "q") and new.n > 5', "a", LONG, FAILS),
        # Its digest is enough, or something else decides.
        ("update: item, set: {t: q}", "a", LONG, HOLDS),
        ('update: item, where: new.t in ["q", "a"]', "a", LONG, HOLDS),
        ("update: item, where: new.t == it.t", "a", LONG, HOLDS),
        ('update: item, where: new.n > 5 and contains(new.t, "q")', "a", LONG, HOLDS),
        # It could not be read before, or it was not the run that wrote it.
        ('update: item, where: contains(it.t, "q")', LONG, "a", UNKNOWN),
        ('that: any(contains(i.t, "q") for i in after.item)', LONG, LONG, UNKNOWN),
        ('that: any(contains(i.t, "q") for i in after.item)', LONG, Digested.of("y"), FAILS),
        ('that: any(contains(i.t, "q") for i in after.item)', "a", Unobserved("gone"), UNKNOWN),
    ],
)  # fmt: skip
def test_what_nobody_can_read_of_what_the_run_wrote_is_on_the_run(
    clause: str, old: Any, new: Any, truth: Any
) -> None:
    key, _, rest = clause.partition(": ")
    quoted = "\n".join(f"    {line}" for line in _lines(f"{key}: {rest}"))
    body = f"allow: [{{any: item}}]\nforbid:\n  - id: c\n{quoted}\n"
    before, after = {"item": [item(1, 3, old)]}, {"item": [item(1, 3, new)]}
    assert truths(judged(body, before, after))["c"] is truth


def test_a_condition_that_nobody_can_read_is_told_and_replayed() -> None:
    body = "allow: [{any: item}]\nforbid:\n  - {id: c, update: item, where: 'len(new.t) > 5'}\n"
    done = run(body, {"item": [item(1, 3, "a")]}, {"item": [item(1, 3, LONG)]})
    assert done.judgement.verdict is DIVERGE
    assert document(replay(done.bundle)) == document(done.judgement)


@pytest.mark.parametrize(
    ("form", "verdict"),
    [("allow", DIVERGE), ("require", DIVERGE), ("effects", DIVERGE), ("require that", DIVERGE)],
)
def test_nothing_is_allowed_or_reached_by_what_nobody_can_read(form: str, verdict: Any) -> None:
    condition = 'contains(new.t, "q")'
    if "that" in form:
        condition = f"any({condition.replace('new', 'i')} for i in after.item)"
    assert judged(FORMS[form] % condition, BEFORE, written("t", LONG)).verdict is verdict


def _lines(clause: str) -> list[str]:
    """`update: item, where: X, set: {…}` as the lines of a clause."""
    found, rest = [], clause
    for key in ("set", "where"):
        rest, mark, value = rest.partition(f", {key}: ")
        found += [f"{key}: {value}" if key == "set" else f"{key}: '{value}'"] if mark else []
    name, _, value = rest.partition(": ")
    return [f"that: '{value}'" if name == "that" else rest, *found]


def test_a_reference_that_leads_nowhere_since_the_run_is_by_the_run() -> None:
    before = {"user": [staff(1), staff(2)], "item": [item(1, owner=1), item(2, owner=9)]}
    body = (
        "allow: [{any: item}, {any: user}]\nforbid:\n  - id: c\n"
        "    that: 'any(i.owner.role == \"admin\" for i in after.item)'\n"
    )
    after = {**before, "user": [staff(2)]}
    assert truths(judged(body, before, before))["c"] is UNKNOWN  # item 2 led nowhere before
    assert truths(judged(body, before, after))["c"] is FAILS


def test_what_is_forbidden_so_is_told_so() -> None:
    body = "allow: [{any: item}]\nforbid:\n  - {id: c, that: 'after.item[2].n > 9'}\n"
    done = run(body, ONE, {"item": [item(1, None), item(2, None)]})
    found = done.judgement
    assert document(replay(done.bundle)) == document(found)
    told = [each.sentence for each in found.findings if each.clause == "c"]
    assert found.verdict is DIVERGE
    assert told == [
        "the run left it undefined: null, absent or values of different kinds have no order"
    ]


def test_a_row_that_is_no_match_is_left_to_the_frame() -> None:
    body = "allow: [%s]\nrequire:\n  - {id: c, update: item, where: 'new.n > 3'}\n"
    after = {"item": [item(1, "x"), item(2, 5)]}
    allowed = judged(body % "{update: item}", ONE, after)
    assert (allowed.verdict, truths(allowed)["c"]) == (MATCH, HOLDS)
    assert judged(body % "{delete: item}", ONE, after).verdict is DIVERGE
