"""The tracker's own process: a Roundup tracker, made from a seed and served over HTTP.

`python -m statediff.systems.roundup.server` is started by `sandbox.tracker`. It imports Roundup, so
that the evaluator need not, and it runs the pack's `schema.py`, which the evaluator never does.

1. The first line of standard input is JSON: the tracker's home, its seed, and the passwords, which
   stand in no argument and no environment variable, where the agent could read them.
2. The home is completed: its configuration, its database, the contents of its messages.
3. One line of JSON on standard output says that it listens, on loopback: `{"port": …}`.
4. Each further line, `{"ask": n}`, is answered with `n` and the number of requests in progress; if
   it brings a `password`, also with how the tracker stores that.
5. The end of standard input ends the process: it cannot outlive whoever started it.

Each answer names the transactions that were made for its request (`sources.roundup_marks`).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from socketserver import ThreadingMixIn
from types import SimpleNamespace
from typing import IO, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from roundup import instance  # type: ignore[import-untyped]  # has no annotations
from roundup.backends import back_sqlite  # type: ignore[import-untyped]  # as above
from roundup.cgi.wsgi_handler import RequestDispatcher  # type: ignore[import-untyped]  # as above
from roundup.password import Password  # type: ignore[import-untyped]  # as above

from statediff.systems.roundup.marks import NotedConnection, noting
from statediff.systems.roundup.seed import plant
from statediff.systems.trackers.headers import HEADER

MOUNT: Final = "/helpdesk"
MAX_REQUEST_BYTES: Final = 16 * 1024 * 1024
PASSWORD_ROUNDS: Final = 1000
"""Passwords are random and live as long as the sandbox: stretching costs 190 ms a call."""

CONFIG: Final = """\
[main]
database = db
templates = html
template_engine = zopetal
admin_email = admin@helpdesk.example
dispatcher_email = admin@helpdesk.example
indexer = native
password_pbkdf2_default_rounds = {rounds}
[tracker]
name = helpdesk
web = http://127.0.0.1:{port}{mount}/
email = issues@helpdesk.example
[web]
secret_key = {secret}
[rdbms]
backend = sqlite
[mail]
domain = helpdesk.example
host = localhost
"""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64

    def server_bind(self) -> None:
        # Not WSGIServer's: it asks the name service who 127.0.0.1 is.
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]
        self.setup_environ()


class _Handler(WSGIRequestHandler):
    timeout = 30
    disable_nagle_algorithm = True

    def get_environ(self) -> WSGIEnvironment:
        environ = super().get_environ()
        environ["HTTP_AUTHORIZATION"] = self.headers.get("Authorization", "")
        environ["CONTENT_TYPE"] = self.headers.get("Content-Type", "")
        return environ

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """What is asked is the tracker's affair."""


class Requests:
    """The tracker behind its mount point; counts the requests that are in progress."""

    def __init__(self, home: Path) -> None:
        self._tracker = RequestDispatcher(str(home))
        self.config = self._tracker.tracker.config
        self._lock = threading.Lock()
        self.in_progress = 0

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        size = environ.get("CONTENT_LENGTH") or "0"
        if not path.startswith(f"{MOUNT}/"):
            return _refused(start, "404 Not Found", "there is nothing outside /helpdesk/")
        if not (size.isascii() and size.isdigit() and int(size) <= MAX_REQUEST_BYTES):
            return _refused(start, "413 Content Too Large", "the request is too large")
        with self._lock:
            self.in_progress += 1
        try:
            # Read here, to its declared end: Roundup would read a body without one for ever.
            environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(size)))
            environ["CONTENT_LENGTH"] = size
            environ["SCRIPT_NAME"], environ["PATH_INFO"] = MOUNT, path[len(MOUNT) :]
            return self._answered(environ, start)
        finally:
            with self._lock:
                self.in_progress -= 1

    def _answered(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """The answer, whose head is sent only when nothing more is done for the request."""
        told: list[tuple[str, list[tuple[str, str]]]] = []
        pieces: list[bytes] = []

        def begin(
            status: str, headers: list[tuple[str, str]], *_: object
        ) -> Callable[[bytes], object]:
            told.append((status, headers))
            return pieces.append

        with noting() as made:
            pieces += self._tracker(environ, begin)
        status, headers = told[-1]
        # First: whatever a later header holds cannot end the head before it.
        write = start(status, [(HEADER, " ".join(made)), *headers])
        for piece in pieces:
            write(piece)
        return ()


def _refused(start: StartResponse, status: str, why: str) -> Iterable[bytes]:
    start(status, [("Content-Type", "text/plain")])
    return [why.encode()]


def complete(home: Path, order: dict[str, Any], port: int) -> None:
    """The home is a tracker: configured, with the seed's issues, alone in its database folder."""
    config = CONFIG.format(port=port, mount=MOUNT, secret=order["secret"], rounds=PASSWORD_ROUNDS)
    (home / "config.ini").write_text(config, encoding="utf-8")
    tracker = instance.open(str(home))
    db = tracker.open("admin")
    try:
        plant(db, order["seed"], order["passwords"])
        db.commit()
    finally:
        db.close()
    with contextlib.closing(sqlite3.connect(home / "db" / "db", isolation_level=None)) as own:
        # One file, and whoever opens it begins a log: what a feed follows.
        own.execute("PRAGMA journal_mode = DELETE")
        own.execute("VACUUM")
        own.execute("PRAGMA journal_mode = WAL")


def main() -> None:
    """The process: it ends with standard input."""
    with contextlib.ExitStack() as opened:
        stdin = opened.enter_context(os.fdopen(os.dup(0), "rb", buffering=0))
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a device
            os.dup2(nothing.fileno(), 0)  # Roundup reads standard input where it expects a form
        replies = opened.enter_context(os.fdopen(os.dup(1), "wb", buffering=0))
        os.dup2(2, 1)  # what anything in here prints is no reply
        order = json.loads(_line(stdin))
        home = Path(order["home"])
        connect = partial(sqlite3.connect, factory=NotedConnection)
        back_sqlite.sqlite = SimpleNamespace(**{**vars(sqlite3), "connect": connect})
        server = opened.enter_context(_Server(("127.0.0.1", 0), _Handler))
        complete(home, order, server.server_port)
        requests = Requests(home)
        application: WSGIApplication = requests
        server.set_app(application)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        _say(replies, {"port": server.server_port})
        while line := _line(stdin):
            asked = json.loads(line)
            reply = {"ask": asked["ask"], "in_progress": requests.in_progress}
            if "password" in asked:
                reply["stored"] = str(Password(asked["password"], config=requests.config))
            _say(replies, reply)
        server.shutdown()


def _line(stream: IO[bytes]) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = stream.readline()
        if not part:
            return b""
        line += part
    return line


def _say(replies: IO[bytes], what: dict[str, Any]) -> None:
    replies.write(json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    main()
