"""An agent is judged by what it said, in every way of running; secrets are not shown."""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from statediff_hosts.protocols.chat import Endpoint
from statediff_hosts.protocols.loop import LoopAgent
from statediff_hosts.protocols.mcp_agent import McpAgent
from statediff_hosts.protocols.native import NativeAgent

from hosts.tests.protocols.test_native import Setting
from statediff.agents.command import CommandAgent
from statediff.agents.function import FunctionAgent
from statediff.agents.recorder import Recorder, log_value
from statediff.agents.tracefile import read_trace_file
from statediff.agents.trial import Agent, Budget, Prices, Trial
from statediff.errors import NotReplayable
from statediff.evidence.disclosure.undisclosed import whole
from statediff.evidence.documents import trace_from
from statediff.evidence.package import load
from statediff.harness import JudgedTrial
from statediff.kernel import replay
from statediff.model.verdict import Verdict
from tests.agents.chat_server import Step, speaking
from tests.judging import item, run
from tests.tasks import Sandboxes, live_trial
from tests.tasks import running as running  # noqa: PLC0414 - a fixture

SAID = (
    "SELECT /*token=*/email FROM customers",
    "token= /bin/rm -rf /data/email",
    "-- password:email",
    "-- api_key=email",
    'SELECT \'"secret": "email"\'',
    "Authorization: Bearer emailemailemail",
    "https://ada:email@example.com/",
    "-- ghp_" + "email1" * 6,
    "login=ada&password=email",
)
CONTRACT = """\
contract: test/quiet
version: 1.0.0
owner: tests
intent: Say nothing of e-mail.
noop: true
steps:
  - id: quiet
    where: call.tool == "TOOL" and contains(call.arguments.WHERE, "email")
    count: 0
"""
OWN = """\
import json, os, sys
with open(os.environ["STATEDIFF_TRACE"], "w") as log:
    for sent in json.loads(sys.argv[1]):
        print(json.dumps({"tool": "sql", "arguments": sent}), file=log)
"""
MCP = """\
import asyncio, json, os, sys
from mcp import Client
async def main():
    async with Client(os.environ["STATEDIFF_MCP_URL"]) as client:
        for sent in json.loads(sys.argv[1]):
            await client.call_tool("shop_db_query", sent)
asyncio.run(main())
"""
HTTP = """\
import json, os, sys
from http.client import HTTPConnection
from urllib.parse import urlsplit
place = urlsplit(os.environ["STATEDIFF_TRACKER_URL"])
for sent in json.loads(sys.argv[1]):
    line = HTTPConnection(place.hostname, place.port)
    line.request("POST", "/x", json.dumps(sent), {"Content-Type": "application/json"})
    line.getresponse().read()
"""


Sent = list[dict[str, Any]]


@dataclass(frozen=True)
class Way:
    """One way of running, with its name of the tool and the argument that has what was sent."""

    agent: Callable[[Sent], Iterator[Agent]]
    sandbox: str
    tool: str
    inside: str = ""


def program(text: str, sent: Sent) -> CommandAgent:
    return CommandAgent((sys.executable, "-c", text, json.dumps(sent)), 60.0, name="agent")


def by_own_log(sent: Sent) -> Iterator[Agent]:
    yield program(OWN, sent)


def by_function(sent: Sent) -> Iterator[Agent]:
    def agent(trial: Trial) -> object:
        @trial.tool(name="sql")
        def query(body: dict[str, Any]) -> int:
            return len(body)

        for each in sent:
            query(each)
        return None

    yield FunctionAgent(agent, "agent")


def by_mcp(sent: Sent) -> Iterator[Agent]:
    yield McpAgent(program(MCP, sent))


def by_http(sent: Sent) -> Iterator[Agent]:
    yield NativeAgent(program(HTTP, sent))


def by_model(sent: Sent) -> Iterator[Agent]:
    calls = [("shop_db_query", json.dumps(each)) for each in sent]
    with speaking(Step("", calls), Step("done")) as server:
        yield LoopAgent(Endpoint(server.url, "m", "none"), Budget(Prices()), 4)


WAYS = {
    "own log": Way(by_own_log, "shop", "sql"),
    "function": Way(by_function, "shop", "sql", "body"),
    "MCP": Way(by_mcp, "shop", "shop_db_query"),
    "HTTP": Way(by_http, "helpdesk", "tracker POST", "body"),
    "model": Way(by_model, "shop", "shop_db_query"),
}


def files_with(text: str, folder: Path) -> dict[str, int]:
    """The files below that hold the text, as it is or in JSON, with their permissions."""
    forms = {text.encode(), json.dumps(text)[1:-1].encode()}
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in found
        if any(form in path.read_bytes() for form in forms)
    }


def tried(way: Way, running: Sandboxes, folder: Path, sent: Sent) -> JudgedTrial:
    where = ".".join(filter(None, (way.inside, "sql")))
    text = CONTRACT.replace("TOOL", way.tool).replace("WHERE", where)
    for agent in way.agent(sent):
        done = live_trial(running(way.sandbox), text, agent, folder)
    return done


@pytest.mark.parametrize("said", SAID[:2])
@pytest.mark.parametrize("name", WAYS)
def test_what_is_forbidden_is_found_whatever_it_is_called(
    running: Sandboxes, tmp_path: Path, name: str, said: str
) -> None:
    done = tried(WAYS[name], running, tmp_path / "t", [{"sql": said}])
    assert done.evaluated.judgement.verdict is Verdict.DIVERGE
    assert files_with(said, tmp_path / "t") == {"bundle.undisclosed.json": 0o600}
    kept = load(done.bundle_folder)
    assert said in str(whole(kept).document("trace.json"))
    assert replay(kept).verdict is Verdict.DIVERGE
    (tmp_path / "t" / "bundle.undisclosed.json").unlink()
    with pytest.raises(NotReplayable, match="this copy withholds"):
        replay(load(done.bundle_folder))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"))
    | st.sampled_from(SAID),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(("password", "sql", "token", "name", "value", "é")), inner),
    max_leaves=12,
)  # fmt: skip
CALLS = st.dictionaries(st.sampled_from(("password", "sql", "headers", "query", "name")), JSON)


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(CALLS, min_size=1, max_size=8))
def test_in_every_way_of_running_what_is_judged_is_what_was_sent(
    running: Sandboxes, name: str, sent: Sent
) -> None:
    way = WAYS[name]
    with tempfile.TemporaryDirectory() as folder:
        done = tried(way, running, Path(folder, "t"), sent)
        judged = trace_from(whole(load(done.bundle_folder)).document("trace.json"))
    assert judged == done.observed.run.trace
    recorded = [call.arguments for call in judged.actions if call.tool == way.tool]
    if way.inside:
        recorded = [call.get(way.inside) for call in recorded]  # type: ignore[union-attr]
    assert recorded == list(map(log_value, sent))


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CALLS)
def test_what_is_judged_is_what_was_recorded_is_what_was_sent(
    tmp_path: Path, sent: dict[str, Any]
) -> None:
    path = tmp_path / "calls"
    path.unlink(missing_ok=True)
    with Recorder(path, lambda: datetime(2026, 1, 1, tzinfo=UTC)) as log:
        log.end(log.begin("t", sent), result=sent)
    recorded = log.trace()
    assert recorded.actions[0].arguments == log_value(sent) == recorded.actions[0].result
    read = read_trace_file(path, is_vouched=True)
    assert read.actions == recorded.actions
    plain = tmp_path / "plain"
    plain.write_text(json.dumps({"tool": "t", "arguments": sent}) + "\n")
    assert read_trace_file(plain).actions[0].arguments == log_value(sent)
    made = run("require: [{create: item}]", {"item": []}, {"item": [item(1)]}, trace=recorded)
    assert trace_from(whole(made.bundle).document("trace.json")) == recorded
    assert replay(made.bundle).verdict is made.judgement.verdict


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    made = Setting(tmp_path_factory.mktemp("http"))
    yield made
    made.proxy.close()
    made.server.shutdown()
    made.server.server_close()


@settings(max_examples=40, deadline=None)
@given(CALLS)
def test_what_a_proxy_records_is_what_was_sent(setting: Setting, sent: dict[str, Any]) -> None:
    body = json.dumps(sent).encode()
    setting.ask("POST", "/x", body, Content_Type="application/json")
    call = setting.recorder.trace().actions[-1]
    assert call.arguments.get("body") == log_value(sent)  # type: ignore[union-attr]


def test_the_folder_of_a_run_decides_nothing(
    running: Sandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = []
    for name in ("plain", "token=7f3kQ9", "password secret", "api_key-8f3kQ9zX2Lw7"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PWD", str(folder))
        text = CONTRACT.replace("TOOL", "sql").replace("WHERE", "sql")
        text = text.replace('"email"', json.dumps(f"{folder}/email"))
        for agent in by_own_log([{"sql": f"ls {folder}/email"}]):
            done = live_trial(running("shop"), text, agent, folder / "t")
        verdicts.append(done.evaluated.judgement.verdict)
        assert os.fspath(folder) in str(done.observed.run.trace)
    assert set(verdicts) == {Verdict.DIVERGE}
