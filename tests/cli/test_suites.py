"""`runs`, `stats` and `compare` as people meet them."""

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.suite.folders import Folders


@pytest.fixture
def folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Folders:
    made = Folders(tmp_path)
    for verdict in ("MATCH", "DIVERGE"):
        made.bundle("notes/close", verdict)
    capsys.readouterr()  # what judging said is not what the commands say
    return made


def test_runs_lists_every_scheduled_trial(statediff: Call, folders: Folders) -> None:
    folders.run("one", {"notes/close": ["MATCH", "fault"]}, times=3)
    folders.run("two", {"notes/close": ["DIVERGE"]})
    (folders.base / "runs" / "no-run").mkdir()
    said = statediff("runs", "--json").json
    assert said["schema"] == "statediff/runs/1"
    assert [each["run"] for each in said["runs"]] == ["one", "two"]
    one = said["runs"][0]
    assert [one[n] for n in ("scheduled", "MATCH", "fault", "not_run")] == [3, 1, 1, 1]
    assert "1 fault, 1 not run" in statediff("runs").out
    assert (folders.base / ".statediff" / "store.sqlite").is_file()


def test_stats_of_a_run_named_twice_counts_it_once(statediff: Call, folders: Folders) -> None:
    folders.run("one", {"notes/close": ["MATCH", "DIVERGE"]})
    said = statediff("stats", "runs/one", "runs/../runs/one", "-k", "2", "--json").json
    assert (said["schema"], said["scheduled"], said["runs"]) == ("statediff/stats/1", 2, 1)
    (contract,) = said["contracts"]
    assert contract["pass_at"] == [{"k": 2, "exact": "1/1", "value": 1.0}]
    assert contract["pass_all"] == [{"k": 2, "exact": "0/1", "value": 0.0}]
    assert said["domains"][0]["reruns"]["spread"] == {"exact": "1/1", "value": 1.0}
    assert "notes/close 1.0.0" in statediff("stats", "runs/one").out


def test_figures_beside_verdicts_are_by_domain_and_pooled_only_where_asked(
    statediff: Call, folders: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    folders.run("a", {"notes/close": ["MATCH", "DIVERGE"], "desk/close": ["MATCH", "fault"]})
    folders.run("b", {"notes/close": ["DIVERGE", "DIVERGE"], "desk/close": ["MATCH", "MATCH"]})
    capsys.readouterr()
    said = statediff("stats", "runs/a", "--json").json
    assert "pooled" not in said
    desk, notes = said["domains"]
    assert (desk["domain"], notes["domain"]) == ("desk", "notes")
    assert notes["recall"] == {"mean": 0.5, "trials": 2}
    assert notes["precision"] == notes["f1"] == {"mean": 1.0, "trials": 1}
    assert {"tool": None, "task": None, "outcome": "MATCH", "trials": 1} in notes["components"]
    assert notes["levels"]["both"] == 0
    (row,) = statediff("stats", "runs/a", "--pooled", "--json").json["pooled"]
    assert (row["domain"], row["scheduled"], row["recall"]["trials"]) == (None, 4, 3)
    assert "pooled" not in statediff("stats", "runs/a").out
    assert "pooled over domains" in statediff("stats", "runs/a", "--pooled").out
    compared = statediff("lab", "compare", "runs/a", "runs/b", "--json").json["domains"]
    assert [(each["domain"], each["decided"]) for each in compared] == [("desk", 1), ("notes", 2)]
    assert [each["b"]["recall"]["mean"] for each in compared] == [1.0, 0.0]
    out = statediff("lab", "compare", "runs/a", "runs/b").out
    assert "notes: 2 decided: -50.0 points passed" in out
    assert "pooled" not in out
    said = statediff("lab", "compare", "runs/a", "runs/b", "--pooled").out
    assert "pooled over domains: 3 dec" in said


@pytest.mark.parametrize(
    ("ends", "code"),
    [("MATCH", 0), ("DIVERGE", 1), ("fault", 3), ("unfinished", 3), ("damaged", 3), ("", 3)],
)
def test_compare_ends_with_1_for_a_regression_and_3_for_a_lost_pass(
    statediff: Call, folders: Folders, ends: str, code: int
) -> None:
    folders.run("a", {"notes/close": ["MATCH", "DIVERGE"]})
    folders.run("b", {"notes/close": [ends, "DIVERGE"]})
    said = statediff("lab", "compare", "runs/a", "runs/b", "--json")
    assert said.code == code
    assert said.json["cases"] == 2
    assert statediff("lab", "compare", "runs/a", "runs/b").code == code


def test_compare_tells_what_regressed_and_by_which_clause(
    statediff: Call, folders: Folders
) -> None:
    folders.run("a", {"notes/close": ["MATCH"]})
    folders.run("b", {"notes/close": ["DIVERGE"]})
    said = statediff("lab", "compare", "runs/a", "runs/b").out
    assert "regressed  notes/close 1  MATCH (1.0.0)  DIVERGE (1.0.0)" in said
    assert "new violation: notes/close: closed (missing-change) in 1 case" in said
    [back, *_] = statediff("lab", "compare", "runs/b", "runs/a", "--json").json["by_case"]
    assert [each["clause"] for each in back["vanished"]] == ["closed"]


def test_compare_opens_a_few_cases_and_says_what_it_could_not_read(
    statediff: Call, folders: Folders
) -> None:
    folders.run("a", {"notes/close": ["MATCH", "MATCH", "fault"]})
    b = folders.run("b", {"notes/close": ["MATCH", "DIVERGE", "DIVERGE"]})
    told = statediff("lab", "compare", "runs/a", "runs/b")
    assert 'vanished delta: ~ ticket 7 status  "open" → "closed"' in told.out
    assert "first divergent action: not known" in told.out
    given = ("runs/a", "runs/b", "--details", "1", "--json")
    said = statediff("lab", "compare", *given).json["by_case"]
    assert [each["differences"] is not None for each in said] == [False, True, False]
    assert said[1]["differences"]["deltas"] == {
        "new": {"number": 0, "first": []},
        "vanished": {
            "number": 1,
            "first": [
                {"id": "ticket[7].status", "op": "update", "before": "open", "after": "closed"}
            ],
        },
    }
    (b / "trials" / "notes-close-2" / "bundle" / "judgement.json").write_text("{}")
    said = statediff("lab", "compare", "runs/a", "runs/b", "--json").json["by_case"][1]
    assert said["differences"] is None
    assert "is not the one that was indexed" in said["not_opened"]
    assert "not_opened" not in statediff("lab", "compare", "runs/a", "runs/b", "--details", "0").out


def test_two_runs_without_a_common_case_do_not_compare_as_equal(
    statediff: Call, folders: Folders
) -> None:
    folders.run("a", {"notes/close": ["DIVERGE"]})
    folders.run("b", {"notes/close": ["DIVERGE"]}, version="2.0.0")
    said = statediff("lab", "compare", "runs/a", "runs/b")
    assert (said.code, "contract changed" in said.out) == (3, True)


def test_names_from_a_run_cannot_steer_the_terminal(statediff: Call, folders: Folders) -> None:
    folders.run("a", {"notes/close": ["MATCH"]}, agent="\x1b[31m\u202eevil")
    for command in (["runs"], ["stats", "runs/a"], ["lab", "compare", "runs/a", "runs/a"]):
        said = statediff(*command)
        assert said.code == 0
        assert "\x1b" not in said.out
        assert "\u202e" not in said.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["runs", "nowhere"],
        ["stats", "nowhere"],
        ["lab", "compare", "runs/a", "."],
        ["stats", "runs/a", "-k", "0"],
        ["runs", "--store", "mysql://host/x"],
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    statediff: Call, folders: Folders, arguments: list[str]
) -> None:
    folders.run("a", {"notes/close": ["MATCH"]})
    said = statediff(*arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err
