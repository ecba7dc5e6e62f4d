"""Documents with a place or two damaged, as somebody might write them who means harm."""

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

JUNK = (
    None, True, -1, 0, 10**6, "", "x", "\u0000", [], [[]], {}, {"a": 1}, [1, 2, 3],
    ["int", "x"], ["int", "5"], ["text", "zz"], ["absent"], ["unobserved", "why"],
)  # fmt: skip


def damaged(data: bytes, rng: random.Random) -> Any:
    """The document with something else, nothing, or something more at a place of it."""
    document = json.loads(data)
    for _ in range(rng.randint(1, 2)):
        if document:
            _damage(document, rng)
    return document


def _damage(document: Any, rng: random.Random) -> None:
    *above, last = rng.choice([place for place in _places(document) if place])
    holder = document
    for step in above:
        holder = holder[step]
    how = rng.random()
    if how < 0.25:
        del holder[last]
    elif how < 0.4 and isinstance(holder, list):
        holder.insert(last, deepcopy(rng.choice(JUNK)))
    elif how < 0.5 and isinstance(holder, list):
        holder.append(deepcopy(holder[last]))
    else:
        holder[last] = deepcopy(rng.choice(JUNK))


def _places(document: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield at
    steps = document if isinstance(document, dict) else ()
    steps = range(len(document)) if isinstance(document, list) else steps
    for step in steps:
        yield from _places(document[step], (*at, step))
