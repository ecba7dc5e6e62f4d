"""Draws that depend on a seed and a name alone: on no generator's state, no hash seed, no order.

Sorting by `lot` is a shuffle, and taking the first n of it is a sample, that every machine repeats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def lot(seed: int, *names: str | int) -> int:
    """A number of 64 bits for these names."""
    joined = "\x1f".join(str(name) for name in (seed, *names))
    return int.from_bytes(hashlib.blake2b(joined.encode(), digest_size=8).digest(), "big")


def below(limit: int, seed: int, *names: str | int) -> int:
    """A number from 0 to `limit` - 1."""
    return lot(seed, *names) % limit


def choose(options: Sequence[T], seed: int, *names: str | int) -> T:
    """One of the options."""
    return options[below(len(options), seed, *names)]
