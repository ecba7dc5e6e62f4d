"""A PostgreSQL of the tests' own, of a packaged release that brings `test_decoding`."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg


def programs() -> Path | None:
    """The folder of the programs, where there are such."""
    for library in sorted(Path("/usr/lib/postgresql").glob("*/lib/test_decoding.so"))[::-1]:
        if (library.parents[1] / "bin" / "initdb").exists():
            return library.parents[1] / "bin"
    return None


@contextmanager
def server(folder: Path | None = None, **settings: str) -> Iterator[str]:
    """The URL of a database of its owner's, for as long as the block."""
    found = programs()
    assert found is not None
    home = Path(tempfile.mkdtemp(prefix="statediff-gate-pg-")) if folder is None else folder
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    as_user: dict[str, object] = {}
    if os.getuid() == 0:
        account = pwd.getpwnam("nobody")
        as_user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        os.chown(home, account.pw_uid, account.pw_gid)
    wanted = {
        "port": str(port), "listen_addresses": "'127.0.0.1'", "wal_level": "logical",
        "max_prepared_transactions": "20", "unix_socket_directories": f"'{home}'", **settings,
    }  # fmt: skip

    def run(*command: object) -> None:
        words = [str(part) for part in command]
        subprocess.run(words, check=True, cwd=home, stdout=subprocess.DEVNULL, **as_user)  # type: ignore[call-overload]  # who runs it

    data = home / "data"
    run(found / "initdb", "-D", data, "-A", "trust", "-U", "owner", "-E", "UTF8", "--locale=C")
    with (data / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = {value}\n" for name, value in wanted.items())
    run(found / "pg_ctl", "-D", data, "-l", home / "log", "-w", "start")
    try:
        url = f"postgresql://owner@127.0.0.1:{port}/shop"
        with psycopg.connect(url.replace("/shop", "/postgres"), autocommit=True) as admin:
            admin.execute("CREATE DATABASE shop")
        yield url
    finally:
        run(found / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(home, ignore_errors=True)
