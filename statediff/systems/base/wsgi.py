"""A WSGI application on loopback that counts requests in progress; for a server's own process."""

from __future__ import annotations

import ctypes
import io
import threading
import time
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

MAX_REQUEST_BYTES: Final = 16 * 1024 * 1024
_WATCH_SECONDS: Final = 0.5


class LoopbackServer(ThreadingMixIn, WSGIServer):
    """A thread for each request, at a port that nobody had."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)

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
        environ["RAW_URI"] = self.path  # as it was asked, which signatures cover
        environ["HTTP_AUTHORIZATION"] = self.headers.get("Authorization", "")
        # A request without one has none: `get_content_type` would say `text/plain`.
        environ["CONTENT_TYPE"] = self.headers.get("Content-Type", "")
        return environ

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Print nothing: requests are the application's affair."""


class TooLong(Exception):
    """A request took more than its share of the processor."""


class Counted:
    """The application behind it gets whole, bounded bodies; `in_progress` counts its requests.

    With `seconds`, a request that has taken so much of the processor fails, as if the application
    had raised `TooLong`: what nobody waits for any more would keep the system busy for ever.
    """

    def __init__(self, application: WSGIApplication, seconds: float | None = None) -> None:
        self._application = application
        self._lock = threading.Lock()
        self._running: set[int] = set()
        """The threads that work on a request. Each has one request in its life."""
        if seconds is not None:
            threading.Thread(target=self._watch, args=(seconds,), daemon=True).start()

    @property
    def in_progress(self) -> int:
        with self._lock:
            # A thread that failed while it ended its request works on none.
            self._running &= {each.ident for each in threading.enumerate()}
            return len(self._running)

    def _watch(self, seconds: float) -> None:
        while True:
            time.sleep(_WATCH_SECONDS)
            with self._lock:
                for thread in self._running & {each.ident for each in threading.enumerate()}:
                    if time.clock_gettime(time.pthread_getcpuclockid(thread)) > seconds:
                        error = ctypes.py_object(TooLong)
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        size = environ.get("CONTENT_LENGTH") or "0"
        if environ.get("HTTP_TRANSFER_ENCODING"):
            return refuse(start, "411 Length Required", "say the length of the body")
        if not (size.isascii() and size.isdigit() and int(size) <= MAX_REQUEST_BYTES):
            return refuse(start, "413 Content Too Large", "the request is too large")
        with self._lock:
            self._running.add(threading.get_ident())
        try:
            # Read here, to its declared end: an application may read a body without one for ever.
            environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(size)))
            environ["CONTENT_LENGTH"] = size
            pieces = self._application(environ, start)
            try:
                # To its end before the count is taken back: an answer may work while it is read.
                return list(pieces)
            finally:
                close = getattr(pieces, "close", None)
                if close is not None:
                    close()
        finally:
            with self._lock:
                self._running.discard(threading.get_ident())


def refuse(start: StartResponse, status: str, why: str) -> Iterable[bytes]:
    """An answer that says why there is no other."""
    start(status, [("Content-Type", "text/plain")])
    return [why.encode()]
