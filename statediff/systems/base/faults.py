"""Faults below the rows of live systems: what an agent can do that changes no row of a table.

A plug-in names those of its system (`SystemPlugin.faults`). A meta-test runs each in a real sandbox
after the agent that does the task right, before the capture after. An operator that finds no place
for itself says so, is no fault, and is counted among what was not tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from statediff.systems.base.protocol import Sandbox


@dataclass(frozen=True)
class Below:
    """An operator on the place of a system: what its source is reached by, and who names it."""

    scheme: str
    apply: Callable[[Place], bool]
    """Do it; True if there was something to do it to."""
    names: tuple[str, ...]
    """Types whose changes show it, beside `source.NAME`."""


@dataclass(frozen=True)
class Place:
    """A source of a running sandbox."""

    source: str
    url: str
    sandbox: Sandbox

    @property
    def path(self) -> Path:
        """The path of a file or a folder."""
        return Path(unquote(urlsplit(self.url).path.replace("//", "/")))

    @property
    def home(self) -> Path:
        """The folder in which an embedded system keeps its files."""
        return self.sandbox.access().folder.parent / "systems" / self.source / "home"
