"""`study` as people meet it: on a recorded run, on labelled trials, and with mistakes."""

import csv
import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest
from statediff_lab.commands.studying import PlannedStudy
from statediff_lab.labels import Label
from statediff_lab.study.passes import GivenLabel, LabelFile, Labeller, Part
from statediff_lab.study.planning import Registration, read_registration

from statediff.errors import UsageError
from tests.cli.conftest import JUDGE, Call, Files, after

CONTACTS = Path(__file__).parents[3] / "fixtures" / "study" / "contacts"
RIGHT = (
    "--before", str(CONTACTS / "before.json"), "--after", str(CONTACTS / "after.json"),
    "--answer", str(CONTACTS / "answer.json"),
)  # fmt: skip


def test_a_recorded_right_run_is_studied_without_a_sandbox(statediff: Call, tmp_path: Path) -> None:
    table, page = tmp_path / "t.csv", tmp_path / "t.html"
    said = statediff(
        "lab", "study", str(CONTACTS), *RIGHT, "--json", "--csv", str(table), "--html", str(page)
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
    said = statediff("lab", "study", *arguments)
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
    assert statediff("lab", "adjudicate", "t", "--key", "ada", *said).code == 0
    # Bo sees the diff alone, as the third of four; that settles nothing, and is timed by itself.
    assert statediff("keygen", "bo", "--name", "bo", "--role", "reviewer").code == 0
    look = ("--look", "2", "--label", "correct", "--seconds", "9")
    assert statediff("lab", "adjudicate", "t", "--key", "bo", *look).code == 0
    assert statediff("lab", "adjudicate", "t", "--key", "bo", *look, "--blind").code == 2
    found = statediff("lab", "study", "--reviewed", "t", "--trust", "trust.json", "--json")
    assert found.code == 0
    domain = found.json["domains"]["notes"]
    assert domain["origins"] == {"reviewed": 1}
    # Another ticket was closed as well: only the frame sees it.
    looks = domain["evaluators"].pop("contract-diff")["looks"]
    assert looks == {"reviews": 1, "right": 0, "median_seconds": 9}
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
    said = statediff("lab", "study", "--reviewed", "t", "--trust", "trust.json")
    assert said.code == 2
    assert "nothing to study" in said.err


IMPORTED = Path(__file__).parents[3] / "fixtures" / "imported"
CASES = ("--cases", f"agent-diff={IMPORTED / 'agent-diff'}")


@pytest.fixture
def registered(statediff: Call, tmp_path: Path) -> Registration:
    (tmp_path / "protocol.txt").write_text("Two passes, neither sees the other's.")
    asked = ("--register", "plan.json", "--protocol", "protocol.txt", "--within", "0.2")
    said = statediff("lab", "study", *CASES, *asked, "--seed", "3", "--json")
    found = read_registration((tmp_path / "plan.json").read_bytes())
    assert (said.code, said.json["runs"]) == (0, len(found.sample))
    assert said.json["digest"] == found.digest
    return found


def write_pass(folder: Path, found: Registration, name: str, *wrong: int) -> None:
    """Labels as was published, but for those at these places."""
    labels = [
        Label.CORRECT if ("passed" in each.stratum) is not (at in wrong) else Label.INCORRECT
        for at, each in enumerate(found.sample)
    ]
    given = LabelFile(
        registration=found.digest,
        name=name,
        part=Part.PASS,
        by=Labeller.PROGRAM,
        version="1",
        saw="all",
        labels=tuple(
            GivenLabel(domain=r.domain, run=r.run, label=label, kind="none", reason="as published")
            for r, label in zip(found.sample, labels, strict=True)
        ),
    )
    (folder / f"{name}.json").write_bytes(given.written())


def test_a_registered_sample_is_studied_with_the_labels_of_two_passes(
    statediff: Call, registered: Registration, tmp_path: Path
) -> None:
    write_pass(tmp_path, registered, "A")
    write_pass(tmp_path, registered, "B", 0)
    asked = ("--registration", "plan.json", "--labels", "A.json", "--labels", "B.json")
    said = statediff("lab", "study", *CASES, *asked, "--json")
    assert said.code in (0, 1), said
    [passes] = said.json["passes"]
    number = len(registered.sample)
    assert (passes["agree"]["hits"], passes["agree"]["of"]) == (number - 1, number)
    assert passes["settled"]["unresolvable"] == passes["open"] == 1
    [domain] = said.json["domains"].values()
    assert domain["origins"] == {"labelled": number}
    assert {"official", "assertions", "statediff"} <= domain["evaluators"].keys()
    assert domain["evaluators"]["official"]["agreement"]["share"] == 1
    assert "note: the contracts" not in said.err
    lines = statediff("lab", "study", *CASES, *asked).out
    assert f"the passes agree on {number - 1} of {number}" in lines


def test_runs_that_are_no_longer_as_they_were_registered_are_refused(
    statediff: Call, registered: Registration, tmp_path: Path
) -> None:
    write_pass(tmp_path, registered, "A")
    write_pass(tmp_path, registered, "B")
    shutil.copytree(IMPORTED / "agent-diff", tmp_path / "cases")
    asked = ("--registration", "plan.json", "--labels", "A.json", "--labels", "B.json")
    runs = tmp_path / "cases" / "runs-linear.jsonl.gz"
    lines = gzip.decompress(runs.read_bytes()).splitlines(keepends=True)
    runs.write_bytes(
        b"".join(line.replace(b'"passed": true', b'"passed": false') for line in lines)
    )
    said = statediff("lab", "study", "--cases", "agent-diff=cases", *asked)
    assert said.code == 2
    assert "that were registered" in said.err


def test_a_registration_and_the_labels_of_a_pass_are_entries_of_a_log(
    statediff: Call, registered: Registration, tmp_path: Path
) -> None:
    write_pass(tmp_path, registered, "A")
    for file in ("plan.json", "A.json"):
        assert statediff("log", "add", "log", file).code == 0
    first, second = statediff("log", "show", "log", "--json").lines
    assert (first["kind"], first["digest"]) == ("registration", registered.digest)
    assert (second["kind"], second["about"]) == ("adjudication", registered.digest)
    assert statediff("log", "missing", "log").code == 0
    assert statediff("log", "add", "log", "A.json").code == 2


@pytest.mark.parametrize(
    ("given", "suites", "message"),
    [
        ({"register": Path("x")}, None, "--protocol"),
        ({"register": Path("x")}, ["a=b"], "--protocol"),
        ({"protocol": Path("x")}, ["a=b"], "is for --register"),
        ({"registration": Path("x")}, ["a=b"], "go together"),
        ({"labels": [Path("x")]}, ["a=b"], "go together"),
        ({"registration": Path("x"), "labels": [Path("y")]}, None, "of --cases"),
    ],
)
def test_what_belongs_together_is_given_together(
    given: dict[str, Any], suites: list[str] | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        PlannedStudy(**given).require_whole(suites)


def test_a_share_is_a_decimal_and_no_sample_is_drawn_for_another(
    statediff: Call, tmp_path: Path
) -> None:
    (tmp_path / "p").write_text("so")
    said = statediff(
        "lab", "study", *CASES, "--register", "x", "--protocol", "p", "--within", "1/9"
    )
    assert said.code == 2
    assert "between 0 and 1" in said.err
    assert not (tmp_path / "x").exists()
