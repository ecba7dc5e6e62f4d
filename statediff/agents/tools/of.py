"""Which tools an agent gets: by the URLs that any agent of the sandbox is given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from statediff.agents.recorder import Recorder
from statediff.agents.tools.database import database_tools
from statediff.agents.tools.files import file_tools
from statediff.agents.tools.mail import mail_tools
from statediff.agents.tools.repository import repository_tools
from statediff.agents.tools.table import ToolTable
from statediff.agents.tools.tool import Tool
from statediff.agents.tools.tracker import tracker_tools
from statediff.errors import UsageError

_ADMINISTRATION: Final = frozenset({".git"})
"""What of a checkout is no file of its work tree."""


def tool_table(urls: Mapping[str, str], recorder: Recorder) -> ToolTable:
    """The tools for all systems at these URLs; `UsageError` for one that nobody knows to use."""
    tools = [tool for source in sorted(urls) for tool in _tools(source, urls[source])]
    return ToolTable(tools, recorder)


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    parts = urlsplit(url)
    match parts.scheme:
        case "sqlite" | "postgresql" | "mysql":
            return database_tools(source, url)
        case "smtp":
            return mail_tools(source, url)
        case "http" | "https" if parts.path.endswith(".git"):
            return repository_tools(source, url)
        case "http" | "https":
            return tracker_tools(source, url)
        case "file":
            folder = Path(unquote(parts.path))
            if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
                return repository_tools(source, url)
            return file_tools(source, folder, _ADMINISTRATION)
        case _:
            pass
    raise UsageError(f"there are no tools for {source!r}, a system reached by {parts.scheme}://")
