"""The library of a contract: what its actor may read of a state, as the judgement will see it."""

from __future__ import annotations

from statediff.contract.syntax import Read
from statediff.contract.world import World
from statediff.evaluate.contracts import ContractFile, Scoped, compile_contract, schema_of
from statediff.model.readings import Capture
from statediff.model.trace import NoAnswer
from statediff.model.view import StateView
from statediff.policy.matching import Judge
from statediff.reads.captured import Captured
from statediff.reads.library import Library
from statediff.resolve import resolve


def library_of(file: ContractFile, before: Capture) -> Library | None:
    """What the contract lets its actor read; None where it has no `access:`.

    `ContractError` if the contract does not fit the state.
    """
    if file.content.access is None:
        return None
    compiled = compile_contract(file, schema_of(before))
    contract = compiled.contract
    access = contract.access
    if access is None:
        return None
    resolution = resolve(
        before,
        before,
        compiled.identities,
        {name: r.source for r in contract.evidence for name in r.authority},
    )
    state = resolution.matchings[0].before
    view = StateView(state, Scoped(compiled.book, compiled.boundary, state.schema))
    room = Judge(view, view, (), (), NoAnswer("nothing has been asked yet"))

    def world(reads: frozenset[Read]) -> World:
        return room.world(reads)

    return Library(Captured(access, view, world))
