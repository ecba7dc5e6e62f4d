"""OpenEnv: a rubric whose reward at the end of an episode is the verdict of a contract.

    class Desk(Environment):
        def __init__(self):
            super().__init__(rubric=ContractRubric("close-ticket.yaml", self.tickets))

The state before is read when the environment resets its rubric, so seed the application first. A
step that does not end the episode has the reward 0.0. At the end MATCH has 1.0 and DIVERGE 0.0, and
INCONCLUSIVE raises `NoReward` out of the step: the episode has no reward, and is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from openenv.core.rubrics import Rubric

from statediff.contract.file import ContractFile
from statediff.errors import UsageError
from statediff.integrations.verdicts import decided
from statediff.scoring import NOT_GIVEN, Judge, contract_of


class ContractRubric(Rubric):
    """`state` is what `statediff.judge` takes, or a function that returns it.

    `answer`, if given, finds in the last observation what the agent said.
    """

    def __init__(
        self,
        contract: ContractFile | str | Path,
        state: Any,
        answer: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__()
        self._contract = contract_of(contract)
        self._state = state
        self._answer = answer
        self._judge: Judge | None = None

    def reset(self) -> None:
        """The state is read: what changes from here on is judged."""
        self._judge = Judge(self._contract, self._seen())

    def forward(self, action: Any, observation: Any) -> float:
        """The reward; at the end the shares of clauses are in the observation's metadata."""
        if not observation.done:
            return 0.0
        if self._judge is None:
            raise UsageError(
                "the state before was not read: call `_reset_rubric()` in `reset` of the "
                "environment, once the application is seeded"
            )
        answer = NOT_GIVEN if self._answer is None else self._answer(observation)
        score = self._judge.score(self._seen(), answer=answer)
        observation.metadata["statediff"] = {"verdict": score.verdict.value, **score.parts}
        return decided(score)

    def _seen(self) -> Any:
        return self._state() if callable(self._state) else self._state
