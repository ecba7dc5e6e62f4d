"""A PostgreSQL of the tests' own, of a packaged release that brings `test_decoding`."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg


def programs() -> Path | None:
    """The folder of the programs, where there are such."""
    for library in sorted(Path("/usr/lib/postgresql").glob("*/lib/test_decoding.so"))[::-1]:
        if (library.parents[1] / "bin" / "initdb").exists():
            return library.parents[1] / "bin"
    return None


class Server:
    """A server in a folder of its own, with one database `shop` of its owner's."""

    def __init__(self, home: Path, **settings: str) -> None:
        found = programs()
        assert found is not None
        self._programs, self._home = found, home
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"postgresql://owner@127.0.0.1:{port}/shop"
        self._as: dict[str, Any] = {}
        if os.getuid() == 0:
            account = pwd.getpwnam("nobody")
            self._as = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            os.chown(home, account.pw_uid, account.pw_gid)
        self._data = home / "data"
        self._run("initdb", "-A", "trust", "-U", "owner", "-E", "UTF8", "--locale=C")
        wanted = {
            "port": str(port), "listen_addresses": "'127.0.0.1'", "wal_level": "logical",
            "max_prepared_transactions": "20", "unix_socket_directories": f"'{home}'", **settings,
        }  # fmt: skip
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in wanted.items())
        self.start()
        with psycopg.connect(self.url.replace("/shop", "/postgres"), autocommit=True) as admin:
            admin.execute("CREATE DATABASE shop")

    def _run(self, program: str, *options: str) -> None:
        words = [str(self._programs / program), "-D", str(self._data), *options]
        subprocess.run(words, check=True, cwd=self._home, stdout=subprocess.DEVNULL, **self._as)

    def start(self) -> None:
        self._run("pg_ctl", "-l", str(self._home / "log"), "-w", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-m", "immediate", "stop")

    def kill(self) -> None:
        """Every process of the server, at once."""
        first = int((self._data / "postmaster.pid").read_text("ascii").split()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text("ascii").split()
        for pid in (first, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while not all(map(_is_dead, (first, *map(int, children)))):
            time.sleep(0.01)
        # Where nobody takes the dead away, their numbers look as if a server ran.
        for lock in (self._data / "postmaster.pid", *self._home.glob(".s.PGSQL.*")):
            lock.unlink()


def _is_dead(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return ") Z" in Path(f"/proc/{pid}/stat").read_text("ascii")
    return True


def agent_of(url: str) -> str:
    """The URL with an account of the agent's, which may write to the tables that are there."""
    with psycopg.connect(url, autocommit=True) as admin:
        found = admin.execute("SELECT 1 FROM pg_roles WHERE rolname = 'agent'").fetchone()
        if found is None:
            admin.execute("CREATE ROLE agent LOGIN")
        admin.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO agent")
        admin.execute("REVOKE TRIGGER ON ALL TABLES IN SCHEMA public FROM agent")
    return url.replace("owner@", "agent@")


@contextmanager
def running(**settings: str) -> Iterator[Server]:
    """A server for as long as the block."""
    home = Path(tempfile.mkdtemp(prefix="statediff-gate-pg-"))
    made = Server(home, **settings)
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def server(**settings: str) -> Iterator[str]:
    """The URL of a database of its owner's, for as long as the block."""
    with running(**settings) as made:
        yield made.url
