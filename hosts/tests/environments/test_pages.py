"""Hosts in environments of their own: every page's example runs there, and prints what it shows."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.needs import hosts_folder
from tests.test_docs import CHECKOUT, check, put_programs

PAGES = CHECKOUT / "docs" / "hosts"
EXAMPLES = CHECKOUT / "docs" / "examples" / "hosts"
TEXT = "".join(page.read_text("utf-8") for page in sorted(PAGES.glob("*.md")))
HOSTS = sorted({*re.findall(r"(?m)^```console (\S+)$", TEXT)})


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "host", [pytest.param(host, marks=pytest.mark.host(host)) for host in HOSTS]
)
def test_the_example_of_each_page_prints_what_is_shown(host: str, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / host, tmp_path, dirs_exist_ok=True)
    shutil.copy(EXAMPLES / "close-ticket.yaml", tmp_path)
    for name in ("contracts", "sandboxes"):
        (tmp_path / name).symlink_to(CHECKOUT / name)
    harbor = "from harbor.cli.main import app; app()"
    programs = {
        "python": "-B -W ignore",
        "statediff": "-m statediff",
        "harbor": f"-c {shlex.quote(harbor)}",
    }
    put_programs(tmp_path, programs, str(hosts_folder() / host / "bin" / "python"))
    for text in re.findall(rf"(?ms)^```console {host}\n(.*?)^```$", TEXT):
        check(text, tmp_path, own=True)
