"""Text from a record, safe to print."""

from __future__ import annotations

from typing import Final

from statediff.model.values import printable

TEXT_LIMIT: Final = 400


def said(text: object, limit: int = TEXT_LIMIT) -> str:
    """The text, safe to print: what steers a terminal is spelled out, what is long is cut."""
    raw = str(text)
    return printable(raw if len(raw) <= limit else raw[: limit - 1] + "…")
