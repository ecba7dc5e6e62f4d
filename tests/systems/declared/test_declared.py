"""Tools that a sandbox file declares: what they do, through every door, and what is refused."""

import json
import sqlite3
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from statediff_hosts.protocols.chat import Endpoint
from statediff_hosts.protocols.loop import LoopAgent
from statediff_hosts.protocols.mcp_agent import McpAgent

from statediff.agents.command import CommandAgent
from statediff.agents.recorder import recording
from statediff.agents.tools import tool_table
from statediff.agents.trial import Budget, Prices
from statediff.capture.source import clock
from statediff.contract.file import parse_contract
from statediff.errors import ContractError, UsageError
from statediff.harness import TrialPlan, run_trial
from statediff.model.state import MemoryChunks
from statediff.model.trace import ActionClass
from statediff.model.verdict import Verdict
from statediff.packs import read_pack
from statediff.systems.base.protocol import Offered
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.workspace.trials import HeldTrial, lend
from tests.agents.chat_server import Step, speaking

SANDBOX = """\
sandbox: desk
sources:
  desk: {kind: sqlite, file: desk.sqlite, tools: [query]}
tools:
  - name: find_tickets
    description: Finds tickets by their status.
    arguments: {status: {type: text, one_of: [open, closed]}}
    class: read
    on: desk
    sql: SELECT id, ':status' AS said FROM ticket WHERE status = :status ORDER BY id
  - name: close_ticket
    description: Closes a ticket, with a reason.
    arguments: {ticket: int, reason: {type: text, optional: true}}
    class: conditional-update
    on: desk
    sql:
      - UPDATE ticket SET status = 'closed' WHERE id = :ticket
      - INSERT INTO reason (ticket, text) VALUES (:ticket, :reason)
  - name: delete_ticket
    description: Deletes a ticket.
    arguments: {ticket: int}
    class: irreversible-deletion
    permission: denied
    on: desk
    sql: DELETE FROM ticket WHERE id = :ticket
  - name: count_words
    description: Counts the words of a text.
    arguments: {text: text, model_dump: {type: number, optional: true}}
    class: read
    command: PYTHON count.py
"""
COUNT = """\
import json, os, sys
given = json.load(sys.stdin)
if given["text"] == "fail":
    sys.exit("no such text")
print(json.dumps({"words": len(given["text"].split()), "secrets": sorted(
    name for name in os.environ if "KEY" in name), "desk": "STATEDIFF_DESK_URL" in os.environ}))
"""
CONTRACT = b"""\
contract: desk/close
version: 1.0.0
owner: support
intent: Close ticket 7.
require:
  - {id: closed, update: ticket, where: it.id == 7, set: {status: closed}}
  - {id: said, create: reason, where: it.ticket == 7}
actions:
  allow: {tool: [close_ticket]}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "sandbox.yaml").write_text(SANDBOX.replace("PYTHON", sys.executable))
    (tmp_path / "count.py").write_text(COUNT)
    with sqlite3.connect(tmp_path / "desk.sqlite") as connection:
        connection.executescript(
            "CREATE TABLE ticket (id INTEGER PRIMARY KEY, status TEXT);"
            "CREATE TABLE reason (ticket INTEGER PRIMARY KEY, text TEXT);"
            "INSERT INTO ticket VALUES (7, 'open'), (8, 'open');"
        )
    return tmp_path


@pytest.fixture
def desk(project: Path) -> Iterator[EmbeddedSandbox]:
    with EmbeddedSandbox(read_pack(project), project / "work") as sandbox:
        sandbox.reset()
        yield sandbox


def test_each_kind_does_what_its_author_wrote_with_the_arguments_as_values(
    desk: EmbeddedSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_KEY", "secret")
    access = desk.access()
    with recording(clock) as recorder:
        table = tool_table(access.urls, recorder, offered=access.tools)
        assert sorted(table.tools) == [
            "close_ticket", "count_words", "delete_ticket", "desk_query", "find_tickets",
        ]  # fmt: skip
        rows = json.loads(table.call("find_tickets", {"status": "open"}).text)["rows"]
        assert rows == [{"id": 7, "said": ":status"}, {"id": 8, "said": ":status"}]
        hostile = "x'); DELETE FROM ticket; --"
        assert not table.call("close_ticket", {"ticket": 7, "reason": hostile}).is_error
        assert not table.call("close_ticket", {"ticket": 8}).is_error
        assert "may not" in table.call("delete_ticket", {"ticket": 7}).text
        assert (
            "Input should be 'open' or 'closed'" in table.call("find_tickets", {"status": 1}).text
        )
        assert "ticket" in table.call("close_ticket", {"ticket": "7"}).text
        counted = table.call("count_words", {"text": "$(date) `id` two"})
        assert json.loads(counted.text) == {"words": 3, "secrets": [], "desk": True}
        assert table.call("count_words", {"text": "fail"}).text == "no such text"
        recorder.close()
        calls = recorder.trace().actions
    with sqlite3.connect(access.urls["desk"].removeprefix("sqlite:///")) as connection:
        assert connection.execute("SELECT * FROM reason").fetchall() == [(7, hostile), (8, None)]
    closed = calls[1]
    assert closed.action_class is ActionClass.CONDITIONAL_UPDATE
    assert closed.transactions
    assert calls[0].action_class is ActionClass.READ
    assert calls[3].action_class is ActionClass.IRREVERSIBLE_DELETION
    assert calls[3].error == "you may not call delete_ticket"


MCP = """\
import asyncio, os
from mcp import Client

async def main():
    async with Client(os.environ["STATEDIFF_MCP_URL"]) as client:
        await client.call_tool("close_ticket", {"ticket": 7, "reason": "done"})

asyncio.run(main())
"""


def judged(desk: EmbeddedSandbox, folder: Path, agent: Any) -> Any:
    done = run_trial(
        desk,
        parse_contract(CONTRACT, "contract.yaml"),
        agent,
        TrialPlan("t", folder),
        clock=clock,
        store=MemoryChunks(),
    )
    return done.evaluated.judgement


def test_a_declared_tool_works_by_mcp_in_the_loop_and_in_a_trial_held_open(
    desk: EmbeddedSandbox, tmp_path: Path
) -> None:
    program = McpAgent(CommandAgent((sys.executable, "-c", MCP), 60.0))
    by_mcp = judged(desk, tmp_path / "one", program)
    assert by_mcp.verdict is Verdict.MATCH, by_mcp.findings
    call = ("close_ticket", json.dumps({"ticket": 7}))
    with speaking(Step("", [call]), Step("Done.")) as server:
        model = LoopAgent(Endpoint(server.url, "m", "none"), Budget(Prices()))
        assert judged(desk, tmp_path / "two", model).verdict is Verdict.MATCH
        told = {each["function"]["name"]: each["function"] for each in server.requests[0]["tools"]}
    assert told["close_ticket"]["parameters"]["required"] == ["ticket"]
    assert told["find_tickets"]["description"] == "Finds tickets by their status."
    contract = parse_contract(CONTRACT, "contract.yaml")
    with HeldTrial(contract, tmp_path / "three", agent="test", lease=lend(desk)) as held:
        held.tools.call("delete_ticket", {"ticket": 8})
        held.tools.call("close_ticket", {"ticket": 7})
        bundle = held.finish()
    assert bundle.manifest["verdict"] == "DIVERGE"  # what it may not do, it tried


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{class: read, on: desk, sql: SELECT :b}", "there is no argument `b`"),
        ("{class: read, on: desk, sql: 'SELECT ?'}", "an argument is `:name`, not `?`"),
        ("{class: read, on: desk, sql: [SELECT 1, SELECT 2]}", "one statement"),
        ("{class: read, on: nobody, sql: SELECT 1}", "names no source"),
        ("{class: read, sql: SELECT 1}", "`on` names the source"),
        ("{class: read, on: desk, sql: SELECT 1, command: 'true'}", "one of sql, http"),
        ("{class: harmless, on: desk, sql: SELECT 1}", "class"),
        ("{class: read, command: 'say \"'}", "cannot be split"),
        ("{class: read, on: desk, http: {path: '/{c}'}}", "there is no argument `c`"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_its_place(project: Path, wrong: str, said: str) -> None:
    file = project / "sandbox.yaml"
    entry = wrong.replace("{class", "{name: t, description: T, class", 1)
    file.write_text(SANDBOX.split("tools:\n", maxsplit=1)[0] + f"tools:\n  - {entry}\n")
    with pytest.raises(ContractError, match=r"sandbox\.yaml:5") as error:
        read_pack(project)
    assert said in str(error.value)


def test_a_name_that_is_there_already_is_refused(desk: EmbeddedSandbox) -> None:
    access, [first, *_] = desk.access(), desk.access().tools.declared
    twice = Offered(declared=(first, first))
    with recording(clock) as recorder, pytest.raises(UsageError, match="two tools are called"):
        tool_table(access.urls, recorder, offered=twice)
    with recording(clock) as recorder, pytest.raises(UsageError, match="do not reach desk"):
        tool_table({}, recorder, offered=Offered(declared=(first,)))


def test_a_request_has_its_arguments_in_their_places(tmp_path: Path) -> None:
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, body))
            self.send_response(200 if body["n"] == 1 else 409)
            self.end_headers()
            self.wfile.write(b'{"is": "saved"}')

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    (tmp_path / "sandbox.yaml").write_text(
        "sandbox: notes\nsources:\n  notes: {kind: files, tree: tree}\ntools:\n"
        "  - name: put_note\n    description: Puts a note.\n    class: conditional-update\n"
        "    on: notes\n    arguments: {id: text, n: int}\n"
        "    http: {method: PUT, path: '/notes/{id}', query: {q: 'a {n}'},"
        " body: {n: '{n}', said: ['id {id}']}}\n"
    )
    (tmp_path / "tree").mkdir()
    offered = Offered(declared=read_pack(tmp_path).tools)
    urls = {"notes": f"http://127.0.0.1:{server.server_port}/api/"}
    try:
        with recording(clock) as recorder:
            table = tool_table(urls, recorder, offered=offered)
            put = table.call("put_note", {"id": "../a b?x=1", "n": 1})
            assert json.loads(put.text) == {"is": "saved"}
            assert table.call("put_note", {"id": "c", "n": 2}).text.startswith("the system refuses")
            assert "no piece of a path" in table.call("put_note", {"id": "..", "n": 1}).text
    finally:
        server.shutdown()
        server.server_close()
    assert asked == [
        ("/api/notes/..%2Fa%20b%3Fx%3D1?q=a+1", {"n": 1, "said": ["id ../a b?x=1"]}),
        ("/api/notes/c?q=a+2", {"n": 2, "said": ["id c"]}),
    ]
