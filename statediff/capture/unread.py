"""A trial is judged by what can be read of its captures, even if a part of that is lost meanwhile.

Captures lie in a store of chunks, which may fail between the capture and the judgement. Then the
sources that can no longer be read are unobserved, by the environment, and judging goes on with the
rest. If that fails too, nothing is known of the state after the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from statediff.capture.source import unread
from statediff.capture.take import unobserved_state
from statediff.errors import ContractError
from statediff.model.explanation import unread_because
from statediff.model.readings import NO_HISTORY, Capture, SourceCapture
from statediff.model.state import MemoryChunks
from statediff.total import in_any_case, words_of

T = TypeVar("T")
_REFUSALS: Final = (ContractError,)


def judged_in_any_case(
    judge: Callable[[Capture, Capture], T], before: Capture, after: Capture
) -> T:
    """Judge the captures; a `ContractError` is raised at once."""

    def by_the_rest(error: Exception) -> T:
        cause = unread_because(words_of(error))
        one, two = (replace(c, parts=tuple(map(_as_read, c.parts))) for c in (before, after))
        if not (is_as_read(one, before) and is_as_read(two, after)):
            return in_any_case(lambda: judge(one, two), nothing_known, _REFUSALS)
        return judge(before, lose_states(after, cause))

    def nothing_known(error: Exception) -> T:
        cause = unread_because(words_of(error))
        return judge(lose_states(before, cause), lose_states(after, cause))

    return in_any_case(lambda: judge(before, after), by_the_rest, _REFUSALS)


def is_as_read(one: Capture, other: Capture) -> bool:
    """True where every source of one is that of the other."""
    return all(a is b for a, b in zip(one.parts, other.parts, strict=True))


def lose_states(capture: Capture, cause: str) -> Capture:
    """The capture without anything known of it."""
    return Capture(tuple(_lose(part, cause) for part in capture.parts), NO_HISTORY)


def _as_read(part: SourceCapture) -> SourceCapture:
    def read() -> SourceCapture:
        for table in part.state.tables.values():
            for _ in table.batches():
                pass
        return part

    return in_any_case(read, lambda error: _lose(part, unread_because(words_of(error))))


def _lose(part: SourceCapture, cause: str) -> SourceCapture:
    was = part.reading
    return SourceCapture(
        unread(was.id, was.source, was.as_of, cause, kind=was.kind, clock=was.clock),
        unobserved_state(part.state.schema, MemoryChunks(), cause),
    )
