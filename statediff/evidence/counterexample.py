"""The counterexample of a trial: the one finding that shows, with its clause and its evidence.

It is a piece of its own, so that a copy can show why a run was not right without showing what else
was read. It may be seen by anyone who may see everything that its clause read: the sources whose
types stand in the clause's read-set, and no others. What reads the answer or the trace counts as
all sources, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Json = Any
MAX_DELTAS: Final = 10
_KEPT: Final = ("clause", "code", "stage", "truth", "explanation", "missing", "evidence", "witness")
_SIDES: Final = ("before:", "after:")


def counterexample(judgement: Json) -> Json | None:
    """The finding that decides first; None where every clause holds.

    `deltas` holds the first of the changes it names and `more_deltas` how many others there are.
    """
    loose = [finding for finding in judgement["findings"] if finding["truth"] != "HOLDS"]
    if not loose:
        return None
    fails = [finding for finding in loose if finding["truth"] == "FAILS"]
    # The frame needs everything; of what is unknown, a clause that asks for less says more.
    found = fails[0] if fails else min(loose, key=lambda each: bool(each["clause"] == "frame"))
    named = set(found["deltas"][:MAX_DELTAS])
    return {
        **{name: found[name] for name in _KEPT},
        "deltas": [delta for delta in judgement["deltas"] if delta["id"] in named],
        "more_deltas": max(0, len(found["deltas"]) - MAX_DELTAS),
    }


def types_read(
    example: Json, read_sets: Sequence[Mapping[str, Sequence[str]]]
) -> frozenset[str] | None:
    """The entity types whose values may stand in it; None where that cannot be known.

    `read_sets` are those of every matching, clause → what it read.
    """
    found = {str(row["type"]) for row in example["witness"]["rows"]}
    found |= {str(delta["type"]) for delta in example["deltas"]}
    sets = [each.get(example["clause"], ("",)) for each in read_sets]
    read = {name for each in sets for name in _types(each)}
    # What is missing is described in the words of whichever source did not deliver it.
    if None in read or example["missing"]:
        return None
    return frozenset(found | {name for name in read if name is not None})


def _types(read_set: Sequence[str]) -> Iterator[str | None]:
    for name in read_set:
        side = next((side for side in _SIDES if name.startswith(side)), None)
        yield None if side is None or "[" not in name else name.removeprefix(side).split("[", 1)[0]
