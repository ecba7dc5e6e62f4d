"""The README's commands on the sandboxes of extras, run where their servers are."""

import re
from pathlib import Path

import pytest
from statediff_erp.base import base_of

from statediff.packs import sandbox_folders, sandbox_names
from tests.tasks import packs_of_the_core
from tests.test_docs import README, check, make_program

SHOWN = re.compile(r"^```console pack\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
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
def test_the_command_of_the_readme_starts_each_sandbox_of_an_extra(
    pack: str, tmp_path: Path, forked: Path
) -> None:
    if pack == "erp":
        base_of(sandbox_folders()["erp"] / "build.py")
    make_program(tmp_path, forked)
    (block,) = SHOWN.findall(README.read_text(encoding="utf-8"))
    task = FIRST[pack]
    shown = block.replace(FIRST["erp"], task)
    check(shown.replace(FIRST["erp"].replace("/", "-"), task.replace("/", "-")), tmp_path)


def test_the_readme_lists_every_sandbox_of_an_extra():
    listed = set(ROW.findall(README.read_text(encoding="utf-8")))
    assert listed == set(sandbox_names()) - set(packs_of_the_core())
