"""A table of tools as an MCP server: over streamable HTTP in a thread, or over stdio.

The server validates nothing itself: the table does, so that calls of unknown tools and calls with
wrong arguments are in the log. Calls too malformed to be calls are recorded by a middleware, which
sees every request before the protocol's own checks.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread
import mcp_types as types
import uvicorn
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from statediff._version import __version__
from statediff.agents.recorder import Recorder
from statediff.agents.tools import ToolTable
from statediff.errors import AdapterError

MAX_CALLS_AT_ONCE: Final = 16
START_SECONDS: Final = 30.0


def mcp_server(name: str, table: ToolTable) -> Server[Any]:
    """The server, not yet serving."""
    limiter = anyio.CapacityLimiter(MAX_CALLS_AT_ONCE)

    async def list_tools(
        _context: ServerRequestContext[Any, Any], _page: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name, description=tool.description, input_schema=dict(tool.schema())
                )
                for tool in table.tools.values()
            ]
        )

    async def call_tool(
        _context: ServerRequestContext[Any, Any], asked: types.CallToolRequestParams
    ) -> types.CallToolResult:
        reply = await anyio.to_thread.run_sync(
            partial(table.call, asked.name, asked.arguments or {}), limiter=limiter
        )
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=reply.text)], is_error=reply.is_error
        )

    async def record(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/call":
            record_malformed(table.recorder, ctx.params)
        return await call_next(ctx)

    server: Server[Any] = Server(
        name,
        version=__version__,
        instructions="Tools of a sandbox under test. Every call is recorded.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    server.middleware.append(record)
    return server


def serve_stdio(
    server: Server[Any],
    around: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext,
) -> None:
    """Returns when standard input is closed."""

    async def serve() -> None:
        async with around(), stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(serve)


def record_malformed(recorder: Recorder, params: Any) -> None:
    """A call that the protocol's own checks will refuse is in the log."""
    asked = params or {}
    name, arguments = asked.get("name"), asked.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, dict | None):
        call = recorder.begin(name if isinstance(name, str) else "(no name)", arguments)
        recorder.end(call, error="a call names a tool, and its arguments are an object")


@contextlib.contextmanager
def serving_http(
    server: Server[Any],
    port: int = 0,
    around: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext,
    path: str | None = None,
) -> Iterator[str]:
    """The URL at which the server answers, on this machine only, until the end of the block.

    `around` is entered in the event loop that serves, before it does.
    The path holds a secret, so that other users of the machine cannot call it; not where the
    machine is the agent's alone, and `path` is what it was given.
    """
    path = path or f"/{secrets.token_urlsafe(16)}/mcp"
    # The protocol is named, or the event loop does not switch Nagle's algorithm off: 45 ms a call.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise AdapterError(f"port {port} cannot be listened on: {error.strerror}") from error
    app = server.streamable_http_app(streamable_http_path=path)
    running = uvicorn.Server(
        uvicorn.Config(app, log_level="critical", access_log=False, timeout_graceful_shutdown=1)
    )

    async def serve() -> None:
        async with around():
            await running.serve(sockets=[listener])

    thread = threading.Thread(target=anyio.run, args=(serve,), daemon=True, name="mcp")
    thread.start()
    try:
        _await(running, thread)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}{path}"
    finally:
        running.should_exit = True
        thread.join(5.0)
        running.force_exit = True
        thread.join(5.0)
        listener.close()


def _await(running: uvicorn.Server, thread: threading.Thread) -> None:
    waited = threading.Event()
    for _ in range(int(START_SECONDS / 0.01)):
        if running.started:
            return
        if not thread.is_alive():
            break
        waited.wait(0.01)
    raise AdapterError("the MCP server did not start")
