"""Servers of the tests' own that can be killed and started again: PostgreSQL, MariaDB."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pymysql
from statediff_mariadb.session import connected, fetched

from tests.servers import mariadb, postgres

LOG = ("--log-bin=log", "--binlog-format=ROW", "--binlog-row-metadata=FULL", "--server-id=1")
DURABLE = ("--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1")
SHOP = (
    "CREATE DATABASE shop CHARACTER SET utf8mb4", "DELETE FROM mysql.db", "FLUSH PRIVILEGES",
    "CREATE USER agent@localhost", "GRANT ALL ON shop.* TO agent@localhost",
)  # fmt: skip


def programs() -> Path | None:
    """The folder of PostgreSQL's programs, where they bring `test_decoding`."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/lib/test_decoding.so"))
    places = [library.parents[1] / "bin" for library in found]
    return next((each for each in places[::-1] if (each / "initdb").exists()), None)


@dataclass(frozen=True)
class Target:
    """A database `shop` of a server that can be killed."""

    url: str
    file: Path
    """The file with the number of its first process."""
    ask: Callable[[str], list[Any]]

    @property
    def account(self) -> str:
        """The URL with the agent's account."""
        if "://" not in self.url:
            return self.url
        return self.url.replace(f"{self.url.split('/')[2].partition('@')[0]}@", "agent@")

    @property
    def orphans(self) -> int:
        """How many transactions are prepared."""
        is_postgres = self.url.startswith("postgresql")
        listed = "SELECT gid FROM pg_prepared_xacts" if is_postgres else "XA RECOVER"
        return len(self.ask(listed))

    @contextmanager
    def killed(self) -> Iterator[None]:
        """Every process of the server is killed at once; after the block it is there again."""
        first = int(self.file.read_text("ascii").split()[0])
        at = Path(f"/proc/{first}")
        account, command = at.stat(), (at / "cmdline").read_text().split("\0")[:-1]
        children = (at / f"task/{first}/children").read_text("ascii").split()
        for pid in (first, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while not all(map(_is_dead, (first, *map(int, children)))):
            time.sleep(0.01)
        yield
        # Where nobody takes the dead away, their numbers look as if a server ran.
        for lock in (self.file, *self.file.parents[1].glob(".s.PGSQL.*")):
            lock.unlink(missing_ok=True)
        subprocess.Popen(
            command, user=account.st_uid, group=account.st_gid, extra_groups=[], cwd="/",
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        ).returncode = 0  # it is not waited for  # fmt: skip
        for _ in range(600):
            with contextlib.suppress(OSError, pymysql.Error, psycopg.Error):
                self.ask("SELECT 1")
                return
            time.sleep(0.1)


def _is_dead(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return ") Z" in Path(f"/proc/{pid}/stat").read_text("ascii")
    return True


def ask(url: str, *statements: str) -> list[Any]:
    """The rows that the last of these gives."""
    if "://" not in url:
        with closing(sqlite3.connect(url)) as file, file:
            return [file.execute(each).fetchall() for each in statements][-1]
    if not url.startswith("postgresql"):
        with closing(connected(url, 60)[0]) as own:
            own.select_db(url.rpartition("/")[2])
            return [fetched(own, each) for each in statements][-1]
    with psycopg.connect(url, autocommit=True) as connection:
        found = [connection.execute(each.encode()) for each in statements][-1]
        return found.fetchall() if found.description else []


def agent_of(url: str) -> str:
    """The URL with an account of the agent's, which may write to the tables that are there."""
    if not ask(url, "SELECT 1 FROM pg_roles WHERE rolname = 'agent'"):
        ask(url, "CREATE ROLE agent LOGIN")
    ask(url, "GRANT ALL ON ALL TABLES IN SCHEMA public TO agent",
        "REVOKE TRIGGER ON ALL TABLES IN SCHEMA public FROM agent")  # fmt: skip
    return url.replace("owner@", "agent@")


@contextmanager
def on_postgres(*made: str) -> Iterator[Target]:
    """A PostgreSQL server; with what these statements make, and the agent's account for it."""
    settings = "wal_level=logical", "max_prepared_transactions=20", "fsync=on"
    with postgres(*settings) as port:
        url = f"postgresql://owner@127.0.0.1:{port}/shop"
        admin = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        ask(admin, "CREATE ROLE owner SUPERUSER LOGIN", "CREATE DATABASE shop OWNER owner")
        if made:
            ask(url, *made)
            agent_of(url)
        [(folder,)] = ask(url, "SHOW data_directory")
        yield Target(url, Path(folder) / "postmaster.pid", lambda each: ask(url, each))


@contextmanager
def on_mariadb(*made: str) -> Iterator[Target]:
    """A MariaDB server that loses nothing when it is killed, with what these statements make."""
    with mariadb(*LOG, *DURABLE) as (port, line):
        url = f"mysql://root@127.0.0.1:{port}/"
        ask(f"{url}mysql", *SHOP)
        ask(f"{url}shop", *made, "SELECT 1")
        file = Path(line).with_name("pid")
        yield Target(f"{url}shop", file, lambda each: ask(f"{url}shop", each))
        pid = int(file.read_text())
        os.kill(pid, signal.SIGTERM)
        while not _is_dead(pid):
            time.sleep(0.01)


@contextmanager
def on_sqlite(*made: str) -> Iterator[Target]:
    """A SQLite file, which has no server."""
    with tempfile.TemporaryDirectory(prefix="statediff-sqlite-") as folder:
        place = f"{folder}/shop"
        ask(place, "PRAGMA journal_mode = wal", *made)
        yield Target(place, Path(place), lambda each: ask(place, each))


@contextmanager
def server() -> Iterator[str]:
    """The URL of a PostgreSQL database of its owner's, for as long as the block."""
    with on_postgres() as made:
        yield made.url


TARGETS = {"sqlite": on_sqlite, "postgres": on_postgres, "mariadb": on_mariadb}
