"""Exports count every trial, never pass what is not decided, and let no text out of its place."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.reports.formats.exports import (
    MAX_SHOWN,
    Exported,
    Told,
    exported,
    without_verdict,
)
from statediff.reports.formats.github import workflow
from statediff.reports.formats.junit import junit
from statediff.reports.formats.markdown import markdown
from statediff.reports.formats.sarif import trials_sarif
from tests.judging import CUT, item, run, state, user

BODY = """\
forbid:
  - {id: no-users-gone, delete: user}
require:
  - id: made
    create: item
    set: {n: 3}
"""
BEFORE = {"user": [user(1), user(2)], "item": [item(1, 1)]}


def trial(kind: str) -> Exported:
    made = [item(1, 1), item(2, 3)]
    after: Any = {
        "MATCH": {**BEFORE, "item": made},
        "DIVERGE": {"user": [user(1)], "item": [item(1, 1)]},
        "INCONCLUSIVE": state({**BEFORE, "item": made}, {"user": CUT}),
    }[kind]
    found = exported(run(BODY, BEFORE, after).bundle, kind.lower())
    assert found.verdict == kind
    return found


TRIALS = [trial(kind) for kind in ("MATCH", "DIVERGE", "INCONCLUSIVE")]
LOST = without_verdict("lost", "the disk was full")


def test_junit_passes_only_what_matches_and_counts_what_was_not_run() -> None:
    root = ET.fromstring(junit([*TRIALS, LOST], not_run=2))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("6", "1", "4")
    cases = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert cases == {
        "match": [], "diverge": ["failure"], "inconclusive": ["error"], "lost": ["error"],
        "not run 0": ["error"], "not run 1": ["error"],
    }  # fmt: skip
    failure = root.find(".//failure")
    assert failure is not None
    assert "no-users-gone" in str(failure.text)
    assert "made" in str(failure.text)


TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"minLength": 1}}}
PLACE = {
    "artifactLocation": {"properties": {"uri": {"type": "string", "pattern": "^[!-~]+$"}}},
    "region": {"properties": {"startLine": {"type": "integer", "minimum": 1}}},
}
RESULT = {
    "type": "object",
    "required": ["ruleId", "ruleIndex", "kind", "level", "message", "locations"],
    "properties": {
        "kind": {"enum": ["pass", "open", "informational", "notApplicable", "review", "fail"]},
        "level": {"enum": ["none", "note", "warning", "error"]},
        "message": TEXT,
        "locations": {"items": {"properties": {"physicalLocation": {
            "type": "object", "required": list(PLACE), "properties": PLACE,
        }}}},
    },
}  # fmt: skip
"""The part of the OASIS schema of SARIF 2.1.0 that readers rely on."""


def test_sarif_has_a_result_for_every_clause_at_its_line() -> None:
    for result in trials_sarif([*TRIALS, LOST])["runs"][0]["results"]:
        jsonschema.validate(result, RESULT)
    found = trials_sarif([*TRIALS, LOST])["runs"][0]
    kinds = {
        (r["properties"]["trial"], r["properties"]["clause"]): r["kind"] for r in found["results"]
    }
    assert kinds["match", "made"] == kinds["match", "frame"] == "pass"
    assert kinds["diverge", "no-users-gone"] == "fail"
    assert kinds["inconclusive", "no-users-gone"] == "open"
    assert not [r for r in found["results"] if (r["kind"] == "fail") != (r["level"] == "error")]
    lines = {
        r["properties"]["clause"]: r["locations"][0]["physicalLocation"]["region"]["startLine"]
        for r in found["results"]
    }
    written = run(BODY, BEFORE, BEFORE).bundle.files["contract.yaml"].decode().splitlines()
    assert "no-users-gone" in written[lines["no-users-gone"] - 1]
    assert "made" in written[lines["made"] - 1]
    assert lines["frame"] == 1
    invocation = found["invocations"][0]
    assert invocation["executionSuccessful"] is False
    assert "lost" in invocation["toolExecutionNotifications"][0]["message"]["text"]
    ids = [rule["id"] for rule in found["tool"]["driver"]["rules"]]
    assert all(ids[r["ruleIndex"]] == r["ruleId"] for r in found["results"])


def test_markdown_tells_counts_and_reasons() -> None:
    text = markdown([*TRIALS, LOST], not_run=1)
    assert text.startswith(
        "**5 trials**: 1 MATCH, 1 DIVERGE, 1 INCONCLUSIVE, 2 without a verdict\n"
    )
    assert "### DIVERGE: `diverge`" in text
    assert "- FAILS `no-users-gone` (forbidden-change): `user 2 deleted`" in text
    assert "- `the disk was full`" in text
    assert "### MATCH" not in text


def test_a_trial_with_very_many_findings_tells_some_and_how_many_more() -> None:
    told = tuple(Told(f"c{n}", "code", "FAILS", "why", 1) for n in range(MAX_SHOWN + 5))
    many = Exported("t", "c", "1", "a", "DIVERGE", told)
    assert "and 5 more" in markdown([many])
    assert "and 5 more" in junit([many])
    assert len(trials_sarif([many])["runs"][0]["results"]) == MAX_SHOWN + 5


NASTY = [
    "<script>alert(1)</script>", "]]></failure><testcase/>", "a | b | c", "`code` ``more`` `",
    "[x](javascript:alert(1))", "@everyone #1 https://evil.example", "\x00\x1b[31m\x07\u202e",
    "line\nMATCH passed\n| MATCH | x |", "\ud800\ufffe", "&lt;&#64;", "- [x] done", "",
]  # fmt: skip


@pytest.mark.parametrize("text", NASTY)
def test_what_an_agent_said_stays_text(text: str) -> None:
    told = Told(text, "code", "FAILS", text, 1)
    nasty = Exported(text, text, text, text, "DIVERGE", (told,), text)
    root = ET.fromstring(junit([nasty]).encode("utf-8"))
    assert [child.tag for child in root.iter()] == [
        "testsuites", "testsuite", "testcase", "failure"
    ]  # fmt: skip
    json.loads(json.dumps(trials_sarif([nasty])))
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", markdown([nasty]))
    for sign in ("<", "[", "](", "@", "http", "\x1b", "\x00", "passed"):
        assert sign not in outside.replace("[x]", "")
    table = [line for line in markdown([nasty]).splitlines() if line.startswith("|")]
    assert len(table) == 3
    assert {line.count("|") for line in table} == {5}


@given(st.text())
def test_any_text_makes_well_formed_xml(text: str) -> None:
    nasty = Exported(
        text, text, text, text, "INCONCLUSIVE", (Told(text, text, "UNKNOWN", text, 1),)
    )
    ET.fromstring(junit([nasty]).encode("utf-8"))


def test_annotations_are_errors_and_warnings_and_stay_on_their_line() -> None:
    lines = workflow([*TRIALS, LOST], not_run=2).splitlines()
    levels = [line.partition(" ")[0] for line in lines]
    assert levels.count("::error") >= 3
    assert "::warning" in levels
    assert lines[-2:] == [
        "::error title=no verdict%3A lost::the disk was full",
        "::error title=not run::2 scheduled trials were not run",
    ]
    hostile = Exported(
        "t", "a/b", "1", "x", "DIVERGE",
        (Told("c,line=9::", "code", "FAILS", "a\n::error::b\r%0A", 3),),
    )  # fmt: skip
    [line] = workflow([hostile]).splitlines()
    assert line == (
        "::error file=a/b/contract.yaml,line=3,title=DIVERGE t%3A c%2Cline=9%3A%3A::"
        "a%0A::error::b%0D%250A"
    )
