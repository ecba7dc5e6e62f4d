"""A page behind the loopback address, for the one browser that was given its link.

Anyone else who can send a request to this port (another page in the browser, another name that
resolves to this machine, another user, the agent) gets nothing:

1. it listens on 127.0.0.1 and answers only requests whose `Host` says so (DNS rebinding);
2. every page lies under a path of 256 random bits. The link that is printed holds another secret
   and works once, so that it is of no use in a list of processes or a history;
3. a request that another page of the browser makes is refused (`Sec-Fetch-Site`);
4. what changes something comes as a form of this origin (`Origin`, `Sec-Fetch-Site`), bounded in
   size and time;
5. every answer says what it may be used for: no frame, no script but ours, nothing kept.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from statediff.errors import BundleError, InputError, StorageError
from statediff.reports.html.page import Kind, policy

HOST: Final = "127.0.0.1"
MAX_CONNECTIONS: Final = 32
PATIENCE: Final = 15.0
"""Seconds that a connection may say nothing."""
MAX_BODY: Final = 64 * 1024
"""Bytes of a form."""
_FORM: Final = "application/x-www-form-urlencoded"
_DIGITS: Final = 6
_OWN: Final = (None, "same-origin", "none")


class BoundedServer(ThreadingHTTPServer):
    """A server on 127.0.0.1 with so many connections at once and no more."""

    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, answering: type[BaseHTTPRequestHandler], port: int = 0) -> None:
        """`OSError` if the port is taken; 0 takes any that is free."""
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__((HOST, port), answering)
        self.authority = f"{HOST}:{self.server_address[1]}"
        self.origin = f"http://{self.authority}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Each connection has a thread of its own, and there are so many of them."""
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The connection's slot is free afterwards."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is nobody's business."""


class LoopbackServer(BoundedServer):
    """A server whose `link` opens it, once. `serve_forever` until `shutdown`."""

    def __init__(self, answering: type[Answering], port: int = 0) -> None:
        """`OSError` if the port is taken; 0 takes any that is free."""
        self._entrance: str | None = secrets.token_urlsafe(32)
        self._secret = secrets.token_urlsafe(32)
        self._lock = threading.Lock()
        super().__init__(answering, port)
        self.link = f"{self.origin}/enter/{self._entrance}"
        self.root = f"/{self._secret}"

    def enter(self, said: str) -> bool:
        """True if the entrance opens; it never does again."""
        with self._lock:
            opens = self._entrance is not None and _same(said, self._entrance)
            if opens:
                self._entrance = None
            return opens

    def is_inside(self, said: str) -> bool:
        """True if that is the secret part of the path."""
        return _same(said, self._secret)


class Refused(Exception):
    """A request that is not answered with a page."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


Query = dict[str, list[str]]


class Answering(BaseHTTPRequestHandler):
    """Answers for a `LoopbackServer`: who says what a page is gives `get`, and perhaps more."""

    server: LoopbackServer
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE
    kind: Kind
    """The files that its pages are made of."""
    most_fields = 2
    """The most fields of a query."""
    cannot = "This cannot be shown"
    """The title of the page that says why a page could not be made."""

    def get(self, path: str, query: Query) -> None:
        """The page at the path below the secret is sent."""
        raise NotImplementedError

    def trouble(self, title: str, why: str, root: str) -> str:
        """The page that says what went wrong."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self.answer(self._get)

    def version_string(self) -> str:
        return "statediff"

    def log_message(self, *_: Any) -> None:
        """Nothing: the path is a secret."""

    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:  # what the server itself refuses; nothing of the request comes back
        del message, explain
        self.send(HTTPStatus(code), self.trouble("Refused", HTTPStatus(code).phrase, ""))

    def answer(self, act: Callable[[list[str], Query], None]) -> None:
        """The answer of `act` to the path and the query; the reason, if it is refused."""
        self.close_connection = True
        try:
            hosts = self.headers.get_all("Host", [])
            if hosts != [self.server.authority]:
                raise Refused(HTTPStatus.MISDIRECTED_REQUEST, "this desk has another address")
            target = urlsplit(self.path)
            if not self.path.startswith("/") or target.netloc:
                raise Refused(HTTPStatus.BAD_REQUEST, "expected a path")
            query = parse_query(target.query, self.most_fields)
            act(target.path.split("/")[1:], query)
        except Refused as refused:
            self.send(refused.status, self.trouble(refused.status.phrase, str(refused), ""))
        except (BundleError, InputError, StorageError) as error:
            page = self.trouble(self.cannot, str(error), self.server.root)
            self.send(HTTPStatus.INTERNAL_SERVER_ERROR, page)

    def _get(self, path: list[str], query: Query) -> None:
        if len(path) == 2 and path[0] == "enter":
            if not self.server.enter(path[1]):
                why = "this link was used already, or is another's; go on in the tab that it opened"
                raise Refused(HTTPStatus.FORBIDDEN, why)
            self.redirect(f"{self.server.root}/")
            return
        self.get(self.inside(path), query)

    def inside(self, path: list[str]) -> str:
        """The path after its secret part. Outside there is nothing."""
        if not (len(path) == 2 and self.server.is_inside(path[0])):
            raise Refused(HTTPStatus.NOT_FOUND, "there is nothing here")
        if self.headers.get("Sec-Fetch-Site") not in _OWN:
            raise Refused(HTTPStatus.FORBIDDEN, "another page may not ask for this")
        return path[1]

    def form(self, most_fields: int) -> Query:
        """The fields of the form that was sent; refused if it is not one of this page."""
        if self.headers.get("Origin") != self.server.origin:
            raise Refused(HTTPStatus.FORBIDDEN, "the form does not come from this desk")
        return parse_query(self._body(), most_fields)

    def _body(self) -> str:
        lengths = self.headers.get_all("Content-Length", [])
        if len(lengths) != 1 or "Transfer-Encoding" in self.headers:
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "expected a form of a known length")
        if self.headers.get_content_type() != _FORM:
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected {_FORM}")
        size = whole(lengths[0])
        if not 0 <= size <= MAX_BODY:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {MAX_BODY} bytes")
        try:
            return self.rfile.read(size).decode("ascii")
        except UnicodeDecodeError:
            raise Refused(HTTPStatus.BAD_REQUEST, "expected a form") from None
        except TimeoutError:
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the form did not come") from None

    def redirect(self, where: str) -> None:
        """The browser is sent there."""
        self.send(HTTPStatus.SEE_OTHER, "", where)

    def send(
        self, status: HTTPStatus, page: str, where: str = "", kind: Kind | None = None
    ) -> None:
        """The page is sent, closed to everything but what its kind needs."""
        content = page.encode("utf-8")
        self.send_response(status)
        for name, value in (
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Length", str(len(content))),
            ("Content-Security-Policy", f"{policy(kind or self.kind)}; frame-ancestors 'none'"),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "same-origin"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
        ):
            self.send_header(name, value)
        if where:
            self.send_header("Location", where)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def parse_query(text: str, most: int) -> Query:
    """The fields of a query or a form; refused if there are more than `most`."""
    try:
        return parse_qs(
            text,
            keep_blank_values=True,
            strict_parsing=False,
            errors="strict",
            max_num_fields=most,
        )
    except ValueError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, "expected other fields") from error


def whole(text: str) -> int:
    """The number; refused if it is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise Refused(HTTPStatus.BAD_REQUEST, "expected a number")
    return int(text)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())
