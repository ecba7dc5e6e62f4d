"""The pictures of the docs: each shown one is made by the script, and nothing else is kept."""

from __future__ import annotations

import re
from pathlib import Path

from docs.build_pictures import MOST_BYTES, PICTURES, SHOTS

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))


def shown() -> dict[str, list[str]]:
    """The pictures that each page shows, as files."""
    return {
        str(page.relative_to(ROOT)): [
            str((page.parent / path).resolve())
            for path in re.findall(r"!\[[^\]]*\]\(([^):]+\.png)\)", page.read_text("utf-8"))
        ]
        for page in PAGES
    }


def test_every_picture_shown_is_made_by_the_script_and_the_other_way_round() -> None:
    made = {str(PICTURES / f"{shot.name}.png") for shot in SHOTS}
    assert {path for paths in shown().values() for path in paths} == made
    assert {str(path) for path in PICTURES.iterdir()} == made


def test_every_picture_is_a_png_of_bearable_size_as_wide_as_its_name_says() -> None:
    for shot in SHOTS:
        data = (PICTURES / f"{shot.name}.png").read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        assert len(data) <= MOST_BYTES
        assert int.from_bytes(data[16:20]) <= shot.context["viewport"]["width"]
