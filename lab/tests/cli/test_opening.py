"""`open` on runs: one page in a file, or a dashboard until Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.request
from html import unescape
from pathlib import Path

import pytest

from tests.cli.conftest import PROGRAM, Call, environment
from tests.suite.folders import Folders


@pytest.fixture
def folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Folders:
    made = Folders(tmp_path)
    for verdict in ("MATCH", "DIVERGE"):
        made.bundle("notes/close", verdict)
    capsys.readouterr()
    made.run("one", {"notes/close": ["MATCH", "DIVERGE", "fault"]}, times=4)
    made.run("two", {"notes/close": ["MATCH"]}, agent="other")
    return made


def test_open_writes_one_page_of_a_run_of_a_folder_of_runs_or_of_the_store(
    statediff: Call, folders: Folders
) -> None:
    said = statediff("lab", "dashboard", "runs/one", "--out", "one.html", "--json")
    assert (said.code, said.json["page"]) == (0, "one.html")
    page = (folders.base / "one.html").read_text()
    assert "1 of 4 scheduled trials match, of 1 contract." in page
    assert "NOT RUN" in page
    assert "/trials?" not in page  # there is nobody to ask
    assert statediff("lab", "dashboard", "runs", "--out", "both.html").out == "both.html\n"
    assert "2 of 5 scheduled trials match" in (folders.base / "both.html").read_text()
    assert statediff("lab", "dashboard", "--out", "store.html").code == 0
    assert "2 of 5 scheduled trials match" in (folders.base / "store.html").read_text()


def test_a_dashboard_is_served_until_ctrl_c_and_leads_down_to_a_bundle(folders: Folders) -> None:
    with subprocess.Popen(
        [*PROGRAM, "lab", "dashboard", "runs", "--no-open", "--json"], cwd=folders.base,
        env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        origin = re.match(r"http://127\.0\.0\.1:\d+", told["link"])
        assert origin is not None

        def follow(link: str) -> str:
            with urllib.request.urlopen(link, timeout=30) as answer:
                return str(answer.read().decode())

        board = follow(told["link"])
        assert "2 of 5 scheduled trials match" in board
        [diverged] = set(re.findall(r'href="([^"]*ended=DIVERGE[^"]*)"', board))
        trials = follow(origin[0] + unescape(diverged))
        [report] = re.findall(r'href="([^"]*/report\?[^"]*)"', trials)
        page = follow(origin[0] + unescape(report))
        assert (
            "Something changed that no clause explains" in page
            or "A required change did not" in page
        )
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")


def test_what_cannot_be_opened_together_is_refused(statediff: Call, folders: Folders) -> None:
    bundle = str(next((folders.base / "judged").iterdir()) / "kept")
    for arguments, told in (
        (("runs/one", bundle), "is no run, and no folder of runs"),
        (("runs/one", "--port", "70000"), "--port 70000: expected a number up to 65535"),
        (("nothing",), "is no run, and no folder of runs"),
    ):
        said = statediff("lab", "dashboard", *arguments)
        assert (said.code, told in said.err) == (2, True), said.err
