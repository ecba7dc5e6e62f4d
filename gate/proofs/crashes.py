"""`kill -9` of gate, agent and server, at moments that a seed draws.

`python -m gate.proofs.crashes [MOMENTS] [SEED]`: a gate stands before a PostgreSQL database and a
SQLite file, and commits transactions that write one number to both. A third of the moments kill the
gate's process, a third the agent whose statements it runs, a third the server's processes.
After each, a gate is opened again, and both systems are compared: a number in one alone is a half
commit, one that is there twice was applied twice, a prepared transaction that is left is an orphan,
and one that the agent was given as committed and is not there was lost.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
from statediff_gate import Gate

from gate.tests.servers import Server, agent_of, running
from statediff.errors import StatediffError
from statediff.evidence.keys import generate

CONTRACT = """
contract: gate/both
version: 1.0.0
owner: us
intent: Numbers are written to both systems, and nothing else happens.
noop: true
allow:
  - {id: here, create: here}
  - {id: there, create: there}
"""
KINDS = ("gate", "agent", "server")


def work(url: str, home: Path, first: int, said: Any) -> None:
    """A gate's process: number after number, each to both systems; what was committed is said."""
    with opened(url, home) as gate:
        said.send(-1)
        for number in range(first, first + 10_000):
            outcome = gate.execute([
                ("pg", f"INSERT INTO there VALUES ({number})", ()),
                ("file", f"INSERT INTO here VALUES ({number})", ()),
            ])  # fmt: skip
            assert outcome.is_committed, outcome.why
            said.send(number)


def opened(url: str, home: Path) -> Gate:
    systems = {"pg": url, "file": str(home / "here.sqlite")}
    accounts = {"pg": url.replace("owner@", "agent@")}
    return Gate(CONTRACT, systems, accounts=accounts, folder=home / "records", key=home / "key")


def killed_gate(url: str, home: Path, first: int, seconds: float) -> list[int]:
    """The numbers that were said to be committed before the gate's process was killed."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(url, home, first, theirs))
    process.start()
    theirs.close()
    return _killed(process.pid, ours, seconds, process.join)


def _killed(pid: int | None, ours: Any, seconds: float, wait: Any) -> list[int]:
    assert pid is not None
    assert ours.recv() == -1  # it stands
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    wait()
    found = []
    try:
        while True:
            found.append(ours.recv())
    except (EOFError, OSError):
        return found


def killed_server(server: Server, home: Path, first: int, seconds: float) -> list[int]:
    """The same where the server's processes are killed under a gate that goes on."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(server.url, home, first, theirs))
    process.start()
    theirs.close()
    assert ours.recv() == -1
    time.sleep(seconds)
    server.kill()
    process.join(30)
    if process.is_alive():
        process.kill()
        process.join()
    found = []
    with contextlib.suppress(EOFError, OSError):
        while True:
            found.append(ours.recv())
    server.start()
    return found


def killed_agent(url: str, home: Path, first: int, seconds: float) -> list[int]:
    """The same where the agent is killed, whose statements a gate in another process runs.

    The gate sees the end of the line in the middle of a transaction, and ends by itself.
    """
    program = [sys.executable, "-m", "gate.proofs.crashes", "--serve", url, str(home)]
    serving = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert serving.stdin is not None and serving.stdout is not None  # noqa: PT018 - of one kind
    assert serving.stdout.readline() == "ready\n"
    words = [sys.executable, "-c", SPEAKS, str(first)]
    agent = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=serving.stdin, text=True)
    serving.stdin.close()
    time.sleep(seconds)
    agent.kill()
    agent.wait()
    said = serving.stdout.read()
    assert serving.wait(60) == 0, "the gate did not end by itself"
    return [int(line) for line in said.split()]


SPEAKS = """
import sys, time
for number in range(int(sys.argv[1]), int(sys.argv[1]) + 10_000):
    for word in ("pg", "file", "commit"):
        print(number, word, flush=True)
        time.sleep(0.02)
"""


def serve(url: str, home: Path) -> None:
    """A gate that takes the statements of an agent from standard input, one by one."""
    with opened(url, home) as gate:
        print("ready", flush=True)
        lines = iter(sys.stdin.readline, "")
        while (line := next(lines, "")).endswith("\n"):
            with gate.transaction() as begun:
                while True:
                    number, _, word = line.strip().partition(" ")
                    if word == "commit":
                        assert begun.commit().is_committed
                        print(number, flush=True)
                        break
                    table = "there" if word == "pg" else "here"
                    begun.run(f"INSERT INTO {table} VALUES ({number})", (), word)
                    line = next(lines, "")
                    if not line.endswith("\n"):
                        return


def check(url: str, home: Path, said: list[int], counts: Counter[str]) -> None:
    """Count what is wrong after a crash, once a gate has been opened again."""
    for attempt in range(5):
        try:
            opened(url, home).close()
            break
        except StatediffError:
            if attempt == 4:
                raise
            time.sleep(0.5)
    with psycopg.connect(url, autocommit=True) as reading:
        there = [n for (n,) in reading.execute("SELECT n FROM there ORDER BY n").fetchall()]
        orphans = reading.execute("SELECT count(*) FROM pg_prepared_xacts").fetchone()
    with sqlite3.connect(home / "here.sqlite") as file:
        here = [n for (n,) in file.execute("SELECT n FROM here ORDER BY n").fetchall()]
    file.close()
    counts["half commits"] += len(set(here) ^ set(there))
    counts["applied twice"] += len(here) + len(there) - len(set(here)) - len(set(there))
    counts["orphans"] += int((orphans or (0,))[0])
    counts["said to be committed, and lost"] += len(set(said) - set(there) - {-1})


def main(moments: int = 200, seed: int = 7) -> None:
    draw, counts = random.Random(seed), Counter[str]()
    ends = {"gate": killed_gate, "agent": killed_agent}
    with tempfile.TemporaryDirectory(prefix="statediff-proof-") as folder, running() as server:
        home = Path(folder)
        generate(home / "key")
        with psycopg.connect(server.url, autocommit=True) as made:
            made.execute("CREATE TABLE there (n int)")
            made.execute("ALTER TABLE there REPLICA IDENTITY FULL")
        agent_of(server.url)
        with sqlite3.connect(home / "here.sqlite") as made_here:
            made_here.execute("CREATE TABLE here (n INTEGER)")
        made_here.close()
        for moment in range(moments):
            kind = KINDS[moment % 3]
            seconds = draw.uniform(0.0, 0.4)
            first = (moment + 1) * 100_000
            if kind in ends:
                said = ends[kind](server.url, home, first, seconds)
            else:
                said = killed_server(server, home, first, seconds)
            counts[f"{kind} killed"] += 1
            counts["committed before"] += len([n for n in said if n >= 0])
            check(server.url, home, said, counts)
            if moment % 20 == 19 or moment < 3:
                print(moment + 1, dict(counts), flush=True)
    print(dict(sorted(counts.items())))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], Path(sys.argv[3]))
    else:
        main(*map(int, sys.argv[1:]))
