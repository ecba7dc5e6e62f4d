"""A kind of system is found by its entry point, and said to be missing what it needs."""

from pathlib import Path

import pytest

from statediff.errors import UsageError
from statediff.packs import PackSource
from statediff.sandbox.system import system_of


def source(kind: str) -> PackSource:
    return PackSource("thing", kind)


@pytest.fixture
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two more distributions: one kind that needs a library nobody has, one that is broken."""
    metadata = tmp_path / "needy-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: needy\n")
    (metadata / "entry_points.txt").write_text(
        "[statediff.systems]\nneedy = needy_system:Needy [docker]\nplain = needy_system:Needy\n"
    )
    (tmp_path / "needy_system.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_an_unknown_kind_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is of kind 'oracle'; there are: files, git, .*sqlite"):
        system_of(source("oracle"), (), tmp_path)


@pytest.mark.usefixtures("plugged")
def test_a_kind_whose_library_is_not_installed_says_which_extra_has_it(tmp_path: Path) -> None:
    message = r"'needy' need no_such_library; get it with `pip install statediff\[docker\]`"
    with pytest.raises(UsageError, match=message):
        system_of(source("needy"), (), tmp_path)


@pytest.mark.usefixtures("plugged")
def test_a_kind_that_is_broken_is_not_taken_for_one_that_lacks_something(tmp_path: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        system_of(source("plain"), (), tmp_path)
