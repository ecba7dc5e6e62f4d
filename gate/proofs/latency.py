"""A gated transaction, push and letter beside the plain one, on a table of a million rows.

`python -m gate.proofs.latency [ROWS] [TIMES] [SYSTEM…]` does both in turns, on SQLite, PostgreSQL,
MariaDB, a git repository and a mail server, and prints the 50th and the 95th part of a hundred in
milliseconds, their ratio, and the processor time that a gated transaction takes in its own process.
"""

from __future__ import annotations

import smtplib
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from statediff_gate import Gate
from statediff_gate.pushes.hooks import install
from statediff_gate.relay import listening
from statediff_mariadb.session import connected
from statediff_office.mail.source import OutboxProcess

from gate.tests.conftest import MADE
from gate.tests.servers import TARGETS, ask
from gate.tests.test_guard import CONTRACT as NOTES
from gate.tests.test_pushes import CONTRACT as PUSHES
from gate.tests.test_pushes import commit, served
from gate.tests.test_relay import CONTRACT as LETTERS
from gate.tests.test_relay import letter
from statediff.evidence.keys import generate

CONTRACT = NOTES.replace(", count: {min: 0, max: 2}", "")
FILLED = "INSERT INTO orders SELECT {n}, 'paid', {n} * 10, NULL FROM {of}"
FILL = {
    "sqlite": "WITH RECURSIVE s(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM s WHERE n < {rows}) "
    + FILLED.format(n="n", of="s"),
    "postgres": FILLED.format(n="n", of="generate_series(1, {rows}) n"),
    "mariadb": FILLED.format(n="seq", of="seq_1_to_{rows}"),
}
RUN = 10
"""Transactions of one run, whose changes are judged together."""
UPDATE = "UPDATE orders SET note = 'n{n}' WHERE id = {id}"
Do = Callable[[int], Any]


def measured(what: str, times: int, plain: Do, gated: Do, begin: Do) -> None:
    """One line: both ways in turns, on ends that never repeat."""
    alone, behind, own = [], [], []
    for n in range(times):
        begin(n)
        begun = time.perf_counter()
        plain(n)
        alone.append(time.perf_counter() - begun)
        begun, used = time.perf_counter(), time.process_time()
        gated(n)
        own.append(time.process_time() - used)
        behind.append(time.perf_counter() - begun)
    first, last = (statistics.quantiles(each, n=100) for each in (alone, behind))
    ms = [1e3 * each for each in (first[49], first[94], last[49], last[94])]
    used_ms = [1e3 * each for each in (statistics.median(own), statistics.quantiles(own, n=20)[-1])]
    print(
        f"{what}, {times} times: plain p50 {ms[0]:.1f} p95 {ms[1]:.1f} ms,"
        f" gated p50 {ms[2]:.1f} p95 {ms[3]:.1f} ms, {ms[3] / ms[1]:.1f} times at p95;"
        f" own processor time median {used_ms[0]:.1f} ms, p95 {used_ms[1]:.1f} ms",
        flush=True,
    )


@contextmanager
def plainly(url: str) -> Iterator[Callable[[str], Any]]:
    """A plain transaction of one statement in a database that no gate follows."""
    if url.startswith("postgresql"):
        with psycopg.connect(url) as pg:
            yield lambda each: (pg.execute(each.encode()), pg.commit())
    elif url.startswith("mysql"):
        with closing(connected(url, 60)[0]) as maria:
            maria.select_db("other")
            yield maria.query
    else:
        with closing(sqlite3.connect(url)) as file:
            file.executescript("PRAGMA journal_mode = wal; PRAGMA synchronous = FULL")
            yield lambda each: (file.execute(each), file.commit())


def on_database(system: str, rows: int, times: int, home: Path) -> None:
    made = *MADE[:2], FILL[system].format(rows=rows)
    with ExitStack() as left:
        target = left.enter_context(TARGETS[system](*made))
        other = str(home / "other")
        if system != "sqlite":
            target.ask("CREATE DATABASE other")
            other = target.url.replace("/shop", "/other")
        ask(other, *made)
        alone = left.enter_context(plainly(other))
        gate = left.enter_context(
            Gate(CONTRACT, {"db": target.url}, accounts={"db": target.account}, folder=home / "r",
                 key=home / "key")
        )  # fmt: skip

        def begin(n: int) -> None:
            if n % RUN == 0:
                gate.begin_run()
                gate.execute([UPDATE.format(n=n, id=rows)])

        def gated(n: int) -> None:
            outcome = gate.execute([UPDATE.format(n=n, id=1 + (n * 7919) % rows)])
            assert outcome.is_committed, outcome.why

        def plain(n: int) -> None:
            alone(UPDATE.format(n=n, id=1 + (n * 7919 + rows // 2) % rows))

        measured(f"{system}, {rows} rows", times, plain, gated, begin)


def on_git(times: int, home: Path) -> None:
    place = served(home)
    subprocess.run(["cp", "-r", place, home / "beside.git"], check=True)
    (home / "c.yaml").write_text(PUSHES)
    install(home / "c.yaml", {"origin": str(place)}, {}, home / "r", home / "key", None)

    def push(to: Path) -> None:
        words = ["git", "-C", str(home / "clone"), "push", "-q", str(to), "topic"]
        subprocess.run(words, check=True)

    measured("git push", times, lambda _: push(home / "beside.git"), lambda _: push(place),
             lambda n: commit(home / "clone", f"n{n}"))  # fmt: skip


def on_mail(times: int, home: Path) -> None:
    with (
        OutboxProcess() as outbox,
        Gate(
            LETTERS, {"outbox": f"smtp://127.0.0.1:{outbox.smtp_port}"},
            folder=home / "r", key=home / "key",
        ) as gate,
        listening(gate, "outbox", "127.0.0.1", 0) as port,
    ):  # fmt: skip

        def send(to: int, n: int) -> None:
            with smtplib.SMTP("127.0.0.1", to) as client:
                client.sendmail("me@x.org", ["ada@x.org"], letter(f"n{n}"))

        measured("SMTP", times, lambda n: send(outbox.smtp_port, n), lambda n: send(port, n),
                 lambda _: gate.begin_run())  # fmt: skip


def main(rows: int = 1_000_000, times: int = 300, *systems: str) -> None:
    for system in systems or (*FILL, "git", "mail"):
        with tempfile.TemporaryDirectory(prefix="statediff-proof-") as folder:
            home = Path(folder)
            generate(home / "key")
            if system in FILL:
                on_database(system, rows, times, home)
            else:
                {"git": on_git, "mail": on_mail}[system](times, home)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
