"""`review` as people meet it: a link, a label, Ctrl-C, and the next day."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from statediff.evidence.package import save
from tests.cli.conftest import JUDGE, PROGRAM, Call, Files, after, environment
from tests.reports.test_html import BUNDLES
from tests.reports.test_judges import by


@pytest.fixture
def run(statediff: Call, files: Files) -> Path:
    """A run of three trials with different verdicts, and the keys of Ada and Bo."""
    for name in ("match", "forbidden", "unknown"):
        save(BUNDLES[name], files.folder / "r" / "trials" / name / "bundle")
    files.write("r/run.json", b'{"form":"x"}')
    for name in ("ada", "bo"):
        assert statediff("keygen", name, "--name", name, "--role", "reviewer").code == 0
    return files.folder


class Review:
    """A review that runs, from its link to Ctrl-C."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [*PROGRAM, "review", *arguments, "--json"], cwd=folder, env=environment(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.said = json.loads(self._process.stdout.readline())
        self._at = urlsplit(self.said["link"])
        self.root = self.ask("GET", self._at.path)[2].removesuffix("/")

    def ask(self, method: str, path: str, form: dict[str, str] | None = None) -> Any:
        connection = http.client.HTTPConnection(self._at.netloc, timeout=20)
        body = None if form is None else urlencode(form)
        headers = {"Origin": f"http://{self._at.netloc}",
                   "Content-Type": "application/x-www-form-urlencoded"}  # fmt: skip
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode(), answer.getheader("Location", "")
        connection.close()
        return found

    def end(self) -> dict[str, Any]:
        self._process.send_signal(signal.SIGINT)
        out, err = self._process.communicate(timeout=20)
        assert self._process.returncode == 0, err
        assert "Traceback" not in err
        assert "/enter/" not in err
        return dict(json.loads(out))


@pytest.mark.slow
def test_a_review_is_signed_ended_and_gone_on_with(statediff: Call, run: Path) -> None:
    review = Review(run, "r", "--key", "ada", "--blind", "--seed", "7")
    assert (review.said["trials"], review.said["blind"]) == (3, True)
    status, text, _ = review.ask("GET", f"{review.root}/1")
    assert status == 200
    assert "DIVERGE" not in text.split("<body>")[1]
    status, _, where = review.ask("POST", f"{review.root}/1", {"label": "incorrect"})
    assert (status, where) == (303, f"{review.root}/2")
    assert review.end() == {"schema": "statediff/reviewed/1", "trials": 3, "signed": 1}
    again = Review(run, "r", "--key", "ada", "--blind", "--seed", "7")
    assert "2 to review" in again.ask("GET", f"{again.root}/")[1]
    assert "disabled" in again.ask("GET", f"{again.root}/1")[1]
    assert again.root != review.root
    again.end()
    other = Review(run, "r", "--key", "bo", "--blind", "--sample", "2")
    assert "2 to review" in other.ask("GET", f"{other.root}/")[1]
    other.end()
    found = statediff("lab", "agreement", "r", "--trust", "trust.json", "--json").json
    assert (found["labels"], found["blind"]) == (1, 1)


def test_bundles_trials_and_sealed_copies_lie_on_one_desk(statediff: Call, run: Path) -> None:
    assert statediff("keygen", "eve", "--name", "eve").code == 0
    (run / "kept").mkdir()
    assert statediff("sign", "r/trials/match", "--key", "eve", "--out", "kept/s.zip").code == 0
    review = Review(
        run, "kept/s.zip", "r/trials/forbidden", "r/trials/unknown/bundle", "--key", "ada",
        "--trust", "trust.json",
    )  # fmt: skip
    assert review.said["trials"] == 3
    for number in (1, 2, 3):
        assert review.ask("POST", f"{review.root}/{number}", {"label": "correct"})[0] == 303
    assert review.end()["signed"] == 3
    assert len(list((run / "kept" / "labels").iterdir())) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("r", "--key", "none"), "none"),
        (("nowhere", "--key", "ada"), "nowhere"),
        (("r", "--key", "ada", "--sample", "0"), "at least one"),
        (("r", "--key", "ada", "--port", "70000"), "65535"),
        (("r", "--key", "eve", "--trust", "trust.json"), "its labels would not count"),
        (("s.zip", "--key", "ada"), "--trust"),
        (("empty", "--key", "ada"), "no trial to review"),
    ],
)
def test_what_is_wrong_is_said_before_the_page_opens(
    statediff: Call, run: Path, arguments: tuple[str, ...], told: str
) -> None:
    statediff("keygen", "eve", "--name", "eve")
    statediff("sign", "r/trials/match", "--key", "eve", "--out", "s.zip")
    (run / "empty").mkdir()
    (run / "empty" / "run.json").write_text("{}")
    said = statediff("lab", "review", *arguments)
    assert (said.code, said.out) == (2, "")
    assert told in said.err


def test_a_port_that_is_taken_is_told(statediff: Call, run: Path) -> None:
    assert run
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = statediff("lab", "review", "r", "--key", "ada", "--port", port)
    assert said.code == 2
    assert port in said.err


@pytest.mark.usefixtures("run")
def test_a_report_of_a_sealed_copy_carries_it_and_a_tier_sees_no_more(
    statediff: Call, files: Files
) -> None:
    files.write("b.json", after(status="closed", other="closed"))
    assert statediff(*JUDGE, "--out", "t/bundle").code == 1
    assert statediff("keygen", "eve", "--name", "eve").code == 0
    assert statediff("sign", "t", "--key", "eve", "--out", "s.zip").code == 0
    keys = ("--trust", "trust.json")
    assert statediff("report", "s.zip", *keys, "--json").json["of"] == "sealed"
    whole = (files.folder / "s.zip.html").read_text()
    assert "data-sealed" in whole
    assert "ticket 8" in whole
    said = statediff("report", "s.zip", *keys, "--tier", "public", "--out", "p.html")
    assert said.code == 0
    public = (files.folder / "p.html").read_text()
    assert "data-sealed" in public
    assert "ticket 8" not in public
    assert statediff("report", "s.zip").code == 2
    assert statediff("report", "t", *keys).code == 2


def test_agreement_counts_the_verdicts_of_each_version_by_themselves(
    statediff: Call, files: Files
) -> None:
    run = files.folder / "r"
    for name in ("one", "two", "three"):
        kernel = {"kernel": "2"} if name == "three" else {}
        bundle = by(BUNDLES["match"], trial=name, **kernel)
        save(bundle, run / "trials" / name / "bundle")
    files.write("r/run.json", b'{"form":"x"}')
    assert statediff("keygen", "ada", "--name", "ada", "--role", "reviewer").code == 0
    given = ("adjudicate", "r", "--key", "ada", "--label", "incorrect")
    assert statediff(*given).code == 0
    found = statediff("lab", "agreement", "r", "--trust", "trust.json", "--json").json
    counted = sorted((each["trials"], each["kernel"]) for each in found["verdicts"])
    assert counted == [(1, "2"), (2, BUNDLES["match"].manifest["kernel"])]
    assert all(each["false_acceptances"] == each["trials"] for each in found["verdicts"])
