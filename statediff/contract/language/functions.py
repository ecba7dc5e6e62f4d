"""The closed list of functions a contract may call, with their shapes and one line of help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Function:
    """`shape` says what the checker expects: quantifier, aggregate, or scalar argument kinds."""

    name: str
    shape: str
    help: str


FUNCTIONS: Final = {
    f.name: f
    for f in (
        Function("all", "quantifier", "every element satisfies the condition; true of nothing"),
        Function("any", "quantifier", "some element satisfies the condition; false of nothing"),
        Function("unique", "elements", "no two elements are equal"),
        Function("sum", "numbers", "the exact sum; zero of nothing"),
        Function("min", "ordered", "the least element; undefined of nothing"),
        Function("max", "ordered", "the greatest element; undefined of nothing"),
        Function("count", "entities", "how many elements there are"),
        Function("exists", "entity", "the entity is there"),
        Function("len", "sized", "characters of a text or items of a list"),
        Function("abs", "number", "the absolute value"),
        Function("within", "within", "within(a, b, t): a and b differ by at most t, exactly"),
        Function("matches", "regex", "the whole text matches the RE2 expression"),
        Function("contains", "text2", "the text contains the other text"),
        Function("starts_with", "text2", "the text starts with the other text"),
        Function("ends_with", "text2", "the text ends with the other text"),
        Function("timestamp", "instant", 'an instant: timestamp("2026-01-31T12:00:00Z")'),
        Function("date", "instant", 'a day: date("2026-01-31")'),
    )
}
