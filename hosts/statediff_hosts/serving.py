"""`mcp` and `mcp-proxy`: tools for any MCP client, and a log of every call.

Over standard input and output unless a port is asked for; then everything else is said on standard
error, because clients read standard output as the protocol.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.options import JsonFlag, SandboxArgument, VariantOption
from statediff.cli.output import emit, progress, results
from statediff.errors import StorageError, UsageError
from statediff.extras import require_extra
from statediff.workspace.folders import shown

if TYPE_CHECKING:
    from statediff.agents.own_secrets import OwnSecrets
    from statediff.agents.recorder import Recorder

CALLS: Final = Path(".statediff") / "calls"


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """How tools are served, and where their calls are recorded."""

    http: Annotated[
        int | None,
        typer.Option(
            "--http",
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve streamable HTTP on this port of this machine (0: any), not standard input.",
        ),
    ] = None
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="Where every call is recorded; a new file [default: one in .statediff/calls].",
        ),
    ] = None

    def require_http(self, *, as_json: bool) -> None:
        """Standard output is free for JSON; else `UsageError`."""
        if as_json and self.http is None:
            raise UsageError(
                "--json goes with --http: standard output is the protocol's without it"
            )


def mcp(
    name: SandboxArgument,
    variant: VariantOption = "embedded",
    contract: Annotated[
        Path | None,
        typer.Option(
            "--contract",
            metavar="FILE",
            help="Its `access:` says what may be read, through `search` and `fetch` alone.",
        ),
    ] = None,
    *,
    server: ServerOptions,
    as_json: JsonFlag = False,
) -> int:
    """Serve a sandbox's tools to any MCP client, and record every call, until the client goes."""
    server.require_http(as_json=as_json)
    require_extra("agents", "mcp", "statediff mcp")
    from statediff.agents.own_secrets import OwnSecrets
    from statediff.agents.tools import tool_table
    from statediff.contract.file import load_contract
    from statediff.kernel import library_of
    from statediff.packs import find_sandbox, sandbox_pack
    from statediff.workspace.trials import base_state, open_sandbox
    from statediff_hosts.protocols.mcp_server import mcp_server

    file = None if contract is None else load_contract(contract)
    if file is not None and file.content.access is None:
        raise UsageError(f"{contract}: has no `access:`, so it says nothing of what may be read")
    found = find_sandbox(name)
    name = sandbox_pack(found, variant).name
    with (
        open_sandbox(found, variant) as sandbox,
        _recorder(server.trace, name, OwnSecrets.of(sandbox.access().urls.values())) as recorder,
    ):
        library = None if file is None else library_of(file, base_state(sandbox))
        table = tool_table(sandbox.access().urls, recorder, library, sandbox.access().tools)
        try:
            _serve(mcp_server(f"statediff {name}", table), server.http, as_json=as_json)
        finally:
            table.close()
    return 0


def mcp_proxy(
    config: Annotated[
        Path,
        typer.Option(
            "--config", metavar="FILE", help="MCP servers, as clients name them: mcpServers."
        ),
    ],
    *,
    server: ServerOptions,
    as_json: JsonFlag = False,
) -> int:
    """Stand in front of MCP servers, pass on what they offer, and record every call."""
    server.require_http(as_json=as_json)
    require_extra("agents", "mcp", "statediff mcp-proxy")
    from statediff.agents.own_secrets import OwnSecrets, entrusted_in
    from statediff_hosts.protocols.mcp_proxy import Proxy, read_mcp_config

    entries = read_mcp_config(config, os.environ)
    given = entrusted_in(pair for entry in entries for pair in entry.environment)
    with _recorder(server.trace, "proxy", OwnSecrets.of(entrusted=given)) as recorder:
        proxy = Proxy(entries, recorder)
        _serve(proxy.server(), server.http, proxy.open, as_json=as_json)
    return 0


@contextmanager
def _recorder(path: Path | None, name: str, own: OwnSecrets) -> Iterator[Recorder]:
    """A log in the file, or in one of its own; its name is shown at the end."""
    from statediff.agents.recorder import Recorder
    from statediff.capture.source import clock

    if path is None:
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        path = CALLS / f"{name}-{moment}.jsonl"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{path.parent} cannot be made: {error.strerror}") from error
    try:
        with Recorder(path, clock, own=own) as recorder:
            yield recorder
    finally:  # Ctrl-C is how a server ends
        progress().print(f"calls: {shown(path)}", soft_wrap=True)


def _serve(
    server: Any,
    port: int | None,
    around: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    *,
    as_json: bool,
) -> None:
    """Returns when the client on standard input has gone; over HTTP, never."""
    from statediff_hosts.protocols.mcp_server import serve_stdio, serving_http

    if port is None:
        serve_stdio(server, around)
        return
    with serving_http(server, port, around) as url:
        if as_json:
            emit({"url": url})
        else:
            results().print(url, soft_wrap=True)
        progress().print("serving; Ctrl-C ends it")
        while True:
            time.sleep(3600)
