"""Servers that are loaded once and forked for each trial: what they share, and how they end."""

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from statediff.errors import SandboxError
from statediff.systems.base.served import ForkedServer

MODULE = "tests.systems.base.remembering"
CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkedServer]:
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    made = ForkedServer(MODULE, "the test's server")
    yield made
    made.stop()


def asked(port: int, path: str, method: str = "GET", body: bytes | None = None) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, body)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def ended(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
        except OSError:
            return True
        if text.rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False


def test_a_server_that_was_halted_serves_nobody_until_the_next_one_does(
    server: ForkedServer,
) -> None:
    server.start({"base": "pristine"})
    first = server.serve({})
    server.halt()
    server.halt()
    assert ended(first["pid"])
    assert server.in_progress() is None
    assert asked(server.serve({})["port"], "/look") == "pristine /look"


def test_what_was_taken_away_comes_back_of_the_same_program_if_that_lives(
    server: ForkedServer,
) -> None:
    server.start({"base": "pristine"})
    first, program = server.serve({}), server.pid
    server.withdraw()
    assert ended(first["pid"])
    assert asked(server.serve({})["port"], "/look") == "pristine /look"
    assert server.pid == program
    os.kill(program, signal.SIGKILL)
    assert ended(program)
    server.withdraw()
    assert not server.pid
    assert server.in_progress() is None


def test_a_trial_finds_what_was_loaded_and_nothing_of_the_trial_before(
    server: ForkedServer,
) -> None:
    server.start({"base": "pristine"})
    first = server.serve({})
    assert asked(first["port"], "/harm", "POST", b"!") == "pristine /harm!"
    second = server.serve({})
    assert ended(first["pid"])
    assert asked(second["port"], "/look") == "pristine /look"
    with pytest.raises(OSError):  # noqa: PT011 - refused
        asked(first["port"], "/look")


def test_requests_in_progress_are_counted(server: ForkedServer) -> None:
    server.start({"base": "pristine"})
    port = server.serve({})["port"]
    assert server.in_progress() == 0
    slow = threading.Thread(target=asked, args=(port, "/slow"))
    slow.start()
    deadline = time.monotonic() + 20
    seen = set()
    while slow.is_alive() and time.monotonic() < deadline:
        seen.add(server.in_progress())
    slow.join()
    assert {1} <= seen <= {0, 1}
    assert server.in_progress() == 0


@pytest.mark.parametrize("question", [{"die": 1}, {"hang": 1}])
def test_a_server_that_dies_or_hangs_answers_none_and_the_next_trial_has_another(
    server: ForkedServer, question: dict[str, int]
) -> None:
    server.start({"base": "pristine"})
    first = server.serve({})
    assert server.question(question) is None
    assert server.in_progress() is None
    assert ended(first["pid"])
    assert asked(server.serve({})["port"], "/look") == "pristine /look"


def test_a_question_may_take_as_long_as_it_is_given_and_its_answer_be_large(
    server: ForkedServer,
) -> None:
    server.start({"base": "pristine"})
    first = server.serve({})
    slow = server.question({"slow": 1.2}, seconds=20)
    assert slow is not None
    assert slow["slow"] == 1.2
    large = server.question({"bytes": 3_000_000}, seconds=20)
    assert large is not None
    assert len(large["bytes"]) == 3_000_000
    assert server.question({"slow": 1.2}) is None  # a second is what a question has by default
    assert ended(first["pid"])


def test_what_cannot_start_says_why(server: ForkedServer) -> None:
    with pytest.raises(SandboxError, match="the test's server did not start: no such base"):
        server.start({"fail": "no such base"})
    server.start({"base": "pristine"})
    with pytest.raises(SandboxError, match="did not start: it ended"):
        server.serve({"fail": "no disk"})
    with pytest.raises(SandboxError, match="did not start: it has done nothing for 1 s"):
        server.serve({"hang": 60}, stall_seconds=1.0)
    assert asked(server.serve({})["port"], "/look") == "pristine /look"


@pytest.mark.slow
@pytest.mark.parametrize("slow", [{"compute": 4}, {"write": 8}])
def test_one_that_works_is_waited_for_longer_than_one_that_does_not(
    server: ForkedServer, slow: dict[str, int]
) -> None:
    began = time.monotonic()
    server.start({"base": "pristine", **slow}, stall_seconds=2.0)
    served = server.serve(slow, stall_seconds=2.0)
    assert time.monotonic() - began >= 8
    assert asked(served["port"], "/look") == "pristine /look"


def test_one_that_hangs_while_it_is_loaded_is_given_up_and_says_what_it_wrote_last(
    server: ForkedServer,
) -> None:
    words = "it has done nothing for 1 s.*; the last that it wrote: step 1"
    with pytest.raises(SandboxError, match=words):
        server.start({"base": "", "write": 2, "hang": 60}, stall_seconds=1.0)
    assert not server.is_running


def test_what_has_no_length_is_refused(server: ForkedServer) -> None:
    server.start({"base": "pristine"})
    port = server.serve({})["port"]
    lengths = ("99999999999", "-1", "1e3", "²")
    heads = [("Transfer-Encoding", "chunked", 411), *(("Content-Length", n, 413) for n in lengths)]
    for name, value, status in heads:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
            connection.putrequest("POST", "/")
            connection.putheader(name, value.encode("utf-8"))
            connection.endheaders()
            assert connection.getresponse().status == status
    assert asked(port, "/look") == "pristine /look"


def test_it_ends_with_the_evaluator_however_that_ends() -> None:
    program = (
        f"import json, time\nfrom statediff.systems.base.served import ForkedServer\n"
        f"server = ForkedServer({MODULE!r}, 'the server')\nserver.start({{'base': ''}})\n"
        "print(json.dumps([server.pid, server.serve({})['pid']]), flush=True)\ntime.sleep(60)\n"
    )
    evaluator = subprocess.Popen(
        [sys.executable, "-c", program], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip
    assert evaluator.stdout is not None
    pids = [int(each) for each in evaluator.stdout.readline().strip(" []\n").split(",")]
    evaluator.send_signal(signal.SIGKILL)
    evaluator.wait()
    evaluator.stdout.close()
    assert all(ended(pid) for pid in pids)
