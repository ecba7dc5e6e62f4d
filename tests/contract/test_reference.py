"""The generated pages of docs/ say what the code says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ["reference.md", "findings.md", "check.md", "packs.md", "examples.md", "not-observed.md"]


@pytest.mark.parametrize("name", PAGES)
def test_the_generated_pages_are_as_the_code_says(name: str) -> None:
    pages = runpy.run_path(str(DOCS / "build_reference.py"))["PAGES"]
    assert (DOCS / name).read_text(encoding="utf-8") == pages[name](), "stale: run `make docs`"
