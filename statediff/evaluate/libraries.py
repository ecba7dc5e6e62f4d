"""The library of a contract: what its actor may read of a state, as the judgement will see it."""

from __future__ import annotations

from statediff.contract.language.context import EvalContext
from statediff.contract.language.syntax import Read
from statediff.evaluate.contracts import (
    Compiled,
    ContractFile,
    Scoped,
    compile_contract,
    schema_of,
)
from statediff.model.readings import Capture
from statediff.model.trace import NoAnswer
from statediff.model.view import StateView
from statediff.policy.matching import JudgingContext
from statediff.reads.captured import Captured
from statediff.reads.gate import Library
from statediff.resolve import resolve


def library_of(file: ContractFile, before: Capture) -> Library | None:
    """What the contract lets its actor read; None where it has no `access:`.

    `ContractError` if the contract does not fit the state.
    """
    if file.content.access is None:
        return None
    return Library(captured_of(compile_contract(file, schema_of(before)), before))


def captured_of(compiled: Compiled, before: Capture) -> Captured:
    """The artifacts of the state before, under a contract with `access:`."""
    contract = compiled.contract
    if contract.access is None:
        raise ValueError(f"{contract.name} has no `access:`")
    resolution = resolve(
        before,
        before,
        compiled.identities,
        {name: r.source for r in contract.evidence for name in r.authority},
    )
    state = resolution.matchings[0].before
    view = StateView(state, Scoped(compiled.book, compiled.boundary, state.schema))
    context = JudgingContext(view, view, (), (), NoAnswer("nothing has been asked yet"))

    def world(reads: frozenset[Read]) -> EvalContext:
        return context.eval_context(reads)

    return Captured(contract.access, view, world)
