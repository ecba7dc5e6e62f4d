"""Ties of relational catalogues: the words of foreign keys, and what expressions read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from statediff.model.schema import Effect

ACTIONS: Final = {"CASCADE": Effect.CASCADE, "SET NULL": Effect.SET_NULL}
"""The actions of foreign keys on rows, as standard SQL writes them."""


def action(written: str) -> Effect:
    """The effect of a foreign key, by the words of a catalogue."""
    return ACTIONS.get(written.upper(), Effect.NOTHING)


def closed(reads: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The same, with what generated columns read in place of these: stored or not, they follow."""
    found: dict[str, tuple[str, ...]] = {}
    for name in reads:
        waiting, plain, seen = list(reads[name]), set[str](), {name}
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            if each in reads:
                waiting.extend(reads[each])
            else:
                plain.add(each)
        found[name] = tuple(sorted(plain))
    return found
