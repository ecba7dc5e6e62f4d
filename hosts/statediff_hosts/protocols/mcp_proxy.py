"""A recording proxy: an MCP server that passes on what other MCP servers offer, and records it.

Tools keep their names where there is one server; where there are several, the server's name stands
before them. Resources and prompts pass through, and reading one is recorded as a read. What servers
ask of clients (sampling, roots, elicitation) is not passed on: an agent's calls are what is traced.

Each server is started or spoken to when it is needed. Its session is held open by a task of its
own, because it must be closed where it was opened. A server that crashes fails the calls that were
under way; the next call starts it anew, a bounded number of times.

Which MCP servers a proxy stands in front of: a file as MCP clients read it.

    {"mcpServers": {
        "shop":  {"command": "shop-mcp", "args": ["--db", "${STATEDIFF_SHOP_DB_URL}"]},
        "files": {"url": "http://127.0.0.1:8123/mcp", "classes": {"read_file": "read"}}}}

`${NAME}` is filled in from the environment. `classes` is ours: what a server itself says of its
tools never makes a call harmless, so a tool has the class that this file gives it, or none.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

import anyio
import mcp_types as types
from anyio.abc import TaskGroup, TaskStatus
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from statediff._version import __version__
from statediff.agents.commandline import resolved
from statediff.agents.recorder import Recorder
from statediff.errors import InputError
from statediff.model.strictjson import read_json
from statediff.model.trace import ActionClass
from statediff.model.values import printable
from statediff.systems.base.rows import plain
from statediff.systems.base.tool import ToolError
from statediff_hosts.protocols.mcp_server import record_malformed

MAX_CONFIG_BYTES: Final = 256 * 1024
MAX_SERVERS: Final = 50
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
MAX_LISTED: Final = 2000
MAX_PASSED_BYTES: Final = 4 * 1024 * 1024
"""Of one answer; what has more is an error, for both the agent and the record."""
MAX_STARTS: Final = 10
START_SECONDS: Final = 30.0
CALL_SECONDS: Final = 120.0
MAX_PAGES: Final = 50
MAX_LINE: Final = 2000
MAX_LINES: Final = 500
"""Of a server's complaints, for each time that it is started."""
Context = ServerRequestContext[Any, Any]
Page = types.PaginatedRequestParams | None


class _Entry(BaseModel):
    """One server, as clients write it; what other clients add is of no concern here."""

    model_config = ConfigDict(extra="ignore", strict=True)

    command: str | None = None
    args: list[str] = Field(default=[])
    env: dict[str, str] = Field(default={})
    cwd: str | None = None
    url: str | None = None
    classes: dict[str, str] = Field(default={})


@dataclass(frozen=True)
class ServerEntry:
    """One server: a program to start, or an URL to speak to."""

    name: str
    command: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    folder: str | None = None
    url: str | None = None
    classes: Mapping[str, ActionClass] = field(default_factory=dict)


def read_mcp_config(path: Path, environment: Mapping[str, str]) -> tuple[ServerEntry, ...]:
    """The servers that the file names, by name; `InputError` says what is wrong with it."""
    what, listed = servers_by_name(path)
    return tuple(_entry(what, name, listed[name], environment) for name in sorted(listed))


def servers_by_name(path: Path) -> tuple[str, Mapping[str, Any]]:
    """How the file is called in messages, and its servers as they stand there, by name."""
    what = printable(str(path))
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{what}: cannot be read: {error.strerror}") from error
    document = plain(read_json(raw, what, max_bytes=MAX_CONFIG_BYTES))
    listed = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(listed, dict) or not listed:
        raise InputError(f'{what}: expected servers by name under "mcpServers"')
    if len(listed) > MAX_SERVERS:
        raise InputError(f"{what}: {len(listed)} servers; at most {MAX_SERVERS} are taken")
    return what, listed


def _entry(what: str, name: str, raw: Any, environment: Mapping[str, str]) -> ServerEntry:
    where = f"{what}: server {printable(name)[:60]!r}"
    if not _NAME.fullmatch(name):
        raise InputError(f"{where}: a name has letters, digits, - and _, 40 at most")
    try:
        entry = _Entry.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{where}: {place}: {first['msg']}") from error
    if (entry.command is None) == (entry.url is None):
        raise InputError(f"{where}: expected either a `command` to start or an `url`")
    classes = {}
    for tool, given in entry.classes.items():
        known = {each.value: each for each in ActionClass}
        if given not in known:
            raise InputError(f"{where}: class {given!r} of {tool!r}; there are: {', '.join(known)}")
        classes[tool] = known[given]

    def fill(text: str) -> str:
        for variable in _VARIABLE.findall(text):
            if variable not in environment:
                raise InputError(f"{where}: ${{{variable}}} is not set")
        return _VARIABLE.sub(lambda found: environment[found[1]], text)

    folder = None if entry.cwd is None else fill(entry.cwd)
    words = () if entry.command is None else tuple(map(fill, (entry.command, *entry.args)))
    return ServerEntry(
        name,
        resolved(words, Path.cwd() / (folder or "")),
        tuple((key, fill(value)) for key, value in sorted(entry.env.items())),
        folder,
        None if entry.url is None else fill(entry.url),
        classes,
    )


class Proxy:
    """The proxy between an agent and its servers, while `open` holds them."""

    def __init__(self, entries: Sequence[ServerEntry], recorder: Recorder) -> None:
        self._entries = entries
        self._recorder = recorder
        self._servers: dict[str, Upstream] = {}
        self._tools: dict[str, tuple[Upstream, str]] = {}
        self._prompts: dict[str, tuple[Upstream, str]] = {}
        self._resources: dict[str, Upstream] = {}

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """The servers are started as they are needed, and ended with the block."""
        async with anyio.create_task_group() as tasks:
            self._servers = {entry.name: Upstream(entry, tasks) for entry in self._entries}
            try:
                yield
            finally:
                for server in self._servers.values():
                    server.close()
                tasks.cancel_scope.deadline = anyio.current_time() + 10.0

    def server(self) -> Server[Any]:
        """The MCP server that agents speak to."""
        made: Server[Any] = Server(
            "statediff-proxy",
            version=__version__,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )
        made.middleware.append(self._record_malformed)
        return made

    async def _record_malformed(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/call":
            record_malformed(self._recorder, ctx.params)
        return await call_next(ctx)

    # ------------------------------------------------------------ tools

    async def _list_tools(self, _ctx: Context, _page: Page) -> types.ListToolsResult:
        found = await self._gather("list_tools", "tools")
        self._tools = {self._public_name(s, tool.name): (s, tool.name) for s, tool in found}
        return types.ListToolsResult(
            tools=[
                tool.model_copy(update={"name": self._public_name(s, tool.name)})
                for s, tool in found
            ]
        )

    async def _call_tool(
        self, _ctx: Context, asked: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if asked.name not in self._tools:
            await self._list_tools(_ctx, None)
        server, name = self._tools.get(asked.name, (None, asked.name))
        kind = ActionClass.UNKNOWN
        if server is not None:
            kind = server.entry.classes.get(name, ActionClass.UNKNOWN)
        call = self._recorder.begin(asked.name, asked.arguments or {}, class_=kind)
        try:
            if server is None:
                raise ToolError(f"there is no tool {asked.name[:100]!r}")
            result = await server.ask("call_tool", name, asked.arguments or {})
            value = _value_of(result)
        except ToolError as error:
            self._recorder.end(call, error=str(error))
            return types.CallToolResult(
                content=[types.TextContent(type="text", text=printable(str(error)))], is_error=True
            )
        except BaseException as error:
            self._recorder.end(call, error=f"given up: {type(error).__name__}")
            raise
        if result.is_error:
            self._recorder.end(call, error=_text(value))
        else:
            self._recorder.end(call, result=value)
        passed: types.CallToolResult = result
        return passed

    # ------------------------------------------------------------ resources and prompts

    async def _list_resources(self, _ctx: Context, _page: Page) -> types.ListResourcesResult:
        found = await self._gather("list_resources", "resources")
        self._resources = {str(resource.uri): server for server, resource in found}
        return types.ListResourcesResult(resources=[resource for _, resource in found])

    async def _list_templates(
        self, _ctx: Context, _page: Page
    ) -> types.ListResourceTemplatesResult:
        found = await self._gather("list_resource_templates", "resource_templates")
        return types.ListResourceTemplatesResult(resource_templates=[each for _, each in found])

    async def _read_resource(
        self, ctx: Context, asked: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(asked.uri)

        async def read() -> types.ReadResourceResult:
            if uri not in self._resources:
                await self._list_resources(ctx, None)
            # A URI that no listing names comes from a template: whichever server knows it.
            known = self._resources.get(uri)
            candidates = [known] if known is not None else list(self._servers.values())
            refusals = []
            for server in candidates:
                try:
                    found: types.ReadResourceResult = await server.ask("read_resource", uri)
                    return found
                except ToolError as error:
                    refusals.append(str(error))
            raise ToolError("; ".join(refusals) or f"there is no resource {uri[:200]!r}")

        found: types.ReadResourceResult = await self._read("resources/read", {"uri": uri}, read)
        return found

    async def _list_prompts(self, _ctx: Context, _page: Page) -> types.ListPromptsResult:
        found = await self._gather("list_prompts", "prompts")
        self._prompts = {self._public_name(s, each.name): (s, each.name) for s, each in found}
        return types.ListPromptsResult(
            prompts=[e.model_copy(update={"name": self._public_name(s, e.name)}) for s, e in found]
        )

    async def _get_prompt(
        self, ctx: Context, asked: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        async def get() -> types.GetPromptResult:
            if asked.name not in self._prompts:
                await self._list_prompts(ctx, None)
            if asked.name not in self._prompts:
                raise ToolError(f"there is no prompt {asked.name[:100]!r}")
            server, name = self._prompts[asked.name]
            found: types.GetPromptResult = await server.ask("get_prompt", name, asked.arguments)
            return found

        given = {"name": asked.name, "arguments": asked.arguments or {}}
        found: types.GetPromptResult = await self._read("prompts/get", given, get)
        return found

    async def _read(
        self, what: str, arguments: dict[str, Any], get: Callable[[], Awaitable[Any]]
    ) -> Any:
        call = self._recorder.begin(what, arguments, class_=ActionClass.READ)
        try:
            found = await get()
            whole = found.model_dump(mode="json", by_alias=True, exclude_none=True)
            _require_small(whole)
        except ToolError as error:
            self._recorder.end(call, error=str(error), transactions=())
            raise MCPError(types.INVALID_PARAMS, printable(str(error))) from error
        self._recorder.end(call, result=whole, transactions=())
        return found

    # ------------------------------------------------------------ all servers

    async def _gather(self, what: str, key: str) -> list[tuple[Upstream, Any]]:
        """All that the servers list; one that lists nothing of the kind, or is lost, adds none."""
        found: list[tuple[Upstream, Any]] = []
        for server in self._servers.values():
            with contextlib.suppress(ToolError):
                found += [(server, each) for each in await server.list_all(what, key, MAX_LISTED)]
        return found

    def _public_name(self, server: Upstream, name: str) -> str:
        return name if len(self._servers) == 1 else f"{server.entry.name}_{name}"


def _value_of(result: types.CallToolResult) -> Any:
    """The content of a result as plain JSON: its structure, or its one text, or all its parts."""
    whole = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    _require_small(whole)
    if result.structured_content is not None:
        return result.structured_content
    if len(result.content) == 1 and isinstance(result.content[0], types.TextContent):
        text = result.content[0].text
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(text)
        return text
    return whole["content"]


def _require_small(value: Any) -> None:
    size = len(json.dumps(value, ensure_ascii=False).encode("utf-8", errors="surrogatepass"))
    if size > MAX_PASSED_BYTES:
        raise ToolError(f"the server answers {size} bytes; {MAX_PASSED_BYTES} are passed on")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class Upstream:
    """A server that is there when it is asked, if it can be."""

    def __init__(self, entry: ServerEntry, tasks: TaskGroup) -> None:
        self.entry = entry
        self._tasks = tasks
        self._client: Client | None = None
        self._over = anyio.Event()
        self._lock = anyio.Lock()
        self._starts = 0
        self._why = ""

    async def client(self) -> Client:
        """An open session; `ToolError` if the server cannot be had."""
        async with self._lock:
            if self._client is not None:
                return self._client
            if self._starts >= MAX_STARTS:
                raise ToolError(
                    f"server {self.entry.name} was lost {self._starts} times: {self._why}"
                )
            self._starts += 1
            self._over = anyio.Event()
            client: Client | None = await self._tasks.start(self._hold)
            if client is None:
                raise ToolError(f"server {self.entry.name} cannot be had: {self._why}")
            return client

    async def ask(self, what: str, *arguments: Any, **more: Any) -> Any:
        """The result of a method of the session; `ToolError` if the server is lost meanwhile."""
        client = await self.client()
        try:
            return await getattr(client, what)(*arguments, **more)
        except MCPError as error:
            # Its own refusals arrive like this too; only a session that is over is given up.
            if "closed" in error.error.message.lower():
                self._lose(client, "it went away")
            raise ToolError(f"{self.entry.name}: {error.error.message}") from error
        except (
            OSError,
            RuntimeError,
            ValueError,
            anyio.ClosedResourceError,
            anyio.BrokenResourceError,
        ) as error:
            why = str(error) or type(error).__name__
            self._lose(client, why)
            raise ToolError(f"{self.entry.name}: {why}") from error

    async def list_all(self, what: str, key: str, most: int) -> list[Any]:
        """All pages of a listing, at most so many entries."""
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self.ask(what, cursor=cursor)
            found += getattr(page, key)
            cursor = page.next_cursor
            if cursor is None or len(found) >= most:
                break
        return found[:most]

    def close(self) -> None:
        """The session ends soon."""
        self._over.set()

    def _lose(self, client: Client, why: str) -> None:
        if self._client is client:
            self._client, self._why = None, printable(why)[:300]
            self._over.set()

    async def _hold(self, *, task_status: TaskStatus[Client | None]) -> None:
        """One session, from its start until somebody says that it is over."""
        over, has_started = self._over, False
        try:
            with (
                _complaints(self.entry.name) as complaints,
                anyio.fail_after(START_SECONDS) as scope,
            ):
                async with Client(
                    self._target(complaints), read_timeout_seconds=CALL_SECONDS, cache=None
                ) as client:
                    scope.deadline = float("inf")
                    self._client = client
                    has_started = True
                    task_status.started(client)
                    await over.wait()
        except Exception as error:  # noqa: BLE001 - a server may fail in any way; the proxy lives on
            self._why = _first_line(error)
        finally:
            if not has_started:
                with contextlib.suppress(RuntimeError):
                    task_status.started(None)
            elif self._over is over:
                self._client = None

    def _target(self, complaints: TextIO) -> Any:
        entry = self.entry
        if entry.url is not None:
            return entry.url
        return stdio_client(
            StdioServerParameters(
                command=entry.command[0],
                args=list(entry.command[1:]),
                env=dict(entry.environment),
                cwd=entry.folder,
            ),
            errlog=complaints,
        )


def _complaints(server: str) -> TextIO:
    """A stream for a server's complaints: escaped, bounded, and under its name on standard error.

    What an agent sends a server may come out there; it must not reach a terminal as it is.
    """
    reading, writing = os.pipe()

    def pass_on() -> None:
        kept = 0
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            while line := lines.readline(MAX_LINE):
                kept += 1
                if kept <= MAX_LINES:
                    with contextlib.suppress(OSError, ValueError):
                        sys.stderr.write(f"{server}: {printable(line.rstrip())}\n")

    threading.Thread(target=pass_on, daemon=True, name=f"stderr of {server}").start()
    return os.fdopen(writing, "w", encoding="utf-8")


def _first_line(error: BaseException) -> str:
    """The first plain error of a group, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said = str(error) or type(error).__name__
    return printable(said.split("\n")[0])[:300]
