"""Faults of the run: a write that is made half-way through a reference, and undone at once.

The state at the end is the reference's. Only a contract that asks what happened in between can see
such a write: it is seeded where a `forbid` pattern says `during: run`, for what that pattern names,
and everywhere in a source whose `history` is required. Elsewhere the contract permits it by design;
the report says of which types transient writes were judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from statediff.contract.binding.bound import Contract, Pattern
from statediff.meta import operators
from statediff.meta.reference import Change
from statediff.meta.world import Fault, World
from statediff.model.delta import Op

_OPERATIONS = {
    "create": frozenset({Op.CREATE, Op.LINK}),
    "delete": frozenset({Op.DELETE, Op.UNLINK}),
    "update": frozenset({Op.UPDATE}),
}


def judged(contract: Contract) -> Mapping[str, frozenset[Op]]:
    """The types of which the contract forbids transient writes, and which kinds of them."""
    found: dict[str, frozenset[Op]] = {}
    for clause in contract.forbid:
        if isinstance(clause, Pattern) and clause.during_run:
            for name in clause.types:
                found[name] = found.get(name, frozenset()) | clause.operations
    if not contract.frame_is_open:
        for source in (rule.source for rule in contract.evidence if rule.needs_history):
            for name in dict(contract.schema.sources).get(source, ()):
                found[name] = frozenset(Op)
    return found


def transient(world: World) -> Iterator[Fault]:
    """Something is created, updated or deleted in between, and then it never was."""
    wanted = judged(world.compiled.contract)
    if not wanted:
        return
    passing = _Passing(world)
    for fault in (*operators.extras(passing), *operators.privileges(passing)):
        if fault.mutant is world.reference:
            continue
        type_name = fault.target.partition(".")[0] if "." in fault.target else fault.target
        name = fault.target if fault.target in world.reference.types else type_name
        kind = fault.operator.rpartition("-")[2]
        if wanted.get(name, frozenset()) & _OPERATIONS.get(kind, _OPERATIONS["update"]):
            yield fault


class _Passing(World):
    """The same world, in which every edit is undone before the end."""

    def __init__(self, world: World) -> None:
        self.__dict__.update(world.__dict__)

    def faulty(
        self, operator: str, target: str, sentence: str, changes: Mapping[str, Change]
    ) -> Fault:
        mutant = self.reference.passing(changes) or self.reference
        return Fault(f"transient-{operator}", target, f"{sentence}, and undone at once", mutant)
