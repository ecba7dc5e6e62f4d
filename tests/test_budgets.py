"""How large each distribution may be: a ceiling is raised by a decision, lowered when it can be."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.code import CHECKOUT, PACKAGES

LINES: Final = {
    "statediff": 114_300,
    "statediff_chat": 2_510,
    "statediff_cloud": 3_580,
    "statediff_containers": 2_390,
    "statediff_data": 1_170,
    "statediff_erp": 910,
    "statediff_gate": 7_000,
    "statediff_git": 6_620,
    "statediff_mariadb": 3_950,
    "statediff_office": 5_360,
    "statediff_payments": 1_720,
    "statediff_postgres": 5_970,
    "statediff_trackers": 5_480,
    "statediff_hosts": 3_970,
    "statediff_lab": 28_450,
}
"""Lines of Python of each package, at most."""
BENCHMARKS: Final = 13_100
TESTS: Final = 113_700
AGENTS: Final = 9_600
"""Lines of the agents of tasks, with their toolboxes; the aim is 6,000."""
GATE: Final = 3_190
"""Lines of the tests and proofs of the distribution that came last."""
MODULES: Final = 515
"""Modules of the core."""
WORDS: Final = 82_500
"""Words of the pages, README, CONTRIBUTING and CHANGELOG; the aim is 60,000."""


def lines(folder: Path) -> int:
    return sum(len(file.read_text("utf-8").splitlines()) for file in folder.rglob("*.py"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_distribution_is_no_larger_than_was_decided(package: Path) -> None:
    assert lines(package) <= LINES[package.name]


def test_tests_and_benchmarks_are_no_larger_than_was_decided() -> None:
    folders = [CHECKOUT / top / "tests" for top in (".", "lab", "hosts")]
    folders += CHECKOUT.glob("sandboxes/*/tests")
    assert sum(map(lines, folders)) <= TESTS
    assert lines(CHECKOUT / "lab" / "benchmarks") <= BENCHMARKS
    assert lines(CHECKOUT / "contracts") <= AGENTS
    assert lines(CHECKOUT / "gate" / "tests") + lines(CHECKOUT / "gate" / "proofs") <= GATE


def test_the_core_has_no_more_modules_than_was_decided() -> None:
    assert len([*(CHECKOUT / "statediff").rglob("*.py")]) <= MODULES


def test_pages_have_no_more_words_than_was_decided() -> None:
    pages = [*(CHECKOUT / "docs").rglob("*.md"), *CHECKOUT.glob("*.md")]
    assert sum(len(page.read_text("utf-8").split()) for page in pages) <= WORDS
