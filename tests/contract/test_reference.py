"""docs/reference.md and docs/lint.md are written from the code, and are not behind it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", ["reference.md", "lint.md", "packs.md", "examples.md"])
def test_the_generated_pages_are_as_the_code_says(name: str) -> None:
    pages = runpy.run_path(str(DOCS / "build_reference.py"))["PAGES"]
    assert (DOCS / name).read_text(encoding="utf-8") == pages[name](), "stale: run `make docs`"
