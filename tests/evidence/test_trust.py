"""Every test that the table of lies names is there."""

import re
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
HEAD = "can | the limit"


def test_every_test_that_the_table_names_is_there() -> None:
    table = (CHECKOUT / "docs" / "trust.md").read_text(encoding="utf-8")
    lines = (line for line in table.splitlines() if line.startswith("| "))
    rows = [line for line in lines if HEAD not in line]
    assert len(rows) > 15
    for row in rows:
        named = re.findall(r"`((?:[\w/]+/)?tests/[\w/]+\.py)(?:::(test_\w+))?`", row)
        assert named, row
        for file, test in named:
            content = (CHECKOUT / file).read_text(encoding="utf-8")
            assert f"def {test}(" in content if test else "def test_" in content, (file, test)
