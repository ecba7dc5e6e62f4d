"""The calls that a contract's compensations would make after a run, and whether they undid it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import starmap
from typing import Any, NamedTuple

from statediff.contract.clauses.effects import BoundEffect
from statediff.contract.file import ContractFile
from statediff.kernel.contracts import Compiled, compile_contract, schema_of
from statediff.kernel.libraries import context_of
from statediff.kernel.policy.effects import NotComputable, arguments_of
from statediff.kernel.policy.matching import JudgingContext
from statediff.kernel.policy.relation import Change
from statediff.model.delta import Delta, Op
from statediff.model.readings import Capture
from statediff.model.schema import Purpose
from statediff.model.values import key_order, show_key


@dataclass(frozen=True, kw_only=True)
class UndoingCall:
    """One call that undoes one effect. `problem` says why it cannot be made; empty if it can."""

    clause: str
    effect: str
    """The effect that is undone, e.g. `link grant (19, oncall-admin)`."""
    tool: str
    arguments: Mapping[str, Any]
    problem: str = ""


class _Compared(NamedTuple):
    compiled: Compiled
    context: JudgingContext

    @property
    def deltas(self) -> Iterator[Delta]:
        """The differences, in the order of the changes."""
        return (delta for change in self.context.changes for delta in change.deltas)


class Undoing:
    """The outcome of a contract's compensations on the effects of a run."""

    def __init__(self, file: ContractFile, before: Capture, after: Capture) -> None:
        self._file, self._before = file, before
        self._run = _compared(file, before, after)

    def calls(self) -> tuple[UndoingCall, ...]:
        """The call for each effect of the run that a compensation with arguments is for.

        The last change comes first. Every effect of a rule counts, whether the contract wanted it.
        """
        return tuple(starmap(self._call, reversed(_effects(self._run))))

    def _call(self, change: Change, rule: BoundEffect) -> UndoingCall:
        made: Mapping[str, Any] = {}
        problem = ""
        try:
            made = arguments_of(rule, self._run.context, change)
        except NotComputable as error:
            problem = str(error)
        return UndoingCall(
            clause=rule.id,
            effect=f"{change.op.value} {change.type} {show_key(change.key)}",
            tool=rule.compensation or "",
            arguments=made,
            problem=problem,
        )

    def left(self, undone: Capture) -> tuple[Delta, ...]:
        """The changes that the undoing left or made beside; none where each compensation is true.

        `undone` is the state after the calls. Effects that no compensation is for may still be
        there; history may have grown, and the types that a compensation `leaves` may have changed.
        """
        final = _compared(self._file, self._before, undone)
        meant = {(c.type, c.op, key_order(c.key)) for c, _ in _effects(self._run)}
        known = {(delta.id, delta.op, repr(delta.after)) for delta in self._run.deltas}
        rules = [rule.undoing for rule in final.compiled.contract.effects if rule.undoing]
        leaves = {name for undoing in rules for name in undoing.leaves}
        types = final.compiled.contract.schema.by_name

        def is_left(delta: Delta) -> bool:
            if delta.type in leaves:
                return False
            if types[delta.type].purpose is Purpose.HISTORY and delta.op in (Op.CREATE, Op.LINK):
                return False
            if (delta.type, delta.op, key_order(delta.key)) in meant:
                return True
            return (delta.id, delta.op, repr(delta.after)) not in known

        return tuple(filter(is_left, final.deltas))


def _effects(seen: _Compared) -> list[tuple[Change, BoundEffect]]:
    rules = [rule for rule in seen.compiled.contract.effects if rule.undoing is not None]
    return [
        (change, rule)
        for change in seen.context.changes
        for rule in rules
        if change.type == rule.type and change.op in rule.operations
    ]


def _compared(file: ContractFile, before: Capture, after: Capture) -> _Compared:
    compiled = compile_contract(file, schema_of(before, after))
    return _Compared(compiled, context_of(compiled, before, after))
