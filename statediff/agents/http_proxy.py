"""A reverse proxy that records: every request to a system of the sandbox is a call of the agent.

An agent that speaks HTTP by itself (`curl` to a tracker, `git` over smart HTTP) is given the
address of the proxy in place of the system's. Requests and answers pass as they are, but for the
names of the host; what is recorded is bounded, and credentials are not. A push says which
references it moved, and the embedded tracker which transactions it made for a request.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import http.client
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from statediff.agents.recorder import MAX_VALUE_BYTES, Recorder
from statediff.model.trace import ActionClass, Excerpt, Mark
from statediff.systems.git.refs import move
from statediff.systems.trackers.headers import HEADER, marks_of

MAX_REQUEST_BYTES: Final = 256 * 1024 * 1024
TIMEOUT_SECONDS: Final = 60.0
_CHUNK: Final = 64 * 1024
_HOP: Final = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
    "te", "trailer", "transfer-encoding", "upgrade", "expect",
})  # fmt: skip
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_NONE: Final = "0" * 40
_FLUSH: Final = b"0000"
"""With it a client of git asks whether it may push."""
_ID: Final = rb"([0-9a-f]{40}(?:[0-9a-f]{24})?)"
_COMMAND: Final = re.compile(_ID + b" " + _ID + rb" ([^\x00\n]{1,300})")
MAX_REFS: Final = 200
_OVERRIDES: Final = ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override")
_ACTIONS: Final = frozenset({"@action", ":action", "_method"})
"""What makes another request of one than its method says."""


Ended = Callable[[Any, str | None, bytes | None, tuple[Mark, ...] | None], None]
"""Takes what is recorded of the answer, the error if it is one, the answer's beginning (None where
there was no answer), and the transactions that the answer names."""


class RecordingProxy:
    """One system behind a port of this machine's loopback, until `close`."""

    def __init__(self, source: str, url: str, recorder: Recorder) -> None:
        """`url` is where the agent would have reached the system, credentials included."""
        self._target = urlsplit(url)
        if self._target.scheme != "http" or not self._target.hostname:
            raise ValueError(f"{source}: a recording proxy stands before http:// only")
        self.source = source
        self.recorder = recorder
        proxy = self

        class Handler(_Handler):
            def __init__(self, *given: Any) -> None:
                self.proxy = proxy
                super().__init__(*given)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where the agent reaches the system now."""
        user, at, _ = self._target.netloc.rpartition("@")
        place = f"{user}{at}127.0.0.1:{self._server.server_port}"
        return urlunsplit(self._target._replace(netloc=place))

    @property
    def upstream(self) -> tuple[str, int]:
        """Host and port of the system itself."""
        return self._target.hostname or "", self._target.port or 80

    def translated(self, value: str, *, inward: bool) -> str:
        """A header that names the proxy's place names the system's, or the other way round."""
        ours = f"127.0.0.1:{self._server.server_port}"
        theirs = "{}:{}".format(*self.upstream)
        return value.replace(ours, theirs) if inward else value.replace(theirs, ours)

    def close(self) -> None:
        """Nobody listens any more; what was under way is cut."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    """One connection of the agent."""

    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_SECONDS
    proxy: RecordingProxy
    _has_sent_head = False

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 — the base class names it
        """What an agent asks for is for the log of calls, not for the console."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._forward
        raise AttributeError(name)

    def _forward(self) -> None:
        body = self._body()
        if body is None:
            return
        recorder, source = self.proxy.recorder, self.proxy.source
        action_class, told, marks = _said(source, self.command, self.path, body, self.headers)
        call = recorder.begin(
            f"{source} {self.command}", told, class_=action_class,
            principal=_principal(self.headers.get("Authorization", "")),
        )  # fmt: skip

        def ended(
            result: Any, error: str | None, said: bytes | None, named: tuple[Mark, ...] | None
        ) -> None:
            """The call is over before the agent has the whole answer, and can go on."""
            refused = error is not None and error.startswith("HTTP 4")
            made = () if refused else marks
            found = action_class
            if "refs" in told:
                made = _landed(made, said) if made else made
            elif named is not None:
                made = named
                if made and found is ActionClass.READ:
                    found = ActionClass.UNKNOWN  # it was none
            recorder.end(call, result=result, error=error, class_=found, transactions=made)

        try:
            self._answer(body, ended)
        except (OSError, http.client.HTTPException) as failed:
            # The call may be over, with the agent gone before it had the answer.
            with contextlib.suppress(KeyError):
                ended(None, f"no answer: {type(failed).__name__}: {failed}", None, None)
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.send_error(502, "the system gave no answer")

    def _body(self) -> bytes | None:
        """The whole request; None if it was refused."""
        try:
            if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
                return b"".join(self._chunks())
            length = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            length = -1
        if not 0 <= length <= MAX_REQUEST_BYTES:
            call = self.proxy.recorder.begin(
                f"{self.proxy.source} {self.command}", {"path": self.path}
            )
            self.proxy.recorder.end(
                call, error="the request was malformed or too large", transactions=()
            )
            self.close_connection = True
            self.send_error(400)
            return None
        return self.rfile.read(length)

    def _chunks(self) -> Iterator[bytes]:
        total = 0
        while size := int(self.rfile.readline(80).split(b";")[0], 16):
            total += size
            if size < 0 or total > MAX_REQUEST_BYTES:
                raise ValueError("too large")
            yield self.rfile.read(size)
            self.rfile.readline(8)
        while self.rfile.readline(8192).strip():
            pass

    def _answer(self, body: bytes, ended: Ended) -> None:
        """Passes the request on and the answer back."""
        host, port = self.proxy.upstream
        upstream = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
        try:
            headers = {
                name: self.proxy.translated(value, inward=True)
                for name, value in self.headers.items()
                if name.lower() not in _HOP | {"content-length"}
            }
            if body or self.command not in _READS:
                headers["Content-Length"] = str(len(body))
            upstream.request(self.command, self.path, body or None, headers)
            self._pass_back(upstream.getresponse(), ended)
        finally:
            upstream.close()

    def _pass_back(self, answer: http.client.HTTPResponse, ended: Ended) -> None:
        """The answer goes to the agent as it comes, its last piece once the call is recorded."""
        is_sized = answer.getheader("Content-Length") is not None
        is_bare = self.command == "HEAD" or answer.status in (204, 304)
        last = answer.read(_CHUNK)
        kept = last
        self._has_sent_head = False
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP | {HEADER.lower()}:
                self.send_header(name, self.proxy.translated(value, inward=False))
        if not is_sized and not is_bare:
            self.close_connection = True
            self.send_header("Connection", "close")
        # The base class sends the head here at once; the agent waits for what follows it, if
        # anything does.
        pieces = iter(lambda: answer.read(_CHUNK), b"")
        following = next(pieces, b"") if last else b""
        if following:
            self.end_headers()
        while following:
            self.wfile.write(last)
            kept += following[: max(0, MAX_VALUE_BYTES + 1 - len(kept))]
            last, following = following, next(pieces, b"")
        error = f"HTTP {answer.status}" if answer.status >= 400 else None
        result = {"status": answer.status, "body": _content(kept, answer.headers)}
        named = marks_of(self.proxy.source, answer.headers.get_all(HEADER) or ())
        ended(result, error, kept, named)
        if not self._has_sent_head:
            self.end_headers()
        self.wfile.write(last)

    def end_headers(self) -> None:
        self._has_sent_head = True
        super().end_headers()


def _said(
    source: str, method: str, target: str, body: bytes, headers: Message
) -> tuple[ActionClass, dict[str, Any], tuple[Mark, ...] | None]:
    """Class, arguments and marks of one request."""
    path, _, query = target.partition("?")
    told: dict[str, Any] = {"path": path}
    pairs = parse_qsl(query, keep_blank_values=True)
    if pairs:
        told["query"] = [list(pair) for pair in pairs]
    if path.endswith("/git-upload-pack"):
        return ActionClass.READ, told, ()
    if path.endswith("/git-receive-pack") and method == "POST":
        refs = [*islice(_commands(body), MAX_REFS)]
        told["refs"] = [
            {"ref": ref.decode("utf-8", "replace"), "old": old.decode(), "new": new.decode()}
            for old, new, ref in refs
        ]
        gone = any(new.startswith(_NONE.encode()) for _, new, _ in refs)
        marks = tuple(Mark(source, move(ref, old.decode(), new.decode())) for old, new, ref in refs)
        if len(refs) == MAX_REFS or (not refs and body != _FLUSH):
            marks = (*marks, Mark(source))  # more than is read here, or in another form
        action_class = ActionClass.IRREVERSIBLE_DELETION if gone else ActionClass.CONDITIONAL_UPDATE
        return action_class, told, marks
    if body:
        told["body"] = _content(body, headers)
    if any(name in headers for name in _OVERRIDES) or any(n in _ACTIONS for n, _ in pairs):
        return ActionClass.UNKNOWN, told, None
    if method in _READS:
        return ActionClass.READ, told, ()
    if method == "DELETE":
        return ActionClass.IRREVERSIBLE_DELETION, told, (Mark(source),)
    is_known = method in ("POST", "PUT", "PATCH")
    action_class = ActionClass.CONDITIONAL_UPDATE if is_known else ActionClass.UNKNOWN
    return action_class, told, (Mark(source),)


def _commands(body: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(old, new, ref) of each line of a push, up to the flush that ends them, before its pack."""
    at = 0
    with contextlib.suppress(ValueError):
        while (length := int(body[at : at + 4], 16)) > 4:
            found = _COMMAND.match(body[at + 4 : at + length])
            if found is not None:
                old, new, ref = found.groups()
                yield old, new, ref
            at += length


def _landed(marks: tuple[Mark, ...], said: bytes | None) -> tuple[Mark, ...]:
    """Of the moves that a push asked for, those that the server reports as done.

    Where it may have done them and does not say so, the push wrote there, and nobody knows what.
    """
    if said is None or b"unpack " not in said:
        return (Mark(marks[0].source),)
    done = [m for m in marks if m.name is None or _ok(m.name) in said]
    return tuple(done)


def _ok(move: str) -> bytes:
    return f"ok {move.rpartition(' ')[0]}\n".encode()


def _content(body: bytes, headers: Message) -> Any:
    """A body as it is recorded: JSON as such, other text and bytes by digest and beginning."""
    if not body:
        return None
    kind = str(headers.get("Content-Type") or "").partition(";")[0].strip().lower()
    if kind.endswith("json") and len(body) <= MAX_VALUE_BYTES // 2:
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(body)
    excerpt = Excerpt.of(body.decode("utf-8", "replace"))
    return {"digest": excerpt.digest, "bytes": len(body), "beginning": excerpt.beginning[:200]}


def _principal(authorization: str) -> str | None:
    """The account that a request was made with; its password is read by nobody."""
    scheme, _, word = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, _ = base64.b64decode(word, validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return unquote(name)[:200] if colon and name else None
