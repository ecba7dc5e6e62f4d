"""Report formats are found by name: ours, and what other distributions plug in."""

from __future__ import annotations

from pathlib import Path

import pytest

from statediff.errors import UsageError
from statediff.reports.formats.exports import without_verdict
from statediff.reports.formats.format import OURS, Takes, format_of, names

MODULE = """
from statediff.reports.formats.format import ReportFormat, Takes

def write(trials, not_run):
    return "".join(f"{each.verdict} {each.trial}\\n" for each in trials) + f"{not_run} more\\n"

FORMAT = ReportFormat(name="listed", takes=Takes.TRIALS, write=write)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, with the module of a format that no distribution names yet."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "listed_format.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path / "site")
    return tmp_path / "site"


def plug(folder: Path, name: str, value: str, *, distribution: str = "lister") -> None:
    metadata = folder / f"{distribution}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text(f"[statediff.reports]\n{name} = {value}\n")


@pytest.mark.parametrize("name", OURS)
def test_each_of_ours_is_the_format_of_its_name_and_tells_of_a_trial_without_a_verdict(
    name: str,
) -> None:
    found = format_of(name)
    assert found.name == name
    if found.takes is Takes.TRIALS:
        assert "never-judged" in found.write([without_verdict("never-judged", "it broke")], 0)
    else:
        assert found.write([{"a": 1}, {"b": 2}], 0).count("\n") == 2


def test_a_name_that_nobody_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"there are: junit, sarif, markdown, "):
        format_of("a\nb")


def test_another_distributions_format_is_listed_after_ours_and_loaded_when_asked_for(
    site: Path,
) -> None:
    plug(site, "listed", "listed_format:FORMAT")
    plug(site, "broken", "no_such_module:FORMAT", distribution="breaker")
    assert names() == (*OURS, "broken", "listed")
    assert format_of("listed").write([], 3) == "3 more\n"
    assert format_of("junit").name == "junit"
    with pytest.raises(UsageError, match=r"broken = no_such_module:FORMAT .*of breaker 1\.0"):
        format_of("broken")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("listed", "listed_format:write", "expected a ReportFormat, found function"),
        ("other", "listed_format:FORMAT", "its format is named 'listed'"),
        (
            "junit",
            "listed_format:FORMAT",
            "statediff has a format 'junit' of its own; uninstall it",
        ),
    ],
)
def test_a_plug_in_that_is_no_format_or_takes_a_name_of_ours_is_refused(
    site: Path, name: str, value: str, why: str
) -> None:
    plug(site, name, value)
    with pytest.raises(UsageError, match=f"of lister 1.0: {why}"):
        format_of(name)


def test_a_name_that_two_distributions_claim_is_refused(site: Path) -> None:
    plug(site, "listed", "listed_format:FORMAT")
    plug(site, "listed", "listed_format:FORMAT", distribution="other")
    with pytest.raises(UsageError, match="two distributions"):
        format_of("listed")
