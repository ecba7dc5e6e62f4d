"""Whose call left a change: through the transactions that a history tells and calls name."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from statediff.capture.feed import history_of, with_history
from statediff.contract.file import parse_contract
from statediff.contract.language.context import FALSE, TRUE
from statediff.evidence.documents import judgement_document
from statediff.kernel import Evaluated, evaluate, replay
from statediff.kernel.policy.attribution import NOBODY, Attribution, Claim, Touch, claims, is_marked
from statediff.model.delta import Delta, Op
from statediff.model.timelines import SourceTimeline, Step, Timelines
from statediff.model.trace import Action, ActionClass, Mark, Trace
from tests.explaining import in_words
from tests.histories import clock, course, seen
from tests.judging import FAILS, HOLDS, UNKNOWN, at, capture, finding, item, part, state, truths
from tests.traces import call, cut, log, own

ALLOW = "forbid: [{id: c, update: item, by: user}]\nallow: [{any: item, by: agent}]\n"
START = {"item": [item(1), item(2)]}


def made(*names: str | None, by: str = "agent", **more: Any) -> Action:
    """A call that made these transactions of `db`."""
    marks = tuple(Mark("db", name) for name in names)
    return replace(call("set"), principal=by, transactions=marks, **more)


def one(n: int = 0, *others: Any, t: str = "a") -> Any:
    return {"item": [item(1, n=n, t=t), item(2), *others]}


def judged(trace: Trace, *states: Any, gap: str | None = None, body: str = ALLOW) -> Evaluated:
    found = course(body, START, states[:-1], states[-1], gap=gap, trace=trace)
    # A bundle holds all that attribution rests on.
    assert judgement_document(replay(found.bundle)) == judgement_document(found.judgement)
    return found


def makers(found: Evaluated) -> dict[str, str | None]:
    return {d.id: d.action for d in found.judgement.deltas}


@pytest.mark.parametrize("name", ["t1", "10"])
def test_a_change_is_of_the_call_that_names_its_transaction(name: str) -> None:
    found = judged(log(call("look"), made(name)), one(5))
    assert makers(found) == {"item[1].n": "call-2"}
    assert truths(found.judgement) == {"c": HOLDS, "frame": HOLDS}


def test_the_call_that_left_the_last_value_made_it() -> None:
    found = judged(log(made("t1"), made("t2")), one(5), one(7))
    assert makers(found) == {"item[1].n": "call-2"}


def test_what_came_into_being_is_of_the_call_that_created_it() -> None:
    trace = log(made("t1"), made("t2"), made("t3"))
    found = judged(trace, one(0, item(3)), one(0, item(3, n=4)), one(9, item(3, n=4)))
    assert makers(found) == {"item[3]": "call-1", "item[1].n": "call-3"}


def test_what_went_is_of_the_call_that_deleted_it_last() -> None:
    gone = {"item": [item(1)]}
    found = judged(log(made("t1"), made("t2"), made("t3")), gone, one(), gone)
    assert makers(found) == {"item[2]": "call-3"}


def test_a_change_is_by_somebody_only_if_nobody_else_touched_it() -> None:
    found = judged(log(made("t1", by="user"), made("t2")), one(5), one(7))
    assert makers(found) == {"item[1].n": "call-2"}
    assert truths(found.judgement) == {"c": UNKNOWN, "frame": UNKNOWN}


def test_what_one_may_not_do_another_did() -> None:
    found = judged(log(made("t1", by="user")), one(5))
    assert truths(found.judgement) == {"c": FAILS, "frame": FAILS}


@pytest.mark.parametrize(
    "trace",
    [
        log(made("t1"), made("t1")),
        log(made("t9")),
        log(made()),
        own(log(made("t1"))),
        log(call("set")),
        log(replace(made(), transactions=(Mark("other", "t1"),))),
        Trace(),
    ],
    ids=["two", "none-such", "nothing-made", "forgeable", "unmarked", "other-source", "empty"],
)
def test_what_is_not_certain_is_nobodys(trace: Trace) -> None:
    found = judged(trace, one(5))
    assert makers(found) == {"item[1].n": None}
    assert truths(found.judgement) == {"c": UNKNOWN, "frame": UNKNOWN}


def test_a_history_with_a_gap_attributes_nothing() -> None:
    found = judged(log(made("t1")), one(5), one(5), gap="the log was cut")
    assert makers(found) == {"item[1].n": None}
    assert "the log was cut" in str(found.judgement.findings)


def test_calls_that_nobody_recorded_take_nothing_from_those_that_were() -> None:
    found = judged(cut(log(made("t2"))), one(5), one(5, t="b"))
    assert makers(found) == {"item[1].n": None, "item[1].t": "call-1"}
    missing = [cause for each in found.judgement.findings for cause in each.missing]
    assert any("no recorded call made transaction 1 of db" in cause for cause in missing)


def test_of_calls_within_calls_the_innermost_made_it() -> None:
    trace = log(made("t1"), made("t1", parent="call-1"), made("t1", parent="call-2"))
    assert makers(judged(trace, one(5))) == {"item[1].n": "call-3"}


def test_spans_that_name_each_other_are_no_endless_tree() -> None:
    trace = log(made("t1", parent="call-2"), made("t1", parent="call-1"))
    assert makers(judged(trace, one(5))) == {"item[1].n": None}


def test_during_the_run_a_transaction_is_of_its_own_call() -> None:
    body = "forbid: [{id: c, update: item, by: user, during: run}]\n"
    trace = log(made("t1", by="user"), made("t2"))
    both = judged(trace, one(5), one(), body=body)
    assert truths(both.judgement)["c"] is FAILS
    other = judged(log(made("t1"), made("t2")), one(5), one(), body=body)
    assert truths(other.judgement)["c"] is HOLDS


def test_a_trace_without_marks_judges_as_ever() -> None:
    plain = course(ALLOW, START, [], one(5), trace=log(call("set")))
    assert plain.judgement.deltas[0].action is None
    assert not plain.bundle.document("index.json")[0]["touched"]


def test_a_transaction_may_go_by_another_name() -> None:
    before, after = (
        capture(m, part(m, state(s))) for m, s in (("before", START), ("after", one(5)))
    )
    told = seen("db", [state(one(5))])
    told = replace(told, transactions=(replace(told.transactions[0], names=("xid 733",)),))
    after = with_history(after, [history_of("db", told, after, clock)])
    file = parse_contract(
        b"contract: tests/w\nversion: 1.0.0\nowner: t\nintent: Change it.\nnoop: true\n"
        + ALLOW.encode(),
        "c.yaml",
    )
    found = evaluate(file, before, after, trace=log(made("xid 733")))
    assert makers(found) == {"item[1].n": "call-1"}
    assert judgement_document(replay(found.bundle)) == judgement_document(found.judgement)


SOMEBODY = "attribution: item[1].n was changed by somebody unknown"


@pytest.mark.parametrize(
    ("trace", "gap", "cause"),
    [
        (log(made("t1", by="user"), made("t1", by="agent", parent="call-1")), None, ""),
        (log(made("t1", by=None)), None, SOMEBODY),
        (log(made("t1"), made("t1")), None, f"{SOMEBODY} (several calls name it: call-1, call-2)"),
        (log(*[made("t1")] * 3), None,
         f"{SOMEBODY} (several calls name it: call-1, call-2, call-3)"),
        (log(*[made("t1")] * 5), None,
         f"{SOMEBODY} (several calls name it: call-1, call-2, call-3 and 2 more)"),
        (log(made("t9")), None, f"{SOMEBODY} (no recorded call made transaction 1 of db)"),
        (log(made(None)), None, f"{SOMEBODY} (its instant is not known)"),
        (cut(log(made(None))), None,
         f"{SOMEBODY} (the log may lack calls: unrecorded: the recorder was stopped)"),
        (log(made("t1")), "the feed broke off", "attribution: db: the feed broke off"),
        (log(call("set")), None, "attribution: no history says who made the change"),
        (log(replace(call("set"), effects=())), None,
         "attribution: no call says that it changed item[1].n"),
        (log(replace(call("a"), effects=("item[1].n",)),
             replace(call("b"), effects=("item[1].n",), principal=None)), None,
         "attribution: item[1].n was changed by agent, somebody unknown"),
    ],
)  # fmt: skip
def test_why_nobody_is_named_is_told(trace: Trace, gap: str | None, cause: str) -> None:
    states = (one(5),) if gap is None else (one(5), one(5))
    found = judged(trace, *states, gap=gap).judgement
    missing = [m for f in found.findings if f.clause == "c" for m in f.missing]
    assert missing == ([cause] if cause else [])


def test_of_many_causes_the_first_two_are_told() -> None:
    trace = log(made("t1"), made("t1"), made("t2"), made("t2"), made("t9"))
    found = finding(judged(trace, one(6), one(2), one(3)).judgement, "c")
    causes = "no recorded call made transaction 3 of db; several calls name it: call-1, call-2"
    assert found.missing == (f"{SOMEBODY} ({causes})",)


DELTA = Delta(
    Op.UPDATE, "item", (1,), "n", before=0, after=1, raw_before=0, raw_after=1, evidence=()
)
STEPS = (Touch("db", 1, Op.CREATE), Touch("db", 2, Op.UPDATE), Touch("db", 4, Op.UPDATE))
KNOWN = Attribution(
    None,
    {"item[1]": STEPS[:1], "item[1].n": STEPS[1:], "item[1].*": STEPS[1:]},
    {("db", n): Claim(f"call-{n}") for n in (1, 2, 4)},
    {"call-1": "agent", "call-2": "user", "call-4": "agent"},
)


@pytest.mark.parametrize(
    ("op", "path", "transaction", "action"),
    [
        (Op.UPDATE, "n", None, "call-4"), (Op.UPDATE, "t", None, "call-1"),
        (Op.CREATE, "", None, "call-1"), (Op.DELETE, "", None, "call-4"),
        (Op.UPDATE, "n", "db 2", "call-2"), (Op.UPDATE, "n", "db up to 2", "call-2"),
        (Op.UPDATE, "n", "db 3", None), (Op.UPDATE, "n", "db up to 3", "call-2"),
        (Op.UPDATE, "n", "other 2", None),
    ],
)  # fmt: skip
def test_a_change_names_the_call_that_left_it(
    op: Op, path: str, transaction: str | None, action: str | None
) -> None:
    delta = replace(DELTA, op=op, path=path, transaction=transaction)
    assert KNOWN.maker(delta) == KNOWN.named((delta,))[0].action == action
    assert NOBODY.named((delta,)) == (delta,)


def test_who_made_a_change_is_known_of_its_whole_entity_too_and_told_with_what_is_missing() -> None:
    delta = DELTA
    mask, why = KNOWN.by(delta, "agent")
    assert (mask, *in_words([why])) == (
        TRUE | FALSE, "attribution: item[1].n was changed by agent, user",
    )  # fmt: skip
    # Of those that are known, no cause is told: only of what nobody claims.
    less = replace(KNOWN, claims={("db", n): Claim(f"call-{n}") for n in (1, 2)})
    unknown = "agent, user, somebody unknown (no recorded call made transaction 4 of db)"
    mask, why = less.by(delta, "agent")
    assert (mask, *in_words([why])) == (
        TRUE | FALSE, f"attribution: item[1].n was changed by {unknown}",
    )  # fmt: skip
    whole = replace(KNOWN, touched={"item[1]": frozenset({"user"})})
    assert [whole.by(delta, who) for who in ("user", "agent")] == [(TRUE, ""), (FALSE, "")]


def test_a_log_is_marked_where_some_call_says_which_transactions_it_made() -> None:
    assert is_marked(log(call("look"), made("t1"))) is True
    assert is_marked(log(call("look"))) is False


@pytest.mark.parametrize(("by", "truth"), [("user", UNKNOWN), ("agent", HOLDS)])
def test_whoever_changed_a_new_entity_since_touched_it_too(by: str, truth: Any) -> None:
    trace = log(made("t1"), made("t2", by=by))
    body = "forbid: [{id: c, create: item, by: user}]\n"
    found = judged(trace, one(0, item(3)), one(0, item(3, n=4)), body=body)
    assert truths(found.judgement)["c"] is truth


def test_spans_that_name_each_other_around_a_call_end_the_search_for_the_innermost() -> None:
    trace = log(made(parent="call-2"), made(parent="call-1"), made("t1", parent="call-1"))
    assert makers(judged(trace, one(5))) == {"item[1].n": "call-3"}


# By time


def between(action: Action, start: float, end: float | None) -> Action:
    return replace(action, started_at=at(start), finished_at=None if end is None else at(end))


def claimed(trace: Trace, instant: datetime | None, *names: str) -> str | None:
    step = Step("t1", "10", instant, frozenset({"item"}), names)
    found = claims(trace, Timelines((SourceTimeline("db", frozenset({"item"}), (step,)),)))
    claim = found.get(("db", 1))
    return None if claim is None else claim.action


WRITES = made(None)


@pytest.mark.parametrize(
    ("trace", "second", "who"),
    [
        (log(between(WRITES, 10, 12)), 11.5004, "call-1"),
        (log(between(WRITES, 10, 12), between(WRITES, 13, 14)), 11.5004, "call-1"),
        (log(between(WRITES, 10, 12), between(WRITES, 11, 14)), 11.5004, None),
        # A clock of whole seconds may have cut what the other call did.
        (log(between(WRITES, 10, 11.2), between(WRITES, 11.4, 14)), 11.0, None),
        (log(between(WRITES, 10, 11.2), between(WRITES, 11.4, 14)), 11.1004, "call-1"),
        (log(between(WRITES, 10, 12)), 12.5004, None),
        (log(between(WRITES, 10, None)), 99.5004, "call-1"),
        # Who may lack calls, or not know what they wrote, tells nothing by time.
        (cut(log(between(WRITES, 10, 12))), 11.5004, None),
        (log(between(WRITES, 10, 12), between(call("x"), 1, 2)), 11.5004, None),
        (log(between(WRITES, 10, 12), between(call("x"), 12, 13)), 11.5004, "call-1"),
        (log(between(WRITES, 10, 12), between(call("x", ActionClass.READ), 1, 2)), 11.5004,
         "call-1"),
        (log(between(made(), 10, 12), between(WRITES, 10, 12)), 11.5004, "call-2"),
        (log(replace(WRITES, started_at=None)), 11.5004, "call-1"),
        # The ends of a call, of a cut instant and of what nobody recorded count with them.
        (log(between(WRITES, 10, 11)), 11.0, "call-1"),
        (log(between(WRITES, 10, 11), between(WRITES, 12, 13)), 11.0, None),
        (log(between(WRITES, 10, 11), between(WRITES, 12.000001, 13)), 11.0, "call-1"),
        (log(between(WRITES, 10, 12), between(WRITES, 11.0015, 13)), 11.001, None),
        (log(between(WRITES, 10, 12), between(WRITES, 11.0025, 13)), 11.001, "call-1"),
        (log(between(WRITES, 10, 12), between(WRITES, 11.000001, 13)), 11.0000005, None),
        (log(between(WRITES, 10, 12), between(call("x"), 11.5004, 13)), 11.5004, None),
        (log(between(WRITES, 10, 12), replace(call("x"), started_at=None)), 11.5004, None),
    ],
)  # fmt: skip
def test_time_tells_only_where_one_call_could_have_made_it(
    trace: Trace, second: float, who: str | None
) -> None:
    assert claimed(trace, at(second)) == who


def test_a_transaction_without_an_instant_has_no_time() -> None:
    assert claimed(log(between(WRITES, 10, 12)), None) is None


def test_a_name_that_two_transactions_have_names_neither() -> None:
    steps = tuple(Step(f"t{n}", "", None, frozenset({"item"}), ("same",)) for n in (1, 2))
    found = claims(
        log(made("same")), Timelines((SourceTimeline("db", frozenset({"item"}), steps),))
    )
    assert all(claim.action is None for claim in found.values())


def test_truth_is_never_guessed_from_the_order_of_calls() -> None:
    trace = log(made("t2"), made("t1"))
    found = judged(trace, one(5), one(5, t="b"))
    assert makers(found) == {"item[1].n": "call-2", "item[1].t": "call-1"}


# Duplicates

RETRIES = (
    "forbid: [{delete: item}]\neffects:\n  - {on: create item, retry_safe: false, tool: refund}\n"
)


def refunds(*marks: str | None, same: bool = True) -> Trace:
    """Calls of `refund`, the first of which timed out, each with the transaction it made."""
    tries = [
        replace(
            call("refund", order=1 if same else n, error=None if n else "timeout"),
            transactions=() if name is None else (Mark("db", name),),
        )
        for n, name in enumerate(marks)
    ]
    return log(*tries)


TWICE = ({"item": [item(1), item(2), item(7)]}, {"item": [item(1), item(2), item(7), item(8)]})


@pytest.mark.parametrize(
    ("trace", "truth"),
    [
        (refunds("t1", "t2"), FAILS),
        (cut(refunds("t1", "t2")), FAILS),
        (refunds("t1", "t2", same=False), HOLDS),
        (cut(refunds("t1", None)), UNKNOWN),
        (own(refunds("t1", "t2")), UNKNOWN),
    ],
    ids=["retried", "incomplete", "two-calls", "unattributed", "own-word"],
)
def test_a_retry_that_left_a_second_effect_is_found_by_its_transaction(
    trace: Trace, truth: Any
) -> None:
    found = judged(trace, *TWICE, body=RETRIES)
    assert truths(found.judgement)["retried-create-item"] is truth


def test_a_retry_of_one_call_is_told_from_another_call_that_is_alike() -> None:
    trace = log(
        replace(call("refund", order=1, error="timeout"), transactions=()),
        replace(call("refund", order=1), transactions=(Mark("db", "t1"),)),
        replace(call("refund", order=2), transactions=(Mark("db", "t2"),)),
    )
    found = judged(trace, *TWICE, body=RETRIES)
    assert truths(found.judgement)["retried-create-item"] is HOLDS


def test_a_repetition_that_is_told_by_its_transactions_names_the_calls_and_their_tool() -> None:
    trace = refunds("t1", "t2")
    trace = log(call("look"), *trace.actions)
    found = finding(judged(trace, *TWICE, body=RETRIES).judgement, "retried-create-item")
    assert found.sentence == 'item 7 and 8 are one effect 2 times: call-3 repeats call-2 ("refund")'
    assert (found.deltas, found.evidence[-2:]) == (("item[8]",), ("call-2", "call-3"))
    assert found.code == "duplicate-effect"


def test_of_many_repetitions_the_first_calls_and_three_effects_are_named() -> None:
    states = [{"item": [item(1), item(2), *(item(k) for k in range(7, 8 + n))]} for n in range(4)]
    found = finding(
        judged(refunds("t1", "t2", "t3", "t4"), *states, body=RETRIES).judgement,
        "retried-create-item",
    )
    assert found.sentence == (
        'item 7 and 8 and 9 are one effect 4 times: call-2 repeats call-1 ("refund")'
    )
    assert found.deltas == ("item[8]", "item[9]", "item[10]")


ONE_ORDER = replace(call("refund", order=1), transactions=(Mark("db", "t1"),))
OTHER_ORDER = replace(call("refund", order=2), transactions=(Mark("db", "t2"),))
LOST = replace(call("refund", order=1, error="timeout"), transactions=())


@pytest.mark.parametrize(
    ("calls", "truth"),
    [
        # An effect that is like no other needs no call; like ones need one that may have made them.
        ((LOST, ONE_ORDER, OTHER_ORDER), HOLDS),
        ((LOST, replace(call("mail"), transactions=ONE_ORDER.transactions), OTHER_ORDER), HOLDS),
        ((LOST, replace(LOST, error=None), ONE_ORDER, OTHER_ORDER), HOLDS),
    ],
)
def test_only_effects_that_are_alike_must_be_known_by_their_calls(
    calls: tuple[Action, ...], truth: Any
) -> None:
    single = {"item": [*TWICE[1]["item"], item(9, n=5)]}
    found = judged(log(*calls), *TWICE, single, body=RETRIES)
    assert truths(found.judgement)["retried-create-item"] is truth
