"""One system behind the gate: its transaction is prepared, shown, then committed or aborted.

1. `begin` opens a transaction with the agent's account, and `run` makes its statements in it.
2. `prepare` says all that a commit would do: the rows of each type before and after, read at the
   point where the system itself only waits for the word. Nothing is shown to others yet.
3. `commit` makes exactly that hold; `abort` leaves every row and all structure as before. What an
   engine counts by itself (sequences, transaction numbers) may have moved.

Others may write at the same time. What they commit belongs to the world that the agent's own part
is judged in (`statediff_gate.course`), never to that part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from statediff.model.readings import SourceCapture
from statediff.model.schema import Schema
from statediff.model.verdict import Decision
from statediff.systems.base.tool import ToolError
from statediff.systems.relational.tools import Scalar, refuse_transactions
from statediff_gate.course import Changes, Course, Prepared
from statediff_gate.statements import Rewrite, RowEdit, statements

MOST_ROWS = 1000
"""Rows that one statement brings back at most."""


@dataclass(frozen=True)
class Answer:
    """The answer to a statement."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    touched: int | None = None
    has_more: bool = False


Statement: TypeAlias = tuple[str, str, tuple[Scalar, ...]]
"""The source, one SQL statement, and what each `?` in it is."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a transaction.

    It is neither true nor false: a decision has three values. Compare `decision`.
    """

    decision: Decision
    why: str = ""
    """Why it is not ALLOW."""
    is_committed: bool = False
    answers: tuple[Answer, ...] = ()
    """The answer to each statement."""
    digest: str | None = None
    """The digest of what it did, or would have done."""
    record: str | None = None
    """The name of the decision's record; of a hold, what an approval names."""
    changes: Mapping[str, Changes] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        raise TypeError("an outcome is neither true nor false: compare `.decision`")


class Refused(Exception):
    """The system did not take a statement, or cannot prepare what was done; nothing holds."""


def refuse_ends(statement: str) -> None:
    """Raise `Refused` for SQL that would begin or end a transaction."""
    try:
        refuse_transactions(statement)
    except ToolError as error:
        raise Refused(str(error)) from error


class Participant(ABC):
    """A system behind the gate."""

    name: str
    is_durable: ClassVar[bool] = False
    """A prepared transaction survives a crash. Of several systems one may be without that."""
    is_single: ClassVar[bool] = True
    """Its transaction is one with no other system's."""
    product: ClassVar[tuple[str, str] | None] = None
    """What people call it, and its dialect of SQL; None of one that takes no SQL."""
    _course: Course

    def require_account(self) -> None:
        """The agent's account is one that a gate can stand before, if any. `UsageError`."""
        return

    def begin_run(self) -> None:
        """Begin another run: the agent's work so far belongs to the world."""
        self._course.begin_run()

    @abstractmethod
    def begin(self, transaction: str) -> None:
        """A transaction of the agent's is open; its name is for `recover`."""

    @abstractmethod
    def run(self, statement: str, values: Sequence[Scalar] = ()) -> Answer:
        """One statement in it. Raises `Refused`."""

    def rewriting(self, edits: Sequence[RowEdit], schema: Schema) -> Iterable[Rewrite]:
        """The statements of the open transaction that make the edits. `UsageError` for none."""
        return statements(edits, schema, "" if self.product is None else self.product[1])

    @abstractmethod
    def prepare(self) -> Prepared:
        """All that a commit would do. Raises `Refused`."""

    def world(self, moment: str) -> SourceCapture:
        """The world as it was last seen: `before` without the agent's part, `after` with it."""
        return self._course.world(moment)

    def look_again(self) -> Prepared | None:
        """The same where others have committed something since; else None."""
        return None

    @abstractmethod
    def commit(self) -> None:
        """Commit what was prepared. Raises `Refused` where nothing of it holds."""

    @abstractmethod
    def abort(self) -> None:
        """Nothing of the open transaction holds."""

    def close(self) -> None:
        """The systems are left; an open transaction is aborted."""
        self.abort()
