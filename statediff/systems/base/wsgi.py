"""A WSGI application on loopback that counts requests in progress; for a server's own process."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

MAX_REQUEST_BYTES: Final = 16 * 1024 * 1024


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
        """What is asked is the application's affair."""


class Counted:
    """The application behind it gets whole, bounded bodies; `in_progress` counts its requests."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application
        self._lock = threading.Lock()
        self.in_progress = 0

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        size = environ.get("CONTENT_LENGTH") or "0"
        if environ.get("HTTP_TRANSFER_ENCODING"):
            return refuse(start, "411 Length Required", "say the length of the body")
        if not (size.isascii() and size.isdigit() and int(size) <= MAX_REQUEST_BYTES):
            return refuse(start, "413 Content Too Large", "the request is too large")
        with self._lock:
            self.in_progress += 1
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
                self.in_progress -= 1


def refuse(start: StartResponse, status: str, why: str) -> Iterable[bytes]:
    """An answer that says why there is no other."""
    start(status, [("Content-Type", "text/plain")])
    return [why.encode()]
