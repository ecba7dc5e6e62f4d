"""A finding's content: values and comparisons in words, and the few rows behind them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from statediff.contract.language.calls import TRACE
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntityRef,
    Seen,
    Undefined,
    Unknown,
)
from statediff.contract.language.syntax import BOOL, Call, Compare, Const
from statediff.kernel.policy.witness import (
    MAX_COMPARISONS,
    MAX_ROWS,
    MAX_TEXT,
    call_row,
    cause_code,
    change,
    compared,
    deciding,
    first_change,
    shown_result,
    witness_of,
)
from statediff.model.delta import Delta, Entity, Op
from statediff.model.explanation import Explanation, Reason, cause, shown
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.sentences import fraction_text, sentence, value_text
from statediff.model.values import Digested, Excluded, Map, Unobserved, encode, show
from tests.judging import judged, state

ZERO = Const(BOOL, 0, 0)
ROW = {"id": 1, "n": 2}
THING = EntityRef("after", "item", (1,), ROW)


def seen(
    op: str = "==", left: Any = 1, right: Any = 2, mask: int = FALSE, *entity_refs: EntityRef
) -> Seen:
    node = Compare(BOOL, 0, op, ZERO, ZERO, f"it.n {op} 2")
    return Seen(node, left, right, mask, entity_refs)


def asked(name: str, left: Any, right: Any, mask: int) -> Seen:
    return Seen(Call(BOOL, 0, name, ()), left, right, mask, ())


def delta(op: Op, path: str, before: Any, after: Any, key: int = 1) -> Delta:
    return Delta(
        op, "item", (key,), path, before=before, after=after, raw_before=before, raw_after=after,
        evidence=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(3), "3"), (Fraction(-3), "-3"), (Fraction(1, 2), "0.5"),
        (Fraction(-1, 8), "-0.125"), (Fraction(1234, 100), "12.34"), (Fraction(1, 100), "0.01"),
        (Fraction(1, 10**12), "0." + "0" * 11 + "1"),
        (Fraction(1, 2 * 10**12), "1/2000000000000"),
        (Fraction(1, 5), "0.2"), (Fraction(1, 3), "1/3"), (Fraction(-2, 15), "-2/15"),
        (Fraction(1, 10**12), "0.000000000001"), (Fraction(1, 10**13), f"1/{10**13}"),
        (Fraction(0), "0"),
    ],
)  # fmt: skip
def test_a_fraction_is_a_decimal_where_it_has_a_short_one(value: Fraction, text: str) -> None:
    assert fraction_text(value) == sentence(shown_result(value)) == text


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (Unknown(frozenset({"b", "a"})), "unobserved (a; b)"),
        (Unknown(frozenset({"x" * 90})), f"unobserved ({'x' * 80})"),
        (Undefined("no such entity"), "undefined (no such entity)"),
        (EntityRef("after", "item", (1, "a"), None), "item (1, a)"),
        ((1, Fraction(1, 2)), "[1, 0.5]"),
        (tuple(range(9)), "[0, 1, 2, 3, 4, 5]"),
        ("a", '"a"'),
        (None, "null"),
    ],
)
def test_a_result_is_told_in_words(result: Any, text: str) -> None:
    assert sentence(shown_result(result)) == text


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (seen("==", 1, 2, FALSE), "1 ≠ 2"), (seen("==", 1, 1, TRUE), "1 = 1"),
        (seen("<", 2, 1, FALSE), "2 ≥ 1"), (seen("not in", 1, (2,), TRUE), "1 ∉ [2]"),
        (seen("==", 1, 1, TRUE | FALSE), "1 ? == ? 1"),
        (seen("<", 1, None, UNDEFINED), "1 ? < ? null"),
        (asked("exists", THING, None, TRUE), "item 1 exists"),
        (asked("exists", THING, None, FALSE), "item 1 does not exist"),
        (asked("exists", THING, None, TRUE | FALSE), "item 1 may exist"),
        (asked("starts_with", "ab", "a", TRUE), '"ab" starts with "a"'),
        (asked("starts_with", "ab", "b", FALSE), '"ab" does not start with "b"'),
    ],
)  # fmt: skip
def test_a_comparison_shows_what_was_found_between_its_sides(entry: Seen, text: str) -> None:
    assert sentence(compared(entry)) == text


def test_what_decided_is_the_last_comparison_with_that_outcome() -> None:
    trail = (seen("==", 1, 2), seen("==", 3, 4), seen("==", 5, 5, TRUE))
    assert deciding(trail, FALSE) == compared(trail[1])
    assert deciding(trail, TRUE) == compared(trail[2])
    assert deciding(trail, UNDEFINED) is None


@pytest.mark.parametrize(
    ("text", "code", "component"),
    [
        ("hidden", "unobserved", "capture"),
        ("stale: read before the run", "evidence-stale", "policy"),
        ("unsettled: it still moved", "evidence-unsettled", "policy"),
        ("missing: it must report", "evidence-missing", "capture"),
        ("forgeable: the agent wrote it", "evidence-forgeable", "policy"),
        ("acknowledgement: a word only", "evidence-acknowledgement-only", "policy"),
        ("contradiction: a and b", "evidence-contradictory", "resolve"),
        ("ambiguous identity: two rows", "identity-ambiguous", "resolve"),
        ("unrecorded: it was stopped", "trace-unobserved", "capture"),
        ("no history: nobody kept one", "history-unobserved", "capture"),
        ("a stale: tale", "unobserved", "capture"),
    ],
)
def test_a_cause_says_by_its_first_words_who_owns_the_gap(
    text: str, code: str, component: str
) -> None:
    found = cause_code([cause(text)])
    assert (found, found.component) == (code, component)
    assert cause_code([Reason.IN(place="item", cause=cause(text))]) == code
    # Whatever has a code comes before what has none, however they sort.
    assert cause_code([*map(cause, ("a: hidden", text, "z: hidden"))]) == code


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (
            Reason.IN(place="item", cause=cause("unread: the source has no such table")),
            "the source has no such table",
        ),
        (cause("stale: read before the run"), "stale: read before the run"),
        (cause("hidden"), "hidden"),
    ],
)
def test_only_that_a_source_was_not_read_is_told_without_its_code(
    why: Explanation, said: str
) -> None:
    assert sentence(Reason.NEEDED(cause=why, clause="c")) == f"{said}; needed by c"


@pytest.mark.parametrize(
    ("moved", "text"),
    [
        (delta(Op.UPDATE, "n", 1, None), "item 1 n 1 → null"),
        (delta(Op.CREATE, "", None, Entity.of({"id": 1})), "item 1 created"),
        (delta(Op.DELETE, "", Entity.of({"id": 1}), None), "item 1 deleted"),
        (delta(Op.LINK, "", None, Entity.of({})), "item 1 linked"),
        (delta(Op.UNLINK, "", Entity.of({}), None), "item 1 unlinked"),
    ],
)
def test_a_change_is_told_in_words(moved: Delta, text: str) -> None:
    assert sentence(change(moved)) == sentence(first_change((moved,))) == text
    assert sentence(first_change((moved, moved, moved))) == f"{text} and 2 more"


@pytest.mark.parametrize(
    ("length", "shown"), [(38, '"' + "a" * 38 + '"'), (39, '"' + "a" * 38 + "…")]
)
def test_a_long_value_of_a_change_is_cut_in_its_sentence(length: int, shown: str) -> None:
    moved = change(delta(Op.UPDATE, "t", "a" * length, "b"))
    assert sentence(moved) == f'item 1 t {shown} → "b"'


def test_an_argument_holds_no_more_of_a_value_than_a_sentence_can_show() -> None:
    secret = "s3cret" * 200
    for value in (
        Digested.of(secret), secret.encode(), Excluded("privacy"), ("a" * 100, secret),
        Map.of({str(n): secret for n in range(50)}), tuple([secret] * 50), Unobserved(secret),
    ):  # fmt: skip
        assert sentence(shown(value)) == show(value)
        for argument in (shown(value), shown(value, 41)):
            assert secret[:62] not in str(argument)
            assert len(str(argument.document())) < 1_200
    assert sentence(shown(secret)) == show(secret)
    assert value_text(shown(secret, 41)["value"], 40) == show(secret, 40)
    assert sentence(shown(b"\x00" * 9_999)) == "9999 bytes"


def test_a_witness_has_each_entity_and_each_comparison_once() -> None:
    other = EntityRef("before", "item", (1,), {"id": 1, "n": 9})
    unread = EntityRef("after", "item", (5,), None)
    found = witness_of([seen("==", 1, 2, FALSE, THING, unread), seen("==", 1, 2, FALSE, other)])
    assert [(r.side, r.key, dict(r.fields)) for r in found.rows] == [
        ("after", (1,), ROW), ("before", (1,), other.row),
    ]  # fmt: skip
    assert [(c.text, c.left, c.right, c.operator) for c in found.comparisons] == [
        ("it.n == 2", shown_result(1), shown_result(2), "==")
    ]
    called = witness_of([asked("exists", THING, None, FALSE)]).comparisons[0]
    assert (called.text, called.operator) == ("exists", "exists")
    assert sentence(called.left) == "item 1"


def test_a_witness_shows_the_changed_fields_of_both_sides_and_no_more_of_what_it_has() -> None:
    changes = [delta(Op.UPDATE, "n", 1, 2), delta(Op.UPDATE, "t", "a", "b")]
    both = {(r.side, r.key): dict(r.fields) for r in witness_of((), changes).rows}
    assert both == {("before", (1,)): {"n": 1, "t": "a"}, ("after", (1,)): {"n": 2, "t": "b"}}
    known = {
        r.side: dict(r.fields) for r in witness_of([seen("==", 1, 2, FALSE, THING)], changes).rows
    }
    assert known == {"after": {**ROW, "t": "b"}, "before": {"n": 1, "t": "a"}}
    made = witness_of((), [delta(Op.CREATE, "", None, Entity.of({"id": 1, "n": 3}))]).rows
    assert [(r.side, r.type, dict(r.fields)) for r in made] == [
        ("after", "item", {"id": 1, "n": 3})
    ]


def test_a_witness_is_bounded() -> None:
    many = [
        seen("==", n, 0, FALSE, EntityRef("after", "item", (n,), {"id": n})) for n in range(20)
    ]  # fmt: skip
    found = witness_of(many)
    assert [r.key for r in found.rows] == [(n,) for n in range(MAX_ROWS)]
    assert [c.left for c in found.comparisons] == [shown_result(n) for n in range(MAX_COMPARISONS)]


def test_a_call_shows_what_the_log_says_of_it_and_cuts_what_is_long() -> None:
    brief, long = "x" * 100, "x" * 1_000
    row = {
        "id": "call-1", "position": 1, "turn": 1, "tool": "set", "error": None,
        "arguments": Map.of({"n": 1}), "result": long, "note": brief,
    }  # fmt: skip
    shown = call_row(EntityRef(TRACE, "call", ("call-1",), row))
    fields: dict[str, Any] = dict(shown.fields)
    assert (shown.side, shown.type, shown.key) == (TRACE, "call", ("call-1",))
    assert set(fields) == {"tool", "arguments", "result", "note"}
    assert (fields["tool"], fields["arguments"], fields["note"]) == ("set", row["arguments"], brief)
    assert MAX_TEXT // 2 < len(fields["result"]) < MAX_TEXT + 10
    whole = "x" * (MAX_TEXT - len(str(encode(""))))
    for text, is_cut in ((whole, False), (whole + "x", True)):
        (cell,) = call_row(EntityRef(TRACE, "call", ("call-1",), {"note": text})).fields
        assert (cell[1] != text) is is_cut
    assert call_row(EntityRef(TRACE, "call", ("call-1",), None)).fields == ()
    told = witness_of([seen("==", 1, 2, FALSE, EntityRef(TRACE, "call", ("call-1",), row))])
    assert told.rows == (shown,)


def test_entities_whose_long_keys_begin_alike_are_all_shown() -> None:
    named = EntityType(
        "bucket", ("name",), (Field("name", Kind.TEXT, is_nullable=False), Field("n", Kind.INT))
    )
    names = [f"{'reports-of-the-department-of-' * 3}{each}" for each in ("north", "south")]
    before, after = (
        state({"bucket": [{"name": name, "n": n} for name in names]}, types=(named,))
        for n in (1, 2)
    )
    apart = "require:\n  - {id: apart, that: unique(b.n for b in after.bucket)}\n"
    for body, clause in ((apart, "apart"), ("forbid:\n  - {id: kept, any: bucket}\n", "kept")):
        found = [f for f in judged(body, before, after).findings if f.clause == clause]
        shown = {row.key for each in found for row in each.witness.rows}
        assert shown == {(name,) for name in names}
