"""Values that are made to hold up or mislead whoever judges them."""

import time

from statediff.model.verdict import Truth
from tests.judging import item, run

BODY = """\
allow: [{update: item}]
require:
  - id: plain
    that: all(not matches(i.t, "^(a+)+$") for i in after.item)
"""


def test_a_pattern_that_blows_up_elsewhere_is_decided_in_no_time() -> None:
    """The value takes a backtracking engine longer than anybody waits; RE2 is linear in it."""
    started = time.process_time()
    for tail, truth in (("!", Truth.HOLDS), ("", Truth.FAILS)):
        rows = {"item": [item(1, t="a" * 20_000 + tail)]}
        found = {f.clause: f.truth for f in run(BODY, rows, rows).judgement.findings}
        assert found["plain"] is truth
    assert time.process_time() - started < 10
