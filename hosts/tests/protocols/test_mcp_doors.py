"""`statediff mcp` and `statediff mcp-proxy` as programs, spoken to by the official client."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from statediff.agents.recorder import read_calls
from statediff.cli.main import run as main
from statediff.model.trace import ActionClass
from tests.own_sandboxes import KINDS, make_project

CHECKOUT = Path(__file__).parents[2]
TINY = str(Path(__file__).with_name("tiny_server.py"))
PROGRAM = ("-c", "from statediff.cli.main import main; main()")


def by_stdio(folder: Path, act: Any, *arguments: str) -> Any:
    server = StdioServerParameters(
        command=sys.executable,
        args=[*PROGRAM, *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(CHECKOUT), "PATH": os.environ["PATH"]},
    )

    async def run() -> Any:
        with (folder / "stderr").open("w") as errors:
            async with Client(stdio_client(server, errlog=errors), cache=None) as client:
                return await act(client)

    return anyio.run(run)


def test_a_sandbox_is_served_on_standard_input_and_every_call_recorded(tmp_path: Path) -> None:
    async def act(client: Client) -> Any:
        listed = (await client.list_tools()).tools
        found = await client.call_tool("shop_db_query", {"sql": "SELECT 1 AS one"})
        broken = await client.call_tool("shop_db_query", {"sql": 7, "rows": 1})
        return {tool.name: tool.input_schema for tool in listed}, found, broken

    schemas, found, broken = by_stdio(tmp_path, act, "mcp", "shop", "--trace", "calls.jsonl")
    assert schemas.keys() == {"shop_db_query", "shop_db_execute", "outbox_send"}
    assert schemas["shop_db_query"]["required"] == ["sql"]
    assert schemas["shop_db_query"]["additionalProperties"] is False
    assert json.loads(found.content[0].text) == {"rows": [{"one": 1}]}
    assert broken.is_error
    assert "rows: Extra inputs are not permitted" in broken.content[0].text
    trace = read_calls(tmp_path / "calls.jsonl")
    assert trace.gap is None
    assert [(a.action_class, a.error is None) for a in trace.actions] == [
        (ActionClass.READ, True),
        (ActionClass.UNKNOWN, False),
    ]
    assert "calls: calls.jsonl" in (tmp_path / "stderr").read_text()


def test_a_projects_own_sandbox_is_served_with_the_tools_that_its_file_names(
    tmp_path: Path,
) -> None:
    make_project(tmp_path, "external")
    path = tmp_path / "sandboxes" / "app" / "sandbox.yaml"
    path.write_text(path.read_text().replace("kind: external", "kind: external, tools: [execute]"))

    async def act(client: Client) -> Any:
        listed = (await client.list_tools()).tools
        return [tool.name for tool in listed], await client.call_tool(*KINDS["external"].call)

    names, done = by_stdio(tmp_path, act, "mcp", "app", "--trace", "calls.jsonl")
    assert names == ["db_execute"]
    assert not done.is_error, done.content[0].text


def test_a_proxy_on_standard_input_records_what_it_passes_on(tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": ["-S", TINY], "env": {"UPSTREAM_SECRET": "s"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"tiny": entry}}))

    async def act(client: Client) -> Any:
        return await client.call_tool("environment", {"why": "\x1b[31m\u202e"})

    found = by_stdio(tmp_path, act, "mcp-proxy", "--config", "mcp.json", "--trace", "calls.jsonl")
    assert found.content[0].text == "s"
    assert r"tiny: complaint \x1b[31m" in (tmp_path / "stderr").read_text()
    (call,) = read_calls(tmp_path / "calls.jsonl").actions
    assert (call.tool, call.result, call.error) == ("environment", "s", None)


@pytest.mark.slow
def test_ctrl_c_ends_a_server_and_leaves_its_log_whole(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, *PROGRAM, "mcp", "shop", "--http", "0", "--trace", "calls.jsonl"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"},
    )
    try:
        url = process.stdout.readline().decode().strip()
        assert url.startswith("http://127.0.0.1:")

        async def run() -> Any:
            async with Client(url, cache=None) as client:
                return await client.call_tool("shop_db_query", {"sql": "SELECT 2 AS two"})

        assert '"two": 2' in anyio.run(run).content[0].text
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert b"Traceback" not in said
    assert b"calls: calls.jsonl" in said
    assert read_calls(tmp_path / "calls.jsonl").gap is None


@pytest.mark.parametrize("command", ["mcp", "mcp-proxy"])
def test_a_log_of_calls_is_never_written_over(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("calls.jsonl").write_text("kept")
    Path("mcp.json").write_text('{"mcpServers": {"a": {"command": "true"}}}')
    rest = ("shop",) if command == "mcp" else ("--config", "mcp.json")
    assert main([command, *rest, "--trace", "calls.jsonl"]) == 4
    assert "never written over" in capsys.readouterr().err
    assert Path("calls.jsonl").read_text() == "kept"
