"""A small policy and its gradient: REINFORCE with a baseline, in numpy.

Of a batch of episodes with returns G, Adam climbs the gradient of the mean over its episodes of
(G - mean G) / std G · Σ log π(a|s), with a small bonus for entropy. The return is the reward times
the discount of every step. An episode without a reward is in no mean and no sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lab.benchmarks.reward_world import FEATURES, TOOLS, Ending, Episode, Task, Tool, World

Numbers: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """The same for every arm."""

    updates: int = 200
    batch: int = 32
    hidden: int = 32
    rate: float = 0.02
    entropy: float = 0.02
    discount: float = 0.95
    """Of a reward, a step: the sooner the better, and nothing is lost by a step without reward."""


class Policy:
    """Two layers: from what is observed to the chance of each tool."""

    def __init__(
        self,
        settings: Settings,
        random: np.random.Generator,
        without: frozenset[Tool] = frozenset(),
    ) -> None:
        """At first every tool is as likely as every other, but for those it is `without`."""
        self.settings = settings
        self._barred = np.array([-np.inf if tool in without else 0.0 for tool in TOOLS])
        shapes = ((FEATURES, settings.hidden), (settings.hidden, len(TOOLS)))
        self._weights: list[Numbers] = [
            random.normal(0.0, 1 / np.sqrt(shapes[0][0]), shapes[0]),
            np.zeros(shapes[0][1]),
            np.zeros(shapes[1]),
            np.zeros(shapes[1][1]),
        ]
        self._means = [np.zeros_like(each) for each in self._weights]
        self._squares = [np.zeros_like(each) for each in self._weights]
        self._updates = 0

    def chances(self, observed: Numbers) -> tuple[Numbers, Numbers]:
        """The chances of each tool (states × tools), and the hidden layer (states × hidden)."""
        one, shift, two, bias = self._weights
        hidden = np.tanh(observed @ one + shift)
        logits = hidden @ two + bias + self._barred
        logits -= logits.max(axis=1, keepdims=True)
        raised = np.exp(logits)
        return raised / raised.sum(axis=1, keepdims=True), hidden

    def climb(self, observed: Numbers, hidden: Numbers, slope: Numbers) -> None:
        """One step of Adam along the gradient, of which `slope` is the part at the logits."""
        inner = (slope @ self._weights[2].T) * (1 - hidden**2)
        gradients = (observed.T @ inner, inner.sum(axis=0), hidden.T @ slope, slope.sum(axis=0))
        self._updates += 1
        for at, gradient in enumerate(gradients):
            self._means[at] = 0.9 * self._means[at] + 0.1 * gradient
            self._squares[at] = 0.999 * self._squares[at] + 0.001 * gradient**2
            mean = self._means[at] / (1 - 0.9**self._updates)
            square = self._squares[at] / (1 - 0.999**self._updates)
            self._weights[at] = self._weights[at] + self.settings.rate * mean / (
                np.sqrt(square) + 1e-8
            )


@dataclass(frozen=True)
class Played:
    """Episodes, played side by side."""

    endings: tuple[Ending, ...]
    calls: tuple[tuple[Tool, ...], ...]
    """Of each episode, in order."""
    lost: tuple[bool, ...]
    """Of each episode, whether a call that pays lost its acknowledgement."""
    observed: Numbers
    """Of every step, steps × `FEATURES`."""
    chosen: npt.NDArray[np.int64]
    episode: npt.NDArray[np.int64]
    """Of every step, its episode's place."""


def play(
    world: World,
    policy: Policy,
    tasks: Sequence[Task],
    count: int,
    random: np.random.Generator,
    failing: float = 0.0,
) -> Played:
    """So many episodes of tasks drawn at random, of which that share has a failed reset."""
    running = [
        Episode(
            world,
            tasks[random.integers(len(tasks))],
            random.random,
            is_up=bool(random.random() >= failing),
        )
        for _ in range(count)
    ]
    calls: list[list[Tool]] = [[] for _ in running]
    seen, chosen, whose = [], [], []
    while active := [at for at, episode in enumerate(running) if not episode.is_over]:
        observed = np.array([running[at].observed() for at in active])
        chances, _ = policy.chances(observed)
        picked = (chances.cumsum(axis=1) > random.random((len(active), 1))).argmax(axis=1)
        for at, place in zip(active, picked, strict=True):
            running[at].call(TOOLS[place])
            calls[at].append(TOOLS[place])
        seen.append(observed)
        chosen.append(picked)
        whose.append(np.array(active))
    return Played(
        tuple(episode.end() for episode in running),
        tuple(map(tuple, calls)),
        tuple(episode.has_lost for episode in running),
        np.concatenate(seen),
        np.concatenate(chosen),
        np.concatenate(whose),
    )


def learn(policy: Policy, played: Played, rewards: Sequence[float | None]) -> None:
    """One update from a batch; an episode without a reward is left out."""
    known = np.array([reward is not None for reward in rewards])
    if not known.any():
        return
    returns = np.array(
        [
            (reward or 0.0) * policy.settings.discount ** len(calls)
            for reward, calls in zip(rewards, played.calls, strict=True)
        ]
    )
    spread = returns[known].std()
    better = (returns - returns[known].mean()) / spread if spread > 0 else np.zeros_like(returns)
    used = known[played.episode]
    observed, chosen = played.observed[used], played.chosen[used]
    chances, hidden = policy.chances(observed)
    slope = np.eye(len(TOOLS))[chosen] - chances
    slope *= better[played.episode[used]][:, None] / known.sum()
    logs = np.log(np.maximum(chances, 1e-12))
    surprise = -(chances * logs).sum(axis=1, keepdims=True)
    slope -= policy.settings.entropy * chances * (logs + surprise) / len(observed)
    policy.climb(observed, hidden, slope)
