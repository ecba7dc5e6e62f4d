"""Bytes of a state changed at random: what an independent look finds different is no MATCH."""

import pytest

from lab.benchmarks.file_bytes import KINDS, is_suspect, run


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.clients("git") if kind == "git" else ())
        for kind in KINDS
    ],
)
def test_no_mutant_that_differs_is_a_match(kind: str) -> None:
    counted, suspects = run(kind, 80, seed=1)
    assert not suspects
    looks = {looks for looks, _ in counted}
    assert looks == {"alike", "different"}


@pytest.mark.parametrize(
    ("looks_alike", "verdict", "expected"),
    [
        (False, "MATCH", True),
        (True, "MATCH", False),
        (False, "DIVERGE", False),
        (True, "DIVERGE", False),
        (False, "INCONCLUSIVE", False),
        (True, "ValueError: odd", True),
        (True, "MATCH, as a pair DIVERGE", True),
    ],
)
def test_a_mutant_without_a_verdict_or_passed_in_spite_of_a_difference_is_suspect(
    looks_alike: bool, verdict: str, expected: bool
) -> None:
    assert is_suspect(looks_alike, verdict) is expected
