"""The commands of docs/docker.md are run, against real servers."""

import re
from pathlib import Path

import pytest

from tests.test_docs import CHECKOUT, check, make_program

PAGE = CHECKOUT / "docs" / "docker.md"
BLOCKS = re.findall(r"^```console docker\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.docker("git", "postgres")
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0][2:])
def test_every_command_shown_prints_what_is_shown(block: str, tmp_path: Path, forked: Path) -> None:
    make_program(tmp_path, forked)
    check(block, tmp_path)


def test_the_page_shows_how_to_build_run_and_start() -> None:
    shown = "".join(BLOCKS)
    for command in ("sandbox build", "run", "sandbox up", "sandbox verify", "sandbox down"):
        assert f"$ statediff {command}" in shown
