"""Others who write while an agent's transactions are judged.

`python -m gate.proofs.writers [TRANSACTIONS] [SEED]`: writers change rows of their own, and rows
that the agent writes too, while an agent commits through a gate before PostgreSQL. A transaction of
the agent's is right or does harm, by a seed. Printed: wrong decisions, changes of the agent's that
were committed though they do harm, and writers' changes that are not there at the end; each has to
be 0.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg
from statediff_gate import Decision, Gate

from gate.tests.servers import agent_of, ask, server
from gate.tests.test_guard import CONTRACT as NOTES
from statediff.evidence.keys import generate

CONTRACT = NOTES.replace("[orders, customer]", "orders").replace(
    "count: {min: 0, max: 2}", "where: it.id < 100"
)
SHARED = 3
"""Orders below 100 that writers write too."""


def writer(url: str, number: int, over: threading.Event, made: Counter[int]) -> None:
    draw = random.Random(number)
    with psycopg.connect(url, autocommit=True) as connection:
        while not over.is_set():
            row = 1000 * (number + 1) + draw.randrange(100)
            connection.execute(f"UPDATE orders SET cents = cents + 1 WHERE id = {row}")
            made[row] += 1
            if draw.random() < 0.01:
                at = draw.randrange(1, SHARED + 1)
                connection.execute(f"UPDATE orders SET cents = cents + 1 WHERE id = {at}")
                made[at] += 1
            time.sleep(0.002)


def main(transactions: int = 300, seed: int = 7) -> None:
    counts, made, over = Counter[str](), Counter[int](), threading.Event()
    with tempfile.TemporaryDirectory(prefix="statediff-proof-") as folder, server() as url:
        generate(Path(folder) / "key")
        ask(url, "CREATE TABLE orders (id int PRIMARY KEY, cents int, note text)",
            "INSERT INTO orders SELECT n, 0, NULL FROM generate_series(1, 5000) n")  # fmt: skip
        with ThreadPoolExecutor() as threads:
            writing = [threads.submit(writer, url, n, over, made) for n in range(3)]
            try:
                agent(url, Path(folder), transactions, random.Random(seed), counts)
            finally:
                over.set()
        for each in writing:
            each.result()
        rows = ask(url, "SELECT id, cents FROM orders")
        counts["writers' changes"] = sum(made.values())
        counts["writers' changes lost"] = sum(cents != made[at] for at, cents in rows)
    print(dict(sorted(counts.items())))


def agent(
    url: str, home: Path, transactions: int, draw: random.Random, counts: Counter[str]
) -> None:
    opened = partial(Gate, CONTRACT, {"db": url}, accounts={"db": agent_of(url)}, folder=home / "r",
                     key=home / "key")  # fmt: skip
    gate = opened()
    for number in range(transactions):
        if number % 10 == 0:
            gate.begin_run()
        is_harm = draw.random() < 0.3
        at = draw.randrange(1, 100)
        ids = f"{at}, {4000 + at}" if is_harm else str(at)
        outcome = gate.execute([f"UPDATE orders SET note = 'n{number}' WHERE id IN ({ids})"])
        counts[f"{'harm' if is_harm else 'right'}, {outcome.decision.value}"] += 1
        [(there,)] = ask(url, f"SELECT count(*) FROM orders WHERE note = 'n{number}'")
        counts["wrong decisions"] += is_harm and outcome.decision is Decision.ALLOW
        counts["right, denied"] += not is_harm and outcome.decision is Decision.DENY
        counts["half or more than was decided"] += there != int(outcome.is_committed)
        if outcome.decision is Decision.HOLD and not is_harm:
            assert "in turns" in outcome.why, outcome.why
            gate.close()  # a person looks, and another gate begins
            gate = opened()
    gate.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
