"""A contract over a state before, ready to judge any number of states after it.

Each is judged by the stages that `evaluate` goes through. Kept between them are the clauses that
hold as long as what they read is as it was before the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from statediff.contract.file import ContractFile
from statediff.errors import AdapterError, ContractError
from statediff.kernel.contracts import compile_contract, schema_of
from statediff.kernel.resolve import resolve
from statediff.kernel.trial import (
    NO_FACTS,
    Kept,
    TrialFacts,
    judgement_of,
    require_action,
    so_far,
)
from statediff.model.readings import NO_HISTORY, Capture, Timeline
from statediff.model.trace import NO_ANSWER, NO_TRACE, NoAnswer, RunEnding, Trace
from statediff.model.values import Value
from statediff.model.verdict import Judgement, SoFar


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A contract over a state before. Safe to share between threads."""

    file: ContractFile
    before: Capture
    facts: TrialFacts = NO_FACTS
    null_run: ContractError | None = None
    """Why no run at all can be judged: one in which nothing happens would match unasked."""
    kept: Kept = field(default_factory=Kept)
    kept_so_far: Kept = field(default_factory=Kept)

    def so_far(self, now: Capture, *, trace: Trace = NO_TRACE) -> SoFar:
        """How a run stands that is not over."""
        return so_far(
            self.file, self.before, now, trace=trace, facts=self.facts, kept=self.kept_so_far
        )

    def judgement(
        self,
        after: Capture,
        *,
        trace: Trace = NO_TRACE,
        answer: Value | NoAnswer = NO_ANSWER,
        timeline: Timeline | None = None,
        ending: RunEnding | None = None,
    ) -> Judgement:
        """The judgement that `evaluate` makes of the same. Raises as that does."""
        return judgement_of(
            self.file,
            self.before,
            after,
            trace=trace,
            answer=answer,
            timeline=timeline,
            facts=self.facts if ending is self.facts.ending else replace(self.facts, ending=ending),
            kept=self.kept,
        )


def prepare(file: ContractFile, before: Capture, *, facts: TrialFacts = NO_FACTS) -> Prepared:
    """The contract over the state before.

    Raises nothing: what does not fit the state before may fit it together with a state after it, so
    that a contract's errors come with each judgement.
    """
    null_run = None
    still = replace(before, history=NO_HISTORY)
    try:
        compiled = compile_contract(file, schema_of(still))
        contract, rules = compiled.contract, compiled.identities
        resolution = resolve(still, still, rules, contract.authority, {}, contract.must_report)
        require_action(file, compiled, resolution, ())
    except AdapterError:
        pass
    except ContractError as error:
        null_run = error if error.problems[0].code == "null-run" else None
    return Prepared(file=file, before=before, facts=facts, null_run=null_run)
