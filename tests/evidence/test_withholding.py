"""Values withheld from a generated trial never change its verdict: the same, or none."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from tests.evidence.withholding import check

TRIALS = 2_000 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 12


@pytest.mark.hypothesis  # `make fuzz` runs what is marked so
def test_no_leaf_withheld_from_a_generated_trial_changes_its_verdict() -> None:
    found: Counter[str] = Counter()
    for number in range(TRIALS):
        check(random.Random(1000 + number), found)
    assert found["withheld"] > 20 * TRIALS
    assert found["refused"]
    assert sum(found[verdict] for verdict in ("MATCH", "DIVERGE", "INCONCLUSIVE")) == TRIALS
    assert len({"MATCH", "DIVERGE", "INCONCLUSIVE"} & set(found)) > 1
