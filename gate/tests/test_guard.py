"""A guard behind a real PostgreSQL: whose a transaction was, what it did, and nothing twice."""

import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from statediff_gate.participant import Outcome
from statediff_gate.production.alerts import Alerts
from statediff_gate.records import LINES, Records, read_decisions

from gate.tests.conftest import MADE, shell_blocks
from gate.tests.servers import agent_of, ask, programs, server
from statediff.cli.main import run
from statediff.errors import BundleError
from statediff.model.verdict import Decision
from statediff.scoring import contract_of

CONTRACT = """
contract: gate/notes
version: 1.0.0
owner: support
intent: Notes of orders may be written, two at most in a run, and nothing else.
noop: true
forbid: [{id: kept, delete: [orders, customer]}]
allow: [{id: note, update: orders, fields: [note], count: {min: 0, max: 2}}]
"""
needs_server = pytest.mark.skipif(programs() is None, reason="no PostgreSQL with test_decoding")
Sql = Callable[..., object]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture
def by(url: str) -> tuple[Sql, Sql]:
    """Functions that run statements as the owner, and as the agent, in a shop made anew."""
    ask(url, "DROP TABLE IF EXISTS customer, orders, log, made", *MADE,
        "INSERT INTO orders SELECT n, 'paid', n FROM generate_series(100, 400) n")  # fmt: skip
    return partial(ask, url), partial(ask, agent_of(url))


@pytest.fixture
def call(url: str, keys: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    monkeypatch.chdir(keys)
    (keys / "notes.yaml").write_text(CONTRACT)
    given = ("notes.yaml", "--state", f"db={url}", "--agent", "agent", "--key", "gate.pem")

    def guard(*words: str) -> int:
        return run(["guard", *given, *words])

    yield guard
    guard("--end")


def decided(keys: Path) -> list[tuple[str, str]]:
    found = read_decisions(keys / ".statediff" / "gate")
    return [(each["decision"], each["why"]) for each in found]


@needs_server
def test_what_the_agent_did_is_judged_and_what_others_did_is_not(
    url: str, by, call, keys: Path
) -> None:
    owner, agent = by
    assert call("--once") == 2  # nothing was begun
    assert call("--begin") == 0
    owner("DELETE FROM customer WHERE id = 17", "UPDATE orders SET cents = 1 WHERE id = 8")
    agent("UPDATE orders SET note = 'x' WHERE id = 8")
    agent("BEGIN", "SAVEPOINT a", "DELETE FROM customer", "ROLLBACK TO a", "COMMIT")
    assert call("--once", "--alert", f"{sys.executable} -c 'import sys; sys.exit(1)'") == 0
    owner("UPDATE orders SET note = 'theirs', cents = 2 WHERE id = 8")
    agent("DELETE FROM customer WHERE id = 1", "INSERT INTO log VALUES ('a')")
    agent("BEGIN", "UPDATE orders SET note = 'y' WHERE id = 8", "PREPARE TRANSACTION 'x'")
    agent("COMMIT PREPARED 'x'")
    told = keys / "told"
    program = f'open("{told}", "a").write(input())'
    assert call("--once", "--alert", f"{sys.executable} -c '{program}'") == 1
    assert call("--once") == 0
    there = f"db={re.sub('/[a-z]+$', '/postgres', url)}"
    assert call("--end", "--state", there) == 2  # which has no mark that could be removed
    assert call("--once") == 0
    assert [each for each, _ in decided(keys)] == ["allow", "deny", "deny", "allow"]
    assert decided(keys)[1][1].startswith("kept: customer 1 deleted")
    [first, second] = map(json.loads, told.read_text().replace("}{", "}\n{").split("\n"))
    assert (first["changes"][0]["op"], second["changes"][0]["op"]) == ("delete", "create")


@needs_server
def test_transactions_of_some_minutes_count_together(by, call, keys: Path) -> None:
    owner, agent = by
    call("--begin")
    agent(*[f"UPDATE orders SET note = 'x' WHERE id = {n}" for n in (100, 101, 102, 103)])
    owner("UPDATE orders SET note = 'theirs' WHERE id = 103")
    agent("UPDATE orders SET note = 'x' WHERE id = 104")
    assert call("--once", "--minutes", "60") == 1
    assert [each for each, _ in decided(keys)] == ["allow", "allow", "deny", "allow", "hold"]
    assert "in turns" in decided(keys)[-1][1]


@needs_server
def test_a_run_ends_when_its_minutes_are_over_and_the_slot_goes_on(
    by, call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    owner, agent = by
    monkeypatch.setattr(
        "statediff_gate.production.commands.timedelta", lambda minutes: timedelta(seconds=minutes)
    )
    monkeypatch.setattr("statediff_gate.production.guard._SETTLED", timedelta(0))

    def position(seconds: int) -> str:
        assert call("--once", "--minutes", str(seconds), "--json") == 0
        return str(json.loads(capsys.readouterr().out)["position"])

    call("--begin")
    for goes_on in (lambda: None, lambda: owner("UPDATE customer SET name = 'x'")):
        capsys.readouterr()
        before = position(1)
        agent("UPDATE orders SET note = concat(note, 'x') WHERE id = 100")
        assert position(3600) == before
        time.sleep(1)
        goes_on()
        assert position(1) > before


@needs_server
def test_neither_a_call_nor_a_large_value_keeps_rows_out_of_a_record(by, call, keys: Path) -> None:
    _, agent = by
    call("--begin")
    junk = "SELECT pg_logical_emit_message(true, 'statediff_guard', {})"
    for each in ("'junk'", "repeat('9', 5000)", "'\u0663'"):
        agent("BEGIN", "DELETE FROM customer WHERE id = 17", junk.format(each), "COMMIT")
        agent("INSERT INTO customer VALUES (17, 'again')")
    assert call("--once") == 1
    assert [each for each, _ in decided(keys)] == ["deny"] * 6
    agent("UPDATE orders SET note = repeat('x', 300000) WHERE id = 101")
    agent("DELETE FROM orders WHERE id IN (301, 302)")
    assert call("--once") == 3
    hold = [*read_decisions(keys / ".statediff" / "gate")][-1]
    assert hold["changes"] == [
        {"op": "delete", "table": "public.orders", "key": {"id": n}} for n in ("301", "302")
    ]


@needs_server
def test_what_nobody_knows_is_a_hold_and_never_allowed(by, call, keys: Path) -> None:
    owner, agent = by
    owner("ALTER TABLE log SET UNLOGGED")
    call("--begin")
    agent("INSERT INTO log VALUES ('a')")
    assert call("--once") == 3
    assert decided(keys) == [("hold", "public.log: the server does not log it")]
    owner("CREATE TABLE made (id int PRIMARY KEY)", "GRANT INSERT ON made TO agent")
    agent("INSERT INTO made VALUES (1)")
    owner("ALTER TABLE orders ADD COLUMN more text")
    agent("UPDATE orders SET more = 'x' WHERE id = 8")
    assert call("--once") == 3
    assert [each for each, _ in decided(keys)[1:]] == ["hold", "hold"]
    agent("UPDATE orders SET more = 'y' WHERE id = 8", "INSERT INTO made VALUES (2)")
    owner("ALTER TABLE customer DISABLE TRIGGER ALL")
    agent("DELETE FROM customer WHERE id = 2")
    assert call("--once") == 3
    assert {each for each, _ in decided(keys)[3:]} == {"hold"}
    assert any("the mark of public.customer was away" in why for _, why in decided(keys))


@needs_server
def test_accounts_that_could_pass_for_others_and_contracts_that_do_not_fit_begin_nothing(
    url: str, by, call, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owner, _ = by
    owner("CREATE ROLE dev", "GRANT dev TO agent", "ALTER ROLE agent NOINHERIT")
    schema, trigger = "CREATE ON SCHEMA public", "TRIGGER ON orders"
    given = [(schema, "agent"), (trigger, "PUBLIC")]
    given += [(each, "dev") for each in (schema, "CREATE ON DATABASE shop", trigger)]
    for wrong, back in (
        ("ALTER TABLE orders OWNER TO agent", "ALTER TABLE orders OWNER TO owner"),
        *((f"GRANT {what} TO {who}", f"REVOKE {what} FROM {who}") for what, who in given),
    ):
        owner(wrong)
        assert call("--begin") == 2
        said = capsys.readouterr().err
        assert "could pass for others' work" in said
        assert ("REVOKE TRIGGER ON public.orders FROM" in said) == ("TRIGGER" in wrong)
        owner(back)
    (keys / "notes.yaml").write_text(CONTRACT.replace("orders, customer", "no_such"))
    assert call("--begin") == 2
    more = ("--agent", "agent", "--key", "gate.pem", "--begin")
    there = ("guard", "notes.yaml", "--state", f"db={url.replace('owner@', 'agent@')}")
    (keys / "notes.yaml").write_text(CONTRACT)
    assert run([*there, *more]) == 2
    for wrong in ("shop.sqlite", "mysql://h/x"):
        assert run([*there[:3], f"db={wrong}", *more]) == 2
    assert call("--once", "--alert", 'a "b') == 2
    owner("DO $$ BEGIN ASSERT (SELECT count(*) = 0 FROM pg_replication_slots); END $$")


@needs_server
def test_a_guard_that_is_killed_loses_and_doubles_nothing(url: str, by, call, keys: Path) -> None:
    _, agent = by
    call("--begin")
    words = [sys.executable, "-m", "statediff", "guard", "notes.yaml", "--state", f"db={url}",
             "--agent", "agent", "--key", "gate.pem"]  # fmt: skip
    number, lines = 0, keys / ".statediff" / "gate" / LINES
    for end in (signal.SIGKILL, signal.SIGKILL, signal.SIGINT):
        at_work, before = subprocess.Popen(words, cwd=keys), number
        while len(lines.read_bytes().splitlines()) < before + 8:
            agent(f"UPDATE orders SET note = 'n{number}' WHERE id = {100 + number % 300}")
            number += 1
            time.sleep(0.2)
        at_work.send_signal(end)
        assert at_work.wait(60) == (0 if end == signal.SIGINT else -end)
    assert call("--once") == 0
    found = [each["guarded"]["transaction"] for each in read_decisions(lines.parent)]
    assert len(found) == len(set(found)) == number


# ---------------------------------------------------------------- records and alerts


def test_old_records_are_erased_and_the_log_is_verified_still(keys: Path) -> None:
    folder = keys / "records"
    records = Records(folder, keys / "gate.pem", contract_of(CONTRACT))
    place = {"slot": "s"}
    names = [records.write(Outcome(decision=Decision.ALLOW), (), guarded=place) for _ in range(5)]
    soon = datetime.now(UTC) + timedelta(seconds=5)
    assert records.erase(datetime.now(UTC) - timedelta(days=1)) == 0
    assert records.erase(soon) == 4
    again = Records(folder, keys / "gate.pem", contract_of(CONTRACT))
    names += [each.write(Outcome(decision=Decision.ALLOW), ()) for each in (records, again)]
    assert [each["name"] for each in read_decisions(folder)] == names[4:]
    assert records.erase(soon) == 2
    assert [each["name"] for each in read_decisions(folder)] == names[6:]
    lines = (folder / LINES).read_bytes().splitlines(keepends=True)
    (folder / LINES).write_bytes(b"".join(lines[1:]))
    with pytest.raises(BundleError, match="does not follow"):
        list(read_decisions(folder))


class Heard(http.server.BaseHTTPRequestHandler):
    """Takes what is posted, and refuses the first."""

    said: list[tuple[str, Any]] = []  # noqa: RUF012 - one for all

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"]))
        Heard.said.append((self.path, json.loads(text)))
        if len(Heard.said) == 1:
            self.wfile.write(b"220 no HTTP\r\n")
            return
        self.send_response(503 if len(Heard.said) == 2 else 200)
        self.end_headers()


def test_an_alert_that_is_not_delivered_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("statediff_gate.production.alerts._AGAIN_SECONDS", 0.05)
    at = "2026-11-30T08:00:00+00:00"
    record = {"name": "r1", "at": at, "decision": "deny", "why": "kept: x", "guarded": {}}
    with http.server.HTTPServer(("127.0.0.1", 0), Heard) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{listening.server_port}"
        alerts = Alerts(tmp_path, (), f"{place}/hook", place)
        alerts.put(record)
        while alerts.last != "r1":
            time.sleep(0.01)
        alerts.close()
        listening.shutdown()
    assert [path for path, _ in Heard.said] == ["/hook", "/hook", "/hook", "/v1/logs"]
    [log] = Heard.said[3][1]["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert (log["severityText"], log["body"]["stringValue"]) == ("ERROR", "kept: x")


@needs_server
def test_every_command_of_the_page_runs_on_a_real_server(url: str, by, keys: Path) -> None:
    _, agent = by
    begin, judge, end = shell_blocks("gate.md")
    (keys / "notes.yaml").write_text(CONTRACT)
    env = {**os.environ, "URL": url, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def shell(text: str) -> str:
        return subprocess.run(
            ["bash", "-c", text], cwd=keys, env=env, capture_output=True, text=True, check=False
        ).stdout

    assert "watched from" in shell(begin)
    agent("DELETE FROM customer WHERE id = 2")
    assert "deny " in shell(judge)
    assert "dropped" in shell(end)
