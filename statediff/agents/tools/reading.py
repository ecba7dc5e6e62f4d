"""`search` and `fetch`: what a contract lets the agent's actor read, and nothing else.

They take the place of the reading tools of the systems whose content they hold: what could be read
past the gate would be read unseen.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from statediff.model.trace import ActionClass
from statediff.reads.gate import FETCH, MAX_QUERY, NOT_THERE, SEARCH
from statediff.reads.library import Library
from statediff.systems.base.tool import Arguments, Tool, ToolError


class Search(Arguments):
    """Words, and where to look for them."""

    query: str = Field(min_length=1, max_length=MAX_QUERY, description="All words must be there.")
    subsystem: str | None = Field(
        default=None, min_length=1, max_length=100, description="Only in this subsystem."
    )


class Fetch(Arguments):
    """One artifact."""

    id: str = Field(min_length=1, max_length=4000, description="As a search names it.")


def reading_tools(library: Library) -> tuple[Tool[Any], ...]:
    """The two tools of a library."""

    def search(asked: Search) -> Any:
        return library.search(asked.query, asked.subsystem)

    def fetch(asked: Fetch) -> Any:
        found = library.fetch(asked.id)
        if found is None:
            raise ToolError(NOT_THERE)
        return found

    access = library.access
    where = ", ".join(sorted(access.sees)) or "nothing"
    return (
        Tool(
            SEARCH,
            f"Names artifacts that hold all words of the query, best first: {where}.",
            Search, search, ActionClass.READ, access.actor, is_harmless=True,
        ),
        Tool(
            FETCH, "Gives one artifact, whole, by its id.", Fetch, fetch, ActionClass.READ,
            access.actor, is_harmless=True,
        ),
    )  # fmt: skip
