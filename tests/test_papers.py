"""The page that holds the papers against the code: what it names exists, and it counts itself."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from statediff.cli.main import run
from statediff.contract.file import load_contract
from statediff.packs import contract_folders

CHECKOUT: Final = Path(__file__).parent.parent
PAGE: Final = CHECKOUT / "docs" / "papers.md"
ROW: Final = re.compile(r"(?m)^\| (\[[^|]+\]) \| ([^|]+) \| (yes|in part|no) \| ([^|]+) \|$")
ROWS: Final = ROW.findall(PAGE.read_text("utf-8"))


@cache
def names_in(file: str) -> frozenset[str]:
    """The names of the tests in a file."""
    tree = ast.parse((CHECKOUT / file).read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_line_of_the_table_is_a_row() -> None:
    lines = [x for x in PAGE.read_text("utf-8").splitlines() if x.startswith("| [")]
    assert len(ROWS) == len(lines)


def test_every_test_that_a_page_names_is_there() -> None:
    for page in sorted((CHECKOUT / "docs").rglob("*.md")):
        for file, name in re.findall(
            r"`((?:[\w/]+/)?tests/[\w/]+\.py)(?:::(test_\w+))?", page.read_text("utf-8")
        ):
            assert not name or name in names_in(file), page
            assert (CHECKOUT / file).is_file(), page


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1]}"[:60])
def test_what_a_row_names_exists(row: tuple[str, str, str, str]) -> None:
    _, _, holds, shown = row
    named = re.findall(r"`((?:[\w/]+/)?tests/[^`:]+)::(\w+)`", shown)
    pages = re.findall(r"\]\(([\w.]+)(?:#([\w-]+))?\)", shown)
    for page, place in pages:
        text = (CHECKOUT / "docs" / page).read_text("utf-8")
        headings = re.findall(r"(?m)^#+ (.+)$", text)
        slugs = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
        assert not place or place in slugs
    assert holds == "no" or named or pages or "`statediff " in shown


def test_every_command_that_is_named_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    for command in {name for *_, shown in ROWS for name in re.findall(r"`statediff (\w+)", shown)}:
        assert run([command, "--help"]) == 0
        assert command in capsys.readouterr().out


def test_the_page_counts_its_rows() -> None:
    counts = Counter(holds for _, _, holds, _ in ROWS)
    text = PAGE.read_text("utf-8")
    assert (
        f"{len(ROWS)} rows, of which {counts['yes']} hold, {counts['in part']} hold in part and "
        f"{counts['no']} do not."
    ) in text
    missing = re.search(r"(?m)^(\d+) further open statements have no row yet", text)
    assert missing is not None
    shown = 181 - counts["in part"] - counts["no"] - int(missing[1])
    assert f"leaves {shown} of 181" in text


def test_a_row_that_every_contract_bears_out_says_what_the_contracts_do() -> None:
    """All judge recorded calls alone, so that a row about calls holds in part."""
    every = [
        load_contract(path).content
        for path in sorted((CHECKOUT / "contracts").glob("[!i]*/*/contract.yaml"))
    ]
    recorded = [each for each in every if each.actions and each.actions.over == "recorded"]
    is_all = len(recorded) == len(every)
    about = [row for row in ROWS if "over: recorded" in row[3]]
    assert len(about) == 2
    for _, _, holds, shown in about:
        assert (holds == "in part") == is_all
        assert f"all {len(every)} judge" in shown


def test_every_shipped_contract_says_which_calls_are_allowed() -> None:
    found = [
        load_contract(path).content
        for path in sorted((CHECKOUT / "contracts").glob("[!i]*/*/contract.yaml"))
    ]
    assert len(found) == len(contract_folders())
    for each in found:
        assert each.actions is not None
        assert each.actions.allow is not None
