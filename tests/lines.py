"""A line to a server that a test can cut."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable
from typing import Self
from urllib.parse import urlsplit, urlunsplit

import statediff


class Line:
    """A network to the server, which can be cut after so many more bytes of its answers."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._server = (place.hostname or "", place.port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        account = place.netloc.rpartition("@")[0]
        self.url = urlunsplit(
            place._replace(netloc=f"{account}@127.0.0.1:{port}" if account else f"127.0.0.1:{port}")
        )
        self._left: float = float("inf")
        self._ended = False
        self._threads = [threading.Thread(target=self._accept)]

    def cut_after(self, count: int | None) -> None:
        self._left = float("inf") if count is None else count

    def _accept(self) -> None:
        while not self._ended:
            with contextlib.suppress(OSError):
                client, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._carry, args=(client,)))
                self._threads[-1].start()

    def _carry(self, client: socket.socket) -> None:
        with (
            client,
            socket.create_connection(self._server) as server,
            contextlib.suppress(ConnectionError),  # an end that closed while it was written to
        ):
            while True:
                ready, _, _ = select.select([client, server], [], [], 0.1)
                if self._ended or self._left <= 0:
                    return
                for one in ready:
                    content = one.recv(min(65536, int(min(self._left, 65536))))
                    if not content:
                        return
                    if one is server:
                        self._left -= len(content)
                    (server if one is client else client).sendall(content)

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        socket.create_connection(self._listener.getsockname()).close()
        self._listener.close()
        for thread in self._threads:
            thread.join()


NOTHING = statediff.load_contract("""
contract: any/look
version: 1.0.0
owner: somebody
intent: Nothing changes.
noop: true
""")


def verdict_where_the_line_is_cut(
    url: str, after: int | None, wrap: Callable[[str], str] = lambda url: url
) -> str:
    """The verdict of a run that did nothing, of a state that is read over the line.

    The line is cut after so many bytes of the second reading; None: never. `wrap` makes the state's
    URL out of that of the line. No password is in what is said.
    """
    with Line(url) as line:
        with statediff.watch(NOTHING, s=wrap(line.url), settle_seconds=0) as run:
            line.cut_after(after)
        assert run.judged is not None
        secret = urlsplit(url).password
        assert not secret or secret not in run.judged.text()
        return run.judged.verdict.value
