"""An agent that speaks the systems' own protocols, recorded without its cooperation.

Every system that is reached over HTTP (`curl` to a tracker, `git` over smart HTTP) is put behind a
reverse proxy that records: every request is a call of the agent. Requests and answers pass as they
are, but for the names of the host; what is recorded is bounded, and credentials are not. A push
says which references it moved, and the embedded tracker which transactions it made for a request.

What is written to the other systems (a database's file, the mail sink) their histories tell. The
log is the harness's own, and never complete: a system can be reached past its proxy.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

import h11

from statediff.agents.recorder import MAX_VALUE_BYTES, Recorder, recording
from statediff.agents.trial import AgentRun, Trial, WrappedAgent
from statediff.agents.turns import heard
from statediff.capture.source import Clock
from statediff.model.trace import ActionClass, Excerpt, Mark
from statediff.systems.base.registry import plugins
from statediff.systems.base.wire import Described, Request, Wire
from statediff.systems.hosted.headers import HEADER, marks_of

INCOMPLETE: Final = "only requests over HTTP pass a recorder, and none has to"
MAX_REQUEST_BYTES: Final = 256 * 1024 * 1024
MAX_HEAD_BYTES: Final = 256 * 1024
TIMEOUT_SECONDS: Final = 60.0
_CHUNK: Final = 64 * 1024
_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection "
    b"te trailer transfer-encoding upgrade expect".split()
)
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OVERRIDES: Final = ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override")
_METHOD: Final = "_method"
"""The member of a form that frameworks take for the method."""
_FORM_PART: Final = re.compile(
    rb'(?i)content-disposition:[^\r\n]{0,200}\bname="?([^"\r\n;]{1,100})"?[^\r\n]{0,200}\r?\n'
    rb"(?:[^\r\n]{1,400}\r?\n){0,5}\r?\n([^\r\n]{0,400})\r?\n--"
)
_ASKED: Final = {
    **dict.fromkeys(("GET", "HEAD", "OPTIONS"), ActionClass.READ),
    **dict.fromkeys(("POST", "PUT", "PATCH"), ActionClass.CONDITIONAL_UPDATE),
    "DELETE": ActionClass.IRREVERSIBLE_DELETION,
}
"""What a method asks for."""
_Message = h11.Request | h11.Response


@dataclass(frozen=True)
class NativeAgent(WrappedAgent):
    """Another agent, whose requests over HTTP are recorded; its own log of them is not used."""

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        with recording(clock) as recorder:
            urls = dict(trial.urls)
            with ExitStack() as proxies:
                for source, url in trial.urls.items():
                    if url.startswith("http://"):
                        proxy = RecordingProxy(source, url, recorder)
                        proxies.callback(proxy.close)
                        urls[source] = proxy.url
                user = heard(trial.user, recorder.so_far)
                run = self.agent.run(replace(trial, urls=urls, user=user), clock)
            recorder.miss(INCOMPLETE)
            recorder.close()
            return replace(run, trace=recorder.trace())


class RecordingProxy:
    """One system behind a port of this machine's loopback, until `close`."""

    def __init__(self, source: str, url: str, recorder: Recorder) -> None:
        """`url` is where the agent would have reached the system, credentials included."""
        self._target = urlsplit(url)
        if self._target.scheme != "http" or not self._target.hostname:
            raise ValueError(f"{source}: a recording proxy stands before http:// only")
        self.source = source
        self.recorder = recorder
        self._server = ThreadingTCPServer(("127.0.0.1", 0), partial(_Connection, self))
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address at which the agent reaches the system now."""
        user, at, _ = self._target.netloc.rpartition("@")
        return urlunsplit(self._target._replace(netloc=f"{user}{at}127.0.0.1:{self._port}"))

    @property
    def upstream(self) -> tuple[str, int]:
        """Host and port of the system itself."""
        return self._target.hostname or "", self._target.port or 80

    def translate(self, message: _Message, *, inward: bool) -> list[tuple[bytes, bytes]]:
        """The headers that pass, with the proxy's place as the system's, or the other way round."""
        ours, theirs = f"127.0.0.1:{self._port}".encode(), "{}:{}".format(*self.upstream).encode()
        old, new = (ours, theirs) if inward else (theirs, ours)
        return [
            (name, value.replace(old, new))
            for name, value in message.headers.raw_items()
            if name.lower() not in _HOP
        ]

    def close(self) -> None:
        """Nobody listens any more; what was under way is cut."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _End:
    """One end of the proxy: its socket, and what h11 knows of the exchange over it."""

    def __init__(self, line: socket.socket, role: type[h11.CLIENT | h11.SERVER]) -> None:
        line.settimeout(TIMEOUT_SECONDS)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.line = line
        self.http = h11.Connection(role, MAX_HEAD_BYTES)

    def receive(self) -> Any:
        """The next event. Raises `h11.RemoteProtocolError` for what is not HTTP."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            if self.http.they_are_waiting_for_100_continue:
                self.send(h11.InformationalResponse(status_code=100, headers=[]))
            self.http.receive_data(self.line.recv(_CHUNK))
        return event

    def body(self) -> Iterator[bytes]:
        """The pieces of the message whose head was received."""
        while isinstance(event := self.receive(), h11.Data):
            yield bytes(event.data)

    def send(self, *events: h11.Event) -> None:
        """The events went out together."""
        self.line.sendall(b"".join(self.http.send(event) or b"" for event in events))


@dataclass(frozen=True, kw_only=True)
class _Request:
    """One request of the agent, read to its end."""

    head: h11.Request
    body: bytes

    @property
    def method(self) -> str:
        return self.head.method.decode("ascii")

    @property
    def target(self) -> str:
        return self.head.target.decode("ascii")


class _Connection(BaseRequestHandler):
    """One connection of the agent."""

    def __init__(self, proxy: RecordingProxy, *given: Any) -> None:
        self._proxy = proxy
        super().__init__(*given)

    def handle(self) -> None:
        """Answers requests until either side has had enough."""
        self._agent = _End(self.request, h11.SERVER)
        http = self._agent.http
        with contextlib.suppress(OSError):
            while (request := self._read()) is not None:
                self._forward(request)
                if (http.our_state, http.their_state) != (h11.DONE, h11.DONE):
                    return
                http.start_next_cycle()

    def _read(self) -> _Request | None:
        """The whole request; None if there is no more, or it was refused."""
        tool, arguments = "(malformed)", {}
        try:
            head = self._agent.receive()
            if not isinstance(head, h11.Request):
                return None
            tool = head.method.decode("ascii")
            arguments = {"path": head.target.decode("ascii")}
            length = int(_value(head, "Content-Length") or 0)
            body = bytearray()
            for piece in self._agent.body() if length <= MAX_REQUEST_BYTES else ():
                body += piece
                length = len(body)
                if length > MAX_REQUEST_BYTES:
                    break
            if length <= MAX_REQUEST_BYTES:
                return _Request(head=head, body=bytes(body))
        except h11.RemoteProtocolError:
            pass
        recorder = self._proxy.recorder
        call = recorder.begin(f"{self._proxy.source} {tool}", arguments)
        recorder.end(call, error="the request was malformed or too large", transactions=())
        self._refuse(400, "the request was malformed or too large")
        return None

    def _refuse(self, status: int, why: str) -> None:
        """The agent got an answer of ours, unless one has begun; the connection ends with it."""
        if self._agent.http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [("Content-Type", "text/plain"), ("Connection", "close")]
            self._agent.send(
                h11.Response(status_code=status, headers=headers),
                h11.Data(data=f"{why}\n".encode()),
                h11.EndOfMessage(),
            )
        self._agent.http.send_failed()

    def _forward(self, request: _Request) -> None:
        call = _Call(self._proxy, request)
        try:
            with socket.create_connection(self._proxy.upstream, TIMEOUT_SECONDS) as line:
                self._exchange(_End(line, h11.CLIENT), request, call)
        except (OSError, h11.ProtocolError) as failed:
            # The call may be over, with the agent gone before it had the answer.
            with contextlib.suppress(KeyError):
                call.end(None, f"no answer: {type(failed).__name__}: {failed}", None, None)
            self._refuse(502, "the system gave no answer")

    def _exchange(self, system: _End, request: _Request, call: _Call) -> None:
        """Passes the request on, and the answer back as it comes.

        The last piece goes once the call is recorded, so that it is before the agent can go on.
        """
        system.send(
            h11.Request(
                method=request.head.method,
                target=request.head.target,
                headers=self._inward(request),
            ),
            h11.Data(data=request.body),
            h11.EndOfMessage(),
        )
        while isinstance(answer := system.receive(), h11.InformationalResponse):
            pass
        headers = self._proxy.translate(answer, inward=False)
        passing: list[h11.Event] = [
            h11.Response(
                status_code=answer.status_code,
                reason=answer.reason,
                headers=[each for each in headers if each[0].lower() != HEADER.lower().encode()],
            )
        ]
        beginning = b""
        for piece in system.body():
            if beginning:
                self._agent.send(*passing)
                passing = []
            passing.append(h11.Data(data=piece))
            beginning += piece[: max(0, MAX_VALUE_BYTES + 1 - len(beginning))]
        error = f"HTTP {answer.status_code}" if answer.status_code >= 400 else None
        result = {
            "status": answer.status_code,
            "body": _content(beginning, _value(answer, "Content-Type")),
        }
        named = marks_of(self._proxy.source, _values(answer, HEADER))
        call.end(result, error, beginning, named)
        self._agent.send(*passing, h11.EndOfMessage())

    def _inward(self, request: _Request) -> list[tuple[bytes, bytes]]:
        """The headers for the system, which say how long the body is that was read."""
        headers = self._proxy.translate(request.head, inward=True)
        passing = [each for each in headers if each[0].lower() != b"content-length"]
        if not _values(request.head, "Host"):
            passing.append((b"Host", "{}:{}".format(*self._proxy.upstream).encode()))
        if request.body or request.method not in _READS:
            passing.append((b"Content-Length", b"%d" % len(request.body)))
        return passing


class _Call:
    """One request in the log of calls."""

    def __init__(self, proxy: RecordingProxy, request: _Request) -> None:
        self._recorder = proxy.recorder
        self._is = _description(proxy.source, request)
        self._id = self._recorder.begin(
            f"{proxy.source} {request.method}",
            dict(self._is.arguments),
            class_=self._is.action_class,
            principal=_principal(_value(request.head, "Authorization")),
        )

    def end(
        self, result: Any, error: str | None, body: bytes | None, named: tuple[Mark, ...] | None
    ) -> None:
        """It is over: what the answer was, its beginning, and the transactions that it names.

        Without an answer, `body` and `named` are None.
        """
        is_refused = error is not None and error.startswith("HTTP 4")
        marks, kind = () if is_refused else self._is.marks, self._is.action_class
        if self._is.done is not None:
            marks = self._is.done(marks, body) if marks else marks
        elif named is not None:
            marks = named
            if marks and kind is ActionClass.READ:
                kind = ActionClass.UNKNOWN  # it was none
        self._recorder.end(self._id, result=result, error=error, class_=kind, transactions=marks)


def _values(message: _Message, name: str) -> list[str]:
    """The values of the headers of this name."""
    sought = name.lower().encode()
    return [value.decode("latin-1") for each, value in message.headers if each == sought]


def _value(message: _Message, name: str) -> str:
    """The value of the first header of this name; empty without one."""
    return next(iter(_values(message, name)), "")


def _description(source: str, request: _Request) -> Described:
    """The description of one request, as a call."""
    method, body = request.method, request.body
    path, _, query = request.target.partition("?")
    arguments: dict[str, Any] = {"path": path}
    pairs = parse_qsl(query, keep_blank_values=True)
    if pairs:
        arguments["query"] = [list(pair) for pair in pairs]
    seen = Request(method=method, path=path, body=body)
    for wire in _wires():
        described = wire.describe and wire.describe(source, seen)
        if described:
            return replace(described, arguments={**arguments, **described.arguments})
    if body:
        arguments["body"] = _content(body, _value(request.head, "Content-Type"))
    orders = _orders(request, pairs) or [(method, _ASKED)]
    is_plain = [word for word, _ in orders] == [method]
    classes = {asked.get(word.upper(), ActionClass.UNKNOWN) for word, asked in orders}
    action_class = classes.pop()
    if action_class is ActionClass.READ and is_plain and not classes:
        return Described(action_class=action_class, arguments=arguments)
    # Frameworks heed these in a POST; what another method makes of them is not known.
    is_known = not classes and (is_plain or method == "POST")
    if not is_known or (action_class in (ActionClass.READ, ActionClass.UNKNOWN) and not is_plain):
        return Described(action_class=ActionClass.UNKNOWN, arguments=arguments, marks=None)
    return Described(action_class=action_class, arguments=arguments, marks=(Mark(source),))


def _wires() -> tuple[Wire, ...]:
    """The additions of the installed systems to HTTP."""
    return tuple(plugin.wire() for plugin in plugins().values() if plugin.wire is not None)


def _orders(
    request: _Request, pairs: list[tuple[str, str]]
) -> list[tuple[str, Mapping[str, ActionClass]]]:
    """The orders of a request besides its method, each with what the words for it mean there."""
    given = [(value, _ASKED) for name in _OVERRIDES for value in _values(request.head, name)]
    kind = _value(request.head, "Content-Type").partition(";")
    members: list[tuple[str, str]] = []
    match kind[0].strip().lower():
        case "multipart/form-data":
            members = [
                (name.decode("utf-8", "replace"), value.decode("utf-8", "replace"))
                for name, value in _FORM_PART.findall(request.body)
            ]
        case json_kind if json_kind.endswith("json"):
            with contextlib.suppress(ValueError, RecursionError):
                read = json.loads(request.body)
                members = list(read.items()) if isinstance(read, dict) else []
        case _:
            # Some frameworks read a form whatever the request calls it.
            with contextlib.suppress(ValueError):
                members = parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True)
    words = {_METHOD: _ASKED}
    for wire in _wires():
        words |= {name: {**_ASKED, **asked} for name, asked in wire.orders.items()}
    named = ((str(value), words[name]) for name, value in (*pairs, *members) if name in words)
    return [*given, *named]


def _content(body: bytes, content_type: str) -> Any:
    """A body as it is recorded: JSON as such, other text and bytes by digest and beginning."""
    if not body:
        return None
    kind = content_type.partition(";")[0].strip().lower()
    if kind.endswith("json") and len(body) <= MAX_VALUE_BYTES // 2:
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(body)
    excerpt = Excerpt.of(body.decode("utf-8", "replace"))
    return {"digest": excerpt.digest, "bytes": len(body), "beginning": excerpt.beginning}


def _principal(authorization: str) -> str | None:
    """The account that a request was made with, which may be a key; its password nobody reads."""
    scheme, _, word = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, _ = base64.b64decode(word, validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return unquote(name)[:200] if colon and name else None
