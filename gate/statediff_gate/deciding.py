"""A contract asked how a run stands: *allow*, *hold* or *deny*, by its net change so far."""

from __future__ import annotations

from typing import Final

from statediff import kernel
from statediff.contract.file import ContractFile
from statediff.model.readings import Capture
from statediff.scores import Standing, standing_of

_FACTS: Final = kernel.TrialFacts.offline()


class Deciding:
    """One contract. What judgements over one world before have in common is kept."""

    def __init__(self, contract: ContractFile) -> None:
        self.contract = contract
        self._known: kernel.Prepared | None = None

    def require(self, before: Capture) -> None:
        """The contract fits the world, and no run that does nothing would match unasked."""
        error = kernel.binding_error(self.contract, before)
        error = error or kernel.prepare(self.contract, before, facts=_FACTS).null_run
        if error is not None:
            raise error
        self.standing(before, before)  # what fits no table that is there raises now

    def standing(self, before: Capture, after: Capture) -> Standing:
        """How a run stands that made `after` of the world before."""
        known = self._known
        if known is None or not _is_same(known.before, before):
            known = kernel.Prepared(file=self.contract, before=before, facts=_FACTS)
            self._known = known
        return standing_of(known.so_far(after))


def _is_same(known: Capture, before: Capture) -> bool:
    pairs = zip(known.parts, before.parts, strict=True)
    return all(one.state is two.state for one, two in pairs)
