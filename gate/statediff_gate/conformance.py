"""Tests that every adapter of a gate inherits.

A subclass says how a system is made and opened, and how it is read by itself, past the gate. The
kit runs transactions of each kind against it: what is prepared is all that a commit does, an abort
leaves everything as before, nothing prepared is seen by others, and a process that is killed in
between leaves one or the other.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import pytest

from statediff.capture.source import SourceUnavailable
from statediff.model.schema import COUNTERS
from statediff.model.state import State
from statediff_gate.participant import Participant, Refused

MADE: Final = (
    "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT)",
    (
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customer (id)"
        " ON DELETE CASCADE, status TEXT, cents INTEGER)"
    ),
    "CREATE TABLE audit (what TEXT, orders INTEGER)",
    "CREATE TABLE pair (a INTEGER, b TEXT, n INTEGER, PRIMARY KEY (a, b))",
    "CREATE TABLE spare (id INTEGER PRIMARY KEY)",
    "INSERT INTO customer VALUES (1, 'Ada', 'a@x.org'), (2, 'Bo', NULL), (3, 'Cy ''''', 'c\\d')",
    "INSERT INTO orders VALUES (7, 1, 'paid', 70), (8, 2, 'paid', 80), (9, 2, 'new', NULL)",
    "INSERT INTO audit VALUES ('made', 7), ('made', 7), (NULL, NULL)",
    "INSERT INTO pair VALUES (1, 'x', 1), (1, 'y', 2), (2, 'x', 3)",
)
"""A small shop, in SQL that systems share; a subclass adds a trigger in its own words."""
TRANSACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "update": ("UPDATE orders SET status = 'refunded' WHERE id = 7",),
    "update and back": (
        "UPDATE orders SET cents = 1 WHERE id = 7",
        "UPDATE orders SET cents = 70 WHERE id = 7",
    ),
    "insert": ("INSERT INTO customer VALUES (4, 'It''s', 'd@x.org: \"q\" [1]:')",),
    "insert and delete": (
        "INSERT INTO customer VALUES (44, 'x', NULL)", "DELETE FROM customer WHERE id = 44",
    ),
    "delete by a cascade": ("DELETE FROM customer WHERE id = 2",),
    "another key": ("UPDATE pair SET b = 'z' WHERE a = 1 AND b = 'y'",),
    "keys in turns": (
        "UPDATE pair SET b = 'w' WHERE a = 1 AND b = 'x'",
        "UPDATE pair SET b = 'x' WHERE a = 1 AND b = 'y'",
    ),
    "delete and insert": (
        "DELETE FROM pair WHERE a = 2", "INSERT INTO pair VALUES (2, 'x', 4)",
    ),
    "many": ("UPDATE orders SET cents = coalesce(cents, 0) + 1", "DELETE FROM pair"),
    "rows without a key": ("INSERT INTO audit VALUES ('seen', 8), ('seen', 8)",),
    "null": ("UPDATE customer SET email = NULL", "UPDATE customer SET name = '' WHERE id = 1"),
    "a new table": ("CREATE TABLE more (id INTEGER PRIMARY KEY)", "INSERT INTO more VALUES (1)"),
    "a new column": ("ALTER TABLE customer ADD COLUMN age INTEGER",),
    "a table less": ("DROP TABLE spare",),
    "an index": ("CREATE INDEX by_name ON customer (name)",),
    "a view": ("CREATE VIEW names AS SELECT name FROM customer",),
    "nothing": ("SELECT 1",),
}  # fmt: skip


class AdapterSuite(ABC):
    """The kit. A subclass is named `Test…`."""

    transactions: ClassVar[Mapping[str, tuple[str, ...]]] = TRANSACTIONS
    refused: ClassVar[tuple[str, str]] = (
        "UPDATE orders SET cents = 5", "UPDATE orders SET no_such = 1",
    )  # fmt: skip
    """A statement that the system takes, and then one that it does not."""
    killed: ClassVar[tuple[str, ...]] = ("UPDATE orders SET cents = 71 WHERE id = 7",)
    """The transaction of a gate that is killed."""

    def is_written(self, state: State) -> bool:
        """True where the state has the change that the transaction `killed` writes."""
        return bool(dict(state.tables["orders"].rows())[7,]["cents"] == 71)

    @abstractmethod
    def make(self, tmp_path: Any) -> Any:
        """The system with what `MADE` says, and a trigger that logs orders; where it is."""

    @abstractmethod
    def open(self, place: Any) -> Participant:
        """The adapter in front of it."""

    @abstractmethod
    def look(self, place: Any, like: State | None) -> State:
        """The system, read past the gate."""

    @pytest.fixture
    def place(self, tmp_path: Any) -> Any:
        return self.make(tmp_path)

    @pytest.mark.parametrize("opens", ["once", "each time"])
    def test_what_is_prepared_is_all_that_a_commit_does(self, place: Any, opens: str) -> None:
        system = self.open(place)
        try:
            for name, statements in self.transactions.items():
                if opens != "once":
                    system.close()
                    system = self.open(place)
                prepared = _prepared(system, statements, name)
                assert prepared.doubt is None, name
                state = prepared.after.state
                system.commit()
                require_alike(state, self.look(place, state), name)
                require_alike(system.world("after").state, state, name)
        finally:
            system.close()

    def test_an_abort_leaves_every_row_and_all_structure_as_before(self, place: Any) -> None:
        system = self.open(place)
        before = self.look(place, None)
        try:
            for name, statements in self.transactions.items():
                _prepared(system, statements, name)
                with contextlib.suppress(SourceUnavailable):  # what is locked is not seen
                    require_alike(before, self.look(place, before), f"{name} is seen")
                system.abort()
                require_alike(before, self.look(place, before), name)
                system.begin(named(system, name))
                for each in statements:
                    system.run(each)
                system.abort()
                require_alike(before, self.look(place, before), name)
        finally:
            system.close()

    def test_a_refused_statement_leaves_nothing(self, place: Any) -> None:
        system = self.open(place)
        before = self.look(place, None)
        try:
            system.begin(named(system, "refused"))
            system.run(self.refused[0])
            with pytest.raises(Refused):
                system.run(self.refused[1])
            system.abort()
            require_alike(before, self.look(place, before), "after it")
        finally:
            system.close()

    @pytest.mark.parametrize("moment", ["run", "prepared", "committed"])
    def test_a_gate_that_is_killed_leaves_one_or_the_other(self, place: Any, moment: str) -> None:
        before = self.look(place, None)
        process = multiprocessing.get_context("fork").Process(
            target=_killed, args=(self, place, moment)
        )
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        self.open(place).close()  # ends what a gate that is gone left prepared
        assert self.is_written(self.look(place, before)) == (moment == "committed")
        if moment != "committed":
            require_alike(before, self.look(place, before), "after it")


def differing(one: State, other: State) -> list[str]:
    """The types that two states show otherwise, but for counters and where the file lies."""
    names = {*one.tables} | {*other.tables}
    aside = {COUNTERS, "db.storage"}
    return sorted(n for n in names - aside if repr(_shown(one, n)) != repr(_shown(other, n)))


def require_alike(one: State, other: State, what: str) -> None:
    """Nothing differs between the two; else `AssertionError` names a first row of each type."""
    firsts = {}
    for name in differing(one, other):
        rows, others = ([*map(repr, _shown(each, name))] for each in (one, other))
        firsts[name] = (
            [r for r in rows if r not in others][:1],
            [r for r in others if r not in rows][:1],
        )
    assert not firsts, f"{what}: {firsts}"


def _shown(state: State, name: str) -> Any:
    table = state.tables.get(name)
    return [] if table is None else [(k, dict(r)) for k, r in table.rows()]


def _prepared(system: Participant, statements: Sequence[str], name: str) -> Any:
    system.begin(named(system, name))
    for each in statements:
        system.run(each)
    return system.prepare()


def named(system: Participant, what: str) -> str:
    """The name of a transaction that the gate of this system would give."""
    journal = getattr(system, "_journal", None)
    return what if journal is None else str(journal.name(what.replace(" ", "-")))


def _killed(suite: AdapterSuite, place: Any, moment: str) -> None:
    system = suite.open(place)
    system.begin(named(system, "killed"))
    for each in suite.killed:
        system.run(each)
    if moment != "run":
        system.prepare()
    if moment == "committed":
        system.commit()
    os.kill(os.getpid(), signal.SIGKILL)
