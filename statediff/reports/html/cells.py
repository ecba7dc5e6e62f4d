"""Values and texts as a page shows them: bounded, with the size of what was cut.

Nothing here escapes anything: the page does, for every text there is (`page`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from statediff.evidence.documents import key_from
from statediff.model.delta import Entity
from statediff.model.values import (
    Absent,
    Excluded,
    Key,
    Map,
    Observed,
    Unobserved,
    common_beginning,
    show,
    show_key,
)
from statediff.reports.html.tree import Line, both_trees, tree

Json = Any
TEXT: Final = 600
"""Characters of a sentence or a message that are shown."""
VALUE: Final = 300
"""Characters of a value that are shown."""
NAME: Final = 120
"""Characters of a name that are shown."""
BRANCHES: Final = 40
"""Characters from which on an object or a list is shown as a tree as well."""
INSIDE: Final = 12
"""Characters from which on a difference inside a value is marked: 4200 and 3900 are two numbers."""


@dataclass(frozen=True)
class Cell:
    """An observation in words. `kind` is value, null, absent, excluded or unobserved."""

    text: str
    kind: str = "value"
    note: str = ""
    """The size of what was cut, or why there is no value."""
    parts: tuple[str, str, str] | None = None
    """The parts of a value that differs inside: alike, different, alike."""
    tree: tuple[Line, ...] = ()
    """An object or a list of some size, level by level."""
    is_pair: bool = False
    """True if the tree shows where it differs from another."""


def cut(text: object, limit: int = TEXT) -> str:
    """The text, or its beginning and its size."""
    whole = str(text)
    if len(whole) <= limit:
        return whole
    return f"{whole[:limit]}… (the first {limit} of {len(whole):,} characters)"


def name(text: object) -> str:
    """A name, bounded."""
    return cut(text, NAME)


def cell(observed: Observed, limit: int = VALUE) -> Cell:
    """The observation, bounded, with the size of what was cut."""
    match observed:
        case None:
            return Cell("null", "null")
        case Absent():
            return Cell("absent", "absent")
        case Excluded(rule):
            return Cell("excluded", "excluded", cut(rule, limit))
        case Unobserved(cause):
            return Cell("not observed", "unobserved", cut(cause, limit))
        case bytes():
            head = observed[:24].hex(" ") + ("…" if len(observed) > 24 else "")
            return Cell(head, note=f"{len(observed):,} bytes")
        case _:
            pass
    text, is_whole = _begin(_pieces(observed), limit)
    lines = tree(observed) if len(text) > BRANCHES else ()
    if is_whole:
        return Cell(text, tree=lines)
    return Cell(text + "…", note=f"shortened; {_size(observed)}", tree=lines)


def both_cells(before: Observed, after: Observed, limit: int = VALUE) -> tuple[Cell, Cell]:
    """Two values that differ, each bounded around the first difference, which is marked."""
    first, second = both_trees(before, after)
    one, two = _marked(*_both(before, after, limit))
    if max(len(one.text), len(two.text)) <= BRANCHES or not first or not second:
        return one, two
    return replace(one, tree=first, is_pair=True), replace(two, tree=second, is_pair=True)


def _marked(one: Cell, two: Cell) -> tuple[Cell, Cell]:
    """The two cells with their difference marked, where the texts are alike otherwise."""
    shorter = min(len(one.text), len(two.text))
    begin = common_beginning(one.text, two.text)
    end = common_beginning(one.text[begin:][::-1], two.text[begin:][::-1])
    if {one.kind, two.kind} != {"value"} or shorter < INSIDE or 2 * (begin + end) < shorter:
        return one, two
    first, second = (
        replace(each, parts=(text[:begin], text[begin : len(text) - end], text[len(text) - end :]))
        for each in (one, two)
        for text in (each.text,)
    )
    return first, second


def _both(before: Observed, after: Observed, limit: int) -> tuple[Cell, Cell]:
    one, two = cell(before, limit), cell(after, limit)
    if not (one.note or two.note) or {one.kind, two.kind} != {"value"}:
        return one, two
    texts = ["".join(_pieces(value)) for value in (before, after)]
    begin = common_beginning(*texts) - limit // 3
    if begin <= 0 or isinstance(before, bytes) or isinstance(after, bytes):
        return one, two
    inside = [
        f"…{text[begin : begin + limit]}" + "…" * (len(text) > begin + limit) for text in texts
    ]
    return Cell(inside[0], note=one.note), Cell(inside[1], note=two.note)


def _begin(pieces: Iterable[str], limit: int) -> tuple[str, bool]:
    """As many characters as the limit allows, and whether that is all of them."""
    found: list[str] = []
    length = 0
    for piece in pieces:
        found.append(piece)
        length += len(piece)
        if length > limit:
            return "".join(found)[:limit], False
    return "".join(found), True


def _pieces(value: Observed) -> Iterator[str]:
    match value:
        case str():
            yield from ('"', value, '"')
        case tuple():
            yield "["
            for at, item in enumerate(value):
                yield ", " if at else ""
                yield from _pieces(item)
            yield "]"
        case Map(items):
            yield "{"
            for at, (field, item) in enumerate(items):
                yield f"{', ' if at else ''}{field}: "
                yield from _pieces(item)
            yield "}"
        case _:
            yield show(value, 10_000)


def _size(value: Observed) -> str:
    match value:
        case str():
            return f"{len(value):,} characters in all"
        case tuple():
            return f"{len(value):,} items in all"
        case Map(items):
            return f"{len(items):,} members in all"
        case _:
            return f"{len(show(value, 10_000_000)):,} characters in all"


def side_cell(side: Observed | Entity, limit: int = VALUE) -> Cell:
    """One side of a change: a value, or the entity that came or went with its first fields."""
    if not isinstance(side, Entity):
        return cell(side, limit)
    filled = [(field, value) for field, value in side.fields if value is not None]
    told = ", ".join(f"{name(field)} {_brief(value)}" for field, value in filled[:8])
    note = f"the first 8 of {len(filled)} fields" if len(filled) > 8 else ""
    return Cell(told, note=note)


def _brief(value: Observed) -> str:
    shown = cell(value, 60)
    return f"{shown.text} ({shown.note})" if shown.kind == "value" and shown.note else shown.text


def entity(type_name: object, key: Key) -> str:
    """`order 1009`."""
    return f"{name(type_name)} {show_key(key)}"


def place(document: Json) -> str:
    """The entity of a delta, a witness row or a doubt; the type alone where no key is known."""
    if document["key"] is None:
        return name(document["type"])
    if "named" in document:
        return f"{name(document['type'])} {name(document['named'])}"
    return entity(document["type"], key_from(document["key"]))


def first(listed: Sequence[Json], limit: int) -> tuple[Json, ...]:
    """The first of a list; `rest` says how many that leaves out."""
    return tuple(islice(listed, limit))


def rest(listed: Sequence[Json], limit: int, what: str) -> str:
    """How many are not shown and where they are; empty where all are."""
    left = len(listed) - limit
    return "" if left <= 0 else f"{left:,} more {what} are not shown here; the bundle holds them."
