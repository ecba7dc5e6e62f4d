"""The recording proxy, spoken to by the official client, in front of real servers."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from statediff_hosts.protocols.mcp_proxy import Proxy, read_mcp_config
from statediff_hosts.protocols.mcp_server import serving_http

from hosts.tests.protocols import upstream_server
from statediff.agents.recorder import Recorder
from statediff.capture.source import clock
from statediff.errors import InputError
from statediff.model.trace import ActionClass, Trace
from statediff.model.values import Map

TINY = str(Path(upstream_server.__file__).with_name("tiny_server.py"))


def config(folder: Path, **servers: Any) -> Path:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


@pytest.fixture
def remote() -> Iterator[str]:
    with serving_http(upstream_server.server) as url:
        yield url


def proxied(entries: Any, folder: Path, act: Any) -> tuple[Any, Trace]:
    recorder = Recorder(folder / "calls.jsonl", clock)
    proxy = Proxy(entries, recorder)

    async def run(url: str) -> Any:
        async with Client(url, cache=None) as client:
            return await act(client)

    with recorder, serving_http(proxy.server(), around=proxy.open) as url:
        found = anyio.run(run, url)
    return found, recorder.trace()


def test_calls_resources_and_prompts_pass_through_and_all_are_recorded(remote, tmp_path):
    path = config(tmp_path, only={"url": remote, "classes": {"add": "read"}})

    async def act(client: Client) -> Any:
        names = [tool.name for tool in (await client.list_tools()).tools]
        added = await client.call_tool("add", {"a": 1, "b": 2})
        failed = await client.call_tool("fail", {})
        flood = await client.call_tool("flood", {})
        unknown = await client.call_tool("nosuch", {"x": 1})
        memo = await client.read_resource("memo://one")
        greeting = await client.get_prompt("greet")
        with pytest.raises(MCPError):
            await client.read_resource("memo://two")
        return names, added, failed, flood, unknown, memo, greeting

    found, trace = proxied(read_mcp_config(path, {}), tmp_path, act)
    names, added, failed, flood, unknown, memo, greeting = found
    assert names == ["add", "fail", "flood"]
    assert added.content[0].text == "3"
    assert failed.is_error
    assert flood.is_error
    assert "are passed on" in flood.content[0].text
    assert unknown.is_error
    assert memo.contents[0].text == "remember the milk"
    assert greeting.messages[0].content.text == "hello"
    assert trace.gap is None
    told = [(a.tool, a.action_class, a.error is None) for a in trace.actions]
    unclassed = ActionClass.UNKNOWN
    assert told == [
        ("add", ActionClass.READ, True),
        ("fail", unclassed, False),
        ("flood", unclassed, False),
        ("nosuch", unclassed, False),
        ("resources/read", ActionClass.READ, True),
        ("prompts/get", ActionClass.READ, True),
        ("resources/read", ActionClass.READ, False),
    ]
    assert trace.actions[0].arguments == Map.of({"a": 1, "b": 2})
    assert trace.actions[0].result == 3


def test_a_server_that_crashes_fails_its_call_and_is_started_again(remote, tmp_path):
    path = config(
        tmp_path,
        near={
            "command": sys.executable,
            "args": ["-S", TINY],
            "env": {"UPSTREAM_SECRET": "${TOKEN}"},
        },
        far={"url": remote},
        gone={"command": str(tmp_path / "nothing-here")},
    )
    environment = {**os.environ, "TOKEN": "from the environment"}

    async def act(client: Client) -> Any:
        names = {tool.name for tool in (await client.list_tools()).tools}
        crashed = await client.call_tool("near_crash", {})
        again = await client.call_tool("near_environment", {})
        other = await client.call_tool("far_add", {"a": 2, "b": 2})
        return names, crashed, again, other

    found, trace = proxied(read_mcp_config(path, environment), tmp_path, act)
    names, crashed, again, other = found
    assert {"near_add", "far_add"} <= names
    assert not any(name.startswith("gone") for name in names)
    assert crashed.is_error
    assert again.content[0].text == "from the environment"
    assert other.content[0].text == "4"
    assert [a.error is None for a in trace.actions] == [False, True, True]
    assert trace.gap is None


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ("[]", 'expected servers by name under "mcpServers"'),
        ('{"mcpServers": {}}', 'expected servers by name under "mcpServers"'),
        ('{"mcpServers": {"a": {}}}', "either a `command` to start or an `url`"),
        ('{"mcpServers": {"a": {"command": "x", "url": "y"}}}', "either a `command`"),
        ('{"mcpServers": {"a b": {"command": "x"}}}', "a name has letters"),
        ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', "args: Input should be a valid"),
        ('{"mcpServers": {"a": {"command": "${NOPE}"}}}', "${NOPE} is not set"),
        ('{"mcpServers": {"a": {"url": "u", "classes": {"t": "harmless"}}}}', "class 'harmless'"),
        ('{"mcpServers": {"a": {"command": "x"}, "a": {}}}', "stands twice"),
        ("{", "not JSON"),
    ],
)
def test_what_is_wrong_with_a_configuration_is_said(document, complaint, tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text(document)
    with pytest.raises(InputError, match=None) as refused:
        read_mcp_config(path, {})
    assert complaint in str(refused.value)
