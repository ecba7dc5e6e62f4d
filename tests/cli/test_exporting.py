"""`export` for a workflow and for a collector: every scheduled trial is in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.reports.test_formats import MODULE, plug
from tests.suite.folders import Folders


def test_spans_and_annotations_tell_of_every_scheduled_trial(
    statediff: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = Folders(tmp_path)
    folders.run("one", {"notes/close": ["MATCH", "DIVERGE", "fault"]}, times=4)
    capsys.readouterr()  # what judging said is not what the command says
    told = statediff("export", "runs/one", "--as", "otlp", "--out", "spans.jsonl", "--json").json
    assert (told["trials"], told["not_run"]) == (3, 1)
    lines = [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]
    spans = [line["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for line in lines]
    assert [span["status"].get("code") for span in spans] == [1, 2, 2, 2]
    assert len({span["spanId"] for span in spans}) == 4
    said = statediff("export", "runs/one", "--as", "github").out.splitlines()
    assert said[0].startswith("::error file=notes/close/contract.yaml,line=")
    assert said[-1] == "::error title=not run::1 scheduled trials were not run"


def test_a_form_of_another_distribution_is_one_of_the_choices(
    statediff: Call,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Folders(tmp_path).run("one", {"notes/close": ["MATCH", "DIVERGE", "fault"]}, times=4)
    capsys.readouterr()
    assert statediff("export", "runs/one", "--as", "listed").code == 2
    site = tmp_path / "site"
    site.mkdir()
    (site / "listed_format.py").write_text(MODULE)
    plug(site, "listed", "listed_format:FORMAT")
    monkeypatch.syspath_prepend(site)
    said = statediff("export", "runs/one", "--as", "listed").out.splitlines()
    assert [line.split(" ")[0] for line in said] == ["MATCH", "DIVERGE", "", "1"]
    assert "|listed|" in statediff("export", "--help").out
    wrong = statediff("export", "runs/one", "--as", "pdf")
    assert wrong.code == 2
    assert ", 'listed'" in wrong.err
