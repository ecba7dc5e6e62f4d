"""Which tools an agent gets: by the URLs that any agent of the sandbox is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from statediff.agents.calllog import CallLog
from statediff.agents.tools.database import database_tools
from statediff.agents.tools.mail import mail_tools
from statediff.agents.tools.table import ToolTable
from statediff.agents.tools.tool import Tool
from statediff.errors import UsageError


def tool_table(urls: Mapping[str, str], log: CallLog) -> ToolTable:
    """The tools for all systems at these URLs; `UsageError` for one that nobody knows to use."""
    tools = [tool for source in sorted(urls) for tool in _tools(source, urls[source])]
    return ToolTable(tools, log)


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    parts = urlsplit(url)
    match parts.scheme:
        case "sqlite" | "postgresql" | "mysql":
            return database_tools(source, url)
        case "smtp":
            return mail_tools(source, url)
        case _:
            pass
    raise UsageError(f"there are no tools for {source!r}, a system reached by {parts.scheme}://")
