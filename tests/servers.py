"""Database servers of Debian's packages, started on loopback for a test and ended with it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SECONDS = 60.0


def free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return int(line.getsockname()[1])


@contextmanager
def _folder(account: str) -> Iterator[tuple[Path, list[str]]]:
    """A folder of the account's, and what runs a program as that account where we are root."""
    with tempfile.TemporaryDirectory(prefix="statediff-server-") as name:
        if os.getuid() == 0:
            shutil.chown(name, account)
        yield Path(name), ["runuser", "-u", account, "--"] if os.getuid() == 0 else []


@contextmanager
def postgres(*settings: str) -> Iterator[int]:
    """The port of a PostgreSQL server that trusts everybody; its superuser is `postgres`."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        pytest.skip("Debian's PostgreSQL is not installed")
    with _folder("postgres") as (folder, run), _postgres(folder, found[-1], run, settings) as port:
        yield port


@contextmanager
def _postgres(
    folder: Path, programs: Path, run: list[str], settings: tuple[str, ...]
) -> Iterator[int]:
    port, log = free_port(), folder / "log"

    def call(program: str, *args: str) -> None:
        command = [*run, str(programs / program), "-D", str(folder / "data"), *args]
        subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)

    call("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale", "C")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    given = " ".join(f"-c {each}" for each in ("fsync=off", *settings))
    call("pg_ctl", "-o", f"{options} {given}", "-l", str(log), "-w", "start")
    try:
        yield port
    finally:
        call("pg_ctl", "-m", "immediate", "stop")


@contextmanager
def mariadb(*options: str) -> Iterator[tuple[int, str]]:
    """The port and the socket of a MariaDB server; its account `root` needs no password."""
    if shutil.which("mariadbd") is None or shutil.which("mariadb-install-db") is None:
        pytest.skip("Debian's MariaDB is not installed")
    with _folder("mysql") as (folder, _), _mariadb(folder, options) as found:
        yield found


@contextmanager
def _mariadb(folder: Path, options: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    user = ["--user=mysql"] if os.getuid() == 0 else []
    data, line = folder / "data", f"{folder}/s.sock"
    subprocess.run(
        ["mariadb-install-db", *user, f"--datadir={data}",
         "--auth-root-authentication-method=normal"],
        check=True, capture_output=True, timeout=SECONDS,
    )  # fmt: skip
    port = free_port()
    command = [
        "mariadbd", *user, f"--datadir={data}", f"--port={port}", "--bind-address=127.0.0.1",
        f"--socket={line}", f"--pid-file={folder}/pid", "--skip-log-bin",
        # A server that starts removes the temporary tables of all in the folder of these.
        "--innodb-flush-log-at-trx-commit=0", f"--tmpdir={folder}", *options,
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + SECONDS
        while not Path(line).exists():
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail((folder / "log").read_text()[-2000:])
            time.sleep(0.1)
        yield port, line
    finally:
        server.terminate()
        server.wait(SECONDS)
