"""`demo` and `run`: real agents in a real sandbox, and what is left when somebody says stop."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.conftest import CHECKOUT, PROGRAM, Call, Files, environment

TASK = "shop/refund-returned-order"


def test_the_demo_shows_an_agent_on_every_system_and_their_verdicts(statediff: Call) -> None:
    said = statediff("demo")
    assert said.code == 0, said.out + said.err
    lines = said.out.splitlines()
    assert lines[0].startswith("✔ reset verified   412 entities in 2 sources")
    assert lines[1].startswith("careful     MATCH         ")
    assert lines[1].endswith(" clauses")
    assert lines[2] == "hasty       DIVERGE       no-customer-deleted: customer 17 deleted"
    assert lines[3].startswith("plausible   DIVERGE       refunded: refund 807: 4200 ≠ 3900 ")
    assert lines[3].endswith("its answer claims success")
    assert lines[4] == (
        "unplugged   INCONCLUSIVE  outbox not read: connection refused; needed by plain-letters "
        "(cause: environment)"
    )
    others = [line.split()[:2] for line in lines[5:11]]
    assert others[1::2] == [[name, "DIVERGE"] for name in ("accounts", "helpdesk", "repo")]
    assert [line.split()[-1] for line in lines[5:11:2]] == ["accounts", "helpdesk", "repo"]
    assert lines[11].startswith("report: runs/demo-")
    next_step = lines[12].rpartition("statediff show ")[2]
    shown = statediff("show", next_step)
    assert shown.out.startswith("DIVERGE  shop/refund-returned-order")
    assert statediff("replay", next_step).code == 1


def test_a_run_is_nobody_elses_to_read(statediff: Call, tmp_path: Path) -> None:
    """Its traces, answers and states say what no other account of the machine was told."""
    assert statediff("run", "shop/refuse-late-refund", "--agent", "careful").code == 0
    [folder] = (tmp_path / "runs").glob("run-*")
    for private in (tmp_path / "runs", folder, tmp_path / ".statediff"):
        assert private.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_the_demo_in_json_is_one_object_a_trial_and_a_summary(statediff: Call) -> None:
    said = statediff("demo", "--json")
    assert (said.code, said.err) == (0, "")
    *trials, last = said.lines
    wrong = ["DIVERGE"] * 3
    assert [t["verdict"] for t in trials] == [
        "MATCH", "DIVERGE", "DIVERGE", "INCONCLUSIVE", *wrong
    ]  # fmt: skip
    for trial in trials:
        assert set(trial) == {"agent", "contract", "verdict", "findings", "bundle"}
        for finding in trial["findings"]:
            assert set(finding) == {"code", "clause", "truth", "stage", "origin"}
    assert last["summary"]["as_expected"] is True
    assert last["summary"]["report"].endswith("/report.html")


@pytest.mark.slow
def test_the_demo_runs_where_nothing_may_be_written(statediff: Call, tmp_path: Path) -> None:
    said = statediff("demo", cwd="/proc", env={"TMPDIR": str(tmp_path)})
    assert said.code == 0, said.err
    assert said.out.startswith("the current directory is not writable; using ")
    assert list(tmp_path.glob("statediff-demo-*/demo-*/run.json"))


def test_run_counts_over_all_trials_and_names_each(statediff: Call, tmp_path: Path) -> None:
    said = statediff("run", TASK, "--agent", "careful", "-k", "2", "--json")
    assert said.code == 0, said.out + said.err
    *trials, last = said.lines
    assert [t["trial"] for t in trials] == [f"shop-refund-returned-order-{n}" for n in (1, 2)]
    for trial in trials:
        assert statediff("replay", str(tmp_path / trial["bundle"])).code == 0
    summary = last["summary"]
    assert (summary["scheduled"], summary["MATCH"], summary["not_run"]) == (2, 2, 0)
    written = json.loads((tmp_path / summary["run"] / "run.json").read_bytes())
    assert list(written["contracts"]) == ["shop/refund-returned-order@2.1.0"]


def test_any_program_is_an_agent(statediff: Call) -> None:
    said = statediff("run", TASK, "--agent-cmd", "true")
    assert said.code == 1
    assert "refunded: " in said.out


def test_a_run_by_pages_says_of_each_trial_what_they_told(statediff: Call, tmp_path: Path) -> None:
    said = statediff("run", TASK, "--agent-cmd", "true", "--scan", "pages", "--sample-scans", "0")
    assert said.code == 1
    (captures,) = tmp_path.glob("runs/*/trials/*/captures.json")
    checks = json.loads(captures.read_bytes())["checks"]
    assert {c["source"]: c["by"] for c in checks} == {"outbox": ["scan"], "shop-db": ["pages"]}


def test_an_agent_that_outlives_its_time_is_ended_and_judged(statediff: Call) -> None:
    begun = time.monotonic()
    said = statediff("run", TASK, "--agent-cmd", "sleep 60", "--timeout", "0.3")
    assert said.code == 1
    assert time.monotonic() - begun < 30


def test_a_python_function_is_an_agent(statediff: Call, files: Files) -> None:
    files.write("idle_agent.py", "def act(trial):\n    return {'refunded_cents': 3900}\n")
    said = statediff("run", TASK, "--agent", "idle_agent:act", "--json", env={})
    assert said.code == 1, said.out + said.err
    assert said.lines[0]["task"] == "DIVERGE"


def test_an_invalid_contract_is_refused_before_any_agent_acts(
    statediff: Call, files: Files
) -> None:
    text = (CHECKOUT / "contracts" / TASK / "contract.yaml").read_text(encoding="utf-8")
    files.write("contract.yaml", text.replace("delete: customer", "delete: customr"))
    marker = files.folder / "acted"
    said = statediff("run", "contract.yaml", "--agent-cmd", f"touch {marker}", "--json")
    assert said.code == 2
    assert (
        said.json["error"]["problems"][0]["line"] == text[: text.index("delete:")].count("\n") + 1
    )
    assert not marker.exists()


def test_a_full_disk_is_a_fault_of_the_harness_and_counted(statediff: Call, tmp_path: Path) -> None:
    said = statediff(
        "run", TASK, "--agent-cmd", "true", "-k", "2", "--json", limit_bytes=64 * 1024,
        env={"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert said.code == 4, said.out + said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_is_done_and_leaves_no_process(
    tmp_path: Path, number: signal.Signals
) -> None:
    program = tmp_path / "agent.sh"
    nap = f"61.{os.getpid()}{number.value}"  # told from the other's, which may run beside it
    program.write_text(f'#!/bin/sh\nif [ "$STATEDIFF_SEED" != 1 ]; then exec sleep {nap}; fi\n')
    program.chmod(0o755)
    with subprocess.Popen(
        [*PROGRAM, "run", TASK, "--agent-cmd", str(program), "-k", "3", "--json"],
        cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        wait_for(lambda: bool(sleepers(nap)))
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert first["verdict"] == "DIVERGE"
    summary = json.loads(out)["summary"]
    assert (summary["scheduled"], summary["DIVERGE"], summary["not_run"]) == (3, 1, 2)
    assert summary["interrupted"] is True
    assert b"Traceback" not in err
    wait_for(lambda: not group(process.pid) and not sleepers(nap))


@pytest.mark.slow
@pytest.mark.parametrize("task", [TASK, "helpdesk/close-case", "repo/clean-merged-branches"])
def test_several_trials_at_once_are_told_in_order(statediff: Call, task: str) -> None:
    said = statediff("run", task, "--agent", "careful", "-k", "3", "-j", "2", "--json")
    assert said.code == 0, said.out + said.err
    *trials, last = said.lines
    assert [t["trial"] for t in trials] == [f"{task.replace('/', '-')}-{n}" for n in (1, 2, 3)]
    assert last["summary"]["MATCH"] == 3


@pytest.mark.slow
def test_interrupting_several_trials_ends_all_agents_and_judges_none_of_them(
    tmp_path: Path,
) -> None:
    nap = f"62.{os.getpid()}"
    with subprocess.Popen(
        [*PROGRAM, "run", TASK, "--agent-cmd", f"sh -c 'exec sleep {nap}'",
         "-k", "5", "-j", "3", "--json"],
        cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:  # fmt: skip
        wait_for(lambda: len(sleepers(nap)) == 3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    summary = json.loads(out)["summary"]
    assert (summary["scheduled"], summary["not_run"], summary["interrupted"]) == (5, 5, True)
    assert b"Traceback" not in err
    assert not list(tmp_path.glob("runs/*/trials/*/bundle"))
    wait_for(lambda: not group(process.pid) and not sleepers(nap))


def wait_for(condition: object) -> None:
    deadline = time.monotonic() + 60
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def group(session: int) -> list[str]:
    """The processes of a session that still run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(entry.parent.name)
    return found


def sleepers(nap: str) -> list[str]:
    """The processes that sleep for so long."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes() == b"sleep\0%s\0" % nap.encode():
                found.append(entry.parent.name)
        except OSError:
            continue
    return found


def test_an_interrupted_demo_says_so(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*PROGRAM, "demo", "--json"], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everybody
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert json.loads(out.splitlines()[-1])["error"]["kind"] == "interrupted"
    assert b"Traceback" not in err
    wait_for(lambda: not group(process.pid))


def test_trials_since_the_last_agreeing_scan_are_listed_when_one_disagrees(tmp_path):
    from statediff.capture.guard import SourceCheck  # noqa: PLC0415
    from statediff.cli.suites.progress import Report  # noqa: PLC0415
    from statediff.suite.records import Ended, Trial  # noqa: PLC0415
    from statediff.workspace.episodes import Played  # noqa: PLC0415

    fed, both = SourceCheck("db", True, False), SourceCheck("db", True, True)
    wrong = SourceCheck("db", True, True, disagreement=("item",))
    report = Report(True, tuple(f"t{number}" for number in range(1, 6)), tmp_path)
    for number, check in enumerate((fed, both, fed, fed, wrong), start=1):
        record = Trial("r", f"t{number}", Ended.MATCH)
        report.finished.append(Played(f"t{number}", "c", "a", record, checks=(check,)))
    assert report.suspects() == ["t3", "t4"]
    report.finished.pop()
    assert report.suspects() == []
