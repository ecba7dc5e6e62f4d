"""Rows without a key are called by what `identify` says, wherever people read."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from statediff.evidence.package import Bundle
from statediff.model.trace import Trace
from statediff.reports.html.cells import place
from statediff.reports.line import trial_line
from statediff.reports.record import delta_name
from statediff.reports.text import trial_report
from statediff.reports.wording.worded import worded_judgement
from tests.traces import judged

IDENTIFY = "identify: [{type: log, match_on: {what: null}, version: 1, because: it has no key}]\n"
BODY = 'require:\n  - id: counted\n    update: log\n    where: it.what == "paid"\n    set: {n: 3}\n'
BEFORE = {"log": [{"what": "paid", "n": 1}, {"what": "kept", "n": 0}]}
DIGEST = re.compile(r"[0-9a-f]{32}")


def bundle(body: str, rows: list[dict[str, object]]) -> Bundle:
    found: Bundle = judged(body, Trace(), BEFORE, {"log": rows}).bundle
    return found


CHANGED: list[dict[str, object]] = [{"what": "paid", "n": 2}, {"what": "came", "n": 0}]


def test_an_identified_row_has_its_name_in_every_sentence_and_list() -> None:
    made = bundle(IDENTIFY + BODY, CHANGED)
    worded = worded_judgement(made)
    sentences = " ".join(f["sentence"] for f in worded["findings"])
    assert "log paid" in sentences
    assert DIGEST.search(sentences) is None
    assert DIGEST.search(trial_line(made)) is None
    names = {delta_name(delta) for delta in worded["deltas"]}
    assert {"log paid n", "log kept", "log came"} <= names
    assert {place(delta) for delta in worded["deltas"]} == {"log paid", "log kept", "log came"}
    rows = [row for f in worded["findings"] for row in f["witness"]["rows"]]
    assert rows
    assert all(DIGEST.search(place(row)) is None for row in rows)


def test_the_bundle_itself_keeps_the_key() -> None:
    made = bundle(IDENTIFY + BODY, CHANGED)
    assert b'"named"' not in made.files["judgement.json"]
    assert DIGEST.search(made.files["judgement.json"].decode()) is not None


def test_without_a_rule_of_identity_nothing_has_a_name() -> None:
    worded = worded_judgement(bundle(BODY, CHANGED))
    assert all("named" not in delta for delta in worded["deltas"])


@pytest.mark.parametrize("damage", ["[]", "[{}]", '[{"rows": 1, "scans": []}]', "{}", "[1]"])
def test_a_damaged_bundle_is_worded_without_names(damage: str) -> None:
    made = bundle(IDENTIFY + BODY, CHANGED)
    files = {**made.files, "fragments.json": damage.encode()}
    worded = worded_judgement(replace(made, files=files))
    assert json.dumps(worded)
    assert all("named" not in delta for delta in worded["deltas"])


def test_a_column_that_is_empty_takes_no_character_of_another() -> None:
    made = bundle(IDENTIFY + BODY, [{"what": "paid", "n": 3}, {"what": "kept", "n": 0}])
    told = StringIO()
    Console(file=told, width=80).print(trial_report(made))
    assert "  ~  log paid n  1 → 3  counted" in told.getvalue()
