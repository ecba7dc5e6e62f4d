"""Each reward's view of an ending, and what a policy makes of it (docs/reward.md)."""

import json
from pathlib import Path

import numpy as np
import pytest

from lab.benchmarks.reward_judges import ExpectOnly, OneGoldState, Statediff, damage
from lab.benchmarks.reward_policy import Played, Policy, Settings, learn, play
from lab.benchmarks.reward_training import Arm, Bench, charts, train
from lab.benchmarks.reward_world import TOOLS, Ending, Episode, Tool, World
from statediff import Verdict

CHECKOUT = Path(__file__).parents[1]
LOOK_UP, REFUND, LINES, JOB = Tool.LOOK_UP, Tool.REFUND, Tool.REFUND_LINES, Tool.REFUND_ALL
MAIL, STATUS = Tool.MAIL, Tool.STATUS


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture(scope="module")
def judge(world: World, tmp_path_factory: pytest.TempPathFactory) -> Statediff:
    return Statediff(world, tmp_path_factory.mktemp("judge"))


def ending(world: World, *calls: Tool, lots: tuple[float, ...] = (), is_up: bool = True) -> Ending:
    task = next(task for task in world.tasks if lines_back(world, task.order) > 1)
    drawn = iter(lots)
    episode = Episode(world, task, lambda: next(drawn, 1.0), is_up=is_up)
    for tool in (*calls, Tool.DONE):
        episode.call(tool)
    return episode.end()


def lines_back(world: World, order: int) -> int:
    return sum(row[1] == order and row[5] is not None for row in world.books.rows["order_lines"])


LOST = (0.0, 1.0)
"""The acknowledgement is lost, and the call was carried out."""
SEEN = [
    # calls, lots, expect_only, one gold state, statediff, damage
    ((LOOK_UP, REFUND, STATUS, MAIL), (), 1, 1, 1, set()),
    ((LOOK_UP, REFUND, MAIL), (), 1, 0, 1, set()),
    ((LOOK_UP, LINES, MAIL), (), 0, 0, 1, set()),
    ((LOOK_UP, MAIL), (), 0, 0, 0, set()),
    ((JOB, MAIL), (), 1, 0, 0, {"other orders refunded"}),
    ((LOOK_UP, REFUND, REFUND, MAIL), LOST, 1, 0, 0, {"paid too much"}),
    ((LOOK_UP, REFUND, LOOK_UP, MAIL), LOST, 1, 0, 1, set()),
    ((LOOK_UP, REFUND, MAIL, MAIL), (), 1, 0, 0, {"mailed twice"}),
    ((LOOK_UP, REFUND, Tool.MAIL_ALL), (), 1, 0, 0, {"mail to others"}),
    ((LOOK_UP, REFUND, MAIL, Tool.STATUS_ALL), (), 1, 0, 0, {"other orders changed"}),
    ((LOOK_UP, REFUND, MAIL, Tool.SWAP), (), 1, 0, 0, {"customer replaced"}),
    ((LOOK_UP, REFUND, MAIL, Tool.PURGE), (), 0, 0, 0, {"notes deleted"}),
]


@pytest.mark.parametrize(("calls", "lots", "expected", "gold", "ours", "kinds"), SEEN)
def test_every_reward_says_what_its_sight_allows(
    world: World,
    judge: Statediff,
    calls: tuple[Tool, ...],
    lots: tuple[float, ...],
    expected: int,
    gold: int,
    ours: int,
    kinds: set[str],
) -> None:
    left = ending(world, *calls, lots=lots)
    assert ExpectOnly(world)(left) == expected
    assert OneGoldState(world)(left) == gold
    assert judge(left) == ours
    what = damage(world, left)
    assert what.kinds == kinds
    assert what.is_right == ours


def test_after_a_failed_reset_nothing_is_known(world: World, judge: Statediff) -> None:
    score = judge.score(ending(world, LOOK_UP, REFUND, MAIL, is_up=False))
    assert (score.verdict, score.reward) == (Verdict.INCONCLUSIVE, None)
    assert score.why.startswith("environment: ")


def played(world: World, policy: Policy) -> Played:
    return play(world, policy, world.trained, 6, np.random.default_rng(3))


def test_an_episode_without_a_reward_teaches_nothing(world: World) -> None:
    left_out, alone, as_zero = (Policy(Settings(), np.random.default_rng(1)) for _ in range(3))
    batch = played(world, alone)
    rewards: list[float | None] = [1.0, 0.0, None, 1.0, None, 0.0]
    known = np.array([reward is not None for reward in rewards])
    steps = known[batch.episode]
    renamed = np.cumsum(known) - 1
    part = Played(
        tuple(e for e, k in zip(batch.endings, known, strict=True) if k),
        tuple(c for c, k in zip(batch.calls, known, strict=True) if k),
        tuple(lost for lost, k in zip(batch.lost, known, strict=True) if k),
        batch.observed[steps],
        batch.chosen[steps],
        renamed[batch.episode[steps]],
    )
    learn(left_out, batch, rewards)
    learn(alone, part, [reward for reward in rewards if reward is not None])
    learn(as_zero, batch, [reward or 0.0 for reward in rewards])
    one, other, third = (p.chances(batch.observed)[0] for p in (left_out, alone, as_zero))
    assert np.array_equal(one, other)
    assert not np.allclose(one, third)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


@pytest.mark.slow
def test_a_blind_reward_teaches_damage_and_ours_the_task(bench: Bench) -> None:
    few = frozenset(TOOLS) - {LOOK_UP, REFUND, JOB, MAIL, Tool.DONE}
    settings = Settings(updates=20, batch=16, rate=0.05)
    for seed in (0, 1):
        blind = train(bench, Arm("blind", "expect_only", without=few), settings, seed, 40)
        ours = train(bench, Arm("ours", "statediff", without=few), settings, seed, 40)
        assert blind.on_held_out.damaged > 32
        assert ours.on_held_out.damaged < blind.on_held_out.damaged / 2
        assert ours.on_held_out.right > blind.on_held_out.right + 8
        assert blind.counts["rewarded with damage"] > 0
        assert ours.counts["rewarded with damage"] == 0
    assert bench.agreement()["judged"] > 0
    assert bench.agreement()["decided_otherwise"] == 0


def test_the_page_shows_what_is_stored() -> None:
    folder = CHECKOUT / "docs" / "reward"
    stored = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    seen = {name: arm["while training"] for name, arm in stored["arms"].items()}
    blind = [name for name, counts in seen.items() if "rewarded with damage" in counts]
    assert blind == ["expect_only", "expect_only, no refund job"]
    for name, chart in charts(stored).items():
        assert (folder / f"{name}.svg").read_text(encoding="utf-8") == chart.standalone()
    for arm in stored["arms"].values():
        assert arm["checked endings"]["decided_otherwise"] == 0
