"""One function over a batch, for trainers that take a list of rewards: TRL, verl, SkyRL and others.

>>> from statediff import Judge
>>> before = {"ticket": [{"id": 7, "status": "open"}]}
>>> judge = Judge('''
... contract: notes/close-ticket
... version: 1.0.0
... owner: support
... intent: Close ticket 7 and change nothing else.
... require:
...   - {id: closed, update: ticket, where: it.id == 7, set: {status: closed}}
... ''', before)
>>> rewards(judge, [{"ticket": [{"id": 7, "status": "closed"}]}, before, "no-such-file.json"])
[1.0, 0.0, None]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from statediff.errors import UsageError
from statediff.scores import Score
from statediff.scoring import Judge
from statediff.workspace.batches import Evidence


def rewards(
    judge: Judge,
    afters: Iterable[Any],
    *,
    answers: Iterable[Any] | None = None,
    workers: int = 1,
    evidence: Evidence | None = None,
) -> list[float | None]:
    """A reward for each state after, in their order: 1.0, 0.0, or None, which is left out."""
    scores = judge.score_many(afters, answers=answers, workers=workers, evidence=evidence)
    return [score.reward for score in scores]


def reward_function(
    judges: Callable[..., Iterable[Judge]], afters: Callable[..., Iterable[Any]]
) -> Callable[..., list[float | None]]:
    """A reward function as TRL calls it: `f(prompts=…, completions=…, **columns)`.

    `judges` and `afters` get the same, and return the judge and the state after of each completion;
    the same judge may be returned many times. TRL leaves a None out of the group's baseline and
    gives that completion no advantage (read in 1.16.0; before that it was summed up as 0).
    """

    def contract_reward(**given: Any) -> list[float | None]:
        each, states = list(judges(**given)), list(afters(**given))
        if not len(each) == len(states) == len(given["completions"]):
            raise UsageError(
                f"{len(given['completions'])} completions, {len(each)} judges and {len(states)} "
                "states: give one of each"
            )
        scores: dict[int, Score] = {}
        for judge in {id(one): one for one in each}.values():
            places = [place for place, one in enumerate(each) if one is judge]
            found = judge.score_many([states[place] for place in places])
            scores.update(zip(places, found, strict=True))
        return [scores[place].reward for place in range(len(each))]

    return contract_reward
