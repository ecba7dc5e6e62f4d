"""Formats are found by entry points; what is unknown, broken or claimed twice is named."""

import subprocess
import sys
from pathlib import Path

import pytest
from statediff_lab.importers.recorded import GROUP, open_suite, reader_of

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
    (tmp_path / "torn_reader.py").write_text("def (")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_third_partys_format_is_opened_by_its_name(site: Path) -> None:
    install(site, GROUP, "ledger", "ledger_reader:Opened")
    assert open_suite("ledger", site).name == "ledger"
    with pytest.raises(
        UsageError, match=r"no format 'x'; there are: agent-diff, (bfcl, )?ledger, tau2$"
    ):
        open_suite("x", site)


@pytest.mark.parametrize(
    "value", ["no_such_module:open_cases", "ledger_reader:NO_SUCH", "torn_reader:open_cases"]
)
def test_a_reader_that_cannot_be_loaded_is_named_with_its_distribution(
    site: Path, value: str
) -> None:
    install(site, GROUP, "gone", value)
    message = rf"gone = {value} in statediff\.importers, of gone 1\.0: cannot be loaded: "
    with pytest.raises(UsageError, match=message):
        open_suite("gone", site)


def test_what_nobody_can_call_is_no_reader(site: Path) -> None:
    install(site, GROUP, "odd", "ledger_reader:NUMBER")
    message = r"odd = ledger_reader:NUMBER in .*, of odd 1\.0: expected a function .*, found int"
    with pytest.raises(UsageError, match=message):
        open_suite("odd", site)


def test_a_format_that_two_distributions_claim_is_refused_with_both_names(site: Path) -> None:
    install(site, GROUP, "tau2", "ledger_reader:Opened", distribution="other")
    message = (
        r"name a plug-in 'tau2' in statediff\.importers: other 1\.0 and statediff-lab .*uninstall"
    )
    with pytest.raises(UsageError, match=message):
        open_suite("tau2", site)


def test_a_broken_reader_is_in_the_way_of_no_other(site: Path) -> None:
    install(site, GROUP, "gone", "no_such_module:open_cases")
    install(site, GROUP, "twice", "ledger_reader:Opened", distribution="one")
    install(site, GROUP, "twice", "ledger_reader:Opened", distribution="two")
    assert reader_of("tau2").__module__ == "statediff_lab.importers.tau2.suite"


def test_one_reader_is_imported_and_no_other() -> None:
    code = "import sys; from statediff_lab.importers.recorded import reader_of; reader_of('tau2'); "
    done = subprocess.run(
        [sys.executable, "-c", code + "print(*sys.modules)"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    modules = set(done.stdout.split())
    assert "statediff_lab.importers.tau2.suite" in modules
    assert not any(name.startswith("statediff_lab.importers.agentdiff") for name in modules)
