"""Others who work in a sandbox while the agent does: what its file declares, carried out.

Each works on a connection of its own, in a thread of this process, from just before the agent
starts until it ends. What they do is drawn from a seed; when they get to do it depends on the
machine and on the agent. Who made a transaction is never anybody's word: the connection that
committed one names it, out of the agent's reach (`OthersWork`). Where a connection cannot say
whether it committed, that is a gap.

They do nothing in a database whose definitions the agent changed: what a trigger of the agent's
writes in their transactions would be theirs.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Protocol, Self, runtime_checkable

from statediff.capture.own_part import Amounts, OthersWork
from statediff.contract.document.sandboxfile import MARK, OperationEntry, OtherEntry
from statediff.model.readings import Capture

OTHERS_FORM: Final = "statediff.others/1"
MAX_OPERATIONS: Final = 2000
"""The most operations of one of them in a trial: feeds follow 10,000 transactions of a source."""
_END_SECONDS: Final = 10.0


class WriterBusy(Exception):
    """The operation could not be done now, and nothing of it was."""


class WriterEnded(Exception):
    """The writer does nothing more. What it was about to do is undone."""


class WriterUnsure(WriterEnded):
    """The writer may have committed a transaction that it cannot name."""


class Writer(Protocol):
    """Somebody's connection to a system. All raise the exceptions above, and no others."""

    def begin(self) -> None:
        """A transaction begins in which nobody else writes."""

    def query(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows of a query; `?` stands for a value."""

    def execute(self, sql: str, values: Sequence[Any]) -> None:
        """One statement."""

    def commit(self) -> str | None:
        """The name under which the source's history knows the transaction; None: none was made."""

    def rollback(self) -> None:
        """Nothing of the transaction was done."""

    def close(self) -> None:
        """The connection is closed."""


@runtime_checkable
class SharedSystem(Protocol):
    """A system in which others can work beside the agent, and whose feed names what they do."""

    def writer(self) -> Writer:
        """A connection of its own, to the system as it was just reset."""


@dataclass(frozen=True, kw_only=True)
class Deed:
    """One transaction of somebody beside the agent."""

    by: str
    operation: str
    source: str
    transaction: str
    values: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """As a document, without floats."""
        values = {k: v if isinstance(v, (int, str)) else str(v) for k, v in self.values.items()}
        return {
            "by": self.by,
            "operation": self.operation,
            "source": self.source,
            "transaction": self.transaction,
            "values": values,
        }


@dataclass
class Others:
    """Those who work beside the agent, in one trial. A context manager: they work in its block."""

    entries: Mapping[str, OtherEntry]
    writers: Mapping[str, Writer]
    amounts: Amounts
    seed: str
    deeds: list[Deed] = field(default_factory=list)
    """In the order of their commits within each source."""
    ends: dict[str, str] = field(default_factory=dict)
    """Who stopped before the agent did, and why."""
    _gaps: dict[str, str] = field(default_factory=dict)
    _halt: threading.Event = field(default_factory=threading.Event)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        for name, entry in self.entries.items():
            thread = threading.Thread(
                target=self._work, args=(name, entry), name=f"other-{name}", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Nobody works any more; may be called again."""
        self._halt.set()
        for thread in self._threads:
            thread.join(_END_SECONDS)
            if thread.is_alive():
                self._gaps |= {entry.on: "somebody did not stop" for entry in self.entries.values()}
        self._threads.clear()

    def work(self) -> tuple[OthersWork, ...]:
        """Their work, by source, once they stopped."""
        return tuple(
            OthersWork(
                source=source,
                transactions=frozenset(d.transaction for d in self.deeds if d.source == source),
                gap=self._gaps.get(source),
            )
            for source in sorted({entry.on for entry in self.entries.values()})
        )

    def counts(self) -> tuple[tuple[str, int], ...]:
        """Who made how many transactions, sorted by name."""
        return tuple((n, sum(d.by == n for d in self.deeds)) for n in sorted(self.entries))

    def as_json(self, before: Capture, after: Capture) -> dict[str, Any]:
        """Their work between two captures, as a document for the trial's folder."""
        return {
            "form": OTHERS_FORM,
            "seed": self.seed,
            "ends": dict(sorted(self.ends.items())),
            "observed": {
                moment: {part.reading.source: part.reading.digest for part in capture.parts}
                for moment, capture in (("before", before), ("after", after))
            },
            "transactions": [deed.as_json() for deed in self.deeds],
        }

    def _work(self, name: str, entry: OtherEntry) -> None:
        draw = random.Random(f"{self.seed}/{name}")  # noqa: S311 - a schedule, no secret
        writer = self.writers[name]
        names = tuple(entry.operations)
        weights = [entry.operations[each].weight for each in names]
        try:
            for _ in range(MAX_OPERATIONS):
                if self._halt.wait(draw.uniform(0, 2 / entry.per_second)):
                    return
                [chosen] = draw.choices(names, weights)
                with self._turn:
                    self._do(name, entry.on, chosen, entry.operations[chosen], writer, draw)
        except WriterUnsure as error:
            self._gaps[entry.on] = f"{name} may have made a transaction without a name: {error}"
        except WriterEnded as error:
            self.ends[name] = str(error)
        finally:
            writer.close()

    def _do(
        self,
        by: str,
        source: str,
        name: str,
        operation: OperationEntry,
        writer: Writer,
        draw: random.Random,
    ) -> None:
        try:
            writer.begin()
        except WriterBusy:
            return
        try:
            values = _drawn(operation, writer, draw)
            if values is None:
                writer.rollback()
                return
            for statement in operation.statements:
                writer.execute(*_bound(statement, values))
        except WriterBusy:
            writer.rollback()
            return
        transaction = writer.commit()
        if transaction is not None:
            self.deeds.append(
                Deed(by=by, operation=name, source=source, transaction=transaction, values=values)
            )


def _drawn(operation: OperationEntry, writer: Writer, draw: random.Random) -> dict[str, Any] | None:
    """The values of an operation; None where a query has no row to choose."""
    values: dict[str, Any] = {}
    for name, how in operation.draw.items():
        sql = how if isinstance(how, str) else how.sql
        if sql is not None:
            choices: Iterable[Any] = [row[0] for row in writer.query(*_bound(sql, values))]
            if not choices:
                return None
            values[name] = draw.choice(list(choices))
        elif isinstance(how, str) or how.one_of is not None:
            values[name] = draw.choice(() if isinstance(how, str) else how.one_of or ())
        else:
            values[name] = draw.randint(how.from_ or 0, how.to or 0)
    return values


def _bound(statement: str, values: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """The statement with `?` for each argument, and their values in order."""
    names = [found[1] for found in MARK.finditer(statement) if found[1]]
    return MARK.sub(lambda m: "?" if m[1] else m[0], statement), [values[name] for name in names]
