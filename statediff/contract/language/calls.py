"""The calls of a trace, and what the user said, as entities that expressions can range over.

What the log does not say of a call is unobserved, never null: a class nobody knows, a principal or
an instant that was not recorded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from statediff.contract.language.context import EntityRef, EntitySet
from statediff.contract.language.syntax import (
    CALL_TYPE,
    TURN_TYPE,
    CollectionT,
    EntityT,
    Node,
    Type,
    walk,
)
from statediff.model.batches import Row
from statediff.model.explanation import Cause, Reason
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.trace import Action, ActionClass, Trace
from statediff.model.values import Observed, Unobserved, show_key

TRACE: Final = "trace"
"""The side of a call: it stands in neither state."""

MAX_KEPT: Final = 50_000
"""How many calls are kept as entities; the others are made again whenever they are read."""

CALL: Final = EntityType(
    CALL_TYPE,
    ("id",),
    (
        Field("id", Kind.TEXT, is_nullable=False),
        Field("position", Kind.INT, is_nullable=False),
        Field("turn", Kind.INT),
        Field("tool", Kind.TEXT, is_nullable=False),
        Field("class", Kind.TEXT, is_nullable=False),
        Field("arguments", Kind.MAP, is_nullable=False),
        Field("result", Kind.ANY),
        Field("error", Kind.TEXT),
        Field("principal", Kind.TEXT, is_nullable=False),
        Field("attempt", Kind.INT, is_nullable=False),
        Field("started_at", Kind.TIMESTAMP, is_nullable=False),
        Field("finished_at", Kind.TIMESTAMP, is_nullable=False),
    ),
)
"""The members of a call that an expression can read; positions and turns count from 1."""

TURN: Final = EntityType(
    TURN_TYPE,
    ("number",),
    (Field("number", Kind.INT, is_nullable=False), Field("said", Kind.TEXT, is_nullable=False)),
)
"""The members of a user's message that an expression can read; numbers count from 1."""

CALLS: Final[dict[str, Type]] = {
    "call": EntityT(CALL_TYPE),
    "calls": CollectionT(CALL_TYPE),
    "turns": CollectionT(TURN_TYPE),
}
"""The variables of a step about calls: the call at hand, those before it, what the user said."""


def reads_now(node: Node) -> bool:
    """True if the expression reads the state at a moment of the run."""
    return any(getattr(part, "root", None) == "now" for part in walk(node))


class Log:
    """The recorded calls by their position from 0, each made an entity only when it is read."""

    def __init__(self, trace: Trace) -> None:
        self._actions = trace.actions
        self._said = trace.turns
        self._turns = None if trace.turns is None else [t.calls_before for t in trace.turns]
        self._is_whole = trace.gap is None
        self._kept: dict[int, EntityRef] = {}

    def __len__(self) -> int:
        return len(self._actions)

    def call(self, position: int) -> EntityRef:
        """The call at that position."""
        known = self._kept.get(position)
        if known is None:
            action = self._actions[position]
            known = EntityRef(TRACE, CALL_TYPE, (action.id,), self._row(position, action))
            if position < MAX_KEPT:
                self._kept[position] = known
        return known

    def __iter__(self) -> Iterator[EntityRef]:
        return map(self.call, range(len(self)))

    def turn(self, position: int) -> int:
        """The number of the turn in which the call was made; 0 before the first or without any."""
        return bisect_right(self._turns or [], position)

    def first(self, number: int, gap: Cause | None) -> EntitySet:
        """The first calls as a collection; `gap` says why there may be more."""
        return EntitySet(
            lambda: map(self.call, range(number)),
            CALL_TYPE,
            TRACE,
            frozenset() if gap is None else frozenset({gap}),
        )

    def said(self, number: int, gap: Cause | None) -> EntitySet:
        """The user's first messages as a collection; `gap` says why there may be more."""
        why = Reason.TURNS_UNTOLD() if self._said is None else gap
        return EntitySet(
            tuple(map(self._message, range(number))),
            TURN_TYPE,
            TRACE,
            frozenset() if why is None else frozenset({why}),
        )

    def _message(self, at: int) -> EntityRef:
        # Where messages may be missing, nobody knows how many came before.
        unknown = Unobserved("the log may lack what was said before")
        number: Observed = at + 1 if self._is_whole else unknown
        message = (self._said or ())[at].message
        return EntityRef(TRACE, TURN_TYPE, (at + 1,), {"number": number, "said": message})

    def _row(self, position: int, action: Action) -> Row:
        name = show_key((action.id,))

        def known(value: Observed, what: str) -> Observed:
            if value is not None:
                return value
            return Unobserved(f"in {name}, the log does not say {what}")

        # Where calls may be missing, or turns, nobody knows how many came before.
        place: Observed = position + 1
        turn: Observed = self.turn(position) or None
        if not self._is_whole:
            place = turn = Unobserved(f"the log may lack what came before {name}")
        elif self._turns is None:
            turn = Unobserved("the log does not tell turns apart")
        unclassified = action.action_class is ActionClass.UNKNOWN
        return {
            "id": action.id,
            "position": place,
            "turn": turn,
            "tool": action.tool,
            "class": known(None if unclassified else action.action_class.value, "its class"),
            "arguments": action.arguments,
            "result": action.result,
            "error": action.error,
            "principal": known(action.principal, "who made it"),
            "attempt": action.attempt,
            "started_at": known(action.started_at, "when it began"),
            "finished_at": known(action.finished_at, "when it ended"),
        }


def some_call(gap: Cause) -> EntityRef:
    """A call of which nothing is known but that there may be one."""
    return EntityRef(TRACE, CALL_TYPE, (), None, gap)
