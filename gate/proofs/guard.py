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
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from statediff_gate.records import LINES, read_decisions

from gate.tests.servers import agent_of, ask, programs, server
from statediff.evidence.keys import generate

PROGRAMS = programs() or Path()
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
    ("SAVEPOINT a", "DELETE FROM spare", "ROLLBACK TO a", "DELETE FROM part WHERE id = {n}"),
    ("SET LOCAL application_name = 'pgbench'", "DELETE FROM spare WHERE id = {n} + 1000"),
    ("SELECT spend({n})",),
    ("INSERT INTO part VALUES ({n} + 5000000, 'x')", "UPDATE part SET what = 'y' WHERE id = {n}"),
)
MADE = (
    "CREATE TABLE spare (id int PRIMARY KEY, what text)",
    "INSERT INTO spare SELECT n, 'kept' FROM generate_series(1, 5000) n",
    "CREATE TABLE part (id int PRIMARY KEY, what text) PARTITION BY RANGE (id)",
    "CREATE TABLE part1 PARTITION OF part DEFAULT",
    "INSERT INTO part SELECT n, 'kept' FROM generate_series(1, 5000) n",
    """CREATE FUNCTION spend(n int) RETURNS void LANGUAGE sql SECURITY DEFINER AS
    'UPDATE public.pgbench_branches SET bbalance = bbalance - n WHERE bid = 1'""",
)


def guard(url: str, *words: str) -> list[str]:
    return [
        sys.executable, "-m", "statediff", "guard", "contract.yaml", "--state", f"db={url}",
        "--agent", "agent", "--key", "key", "--records", "records", *words,
    ]  # fmt: skip


def load(url: str, role: str, rate: float, seconds: int, *words: str) -> subprocess.Popen[str]:
    """`pgbench` as a role, until its time is over."""
    command = [
        str(PROGRAMS / "pgbench"), "-n", "-R", str(rate), "-T", str(seconds), "-c", "2", *words,
        url.replace("owner@", f"{role}@"),
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def plant(agent: psycopg.Connection[Any], number: int) -> int:
    """Do a harm; the number of its transaction."""
    with agent.transaction():
        for each in HARMS[number % len(HARMS)]:
            agent.execute(each.format(n=number + 1).encode())
        row: Any = agent.execute("SELECT pg_current_xact_id()::text::int8").fetchone()
    return int(row[0])


def read_on(path: Path, is_over: threading.Event, lags: list[tuple[float, float]]) -> None:
    """Note of each line of the log when it is there how old its transaction is."""
    at = path.stat().st_size
    while not is_over.wait(0.004):
        with path.open("rb") as file:
            file.seek(at)
            new, now = file.read(), time.time()
        new = new[: new.rfind(b"\n") + 1]
        at += len(new)
        for line in new.splitlines():
            said = json.loads(line)["guarded"]["committed_at"]
            committed = datetime.fromisoformat(said).timestamp()
            lags.append((committed, now - committed))


def watched(
    url: str, home: Path, options: argparse.Namespace, draw: random.Random
) -> tuple[set[int], list[float], int, int]:
    """The harms, when guards were started, and how many right ones and others' there were."""
    planted, seconds, part = set[int](), options.seconds, options.seconds / options.kills
    moments = [(draw.uniform(0.02, 0.98) * seconds, "harm") for _ in range(options.harms)]
    moments += [((n + draw.uniform(0.3, 0.8)) * part, "kill") for n in range(options.kills)]
    (home / "right.sql").write_text(RIGHT)
    at_work = subprocess.Popen(guard(url), cwd=home, stdout=subprocess.DEVNULL)
    starts = [time.time()]
    script = ("-f", str(home / "right.sql"), "-s", str(options.scale))
    others = load(url, "owner", options.rate * 0.95, seconds, "-b", "tpcb-like")
    right = load(url, "agent", options.rate * 0.05, seconds, *script)
    with psycopg.connect(url.replace("owner@", "agent@"), autocommit=True) as agent:
        for moment, what in sorted(moments):
            time.sleep(max(0.0, starts[0] + moment - time.time()))
            if what == "harm":
                planted.add(plant(agent, len(planted)))
                continue
            at_work.kill()
            at_work.wait()
            starts.append(time.time())
            at_work = subprocess.Popen(guard(url), cwd=home, stdout=subprocess.DEVNULL)
    counts = []
    for each in (right, others):
        said = each.communicate()[0]
        found = re.search(r"actually processed: (\d+)", said)
        assert found is not None, said
        counts.append(int(found[1]))
    at_work.kill()
    at_work.wait()
    subprocess.run(guard(url, "--once"), cwd=home, stdout=subprocess.DEVNULL, check=False)
    return planted, starts, counts[0], counts[1]


def log_bytes(url: str, agent: str, times: int = 100) -> int:
    """Bytes of the server's log for one right transaction, in a quiet moment."""
    at: list[int] = []
    for count in (1, times):
        for n in range(count):
            ask(agent, f"UPDATE pgbench_accounts SET filler = 'w{n}' WHERE aid = 1")
        at.append(int(ask(url, "SELECT pg_current_wal_insert_lsn() - '0/0'")[0][0]))
    return (at[1] - at[0]) // times


def main() -> None:
    parser = argparse.ArgumentParser()
    defaults = {"seconds": 600, "harms": 200, "kills": 6, "rate": 100, "scale": 3, "seed": 7}
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="statediff-proof-") as folder, server() as url:
        home, lines, over = Path(folder), Path(folder) / "records" / LINES, threading.Event()
        generate(home / "key")
        (home / "contract.yaml").write_text(CONTRACT)
        fill = [str(PROGRAMS / "pgbench"), "-i", "-q", "-s", str(options.scale), url]
        subprocess.run(fill, check=True, stderr=subprocess.DEVNULL)
        ask(url, *MADE)
        plain = log_bytes(url, agent_of(url))
        subprocess.run(guard(url, "--begin"), cwd=home, check=True)
        marked = log_bytes(url, agent_of(url))
        subprocess.run(guard(url, "--once"), cwd=home, check=True)
        before, lags = len(list(read_decisions(lines.parent))), list[tuple[float, float]]()
        reader = threading.Thread(target=read_on, args=(lines, over, lags))
        reader.start()
        planted, starts, right, others = watched(url, home, options, random.Random(options.seed))
        over.set()
        reader.join()
        report([*read_decisions(lines.parent)][before:], planted, right, others)
        size = lines.stat().st_size // (before + right + len(planted))
        print(f"bytes for a transaction: log {plain}, with its mark {marked}; record {size}")
        print_lags(lags, starts)


def report(records: list[Any], planted: set[int], right: int, others: int) -> None:
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


def print_lags(found: list[tuple[float, float]], starts: list[float]) -> None:
    """The lag of all, and of those that were committed once the guard at work had caught up."""
    ends = [min((c for c, lag in found if c > at and lag < 1), default=at) for at in starts]
    late = list(zip(starts, ends, strict=True))
    live = [lag for c, lag in found if not any(start <= c <= end for start, end in late)]
    for name, listed in (("all", [lag for _, lag in found]), ("once it had caught up", live)):
        cut, most = statistics.quantiles(listed, n=100), max(listed)
        print(f"lag, {name}: p50 {cut[49]:.3f} s, p95 {cut[94]:.3f} s, max {most:.3f} s")


if __name__ == "__main__":
    main()
