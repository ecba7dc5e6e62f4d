"""Ports of this machine's loopback that lead to Unix sockets, and the other way round.

A server in a container without any network listens on a socket in a folder it shares with this
machine; programs that know hosts and ports only reach it through here (`Forward`). An agent in
such a container reaches one port of this machine by a socket (`Entrance`). Bytes pass as they are.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

MAX_CONNECTIONS: Final = 200
"""At once; further ones are closed, so that an agent cannot exhaust the evaluator's threads."""
Connection: TypeAlias = socket.socket
_CHUNK_BYTES: Final = 256 * 1024


class Passage:
    """Anyone who connects to `listener` reaches what `dial` connects to, until `close`.

    Each connection has two threads.
    """

    def __init__(self, listener: Connection, dial: Callable[[], Connection]) -> None:
        self._listener = listener
        self._dial = dial
        self._open: set[socket.socket] = set()
        self._is_closed = False
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Nobody listens on the port, and every connection is cut."""
        with self._lock:
            self._is_closed = True
        # A thread that waits in accept() is woken by shutdown only, not by close.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Every connection is cut; new ones are accepted."""
        with self._lock:
            for end in self._open:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                is_full = len(self._open) >= 2 * MAX_CONNECTIONS
            if is_full:
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.ExitStack() as stack:
            try:
                server = stack.enter_context(self._dial())
                for end in (client, server):
                    if end.family == socket.AF_INET:
                        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                return
            ends = {client, server}
            with self._lock:
                if self._is_closed:
                    return
                self._open |= ends
            try:
                answers = threading.Thread(target=_pass, args=(server, client), daemon=True)
                answers.start()
                _pass(client, server)
                answers.join()
            finally:
                with self._lock:
                    self._open -= ends


class Forward(Passage):
    """`127.0.0.1:port` leads to the socket `target`."""

    def __init__(self, target: Path) -> None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = listener.getsockname()[1]
        super().__init__(listener, lambda: connected(target))


class Entrance(Passage):
    """The socket `place`, which anybody may use who sees it, leads to 127.0.0.1:`port`."""

    def __init__(self, place: Path, port: int) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(str(place))
            place.chmod(0o666)
            listener.listen(128)
        except BaseException:
            listener.close()
            raise
        super().__init__(listener, lambda: socket.create_connection(("127.0.0.1", port), 10.0))


def connected(target: Path) -> Connection:
    """A connection to the server that listens at `target`. Raises `OSError`.

    Anyone who has taken over the server could put a link there that leads to another socket of this
    machine, the engine's for one; so the socket itself is opened, never what a link names.
    """
    opened = os.open(target, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(opened).st_mode):
            raise OSError(errno.ENOTSOCK, "not a socket", str(target))
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            end.connect(f"/proc/self/fd/{opened}")
        except OSError:
            end.close()
            raise
        return end
    finally:
        os.close(opened)


def _pass(source: socket.socket, target: socket.socket) -> None:
    """All bytes of one direction, and its end."""
    with contextlib.suppress(OSError):
        while chunk := source.recv(_CHUNK_BYTES):
            target.sendall(chunk)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RD if end is source else socket.SHUT_WR)
