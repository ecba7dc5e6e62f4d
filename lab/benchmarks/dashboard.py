"""How long the pages of a dashboard take: `python -m lab.benchmarks.dashboard [TRIALS]`.

A store of so many trials (100,000) in SQLite: 10 runs of 10 contracts with 4 agents. Processor
time, the median of five; the machine may do other things beside.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from statediff_lab.dashboard.comparing import Pair, comparison_page
from statediff_lab.dashboard.page import board_page
from statediff_lab.dashboard.parts import Choice
from statediff_lab.dashboard.trials import trials_page

from statediff.suite.records import Ended, Loose, Run, Trial
from statediff.suite.store import Store, file_url, open_store

RUNS, CONTRACTS, AGENTS = 10, 10, 4
CLAUSES = ("refunded", "frame", "no-customer-deleted", "told-once", "answer-true")


def fill(store: Store, trials: int) -> None:
    """So many trials, of which some seven in ten match."""
    dice = random.Random(1)
    each = trials // (RUNS * CONTRACTS * AGENTS)
    for run in range(RUNS):
        name = f"{run:032d}"
        store.put_run(
            Run(
                name,
                f"file://x/{run}",
                name=f"run-{run}",
                statediff="0",
                kernel="4",
                facts="{}",
                contracts=(),
                times=0,
                agents=(),
            )
        )
        made = []
        for at in range(CONTRACTS * AGENTS * each):
            contract, agent = at % CONTRACTS, at // CONTRACTS % AGENTS
            end = dice.choices((Ended.MATCH, Ended.DIVERGE, Ended.INCONCLUSIVE, Ended.FAULT),
                               (70, 22, 6, 2))[0]  # fmt: skip
            loose = (Loose(dice.choice(CLAUSES), "unexplained-change", "frame", "FAILS"),)
            made.append(
                Trial(
                    name,
                    f"trial-{at}",
                    end,
                    contract=f"shop/task-{contract}",
                    version="1.0.0",
                    digest="d" * 64,
                    kernel="4",
                    agent=f"agent-{agent}",
                    number=at,
                    started_at=f"2026-01-{run + 1:02d}T00:00:00+00:00",
                    agent_microseconds=1_000_000,
                    cost_nano=dice.randrange(10**9),
                    outcome=end.value if end.has_verdict else None,
                    task=dice.choice(("MATCH", "DIVERGE")) if end.has_verdict else None,
                    recall_nano=dice.randrange(10**9) if end.has_verdict else None,
                    along="HOLDS" if end.has_verdict else None,
                    whole="FAILS" if end is Ended.DIVERGE else "HOLDS",
                    loose=loose if end is Ended.DIVERGE else (),
                )
            )
        for start in range(0, len(made), 2000):
            store.put_trials(made[start : start + 2000])


def measured(page: Callable[[], str]) -> str:
    """Seconds and bytes of a page."""
    seconds, size = [], 0
    for _ in range(5):
        began = time.process_time()
        size = len(page().encode())
        seconds.append(time.process_time() - began)
    return f"{median(seconds):.3f} s  {size:,} bytes"


def main() -> None:
    """The table."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(file_url(Path(folder) / "store.sqlite")) as store,
    ):
        fill(store, trials)
        chosen = Choice(ended=Ended.DIVERGE, clause="refunded")
        deep = trials // 100 - 1
        by_cost = Choice(sort="cost", is_down=True)
        pair = Pair(f"{0:032d}", f"{1:032d}", "agent-0", "agent-0")
        for name, page in {
            "the overview": lambda: board_page(store, None, "x", "/r"),
            "trials of a clause": lambda: trials_page(store, None, chosen, "/r", 3, {}),
            "the last page of all": lambda: trials_page(store, None, Choice(), "/r", deep, {}),
            "all by cost": lambda: trials_page(store, None, by_cost, "/r", 0, {}),
            "two runs": lambda: comparison_page(store, pair, "/r", 0, {}),
        }.items():
            print(f"{name:22} {measured(page)}")


if __name__ == "__main__":
    main()
