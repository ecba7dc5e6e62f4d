"""Tools for an MCP client whose writes go through a gate.

They are the tools of any database: `NAME_query` reads, `NAME_execute` changes. A change that the
gate does not allow is an error of the tool that says whether it was denied or held, why, and how
the hold is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from statediff.errors import UsageError
from statediff.model.trace import Mark
from statediff.model.verdict import Decision
from statediff.systems.base.tool import Tool, ToolError
from statediff.systems.relational.tools import Rows, Scalar, database_tools
from statediff_gate.gate import Gate, Transaction
from statediff_gate.participant import Refused


class GatedDatabase:
    """One system behind the gate, as the tools of databases use one."""

    def __init__(self, gate: Gate, source: str) -> None:
        self._gate, self._source = gate, source

    @contextmanager
    def session(self, *, writes: bool) -> Iterator[GatedSession]:
        with self._gate.transaction() as begun:
            yield GatedSession(begun, self._source, writes)


@dataclass(frozen=True)
class GatedSession:
    """One transaction; without `commit` nothing of it holds."""

    begun: Transaction
    source: str
    writes: bool

    def run(self, statement: str, values: Sequence[Scalar] = ()) -> Rows:
        try:
            found = self.begun.run(statement, values, self.source)
        except Refused as error:
            raise ToolError(str(error)) from error
        return Rows(found.names, iter(found.rows), found.touched)

    def commit(self, source: str) -> tuple[Mark, ...]:
        outcome = self.begun.commit()
        if not outcome.is_committed:
            how = "held for a person" if outcome.decision is Decision.HOLD else "denied"
            raise ToolError(f"nothing was changed; {how}: {outcome.why} ({outcome.record})")
        return ()


def gated_tools(gate: Gate) -> tuple[Tool[Any], ...]:
    """The tools of all systems behind the gate."""
    found: list[Tool[Any]] = []
    for source in gate.sources:
        product = gate.participant(source).product
        if product is None:
            raise UsageError(f"{source}: takes no SQL")
        found += database_tools(source, GatedDatabase(gate, source), *product)
    return tuple(found)
