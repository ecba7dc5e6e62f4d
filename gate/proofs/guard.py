"""A guard behind a PostgreSQL under load, killed and started again meanwhile.

`python -m gate.proofs.guard [--seconds 600] [--harms 200] [--kills 6] [--rate 100] [--scale 3]`:
`pgbench` makes its own transactions, and one of twenty is an agent's that its contract allows. The
agent plants harms of eight kinds at moments that a seed draws. `kill -9` ends the guard at others;
it is started again. Printed: planted harms that were not found, records of transactions that are
not the agent's, of which some are missing or double; the lag from a commit to its record, as a
reader of the log sees it; and bytes of the server's log and of the records for each transaction.
Each of the first four has to be 0.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from statediff_gate.records import LINES, read_decisions

from gate.tests.servers import agent_of, programs, server
from statediff.evidence.keys import generate

CONTRACT = """
contract: gate/guarded
version: 1.0.0
owner: us
intent: Remarks of accounts may be written, and nothing else.
noop: true
forbid: [{id: kept, delete: [pgbench_accounts, spare]}]
allow: [{id: remark, update: pgbench_accounts, fields: [filler]}]
"""
RIGHT = """\\set aid random(1, 100000 * :scale)
UPDATE pgbench_accounts SET filler = 'seen' || :aid || random() WHERE aid = :aid;
"""
SOME = "UPDATE pgbench_accounts SET filler = 'also' WHERE aid = {n}"
HARMS: tuple[tuple[str, ...], ...] = (
    ("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = {n}",),
    ("INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (1, 1, {n}, 5)",),
    ("DELETE FROM spare WHERE id = {n}",),
    (SOME, "UPDATE pgbench_tellers SET tbalance = tbalance - 1 WHERE tid = 1", SOME),
    (
        "SAVEPOINT a",
        "DELETE FROM spare",
        "ROLLBACK TO a",
        "UPDATE spare SET what = 'x{n}'",
    ),
    ("SET LOCAL application_name = 'pgbench'", "DELETE FROM spare WHERE id = {n} + 1000"),
    ("SELECT spend({n})",),
    ("INSERT INTO part VALUES ({n} + 5000000, 'x')", "UPDATE part SET what = 'y'"),
)
MADE = (
    "CREATE TABLE spare (id int PRIMARY KEY, what text)",
    "INSERT INTO spare SELECT n, 'kept' FROM generate_series(1, 5000) n",
    "CREATE TABLE part (id int PRIMARY KEY, what text) PARTITION BY RANGE (id)",
    "CREATE TABLE part1 PARTITION OF part DEFAULT",
    """CREATE FUNCTION spend(n int) RETURNS void LANGUAGE sql SECURITY DEFINER AS
    'UPDATE public.pgbench_branches SET bbalance = bbalance - n WHERE bid = 1'""",
)


def guard(url: str, *words: str) -> list[str]:
    return [
        sys.executable, "-m", "statediff", "guard", "contract.yaml", "--state", f"db={url}",
        "--agent", "agent", "--key", "key", "--records", "records", *words,
    ]  # fmt: skip


@contextmanager
def load(
    url: str, role: str, rate: float, seconds: int, *words: str
) -> Iterator[subprocess.Popen[str]]:
    """`pgbench` as a role, until its time is over."""
    found = programs()
    assert found is not None
    parts = re.fullmatch(r"postgresql://\w+@([\w.]+):(\d+)/(\w+)", url)
    assert parts is not None
    command = [
        str(found / "pgbench"), "-n", "-h", parts[1], "-p", parts[2], "-U", role, "-R", str(rate),
        "-T", str(seconds), "-c", "2", *words, parts[3],
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as made:
        try:
            yield made
        finally:
            made.terminate()


def plant(agent: psycopg.Connection[Any], number: int) -> int:
    """Do a harm; the number of its transaction."""
    with agent.transaction():
        for each in HARMS[number % len(HARMS)]:
            agent.execute(each.format(n=number + 1).encode())
        row: Any = agent.execute("SELECT pg_current_xact_id()::text::int8").fetchone()
    return int(row[0])


class Reader(threading.Thread):
    """Sees each line of the log when it is there, and how old its transaction is."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._path, self.is_over = path, threading.Event()
        self.lags: list[tuple[float, float]] = []

    def run(self) -> None:
        at = 0
        while not self.is_over.wait(0.004):
            if not self._path.exists():
                continue
            with self._path.open("rb") as file:
                file.seek(at)
                new, now = file.read(), time.time()
            new = new[: new.rfind(b"\n") + 1]
            at += len(new)
            for line in new.splitlines():
                said = json.loads(line)["guarded"].get("committed_at")
                if said is not None:
                    committed = datetime.fromisoformat(said).timestamp()
                    self.lags.append((committed, now - committed))


def watched(
    url: str, home: Path, options: argparse.Namespace, draw: random.Random
) -> tuple[set[int], list[tuple[float, float]], int, int]:
    """The harms, when guards were killed, and how many right ones and others' there were."""
    planted, down = set[int](), list[tuple[float, float]]()
    moments = sorted(
        [(draw.uniform(0.02, 0.98) * options.seconds, "harm") for _ in range(options.harms)]
        + [
            ((n + draw.uniform(0.3, 0.8)) * options.seconds / options.kills, "kill")
            for n in range(options.kills)
        ]
    )
    (home / "right.sql").write_text(RIGHT)
    at_work = subprocess.Popen(guard(url), cwd=home, stdout=subprocess.DEVNULL)
    begun, number = time.time(), 0
    script = ("-f", str(home / "right.sql"), "-s", str(options.scale))
    with (
        load(url, "owner", options.rate * 0.95, options.seconds, "-b", "tpcb-like") as others,
        load(url, "agent", options.rate * 0.05, options.seconds, *script) as right,
        psycopg.connect(url.replace("owner@", "agent@"), autocommit=True) as agent,
    ):
        for moment, what in moments:
            time.sleep(max(0.0, begun + moment - time.time()))
            if what == "harm":
                planted.add(plant(agent, number))
                number += 1
                continue
            at_work.send_signal(signal.SIGKILL)
            at_work.wait()
            down.append((time.time(), 0.0))
            at_work = subprocess.Popen(guard(url), cwd=home, stdout=subprocess.DEVNULL)
        counts = [_processed(each) for each in (right, others)]
    at_work.send_signal(signal.SIGINT)
    assert at_work.wait(120) == 0
    subprocess.run(guard(url, "--once"), cwd=home, stdout=subprocess.DEVNULL, check=False)
    return planted, down, counts[0], counts[1]


def _processed(load_: subprocess.Popen[str]) -> int:
    said = load_.communicate()[0]
    found = re.search(r"actually processed: (\d+)", said)
    assert found is not None, said
    return int(found[1])


def log_bytes(url: str, agent: str, times: int = 100) -> float:
    """Bytes of the server's log for one right transaction, in a quiet moment."""
    with (
        psycopg.connect(url, autocommit=True) as admin,
        psycopg.connect(agent, autocommit=True) as made,
    ):

        def at() -> int:
            row: Any = admin.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
            return int(row[0])

        made.execute(SOME.format(n=1).encode())
        before = at()
        for n in range(times):
            made.execute(f"UPDATE pgbench_accounts SET filler = 'w{n}' WHERE aid = 1".encode())
        return (at() - before) / times


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, value in (
        ("seconds", 600),
        ("harms", 200),
        ("kills", 6),
        ("rate", 100),
        ("scale", 3),
        ("seed", 7),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    found = programs()
    assert found is not None
    with tempfile.TemporaryDirectory(prefix="statediff-proof-") as folder, server() as url:
        home = Path(folder)
        generate(home / "key")
        (home / "contract.yaml").write_text(CONTRACT)
        subprocess.run(
            [str(found / "pgbench"), "-i", "-q", "-s", str(options.scale), url], check=True,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with psycopg.connect(url, autocommit=True) as admin:
            for each in MADE:
                admin.execute(each)
        agent = agent_of(url)
        plain = log_bytes(url, agent)
        subprocess.run(guard(url, "--begin"), cwd=home, check=True)
        marked = log_bytes(url, agent)
        subprocess.run(guard(url, "--once"), cwd=home, check=True)
        before = len(list(read_decisions(home / "records")))
        reader = Reader(home / "records" / LINES)
        reader.start()
        planted, down, right, others = watched(url, home, options, random.Random(options.seed))
        reader.is_over.set()
        reader.join()
        report(home, before, planted, right, others)
        print(f"lag: {lags(reader.lags, down)}")
        size = (home / "records" / LINES).stat().st_size / (before + right + len(planted))
        sizes = f"log {plain:.0f}, with its mark {marked:.0f}; record {size:.0f}"
        print(f"bytes for a transaction: {sizes}")


def report(home: Path, before: int, planted: set[int], right: int, others: int) -> None:
    records = list(read_decisions(home / "records"))[before:]
    seen = Counter(int(each["guarded"]["transaction"]) for each in records)
    refused = {int(r["guarded"]["transaction"]) for r in records if r["decision"] != "allow"}
    more = max(0, len(seen) - right - len(planted))
    counts = {
        "harms planted": len(planted), "harms not found": len(planted - refused),
        "records of others' transactions": len(refused - planted) + more,
        "missing": max(0, right + len(planted) - len(seen)),
        "double": sum(n - 1 for n in seen.values()),
        "the agent's right ones": right, "of others": others,
    }  # fmt: skip
    print(counts, flush=True)


def lags(found: list[tuple[float, float]], down: list[tuple[float, float]]) -> str:
    """Percentiles in seconds of all, and of those that were committed while a guard was at work."""
    is_down = [
        (killed, min((c + lag for c, lag in found if c + lag > killed), default=killed))
        for killed, _ in down
    ]
    live = [lag for c, lag in found if not any(start <= c <= end for start, end in is_down)]
    parts = []
    for name, listed in (
        ("while a guard was at work", live),
        ("with the times it was dead", [lag for _, lag in found]),
    ):
        cut, most = statistics.quantiles(listed, n=100), max(listed)
        parts.append(f"{name} p50 {cut[49]:.3f} s, p95 {cut[94]:.3f} s, max {most:.3f} s")
    return "; ".join(parts)


if __name__ == "__main__":
    main()
