"""The plug-in of exported tables: JSON, CSV, JSON lines, Parquet, Excel, and folders of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from statediff.errors import InputError
from statediff.systems.base.plugin import (
    KeptPairs,
    Refinement,
    StateInput,
    StateReader,
    SystemKind,
    SystemPlugin,
    all_named,
    named,
)
from statediff.systems.tables.shape import MAX_BYTES, Given, read_document

if TYPE_CHECKING:
    from statediff.capture.source import Clock, Source
    from statediff.model.readings import Capture


def _contents(states: Sequence[StateInput]) -> list[Given | None]:
    """The contents of each state that is no JSON file; the first decides how others are read."""
    from statediff.systems.tables.exports import exported, is_export
    from statediff.systems.tables.forms import Forms

    forms: Forms | None = None
    found: list[Given | None] = []
    for at, state in enumerate(states):
        found.append(state.content)
        if state.content is None and is_export(state.path):
            try:
                found[at], forms = exported(state.path, forms, states[0].path if at else None)
            except InputError:
                if at == 0:
                    raise
    return found


def _left(state: StateInput, content: Given | None) -> Given:
    """The content that a run left; nothing where reading its path says why it cannot be read."""
    try:
        return read_document(state.path) if content is None else content
    except InputError:
        return b""


def _path(url: str) -> Path:
    return Path(url.removeprefix("tables://"))


def _is_mostly_tables(path: Path) -> bool:
    """True if most of a folder's files are exports of tables; a hidden one is nothing."""
    from statediff.systems.tables.exports import SUFFIXES

    try:
        if not path.is_dir():
            return False
        files = [each for each in path.iterdir() if each.is_file() and each.name[:1] != "."]
    except OSError:
        return False
    tables = [each for each in files if each.suffix.lower() in SUFFIXES]
    return len(tables) * 2 > len(files)


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff.systems.tables.source import Parsed, TablesSource

    [content] = _contents([state])
    given = read_document(state.path) if content is None else content
    return TablesSource(name, given, refine, parsed=Parsed(name, state.label))


def series(name: str, states: Sequence[StateInput], refine: Refinement | None) -> Sequence[Source]:
    """All states with the schema inferred from all; every one but the first is a state after."""
    from statediff.systems.tables.source import Parsed, TablesSource

    parsed, contents = Parsed(name), _contents(states)
    # The path, so that messages name it; what it says where there is none.
    places = [
        state.path if content is None else content
        for state, content in zip(states, contents, strict=True)
    ]
    first = read_document(states[0].path) if contents[0] is None else contents[0]
    said = [first, *map(_left, states[1:], contents[1:])]
    labels = [state.label for state in states]
    along = list(zip(labels, said, strict=True)) if len(states) > 2 else []
    return (
        TablesSource(name, places[0], refine, said[-1], labels[-1], along=along, parsed=parsed),
        *(
            TablesSource(name, each, refine, is_after=True, along=along, parsed=parsed)
            for each in places[1:-1]
        ),
        TablesSource(
            name,
            places[-1],
            refine,
            first,
            labels[0],
            is_after=True,
            along=along,
            parsed=parsed,
        ),
    )


def kept(
    name: str, before: StateInput, refine: Refinement | None, clock: Clock
) -> KeptPairs | None:
    """CSV and Parquet before, as plain records; None of any other form, and of what is odd."""
    from statediff.systems.tables.columns import Odd
    from statediff.systems.tables.exports import is_export, plain_tables
    from statediff.systems.tables.kept import KeptTables

    if before.content is not None or not is_export(before.path):
        return None
    try:
        tables, forms = plain_tables(before.path)
        known = KeptTables(name, tables, refine, clock)
    except (InputError, Odd):
        return None

    def pair(after: StateInput) -> tuple[Capture, Capture] | None:
        try:
            found, _ = plain_tables(after.path, forms, before.path)
            return known.captures(known.changes(found))
        except (InputError, Odd):
            return None

    return pair


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(name="tables", load=named("statediff.systems.tables.sandbox:EmbeddedTables")),
    ),
    sources=all_named("statediff.systems.tables.source:TablesSource"),
    states=StateReader(
        name="tables",
        description="JSON tables",
        recognizes=lambda path: not path.is_dir(),
        schemes=frozenset({"tables"}),
        path_of=_path,
        source=_source,
        sandbox=lambda _path: ("tables", "tree"),
        series=series,
        kept=kept,
        could_read=_is_mostly_tables,
        is_general=True,
        standard_input_bytes=MAX_BYTES,
    ),
)
