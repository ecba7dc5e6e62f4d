"""Verdicts under different contract or kernel versions are never counted together."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from statediff.evidence.package import Bundle
from statediff.reports.comparability import Judge, are_comparable, judge
from statediff.reports.formats.exports import Exported, without_verdict
from statediff.reports.formats.junit import junit
from statediff.reports.formats.markdown import markdown
from statediff.reports.html import fault, outcome, run_html
from tests.reports.test_exports import TRIALS
from tests.reports.test_html import BUNDLES, Page

ONE = Judge("a/b", "1.0.0", "3")


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ((), True),
        ((ONE, ONE), True),
        ((Judge("c/d", "2.0.0", "3"),), True),
        ((Judge(),), True),
        ((replace(ONE, version="1.0.1"),), False),
        ((replace(ONE, kernel="2"),), False),
        ((Judge("c/d", "2.0.0", "2"),), False),
    ],
)
def test_one_kernel_and_one_version_of_each_contract_are_comparable(
    others: tuple[Judge, ...], expected: bool
) -> None:
    assert are_comparable((ONE, *others)) is expected


def mixed(**changed: str) -> list[Exported]:
    return [*TRIALS, replace(TRIALS[0], trial="other", **changed)]


@pytest.mark.parametrize("changed", [{"version": "2.0.0"}, {"kernel": "2"}], ids=str)
def test_markdown_and_junit_count_each_version_by_itself(changed: dict[str, str]) -> None:
    text = markdown([*mixed(**changed), without_verdict("lost", "x")], not_run=2)
    head = text[: text.index("| verdict")]
    assert "**7 trials**, judged by different versions, so counted apart" in head
    assert "2 MATCH" not in text
    assert re.search(r"kernel \S+`: 1 MATCH, 1 DIVERGE, 1 INCONCLUSIVE\n", head)
    assert re.search(r"kernel \S+`: 1 MATCH\n", head)
    assert "- never run: 2" in head
    suites = list(ET.fromstring(junit(mixed(**changed))).iter("testsuite"))
    assert sorted(str(each.get("tests")) for each in suites) == ["1", "3"]
    assert len({each.get("name") for each in suites}) == 2


def test_what_is_comparable_is_counted_together() -> None:
    assert markdown(TRIALS).startswith("**3 trials**: 1 MATCH, 1 DIVERGE, 1 INCONCLUSIVE")
    [suite] = ET.fromstring(junit(TRIALS)).iter("testsuite")
    assert suite.get("name") == "tests/world"


def by(bundle: Bundle, **changed: str) -> Bundle:
    return Bundle({**bundle.manifest, **changed}, bundle.files)


@pytest.mark.parametrize("changed", [{"contract_version": "2.0.0"}, {"kernel": "2"}], ids=str)
def test_the_page_of_a_run_has_no_total_over_versions(changed: dict[str, str]) -> None:
    outcomes = [
        outcome(BUNDLES["match"], "t-1", linked=False),
        outcome(BUNDLES["forbidden"], "t-2", linked=False),
        outcome(by(BUNDLES["match"], **changed), "t-3", linked=False),
        fault("t-4", "it broke"),
    ]
    text = run_html("a run", outcomes, 6, [])
    head = Page(text).sections["header"]
    assert "6 scheduled trials, judged by different versions, so counted apart." in head
    assert "2 ✓ MATCH" not in head
    assert "of 6 scheduled" not in head
    assert '<svg class="share"' not in text
    for told in ("1 ✗ DIVERGE 1 ✓ MATCH", "without a verdict 1 ! FAULT 2 – NOT RUN"):
        assert told in head
    assert str(judge(by(BUNDLES["match"], **changed).manifest)) in head
