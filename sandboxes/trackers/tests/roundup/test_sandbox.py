import os
import signal
import socket
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx
import pytest
from statediff_trackers.roundup.api import ApiAccount
from statediff_trackers.roundup.sandbox import AGENT, EmbeddedTracker

from statediff.capture.source import SourceUnavailable, clock
from statediff.capture.take import take
from statediff.errors import SandboxError
from statediff.model.state import MemoryChunks
from statediff.packs import read_pack, sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox


def tracker(sandbox: EmbeddedSandbox) -> EmbeddedTracker:
    system = sandbox.system("tracker")
    assert isinstance(system, EmbeddedTracker)
    return system


def agent(sandbox: EmbeddedSandbox) -> httpx.Client:
    """The agent's account, as the URL it is given says."""
    url = urlsplit(sandbox.access().urls["tracker"])
    base = f"http://{url.hostname}:{url.port}{url.path}"
    return ApiAccount(base, url.username or "", unquote(url.password or "")).client()


def change(client: httpx.Client, item: str, **values: object) -> httpx.Response:
    tag = client.get(item).json()["data"]["@etag"]
    return client.put(item, json=values, headers={"If-Match": tag})


def execute(sandbox: EmbeddedSandbox, statement: str, *values: object) -> None:
    connection = sqlite3.connect(tracker(sandbox).home / "db" / "db", isolation_level=None)
    connection.execute(statement, values)
    connection.close()


def drift_of(sandbox: EmbeddedSandbox) -> list[str]:
    receipt = sandbox.verify(clock)
    assert receipt.ok == (not receipt.drift)
    return [f"{d.what}: {d.expected} → {d.found}" for d in receipt.drift]


def test_a_fresh_tracker_is_proven_and_reset_after_reset_again(sandbox):
    for _ in range(5):
        sandbox.reset()
        receipt = sandbox.verify(clock)
        assert receipt.ok
        assert receipt.entities == 45


def append(sandbox: EmbeddedSandbox, name: str, text: str) -> None:
    with (tracker(sandbox).home / name).open("a") as file:
        file.write(text)


def a_setting(sandbox: EmbeddedSandbox) -> None:
    path = tracker(sandbox).home / "config.ini"
    path.write_text(path.read_text().replace("indexer = native", "indexer = none"))


def an_issue(sandbox: EmbeddedSandbox) -> None:
    with agent(sandbox) as client:
        assert client.post("issue", json={"title": "one more"}).status_code == 201


DRIFTS = {
    "setting main.indexer: native → none": a_setting,
    "roles of user 4: Staff → Admin": lambda s: execute(
        s, "UPDATE _user SET _roles = 'Admin' WHERE id = 4"
    ),
    "issue 32: not there → there": an_issue,
    "password of user 12: a password → a password": lambda s: execute(
        s, "UPDATE _user SET _password = 'plain' WHERE id = 12"
    ),
    "attachment 1: file, mode": lambda s: append(s, "db/files/file/0/file1", "!"),
    "text of comment 7: file, mode": lambda s: append(s, "db/files/msg/0/msg7", "!"),
    "file schema.py: file, mode": lambda s: append(s, "schema.py", "\n# more\n"),
    "file extensions/own.py: no such file": lambda s: (
        (tracker(s).home / "extensions").mkdir(),
        append(s, "extensions/own.py", "def init(tracker): pass\n"),
    ),
    "table issue__journal: ": lambda s: execute(s, "DELETE FROM issue__journal WHERE nodeid = 16"),
    "table spare: no such table → a table": lambda s: execute(s, "CREATE TABLE spare (x)"),
    "file left: no such file → there": lambda s: (tracker(s).folder / "left").mkdir(),
}


@pytest.mark.parametrize("what", DRIFTS)
def test_drift_is_named_in_words_and_a_reset_heals_it(sandbox, what):
    drifted: Callable[[EmbeddedSandbox], object] = DRIFTS[what]
    drifted(sandbox)
    found = drift_of(sandbox)
    assert any(line.startswith(what) for line in found), found
    assert not any("PBKDF2" in line for line in found)
    sandbox.reset()
    assert drift_of(sandbox) == []


def test_a_database_that_is_none_any_more_drifts_as_a_file(sandbox):
    (tracker(sandbox).home / "db" / "db").write_bytes(b"not a database")
    assert drift_of(sandbox)[0].startswith("file db/db: file, mode 0644")


def test_permissions_are_real(sandbox):
    with agent(sandbox) as client:
        assert change(client, "user/12", roles="Lead").status_code == 403
        assert change(client, "user/4", roles="Admin").status_code == 403
        assert change(client, "msg/26", type="text/html").status_code == 403
        assert change(client, "issue/16", status="closed").status_code == 200
    with tracker(sandbox).account.client() as evaluator:
        assert change(evaluator, "issue/16", status="open").status_code == 403
    account = tracker(sandbox).account
    with ApiAccount(account.base, AGENT, "guessed").client() as stranger:
        assert stranger.get("issue").status_code in (401, 403)


def test_an_agents_account_lives_for_one_trial(sandbox):
    with agent(sandbox) as client:
        assert client.get("issue/1").status_code == 200
        port = tracker(sandbox).process.port
        sandbox.reset()
        if tracker(sandbox).process.port == port:  # else a busy machine had the server replaced
            assert client.get("issue/1").status_code in (401, 403)
    with agent(sandbox) as client:
        assert client.get("issue/1").status_code == 200


def test_the_agent_is_not_told_the_evaluators_account(sandbox):
    urls = sandbox.access().urls
    assert list(urls) == ["tracker"]
    assert tracker(sandbox).account.password not in urls["tracker"]


def test_a_killed_or_hanging_server_is_drift_and_is_replaced(sandbox):
    for harm in (signal.SIGKILL, signal.SIGSTOP):
        os.kill(tracker(sandbox).process.pid, harm)
        assert "its server: an answer → none" in drift_of(sandbox)
        sandbox.reset()
        assert drift_of(sandbox) == []
        with agent(sandbox) as client:
            assert client.get("issue/1").status_code == 200


def test_the_server_ends_when_its_evaluator_is_killed(tmp_path):
    program = textwrap.dedent(
        """
        import sys, time
        from pathlib import Path
        from statediff.packs import sandbox_pack
        from statediff.systems.base.sandbox import EmbeddedSandbox
        sandbox = EmbeddedSandbox(sandbox_pack("helpdesk"), Path(sys.argv[1]))
        sandbox.start()
        print(sandbox.system("tracker").process.pid, flush=True)
        time.sleep(60)
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "work")], stdout=subprocess.PIPE
    ) as evaluator:
        assert evaluator.stdout is not None
        pid = int(evaluator.stdout.readline())
        evaluator.kill()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


def test_a_request_without_its_body_is_unsettled_and_does_not_survive_a_reset(sandbox):
    url = urlsplit(sandbox.access().urls["tracker"])
    with socket.create_connection((url.hostname, url.port)) as connection:
        head = "POST /helpdesk/rest/data/issue HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
        connection.sendall(head.encode())
        deadline = time.monotonic() + 5
        while tracker(sandbox).process.in_progress() == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        settled = sandbox.settle(clock, 0.1)
        assert settled.unsettled == (
            ("tracker", "1 requests are in progress"),
            ("tracker-api", "1 requests are in progress"),
        )
        sandbox.reset()
        connection.settimeout(2)
        assert connection.recv(10) == b""
    assert drift_of(sandbox) == []


def test_an_open_write_transaction_is_unsettled(sandbox):
    writer = sqlite3.connect(tracker(sandbox).home / "db" / "db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    assert sandbox.settle(clock, 0.05).unsettled[0] == (
        "tracker",
        "a write transaction is still open",
    )
    writer.close()
    assert sandbox.settle(clock, 0.05).unsettled == ()


@pytest.mark.parametrize("source", ["tracker", "tracker-api"])
def test_an_unplugged_source_cannot_be_read_until_the_reset(sandbox, source):
    sandbox.unplug(source)
    part = {p.reading.source: p for p in take(
        sandbox.sources(), MemoryChunks(), clock, None, "after"
    ).parts}[source]  # fmt: skip
    assert not part.reading.is_complete
    sandbox.reset()
    readings = take(sandbox.sources(), MemoryChunks(), clock, None, "after").readings
    assert all(r.is_complete for r in readings)


def test_nothing_runs_after_stop(tmp_path):
    sandbox = EmbeddedSandbox(sandbox_pack("helpdesk"), tmp_path / "work")
    sandbox.start()
    pid, sources = tracker(sandbox).process.pid, sandbox.sources()
    sandbox.stop()
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(SourceUnavailable, match="connection refused"):
        sources[1].read(MemoryChunks(), clock, None)


@pytest.mark.parametrize(
    ("seed", "why"),
    [
        ("users: [", "cannot be read as a seed"),
        ("users: []", "expected `users` and `issues`"),
        ("{users: [], issues: [], component: []}", "did not start: KeyError: 'priority'"),
    ],
)
def test_a_pack_without_a_usable_seed_is_refused_with_the_reason(tmp_path, seed, why):
    (tmp_path / "home" / "html").mkdir(parents=True)
    base = sandbox_pack("helpdesk").folder
    (tmp_path / "home" / "schema.py").write_bytes((base / "home" / "schema.py").read_bytes())
    (tmp_path / "seed.yaml").write_text(seed)
    (tmp_path / "pack.yaml").write_text(
        "sandbox: x\nversion: 1.0.0\nabout: x\nreal: []\nsimulated: []\n"
        "sources:\n  t: {kind: roundup, home: home, seed: seed.yaml}\n"
    )
    with pytest.raises(SandboxError, match=why):
        EmbeddedSandbox(read_pack(tmp_path), tmp_path / "work").start()
