"""`study` as people meet it: on a recorded run, on labelled trials, and with mistakes."""

import csv
from pathlib import Path

import pytest

from tests.cli.conftest import JUDGE, Call, Files, after

CONTACTS = Path(__file__).parents[2] / "fixtures" / "study" / "contacts"
RIGHT = (
    "--before", str(CONTACTS / "before.json"), "--after", str(CONTACTS / "after.json"),
    "--answer", str(CONTACTS / "answer.json"),
)  # fmt: skip


def test_a_recorded_right_run_is_studied_without_a_sandbox(statediff: Call, tmp_path: Path) -> None:
    table, page = tmp_path / "t.csv", tmp_path / "t.html"
    said = statediff(
        "study", str(CONTACTS), *RIGHT, "--json", "--csv", str(table), "--html", str(page)
    )
    [document] = said.lines
    assert (said.code, document["schema"], document["seed"]) == (0, "statediff/study/1", 0)
    domain = document["domains"]["recorded"]
    ours = domain["evaluators"]["statediff"]
    assert ours["agreement"]["hits"] == ours["agreement"]["of"] > 10
    assert all(step["holds"] for step in domain["ordering"])
    identity = {loss["kind"] for loss in domain["lost"] if loss["evaluator"] == "without-identity"}
    assert {"right-run", "one-natural-key"} <= identity
    doubt = {loss["kind"] for loss in domain["lost"] if loss["evaluator"] == "without-doubt"}
    assert {"look-alike", "one-natural-key"} <= doubt
    with table.open() as file:
        assert len(list(csv.DictReader(file))) == len(domain["evaluators"])
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--before", "x.json"), "--before and --after"),
        (RIGHT, "name that contract"),
        (("--reviewed", "runs"), "--trust"),
        (("--cases", "tau2"), "expected SUITE=DIR"),
        (("--cases", "other=."), "no format"),
    ],
)
def test_a_mistake_is_told_and_ends_with_2(
    statediff: Call, arguments: tuple[str, ...], message: str
) -> None:
    said = statediff("study", *arguments)
    assert (said.code, said.out) == (2, "")
    assert message in said.err


def test_trials_that_reviewers_labelled_are_studied_by_what_their_bundles_hold(
    statediff: Call, files: Files
) -> None:
    files.write("b.json", after(status="closed", other="closed"))
    assert statediff(*JUDGE, "--out", "t/bundle").code == 1
    assert statediff("keygen", "ada", "--name", "ada", "--role", "reviewer").code == 0
    said = ("--label", "incorrect", "--cause", "evaluator-failure", "--stage", "policy",
            "--correctable", "--failure", "reward-misalignment", "--seconds", "30")  # fmt: skip
    assert statediff("adjudicate", "t", "--key", "ada", *said).code == 0
    found = statediff("study", "--reviewed", "t", "--trust", "trust.json", "--json")
    assert found.code == 0
    domain = found.json["domains"]["notes"]
    assert domain["origins"] == {"reviewed": 1}
    # Another ticket was closed as well: only the frame sees it.
    accepted = {n: m["false_acceptance"]["hits"] for n, m in domain["evaluators"].items()}
    assert accepted == {
        "assertions": 1, "per-turn": 1, "statediff": 0, "without-frame": 1, "without-labels": 0,
    }  # fmt: skip
    assert domain["reviews"] == {
        "median_seconds": 30, "correctable": 1, "evaluator-failures": 1,
        "failure:reward-misalignment": 1, "stage:policy": 1,
    }  # fmt: skip


def test_without_a_label_there_is_nothing_to_study(statediff: Call, files: Files) -> None:
    files.write("b.json", after(status="closed"))
    assert statediff(*JUDGE, "--out", "t/bundle").code == 0
    assert statediff("keygen", "ada", "--name", "ada", "--role", "reviewer").code == 0
    said = statediff("study", "--reviewed", "t", "--trust", "trust.json")
    assert said.code == 2
    assert "nothing to study" in said.err
