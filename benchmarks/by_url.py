"""Peak memory and time of a database by URL: captured to a file, and compared with that file.

    python -m benchmarks.by_url [--engine mariadb] [ROWS ...]

Each command is a process of its own. What `diff` finds has to be just what was changed between.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from statediff.workspace.trials import open_sandbox

MADE = {
    "postgres": (
        "INSERT INTO big SELECT g, g % 97, 'row ' || g % 1000 FROM generate_series(1, {rows}) g"
    ),
    "mariadb": (
        "INSERT INTO big SELECT seq, seq % 97, CONCAT('row ', seq % 1000) FROM seq_1_to_{rows}"
    ),
}
CHANGED = ("UPDATE big SET a = -1 WHERE id IN (5, 500000, 999999)", "DELETE FROM big WHERE id = 7")
WANTED = ["big[5].a", "big[500000].a", "big[7]", "big[999999].a"]


def measured(*arguments: str) -> tuple[str, float, int]:
    """What the command printed, its seconds, and its peak memory in MiB."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "statediff", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        out = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{arguments[0]} ended with {process.returncode}")
    return out, time.perf_counter() - began, usage.ru_maxrss // 1024


def tried(engine: str, url: str, admin: Any, rows: int, folder: Path) -> str:
    """A row of the table, for so many rows."""
    for statement in (
        "DROP TABLE IF EXISTS big",
        "CREATE TABLE big (id bigint PRIMARY KEY, a int, b varchar(20))",
        MADE[engine].format(rows=rows),
    ):
        admin(statement)
    kept = folder / "big.state"
    _, *capture = measured("capture", f"db={url}?tables=big", "--out", str(kept))
    for statement in CHANGED:
        admin(statement)
    states = ("--before", f"db={kept}", "--after", f"db={url}?tables=big")
    out, *diff = measured("diff", *states, "--json")
    found = [each["id"] for each in json.loads(out)["deltas"] if each["type"] == "big"]
    if sorted(found) != sorted(WANTED):
        raise SystemExit(f"wrong: {found}")
    figures = " | ".join(f"{seconds:.0f} s | {peak} MiB" for seconds, peak in (capture, diff))
    return f"| {engine} | {rows:,} | {figures} | {kept.stat().st_size >> 20} MiB |"


def _connection(engine: str, url: str) -> Any:
    """A session with the agent's account; the drivers are an extra."""
    if engine == "postgres":
        import psycopg  # noqa: PLC0415 - an extra

        return psycopg.connect(url, autocommit=True)
    from statediff.systems.mariadb.session import connected  # noqa: PLC0415 - an extra

    connection, database = connected(url, 3600)
    connection.select_db(database)
    return connection


def main() -> None:
    """A line of the table of docs/benchmarks.md for each number of rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=[1_000_000, 10_000_000])
    parser.add_argument("--engine", choices=sorted(MADE), default="postgres")
    options = parser.parse_args()
    with open_sandbox("shop", options.engine) as sandbox, tempfile.TemporaryDirectory() as folder:
        sandbox.reset()
        url = sandbox.access().urls["shop-db"]
        with contextlib.closing(_connection(options.engine, url)) as connection:
            admin = connection.query if options.engine == "mariadb" else connection.execute
            for rows in options.rows:
                line = tried(options.engine, url, admin, rows, Path(folder))
                sys.stdout.write(line + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
