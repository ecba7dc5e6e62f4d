"""The trace: what the agent did, in order, as far as the harness recorded it.

The trace is evidence about the agent's conduct, never about the state (DESIGN.md §7).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final

from statediff.model.values import Map, Value


class ActionClass(Enum):
    """The action taxonomy of [SSD §V]; `UNKNOWN` ranks as the riskiest."""

    READ = "read"
    REVERSIBLE_UPDATE = "reversible-update"
    CONDITIONAL_UPDATE = "conditional-update"
    IRREVERSIBLE_DELETION = "irreversible-deletion"
    PERMISSION_CHANGE = "permission-change"
    NOTIFICATION = "notification"
    UNKNOWN = "unknown"


NOTHING: Final = Map(())


@dataclass(frozen=True)
class Action:
    """One call with effects, or one read; `id` is minted by the harness or taken from the trace."""

    id: str
    tool: str
    action_class: ActionClass = ActionClass.UNKNOWN
    arguments: Map = NOTHING
    result: Value = None
    error: str | None = None
    principal: str | None = None
    attempt: int = 1
    started_at: datetime | None = None
    finished_at: datetime | None = None
    effects: tuple[str, ...] | None = None
    """What the call itself changed, as ids of deltas (`model.delta.delta_id`): `type[key].field`
    for each field, `type[key]` for an entity that came or went. None where nobody recorded that."""


@dataclass(frozen=True)
class NoAnswer:
    """The agent gave no answer that could be read; `cause` says why. Claims about it FAIL."""

    cause: str


NO_REPLY: Final = NoAnswer("no reply was recorded in this turn")


@dataclass(frozen=True)
class Turn:
    """One message of the user and what the agent did until the next one."""

    message: str
    calls_before: int
    """How many of the trace's actions precede the message."""
    reply: Value | NoAnswer = NO_REPLY


@dataclass(frozen=True)
class Trace:
    """The ordered log. `is_complete` only where nothing could act unrecorded."""

    actions: tuple[Action, ...] = ()
    is_complete: bool = False
    cause: str = "the agent's calls were not recorded"
    """Why the log may be incomplete."""
    is_agent_influenced: bool = False
    """The agent could have written or changed the log: its word, never proof in its favour."""
    turns: tuple[Turn, ...] | None = None
    """The user's messages in order; None where the log does not tell turns apart."""

    @property
    def gap(self) -> str | None:
        """Why there may be calls that the log does not hold; None where there are none."""
        if self.is_agent_influenced:
            return f"forgeable: {self.cause or 'the agent could have written the log'}"
        return None if self.is_complete else f"unrecorded: {self.cause}"
