"""The documentation builds as a site: every page is in it, and no link is broken."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from statediff import __version__

CHECKOUT = Path(__file__).parents[1]

pytest.importorskip("mkdocs")


def built(config: Path, out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(out)],
        cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=170,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip


def test_every_page_stands_in_the_navigation() -> None:
    """In a moment what the slow build says after minutes."""
    nav = (CHECKOUT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    docs = CHECKOUT / "docs"
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    pages = {page for page in pages if not page.startswith("examples/")}  # files of the blocks
    assert [page for page in sorted(pages) if not re.search(rf"[ \"]{page}\b", nav)] == []


@pytest.mark.slow
def test_the_site_holds_every_page_and_shows_its_blocks_as_blocks(tmp_path: Path) -> None:
    done = built(CHECKOUT / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 0, done.stderr
    pages = {path.with_suffix("").name for path in (CHECKOUT / "docs").glob("*.md")}
    html = {path.stem: path.read_text("utf-8") for path in (tmp_path / "site").glob("*.html")}
    assert pages <= html.keys() >= {"index"}
    assert [name for name, text in html.items() if "```" in text or "<!-- table" in text] == []
    assert '<span class="filename">raise.yaml</span>' in html["tutorial"]
    assert [name for name, text in html.items() if f"statediff {__version__}." not in text] == []
    for text in html.values():
        assert 'role="dialog" aria-label="Search"' in text
        assert "site.css" in text  # colors of enough contrast, links that are underlined
        # Nothing is fetched from elsewhere when a page is read.
        assert "fonts.googleapis" not in text
        assert 'src="http' not in text


def test_a_link_that_leads_nowhere_ends_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# A\n\n[gone](b.md), [gone](#c), [gone](../statediff/nowhere.py)\n")
    rules = (CHECKOUT / "mkdocs.yml").read_text()
    validation = rules[rules.index("validation:\n") : rules.index("\nnav:\n") + 1]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: x\ndocs_dir: docs\n{validation}")
    done = built(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    assert "'b.md', but the target is not found" in done.stderr
    assert "'#c'" in done.stderr
