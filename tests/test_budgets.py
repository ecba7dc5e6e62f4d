"""How large each part may be: a ceiling is raised by a decision, lowered when it can be.

`python -m tests.test_budgets` prints each part as it is, with its ceiling and the aim of 1.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.code import CHECKOUT, CORE, PACKAGES

LAB: Final = CHECKOUT / "lab"
GATE: Final = CHECKOUT / "gate"
ROOMS: Final = [each for each in PACKAGES if each.is_relative_to(CHECKOUT / "sandboxes")]


class Budget(NamedTuple):
    """A part: where it lies, the ceiling, the aim where it has one, and what is counted."""

    name: str
    places: Iterable[Path]
    most: int
    aim: int | None = None
    files: str = "*.py"
    unit: str = "lines"

    def now(self) -> int:
        """Lines of Python, words of pages, or files."""
        found = [
            file
            for place in self.places
            for file in ([place] if place.is_file() else place.rglob(self.files))
        ]
        if self.unit == "modules":
            return len(found)
        texts = (file.read_text("utf-8") for file in found)
        return sum(len(t.split() if self.unit == "words" else t.splitlines()) for t in texts)


OWN: Final = (
    2_510, 3_580, 2_390, 1_170, 910, 6_620, 3_950, 5_360, 1_720, 5_970, 5_480,
    7_000, 3_970, 28_450,
)  # fmt: skip
"""The ceilings of the rooms, then those of the gate, the hosts and the laboratory."""
BUDGETS: Final = (
    Budget("core", [CORE], 114_560, 70_000),
    Budget("core", [CORE], 515, 300, unit="modules"),
    Budget("packages and benchmarks", [*PACKAGES, LAB / "benchmarks"], 206_580, 135_000),
    Budget("systems, wherever they lie", [CORE / "systems", *ROOMS], 60_100, 36_000),
    Budget("meta and benchmarks", [CORE / "meta", LAB / "benchmarks"], 19_050, 14_000),
    Budget("reports", [CORE / "reports"], 6_900, 6_500),
    Budget("cli", [CORE / "cli"], 6_670, 5_500),
    Budget("agents", [CORE / "agents"], 5_740, 5_000),
    Budget("suite", [CORE / "suite"], 3_440, 3_300),
    Budget("workspace", [CORE / "workspace"], 6_720, 5_000),
    Budget(
        "integrations, conformance", [CORE / "integrations", CORE / "conformance"], 1_590, 3_000
    ),
    Budget("importers", [LAB / "statediff_lab" / "importers"], 8_210, 5_500),
    Budget("contracts' agents", [CHECKOUT / "contracts"], 9_600, 6_000),
    Budget(
        "tests",
        [CHECKOUT / "tests", LAB / "tests", CHECKOUT / "hosts" / "tests"]
        + [each.parent / "tests" for each in ROOMS],
        113_840,
        75_000,
    ),
    Budget("tests and proofs of the gate", [GATE / "tests", GATE / "proofs"], 3_190),
    Budget(
        "pages",
        [CHECKOUT / "docs", *CHECKOUT.glob("*.md")],
        60_000,
        60_000,
        files="*.md",
        unit="words",
    ),
    *(
        Budget(package.name, [package], most)
        for package, most in zip(PACKAGES[1:], OWN, strict=True)
    ),
)
"""The aims are those of the plan of 1.0; decision 83 says why parts are above theirs."""


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: f"{budget.name}, {budget.unit}")
def test_no_part_is_larger_than_was_decided(budget: Budget) -> None:
    assert 0 < budget.now() <= budget.most


if __name__ == "__main__":
    print(f"{'':38}{'now':>9}{'at most':>9}{'aim':>9}")  # noqa: T201 - a program
    for each in BUDGETS:
        aim = "" if each.aim is None else f"{each.aim:,}"
        row = f"{f'{each.name}, {each.unit}':38}{each.now():>9,}{each.most:>9,}{aim:>9}"
        print(row)  # noqa: T201 - a program
