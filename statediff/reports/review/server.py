"""A desk behind the loopback address, for the one browser that was given its link.

Whoever else can send a request to this port (another page in the browser, another name that
resolves to this machine, another user, the agent) gets nothing:

1. it listens on 127.0.0.1 and answers only requests whose `Host` says so (DNS rebinding);
2. every page lies under a path of 256 random bits. The link that is printed holds another secret
   and works once, so that it is of no use in a list of processes or a history;
3. what changes something comes as a form of this origin (`Origin`, `Sec-Fetch-Site`), bounded in
   size and time;
4. every answer says what it may be used for: no frame, no script but ours, nothing kept.
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

from statediff.errors import BundleError, InputError, StorageError, UsageError
from statediff.reports.html.page import policy
from statediff.reports.review.desk import Desk
from statediff.reports.review.form import FIELDS, given_from
from statediff.reports.review.pages import KIND, case_page, desk_page, trouble_page
from statediff.suite.terms import Failure

HOST: Final = "127.0.0.1"
MAX_BODY: Final = 64 * 1024
"""Bytes of a form."""
MAX_FIELDS: Final = len(FIELDS) + len(Failure)
MAX_CONNECTIONS: Final = 32
PATIENCE: Final = 15.0
"""Seconds that a connection may say nothing."""
_DIGITS: Final = 6
_FORM: Final = "application/x-www-form-urlencoded"
_OWN: Final = (None, "same-origin")


class DeskServer(ThreadingHTTPServer):
    """The server of one desk; `link` opens it, once. `serve_forever` until `shutdown`."""

    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, desk: Desk, port: int = 0) -> None:
        """`OSError` if the port is taken; 0 takes any that is free."""
        self.desk = desk
        self._entrance: str | None = secrets.token_urlsafe(32)
        self._secret = secrets.token_urlsafe(32)
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._lock = threading.Lock()
        super().__init__((HOST, port), _Answer)
        self.authority = f"{HOST}:{self.server_address[1]}"
        self.origin = f"http://{self.authority}"
        self.link = f"{self.origin}/enter/{self._entrance}"
        self.root = f"/{self._secret}"

    def enter(self, said: str) -> bool:
        """Whether the entrance opens; it never does again."""
        with self._lock:
            opens = self._entrance is not None and _same(said, self._entrance)
            if opens:
                self._entrance = None
            return opens

    def is_inside(self, said: str) -> bool:
        """Whether that is the secret part of the path."""
        return _same(said, self._secret)

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


class _Refused(Exception):
    """A request that is not answered with a page of the desk."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Answer(BaseHTTPRequestHandler):
    server: DeskServer
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def version_string(self) -> str:
        return "statediff"

    def log_message(self, *_: Any) -> None:
        """Nothing: the path is a secret."""

    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:  # what the server itself refuses; nothing of the request comes back
        del message, explain
        self._send(HTTPStatus(code), trouble_page("Refused", HTTPStatus(code).phrase, ""))

    def _answer(self, act: Callable[[list[str], dict[str, list[str]]], None]) -> None:
        self.close_connection = True
        try:
            hosts = self.headers.get_all("Host", [])
            if hosts != [self.server.authority]:
                raise _Refused(HTTPStatus.MISDIRECTED_REQUEST, "this desk has another address")
            target = urlsplit(self.path)
            if not self.path.startswith("/") or target.netloc:
                raise _Refused(HTTPStatus.BAD_REQUEST, "expected a path")
            query = _parsed(target.query, 2)
            act(target.path.split("/")[1:], query)
        except _Refused as refused:
            self._send(refused.status, trouble_page(refused.status.phrase, str(refused), ""))
        except (BundleError, InputError, StorageError) as error:
            page = trouble_page("This trial cannot be shown", str(error), self.server.root)
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, page)

    def _get(self, path: list[str], query: dict[str, list[str]]) -> None:
        if len(path) == 2 and path[0] == "enter":
            if not self.server.enter(path[1]):
                why = "this link was used already, or is another's; go on in the tab that it opened"
                raise _Refused(HTTPStatus.FORBIDDEN, why)
            self._redirect(f"{self.server.root}/")
            return
        number = self._number(path)
        page = _whole(query.get("page", ["0"])[0])
        if number is None:
            self._send(HTTPStatus.OK, desk_page(self.server.desk, self.server.root, page))
            return
        words = query.get("q", [""])[0]
        text = case_page(self.server.desk, number, self.server.root, page, words)
        self._send(HTTPStatus.OK, text)

    def _post(self, path: list[str], _query: dict[str, list[str]]) -> None:
        number = self._number(path)
        if number is None:
            raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, "a label belongs to a trial")
        if self.headers.get("Origin") != self.server.origin:
            raise _Refused(HTTPStatus.FORBIDDEN, "the form does not come from this desk")
        sent = _parsed(self._body(), MAX_FIELDS)
        desk, root = self.server.desk, self.server.root
        try:
            desk.sign(number, given_from(sent))
        except UsageError as error:
            page = case_page(desk, number, root, problem=str(error), draft=sent)
            self._send(HTTPStatus.UNPROCESSABLE_ENTITY, page)
            return
        is_again = desk.next(number) is None
        self._redirect(f"{root}/" if is_again else f"{root}/{(desk.next(number) or 0) + 1}")

    def _number(self, path: list[str]) -> int | None:
        """The trial that a path names; None for the list. Outside the desk there is nothing."""
        if not (len(path) == 2 and self.server.is_inside(path[0])):
            raise _Refused(HTTPStatus.NOT_FOUND, "there is nothing here")
        if self.headers.get("Sec-Fetch-Site") not in (*_OWN, "none"):
            raise _Refused(HTTPStatus.FORBIDDEN, "another page may not ask for this")
        if not path[1]:
            return None
        number = _whole(path[1]) - 1
        if not 0 <= number < len(self.server.desk.cases):
            raise _Refused(HTTPStatus.NOT_FOUND, "there is no such trial on this desk")
        return number

    def _body(self) -> str:
        lengths = self.headers.get_all("Content-Length", [])
        if len(lengths) != 1 or "Transfer-Encoding" in self.headers:
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "expected a form of a known length")
        if self.headers.get_content_type() != _FORM:
            raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected {_FORM}")
        size = _whole(lengths[0])
        if not 0 <= size <= MAX_BODY:
            raise _Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {MAX_BODY} bytes"
            )
        try:
            return self.rfile.read(size).decode("ascii")
        except UnicodeDecodeError:
            raise _Refused(HTTPStatus.BAD_REQUEST, "expected a form") from None
        except TimeoutError:
            raise _Refused(HTTPStatus.REQUEST_TIMEOUT, "the form did not come") from None

    def _redirect(self, where: str) -> None:
        self._send(HTTPStatus.SEE_OTHER, "", where)

    def _send(self, status: HTTPStatus, page: str, where: str = "") -> None:
        content = page.encode("utf-8")
        self.send_response(status)
        for name, value in (
            ("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(content))),
            ("Content-Security-Policy", f"{policy(KIND)}; frame-ancestors 'none'"),
            ("Cache-Control", "no-store"), ("Connection", "close"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"), ("Referrer-Policy", "same-origin"),
            ("X-Content-Type-Options", "nosniff"), ("X-Frame-Options", "DENY"),
        ):  # fmt: skip
            self.send_header(name, value)
        if where:
            self.send_header("Location", where)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _parsed(text: str, most: int) -> dict[str, list[str]]:
    try:
        return parse_qs(
            text, keep_blank_values=True, strict_parsing=False, errors="strict",
            max_num_fields=most,
        )  # fmt: skip
    except ValueError as error:
        raise _Refused(HTTPStatus.BAD_REQUEST, "expected other fields") from error


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise _Refused(HTTPStatus.BAD_REQUEST, "expected a number")
    return int(text)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())
