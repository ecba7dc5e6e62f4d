"""Values that came from JSON, as plain objects again, for code that speaks to other programs."""

from __future__ import annotations

from typing import Any

from statediff.model.values import Map, Value


def plain(value: Value) -> Any:
    """Lists and dictionaries; numbers stay exact, so that no `float` comes out."""
    if isinstance(value, Map):
        return {name: plain(each) for name, each in value.items}
    return [plain(each) for each in value] if isinstance(value, tuple) else value
