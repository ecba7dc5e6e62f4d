"""Changes of one list as a person sees them: items that came, went or moved.

Lists are judged by index, so that one item at the front changes every place behind it. This is for
showing only: no verdict rests on it. The longest run of equal items that keep their order stays,
and equal items pair in the order that they have.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from statediff.evidence.documents import fields_from, key_from
from statediff.model.delta import delta_id
from statediff.model.json_values import as_nested, canonical_json
from statediff.model.paths import PathError, Steps, at, parse, render
from statediff.model.values import Observed, Value, encode, is_value, show
from statediff.reports.said import said

Json = Any
MAX_ITEMS: Final = 10_000
"""Items of a list that is aligned."""
MAX_SHOWN: Final = 3


@dataclass(frozen=True)
class Edit:
    """One item that came (`old` None), went (`new` None) or moved, by its indexes."""

    old: int | None
    new: int | None
    item: Value


def edits(before: Sequence[Value], after: Sequence[Value]) -> tuple[Edit, ...]:
    """The fewest items that make the one list the other, in the order of the places."""
    left, right = list(_numbered(before)), list(_numbered(after))
    places = {item: index for index, item in enumerate(right)}
    common = [(old, places[item]) for old, item in enumerate(left) if item in places]
    stay = set(_increasing([new for _, new in common]))
    paired = {new for _, new in common}
    found = [Edit(i, None, before[i]) for i, item in enumerate(left) if item not in places]
    found += [Edit(None, i, after[i]) for i in range(len(right)) if i not in paired]
    found += [Edit(old, new, after[new]) for old, new in common if new not in stay]
    return tuple(sorted(found, key=lambda e: e.new if e.new is not None else cast(int, e.old)))


def _numbered(items: Sequence[Value]) -> Iterator[tuple[str, int]]:
    """Each item as a text of its own, equal ones with their number."""
    seen: Counter[str] = Counter()
    for item in items:
        text = json.dumps(encode(canonical_json(item)))
        seen[text] += 1
        yield text, seen[text]


def _increasing(numbers: Sequence[int]) -> Iterator[int]:
    """The members of the longest rising run, by patience: each pile keeps its least last card."""
    piles: list[int] = []
    tops: list[int] = []
    behind: list[int] = []
    for index, number in enumerate(numbers):
        pile = bisect_left(piles, number)
        piles[pile : pile + 1] = [number]
        behind.append(tops[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [index]
    index = tops[-1] if tops else -1
    while index >= 0:
        yield numbers[index]
        index = behind[index]


def list_notes(deltas: Json, fragments: Json) -> Mapping[str, str]:
    """For the first change of each list with several: what they are together, where that is less.

    By the id of that change. The lists are those that the bundle's fragments hold.
    """
    rows = {
        (entry["side"], delta_id(entry["type"], key_from(entry["key"]), "")): entry
        for entry in fragments["rows"]
    }
    groups: dict[tuple[str, str, Steps], list[str]] = {}
    for delta in deltas:
        entity = delta_id(delta["type"], key_from(delta["key"]), "")
        place = _list_of(delta, rows.get(("before", entity)))
        if place is not None:
            groups.setdefault((entity, *place), []).append(delta["id"])
    notes = {}
    for (entity, field, steps), ids in groups.items():
        sides = [_list_at(rows.get((side, entity)), field, steps) for side in ("before", "after")]
        if len(ids) > 1 and all(0 < len(side) <= MAX_ITEMS for side in sides):
            found = edits(*sides)
            if found and len(found) < len(ids):
                notes[ids[0]] = _sentence(render(field, steps), found)
    return notes


def _list_of(delta: Json, row: Json) -> tuple[str, Steps] | None:
    """The field and the way to the outermost list that the change is in."""
    if delta["op"] != "update" or row is None or row["fields"] is None:
        return None
    try:
        path = parse(delta["path"], fields_from(row["fields"]))
        steps = path.place
    except PathError:
        return None
    index = next((n for n, step in enumerate(steps) if isinstance(step, int)), None)
    return None if index is None else (path.field, steps[:index])


def _list_at(row: Json, field: str, steps: Steps) -> tuple[Value, ...]:
    held: Observed = None
    if row is not None and row["fields"] is not None:
        held = fields_from(row["fields"]).get(field)
    found = at(as_nested(held), steps) if is_value(held) else None
    return found if isinstance(found, tuple) else ()


def _sentence(place: str, found: Sequence[Edit]) -> str:
    parts = []
    for edit in found[:MAX_SHOWN]:
        where = f"moved from [{edit.old}] to [{edit.new}]"
        if edit.old is None:
            where = f"came at [{edit.new}]"
        elif edit.new is None:
            where = f"went from [{edit.old}]"
        parts.append(f"{show(edit.item, 40)} {where}")
    more = len(found) - len(parts)
    parts += [f"and {more} more"] if more else []
    return said(f"{place}: {', '.join(parts)}; the other items are as they were", 1000)
