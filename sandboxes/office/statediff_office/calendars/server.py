"""The calendars' own process: Radicale behind CalDAV and CardDAV, for one account.

`python -m statediff_office.calendars.server` is started by `calendars.sandbox` and forked for each
trial (`base.forking`). Its store is a folder of the sandbox; its caches are in a folder that no
agent is given, because Radicale believes what it finds there. The account's password comes with the
order of each trial and is in memory, like the rights, which Radicale reads once.

It notes which collections the account looked into, and what it was given of each: `contents` of
objects, or `free-busy` times alone. After each request that changed a file or a note, both are
kept (`base.kept`); requests are answered one by one. What the evaluator asks (`base.served`) is
answered with `in_progress`, the number of requests that are being worked on, and `looks`, these
notes; `{"history": n}` with the states after the first n.
"""

from __future__ import annotations

import base64
import hmac
import json
import logging
import os
import posixpath
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from radicale import config
from radicale.app import Application

from statediff.systems.base.forking import Control, Order, Serve, run
from statediff.systems.base.images import image_of
from statediff.systems.base.kept import KeptStates
from statediff.systems.base.wsgi import Counted, LoopbackServer, refuse

CONTENTS: Final = "contents"
FREE_BUSY: Final = "free-busy"
LOCK: Final = ".Radicale.lock"
"""The server's own; what is in it is nothing."""
REQUEST_SECONDS: Final = 3.0
"""Of the processor: Radicale looks through a series that has no end for as long as it takes."""
_GIVEN: Final = ("200", "207")


class Account:
    """Radicale behind one account; who is nobody gets nothing."""

    def __init__(self, application: WSGIApplication, user: str, password: str, store: Path) -> None:
        self._application = application
        self._store = store
        self._user = user
        self._word = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
        self.looks: set[tuple[str, str]] = set()
        """(path of a collection, what was given of it)."""
        self.lock = threading.Lock()
        self.history = KeptStates(os.getpid(), self.state())

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        given = environ.get("HTTP_AUTHORIZATION", "")
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self._word.encode()):
            head = [("WWW-Authenticate", 'Basic realm="calendars"'), ("Content-Type", "text/plain")]
            start("401 Unauthorized", head)
            return [b"sign in"]
        if environ.get("HTTP_X_SCRIPT_NAME"):
            return refuse(start, "400 Bad Request", "the server is at the root of its address")
        environ["REMOTE_USER"] = self._user
        content = environ["wsgi.input"].read()
        environ["wsgi.input"].seek(0)
        told: list[str] = []

        def begin(status: str, headers: list[tuple[str, str]], *_: object) -> Callable[..., object]:
            told.append(status)
            return start(status, headers)

        with self.lock:
            self.history.check(self.state())
            # Answered to its end: what is worked on while it is read would come after the look.
            answer = list(self._application(environ, begin))
            if told and told[-1].startswith(_GIVEN):
                self._note(environ, content)
            self.history.keep(self.state())
        return answer

    def state(self) -> bytes:
        """All files and notes, in one spelling."""
        files = {
            path: [file.kind, file.mode, base64.b64encode(file.content).decode("ascii")]
            for path, file in image_of(self._store, with_folders=True).items()
            if path != LOCK
        }
        return json.dumps({"files": files, "looks": sorted(self.looks)}, sort_keys=True).encode()

    def _note(self, environ: WSGIEnvironment, content: bytes) -> None:
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        path = posixpath.normpath(f"/{path}").lstrip("/")
        if method == "REPORT":
            what = FREE_BUSY if b"free-busy-query" in content else CONTENTS
        elif method == "GET":
            what = CONTENTS
        else:
            return
        # OWNER/COLLECTION/OBJECT
        self.looks.add(("/".join(("", *path.split("/")[:2], "")), what))


def load(order: Order) -> Serve:
    """Radicale is imported, the rights are read; what is returned serves a store."""
    logging.getLogger("radicale").setLevel(logging.CRITICAL)  # what clients do wrong is theirs
    with TemporaryDirectory(prefix="statediff-rights-") as place:
        rights = Path(place, "rights")
        rights.write_text(order["rights"], encoding="utf-8")
        chosen = {
            "auth": {"type": "remote_user", "delay": "0"},
            "rights": {"type": "from_file", "file": str(rights)},
            "server": {"delay_on_error": "0", "script_name": ""},
            "storage": {
                "filesystem_folder": order["store"],
                "filesystem_cache_folder": order["cache"],
                "use_cache_subfolder_for_item": "True",
                "use_cache_subfolder_for_history": "True",
                "use_cache_subfolder_for_synctoken": "True",
                "_filesystem_fsync": "False",
            },
            "web": {"type": "none"},
            "logging": {"level": "critical"},
        }
        configuration = config.load()
        configuration.update(chosen, "the sandbox", privileged=True)
        application = Application(configuration)

    def serve(trial: Order, control: Control) -> None:
        account = Account(application, order["account"], trial["password"], Path(order["store"]))
        counted = Counted(account, REQUEST_SECONDS)
        server = LoopbackServer()
        server.set_app(counted)

        def answer(asked: Order) -> dict[str, Any]:
            told = {"in_progress": counted.in_progress, "looks": sorted(account.looks)}
            if "history" in asked:
                with account.lock:
                    told |= account.history.answer(int(asked["history"]), account.state())
            return told

        control.ready({"port": server.server_port}, answer)
        server.serve_forever()

    return serve


if __name__ == "__main__":
    run(load)
