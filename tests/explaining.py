"""Causes and reasons in words, for tests that compare what they say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from statediff.contract.language.context import Undefined, Unknown
from statediff.model.explanation import Cause, cause
from statediff.model.sentences import sentence


def in_words(causes: Iterable[Cause]) -> list[str]:
    """Each cause as a sentence, in the order given."""
    return [sentence(cause(each)) for each in causes]


def result_in_words(result: Any) -> Any:
    """An evaluated result with its causes, or its reason, as sentences."""
    if isinstance(result, Unknown):
        return replace(result, causes=frozenset(in_words(result.causes)))
    if isinstance(result, Undefined):
        return Undefined(sentence(cause(result.reason)))
    return result
