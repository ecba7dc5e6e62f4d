"""`during: run` and `history: required`: what is done and undone between the ends of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from statediff.errors import AdapterError
from statediff.kernel import replay
from statediff.model.readings import History
from statediff.model.trace import NO_TRACE, Mark, Trace
from tests.histories import course, seen, told, without_history
from tests.judging import (
    CUT,
    DIVERGE,
    FAILS,
    HIDDEN,
    HOLDS,
    INCONCLUSIVE,
    ITEM,
    MATCH,
    UNKNOWN,
    USER,
    at,
    capture,
    finding,
    item,
    part,
    run,
    state,
    truths,
    user,
)
from tests.traces import call, cut, log, own

NO_GRANT = "forbid: [{id: c, link: grant, during: run}]\n"
NONE: Any = {"user": [user(1)], "item": [item(1)]}
GRANTED: Any = {**NONE, "grant": [{"user": 1, "item": 1}]}


def test_a_grant_given_and_taken_back_is_witnessed_with_its_transaction() -> None:
    done = course(NO_GRANT, NONE, [NONE, GRANTED], NONE)
    found = finding(done.judgement, "c")
    assert (done.judgement.verdict, found.truth, found.code) == (DIVERGE, FAILS, "forbidden-change")
    assert found.sentence == "in transaction 2 of db (position 20): grant (1, 1) linked"
    assert found.deltas == ("grant[(1, 1)] @ db 2",)
    assert [d.id for d in done.judgement.during] == list(found.deltas)
    assert found.witness.rows[0].key == (1, 1)
    assert done.judgement.deltas == ()
    assert replay(done.bundle) == done.judgement


def test_the_net_state_and_a_clause_without_during_permit_it() -> None:
    body = NO_GRANT.replace(", during: run", "")
    assert course(body, NONE, [GRANTED], NONE).judgement.verdict is MATCH


@pytest.mark.parametrize(
    ("clause", "between", "truth"),
    [
        ("delete: user", [{"item": [item(1)]}], FAILS),  # deleted and put back
        ("delete: user", [GRANTED], HOLDS),
        ("update: item", [{**NONE, "item": [item(1, 7)]}], FAILS),
        ("update: item, set: {n: 7}", [{**NONE, "item": [item(1, 8)]}], HOLDS),
        ("create: item, where: 'it.owner.role == \"user\"'",
         [{**NONE, "item": [item(1), item(2, owner=1)]}], FAILS),
        # Made in two transactions, so that neither creates what is forbidden.
        ("create: item, where: 'it.n == 7'",
         [{**NONE, "item": [item(1), item(2)]}, {**NONE, "item": [item(1), item(2, 7)]}], FAILS),
        # An entity of the run, deleted within it: no net change at any time.
        ("delete: item, where: 'it.id == 2'", [{**NONE, "item": [item(1), item(2)]}], FAILS),
        ("create: item, count: {min: 2}",
         [{**NONE, "item": [item(1), item(2)]}, {**NONE, "item": [item(1), item(2), item(3)]}],
         FAILS),
        ("create: item, count: {min: 2}",
         [{**NONE, "item": [item(1), item(2)]}, {**NONE, "item": [item(1), item(3)]}], HOLDS),
        ("create: item, that: 'sum(i.n for i in them) > 2'",
         [{**NONE, "item": [item(1), item(2)]}, {**NONE, "item": [item(1), item(2), item(3, 2)]}],
         FAILS),
        ("create: item, that: 'sum(i.n for i in them) > 3'",
         [{**NONE, "item": [item(1), item(2)]}, {**NONE, "item": [item(1), item(2), item(3, 2)]}],
         HOLDS),
        # Both go in the transaction that undoes them: by then the run had changed nothing.
        ("delete: item, where: 'it.id > 1', count: {min: 2}",
         [{**NONE, "item": [item(1), item(2), item(3)]}], FAILS),
        ("delete: item, where: 'it.id > 1', count: {min: 3}",
         [{**NONE, "item": [item(1), item(2), item(3)]}], HOLDS),
        ("update: user", [{"user": [user(1)], "item": [item(1, 9)]}], HOLDS),
    ],
)  # fmt: skip
def test_what_is_forbidden_during_the_run(clause: str, between: list[Any], truth: Any) -> None:
    done = course(f"forbid:\n  - {{id: c, {clause}, during: run}}\n", NONE, between, NONE)
    assert truths(done.judgement)["c"] is truth
    assert replay(done.bundle) == done.judgement


LATER = "update: item, where: 'it.n == 1 and new.n == 7'"
PAIR = "update: [item, user], count: {min: 2}"
DIM: Any = {**NONE, "item": [item(1, HIDDEN)]}
RAISED: Any = {**NONE, "user": [user(1, "root")]}


@pytest.mark.parametrize(
    ("clause", "between", "after", "truth"),
    [
        # By what had changed since the run began, against what there was then and not at its end.
        (LATER, [{**NONE, "item": [item(1, n)]} for n in (5, 7)], {**NONE, "item": [item(1, 9)]},
         FAILS),
        (LATER, [{**NONE, "item": [item(1, n)]} for n in (5, 8)], {**NONE, "item": [item(1, 9)]},
         HOLDS),
        # What one transaction left unseen stays so through others, until another one shows it.
        (PAIR, [DIM, {**DIM, **RAISED, "item": DIM["item"]}], NONE, UNKNOWN),
        (PAIR, [DIM, {**NONE, "item": [item(1, 5)]}, NONE, RAISED], NONE, HOLDS),
        # Canonicalization hides nothing that is forbidden; what lies outside is not judged.
        ("update: item, fields: [t]", [{**NONE, "item": [item(1, t="A")]}], NONE, FAILS),
        ("update: item", [{**NONE, "item": [item(1, owner=1)]}], NONE, HOLDS),
    ],
)  # fmt: skip
def test_between_the_ends_changes_count_from_the_start_of_the_run(
    clause: str, between: list[Any], after: Any, truth: Any
) -> None:
    body = (
        "canonicalize: [{use: casefold@1, on: [item.t], because: case is noise}]\n"
        "exclude: [{what: item.owner, because: outside}]\n"
        f"forbid:\n  - {{id: c, {clause}, during: run}}\nallow: [{{any: item}}]\n"
    )
    assert truths(course(body, NONE, between, after).judgement)["c"] is truth


def test_a_violation_at_the_ends_needs_no_history() -> None:
    done = run(NO_GRANT, NONE, GRANTED)
    assert (truths(done.judgement)["c"], done.judgement.verdict) == (FAILS, DIVERGE)


def test_known_moments_of_a_history_with_a_gap_can_convict_and_never_clear() -> None:
    gap = "the feed broke off"
    assert truths(course(NO_GRANT, NONE, [GRANTED], NONE, gap=gap).judgement)["c"] is FAILS
    calm = course(NO_GRANT, NONE, [NONE], NONE, gap=gap).judgement
    assert truths(calm)["c"] is UNKNOWN
    assert finding(calm, "c").sentence == "no history: db: the feed broke off; needed by c"
    # Between two known states there may have been others: no transaction is known by itself.
    made = {**NONE, "item": [item(1), item(2)]}
    body = "forbid:\n  - {id: c, delete: item, where: 'it.id == 2', during: run}\n"
    assert truths(course(body, NONE, [made, NONE], NONE, gap=gap).judgement)["c"] is UNKNOWN


def test_a_moment_that_was_read_in_part_leaves_it_open() -> None:
    cut = state(NONE, {"grant": CUT})
    assert truths(course(NO_GRANT, NONE, [cut], NONE).judgement)["c"] is UNKNOWN
    assert truths(course(NO_GRANT, NONE, [cut, GRANTED], NONE).judgement)["c"] is FAILS


def test_an_expression_during_the_run_is_judged_as_if_the_run_had_ended_there() -> None:
    body = "forbid:\n  - {id: c, that: 'any(i.n < 0 for i in after.item)', during: run}\n"
    low = {**NONE, "item": [item(1, -1)]}
    done = course(body, NONE, [GRANTED, low], NONE)
    found = finding(done.judgement, "c")
    assert (found.truth, found.code) == (FAILS, "forbidden-condition")
    assert found.sentence == "moment 2 of db: -1 < 0"
    assert found.witness.rows[0].side == "moment 2 of db"
    assert truths(course(body, NONE, [GRANTED], NONE).judgement)["c"] is HOLDS
    assert replay(done.bundle) == done.judgement
    made = "forbid:\n  - {id: c, that: 'exists(after.item[1]) and "
    made += "any(i.n == 2 for i in created.item)', during: run}\n"
    assert truths(course(made, NONE, [low], NONE).judgement)["c"] is UNKNOWN


def test_a_required_change_during_the_run_is_never_made_too_often() -> None:
    body = "require:\n  - {id: c, create: item, during: run}\n"
    one, two = {"item": [item(1)]}, {"item": [item(1), item(2)]}
    assert truths(course(body, {}, [], one).judgement)["c"] is HOLDS
    assert truths(course(body, {}, [two], one).judgement)["c"] is FAILS
    assert truths(course(body, {}, [{"item": [item(2)]}, {}], one).judgement)["c"] is HOLDS
    assert truths(course(body, {}, [one], {}).judgement)["c"] is FAILS
    assert truths(course(body, {}, [one], one, gap="cut").judgement)["c"] is UNKNOWN
    partly = finding(course(body, {}, [state({}, {"item": CUT})], one).judgement, "c")
    assert partly.truth is UNKNOWN
    assert partly.sentence.startswith("after transaction 1 of db")


@pytest.mark.parametrize(
    ("clause", "before", "between", "after"),
    [
        ("create: item, count: {min: 1}", {}, [{"item": [item(1), item(2)]}], {"item": [item(1)]}),
        (
            "update: item, set: {n: 9}, count: every",
            {"item": [item(1)]},
            [{"item": [item(1, 8)]}],
            {"item": [item(1, 9)]},
        ),
    ],
)
def test_what_has_no_upper_bound_needs_only_that_nothing_is_missing_from_the_history(
    clause: str, before: Any, between: list[Any], after: Any
) -> None:
    body = f"require: [{{id: c, {clause}, during: run}}]\n"
    assert truths(course(body, before, between, after).judgement)["c"] is HOLDS
    cut_off = course(body, before, between, after, gap="cut").judgement
    assert finding(cut_off, "c").missing == ("no history: db: cut",)


FRAME = "forbid: [{id: x, delete: user}]\nevidence: {db: {history: required}}\n"
ALLOW = "allow: [{id: a, update: item, fields: [n], where: 'it.id == 1'}]\n"


@pytest.mark.parametrize(
    ("between", "after", "truth"),
    [
        ([], NONE, HOLDS),
        ([GRANTED], NONE, FAILS),
        ([{**NONE, "item": [item(1, 5)]}], NONE, HOLDS),
        ([{**NONE, "item": [item(1, 5)]}], {**NONE, "item": [item(1, 6)]}, HOLDS),
        ([{**NONE, "item": [item(1, 5, t="b")]}], {**NONE, "item": [item(1, 6)]}, FAILS),
        ([{**NONE, "item": [item(1), item(2)]}], NONE, FAILS),
    ],
)
def test_the_frame_reads_the_history_where_it_is_required(
    between: list[Any], after: Any, truth: Any
) -> None:
    done = course(FRAME + ALLOW, NONE, between, after)
    found = finding(done.judgement, "frame")
    assert found.truth is truth
    if truth is FAILS:
        assert found.code == "unexplained-change"
        assert found.sentence.startswith("in transaction ")
    assert replay(done.bundle) == done.judgement
    net = course("forbid: [{id: x, delete: user}]\n" + ALLOW, NONE, between, after)
    assert truths(net.judgement)["frame"] is HOLDS  # the frame stays net
    assert truths(course(FRAME, NONE, [GRANTED], NONE, gap="cut").judgement)["frame"] is UNKNOWN


def test_a_transaction_that_brought_the_net_change_is_explained_by_what_explains_that() -> None:
    body = FRAME + "allow:\n  - {id: a, create: item, that: 'sum(i.n for i in them) == 3'}\n"
    one = {**NONE, "item": [item(1), item(2, 1)]}
    both = {**NONE, "item": [item(1), item(2, 1), item(3, 2)]}
    assert truths(course(body, NONE, [one], both).judgement)["frame"] is HOLDS
    other = {**NONE, "item": [item(1), item(2, 5)]}
    assert truths(course(body, NONE, [other], both).judgement)["frame"] is FAILS


def test_each_branch_has_a_frame_over_the_history() -> None:
    body = FRAME + (
        "any_of:\n"
        "  one: {require: [{id: a, create: item, where: 'it.id == 2'}]}\n"
        "  other: {require: [{id: b, create: item, where: 'it.id == 2'}, {id: g, link: grant}]}\n"
    )
    made = {**NONE, "item": [item(1), item(2)]}
    assert course(body, NONE, [], made).judgement.verdict is MATCH
    assert truths(course(body, NONE, [GRANTED, NONE], made).judgement)["any_of"] is FAILS


# ---------------------------------------------------------------- several sources

ALWAYS = "steps:\n  - {id: c, always: 'EXPR'}\nframe: {open: the test is about steps}\n"


def two(*given: Any, **more: Any) -> Any:
    return of_two(*given, **more).truth


def of_two(
    body: str,
    items: list[Any],
    users: list[Any],
    *,
    gap: str | None = None,
    feeds: str = "ab",
    trace: Trace = NO_TRACE,
) -> Any:
    """Source `a` has the items, `b` the users; each went through these states, ends included."""
    kinds = {"a": ("item", ITEM, items), "b": ("user", USER, users)}
    sides: list[list[Any]] = [[], []]
    history = []
    for source, (name, entity, given) in kinds.items():
        states = [state({name: rows}, types=[entity], source=source) for rows in given]
        sides[0].append(part("before", states[0], source))
        sides[1].append(part("after", states[-1], source))
        if source in feeds:
            history.append((source, seen(source, states[1:], gap)))
    after = told(capture("after", *sides[1]), *history)
    done = run(body, capture("before", *sides[0]), after, trace=trace)
    assert replay(done.bundle) == done.judgement
    found = finding(done.judgement, "c")
    assert truths(done.judgement)["c"] is found.truth
    return found


A, B = [item(1, 1)], [item(1, -1)]
U, V = [user(1)], [user(1, "root")]


@pytest.mark.parametrize(
    ("expression", "items", "users", "truth"),
    [
        ("all(i.n > 0 for i in now.item)", [A, B, A], [U, V, U], FAILS),
        ("all(i.n > 0 for i in now.item)", [A, A], [U, V, U], HOLDS),
        ("all(u.role == \"user\" for u in now.user) or now.item[1].n < 0", [A, B, A], [U, V, U],
         UNKNOWN),  # holds in one order of the commits, not in another
        ("all(u.role == \"user\" for u in now.user) or exists(now.item[1])", [A, B, A], [U, V, U],
         HOLDS),  # in every order
        ("all(u.role == \"user\" for u in now.user) or exists(now.item[2])", [A, B, A], [U, V, U],
         UNKNOWN),
        ("all(u.role == \"user\" for u in now.user) and exists(now.item[1])", [A, B, A],
         [U, V, U], FAILS),
    ],
)  # fmt: skip
def test_no_order_is_assumed_between_the_commits_of_two_sources(
    expression: str, items: list[Any], users: list[Any], truth: Any
) -> None:
    assert two(ALWAYS.replace("EXPR", expression), items, users) is truth


MADE: Any = ([[], A, []], [[], U, []])  # one of each made and undone, in two sources
ONE: Any = ([[], A, []], [[], []])
MOVED = ([A, B, A], [U, V, U])


@pytest.mark.parametrize(
    ("clause", "states", "truth"),
    [
        # Whether there were two at once hangs on whose commits came first.
        ("forbid: [{id: c, create: [item, user], count: {min: 2}, during: run}]", MADE, UNKNOWN),
        ("forbid: [{id: c, create: [item, user], count: {min: 2}, during: run}]", ONE, HOLDS),
        ("forbid: [{id: c, create: [item, user], count: {min: 3}, during: run}]", MADE, UNKNOWN),
        ("require: [{id: c, create: [item, user], count: {max: 1}, during: run}]", MADE, UNKNOWN),
        ("require: [{id: c, create: [item, user], count: {max: 1}, during: run}]", ONE, HOLDS),
        ("require: [{id: c, create: [item, user], count: {min: 0}, during: run}]", MADE, HOLDS),
        ("forbid: [{id: c, that: EACH, during: run}]", MADE, UNKNOWN),
        ("forbid: [{id: c, that: EACH, during: run}]", ONE, HOLDS),
        # What is forbidden of each change by itself needs no order.
        ("forbid: [{id: c, create: [item, user], during: run}]", MADE, FAILS),
        ("forbid: [{id: c, delete: [item, user], during: run}]", MOVED, HOLDS),
        ("forbid: [{id: c, update: [item, user], that: 'it.id == 9', during: run}]", MOVED, HOLDS),
        ("forbid: [{id: c, update: [item, user], that: 'it.id == 1', during: run}]", MOVED, FAILS),
    ],
)  # fmt: skip
def test_what_is_counted_over_two_sources_waits_for_the_order_of_their_commits(
    clause: str, states: Any, truth: Any
) -> None:
    each = "'exists(after.item[1]) and exists(after.user[1])'"
    body = f"{clause.replace('EACH', each)}\nframe: {{open: the test is about one clause}}\n"
    found = of_two(body, *states)
    assert found.truth is truth
    if truth is UNKNOWN:
        assert found.code == "history-unobserved"


def test_what_a_gap_leaves_open_and_what_the_order_does_are_both_told() -> None:
    either = 'all(u.role == "user" for u in now.user) or exists(now.item[1])'
    body = ALWAYS.replace("EXPR", either)
    found = of_two(body, [A, B, A], [U, V, U], gap="it broke off")
    assert found.truth is UNKNOWN
    assert found.missing == (
        "item moment 1 of b: no history: a: it broke off",
        "no history: a: it broke off", "no history: b: it broke off",
    )  # fmt: skip


def test_a_source_without_a_feed_leaves_open_what_reads_it_and_nothing_else() -> None:
    body = ALWAYS.replace("EXPR", "all(i.n > 0 for i in now.item)")
    assert two(body, [A, A], [U, V], feeds="a") is HOLDS
    assert two(body, [A, A], [U, V], feeds="b") is UNKNOWN
    assert two(body, [A, B, A], [U, V], gap="it broke off") is FAILS
    both = ALWAYS.replace("EXPR", "all(i.n > 0 for i in now.item) and exists(now.user[1])")
    assert two(both, [A, A], [U, U], feeds="a") is UNKNOWN
    assert two(both, [A, B, A], [U, U], feeds="a") is FAILS


def test_the_order_of_effects_in_two_sources_is_open_unless_one_never_happened() -> None:
    body = "steps:\n  - {id: c, on: create item, before: create user}\n"
    body += "frame: {open: the test is about steps}\n"
    assert two(body, [[], A], [[], U]) is UNKNOWN
    never = of_two(body, [[], []], [[], U])
    assert (never.truth, never.code) == (FAILS, "effects-out-of-order")
    assert two(body, [[], A], [[], []]) is HOLDS


def calls(*made: str, apart: float = 1) -> Trace:
    """A complete log: one call after the other, `a1` the one that made transaction t1 of `a`."""
    return log(
        *(
            replace(
                call("write"),
                started_at=at(11 + number),
                finished_at=at(12 + number - apart / 2),
                transactions=tuple(Mark(name[0], f"t{name[1:]}") for name in each.split()),
            )
            for number, each in enumerate(made)
        )
    )


ORDER = "steps:\n  - {id: c, on: create item, before: create user}\n"
ORDER += "frame: {open: the test is about steps}\n"


@pytest.mark.parametrize(
    ("log_", "truth"),
    [
        (calls("a1", "b1"), HOLDS),
        (calls("b1", "a1"), FAILS),
        (calls("a1 b1"), UNKNOWN),  # one call made both
        (calls("a1", "b1", apart=-2), UNKNOWN),  # the second began before the first had ended
        (calls("a1", "b1", apart=0), UNKNOWN),  # the clock shows one instant
        (calls("b1", "a1", apart=0), UNKNOWN),
        (calls("b1"), UNKNOWN),  # nobody says who made the other
        (cut(calls("a1", "b1")), UNKNOWN),
        (cut(calls("b1", "a1")), UNKNOWN),
        (own(calls("b1", "a1")), UNKNOWN),
    ],
)
def test_a_complete_log_of_calls_orders_the_effects_of_two_sources(log_: Trace, truth: Any) -> None:
    found = of_two(ORDER, [[], A], [[], U], trace=log_)
    assert found.truth is truth
    if truth is FAILS:
        assert found.sentence == 'call-1 ("write"): in transaction 1 of b: user came first'
        assert "call-1" in found.evidence


def test_no_effect_comes_before_the_first_of_the_others_whichever_follow() -> None:
    many = ([[], A, []], [[], U, [user(1), user(2)]])
    assert of_two(ORDER, *many, trace=calls("a1", "b1", "a2", "b2")).truth is HOLDS
    assert of_two(ORDER, *many, trace=calls("b1", "a1", "a2", "b2")).truth is FAILS
    assert of_two(ORDER, *many, trace=calls("a2 a1", "b1", "b2")).truth is HOLDS


def test_an_invariant_over_two_sources_is_decided_from_a_complete_log_of_calls() -> None:
    body = ALWAYS.replace("EXPR", 'all(u.role == "user" for u in now.user) or now.item[1].n < 0')
    states = [A, B, A], [U, V, U]
    covered = calls("a1", "b1", "b2", "a2")
    assert of_two(body, *states, trace=covered).truth is HOLDS
    assert of_two(body, *states, trace=cut(covered)).truth is UNKNOWN
    bare = of_two(body, *states, trace=calls("b1", "a1", "b2", "a2"))
    assert (bare.truth, bare.code) == (FAILS, "invariant-broken")
    assert bare.sentence.startswith("before, moment 1 of b: ")
    # One step of the two is not ordered: it may have been right, and may not.
    assert of_two(body, *states, trace=calls("a1 b1", "b2", "a2")).truth is UNKNOWN


def test_a_type_that_two_sources_deliver_has_no_course_of_its_own() -> None:
    def side(moment: str, rows: Any) -> Any:
        return capture(moment, *(part(moment, state(rows, source=s), s) for s in ("a", "b")))

    body = NO_GRANT
    after = told(side("after", NONE), ("a", seen("a", [state(NONE, source="a")])))
    found = finding(run(body, side("before", NONE), after).judgement, "c")
    assert found.truth is UNKNOWN
    assert "a and b deliver it" in found.sentence


# ---------------------------------------------------------------- hostile histories


def test_a_history_that_does_not_end_in_the_state_after_is_no_history() -> None:
    after = capture("after", part("after", state(NONE)))
    lying = told(after, ("db", seen("db", [state(GRANTED)])))
    found = run(NO_GRANT, NONE, lying).judgement
    assert truths(found)["c"] is UNKNOWN
    assert "the source is at fault" in finding(found, "c").sentence
    true = told(after, ("db", seen("db", [state(GRANTED), state(NONE)])))
    cut_off = replace(true, history=History(true.history.readings, true.history.transactions[:1]))
    with pytest.raises(AdapterError, match="does not end in the state"):
        run(NO_GRANT, NONE, cut_off)


@pytest.mark.parametrize("cause", ["is_agent_influenced", "refused"])
def test_what_the_agent_could_forge_or_was_refused_tells_nothing_of_the_run(cause: str) -> None:
    states = [state(GRANTED), state(NONE)]
    if cause == "refused":
        after = capture("after", part("after", state(NONE), is_agent_influenced=True))
        after = told(after, ("db", seen("db", states)))
    else:
        after = told(capture("after", part("after", state(NONE))), ("db", seen("db", states)))
        readings = tuple(replace(r, is_agent_influenced=True) for r in after.history.readings)
        after = replace(after, history=replace(after.history, readings=readings))
    done = run(NO_GRANT, NONE, after)
    assert (truths(done.judgement)["c"], done.judgement.verdict) == (UNKNOWN, INCONCLUSIVE)
    assert replay(done.bundle) == done.judgement


def test_without_its_history_the_run_is_inconclusive() -> None:
    after = told(
        capture("after", part("after", state(NONE))),
        ("db", seen("db", [state(GRANTED), state(NONE)])),
    )
    assert run(NO_GRANT, NONE, after).judgement.verdict is DIVERGE
    assert run(NO_GRANT, NONE, without_history(after)).judgement.verdict is INCONCLUSIVE


def test_what_is_softly_deleted_and_then_purged_is_one_deletion_over_the_run() -> None:
    doc = {"id": 1, "title": "x", "kind": "memo"}
    first: Any = {"user": [user(1)], "doc": [doc]}
    marked: Any = {**first, "doc": [{**doc, "deleted_at": "now"}]}
    for clause, verdict in (("allow: [{delete: doc}]\n", MATCH), ("", DIVERGE)):
        done = course(FRAME + clause, first, [marked], {"user": [user(1)]})
        assert done.judgement.verdict is verdict
        assert replay(done.bundle) == done.judgement
    kept = course(FRAME + "allow: [{delete: doc}]\n", marked, [marked], {"user": [user(1)]})
    assert kept.judgement.verdict is DIVERGE
