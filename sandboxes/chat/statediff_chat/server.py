"""A Synapse homeserver in a process of its own: loaded once, forked for each trial.

1. Synapse is imported, which takes 5 s of processor time.
2. A child builds the base: it serves an empty database on loopback, and the pack's story is played
   through the client-server API by its people, at the story's times (`story`).
3. The parent opens what was built. Its requests' handlers are made, its reactor does not run.
4. Each trial is a fork of that: it listens on a port of its own and serves the database as it is
   on disk then. What the parent has in memory is true of the pristine database only.

A fork needs three things of the reactor. It polls (`poll` has no object in the kernel that forks
would share), it gets a pipe of its own to be woken by, and its timers count from the fork on.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from statediff.systems.base.forking import Control, Order, Serve, run
from statediff_chat.story import play

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
UPDATE_SECONDS: Final = 120.0
REST_SECONDS: Final = 1.5
"""What one write sets off begins within that time."""


def settings(order: Order, database: str) -> dict[str, Any]:
    """Synapse's configuration; every secret is in memory, none in a file."""
    generous = {"per_second": 1_000_000, "burst_count": 1_000_000}
    return {
        "server_name": order["server_name"],
        "signing_key": order["signing_key"],
        "macaroon_secret_key": order["macaroon_secret"],
        "form_secret": order["form_secret"],
        "registration_shared_secret": order["registration_secret"],
        "database": {"name": "sqlite3", "args": {"database": database}},
        "media_store_path": order["media"],
        "pid_file": os.devnull,
        "listeners": [
            {
                "port": 1,  # not used: each trial listens at a port that nobody had
                "type": "http",
                "bind_addresses": ["127.0.0.1"],
                "resources": [{"names": ["client"], "compress": False}],
            }
        ],
        "default_room_version": "11",
        "federation_domain_whitelist": [],
        "trusted_key_servers": [],
        "suppress_key_server_warning": True,
        "report_stats": False,
        "presence": {"enabled": False},
        "url_preview_enabled": False,
        "redaction_retention_period": None,
        "background_updates": {"sleep_enabled": False},
        "bcrypt_rounds": 4,
        "encryption_enabled_by_default_for_room_type": "off",
        "rc_message": generous,
        "rc_registration": generous,
        "rc_admin_redaction": generous,
        "rc_login": {"address": generous, "account": generous, "failed_attempts": generous},
        "rc_joins": {"local": generous, "remote": generous},
        "rc_joins_per_room": generous,
        "rc_invites": {"per_room": generous, "per_user": generous, "per_issuer": generous},
        "rc_room_creation": generous,
    }


class Homeserver:
    """One Synapse over one database, whose reactor does not run yet."""

    def __init__(self, order: Order, database: str) -> None:
        from synapse.app import homeserver
        from synapse.config.homeserver import HomeServerConfig
        from synapse.http.server import OptionsResource
        from synapse.http.site import SynapseSite
        from synapse.logging.context import LoggingContext
        from synapse.util.httpresourcetree import create_resource_tree
        from twisted.internet import reactor

        config = HomeServerConfig()
        folder = str(Path(database).parent)
        config.parse_config_dict(
            settings(order, database), config_dir_path=folder, data_dir_path=folder
        )
        self.name = order["server_name"]
        self._reactor: Any = reactor
        with LoggingContext(name="main", server_name=self.name):
            self.server: Any = homeserver.create_homeserver(config)
            self.server.setup()
            resources = self.server._configure_named_resource("client", False)  # noqa: SLF001 - all that makes handlers, before the fork
            self._site = SynapseSite(
                logger_name="synapse.access",
                site_tag="chat",
                config=config.server.listeners[0],
                resource=create_resource_tree(resources, OptionsResource()),
                server_version_string="Synapse",
                max_request_body_size=MAX_BODY_BYTES,
                reactor=reactor,
                hs=self.server,
            )
            self.server.start_background_tasks()
        self._loaded_at = time.time()

    def serve(self, is_ready: Callable[[int], None]) -> None:
        """It serves until the process ends; `is_ready` gets its port, in the reactor's thread."""
        from synapse.app import _base
        from synapse.logging.context import LoggingContext, PreserveLoggingContext

        reactor = self._reactor
        reactor.removeReader(reactor.waker)
        reactor._internalReaders.discard(reactor.waker)  # noqa: SLF001 - see the module
        reactor.waker = None
        reactor.installWaker()
        late = time.time() - self._loaded_at
        for call in reactor.getDelayedCalls():
            call.delay(late)
        port = reactor.listenTCP(0, self._site, interface="127.0.0.1")

        async def begin() -> None:
            self.server.get_pusherpool().start()
            for each in self.server.get_datastores().databases:
                each.updates.start_doing_background_updates()
            is_ready(int(port.getHost().port))

        with LoggingContext(name="main", server_name=self.name):
            _base.register_start(self.server, begin)
        with PreserveLoggingContext():
            reactor.run(installSignalHandlers=False)

    def set_time(self, milliseconds: int) -> None:
        """Set the server's clock, so that what happens now happens then: for the base's story."""
        self.server.get_clock().time_msec = lambda: milliseconds

    def do_upkeep(self) -> None:
        """All that the server does every now and then happens once, today.

        What is not done in the base it would do in a trial, some seconds or minutes after its
        beginning. Called from another thread than the reactor's.
        """
        clock = self.server.get_clock()
        del clock.time_msec  # the class's own again

        def now() -> None:
            for call in self._reactor.getDelayedCalls():
                call.reset(0)

        self._reactor.callFromThread(now)


def in_progress() -> int:
    """How many requests are being answered."""
    from synapse.http import request_metrics

    with request_metrics._in_flight_requests_lock:  # noqa: SLF001 - there is no other way to ask
        return len(request_metrics._in_flight_requests)  # noqa: SLF001 - as above


def _build(order: Order) -> None:
    """In a child: the base is in the database file, whole. Ends the process."""
    server = Homeserver(order, order["database"])

    def tell(port: int) -> None:
        try:
            play(port, order, server.set_time)
            server.do_upkeep()
            _wait_for_rest(order["database"])
            os._exit(0)
        except BaseException:  # noqa: BLE001 - said in the log; the child ends here
            traceback.print_exc()
            os._exit(1)

    def is_ready(port: int) -> None:
        threading.Thread(target=tell, args=(port,), daemon=True).start()

    server.serve(is_ready)


def _wait_for_rest(database: str) -> None:
    """No change of the database's form is made in the background, and nobody writes any more."""
    deadline = time.monotonic() + UPDATE_SECONDS
    log, seen, since = Path(f"{database}-wal"), (0, 0), time.monotonic()
    while time.monotonic() < deadline:
        status = log.stat()
        if (now := (status.st_size, status.st_mtime_ns)) != seen or in_progress():
            seen, since = now, time.monotonic()
        if time.monotonic() - since > REST_SECONDS and not _updates_left(database):
            return
        time.sleep(0.05)
    raise TimeoutError("Synapse did not come to rest over its new database")


def _updates_left(database: str) -> int:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return int(connection.execute("SELECT count(*) FROM background_updates").fetchone()[0])


def load(order: Order) -> Serve:
    """The base is built at `order["database"]`, and a server over it waits to be forked."""
    from twisted.internet import pollreactor

    pollreactor.install()
    import synapse.app.homeserver  # noqa: F401 - before the fork, so that it is done once

    child = os.fork()
    if child == 0:
        try:
            _build(order)
        except BaseException:  # noqa: BLE001 - said in the log; the child ends here
            traceback.print_exc()
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit("the base of the chat could not be built")
    server = Homeserver(order, order["database"])
    gc.collect()
    gc.freeze()

    def serve(_trial: Order, control: Control) -> None:
        def answer(_question: Order) -> Mapping[str, Any]:
            return {"in_progress": in_progress()}

        server.serve(lambda port: control.ready({"port": port}, answer))

    return serve


if __name__ == "__main__":
    run(load)
