"""Formats are found by entry points; what is unknown, broken or claimed twice is named."""

import subprocess
import sys
from pathlib import Path

import pytest
from statediff_lab.importers.recorded import GROUP, open_suite

from statediff.errors import UsageError
from tests.installing import install

READER = """
class Opened:
    name = "ledger"

    def __init__(self, folder):
        self.folder = folder

NUMBER = 5
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, with a module that no distribution names yet."""
    (tmp_path / "ledger_reader.py").write_text(READER)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_third_partys_format_is_opened_by_its_name(site: Path) -> None:
    install(site, GROUP, "ledger", "ledger_reader:Opened")
    assert open_suite("ledger", site).name == "ledger"
    with pytest.raises(
        UsageError, match=r"no format 'x'; there are: agent-diff, (bfcl, )?ledger, tau2$"
    ):
        open_suite("x", site)


def test_what_nobody_can_call_is_no_reader(site: Path) -> None:
    install(site, GROUP, "odd", "ledger_reader:NUMBER")
    message = r"odd = ledger_reader:NUMBER in .*, of odd 1\.0: expected a function .*, found int"
    with pytest.raises(UsageError, match=message):
        open_suite("odd", site)


def test_one_reader_is_imported_and_no_other() -> None:
    code = "import sys; from statediff_lab.importers.recorded import reader_of; reader_of('tau2'); "
    done = subprocess.run(
        [sys.executable, "-c", code + "print(*sys.modules)"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    modules = set(done.stdout.split())
    assert "statediff_lab.importers.tau2.suite" in modules
    assert not any(name.startswith("statediff_lab.importers.agentdiff") for name in modules)
