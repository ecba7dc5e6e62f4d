"""A prepared contract judges as `evaluate` does, whatever the run changed.

`tests.judging.run` asks the same of a part of all that is judged through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import statediff.capture.bounds as bounds_stage
import statediff.kernel.policy.clauses as clauses_stage
from statediff.contract.file import parse_contract
from statediff.errors import ContractError
from statediff.kernel import Prepared, evaluate, judgement_of, prepare
from statediff.model.batches import encode_rows
from statediff.model.readings import Capture
from statediff.model.state import MemoryChunks, State, build_table
from statediff.model.trace import Action, ActionClass, NoAnswer, Trace
from statediff.model.values import Map, key_order
from tests.judging import CUT, HEAD, HIDDEN, INCONCLUSIVE, TYPES, capture, item, part, state, user

ALL = """
canonicalize:
  - {use: trim@1, on: [item.t], because: the application trims}
exclude: [{what: doc.title, because: not the task's matter}]
identify:
  - {type: log, match_on: {what: null}, version: 1, because: the log has no key}
forbid:
  - {id: no-user-gone, delete: user}
  - {id: none-negative, that: 'any(i.n < 0 for i in after.item)'}
  - {id: no-doc, any: doc}
require:
  - {id: made, create: item, where: 'it.owner in before.user', count: {min: 0}}
  - {id: every, update: item, where: it.t == "all", count: every}
  - {id: kept, that: 'sum(i.n for i in after.item) >= sum(i.n for i in before.item)'}
  - {id: apart, that: 'unique(u.name for u in after.user)'}
  - {id: lowest, that: 'min(i.n for i in before.item if i.n != null) >= 0'}
  - {id: owned, that: 'all(i.owner == null or i.owner.id > 0 for i in after.item)'}
  - {id: led, that: 'reaches(after.item[1], after.user[1], via=[item.owner])'}
  - {id: granted, link: grant, where: 'it.user.role == "admin"', count: {min: 0, max: 1}}
allow:
  - {id: moved, update: item, where: 'all(u.id > 0 for u in before.user)', fields: [n, t]}
  - {id: logged, create: log, that: 'count(l for l in them) <= 1'}
effects:
  - on: create item
    reversibility: irreversible
    authorized_by: any(u.id == it.owner and u.role == "admin" for u in before.user)
    retry_safe: false
derive:
  - {id: owner-n, field: doc.kind, is: it.kind, because: the system keeps it}
answer:
  schema: {made: int}
  claims:
    - answer.made == count(created.item)
    - count(after.user) == count(before.user)
steps:
  - {id: looked, on: make, that: 'any(c.tool == "look" for c in calls)'}
actions:
  allow: {classes: [read, conditional-update]}
"""
ANY_OF = """
forbid: [{id: f, delete: user}]
any_of:
  one: {require: [{id: r, update: item, set: {n: 1}}], allow: [{id: a, create: user}]}
  two: {require: [{id: r, create: item}]}
"""
CONTRACTS = tuple(
    parse_contract((HEAD + "noop: true\n" + body).encode(), "c.yaml") for body in (ALL, ANY_OF)
)
TRACE = Trace(
    (
        Action("1", "look", action_class=ActionClass.READ),
        Action("2", "make", action_class=ActionClass.CONDITIONAL_UPDATE),
    ),
    is_complete=True,
    cause="",
)
few = settings(max_examples=settings.default.max_examples // 3)
SMALL = st.integers(1, 3)
TEXTS = st.sampled_from(["all", "all ", "x", None, HIDDEN])
ITEMS = st.fixed_dictionaries(
    {"id": SMALL, "n": st.integers(-1, 2) | st.none(), "t": TEXTS, "owner": SMALL | st.none()}
)
USERS = st.fixed_dictionaries(
    {
        "id": SMALL,
        "name": st.sampled_from(["A", "B"]),
        "role": st.sampled_from(["admin", None]),
    }
)
SIDES = st.fixed_dictionaries(
    {
        "item": st.lists(ITEMS, max_size=3, unique_by=lambda row: row["id"]),
        "user": st.lists(USERS, max_size=3, unique_by=lambda row: row["id"]),
        "grant": st.lists(
            st.fixed_dictionaries({"user": SMALL, "item": SMALL}),
            max_size=2,
            unique_by=lambda row: (row["user"], row["item"]),
        ),
        "log": st.lists(st.fixed_dictionaries({"what": st.sampled_from("ab"), "n": SMALL})),
        "doc": st.lists(
            st.fixed_dictionaries(
                {"id": SMALL, "title": TEXTS, "deleted_at": st.sampled_from([None, "x"])}
            ),
            max_size=2,
            unique_by=lambda row: row["id"],
        ),
    }
)
ANSWERS = st.sampled_from([NoAnswer("none"), Map((("made", 0),)), Map((("made", 1),))])


def seen(moment: str, of: Any, **reading: Any) -> Capture:
    return capture(moment, part(moment, of if isinstance(of, State) else state(of), **reading))


@few
@given(
    st.sampled_from(CONTRACTS),
    SIDES,
    st.lists(st.tuples(SIDES, st.sets(st.sampled_from([t.name for t in TYPES])), ANSWERS),
             min_size=1, max_size=3),
    st.sampled_from([TRACE, Trace()]),
)  # fmt: skip
def test_any_number_of_states_are_judged_as_each_would_be(
    file: Any, first: Any, lasts: Any, trace: Trace
) -> None:
    before = seen("before", first)
    prepared = prepare(file, before)
    for drawn, moved, answer in lasts:
        after = seen("after", {**first, **{n: drawn[n] for n in moved if n in drawn}})
        expected = evaluate(file, before, after, answer=answer, trace=trace).judgement
        assert prepared.judgement(after, answer=answer, trace=trace) == expected


MANY = 4_200
"""Rows of two chunks."""


def shop() -> State:
    people = [user(n, name=f"user {n}") for n in range(1, 5)]
    made = (item(n, n % 7, t="all" if n == 5 else "x", owner=n % 4 + 1) for n in range(1, MANY))
    return state({"item": made, "user": people})


def edited(before: State, name: str, rows: Mapping[Any, Mapping[str, Any] | None]) -> State:
    """The state with some rows of a type changed, added or (None) removed; it shares the rest."""
    table = before.tables[name]
    chunks = list(table.chunks)
    for key, cells in rows.items():
        at = sum(key_order((key,)) >= cut for cut in table.cuts)
        batch = table.store.get(chunks[at])
        alone = replace(table, chunks=(chunks[at],), partition=())
        assert batch.num_rows
        found = {k[0]: row for k, row in alone.rows()}
        if cells is None:
            del found[key]
        else:
            found[key] = {**dict.fromkeys(table.type.by_name), **found.get(key, {}), **cells}
        ordered = [((k,), found[k]) for k in sorted(found)]
        chunks[at] = table.store.put(encode_rows(table.type, ordered))
    return State(before.schema, {**before.tables, name: table.with_chunks(tuple(chunks))})


SHOP = shop()
EDITS: tuple[tuple[str, Any], ...] = (
    ("item", {5: {"n": 3}}),
    ("item", {5: {"n": -3}, 4_150: {"t": "y"}}),
    ("item", {4_100: None}),
    ("item", {20_000: {"id": 20_000, "n": 1, "owner": 2}}),
    ("item", {20_001: {"id": 20_001, "n": 1, "owner": 9}}),
    ("user", {2: {"role": "admin"}}),
    ("user", {1: None}),
    ("user", {3: {"name": "user 2"}}),
)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(CONTRACTS)))
def test_a_state_of_the_same_make_is_judged_by_its_change_in_several_threads(number: int) -> None:
    file, before = CONTRACTS[number], seen("before", SHOP)
    afters = [seen("after", edited(SHOP, *edit)) for edit in EDITS]
    expected = [judgement_of(file, before, after) for after in afters]
    prepared = prepare(file, before)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(prepared.judgement, afters * 2)) == expected * 2


def test_a_clause_is_judged_again_only_where_something_that_it_reads_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared = prepare(CONTRACTS[0], seen("before", SHOP))
    prepared.judgement(seen("after", SHOP))
    judged: list[str] = []
    condition = clauses_stage.condition_at_end

    def noted(clause: Any, *rest: Any) -> Any:
        judged.append(clause.id)
        return condition(clause, *rest)

    monkeypatch.setattr(clauses_stage, "condition_at_end", noted)
    for name, cells, expected in (
        ("user", {"role": "clerk"}, []),
        ("user", {"name": "Ann"}, ["apart"]),
        ("item", {"t": "y"}, []),
        ("item", {"n": 6}, ["kept", "lowest", "none-negative"]),
    ):
        judged.clear()
        prepared.judgement(seen("after", edited(SHOP, name, {3: cells})))
        # What does not hold is asked each time, and so is what reads the answer.
        assert sorted(judged) == sorted([*expected, "claim-1", "led"])


NARROW = tuple(t for t in TYPES if t.name != "doc")


@pytest.mark.parametrize(
    "after",
    [
        seen("after", {"user": [user(1)]}, is_complete=False, cause="cut"),
        seen("after", {"user": [user(1)]}, digest=None, cause="gone"),
        seen("after", {"user": [user(1)]}, is_agent_influenced=True),
        seen("after", state({"user": [user(1)]}, {"item": CUT})),
        seen("after", state({"user": [user(1)]}, types=NARROW)),
        seen("after", {"user": [user(1)]}, source="other"),
        capture("after"),
    ],
)
def test_a_state_of_another_make_is_judged_all_the_same(after: Capture) -> None:
    before = seen("before", {"user": [user(1)], "item": [item(1)]})
    prepared = prepare(CONTRACTS[1], before)
    assert prepared.judgement(after) == evaluate(CONTRACTS[1], before, after).judgement


@pytest.mark.parametrize(
    "clause",
    [
        'require: [{id: a, that: "all(u.id > 0 for u in after.user)"}]',
        'forbid: [{id: a, that: "any(u.id > 9 for u in after.user)"}]',
    ],
)
def test_what_held_of_all_rows_is_unknown_where_fewer_were_seen(clause: str) -> None:
    file = parse_contract(
        f"{HEAD}noop: true\n{clause}\nallow: [{{id: u, any: user}}]\n".encode(), "c"
    )
    before = seen("before", {"user": [user(1)]})
    after = seen("after", state({"user": [user(1)]}, {"user": CUT}))
    found = prepare(file, before).judgement(after)
    assert found == evaluate(file, before, after).judgement
    assert found.verdict is INCONCLUSIVE


def test_the_errors_of_a_contract_come_with_each_judgement() -> None:
    file = parse_contract((HEAD + "forbid: [{delete: usr}]\n").encode(), "c.yaml")
    idle = parse_contract((HEAD + "forbid: [{id: f, delete: user}]\n").encode(), "c.yaml")
    side = seen("before", {}), seen("after", {})
    for wrong, words in ((file, "unknown entity type `usr`"), (idle, "would MATCH")):
        prepared: Prepared = prepare(wrong, side[0])
        for _ in range(2):
            with pytest.raises(ContractError, match=words):
                prepared.judgement(side[1])


def test_changes_in_many_chunks_are_bounded_as_row_by_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = next(t for t in TYPES if t.name == "item")
    store, nan = MemoryChunks(), float("nan")
    tables = [
        build_table(kind, ({**item(n), "n": cell(n)} for n in range(30)), store)
        for cell in (lambda n: n, lambda n: n + (n % 3 == 0), lambda n: nan if n else 1)
    ]
    tight = bounds_stage.Bounds(12, 10_000, 10_000, (12, 10_000))
    found = [
        bounds_stage.bound_states(*(State(SHOP.schema, {"item": t}) for t in pair), tight)
        for pair in ((tables[0], tables[1]), (tables[2], tables[2]), (tables[0], tables[2]))
    ]
    monkeypatch.setattr(bounds_stage, "_are_few", lambda *_: False)
    again = [
        bounds_stage.bound_states(*(State(SHOP.schema, {"item": t}) for t in pair), tight)
        for pair in ((tables[0], tables[1]), (tables[2], tables[2]), (tables[0], tables[2]))
    ]
    assert found == again
    assert found[0][1].tables["item"] is tables[1]
    assert found[2][1].tables["item"] is not tables[2]
