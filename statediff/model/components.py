"""Which stage of the evaluator a finding or an error is about [SSD §V, §VII].

A bundle records the stage that its finding's code belongs to. What a clause waits for may come from
a later stage: a rule of ν had no content to work on (canonicalize), or rows without keys were too
many to compare (diff). The cause says so, and decides before the code does. What is wrong with a
bundle itself is the evidence stage's, and an error, for then there is no finding to trust.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from statediff.model.codes import Truth
from statediff.model.columns import TOO_MANY_TO_COMPARE
from statediff.model.explanation import ANOTHER_KEY, NEEDS_CONTENT

Json: TypeAlias = Any

CAPTURE: Final = "capture"
RESOLVE: Final = "resolve"
CANONICALIZE: Final = "canonicalize"
DIFF: Final = "diff"

_WORDS: Final = (
    (NEEDS_CONTENT, CANONICALIZE),
    (TOO_MANY_TO_COMPARE, DIFF),
    (ANOTHER_KEY, RESOLVE),
)
"""Words of a cause, and the stage that records it. None of them is ever a value of a system."""


def component_of(finding: Json) -> str:
    """The stage that owns what the finding says; of a decided one the stage of its code."""
    recorded = str(finding["component"])
    if finding["truth"] != Truth.UNKNOWN.value or recorded != CAPTURE:
        return recorded
    for text in _texts((finding.get("explanation", ""), finding["missing"])):
        for words, component in _WORDS:
            if words in text:
                return component
    return recorded


def _texts(of: Json) -> Iterator[str]:
    if isinstance(of, str):
        yield of
    elif isinstance(of, dict):
        for part in of.values():
            yield from _texts(part)
    elif isinstance(of, list | tuple):
        for part in of:
            yield from _texts(part)
