"""`report` and `open`: pages beside bundles and runs, made again from them alone."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import JUDGE, Call, Files, after

RUN = ("run", "shop/refund-returned-order", "--agent", "careful", "--out", "runs")
BEGINS = "<!doctype html>\n<!-- statediff report 1 -->\n"


def judged(statediff: Call, files: Files) -> Path:
    files.write("b.json", after(status="closed", other="closed"))
    said = statediff(*JUDGE, "--out", "kept")
    assert said.code == 1
    assert "report: kept.html" in said.out
    return files.folder / "kept.html"


def test_judge_writes_the_page_beside_the_bundle_and_report_makes_it_again(
    statediff: Call, files: Files
) -> None:
    page = judged(statediff, files)
    content = page.read_bytes()
    assert content.decode().startswith(BEGINS)
    page.unlink()
    assert statediff("report", "kept").out == "kept.html\n"
    assert page.read_bytes() == content
    said = statediff("report", "kept", "--out", "other.html", "--json")
    assert said.json == {
        "schema": "statediff/report/1", "report": "other.html", "of": "trial",
        "bytes": len(content), "trials": 1, "unreadable": [],
    }  # fmt: skip
    assert (files.folder / "other.html").read_bytes() == content
    assert statediff("show", "kept").code == 0, "the bundle holds nothing but its files"


def test_a_file_that_is_no_report_is_not_overwritten_unless_named(
    statediff: Call, files: Files
) -> None:
    files.write("kept.html", "mine")
    said = statediff(*JUDGE, "--out", "kept")
    assert said.code == 0, "the verdict stands"
    assert "no report: " in said.err
    assert "is not overwritten" in said.err
    assert (files.folder / "kept.html").read_text() == "mine"
    assert statediff("report", "kept").code == 4
    assert statediff("report", "kept", "--out", "kept.html").code == 0
    assert (files.folder / "kept.html").read_text().startswith(BEGINS)


def test_a_pipe_in_the_place_of_the_page_does_not_make_it_wait(
    statediff: Call, files: Files
) -> None:
    os.mkfifo(files.folder / "kept.html")
    assert statediff(*JUDGE, "--out", "kept").code == 0
    assert stat.S_ISFIFO((files.folder / "kept.html").stat().st_mode)


@pytest.mark.parametrize(
    ("prepare", "code"),
    [("rm -r kept", 2), ("rm kept/trace.json", 4), ("echo x >> kept/answer.json", 4),
     ("echo {} > kept/manifest.json", 4), ("rm -r kept; touch kept", 2)],
)  # fmt: skip
def test_a_bundle_that_is_damaged_or_missing_is_told_as_show_tells_it(
    statediff: Call, files: Files, prepare: str, code: int
) -> None:
    judged(statediff, files).unlink()
    os.system(f"cd {files.folder} && {prepare}")
    told = statediff("show", "kept")
    said = statediff("report", "kept")
    assert said.code == told.code == code
    assert said.err == told.err
    assert not (files.folder / "kept.html").exists()


def test_a_page_that_cannot_be_written_says_where_else_it_could_go(
    statediff: Call, files: Files
) -> None:
    judged(statediff, files)
    said = statediff("report", "kept", "--out", "nowhere/page.html")
    assert said.code == 4
    assert "nowhere/page.html: cannot be written" in said.err
    assert "--out" in said.err


def test_a_run_has_a_page_and_each_of_its_trials_too(statediff: Call, tmp_path: Path) -> None:
    said = statediff(*RUN, "-k", "2", "--timeout", "60", "--json")
    assert said.code == 0, said.err
    summary = said.lines[-1]["summary"]
    folder = tmp_path / summary["run"]
    assert summary["report"] == f"{summary['run']}/report.html"
    content = (folder / "report.html").read_text(encoding="utf-8")
    assert "All 2 trials match." in content
    for number in (1, 2):
        trial = f"trials/shop-refund-returned-order-{number}"
        assert f'href="{trial}/report.html"' in content
        assert (folder / trial / "report.html").read_text(encoding="utf-8").startswith(BEGINS)
    again = statediff("report", str(folder))
    assert again.code == 0
    assert (folder / "report.html").read_text(encoding="utf-8") == content
    # Away from its trials a page says the same and links to nothing.
    assert statediff("report", str(folder), "--out", "alone.html").code == 0
    alone = (tmp_path / "alone.html").read_text(encoding="utf-8")
    assert "trials/" not in alone
    assert "All 2 trials match." in alone
    _a_hostile_run(statediff, folder)


def _a_hostile_run(statediff: Call, folder: Path) -> None:
    """Damaged, missing and foreign trials are shown as what they are, and counted."""
    trials = folder / "trials"
    one = trials / "shop-refund-returned-order-1"
    shutil.copytree(one, trials / "<script>1")
    (trials / "link").symlink_to(one)
    (one / "bundle" / "trace.json").write_bytes(b"{}")
    (one / "report.html").unlink()
    (trials / "lost").mkdir()
    (trials / "lost" / "fault.txt").write_text("the outbox <b>did not</b> start\n")
    said = statediff("report", str(folder))
    assert said.code == 4
    assert "shop-refund-returned-order-1: its bundle cannot be read" in said.err
    content = (folder / "report.html").read_text(encoding="utf-8")
    assert "2 of 5 scheduled trials match." in content
    assert "the bundle is damaged" in content
    assert "the outbox &lt;b&gt;did not&lt;/b&gt; start" in content
    assert "expected the folder of a trial" in content
    assert 'href="trials/%3Cscript%3E1/report.html"' in content
    assert not (one / "report.html").exists()
    (folder / "run.json").write_text(
        '{"contracts":{"a":"b"},"form":"statediff.run/1","settings":{"trials":40}}'
    )
    assert statediff("report", str(folder)).code == 4
    assert "of 40 scheduled trials" in (folder / "report.html").read_text(encoding="utf-8")
    for broken in ("[]", "{", '{"form": "x"}', ""):
        (folder / "run.json").write_text(broken)
        assert statediff("report", str(folder)).code == 4


def test_open_hands_the_page_to_the_browser(statediff: Call, files: Files) -> None:
    judged(statediff, files)
    browser = files.folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {files.folder}/asked\n')
    browser.chmod(0o755)
    said = statediff("open", "kept", env={"BROWSER": str(browser)})
    assert said.code == 0, said.err
    assert said.out == "opened kept.html\n"
    assert (files.folder / "asked").read_text().strip() == (files.folder / "kept.html").as_uri()
    told = statediff("open", "kept", "--json", env={"BROWSER": str(browser)})
    assert json.loads(told.out)["report"] == "kept.html"


def test_without_a_browser_open_says_what_to_open(statediff: Call, files: Files) -> None:
    judged(statediff, files)
    said = statediff("open", "kept", env={"BROWSER": "/nowhere/browser", "PATH": "/nowhere"})
    assert said.code == 2
    assert "no browser could be started; open kept.html in one" in said.err


def test_a_trial_whose_page_cannot_be_replaced_is_listed_without_a_link(
    statediff: Call, tmp_path: Path
) -> None:
    folder = tmp_path / statediff(*RUN, "--json").lines[-1]["summary"]["run"]
    trial = folder / "trials" / "shop-refund-returned-order-1"
    odd = folder / "trials" / os.fsdecode(b"caf\xe9")
    shutil.copytree(trial, odd)
    (trial / "report.html").write_text("somebody's notes")
    (odd / "report.html").unlink()
    (odd / "report.html").symlink_to(tmp_path / "nowhere.html")
    said = statediff("report", str(folder))
    assert said.code == 0
    assert "is not overwritten" in said.err
    content = (folder / "report.html").read_text(encoding="utf-8")
    assert "shop-refund-returned-order-1/report.html" not in content
    assert 'href="trials/caf%E9/report.html"' in content
    assert "caf\\udce9" in content
    assert (trial / "report.html").read_text() == "somebody's notes"
    assert not (tmp_path / "nowhere.html").exists()


def test_the_fault_of_a_trial_is_told_in_the_page_of_its_run(
    statediff: Call, tmp_path: Path
) -> None:
    agent = tmp_path / "agent"
    agent.write_text("#!/nowhere/interpreter\n")
    agent.chmod(0o755)
    said = statediff(
        "run", "shop/refund-returned-order", "--agent-cmd", str(agent), "-k", "2", "--json"
    )
    assert said.code == 4
    folder = tmp_path / said.lines[-1]["summary"]["run"]
    content = (folder / "report.html").read_text(encoding="utf-8")
    assert "0 of 2 scheduled trials match." in content
    assert content.count("could not be started") == 2


def test_an_export_is_a_file_or_standard_output_and_counts_what_has_no_verdict(
    statediff: Call, tmp_path: Path
) -> None:
    assert statediff(*RUN, "-k", "2").code == 0
    (run,) = (tmp_path / "runs").glob("run-*")
    first, second = sorted((run / "trials").iterdir())
    shutil.rmtree(first / "bundle")
    shutil.rmtree(second)
    said = statediff("export", str(run), "--as", "junit")
    assert said.code == 0
    assert 'tests="2" failures="0" errors="2"' in said.out
    made = statediff("export", str(run), "--as", "sarif", "--out", "x.sarif", "--json")
    assert (made.json["trials"], made.json["not_run"]) == (1, 1)
    assert json.loads((tmp_path / "x.sarif").read_text())["version"] == "2.1.0"
    turns = statediff("export", str(run), "--as", "turns", "--out", "t.jsonl", "--json")
    assert (turns.json["trials"], turns.json["not_run"]) == (0, 2)
    for wrong in (("--as", "junit", "--json"), ("--as", "pdf"), ()):
        assert statediff("export", str(run), *wrong).code == 2
    assert statediff("export", str(tmp_path / "nowhere"), "--as", "junit").code == 2
