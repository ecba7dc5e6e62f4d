"""One system behind the gate: its transaction is prepared, shown, then committed or aborted.

1. `begin` opens a transaction with the agent's account, and `run` makes its statements in it.
2. `prepare` says all that a commit would do: the rows of each type before and after, read at the
   point where the system itself only waits for the word. Nothing is shown to others yet.
3. `commit` makes exactly that hold; `abort` leaves every row and all structure as before. What an
   engine counts by itself (sequences, transaction numbers) may have moved: `counters` names it.

Others may write at the same time. What they commit belongs to the world that the agent's own part
is judged in (`statediff_gate.course`), never to that part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeAlias

from statediff.model.batches import Row
from statediff.model.readings import SourceCapture
from statediff.systems.base.tool import ToolError
from statediff.systems.relational.tools import Scalar, refuse_transactions

MOST_ROWS = 1000
"""Rows that one statement brings back at most."""


@dataclass(frozen=True)
class Edits:
    """One transaction's changes of one type: the rows that are gone, and those that have come."""

    gone: tuple[Row, ...]
    come: tuple[Row, ...]


Changes: TypeAlias = Mapping[str, Edits]
"""Type → what became of its rows; of a keyed type each key occurs once on a side."""


@dataclass(frozen=True)
class Answer:
    """The answer to a statement."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    touched: int | None = None
    has_more: bool = False


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """All that a commit would do."""

    before: SourceCapture
    """The world without anything that the agent did since the gate was opened."""
    after: SourceCapture
    """The same with all that the agent did, this transaction included."""
    changes: Changes = field(repr=False)
    """Those of this transaction alone."""
    doubt: str | None = None
    """Why the agent's own part is not known for certain; then nothing may be allowed."""


class Refused(Exception):
    """The system did not take a statement, or cannot prepare what was done; nothing holds."""


def refuse_ends(statement: str) -> None:
    """Raise `Refused` for SQL that would begin or end a transaction."""
    try:
        refuse_transactions(statement)
    except ToolError as error:
        raise Refused(str(error)) from error


class Participant(Protocol):
    """A system behind the gate."""

    name: str
    is_durable: ClassVar[bool]
    """A prepared transaction survives a crash. Of several systems one may be without that."""
    is_single: ClassVar[bool]
    """Its transaction is one with no other system's."""
    counters: ClassVar[tuple[str, ...]]
    """Counters that an aborted transaction may leave moved."""
    product: ClassVar[tuple[str, str] | None]
    """What people call it, and its dialect of SQL; None of one that takes no SQL."""

    def require_account(self) -> None:
        """The agent's account is one that a gate can stand before. `UsageError`."""

    def begin_run(self) -> None:
        """Begin another run: the agent's work so far belongs to the world."""

    def begin(self, transaction: str) -> None:
        """A transaction of the agent's is open; its name is for `recover`."""

    def run(self, statement: str, values: Sequence[Scalar] = ()) -> Answer:
        """One statement in it. Raises `Refused`."""

    def prepare(self) -> Prepared:
        """All that a commit would do. Raises `Refused`."""

    def world(self, moment: str) -> SourceCapture:
        """The world as it was last seen: `before` without the agent's part, `after` with it."""

    def look_again(self) -> Prepared | None:
        """The same where others have committed something since; else None."""

    def commit(self) -> None:
        """Commit what was prepared. Raises `Refused` where nothing of it holds."""

    def abort(self) -> None:
        """Nothing of the open transaction holds."""

    def close(self) -> None:
        """The systems are left; an open transaction is aborted."""
