"""Runs that are taken up again, and trials that are made again: nothing lost, nothing hidden."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Call, Files

TASK = "shop/notify-once"
AGENTS = """\
def nothing(trial):
    return None


def other(trial):
    return None
"""


@pytest.fixture
def idle(files: Files, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two agents in this process, which do nothing, and the command that tries each twice."""
    files.write("two_idle_agents.py", AGENTS)
    monkeypatch.syspath_prepend(str(files.folder))
    named = [f"two_idle_agents:{name}" for name in ("nothing", "other")]
    return ["run", TASK, "--agent", named[0], "--agent", named[1], "-k", "2", "--json"]


def test_a_run_goes_on_where_it_ended_and_keeps_what_was_made_again(
    statediff: Call, idle: list[str], tmp_path: Path
) -> None:
    first = statediff(*idle, "--resume")  # there is nothing to go on with yet
    assert (first.code, len(first.lines)) == (1, 5), first.err
    (run,) = (tmp_path / "runs").glob("run-*")
    facts = json.loads((run / "run.json").read_bytes())
    assert facts["sandboxes"]["shop"]["digest"]
    assert facts["code"]["digest"]
    assert len(list((run / "trials").iterdir())) == 4

    # One is lost, one was left half way, by a fault.
    trials = sorted((run / "trials").iterdir())
    shutil.rmtree(trials[0])
    shutil.rmtree(trials[3] / "bundle")
    (trials[3] / "fault.txt").write_text("the outbox did not start\n")
    kept = {t.name: (t / "bundle" / "manifest.json").read_bytes() for t in trials[1:3]}

    again = statediff(*idle, "--resume")
    *made, last = again.lines
    assert [line["trial"] for line in made] == [trials[0].name, trials[3].name]
    summary = last["summary"]
    assert (summary["scheduled"], summary["kept"], summary["DIVERGE"]) == (4, 2, 4)
    assert made[1]["attempts"] == 2
    assert (run / "attempts" / trials[3].name / "1" / "fault.txt").is_file()
    for name, manifest in kept.items():
        assert (run / "trials" / name / "bundle" / "manifest.json").read_bytes() == manifest
    assert statediff(*idle, "--resume").lines[0]["summary"]["kept"] == 4

    # Made again though it had a verdict: told wherever it counts.
    chosen = statediff("retry", str(run), "--trial", trials[1].name, "--json")
    assert [line.get("trial") for line in chosen.lines] == [trials[1].name, None], chosen.err
    assert (run / "attempts" / trials[1].name / "1" / "bundle" / "manifest.json").is_file()
    figures = statediff("stats", str(run), "--json").json["contracts"]
    assert sorted(each["retried"] for each in figures) == [0, 1]
    assert "(1 retried)" in statediff("stats", str(run)).out
    both = statediff("lab", "compare", str(run), str(run), "--agent-a", figures[0]["agent"],
                     "--agent-b", figures[1]["agent"], "--json")  # fmt: skip
    assert both.json["both_fail"] == 2
    refused = statediff("lab", "compare", str(run), str(run))
    assert (refused.code, "--agent-a" in refused.err) == (2, True)


def test_a_run_of_other_means_is_not_taken_up(
    statediff: Call, idle: list[str], tmp_path: Path
) -> None:
    command = [*idle[:4], *idle[-1:], "--resume"]
    assert statediff(*command).code == 1
    (run,) = (tmp_path / "runs").glob("run-*")
    facts = json.loads((run / "run.json").read_bytes())
    facts["code"]["digest"] = "0" * 64
    (run / "run.json").write_text(json.dumps(facts, sort_keys=True, separators=(",", ":")))
    said = statediff(*command)
    assert said.code == 2
    assert "code has changed" in said.json["error"]["message"]
    # Another number of trials is another command.
    assert statediff(*command, "-k", "2").code == 1
    assert len(list((tmp_path / "runs").glob("run-*"))) == 2


def test_a_choice_that_fits_no_trial_is_refused(
    statediff: Call, idle: list[str], tmp_path: Path
) -> None:
    assert statediff(*idle[:4], "--json").code == 1
    (run,) = (tmp_path / "runs").glob("run-*")
    said = statediff("retry", str(run), "--trial", "nothing-1")
    assert (said.code, "no such trial" in said.err) == (2, True)
    assert statediff("retry", "nowhere").code == 2
