"""No mutant of a sealed bundle is accepted, breaks the verifier or keeps it busy."""

from __future__ import annotations

import os

import pytest

from tests.evidence.agreement import run_all
from tests.evidence.mutants import Maker, of_bytes, of_structure, outcome_of

IS_FULL = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"


@pytest.mark.hypothesis  # `make fuzz` runs what is marked so
@pytest.mark.parametrize(
    ("make", "few", "many"), [(of_bytes, 4_000, 1_000_000), (of_structure, 1_500, 10_000)]
)
def test_no_mutant_is_accepted(make: Maker, few: int, many: int) -> None:
    count = many if IS_FULL else few
    found = outcome_of(make, count, 11)
    assert found.statuses == {"INVALID": count}
    assert found.slowest_seconds < 1


@pytest.mark.node
def test_three_verifiers_say_the_same_of_every_mutant() -> None:
    said: list[str] = []
    found = run_all(2_400, 400, 400, 900, 3, said.append)
    assert said == []
    assert found["bytes"].statuses == {"INVALID": 2_400}
    assert found["structure"].statuses == {"INVALID": 400}
    assert found["beside"].statuses == {"INVALID": 900}
    signed = found["signed again"].statuses
    assert signed.total() == 400
    assert signed["INVALID"] > 200
    assert signed["VALID"] > 10  # its owner may say so: that all agree is no refusal of everything
