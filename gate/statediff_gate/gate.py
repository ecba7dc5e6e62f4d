"""A transaction of an agent's, judged before it is committed.

1. The statements run in one transaction of each system (`statediff_gate.participant`).
2. Every system prepares and says what a commit would do.
3. The contract is asked how the run stands with it: *allow*, *hold* or *deny*, by the prefix
   verdict over the joint changes of all systems since the gate was opened [decision 72].
4. What is allowed is committed everywhere; all else is rolled back everywhere.
5. A hold keeps the statements, what they did and its digest (`statediff_gate.holds`). With an
   approval of that digest they run again, and must do the same.
6. The decision is written down under a signature before the agent hears of it.

The gate decides by nothing but the judgement: a doubt about the agent's own part, a system that
cannot prepare, or a judgement that fails is never *allow*.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from statediff.contract.file import ContractFile
from statediff.errors import StorageError, UsageError
from statediff.model.readings import Capture, SourceCapture
from statediff.model.verdict import Decision
from statediff.packs import known_sandbox
from statediff.scoring import contract_of
from statediff.systems.relational.tools import Scalar
from statediff.workspace.inputs import refinements
from statediff_gate.course import Prepared, rows_alone, structural
from statediff_gate.deciding import Deciding
from statediff_gate.digests import digest_of
from statediff_gate.holds import Approval, Hold
from statediff_gate.journal import Journal
from statediff_gate.participant import Answer, Outcome, Participant, Refused, Statement
from statediff_gate.records import Records
from statediff_gate.sqlite import SqliteGate
from statediff_gate.systems import Place, open_participants

_LOOKS: Final = 3
"""How often what others commit in between is judged again, where they do not stop."""


class Gate:
    """A contract in front of the systems at some URLs, until it is closed.

    `systems` maps the name of each source to its path or URL; `accounts` the name to the URL with
    the account that the agent's statements run under, where that is another one. `folder` gets the
    records; `key` signs them. One transaction runs at a time.
    """

    def __init__(
        self,
        contract: ContractFile | str | Path,
        systems: Mapping[str, Place],
        *,
        folder: str | Path,
        key: str | Path,
        accounts: Mapping[str, str] | None = None,
        schema: str | Path | None = None,
    ) -> None:
        self.contract = contract_of(contract)
        self._deciding = Deciding(self.contract)
        self._turn, self._is_open = threading.RLock(), False
        self.records = Records(Path(folder), Path(key), self.contract)
        self._journal = Journal(Path(folder))
        refined = refinements(
            None if schema is None else Path(schema), known_sandbox(self.contract)
        )
        self._systems = open_participants(systems, accounts or {}, refined, self._journal)
        self.approvals: Mapping[str, Approval] = {}
        """By the digest that they open, where a transaction brings none of its own."""
        worlds = [each.world("before").state.schema for each in self._systems.values()]
        named = [any(t.name.startswith("db.") for t in schema.types) for schema in worlds]
        self._shares_names = sum(named) > 1
        """Several systems call their structure by the same names."""
        self._rows: dict[tuple[str, str], tuple[SourceCapture, SourceCapture]] = {}
        try:
            for system in self._systems.values():
                system.require_account()
            self._deciding.require(self._before({}))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """No transaction is open, and the systems are left."""
        for system in self._systems.values():
            system.close()

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the systems."""
        return tuple(self._systems)

    def execute(
        self,
        statements: Sequence[str | Statement],
        *,
        approval: Approval | None = None,
        at_most: tuple[Decision, str] | None = None,
    ) -> Outcome:
        """The transaction, committed where the contract allows it.

        A plain text is a statement on the only system. With an approval it commits where it does
        exactly what was approved. `at_most` is a decision with its reason, where nothing better is
        to be made of what would be allowed. Whatever happens, nothing is half done.
        """
        listed = tuple(self._statement(each) for each in statements)
        with self.transaction(approval, at_most) as begun:
            for source, text, values in listed:
                try:
                    begun.run(text, values, source)
                except Refused:
                    break  # whose outcome says why
            return begun.commit()

    async def execute_async(
        self, statements: Sequence[str | Statement], *, approval: Approval | None = None
    ) -> Outcome:
        """`execute` in a thread, while the loop goes on."""
        return await asyncio.to_thread(self.execute, statements, approval=approval)

    def standing(self, statements: Sequence[str | Statement]) -> Decision:
        """The decision over a transaction of these, which is neither made nor written down."""
        with self.transaction() as begun:
            for source, text, values in map(self._statement, statements):
                begun.run(text, values, source)
            return begun.judged().decision

    def begin_run(self) -> None:
        """Another run begins: what was committed so far belongs to the world before it.

        A judgement is over all that a run did, and takes as long.
        """
        with self.transaction():
            for system in self._systems.values():
                system.begin_run()

    def query(self, statement: str, source: str | None = None) -> Answer:
        """The answer to a statement, in a transaction that is rolled back. Raises `Refused`."""
        with self.transaction() as begun:
            return begun.run(statement, (), source)

    def _named(self, source: str | None) -> str:
        if source is None and len(self._systems) == 1:
            return next(iter(self._systems))
        if source not in self._systems:
            raise UsageError(f"name one of the systems: {', '.join(self._systems)}")
        return source

    def _statement(self, each: str | Statement) -> Statement:
        return (self._named(None), each, ()) if isinstance(each, str) else each

    # ------------------------------------------------------------ one transaction

    @contextmanager
    def transaction(
        self, approval: Approval | None = None, at_most: tuple[Decision, str] | None = None
    ) -> Iterator[Transaction]:
        """A transaction, statement by statement; it is judged when `commit` is called.

        At the end of the block what was not committed is rolled back. With an approval it commits
        where it does exactly what was approved. Other threads wait; of this one it is the only one.
        """
        with self._turn:
            if self._is_open:
                raise UsageError("this thread has a transaction open before the gate: end it first")
            self._is_open = True
            begun = Transaction(self, approval, at_most)
            try:
                yield begun
            finally:
                self._is_open = False
                begun.abort()

    # ------------------------------------------------------------ the judgement

    def _before(self, prepared: Mapping[str, Prepared], side: str = "before") -> Capture:
        parts = []
        for name, system in self._systems.items():
            found = prepared.get(name)
            part = system.world(side) if found is None else getattr(found, side)
            parts.append(self._rows_of(name, side, part) if self._shares_names else part)
        return Capture(tuple(parts))

    def _rows_of(self, name: str, side: str, part: SourceCapture) -> SourceCapture:
        """The capture without structure, which several systems call by the same names.

        A change of it is a doubt then (`_structural`), and so never allowed.
        """
        known = self._rows.get((name, side))
        if known is None or known[0] is not part:
            known = self._rows[name, side] = part, rows_alone(part)
        return known[1]

    def _decide(self, prepared: Mapping[str, Prepared]) -> tuple[Decision, str]:
        found = self._deciding.standing(self._before(prepared), self._before(prepared, "after"))
        if found.decision is not Decision.ALLOW:
            return found.decision, found.why
        doubts = [f"{n}: {each.doubt}" for n, each in prepared.items() if each.doubt is not None]
        if self._shares_names:
            doubts += [
                f"{name}: the structure of one of several systems changed ({each})"
                for name, found in prepared.items()
                for each in structural(found.changes)
            ]
        return (Decision.HOLD, doubts[0]) if doubts else (Decision.ALLOW, "")

    def approve(self, hold: Hold, approval: Approval) -> Outcome:
        """The statements of the hold, run again under the approval."""
        held = (Decision.HOLD, hold.why)
        return self.execute(hold.statements, approval=approval, at_most=held)

    def participant(self, source: str) -> Participant:
        """The system of this name."""
        return self._systems[self._named(source)]


class Transaction:
    """One transaction of an agent's, over the systems that its statements name."""

    def __init__(
        self, gate: Gate, approval: Approval | None, at_most: tuple[Decision, str] | None
    ) -> None:
        self._gate, self._approval, self.at_most = gate, approval, at_most
        self.name = gate._journal.name(secrets.token_hex(8))  # noqa: SLF001 - of this module
        self.systems: dict[str, Participant] = {}
        self.statements: list[Statement] = []
        self.answers: list[Answer] = []
        self._prepared: dict[str, Prepared] = {}
        self._refused: Refused | None = None
        self._is_over = False

    def run(
        self, statement: str, values: Sequence[Scalar] = (), source: str | None = None
    ) -> Answer:
        """Run a statement. Raises `Refused`: then nothing of the transaction can hold."""
        name = self._gate._named(source)  # noqa: SLF001 - of this module
        self.statements.append((name, statement, tuple(values)))
        if self._refused is not None:
            raise self._refused
        try:
            if name not in self.systems:
                system = self._gate._systems[name]  # noqa: SLF001 - of this module
                singles = [each for each in (system, *self.systems.values()) if each.is_single]
                if singles and self.systems:
                    raise Refused(f"{singles[0].name}: is no part of a transaction with others")
                system.begin(self.name)
                self.systems[name] = system
            answer = self.systems[name].run(statement, values)
        except Refused as error:
            self._refused = error
            raise
        self.answers.append(answer)
        return answer

    def commit(self) -> Outcome:
        """The transaction is judged, and committed where that allows it; the record is written."""
        gate, outcome = self._gate, Outcome(decision=Decision.DENY)
        try:
            if self._refused is not None:
                raise self._refused
            outcome = self.judged()
            approval = self._approval or gate.approvals.get(outcome.digest or "")
            is_held = outcome.decision is Decision.HOLD
            is_approved = is_held and approval is not None and approval.digest == outcome.digest
            if approval is not None and is_approved:
                gate.records.spend(approval)
            if outcome.decision is Decision.ALLOW or is_approved:
                outcome = self._written(replace(outcome, is_committed=True), approval)
                self._commit()
                gate.records.committed(outcome.record or "")
                return outcome
            if self._approval is not None:
                outcome = replace(outcome, why=f"the approval is void: {outcome.why}")
        except Refused as error:
            outcome = replace(outcome, decision=Decision.DENY, why=str(error), is_committed=False)
        finally:
            self.abort()
        return self._written(outcome, self._approval)

    def judged(self) -> Outcome:
        """Prepare every system, and decide. Raises `Refused`."""
        self._prepared.update((name, each.prepare()) for name, each in self.systems.items())
        decision, why = self._gate._decide(self._prepared)  # noqa: SLF001 - of this module
        found = {name: each.changes for name, each in self._prepared.items()}
        schemas = {name: each.after.state.schema for name, each in self._prepared.items()}
        for _ in range(_LOOKS):
            if decision is not Decision.ALLOW:
                break
            again = {name: s.look_again() for name, s in self.systems.items()}
            others = {name: each for name, each in again.items() if each is not None}
            if not others:
                break
            decision, why = self._gate._decide({**self._prepared, **others})  # noqa: SLF001 - as above
        if decision is Decision.ALLOW and self.at_most is not None:
            decision, why = self.at_most
        return Outcome(
            decision=decision, why=why, answers=tuple(self.answers),
            digest=digest_of(found, schemas), changes=found,
        )  # fmt: skip

    def _commit(self) -> None:
        """Everything holds. What prepares nothing durably commits first: that is the decision.

        Raises `Refused` where nothing holds, `StorageError` where the rest is for the next gate.
        """
        journal = self._gate._journal  # noqa: SLF001 - of this module
        last = [each for each in self.systems.values() if not each.is_durable]
        durable = [each for each in self.systems.values() if each.is_durable]
        if len(durable) > 1 or (last and durable):
            for each in last:
                found = self._prepared[each.name]
                schema = found.after.state.schema
                assert isinstance(each, SqliteGate)  # noqa: S101 - the one that is not durable
                journal.propose(self.name, each.name, found.changes, schema, each)
                each.commit()
            journal.decide(self.name)
            self._is_over = True  # from here on nothing may be taken back
            for each in durable:
                try:
                    each.commit()
                except Refused as error:
                    raise StorageError(f"decided, and left for the next gate: {error}") from error
        else:
            for each in (*last, *durable):
                each.commit()
        self._is_over = True
        journal.forget(self.name)

    def _written(self, outcome: Outcome, approval: Approval | None) -> Outcome:
        """The outcome with the name of its record, which is on disk."""
        gate, captures = self._gate, None
        if self._prepared and outcome.decision is not Decision.ALLOW:
            captures = gate._before(self._prepared), gate._before(self._prepared, "after")  # noqa: SLF001 - of this module
        name = gate.records.write(outcome, tuple(self.statements), approval, captures)
        return replace(outcome, record=name)

    def abort(self) -> None:
        """Nothing of it holds."""
        if not self._is_over:
            self._is_over = True
            for system in self.systems.values():
                system.abort()
            self._gate._journal.forget(self.name)  # noqa: SLF001 - of this module
