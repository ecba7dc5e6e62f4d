"""Which tools an agent gets: by the URLs that any agent of the sandbox is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from statediff.agents.recorder import Recorder
from statediff.agents.tools.database import database_tools
from statediff.agents.tools.files import file_tools
from statediff.agents.tools.mail import mail_tools
from statediff.agents.tools.reading import reading_tools
from statediff.agents.tools.repository import repository_tools
from statediff.agents.tools.table import ToolTable
from statediff.agents.tools.tool import Tool
from statediff.agents.tools.tracker import tracker_tools
from statediff.errors import UsageError
from statediff.reads.library import Library

_ADMINISTRATION: Final = frozenset({".git"})
"""What of a checkout is no file of its work tree."""


def tool_table(
    urls: Mapping[str, str], recorder: Recorder, library: Library | None = None
) -> ToolTable:
    """The tools for all systems at these URLs; `UsageError` for one that nobody knows to use.

    A library takes the place of the reading tools of the systems whose content it holds.
    """
    gated = frozenset[str]() if library is None else library.sources
    tools = [
        replace(tool, principal=_account(urls[source]))
        for source in sorted(urls)
        for tool in _tools(source, urls[source])
        if not (tool.is_harmless and source in gated)
    ]
    read = () if library is None else reading_tools(library)
    return ToolTable((*tools, *read), recorder)


def _account(url: str) -> str | None:
    """The account that the URL names, if it names one."""
    return unquote(urlsplit(url).username or "") or None


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
