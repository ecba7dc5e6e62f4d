"""The pages that the site makes of the code can be made, and name all there is."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import typer

from statediff.cli.main import parser

DOCS = Path(__file__).resolve().parents[2] / "docs"
BUILD = runpy.run_path(str(DOCS / "build_reference.py"))["PAGES"]


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILD)
def test_a_page_has_whole_tables_and_links_that_lead_somewhere(name: str) -> None:
    text = BUILD[name]()
    assert text.startswith("# ")
    for table in re.findall(r"(?m)((?:^\|.*\n)+)", text):
        bars = {re.sub(r"\\\|", "", line).count("|") for line in table.splitlines()}
        assert len(bars) == 1, table
    links = re.findall(r"\]\(([^)#:]+)[^)]*\)", text)
    assert [x for x in links if x not in BUILD and not (DOCS / x).exists()] == []


def test_every_command_and_option_is_described() -> None:
    text = BUILD["cli.md"]()
    root = typer.main.get_command(parser())
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        for inner_name, inner in getattr(command, "commands", {"": command}).items():
            head = f"### statediff {name} {inner_name}" if inner_name else f"## statediff {name}"
            section = re.search(rf"(?ms)^{head}\n(.*?)(?=^##|\Z)", text)
            assert section, f"no section {head}"
            shown = (each for each in inner.params if each.help or not each.hidden)
            for parameter in shown:
                for option in parameter.opts:
                    if option.startswith("-") and option not in ("--help", "-h"):
                        assert f"`{option}`" in section[1], f"{name} {option} is not described"
                        assert parameter.help, f"{name} {option} has no help"
