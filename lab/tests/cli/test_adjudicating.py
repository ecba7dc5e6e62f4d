"""`adjudicate`, `resolve` and `agreement` as people meet them, at a terminal and without one."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import JUDGE, PROGRAM, Call, Files, after, environment


@pytest.fixture
def trial(statediff: Call, files: Files) -> Path:
    """A diverging bundle in `t/bundle`, and the keys of Ada and Bo, who review."""
    files.write("b.json", after(status="closed", other="closed"))
    assert statediff(*JUDGE, "--out", "t/bundle").code == 1
    for name in ("ada", "bo"):
        assert statediff("keygen", name, "--name", name, "--role", "reviewer").code == 0
    return files.folder


def test_labels_are_kept_beside_the_bundle_and_change_no_verdict(
    statediff: Call, trial: Path
) -> None:
    said = statediff(
        "lab", "adjudicate", "t", "--key", "ada", "--label", "correct", "--blind", "--json"
    )
    assert (said.code, said.json["label"]) == (0, "correct")
    more = ("--cause", "evaluator-failure", "--failure", "reward-misalignment",
            "--failure", "exact-match", "--note", "ticket 8", "--seconds", "30")  # fmt: skip
    assert (
        statediff("lab", "adjudicate", "t", "--key", "bo", "--label", "incorrect", *more).code == 0
    )
    found = statediff("lab", "agreement", "t", "--trust", "trust.json", "--json").json
    assert (found["labels"], found["blind"], found["median_seconds"]) == (2, 1, 30.0)
    assert found["pairs"][0]["agree"] == 0
    assert found["causes"] == {"evaluator-failure": 1}
    assert found["failures"] == {"exact-match": 1, "reward-misalignment": 1}
    assert found["verdicts"][0]["unresolvable"] == 1
    settle = ("--label", "incorrect", "--because", "8 was not asked for", "--key", "ada")
    assert statediff("lab", "resolve", "t", *settle, "--trust", "trust.json").code == 0
    found = statediff("lab", "agreement", "t", "--trust", "trust.json", "--json").json
    assert found["verdicts"][0]["agree"] == 1
    assert found["disagreements"] == []
    assert found["domains"][0]["error"] == {"wrong": 0, "of": 1, "low": 0.0, "high": 0.975}
    assert statediff("replay", "t").code == 1
    assert len(list((trial / "t" / "labels").iterdir())) == 3


@pytest.mark.usefixtures("trial")
def test_verdicts_that_contradict_what_reviewers_settled_are_listed(statediff: Call) -> None:
    assert statediff("lab", "adjudicate", "t", "--key", "ada", "--label", "correct").code == 0
    found = statediff("lab", "agreement", "t", "--trust", "trust.json", "--json").json
    (one,) = found["disagreements"]
    assert (one["kind"], one["verdict"], one["label"]) == ("false-negative", "DIVERGE", "correct")
    (domain,) = found["domains"]
    assert (domain["domain"], domain["contracts"]) == ("notes", ["notes/close-ticket 1.0.0"])
    assert [domain[name]["of"] for name in ("error", "false_negatives", "false_positives")] == [
        1, 1, 0,
    ]  # fmt: skip
    told = statediff("lab", "agreement", "t", "--trust", "trust.json").out
    assert "  error: 1 of 1, 95 % interval 2.5 to 100.0 %" in told
    assert "  false positives: none of that kind" in told
    assert "false-negative: offline of notes/close-ticket 1.0.0: DIVERGE, was correct" in told


def test_without_a_terminal_nobody_is_asked(statediff: Call, trial: Path) -> None:
    said = statediff("lab", "adjudicate", "t", "--key", "ada", env={}, stdin=subprocess.DEVNULL)
    assert said.code == 2
    assert "--label" in said.err
    assert not (trial / "t" / "labels").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("adjudicate", "t", "--key", "none", "--label", "correct"),
        ("adjudicate", "t", "--key", "ada", "--label", "right"),
        ("adjudicate", "t", "--key", "ada", "--label", "correct", "--stage", "diff"),
        ("adjudicate", "t", "--key", "ada", "--label", "correct", "--sample", "1"),
        ("adjudicate", "t", "--key", "ada", "--label", "correct", "--failure", "exact-match"),
        ("resolve", "t", "--label", "correct", "--because", "x", "--key", "ada",
         "--trust", "trust.json"),
        ("agreement", "t", "--trust", "nowhere"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("trial")
def test_what_is_wrong_is_a_usage_error(statediff: Call, arguments: tuple[str, ...]) -> None:
    said = statediff(*arguments)
    assert (said.code, said.out) == (2, "")


def at_a_terminal(folder: Path, answers: str, *arguments: str) -> str:
    """The output of the program to a person who types `answers`."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, *arguments], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment({"COLUMNS": "200", "TERM": "dumb"}),
    ) as done:  # fmt: skip
        os.close(theirs)
        os.write(ours, answers.encode())
        shown = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # the terminal is gone: the program has ended
                break
            if not chunk:
                break
            shown += chunk
        assert done.wait(30) == 0, shown.decode()
    os.close(ours)
    return shown.decode()


def test_a_blind_reviewer_sees_the_changes_and_no_verdict_no_truth_and_no_finding(
    statediff: Call, trial: Path
) -> None:
    shown = at_a_terminal(
        trial, "incorrect\nticket 8 too\n", "adjudicate", "t", "--key", "ada", "--blind"
    )
    dossier = shown[: shown.index("The run was")]
    assert 'ticket 8 status  "open" → "closed"' in dossier
    assert "Close ticket 7 and change nothing else." in dossier
    for told in ("DIVERGE", "MATCH", "unexplained", "FAILS", "HOLDS", "✘", "✔", "precision"):
        assert told not in dossier
    found = statediff("lab", "agreement", "t", "--trust", "trust.json", "--json").json
    assert (found["blind"], found["verdicts"][0]["agree"]) == (1, 1)


def test_a_reviewer_who_sees_the_report_is_asked_for_the_cause(
    statediff: Call, trial: Path
) -> None:
    answers = "inc\nno such cause\nevaluator\npolicy\nyes\nwhy not\n"
    shown = at_a_terminal(trial, answers, "adjudicate", "t", "--key", "bo")
    assert "DIVERGE" in shown
    assert "The evidence shows it" in shown
    assert statediff("lab", "agreement", "t", "--trust", "trust.json").code == 0
