"""Histories to judge: the states that sources went through, as their feeds would tell them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from statediff.capture.feed import Seen, history_of, with_history
from statediff.kernel import Evaluated
from statediff.model.readings import Capture, History, Transaction
from statediff.model.state import EntityType, State
from tests.judging import T0, capture, part, run, state


def clock() -> datetime:
    return T0


def seen(source: str, between: Iterable[State], gap: str | None = None) -> Seen:
    """A feed's history: one transaction a state; without a gap, the last state is that after."""
    return Seen(
        tuple(
            Transaction(f"t{n}", source, str(10 * n), None, of)
            for n, of in enumerate(between, start=1)
        ),
        gap,
    )


def told(after: Capture, *feeds: tuple[str, Seen]) -> Capture:
    """The capture after with what these feeds saw."""
    return with_history(after, [history_of(s, what, after, clock) for s, what in feeds])


def course(
    body: str,
    before: Any,
    between: Iterable[Any],
    after: Any,
    *,
    gap: str | None = None,
    types: Iterable[EntityType] | None = None,
    **rest: Any,
) -> Evaluated:
    """The judged trial of one source that went through these states, in order.

    Without a gap the last transaction left the state after; `between` lacks it.
    """

    def whole(rows: Any) -> State:
        if isinstance(rows, State):
            return rows
        return state(rows) if types is None else state(rows, types=types)

    states = [whole(rows) for rows in between]
    last = whole(after)
    first = whole(before)
    if gap is None and (states[-1] if states else first).digest() != last.digest():
        states.append(last)
    end = told(capture("after", part("after", last)), ("db", seen("db", states, gap)))
    return run(body, capture("before", part("before", first)), end, **rest)


def without_history(after: Capture) -> Capture:
    return replace(after, history=History())
