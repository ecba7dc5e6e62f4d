"""The same question asked of a model several times, each time with a seed of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from statediff.agents.chat import Endpoint, RequestRefused
from statediff.agents.spending import Budget, Usage


@dataclass(frozen=True)
class Reply:
    """What the model said under one seed; or None, and why its server refused to ask it."""

    seed: int
    said: str | None
    refusal: str
    usage: Usage


def replies(
    endpoint: Endpoint, messages: Sequence[Any], times: int, seed: int, budget: Budget
) -> Iterator[Reply]:
    """One reply a seed, from `seed` on. `AdapterError` if the model, or money, cannot be had."""
    for each in range(seed, seed + times):
        budget.require_open()
        deadline = time.monotonic() + endpoint.answer_seconds * 2
        try:
            said = replace(endpoint, seed=each).ask(messages, (), deadline)
        except RequestRefused as refused:
            yield Reply(each, None, str(refused), Usage(1))
        else:
            budget.spend(said.usage)
            yield Reply(each, said.text, "", said.usage)
