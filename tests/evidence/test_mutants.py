"""No mutant of a sealed bundle is accepted, breaks the verifier or keeps it busy."""

from __future__ import annotations

import os

import pytest

from tests.evidence.agreement import run_all
from tests.evidence.mutants import Outcome, of_bytes, of_structure

IS_FULL = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"


def check(found: Outcome, count: int) -> None:
    assert found.wrong == []
    assert found.statuses == {"INVALID": count}
    assert found.slowest_seconds < 1


@pytest.mark.hypothesis  # `make fuzz` runs what is marked so
def test_no_mutant_of_the_bytes_is_accepted() -> None:
    count = 1_000_000 if IS_FULL else 4_000
    check(of_bytes(count, 11), count)


@pytest.mark.hypothesis
def test_no_mutant_of_the_structure_is_accepted() -> None:
    count = 10_000 if IS_FULL else 1_500
    check(of_structure(count, 11), count)


@pytest.mark.node
def test_three_verifiers_say_the_same_of_every_mutant() -> None:
    said: list[str] = []
    found = run_all(1_200, 400, 400, 900, 3, said.append)
    assert said == []
    assert found["bytes"].statuses == {"INVALID": 1_200}
    assert found["structure"].statuses == {"INVALID": 400}
    assert found["beside"].statuses == {"INVALID": 900}
    signed = found["signed again"].statuses
    assert signed.total() == 400
    assert signed["INVALID"] > 200
    assert signed["VALID"] > 10  # its owner may say so: that all agree is no refusal of everything
