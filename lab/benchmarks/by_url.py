"""Peak memory and time of a database by URL: captured to a file, and compared with that file.

    python -m lab.benchmarks.by_url [--engine mariadb] [--key text] [ROWS ...]

Each command is a process of its own. What `diff` finds has to be just what was changed between.
With `--key text` rows come in another order than that of their keys.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from statediff.workspace.trials import open_sandbox

Execute = Callable[[str], Any]
SERVERS: Final = ("postgres", "mariadb")
IDS: Final = {
    "postgres": ("g", "md5(g::text)"),
    "mariadb": ("seq", "MD5(seq)"),
    "duckdb": ("g", "md5(g::varchar)"),
}
"""How a row's number, and its digest, are written."""
MADE: Final = {
    "postgres": (
        "INSERT INTO big SELECT {id}, g % 97, 'row ' || g % 1000 "
        "FROM generate_series({one}, {two}) g"
    ),
    "mariadb": (
        "INSERT INTO big SELECT {id}, seq % 97, CONCAT('row ', seq % 1000) FROM seq_{one}_to_{two}"
    ),
    "duckdb": (
        "INSERT INTO big SELECT {id}, g % 97, 'row ' || (g % 1000) "
        "FROM range({one}, {two} + 1) t(g)"
    ),
    "firebird": (
        "EXECUTE BLOCK AS DECLARE g INTEGER; BEGIN g = {one}; WHILE (g <= {two}) DO BEGIN "
        "INSERT INTO big VALUES (:g, MOD(:g, 97), 'row ' || MOD(:g, 1000)); g = g + 1; END END"
    ),
}
AT_ONCE: Final = 250_000
"""Rows of one statement: a server keeps the log of each in memory or in a small folder."""
UPDATED, DELETED = (5, 500_000, 999_999), 7


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


def tried(engine: str, key: str, url: str, execute: Execute, rows: int, folder: Path) -> str:
    """A row of the table, for so many rows."""
    is_text = key == "text"
    number, digest = IDS.get(engine, ("", ""))
    with contextlib.suppress(Exception):  # not every engine has IF EXISTS
        execute("DROP TABLE big")
    declared = "varchar(32)" if is_text else "bigint"
    execute(f"CREATE TABLE big (id {declared} NOT NULL PRIMARY KEY, a int, b varchar(20))")
    for one in range(1, rows + 1, AT_ONCE):
        two = min(rows, one + AT_ONCE - 1)
        execute(MADE[engine].format(id=digest if is_text else number, one=one, two=two))
    kept = folder / "big.state"
    out, *capture = measured("capture", f"db={url}", "--out", str(kept))
    if ["big", str(rows)] not in [line.split()[:2] for line in out.splitlines()]:
        raise SystemExit(f"not all rows were captured: {out}")
    ids = {at: _id(at) if is_text else at for at in (*UPDATED, DELETED)}
    for at in UPDATED:
        execute(f"UPDATE big SET a = -1 WHERE id = {ids[at]!r}")  # noqa: S608 - ours
    execute(f"DELETE FROM big WHERE id = {ids[DELETED]!r}")  # noqa: S608 - ours
    out, *diff = measured("diff", "--before", f"db={kept}", "--after", f"db={url}", "--json")
    deltas = [each for each in json.loads(out)["deltas"] if each["type"] == "big"]
    found = {(each["op"], each["key"]) for each in deltas}
    if found != {("update", ids[at]) for at in UPDATED} | {("delete", ids[DELETED])}:
        raise SystemExit(f"wrong: {found}")
    figures = " | ".join(f"{seconds:.0f} s | {peak} MiB" for seconds, peak in (capture, diff))
    return f"| {engine} | {key} | {rows:,} | {figures} | {kept.stat().st_size >> 20} MiB |"


def _id(number: int) -> str:
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()


@contextlib.contextmanager
def _server(engine: str) -> Iterator[tuple[str, Execute]]:
    """A server's database, and what executes a statement with the agent's account."""
    with open_sandbox("shop", engine) as sandbox:
        sandbox.reset()
        url = sandbox.access().urls["shop-db"]
        if engine == "postgres":
            import psycopg  # noqa: PLC0415 - an extra

            with psycopg.connect(url, autocommit=True) as connection:
                yield f"{url}?tables=big", connection.execute
            return
        from statediff_mariadb.session import connected  # noqa: PLC0415 - an extra

        own, database = connected(url, 3600)
        with contextlib.closing(own):
            own.select_db(database)
            yield f"{url}?tables=big", own.query


@contextlib.contextmanager
def _file(engine: str, folder: Path) -> Iterator[tuple[str, Execute]]:
    """A database in a file, which is closed after each statement."""
    place = folder / f"big.{engine}"
    if engine == "duckdb":
        import duckdb  # noqa: PLC0415 - only for this

        def execute(statement: str) -> None:
            with duckdb.connect(str(place)) as connection:
                connection.execute(statement)

        yield f"duckdb:///{place}", execute
        return
    import fdb  # type: ignore[import-untyped]  # noqa: PLC0415 - only for this

    account = {"dsn": str(place), "user": "SYSDBA", "password": "x", "charset": "UTF8"}
    fdb.create_database(**account).close()

    def immediately(statement: str) -> None:
        with contextlib.closing(fdb.connect(**account)) as connection:
            connection.execute_immediate(statement)
            connection.commit()

    yield f"firebird+fdb://SYSDBA:x@/{place}?charset=UTF8", immediately


def main() -> None:
    """A line of the printed table for each number of rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=[1_000_000, 10_000_000])
    parser.add_argument("--engine", choices=sorted(MADE), default="postgres")
    parser.add_argument("--key", choices=("integer", "text"), default="integer")
    options = parser.parse_args()
    if options.key == "text" and options.engine not in IDS:
        parser.error(f"{options.engine} has no text keys here")
    with tempfile.TemporaryDirectory() as name:
        folder, is_server = Path(name), options.engine in SERVERS
        opened = _server(options.engine) if is_server else _file(options.engine, folder)
        with opened as (url, execute):
            for rows in options.rows:
                line = tried(options.engine, options.key, url, execute, rows, folder)
                sys.stdout.write(line + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
