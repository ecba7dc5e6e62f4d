"""`kill -9` of gate, agent and server, at moments that a seed draws.

`python -m gate.proofs.crashes [postgres|mariadb] [MOMENTS] [SEED]`: a gate stands before a database
of a server and a SQLite file, and commits transactions that write one number to both. A third of
the moments kill the gate's process, a third the agent whose statements it runs, a third the
server's processes.
After each, a gate is opened again, and both systems are compared: a number in one alone is a half
commit, one that is there twice was applied twice, a prepared transaction that is left is an orphan,
and one that the agent was given as committed and is not there was lost.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from statediff_gate import Gate

from gate.tests.servers import TARGETS, Target, ask
from gate.tests.test_together import OPEN
from statediff.errors import StatediffError
from statediff.evidence.keys import generate


def work(target: Target, home: Path, first: int, said: Any) -> None:
    """A gate's process: number after number, each to both systems; what was committed is said."""
    with opened(target, home) as gate:
        said.send(-1)
        for number in range(first, first + 10_000):
            outcome = gate.execute([
                ("server", f"INSERT INTO there VALUES ({number})", ()),
                ("file", f"INSERT INTO here VALUES ({number})", ()),
            ])  # fmt: skip
            assert outcome.is_committed, outcome.why
            said.send(number)


def opened(target: Target, home: Path) -> Gate:
    systems, accounts = {"server": target.url, "file": home / "here"}, {"server": target.account}
    return Gate(OPEN, systems, accounts=accounts, folder=home / "records", key=home / "key")


def killed(target: Target, home: Path, first: int, seconds: float, kind: str) -> list[int]:
    """The numbers that were said to be committed before the gate, or its server, was killed."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(target, home, first, theirs))
    process.start()
    theirs.close()
    assert ours.recv() == -1  # it stands
    time.sleep(seconds)
    with target.killed() if kind == "server" else contextlib.nullcontext():
        process.join(30 if kind == "server" else 0)
        process.kill()
        process.join()
    found = []
    with contextlib.suppress(EOFError, OSError):
        while True:
            found.append(ours.recv())
    return found


def killed_agent(target: Target, home: Path, first: int, seconds: float) -> list[int]:
    """The same where the agent is killed, whose statements a gate runs that goes on."""
    words = [sys.executable, "-c", SPEAKS, str(first)]
    with opened(target, home) as gate:
        agent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        threading.Timer(seconds, agent.kill).start()
        assert agent.stdout is not None
        said = list(iter(partial(transaction, gate, agent.stdout), None))
    agent.wait()
    return said


def transaction(gate: Gate, lines: Iterator[str]) -> int | None:
    """Run a transaction of the agent's, statement by statement; None where it ended amid one."""
    with gate.transaction() as begun:
        for line in lines:
            number, _, word = line.strip().partition(" ")
            if word == "commit":
                assert begun.commit().is_committed
                return int(number)
            if not line.endswith("\n"):
                return None
            table = "there" if word == "server" else "here"
            begun.run(f"INSERT INTO {table} VALUES ({number})", (), word)
    return None


SPEAKS = """
import sys, time
for number in range(int(sys.argv[1]), int(sys.argv[1]) + 10_000):
    for word in ("server", "file", "commit"):
        print(number, word, flush=True)
        time.sleep(0.02)
"""


def check(target: Target, home: Path, said: list[int], counts: Counter[str]) -> None:
    """Count what is wrong after a crash, once a gate has been opened again."""
    for attempt in range(5):
        try:
            opened(target, home).close()
            break
        except StatediffError:
            if attempt == 4:
                raise
            time.sleep(0.5)
    there = [int(n) for (n,) in target.ask("SELECT n FROM there ORDER BY n")]
    here = [n for (n,) in ask(str(home / "here"), "SELECT n FROM here ORDER BY n")]
    counts["half commits"] += len(set(here) ^ set(there))
    counts["applied twice"] += len(here) + len(there) - len(set(here)) - len(set(there))
    counts["orphans"] += target.orphans
    counts["said to be committed, and lost"] += len(set(said) - set(there) - {-1})


def main(system: str = "postgres", moments: int = 200, seed: int = 7) -> None:
    draw, counts = random.Random(seed), Counter[str]()
    with (
        tempfile.TemporaryDirectory(prefix="statediff-proof-") as folder,
        TARGETS[system]("CREATE TABLE there (n int)") as target,
    ):
        home = Path(folder)
        generate(home / "key")
        ask(str(home / "here"), "CREATE TABLE here (n INTEGER)")
        for moment in range(moments):
            kind = ("gate", "agent", "server")[moment % 3]
            seconds = draw.uniform(0.0, 0.4)
            how = killed_agent if kind == "agent" else partial(killed, kind=kind)
            said = how(target, home, (moment + 1) * 100_000, seconds)
            counts[f"{kind} killed"] += 1
            counts["committed before"] += len([n for n in said if n >= 0])
            check(target, home, said, counts)
            if moment % 20 == 19 or moment < 3:
                print(moment + 1, dict(counts), flush=True)
    print(system, dict(sorted(counts.items())))


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:]))
