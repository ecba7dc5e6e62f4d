"""A batch of rewards: one a run, in order, and none for a run that was not decided."""

import doctest

import pytest
from statediff_hosts import training

from statediff.errors import UsageError
from statediff.scoring import Judge
from tests.tickets import CLOSE

OPEN = {"ticket": [{"id": 7, "status": "open"}]}
CLOSED = {"ticket": [{"id": 7, "status": "closed"}]}
AFTERS = [CLOSED, OPEN, "nowhere.json", {"ticket": [{"id": 7, "status": object()}]}, CLOSED]
REWARDS = [1.0, 0.0, None, None, 1.0]


def test_the_example_of_the_module_runs() -> None:
    assert doctest.testmod(training) == (0, 4)


def test_a_batch_has_a_reward_a_run_and_none_where_nothing_was_decided() -> None:
    assert training.rewards(Judge(CLOSE, OPEN), AFTERS) == REWARDS


def test_a_reward_function_is_called_as_trl_does_and_judges_each_completion_by_its_own() -> None:
    """The call is that of `GRPOTrainer._calculate_rewards` of TRL 1.16.0; torch is not tried."""
    reopen = CLOSE.replace("status: closed", "status: reopened")
    judges = {"close": Judge(CLOSE, OPEN), "reopen": Judge(reopen, OPEN)}
    function = training.reward_function(
        lambda task, **_: [judges[name] for name in task],
        lambda environments, **_: environments,
    )
    given = {
        "prompts": ["p"] * 4, "completions": ["c"] * 4, "completion_ids": [[1]] * 4,
        "task": ["close", "reopen", "close", "reopen"], "trainer_state": object(),
    }  # fmt: skip
    found = function(environments=[CLOSED, CLOSED, "nowhere.json", OPEN], **given)
    assert found == [1.0, 0.0, None, 0.0]
    with pytest.raises(UsageError, match="4 completions, 4 judges and 1 states"):
        function(environments=[CLOSED], **given)
