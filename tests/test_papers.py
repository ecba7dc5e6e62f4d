"""The page that holds the papers against the code: what it names passes, and it counts itself."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from statediff.contract.file import load_contract
from statediff.packs import contract_folders
from tests.test_promises import functions

CHECKOUT: Final = Path(__file__).parent.parent
PAGE: Final = CHECKOUT / "docs" / "papers.md"
ROW: Final = re.compile(r"(?m)^\| \[[^|]+\] \| [^|]+ \| ([^|]+) \|$")
NAMED: Final = re.compile(r"`((?:[\w/]+/)?tests/[^`:]+::\w+)`")
PARTS: Final = re.findall(r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"))
ROWS: Final = [(holds, shown) for holds, body in PARTS for shown in ROW.findall(body)]


def test_every_test_that_a_page_names_is_there() -> None:
    for page in sorted((CHECKOUT / "docs").rglob("*.md")):
        for file, name in re.findall(
            r"`((?:[\w/]+/)?tests/[\w/]+\.py)(?:::(test_\w+))?", page.read_text("utf-8")
        ):
            assert not name or name in functions(CHECKOUT / file), page
            assert (CHECKOUT / file).is_file(), page


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_what_a_row_names_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests that rows name, run now; a test is left out only where a need of it is not met."""
    named = {test for _, shown in ROWS for test in NAMED.findall(shown)}
    report = tmp_path / "report.xml"
    monkeypatch.delenv("STATEDIFF_PART", raising=False)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider",
         f"--junitxml={report}", *sorted(named)],
        cwd=CHECKOUT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = [each.get("message", "") for each in ET.parse(report).iter("skipped")]
    assert [why for why in skipped if not why.startswith("needs ")] == []


def test_the_page_counts_its_rows_and_whatever_holds_names_a_test_or_a_page() -> None:
    counts = Counter(holds for holds, _ in ROWS)
    text = PAGE.read_text("utf-8")
    assert len(ROWS) == len(re.findall(r"(?m)^\| \[", text))
    assert {r[0] for r in ROWS if not NAMED.search(r[1]) and "](" not in r[1]} == {"No"}
    assert (
        f"{len(ROWS)} rows, of which {counts['Holds']} hold, {counts['In part']} hold in part and "
        f"{counts['No']} do not."
    ) in text
    [missing] = re.findall(r"(?m)^(\d+) further open statements have no row yet", text)
    shown = 181 - counts["In part"] - counts["No"] - int(missing)
    assert f"leaves {shown} of 181" in text


def test_every_shipped_contract_says_which_calls_are_allowed() -> None:
    """All judge recorded calls alone, so that a row about calls holds in part."""
    found = [
        load_contract(path).content.actions
        for path in (CHECKOUT / "contracts").glob("[!i]*/*/contract.yaml")
    ]
    assert len(found) == len(contract_folders())
    assert all(each is not None and each.allow is not None for each in found)
    is_all = all(each is not None and each.over == "recorded" for each in found)
    about = [row for row in ROWS if "over: recorded" in row[1]]
    assert len(about) == 2
    assert all((holds == "In part") == is_all for holds, _ in about)
    assert all(f"all {len(found)} judge" in shown for _, shown in about)
