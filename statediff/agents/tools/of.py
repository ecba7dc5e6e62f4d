"""Which tools an agent gets: by the URLs that any agent of the sandbox is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import unquote, urlsplit

from statediff.agents.recorder import Recorder
from statediff.agents.tools.reading import reading_tools
from statediff.agents.tools.table import ToolTable
from statediff.reads.library import Library
from statediff.systems.base.registry import tools_of


def tool_table(
    urls: Mapping[str, str], recorder: Recorder, library: Library | None = None
) -> ToolTable:
    """The tools for all systems at these URLs; `UsageError` where no system has tools.

    A library takes the place of the reading tools of the systems whose content it holds.
    """
    gated = frozenset[str]() if library is None else library.sources
    tools = [
        replace(tool, principal=_account(urls[source]))
        for source in sorted(urls)
        for tool in tools_of(source, urls[source])
        if not (tool.is_harmless and source in gated)
    ]
    read = () if library is None else reading_tools(library)
    return ToolTable((*tools, *read), recorder)


def _account(url: str) -> str | None:
    """The account that the URL names, if it names one."""
    return unquote(urlsplit(url).username or "") or None
