"""What was worked out last, for the next who asks for the same.

Threads may ask at once, and a process may be forked meanwhile: there is no lock to be left held.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from typing import Final, Generic, TypeVar

V = TypeVar("V")

ENDS_KEPT: Final = 64
"""States after that are remembered beside one before: the rollouts of a task are a few dozen."""
_ENDS_BYTES: Final = 64 * 1024 * 1024


def ends_kept(size: int) -> int:
    """How many are, of a state of `size` bytes: each may come to hold as much."""
    return min(ENDS_KEPT, _ENDS_BYTES // max(size, 1))


class Recent(Generic[V]):
    """At most so many values, those asked for last; with none, nothing is kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        """What was kept under an equal key; None where nothing was, or is no longer."""
        found = self._kept.get(key)
        if found is not None:
            with suppress(KeyError):  # another thread was first to drop it
                self._kept.move_to_end(key)
        return found

    def keep(self, key: Hashable, value: V) -> None:
        """The value, as the one asked for last."""
        self._kept[key] = value
        with suppress(KeyError):
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
