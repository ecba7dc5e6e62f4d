import contextlib
import gzip
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.conftest import PROGRAM, Call, environment

SAMPLES = Path(__file__).parents[3] / "fixtures" / "imported"
LINEAR = SAMPLES / "agent-diff"


def copied(folder: Path, change: object = None) -> Path:
    """A copy of the Linear sample; `change` makes other runs of its runs."""
    shutil.copytree(LINEAR, folder)
    if callable(change):
        file = folder / "runs-linear.jsonl.gz"
        runs = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
        lines = (json.dumps(run).encode() + b"\n" for run in change(runs))
        file.write_bytes(gzip.compress(b"".join(lines)))
    return folder


@pytest.mark.parametrize(("suite", "runs"), [("agent-diff", 9), ("tau2", 16)])
def test_by_its_own_rules_a_benchmark_is_reproduced_line_by_line(
    statediff: Call, suite: str, runs: int
) -> None:
    said = statediff(
        "lab",
        "import",
        suite,
        "--cases",
        str(SAMPLES / suite),
        "--mode",
        "compat",
        "--json",
        "-j",
        "1",
    )
    *lines, last = said.lines
    assert last == {"runs": runs, "agree": runs, "false_pass": 0, "false_fail": 0}
    assert {tuple(line) for line in lines} == {("run_id", "passes", "verdict")}
    assert said.code == 1
    assert said.err == ""


def test_a_closed_judgement_tells_each_run_and_sums_up(statediff: Call, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    said = statediff("lab", "import", "agent-diff", "--cases", str(LINEAR), "--json", "-j", "1",
                     "--report", str(page))  # fmt: skip
    *lines, last = said.lines
    assert said.code == 1
    [hurt] = [line for line in lines if line["official"] and not line["passes"]]
    assert hurt["first"]["clause"] == "frame"
    assert hurt["reviewed"]
    [domain] = last["summary"]["domains"]
    assert domain["official"]["agree"] == 8
    assert [d["run_id"] for d in domain["disagreements"]] == [hurt["run_id"]]
    assert last["summary"]["still"]["match_undeclared"] == 0
    assert last["summary"]["report"] == "page.html"
    assert hurt["run_id"] in page.read_text()


@pytest.mark.slow
def test_what_is_kept_is_read_by_the_other_commands(statediff: Call, tmp_path: Path) -> None:
    said = statediff("lab", "import", "agent-diff", "--cases", str(LINEAR), "-j", "1",
                     "--out", "kept", "--states")  # fmt: skip
    assert said.code == 1
    kept = tmp_path / "kept"
    trials = sorted((kept / "trials").iterdir())
    assert len(trials) == 9
    schema = str(kept / "schemas" / "linear.yaml")
    for trial in trials:
        manifest = json.loads((trial / "bundle" / "manifest.json").read_text())
        assert statediff("replay", str(trial)).code in (0, 1)
        contract = kept / "contracts" / manifest["contract"].removeprefix("agent-diff/")
        again = statediff(
            "judge", str(contract), "--before", f"linear={trial / 'before-linear.json'}",
            "--after", f"linear={trial / 'after-linear.json'}", "--schema", schema, "--json",
        )  # fmt: skip
        assert again.json["verdict"] == manifest["verdict"]
    for task in sorted((kept / "contracts" / "linear").iterdir()):
        before = trials[0] / "before-linear.json"
        checked = ("--before", f"linear={before}", "--schema", schema)
        assert statediff("check", str(task), *checked).code == 0
        assert statediff("check", "--explain", str(task), "--schema", schema).code == 0
    assert statediff("report", str(kept)).code == 0
    again = statediff(
        "lab", "import", "agent-diff", "--cases", str(LINEAR), "-j", "1", "--out", "kept"
    )
    assert again.code == 4
    assert "exists already" in again.err


def test_what_is_kept_of_tau2_is_read_by_the_other_commands(
    statediff: Call, tmp_path: Path
) -> None:
    said = statediff("lab", "import", "tau2", "--cases", str(SAMPLES / "tau2"), "-j", "1",
                     "--out", "kept", "--states")  # fmt: skip
    assert said.code == 1
    kept = tmp_path / "kept"
    codes = {"MATCH": 0, "DIVERGE": 1, "INCONCLUSIVE": 3}
    some: dict[str, Path] = {}
    for trial in sorted((kept / "trials").iterdir()):
        verdict = json.loads((trial / "bundle" / "manifest.json").read_text())["verdict"]
        some.setdefault(verdict, trial)
    assert some.keys() == codes.keys()
    for verdict, trial in some.items():
        assert (trial / "before-mock.json").exists()
        shown, replayed = statediff("show", str(trial)), statediff("replay", str(trial))
        assert (shown.code, verdict in shown.out) == (0, True)
        assert (replayed.code, verdict in replayed.out) == (codes[verdict], True)
        assert statediff("report", str(trial)).code == 0
        assert verdict in (trial / "report.html").read_text()
    schema = str(kept / "schemas" / "mock.yaml")
    for task in sorted((kept / "contracts" / "mock").iterdir()):
        assert statediff("check", str(task), "--schema", schema).code == 0
        assert statediff("check", "--explain", str(task), "--schema", schema).code == 0
    assert statediff("report", str(kept)).code == 0


def test_a_run_that_is_there_twice_is_kept_twice(statediff: Call, tmp_path: Path) -> None:
    cases = copied(tmp_path / "cases", lambda runs: [runs[0], runs[0]])
    statediff("lab", "import", "agent-diff", "--cases", str(cases), "-j", "1", "--out", "kept")
    first, second = sorted((tmp_path / "kept" / "trials").iterdir())
    assert second.name == f"{first.name}.2"
    assert (second / "bundle" / "manifest.json").exists()


def test_the_sweep_shows_who_notices(statediff: Call) -> None:
    said = statediff(
        "lab", "import", "agent-diff", "--cases", str(LINEAR), "--sweep", "-j", "1", "--json"
    )
    total = said.lines[-1]["sweep"]["total"]
    assert len(said.lines) == total["seeded"] + 1
    assert (total["match"], total["witnessed"]) == (0, total["seeded"])
    assert total["benchmark_passes"] > 0
    assert said.code == 0


def test_the_sweep_is_told_as_a_table(statediff: Call) -> None:
    said = statediff(
        "lab", "import", "tau2", "--cases", str(SAMPLES / "tau2"), "--sweep", "-j", "1"
    )
    assert [line.split()[0] for line in said.out.splitlines()[2:9]] == [
        "delete", "tamper", "copy", "swap", "purge", "privilege", "all",
    ]  # fmt: skip


def test_a_line_that_is_no_run_is_told_and_is_a_fault(statediff: Call, tmp_path: Path) -> None:
    cases = copied(tmp_path / "cases", lambda runs: [*[r for r in runs if r["passed"]][:1], 5])
    said = statediff(
        "lab", "import", "agent-diff", "--cases", str(cases), "--mode", "compat", "-j", "1"
    )
    assert said.code == 4
    assert "runs-linear.jsonl.gz, line 2: not judged: expected a JSON object" in said.err
    told = statediff(
        "lab",
        "import",
        "agent-diff",
        "--cases",
        str(cases),
        "--mode",
        "compat",
        "-j",
        "1",
        "--json",
    ).lines
    assert told[1]["bad_line"]["number"] == 2
    assert told[2] == {"runs": 1, "agree": 1, "false_pass": 0, "false_fail": 0, "bad_lines": 1}


def test_what_a_run_is_called_is_text_on_every_surface(statediff: Call, tmp_path: Path) -> None:
    name = "<script>alert(1)</script>\x1b[31m\u202e../../x"
    cases = copied(
        tmp_path / "cases", lambda runs: [{**r, "run_id": name + r["run_id"]} for r in runs]
    )
    given = ("--cases", str(cases), "-j", "1", "--out", "kept", "--report", "page.html")
    said = statediff("lab", "import", "agent-diff", *given)
    assert "\x1b" not in said.out
    assert "\u202e" not in said.out
    page = (tmp_path / "page.html").read_text()
    assert "<script>alert" not in page
    assert "\u202e" not in page
    inside = {path.parent for path in tmp_path.rglob("manifest.json")}
    assert len(inside) == 9
    assert all((tmp_path / "kept" / "trials") in path.parents for path in inside)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["other", "--cases", "."], "there are: agent-diff, bfcl, tau2"),
        (["tau2", "--cases", "nowhere"], "expected a folder of cases"),
        (["agent-diff", "--cases", "."], "expected suite-NAME.json"),
        (["tau2", "--cases", "."], ""),
        (["agent-diff", "--cases", str(LINEAR), "--domain", "x\x1b"], "there are runs of: linear"),
        (["agent-diff", "--cases", str(LINEAR), "-j", "99"], "from 1 to 64"),
        (["agent-diff", "--cases", str(LINEAR), "--mode", "compat", "--out", "o"], "--mode compat"),
        (["agent-diff", "--cases", str(LINEAR), "--states"], "--states goes with --out"),
        (["agent-diff", "--cases", str(LINEAR), "--mode", "strict"], "strict"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_judged(
    statediff: Call, options: list[str], why: str
) -> None:
    said = statediff("lab", "import", *options)
    assert said.code == 2
    assert said.out == ""
    assert why in said.err
    assert "\x1b" not in said.err


@pytest.mark.slow
def test_an_interrupt_ends_all_processes(tmp_path: Path) -> None:
    cases = copied(tmp_path / "cases", lambda runs: runs * 300)
    command = [*PROGRAM, "import", "agent-diff", "--cases", str(cases), "-j", "2", "--json"]
    running = subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    assert running.stdout is not None
    running.stdout.readline()
    began = time.monotonic()
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to everybody
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert time.monotonic() - began < 30
    assert b"Traceback" not in err
    assert json.loads(out.splitlines()[-1])["error"]["kind"] == "interrupted"


def _children(pid: int) -> str:
    """The processes that it started, whichever of its threads did."""
    found = ""
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has just ended
            found += thread.read_text()
    return found


def test_an_interrupt_while_processes_are_being_started_is_no_traceback() -> None:
    command = [*PROGRAM, "import", "agent-diff", "--cases", str(LINEAR), "-j", "2", "--json"]
    running = subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    while running.poll() is None and not _children(running.pid):
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode in (1, 130)  # on an idle machine it may have ended by then
    assert b"Traceback" not in err
