"""The header in which a tracker's answer names the transactions that its request made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from statediff.model.trace import Mark

HEADER: Final = "X-Transactions"
UNKNOWN: Final = "?"
"""In place of a name: it was made for this request, or may have been, and nobody knows which."""
_NAME: Final = re.compile(r"[1-9][0-9]{0,18}")


def marks_of(source: str, said: Sequence[str]) -> tuple[Mark, ...] | None:
    """The transactions that an answer's headers name; None unless it says them, and says them once.

    Two such headers are two words: one of them may be the agent's, in what the answer repeats.
    """
    if len(said) != 1:
        return None
    names = said[0].split()
    if not all(name == UNKNOWN or _NAME.fullmatch(name) for name in names):
        return None
    return tuple(Mark(source, None if name == UNKNOWN else name) for name in names)
