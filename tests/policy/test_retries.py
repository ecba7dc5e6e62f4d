"""Effects that a retried call repeated: what counts as one of them, and what may be one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.judging import CUT, FAILS, HIDDEN, HOLDS, UNKNOWN, doc, finding, item, state
from tests.traces import call, judged, log

TRACE = log(call("refund", error="timeout", line=1), call("refund", attempt=2, line=1))
ALIKE: Any = {"item": [item(1), item(2)]}
UNTOLD = "attribution: no history says which call left which effect"


@pytest.mark.parametrize(
    ("effect", "before", "after", "truth", "told"),
    [
        ("create item", {}, ALIKE, FAILS,
         'item 1 and 2 are one effect 2 times: call-2 repeats call-1 ("refund")'),
        ("any item", {}, ALIKE, FAILS,
         'item 1 and 2 are one effect 2 times: call-2 repeats call-1 ("refund")'),
        ("create item", {}, {"item": [item(1), item(2), item(3), item(4, 2)]}, FAILS,
         'item 1 and 2 and 3 are one effect 3 times: call-2 repeats call-1 ("refund")'),
        ("create item", {}, {"item": [item(1), item(2, t="b")]}, HOLDS, None),
        # Only what came into being is an effect twice, and only of the type that is named.
        ("any item", ALIKE, {}, HOLDS, None),
        ("create doc", {}, ALIKE, HOLDS, None),
        ("create doc", {}, {**ALIKE, "doc": [doc(1)]}, HOLDS, None),
        # An effect may be one of two where a field of it, or how many there are, was not seen.
        ("create item", {}, {"item": [item(1), item(2, HIDDEN)]}, UNKNOWN,
         (UNTOLD, "item.n after: hidden")),
        ("create item", {}, {"item": [item(2, HIDDEN)]}, HOLDS, None),
        ("create item", {}, state({}, {"item": CUT}), UNKNOWN, (UNTOLD, "item: cut short")),
        ("create item", {}, state({}, {"doc": CUT}), HOLDS, None),
        ("create item", {"item": [item(1, HIDDEN)]}, {"item": [item(1), item(2)]}, HOLDS, None),
    ],
)  # fmt: skip
def test_what_a_retried_call_may_have_done_twice(
    effect: str, before: Any, after: Any, truth: Any, told: Any
) -> None:
    body = (
        f"effects: [{{on: {effect}, retry_safe: false}}]\n"
        "forbid: [{create: log}]\nallow: [{any: [doc, item]}]\n"
    )
    judgement = judged(body, TRACE, before, after).judgement
    found = finding(judgement, f"retried-{effect.replace(' ', '-')}")
    assert found.truth is truth
    if truth is HOLDS:
        assert found.code == "holds"
    else:
        assert (found.sentence if truth is FAILS else found.missing) == told
