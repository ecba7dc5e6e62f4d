"""Every test that the tables of attacks, of lies and of checklists name is there."""

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
HEADS = ("attack |", "can | the limit", "item | so")


@pytest.mark.parametrize(
    ("page", "least"), [("attacks", 30), ("trust", 15), ("self-assessment", 20)]
)
def test_every_test_that_the_table_names_is_there(page: str, least: int) -> None:
    table = (CHECKOUT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    lines = (line for line in table.splitlines() if line.startswith("| "))
    rows = [line for line in lines if not any(head in line for head in HEADS)]
    assert len(rows) > least
    for row in rows:
        named = re.findall(r"`((?:[\w/]+/)?tests/[\w/]+\.py)(?:::(test_\w+))?`", row)
        assert named, row
        for file, test in named:
            content = (CHECKOUT / file).read_text(encoding="utf-8")
            assert f"def {test}(" in content if test else "def test_" in content, (file, test)
