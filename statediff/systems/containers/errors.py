"""What the engine answers where it does not do what it is asked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from docker.errors import APIError, NotFound


def gone(removal: Callable[[], object]) -> None:
    """What was to be removed is gone, or somebody else is removing it."""
    with contextlib.suppress(NotFound):
        try:
            removal()
        except APIError as error:
            if error.status_code != 409:  # somebody else is removing it
                raise


def said(error: Exception) -> str:
    """What the engine said, fit for a message."""
    told = getattr(error, "explanation", None) or str(error)
    return str(told).strip().rstrip(".")[:600]
