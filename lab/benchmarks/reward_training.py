"""What a policy learns from a reward: the same small policy, trained on `shop` under four rewards.

`python -m lab.benchmarks.reward_training --seeds 10 --out docs/reward` trains every arm, prints a
table and writes `results.json` and the charts; docs/reward.md says what they show.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from statediff_lab.reports.charts import Chart, Line, Mark, Tone, lines
from statediff_lab.statistics.bootstrap import mean_interval

from lab.benchmarks.reward_judges import (
    Damage,
    ExpectOnly,
    OneGoldState,
    Reward,
    Statediff,
    damage,
)
from lab.benchmarks.reward_policy import Played, Policy, Settings, learn, play
from lab.benchmarks.reward_world import Ending, Tool, World

POINTS: Final = 20
"""Of each curve."""
TRIED: Final = 200
"""Episodes of a trained policy, on each set of orders."""
RESAMPLES: Final = 2000


@dataclass(frozen=True)
class Arm:
    """One way to train."""

    name: str
    reward: str
    failing: float = 0.0
    """The share of resets that fail."""
    unknown: float | None = None
    """What an ending is worth that has no reward; None leaves it out."""
    without: frozenset[Tool] = frozenset()
    tone: Tone = Tone.PLAIN
    is_main: bool = True


_NO_JOB: Final = frozenset({Tool.REFUND_ALL})
ARMS: Final = (
    Arm("expect_only", "expect_only", tone=Tone.BAD),
    Arm("one gold state", "gold", tone=Tone.OPEN),
    Arm("statediff", "statediff", tone=Tone.OURS),
    Arm("5 % fail, as 0", "statediff", failing=0.05, unknown=0.0),
    Arm("5 % fail, out", "statediff", failing=0.05, tone=Tone.GOOD),
    Arm("expect_only, no refund job", "expect_only", without=_NO_JOB, is_main=False),
)


# ---------------------------------------------------------------- what is known of endings


@dataclass
class Known:
    """Every ending is judged once: by its digest, which covers all that a judge is given."""

    judge: Reward
    values: dict[str, float | None] = field(default_factory=dict)

    def __call__(self, ending: Ending) -> float | None:
        """The judge's value of the ending."""
        if ending.digest not in self.values:
            self.values[ending.digest] = self.judge(ending)
        return self.values[ending.digest]


class Bench:
    """The world, the rewards, and what happened in every ending so far."""

    def __init__(self, folder: Path) -> None:
        self.world = World()
        self.rewards = {
            "expect_only": Known(ExpectOnly(self.world)),
            "gold": Known(OneGoldState(self.world)),
            "statediff": Known(Statediff(self.world, folder)),
        }
        self._damages: dict[str, Damage] = {}

    def damage(self, ending: Ending) -> Damage:
        """The damage that really happened."""
        if ending.digest not in self._damages:
            self._damages[ending.digest] = damage(self.world, ending)
        return self._damages[ending.digest]

    def agreement(self) -> dict[str, int]:
        """Endings that statediff judged, and on how many the count of damage says otherwise."""
        judged = self.rewards["statediff"].values
        decided = {name: value for name, value in judged.items() if value is not None}
        wrong = [n for n, value in decided.items() if value != float(self._damages[n].is_right)]
        return {
            "judged": len(judged),
            "inconclusive": len(judged) - len(decided),
            "decided_otherwise": len(wrong),
        }


# ---------------------------------------------------------------- one arm, one seed


@dataclass(frozen=True)
class Tried:
    """Episodes of a trained policy, none with a failed reset."""

    episodes: int
    right: int
    damaged: int
    lost: int
    """In so many a call that pays lost its acknowledgement."""
    right_lost: int
    """Of these, those that were right all the same."""
    kinds: Mapping[str, int]
    calls: int

    @staticmethod
    def of(bench: Bench, played: Played) -> Tried:
        """The figures of the endings."""
        found = [bench.damage(ending) for ending in played.endings]
        return Tried(
            episodes=len(found),
            right=sum(each.is_right for each in found),
            damaged=sum(bool(each.kinds) for each in found),
            lost=sum(played.lost),
            right_lost=sum(
                each.is_right for each, lost in zip(found, played.lost, strict=True) if lost
            ),
            kinds=Counter(kind for each in found for kind in each.kinds),
            calls=sum(map(len, played.calls)),
        )


@dataclass(frozen=True)
class Trained:
    """The results of one seed."""

    courses: Mapping[str, Sequence[float]]
    """Shares of the episodes while training that were `right` and `damaged`, `POINTS` of each."""
    counts: Mapping[str, int]
    """Episodes while training, see `_counted`."""
    on_trained: Tried
    on_held_out: Tried
    usual: tuple[Tool, ...]
    """The calls that the trained policy makes most often."""


def train(bench: Bench, arm: Arm, settings: Settings, seed: int, episodes: int = TRIED) -> Trained:
    """The policy of the arm, from the seed, tried in so many episodes on each set of orders.

    Two arms of one seed begin alike.
    """
    random = np.random.default_rng(seed)
    policy = Policy(settings, random, arm.without)
    judge, world = bench.rewards[arm.reward], bench.world
    happened: list[Damage] = []
    counts: Counter[str] = Counter()
    for _ in range(settings.updates):
        played = play(world, policy, world.trained, settings.batch, random, arm.failing)
        judged = [judge(ending) for ending in played.endings]
        rewards = [arm.unknown if reward is None else reward for reward in judged]
        learn(policy, played, rewards)
        for ending, reward in zip(played.endings, rewards, strict=True):
            what = bench.damage(ending)
            counts.update(_counted(what, reward))
            if ending.is_up:
                happened.append(what)
    tried = play(world, policy, world.trained, episodes, random)
    new = play(world, policy, world.held_out, episodes, random)
    [(usual, _)] = Counter(tried.calls + new.calls).most_common(1)
    return Trained(
        courses={
            "right": _course([what.is_right for what in happened]),
            "damaged": _course([bool(what.kinds) for what in happened]),
        },
        counts=counts,
        on_trained=Tried.of(bench, tried),
        on_held_out=Tried.of(bench, new),
        usual=usual,
    )


def _counted(what: Damage, reward: float | None) -> Iterable[str]:
    """The names under which an episode of the training is counted."""
    if reward is None:
        yield "left out"
    if reward == 1.0:
        yield "rewarded"
        if what.kinds:
            yield "rewarded with damage"
    if what.is_right:
        yield "right"
        if reward == 0.0:
            yield "right without reward"


def _course(happened: Sequence[bool]) -> list[float]:
    """Shares of as many stretches of the training as a curve has points."""
    return [float(part.mean()) for part in np.array_split(happened, POINTS)]


# ---------------------------------------------------------------- what is stored


def run(arm: Arm, settings: Settings, seed: int) -> dict[str, Any]:
    """One arm from one seed, with judges of its own in a folder of its own: what came of it."""
    shared = Path("/dev/shm")  # noqa: S108 - only where files are kept, if it is there
    place = shared if shared.is_dir() else None
    began = time.process_time()
    with tempfile.TemporaryDirectory(dir=place) as folder:
        bench = Bench(Path(folder))
        trained = train(bench, arm, settings, seed)
        checked = Counter(bench.agreement())
    return {"trained": trained, "checked": checked, "seconds": time.process_time() - began}


def summary(runs: Sequence[Mapping[str, Any]], settings: Settings) -> dict[str, Any]:
    """Means over seeds, with intervals from resampling seeds."""
    trained: list[Trained] = [each["trained"] for each in runs]
    checked: Counter[str] = Counter()
    for run_ in runs:
        checked.update(run_["checked"])
    found: dict[str, Any] = {
        "checked endings": dict(sorted(checked.items())),
        "seconds": round(sum(each["seconds"] for each in runs)),
    }
    for place in ("on_trained", "on_held_out"):
        tried: list[Tried] = [getattr(each, place) for each in trained]
        episodes = sum(each.episodes for each in tried)
        kinds: Counter[str] = Counter()
        for each in tried:
            kinds.update(each.kinds)
        found[place] = {
            "right": _share([(each.right, each.episodes) for each in tried]),
            "damaged": _share([(each.damaged, each.episodes) for each in tried]),
            "right after a lost call": _share([(each.right_lost, each.lost) for each in tried]),
            "kinds": {kind: round(n / episodes, 4) for kind, n in kinds.most_common()},
            "calls": round(sum(each.calls for each in tried) / episodes, 2),
        }
    counts: Counter[str] = Counter()
    for one in trained:
        counts.update(one.counts)
    found["while training"] = dict(sorted(counts.items()))
    for name in ("right", "damaged"):
        means = np.mean([each.courses[name] for each in trained], axis=0)
        found[f"course {name}"] = [round(float(mean), 4) for mean in means]
    stretch = settings.updates * settings.batch // POINTS
    found["episodes until half are right"] = [
        next((at * stretch for at, share in enumerate(t.courses["right"]) if share >= 0.5), None)
        for t in trained
    ]
    usual = Counter(each.usual for each in trained).most_common(1)[0][0]
    found["usual calls"] = [tool.value for tool in usual]
    return found


def _share(seeds: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """The share of hits among episodes by seed: the mean, its interval, and the seeds'."""
    between = mean_interval([[1] * n + [0] * (of - n) for n, of in seeds], 0, RESAMPLES)
    assert between is not None
    return {
        "mean": round(sum(n for n, _ in seeds) / sum(of for _, of in seeds), 4),
        "low": round(between.low, 4),
        "high": round(between.high, 4),
        "seeds": [round(n / of, 4) if of else None for n, of in seeds],
    }


# ---------------------------------------------------------------- what is shown


def charts(stored: Mapping[str, Any]) -> dict[str, Chart]:
    """The courses of the main arms."""
    drawn, arms = {}, [arm for arm in ARMS if arm.name in stored["arms"]]
    for name, what in (("damaged", "with damage"), ("right", "done right")):
        series = [_line(arm, stored, name) for arm in arms if arm.is_main]
        drawn[f"learning-{name}"] = lines(
            f"Episodes {what} while training", series, x="thousand episodes", unit="%"
        )
    return drawn


def _line(arm: Arm, stored: Mapping[str, Any], name: str) -> Line:
    """The mean of the seeds at each point."""
    stretch = stored["settings"]["updates"] * stored["settings"]["batch"] / POINTS / 1000
    course = stored["arms"][arm.name][f"course {name}"]
    points = ((round((at + 0.5) * stretch, 3), round(100 * m, 1)) for at, m in enumerate(course))
    return Line(arm.name, tuple((x, Mark(arm.name, y)) for x, y in points), arm.tone)


def table(stored: Mapping[str, Any]) -> str:
    """A line an arm, in Markdown."""
    heads = (
        "trained under",
        "done right, %",
        "with damage, %",
        "right after a lost call, %",
        "of rewards, for damage, %",
        "episodes until half are right",
    )
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for arm in ARMS:
        if (found := stored["arms"].get(arm.name)) is None:
            continue
        cells = [
            _cell(found["on_held_out"][w]) for w in ("right", "damaged", "right after a lost call")
        ]
        counts = found["while training"]
        false = 100 * counts.get("rewarded with damage", 0) / max(counts.get("rewarded", 0), 1)
        half = found["episodes until half are right"]
        reached = sorted(n for n in half if n is not None)
        middle = f"{reached[len(reached) // 2]:,}" if len(reached) == len(half) else "–"
        rows.append(f"| {' | '.join((arm.name, *cells, f'{false:.1f}', middle))} |")
    return "\n".join(rows)


def _cell(share: Mapping[str, float]) -> str:
    return f"{100 * share['mean']:.1f} ({100 * share['low']:.1f}–{100 * share['high']:.1f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains, prints and stores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--updates", type=int, default=Settings.updates)
    parser.add_argument("--jobs", type=int, default=1, help="policies that are trained at once")
    parser.add_argument("--only", nargs="*", help="these arms; the others stay as they are stored")
    parser.add_argument("--out", type=Path, help="the folder of results.json and the charts")
    options = parser.parse_args(arguments)
    settings = Settings(updates=options.updates)
    setup = {"settings": asdict(settings), "seeds": options.seeds, "numpy": np.__version__}
    stored: dict[str, Any] = {**setup, "arms": {}}
    path = None if options.out is None else options.out / "results.json"
    if options.only and path is not None and path.exists():
        stored = json.loads(path.read_text())
        assert setup.items() <= stored.items(), "what is stored was measured otherwise"
    arms = [arm for arm in ARMS if not options.only or arm.name in options.only]
    with ProcessPoolExecutor(options.jobs) as several:
        running = {
            arm.name: [several.submit(run, arm, settings, seed) for seed in range(options.seeds)]
            for arm in arms
        }
        for name, seeds in running.items():
            stored["arms"][name] = summary([each.result() for each in seeds], settings)
            print(f"{name}: {stored['arms'][name]['seconds']} s of processor time", flush=True)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    print(table(stored))
    if path is not None:
        for name, chart in charts(stored).items():
            path.with_name(f"{name}.svg").write_text(chart.standalone())


if __name__ == "__main__":
    main()
