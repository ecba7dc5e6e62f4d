"""Pydantic Evals: a lifecycle that reads the state before and after a case, and its evaluator.

    dataset = Dataset(name="desk", cases=[…], evaluators=[ContractVerdict()])
    dataset.evaluate_sync(task, lifecycle=judged_by("close-ticket.yaml", tickets))

A case has the label `verdict` with what does not hold as its reason. Where it is decided it has the
score `reward` too, 1.0 for MATCH and 0.0 for DIVERGE, and the shares of clauses; an INCONCLUSIVE
case has no score, and is in no average.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic_evals import Case
from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext
from pydantic_evals.lifecycle import CaseLifecycle

from statediff.contract.file import ContractFile
from statediff.errors import UsageError
from statediff.model.verdict import Verdict
from statediff.scoring import NOT_GIVEN, Judge, contract_of

ATTRIBUTE: Final = "statediff"


def judged_by(
    contract: ContractFile | str | Path,
    state: Callable[[Case[Any, Any, Any]], Any],
    answer: Callable[[Any], Any] | None = None,
) -> type[CaseLifecycle[Any, Any, Any]]:
    """The lifecycle of cases that the contract judges.

    `state` returns what `statediff.judge` takes for a case, and is asked before and after it; cases
    that run at once need states of their own. `answer` finds what the agent said in the output.
    """
    file = contract_of(contract)

    class Judging(CaseLifecycle[Any, Any, Any]):
        judge: Judge

        async def setup(self) -> None:
            self.judge = Judge(file, state(self.case))

        async def prepare_context(
            self, ctx: EvaluatorContext[Any, Any, Any]
        ) -> EvaluatorContext[Any, Any, Any]:
            said = NOT_GIVEN if answer is None else answer(ctx.output)
            score = await self.judge.score_async(state(self.case), answer=said)
            ctx.attributes[ATTRIBUTE] = {
                "verdict": score.verdict.value,
                "why": score.why,
                "scores": {} if score.reward is None else {"reward": score.reward, **score.parts},
            }
            return ctx

    return Judging


@dataclass
class ContractVerdict(Evaluator[Any, Any, Any]):
    """The verdict that the lifecycle came to."""

    def evaluate(self, ctx: EvaluatorContext[Any, Any, Any]) -> Mapping[str, Any]:
        """The label `verdict`; `reward` and the shares only of a decided case."""
        found = ctx.attributes.get(ATTRIBUTE)
        if found is None:
            raise UsageError("no contract judged this case: give lifecycle=judged_by(contract, …)")
        why = found["why"] if found["verdict"] != Verdict.MATCH.value else None
        return {"verdict": EvaluationReason(found["verdict"], why), **found["scores"]}
