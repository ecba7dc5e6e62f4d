"""The conditions of a contract over captured states, where no run is judged."""

from __future__ import annotations

from statediff.contract.file import ContractFile
from statediff.kernel.contracts import Compiled, compile_contract, schema_of
from statediff.kernel.policy.matching import JudgingContext
from statediff.model.readings import Capture
from statediff.model.trace import NoAnswer
from statediff.model.view import StateView
from statediff.reads.captured import Captured
from statediff.reads.library import Library


def context_of(compiled: Compiled, before: Capture, after: Capture) -> JudgingContext:
    """Both states and what differs between them, before anything was asked or answered."""
    resolution = compiled.resolve(before, after)
    ends = resolution.matchings[0]
    found = compiled.diff(ends.before, ends.after, resolution.readings_of)
    one, two = (StateView(state, compiled.scoped) for state in (ends.before, ends.after))
    unasked = NoAnswer("nothing has been asked yet")
    return JudgingContext(one, two, found.deltas, found.doubts, unasked)


def library_of(file: ContractFile, before: Capture) -> Library | None:
    """The part of the state that the actor may read; None where the contract has no `access:`.

    `ContractError` if the contract does not fit the state.
    """
    if file.content.access is None:
        return None
    compiled = compile_contract(file, schema_of(before))
    access = compiled.contract.access
    if access is None:
        return None
    context = context_of(compiled, before, before)
    return Library(Captured(access, context.before, context.eval_context))
