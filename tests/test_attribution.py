"""A sample of `lab.benchmarks.attribution`: concurrent connections, every delta's maker."""

from __future__ import annotations

from lab.benchmarks.attribution import measure


def test_every_attribution_of_a_concurrent_workload_is_right() -> None:
    found, evaluated = measure(100, 4, 7)
    assert found.wrong == 0
    assert found.attributed >= 0.99 * found.deltas > 0
    assert evaluated.judgement.verdict.value == "MATCH"
    assert evaluated.judgement.deltas


def test_what_was_written_past_the_recorder_is_nobodys() -> None:
    found, evaluated = measure(30, 4, 8, unrecorded=30)
    assert found.wrong == 0
    assert 0 < found.attributed < found.deltas
    assert evaluated.judgement.verdict.value == "INCONCLUSIVE"
