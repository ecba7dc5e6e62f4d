"""The commands of docs/docker.md on the sandboxes of extras, run where their servers are."""

import re
from pathlib import Path

import pytest
from statediff_erp.base import base_of

from statediff.packs import sandbox_folders, sandbox_names
from tests.tasks import packs_of_the_core
from tests.test_docs import CHECKOUT, check, make_program

PAGE = (CHECKOUT / "docs" / "docker.md").read_text(encoding="utf-8")
SHOWN = re.compile(r"^```console pack\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`(\w+)` \(")
FIRST = {
    "chat": "chat/announce-change",
    "cloud": "cloud/rotate-key",
    "erp": "erp/close-period",
    "office": "office/move-meeting",
    "payments": "payments/refund-once",
}


@pytest.mark.timeout(900)  # the ERP's database is made first, where it was not before
@pytest.mark.pack("packs")
@pytest.mark.parametrize("pack", sorted(FIRST))
def test_the_command_of_the_page_starts_each_sandbox_of_an_extra(
    pack: str, tmp_path: Path, forked: Path
) -> None:
    if pack == "erp":
        base_of(sandbox_folders()["erp"] / "build.py")
    make_program(tmp_path, forked)
    (block,) = SHOWN.findall(PAGE)
    task = FIRST[pack]
    shown = block.replace(FIRST["erp"], task)
    check(shown.replace(FIRST["erp"].replace("/", "-"), task.replace("/", "-")), tmp_path)


def test_the_page_lists_every_sandbox_of_an_extra() -> None:
    listed = set(NAMED.findall(PAGE.partition("```")[0]))
    assert listed == set(sandbox_names()) - set(packs_of_the_core())
