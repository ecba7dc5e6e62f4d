import json
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from statediff.agents.command import (
    MAX_OUTPUT_BYTES,
    CommandAgent,
    url_variable,
)
from statediff.agents.trial import AgentRun, Trial
from statediff.capture.source import clock
from statediff.errors import AdapterError, UsageError
from statediff.model.trace import NoAnswer
from statediff.model.values import Map


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    folder = tmp_path / "agent"
    folder.mkdir()
    return Trial(
        prompt='Refund order 1009; it\'s "urgent" $(rm -rf /)',
        inputs={"order": 1009},
        urls={"shop-db": "sqlite:////tmp/shop.db", "outbox": "smtp://127.0.0.1:2525"},
        folder=folder,
        answer_path=folder / "answer.json",
        trace_path=folder / "trace.jsonl",
    )


def run(trial: Trial, code: str, timeout_seconds: float = 20.0) -> AgentRun:
    agent = CommandAgent((sys.executable, "-S", "-c", textwrap.dedent(code)), timeout_seconds)
    return agent.run(trial, clock)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_alive(pid)


def test_a_program_gets_the_task_and_hands_back_an_answer(trial):
    result = run(
        trial,
        """
        import json, os
        found = {name: os.environ[name] for name in
                 ("STATEDIFF_TASK", "STATEDIFF_SHOP_DB_URL", "STATEDIFF_OUTBOX_URL",
                  "STATEDIFF_INPUTS")}
        json.dump(found, open(os.environ["STATEDIFF_ANSWER"], "w"))
        print("done")
    """,
    )
    assert result.answer == Map.of(
        {
            "STATEDIFF_TASK": trial.prompt,
            "STATEDIFF_SHOP_DB_URL": "sqlite:////tmp/shop.db",
            "STATEDIFF_OUTBOX_URL": "smtp://127.0.0.1:2525",
            "STATEDIFF_INPUTS": '{"order": 1009}',
        }
    )
    assert (result.exit_code, result.error, result.stdout.text) == (0, None, "done\n")
    assert result.started_at <= result.finished_at


def test_nothing_of_the_evaluators_environment_reaches_the_program(trial, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("STATEDIFF_OUTBOX_TOKEN", "secret")
    result = run(trial, "import os; print(sorted(os.environ)); print(os.getcwd())")
    names, folder = result.stdout.text.split("\n")[:2]
    assert json.loads(names.replace("'", '"')) == [
        "HOME",
        "LANG",
        "PATH",
        "STATEDIFF_ANSWER",
        "STATEDIFF_INPUTS",
        "STATEDIFF_OUTBOX_URL",
        "STATEDIFF_SEED",
        "STATEDIFF_SHOP_DB_URL",
        "STATEDIFF_TASK",
        "STATEDIFF_TRACE",
        "TMPDIR",
        "TZ",
    ]
    assert folder == str(trial.folder)


def test_a_variable_is_passed_on_only_when_named(trial, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "for the model")
    code = "import os; print(os.environ.get('OPENAI_API_KEY'))"
    agent = CommandAgent((sys.executable, "-c", code), pass_environment=("OPENAI_API_KEY",))
    assert agent.run(trial, clock).stdout.text == "for the model\n"


def test_the_command_line_is_split_but_run_by_no_shell(trial):
    agent = CommandAgent.parse(
        f"{sys.executable} -c 'import sys; print(sys.argv[1:])' 'a b' $HOME ;"
    )
    assert agent.run(trial, clock).stdout.text == "['a b', '$HOME', ';']\n"


@pytest.mark.parametrize("text", ["", "   ", "'unclosed", "no-such-program-anywhere --flag"])
def test_a_command_that_cannot_be_run_is_a_usage_error(text):
    with pytest.raises(UsageError):
        CommandAgent.parse(text)


def test_a_program_that_cannot_be_executed_is_the_adapters_error(trial, tmp_path):
    program = tmp_path / "broken"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    agent = CommandAgent((str(program),))
    with pytest.raises(AdapterError, match="could not be started"):
        agent.run(trial, clock)


def test_a_failing_program_is_a_fact_about_the_run(trial):
    result = run(trial, "import sys; print('why', file=sys.stderr); sys.exit(3)")
    assert result.exit_code == 3
    assert result.error == "the agent ended with exit code 3"
    assert result.stderr.text == "why\n"
    assert result.answer == NoAnswer("the agent wrote no answer file")


def test_a_program_that_does_not_end_is_stopped_with_its_children(trial):
    began = time.monotonic()
    result = run(
        trial,
        """
        import subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
        print(child.pid, flush=True)
        time.sleep(600)
    """,
        timeout_seconds=1.0,
    )
    assert time.monotonic() - began < 5
    assert result.error == "the agent did not end within 1 s and was stopped"
    assert result.exit_code == -signal.SIGKILL
    assert gone_within(int(result.stdout.text), 2)


def test_what_a_program_leaves_running_ends_with_it(trial):
    result = run(
        trial,
        """
        import subprocess, sys
        child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
        print(child.pid, flush=True)
    """,
    )
    assert (result.exit_code, result.error) == (0, None)
    assert gone_within(int(result.stdout.text), 2)


TWICE = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("pid.part", "w").write(str(os.getpid()))
        os.rename("pid.part", "pid")
        time.sleep(600)
    os._exit(0)
while not os.path.exists("pid"):
    time.sleep(0.01)
"""
"""A daemon: in a session of its own, an orphan, with the output still open."""


def test_a_daemon_is_ended_with_the_program_that_began_it(trial):
    began = time.monotonic()
    result = run(trial, TWICE)
    assert not is_alive(int((trial.folder / "pid").read_text()))
    assert time.monotonic() - began < 5
    assert (result.error, result.is_at_large) == (None, False)


def test_a_daemon_is_ended_when_the_time_is_over(trial):
    result = run(trial, f"{TWICE}\ntime.sleep(600)", timeout_seconds=1.5)
    assert not is_alive(int((trial.folder / "pid").read_text()))
    assert result.exit_code == -signal.SIGKILL


def test_who_ends_what_watches_over_it_is_said_to_be_at_large(trial):
    result = run(
        trial,
        """
        import os, signal, time
        open("pid", "w").write(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    """,
    )
    assert result.is_at_large
    assert "ended the process that watches over it" in result.error
    assert gone_within(int((trial.folder / "pid").read_text()), 2)  # its group is known


def test_a_program_that_closes_its_output_is_still_waited_for(trial):
    result = run(
        trial,
        """
        import os, time
        os.close(1); os.close(2)
        time.sleep(0.3)
        open(os.environ["STATEDIFF_ANSWER"], "w").write("42")
    """,
    )
    assert result.answer == 42


def test_huge_output_is_kept_up_to_a_bound_and_says_so(trial):
    result = run(
        trial,
        """
        import os
        for _ in range(50):
            os.write(1, b"x" * 100_000)
        os.write(2, b"small")
    """,
    )
    assert (result.stdout.bytes_kept, result.stdout.bytes_seen) == (MAX_OUTPUT_BYTES, 5_000_000)
    assert result.stdout.text.endswith(f"[{5_000_000 - MAX_OUTPUT_BYTES} more bytes not kept]")
    assert result.stderr.text == "small"


def test_terminal_escapes_in_the_output_are_spelled_out(trial):
    result = run(trial, r"""import os; os.write(1, b"\x1b[2Jred\xff\xe2\x80\xae")""")
    assert result.stdout.text == r"\x1b[2Jred\xff\u202e"


def test_the_trace_the_program_wrote_is_read_but_never_complete(trial):
    result = run(
        trial,
        """
        import json, os
        with open(os.environ["STATEDIFF_TRACE"], "w") as trace:
            trace.write(json.dumps({"tool": "send", "class": "notification"}) + "\\n")
    """,
    )
    assert [action.tool for action in result.trace.actions] == ["send"]
    assert not result.trace.is_complete


def test_names_of_sources_become_names_of_variables():
    assert url_variable("shop-db") == "STATEDIFF_SHOP_DB_URL"
    assert url_variable("git.main repo") == "STATEDIFF_GIT_MAIN_REPO_URL"


@pytest.mark.parametrize("signal_number", [signal.SIGINT])
def test_ctrl_c_leaves_no_process_behind(tmp_path, signal_number):
    script = textwrap.dedent("""
        import sys
        from datetime import UTC, datetime
        from pathlib import Path
        from statediff.agents.command import CommandAgent
        from statediff.harness import Task, TrialPlan, observe_trial
        from statediff.model.state import MemoryChunks
        from statediff.packs import sandbox_pack
        from statediff.systems.base.sandbox import EmbeddedSandbox

        work = Path(sys.argv[1])
        code = ("import os, subprocess, sys, time;"
                "child = subprocess.Popen(['sleep', '600']);"
                "open('pids.part', 'w').write(f'{os.getpid()} {child.pid}');"
                "os.rename('pids.part', 'pids');"
                "time.sleep(600)")
        with EmbeddedSandbox(sandbox_pack("shop"), work / "shop") as sandbox:
            (work / "outbox").write_text(str(sandbox.system("outbox").process.pid))
            observe_trial(
                sandbox, CommandAgent((sys.executable, "-c", code)), Task("wait", {}),
                TrialPlan("t", work / "trial"), clock=lambda: datetime.now(UTC),
                store=MemoryChunks(),
            )
    """)
    evaluator = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stderr=subprocess.PIPE, text=True
    )
    pids = tmp_path / "shop" / "agent" / "pids"
    deadline = time.monotonic() + 30
    while not pids.exists() and time.monotonic() < deadline and evaluator.poll() is None:
        time.sleep(0.05)
    started = [*map(int, pids.read_text().split()), int((tmp_path / "outbox").read_text())]
    assert all(is_alive(pid) for pid in started)
    evaluator.send_signal(signal_number)
    assert "KeyboardInterrupt" in evaluator.communicate(timeout=20)[1]
    assert all(gone_within(pid, 2) for pid in started)
    assert (tmp_path / "trial" / "receipt.json").exists()
