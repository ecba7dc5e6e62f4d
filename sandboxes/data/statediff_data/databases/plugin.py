"""The plug-in of databases that no other plug-in reads: whatever has a dialect of SQLAlchemy."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from statediff.systems.base.plugin import (
    Refinement,
    StateInput,
    StateReader,
    SystemPlugin,
    all_named,
    named,
)
from statediff_data.databases.dialects import EXACT, PACKAGES

if TYPE_CHECKING:
    from statediff.capture.source import Source


def _schemes() -> frozenset[str]:
    """Every dialect that is installed, and those whose package a message can name."""
    installed = {each.name for each in entry_points(group="sqlalchemy.dialects")}
    names = {name.replace(".", "+") for name in installed} | set(PACKAGES)
    return frozenset(name for name in names if name.partition("+")[0] not in EXACT)


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff.systems.relational.urls import split_choice
    from statediff_data.databases.source import DatabaseSource

    url, tables = split_choice(state.url or "")
    return DatabaseSource(name, url, refine, tables)


PLUGIN: Final = SystemPlugin(
    interface=1,
    sources=all_named("statediff_data.databases.source:DatabaseSource"),
    states=StateReader(
        name="db",
        description="a database by SQLAlchemy",
        schemes=_schemes(),
        requirement="statediff[data]",
        source=_source,
        is_general=True,
        unreadable="cannot be read as a database",
    ),
    object_types=named("statediff_data.databases.catalogue:OBJECT_TYPES"),
)
