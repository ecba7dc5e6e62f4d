"""Values, names and places as a draft writes them: as YAML, and in expressions."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final

from statediff.contract.language.written import name_text, step_text
from statediff.model.json_values import write_json
from statediff.model.paths import Steps
from statediff.model.values import Map, Observed, is_value, printable

MAX_TEXT: Final = 4000
"""Characters of a text that is pinned; a longer one is named, not written out."""
_BARE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*(\.\*)?")
_YAML_WORDS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Words that some reader of YAML takes for something else than text."""


def path_key(path: str) -> str:
    """A name or path as a key, or an item of a list, of YAML."""
    is_bare = _BARE.fullmatch(path) and path.lower() not in _YAML_WORDS
    return path if is_bare else json.dumps(path, ensure_ascii=not path.isprintable())


def near_to(value: float) -> str | None:
    """A binary number as its shortest decimal, and how far from it is still it."""
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - not a number
        return None
    shortest = f"{Decimal(repr(value)):f}"
    least = max(abs(Decimal(repr(value))) * Decimal("1e-12"), Decimal("1e-12"))
    return f"{shortest}, {least.quantize(Decimal(1).scaleb(least.adjusted())):f}"


def yaml_value(value: Observed, is_json: bool = False) -> str | None:
    """A value as YAML for `set`; None where it cannot be written exactly."""
    if isinstance(value, datetime | date):
        return f"{{is: {json.dumps(expression(value))}}}"
    if isinstance(value, Map | tuple):
        text = write_json(value)
        if len(text) > MAX_TEXT or _odd(text):
            return None
        if is_json:
            return json.dumps(text, ensure_ascii=False)
        is_formula = isinstance(value, Map) and [*value] == ["is"]
        return None if is_formula else text
    return _scalar(value)


def _scalar(value: object) -> str | None:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}" if value.is_finite() else None
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str) and len(value) <= MAX_TEXT and not _odd(value):
        return json.dumps(value, ensure_ascii=False)
    return None


def _odd(text: str) -> bool:
    """True if a reader of the draft would not see what is in the text."""
    plain = text.replace("\n", "").replace("\t", "")
    return printable(plain) != plain


def expression(value: Observed) -> str | None:
    """A value as an expression; None where there is no literal of it."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return f'timestamp("{value.isoformat()}")'
        return f'timestamp("{value.astimezone(UTC).isoformat().replace("+00:00", "Z")}")'
    if isinstance(value, date):
        return f'date("{value.isoformat()}")'
    if value is None or not is_value(value):
        return None
    return _scalar(value)


def expression_path(of: str, name: str, steps: Steps) -> str | None:
    """The place as an expression reads it; None where no expression can."""
    if not all(isinstance(step, str | int) for step in steps):
        return None
    return f"{of}.{name_text(name)}" + "".join(map(step_text, steps))
