"""Every test that the table of attacks names is there."""

import re
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
TABLE = (CHECKOUT / "docs" / "attacks.md").read_text(encoding="utf-8")


def test_every_test_that_the_table_of_attacks_names_is_there() -> None:
    rows = [line for line in TABLE.splitlines() if line.startswith("| ") and "attack |" not in line]
    assert len(rows) > 30
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", row)
        assert named, row
        for file, test in named:
            content = (CHECKOUT / file).read_text(encoding="utf-8")
            assert f"def {test}(" in content if test else "def test_" in content, (file, test)
