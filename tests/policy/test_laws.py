"""The standing laws of judgement, on generated states and contracts.

A full pair of states is one completion of every degraded pair made from it. So whatever clause is
decided over the degraded pair must have the same truth over the full one; and since the full pair
is drawn at random, any completion may be the witness against a guess.
"""

from __future__ import annotations

from collections import Counter
from textwrap import indent
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from statediff.errors import ContractError
from statediff.kernel import Evaluated, replay
from statediff.model.state import COMPLETE
from statediff.model.values import Observed
from tests.judging import (
    CUT,
    DARK,
    DIVERGE,
    FAILS,
    HIDDEN,
    INCONCLUSIVE,
    MATCH,
    TIMELINE,
    UNKNOWN,
    at,
    capture,
    document,
    part,
    run,
    state,
    truths,
)

NUMBERS: tuple[Observed, ...] = (None, 0, 1, 2)
TEXTS: tuple[Observed, ...] = (None, "a", "b", "A")
ROLES: tuple[Observed, ...] = (None, "user", "admin")

WHERES = (
    "it.n == 1", "it.n > 0", 'it.t == "a"', "it.owner == 1", 'it.owner.role == "admin"',
    "it.n != null and it.n > 0", "it.id == 1", "exists(before.user[it.owner])", "it == 2",
    'any(u.role == "admin" for u in before.user)', "it.id in before.item",
)  # fmt: skip
CONDITIONS = (
    "all(i.n > 0 for i in after.item)", 'any(u.role == "admin" for u in after.user)',
    "count(i for i in created.item) <= 1", "sum(i.n for i in after.item if i.n != null) >= 1",
    "exists(after.item[1])", "before.item[1].n == after.item[1].n",
    "unique(i.t for i in after.item)",
    "all(exists(after.user[i.owner]) for i in updated.item)", "count(u for u in deleted.user) == 0",
    "any(i == 2 for i in after.item)", "count(g for g in linked.grant) == 0",
)  # fmt: skip
THATS = (
    "sum(i.n for i in them if i.n != null) >= 1", "all(i.n == 1 for i in them)",
    "count(i for i in them) < 2", "it.n == 1", "it.owner == null",
)  # fmt: skip
NEW = ("new.n > 1", "new.n == it.n + 1", 'new.t == "a"')


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@st.composite
def patterns(draw: st.DrawFn, section: str, index: int) -> str:
    operation = draw(st.sampled_from(["create", "update", "delete", "any", "users", "link", "re"]))
    if operation == "users":
        target = draw(
            st.sampled_from(
                [
                    "delete: user",
                    "update: user",
                    "any: [user, item]",
                    "delete: doc",
                    "update: doc",
                    "create: doc",
                    "any: doc",
                    "any: log",
                    "delete: log",
                    "update: log",
                ]
            )
        )
        return f"  - {{id: {section}-{index}, {target}}}\n"
    if operation == "link":
        target = draw(st.sampled_from(["link: grant", "unlink: grant", "any: [grant, log]"]))
        return f"  - {{id: {section}-{index}, {target}}}\n"
    if operation == "re":
        target = draw(st.sampled_from(["link: item.owner", "unlink: item.owner"]))
        return f"  - {{id: {section}-{index}, {target}}}\n"
    lines = [f"  - id: {section}-{index}", f"    {operation}: item"]
    if draw(st.booleans()):
        lines.append(f"    where: {quoted(draw(st.sampled_from(WHERES)))}")
    if operation in ("update", "any") and draw(st.booleans()):
        lines.append("    set: {" + draw(st.sampled_from(["n: 1", "t: a", "n: {is: it.n}"])) + "}")
    elif operation in ("update", "delete") and draw(st.booleans()):
        lines.append("    from: {" + draw(st.sampled_from(["n: 1", "t: a", "n: null"])) + "}")
    elif draw(st.integers(0, 2)) == 0:
        lines.append("    fields: [" + draw(st.sampled_from(["n", "n, t", "owner"])) + "]")
    if draw(st.integers(0, 2)) == 0:
        options = THATS + (NEW if operation == "update" else ())
        lines.append(f"    that: {quoted(draw(st.sampled_from(options)))}")
    counts = {
        "forbid": ["2", "{min: 2}"],
        "require": ["2", "{min: 1}", "{max: 1}", "0", "{min: 0, max: 2}"]
        + (["every"] if operation in ("update", "delete") else []),
        "allow": ["1", "{max: 2}"],
    }[section]
    if draw(st.booleans()):
        lines.append(f"    count: {draw(st.sampled_from(counts))}")
    return "\n".join(lines) + "\n"


DERIVED = (
    "count(u for u in after.user)", "it.owner", "sum(i.n for i in after.item if i.t == it.t)",
    "after.user[it.owner].id - 1", "max(i.owner for i in after.item if i.owner != null)",
)  # fmt: skip


@st.composite
def branches(draw: st.DrawFn) -> str:
    """`any_of`, `disputed` or neither, with two or three branches."""
    kind = draw(st.sampled_from(["", "any_of:\n", "disputed: it is\nany_of:\n"]))
    if not kind:
        return ""
    text = kind
    for name in "abc"[: draw(st.integers(2, 3))]:
        text += f"    {name}:\n"
        required = draw(st.sampled_from(["require", "forbid"]))
        for section in dict.fromkeys((required, draw(st.sampled_from(["allow", "require"])))):
            clauses = "".join(
                draw(patterns(section, index)) for index in range(draw(st.integers(1, 2)))
            )
            text += f"      {section}:\n" + indent(clauses, " " * 6)
    return text


@st.composite
def bodies(draw: st.DrawFn, forbidden: str = "", is_closed: bool = False) -> str:
    text = ""
    if not is_closed and draw(st.integers(0, 3)) == 0:
        text += "frame: {open: the law is about the clauses}\n"
    if draw(st.integers(0, 3)) == 0:
        text += "exclude: [{what: user.name, because: the law needs it}]\n"
    if draw(st.integers(0, 2)) == 0:
        text += "canonicalize: [{use: casefold@1, on: [item.t], because: the law needs it}]\n"
    if draw(st.integers(0, 2)) == 0:
        text += "identify: [{type: log, match_on: {what: null}, version: 1, because: no key}]\n"
    for section in ("forbid", "require", "allow"):
        clauses = [draw(patterns(section, index)) for index in range(draw(st.integers(0, 2)))]
        if section == "forbid":
            clauses = [forbidden or "  - {id: forbid-x, delete: user}\n", *clauses]
        if section != "allow" and draw(st.booleans()):
            condition = draw(st.sampled_from(CONDITIONS))
            clauses.append(f"  - {{id: {section}-c, that: {quoted(condition)}}}\n")
        if clauses:
            text += f"{section}:\n" + "".join(clauses)
    text += draw(branches())
    if draw(st.integers(0, 2)) == 0:
        rule = draw(st.sampled_from(DERIVED))
        text += f"derive: [{{field: item.n, is: {quoted(rule)}, because: the law needs it}}]\n"
    if draw(st.integers(0, 3)) == 0:
        rule = draw(
            st.sampled_from(["it.n == 1", 'before.user[1].role == "admin"', "it.t != null"])
        )
        kind = draw(st.sampled_from(["create item", "update item", "any item"]))
        text += f"effects: [{{on: {kind}, authorized_by: {quoted(rule)}}}]\n"
    return text


Rows = dict[str, list[dict[str, Observed]]]
LOGS: tuple[dict[str, Observed], ...] = (
    {"what": "a", "n": 1}, {"what": "a", "n": 2}, {"what": "b", "n": 1},
    {"what": "\u0430", "n": 1}, {"what": None, "n": 1},
)  # fmt: skip


@st.composite
def sides(draw: st.DrawFn) -> Rows:
    keys = draw(st.sets(st.sampled_from([1, 2, 3]), max_size=3))
    users = draw(st.sets(st.sampled_from([1, 2]), max_size=2))
    return {
        "item": [
            {
                "id": key,
                "n": draw(st.sampled_from(NUMBERS)),
                "t": draw(st.sampled_from(TEXTS)),
                "owner": draw(st.sampled_from([None, 1, 2])),
            }
            for key in sorted(keys)
        ],
        "user": [
            {"id": key, "name": "x", "role": draw(st.sampled_from(ROLES))} for key in sorted(users)
        ],
        "grant": [{"user": 1, "item": 1}] if draw(st.booleans()) else [],
        "log": draw(st.lists(st.sampled_from(LOGS), max_size=3)),
        "doc": [
            {
                "id": 1,
                "title": draw(st.sampled_from(["x", "y"])),
                "kind": draw(st.sampled_from(["memo", "memo", "bill"])),
                "deleted_at": draw(st.sampled_from([None, "today"])),
            }
        ]
        * draw(st.integers(0, 1)),
    }


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Rows, Rows]:
    """Two sides that mostly agree, so that few clauses are decided by accident."""
    before = draw(sides())
    if draw(st.integers(0, 4)) == 0:
        return before, draw(sides())
    after: Rows = {name: [dict(row) for row in rows] for name, rows in before.items()}
    other = draw(sides())
    for name in draw(st.sets(st.sampled_from(sorted(after)), max_size=2)):
        after[name] = other[name]
    return before, after


@st.composite
def degraded(draw: st.DrawFn, rows: Rows) -> Any:
    """The same side with less known of it."""
    known: Rows = {name: [dict(row) for row in members] for name, members in rows.items()}
    coverage = {}
    for name, members in known.items():
        for row in members:
            for field in row:
                is_key = field == "id" or name == "grant"
                if not is_key and draw(st.integers(0, 5)) == 0:
                    row[field] = HIDDEN
        chance = draw(st.integers(0, 7))
        if chance == 0:
            coverage[name] = DARK
        elif chance <= 2:
            coverage[name] = CUT
            known[name] = [row for row in members if draw(st.booleans())]
        else:
            coverage[name] = COMPLETE
    return state(known, coverage)


def attempt(body: str, *sides: Any, **rest: Any) -> Evaluated:
    try:
        return run(body, *sides, **rest)
    except ContractError:
        assume(False)
        raise


@pytest.mark.slow
@given(bodies(), pairs(), st.data())
def test_what_is_decided_over_partial_knowledge_is_the_truth_of_every_completion(
    body: str, pair: tuple[Rows, Rows], data: st.DataObject
) -> None:
    whole = attempt(body, *pair).judgement
    real = truths(whole)
    for _ in range(3):
        partly = run(body, data.draw(degraded(pair[0])), data.draw(degraded(pair[1])))
        for clause, truth in truths(partly.judgement).items():
            assert truth in (UNKNOWN, real[clause]), (clause, truth, real[clause])
        assert partly.judgement.verdict in (whole.verdict, INCONCLUSIVE)
        assert document(replay(partly.bundle)) == document(partly.judgement)


@given(
    bodies(),
    pairs(),
    st.sampled_from(["stale", "unsettled", "unread", "forged", "dropped"]),
    st.sampled_from(["before", "after"]),
)
def test_a_reading_that_may_not_be_used_decides_nothing(
    body: str, pair: tuple[Rows, Rows], fault: str, side: str
) -> None:
    whole = attempt(body, *pair, timeline=TIMELINE).judgement
    parts = {"before": part("before", state(pair[0])), "after": part("after", state(pair[1]))}
    overrides: dict[str, dict[str, Any]] = {
        "stale": {"as_of": at(-1) if side == "before" else at(29)},
        "unread": {"digest": None, "is_complete": False, "cause": "refused"},
        "forged": {"is_agent_influenced": True},
    }
    timeline = TIMELINE
    if fault in overrides:
        known = parts[side]
        parts[side] = part(side, known.state, **overrides[fault])
    elif fault == "unsettled":
        timeline = type(TIMELINE)(at(0), at(10), at(11), at(20), at(30), (("db", "busy"),))
    sides = {name: capture(name, entry) for name, entry in parts.items()}
    if fault == "dropped":
        sides[side] = capture(side)
    worse = run(body, sides["before"], sides["after"], timeline=timeline).judgement
    assert worse.verdict is not MATCH
    for clause, truth in truths(worse).items():
        assert truth in (UNKNOWN, truths(whole).get(clause, truth)), (clause, truth)


ALSO = (
    "  - {id: also-deleted, delete: user, where: 'it.id == 9'}\n"
    "  - {id: also-raised, update: item, that: 'new.n > it.n'}\n"
)


@given(bodies(forbidden=ALSO), pairs())
def test_one_more_forbidden_change_never_makes_another_acceptable(
    body: str, pair: tuple[Rows, Rows]
) -> None:
    user = {"id": 9, "name": "x", "role": None}
    item = {"id": 8, "n": 1, "t": None, "owner": None}
    before = {**pair[0], "user": [*pair[0]["user"], user], "item": [*pair[0]["item"], item]}
    after = {**pair[1], "user": [*pair[1]["user"], user], "item": [*pair[1]["item"], item]}
    first = truths(attempt(body, before, after).judgement)
    raised = [*pair[1]["item"], {**item, "n": 2}]
    for worse in ({**after, "user": pair[1]["user"]}, {**after, "item": raised}):
        found = run(body, before, worse).judgement
        assert found.verdict is DIVERGE
        for clause in first:
            if first[clause] is FAILS and clause.startswith(("forbid-", "also-")):
                assert truths(found)[clause] is FAILS or adds_up(body, clause), clause


def adds_up(body: str, clause: str) -> bool:
    """True if the clause is about all the entities together, so that more may weigh less."""
    own = body.split(f"id: {clause}", 1)[1].split("- ", 1)[0]
    return "them" in own or clause == "forbid-c"


@given(bodies(is_closed=True), pairs())
def test_every_delta_is_explained_or_a_finding(body: str, pair: tuple[Rows, Rows]) -> None:
    judgement = attempt(body, *pair).judgement
    asked = [f for f in judgement.findings if f.clause == "frame" and f.code != "holds"]
    named = Counter(delta for f in asked for delta in f.deltas)
    assert [d.id for d in judgement.deltas] == [delta for delta, _ in judgement.explained_by]
    # Counted: what replaces an entity under its key has the id of what it replaces.
    unexplained = Counter(delta for delta, by in judgement.explained_by if not by)
    assert named == unexplained


@given(bodies(), sides())
def test_the_null_run_matches_only_a_contract_that_says_noop(body: str, side: Rows) -> None:
    null = attempt(body, side, side).judgement
    if null.verdict is not MATCH:
        assert run(body, side, side, noop=False).judgement.verdict is null.verdict
        return
    with pytest.raises(ContractError) as caught:
        run(body, side, side, noop=False)
    assert caught.value.problems[0].code == "null-run"


@given(bodies(), pairs(), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_tables_changes_no_byte_of_the_bundle(
    body: str, pair: tuple[Rows, Rows], random: Any
) -> None:
    first = attempt(body, *pair).bundle
    mixed = []
    for rows in pair:
        names = sorted(rows)
        random.shuffle(names)
        mixed.append({name: random.sample(rows[name], len(rows[name])) for name in names})
    second = run(body, *mixed).bundle
    assert dict(first.files) == dict(second.files)
    assert first.digest == second.digest


@given(bodies(), pairs())
def test_judging_changes_none_of_its_inputs(body: str, pair: tuple[Rows, Rows]) -> None:
    states = [state(rows) for rows in pair]
    digests = [known.digest() for known in states]
    cells = [{n: list(t.rows()) for n, t in known.tables.items()} for known in states]
    attempt(body, *states)
    assert [known.digest() for known in states] == digests
    assert [{n: list(t.rows()) for n, t in known.tables.items()} for known in states] == cells
