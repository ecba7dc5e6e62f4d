"""The trace: what the agent did, in order, as far as the harness recorded it.

The trace is evidence about the agent's conduct, never about the state (docs/design.md §7).
"""

from __future__ import annotations

import hashlib
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import Final

from statediff.errors import UsageError
from statediff.model.explanation import is_unread
from statediff.model.values import Map, Unobserved, Value


class ActionClass(Enum):
    """The action taxonomy of [SSD §V]; `UNKNOWN` ranks as the riskiest."""

    READ = "read"
    REVERSIBLE_UPDATE = "reversible-update"
    CONDITIONAL_UPDATE = "conditional-update"
    IRREVERSIBLE_DELETION = "irreversible-deletion"
    PERMISSION_CHANGE = "permission-change"
    SCHEMA_CHANGE = "schema-change"
    NOTIFICATION = "notification"
    UNKNOWN = "unknown"


NOTHING: Final = Map(())
MAX_EXCERPT: Final = 2000
"""Characters kept of a text that is recorded beside a call."""


@dataclass(frozen=True)
class Excerpt:
    """A text by its digest, of which only the beginning is kept."""

    digest: str
    """`sha256:` of the whole text in UTF-8."""
    characters: int
    """How many the whole text has."""
    beginning: str

    @staticmethod
    def of(text: str) -> Excerpt:
        """The excerpt of a whole text."""
        raw = text.encode("utf-8", errors="surrogatepass")
        digest = "sha256:" + hashlib.sha256(raw).hexdigest()
        beginning = text[:MAX_EXCERPT].encode("utf-8", errors="replace").decode("utf-8")
        return Excerpt(digest, len(text), beginning)


@dataclass(frozen=True)
class Mark:
    """A transaction of a source that a call made, as the one who carried the call out knows it.

    `name` is one under which the source's history tells it (`model.readings.Transaction`): its
    position (a frame of the log, an LSN), its own id, a request's or message's id, a commit. None:
    the call wrote to the source, and which transactions these were is not known.
    """

    source: str
    name: str | None = None


@dataclass(frozen=True)
class Action:
    """One call with effects, or one read; `id` is minted by the harness or taken from the trace.

    Calls made within another call name it as their `parent`: a tree of spans under one trace.
    """

    id: str
    tool: str
    _: KW_ONLY
    action_class: ActionClass = ActionClass.UNKNOWN
    arguments: Map | Unobserved = NOTHING
    result: Value | Unobserved = None
    error: str | None = None
    principal: str | None = None
    attempt: int = 1
    started_at: datetime | None = None
    finished_at: datetime | None = None
    effects: tuple[str, ...] | None = None
    """The changes that the call itself made, as ids of deltas (`model.delta.delta_id`):
    `type[key].field` for each field, `type[key]` for an entity that came or went. None where nobody
    recorded that.
    """
    parent: str | None = None
    """The id of the call within which it was made; None at the top, or where nobody recorded it."""
    transactions: tuple[Mark, ...] | None = None
    """All the transactions it made. None where nobody recorded that; empty: it made none."""
    context: Excerpt | None = None
    """The context that the agent was offered before it called: tools, messages, documents."""
    messages: Excerpt | None = None
    """The agent's words beside the call."""


@dataclass(frozen=True)
class NoAnswer:
    """The agent gave no answer that could be read; `cause` says why. Claims about it FAIL."""

    cause: str

    @property
    def is_unread(self) -> bool:
        """The agent is no reason: there may be an answer, and claims about it are UNKNOWN."""
        return is_unread(self.cause)


NO_REPLY: Final = NoAnswer("no reply was recorded in this turn")

BY_ITSELF: Final = "by-itself"
CRASHED: Final = "crashed"
KILLED: Final = "killed"
TIMED_OUT: Final = "timed-out"
ENDINGS: Final = {
    BY_ITSELF: "ended by itself",
    CRASHED: "crashed",
    KILLED: "was killed",
    TIMED_OUT: "timed out",
}
"""How a run can end, in the word of a contract and in that of a sentence.

It ended by itself with exit code 0, a value or a last message; it crashed with another exit code,
an exception or a refused request; a signal killed it, or it ended the process that watches over it;
it timed out when its time or its number of turns was over, and was stopped.
"""


@dataclass(frozen=True)
class RunEnding:
    """How a run ended, as the one who ran the agent saw it."""

    how: str
    """One of `ENDINGS`."""
    exit_code: int | None = None
    """The exit code of a program; None where it was stopped, or is no program."""

    @staticmethod
    def named(how: str) -> RunEnding:
        """The ending that somebody names. `UsageError` where there is none like it."""
        if how not in ENDINGS:
            raise UsageError(f"no run ends {how!r}; expected one of {', '.join(ENDINGS)}")
        return RunEnding(how)


ENDED_BY_ITSELF: Final = RunEnding(BY_ITSELF)
ENDED_IN_CRASH: Final = RunEnding(CRASHED)
ENDED_BY_TIMEOUT: Final = RunEnding(TIMED_OUT)
ENDED_BY_KILL: Final = RunEnding(KILLED)


@dataclass(frozen=True)
class Turn:
    """One message of the user and what the agent did until the next one."""

    message: str
    calls_before: int
    """How many of the trace's actions precede the message."""
    reply: Value | NoAnswer = NO_REPLY
    gate: int | None = None
    """Which of the contract's turns it belongs to, from 1, where the harness itself spoke for the
    user; None: the n-th message is the n-th turn's."""
    attempt: int = 1
    """1 until the gate is judged; one more with each message that asks for a repair."""
    left: tuple[tuple[str, int], ...] = ()
    """(source, n), …: the state that the turn left is the one after its n-th transaction, as the
    harness saw when it looked. Nothing of a source that it could not see at rest."""


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
    observed: tuple[Action, ...] = ()
    """The actions as the systems' histories tell them, where no harness recorded the calls: one for
    each transaction. No clause about calls reads them; they say which of them made a change.
    """

    @property
    def is_spoken(self) -> bool:
        """The harness spoke for the user: the turns are its own record, whatever the calls are."""
        return any(turn.gate is not None for turn in self.turns or ())

    @cached_property
    def told(self) -> tuple[Action, ...]:
        """Who may have made a change, by nobody's word but the harness's and the systems'."""
        return self.observed if self.is_agent_influenced else (*self.actions, *self.observed)

    @cached_property
    def gap(self) -> str | None:
        """Why there may be calls that the log does not hold; None where there are none."""
        if self.is_agent_influenced:
            return f"forgeable: {self.cause or 'the agent could have written the log'}"
        return None if self.is_complete else f"unrecorded: {self.cause}"


NO_TRACE: Final = Trace()
NO_ANSWER: Final = NoAnswer("none was given")
