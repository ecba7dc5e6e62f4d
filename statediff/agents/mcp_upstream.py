"""One MCP server behind a proxy: started or spoken to when it is needed, and again when it is lost.

A session is held open by a task of its own, because it must be closed where it was opened. A server
that crashes fails the calls that were under way; the next call starts it anew, a bounded number of
times.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Any, Final, TextIO

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client

from statediff.agents.mcp_config import ServerEntry
from statediff.model.values import printable
from statediff.systems.base.tool import ToolError

MAX_STARTS: Final = 10
START_SECONDS: Final = 30.0
CALL_SECONDS: Final = 120.0
MAX_PAGES: Final = 50
MAX_LINE: Final = 2000
MAX_LINES: Final = 500
"""Of a server's complaints, for each time that it is started."""


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
        """What a method of the session returns; `ToolError` if the server is lost meanwhile."""
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

    async def listed(self, what: str, key: str, most: int) -> list[Any]:
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
        over, told = self._over, False
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
                    told = True
                    task_status.started(client)
                    await over.wait()
        except Exception as error:  # noqa: BLE001 - a server may fail in any way; the proxy lives on
            self._why = _first(error)
        finally:
            if not told:
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
    """Where a server may complain: escaped, bounded, and under its name on standard error.

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


def _first(error: BaseException) -> str:
    """The first plain error of a group, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said = str(error) or type(error).__name__
    return printable(said.split("\n")[0])[:300]
