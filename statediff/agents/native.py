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
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

import h11

from statediff.agents.recorder import MAX_VALUE_BYTES, Recorder, recording
from statediff.agents.trial import AgentRun, Trial, WrappedAgent
from statediff.agents.turns import heard
from statediff.capture.source import Clock
from statediff.model.trace import ActionClass, Excerpt, Mark
from statediff.systems.git.refs import move
from statediff.systems.trackers.headers import HEADER, marks_of

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
_NONE: Final = "0" * 40
_FLUSH: Final = b"0000"
"""With it a client of git asks whether it may push."""
_ID: Final = rb"([0-9a-f]{40}(?:[0-9a-f]{24})?)"
_COMMAND: Final = re.compile(_ID + b" " + _ID + rb" ([^\x00\n]{1,300})")
MAX_REFS: Final = 200
_OVERRIDES: Final = ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override")
_ACTIONS: Final = frozenset({"@action", ":action", "_method"})
"""What makes another request of one than its method says."""
_FORM_PART: Final = re.compile(
    rb'(?i)content-disposition:[^\r\n]{0,200}\bname="?([^"\r\n;]{1,100})"?[^\r\n]{0,200}\r?\n'
    rb"(?:[^\r\n]{1,400}\r?\n){0,5}\r?\n([^\r\n]{0,400})\r?\n--"
)
_ORDERED: Final = {
    **dict.fromkeys(("GET", "HEAD", "OPTIONS"), ActionClass.READ),
    **dict.fromkeys(("POST", "PUT", "PATCH"), ActionClass.CONDITIONAL_UPDATE),
    **dict.fromkeys(("NEW", "EDIT", "RESTORE"), ActionClass.CONDITIONAL_UPDATE),
    **dict.fromkeys(("DELETE", "RETIRE"), ActionClass.IRREVERSIBLE_DELETION),
}
"""What a method asks for, and what `@action` does of Roundup."""
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
        """Where the agent reaches the system now."""
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
        self._class, self._arguments, self._marks = _description(proxy.source, request)
        self._id = self._recorder.begin(
            f"{proxy.source} {request.method}",
            self._arguments,
            class_=self._class,
            principal=_principal(_value(request.head, "Authorization")),
        )

    def end(
        self, result: Any, error: str | None, body: bytes | None, named: tuple[Mark, ...] | None
    ) -> None:
        """It is over: what the answer was, its beginning, and the transactions that it names.

        Without an answer, `body` and `named` are None.
        """
        is_refused = error is not None and error.startswith("HTTP 4")
        marks, kind = () if is_refused else self._marks, self._class
        if "refs" in self._arguments:
            marks = _reported_moves(marks, body) if marks else marks
        elif named is not None:
            marks = named
            if marks and kind is ActionClass.READ:
                kind = ActionClass.UNKNOWN  # it was none
        self._recorder.end(self._id, result=result, error=error, class_=kind, transactions=marks)


def _values(message: _Message, name: str) -> list[str]:
    """What the headers of this name say."""
    sought = name.lower().encode()
    return [value.decode("latin-1") for each, value in message.headers if each == sought]


def _value(message: _Message, name: str) -> str:
    """What the first header of this name says; empty without one."""
    return next(iter(_values(message, name)), "")


def _description(
    source: str, request: _Request
) -> tuple[ActionClass, dict[str, Any], tuple[Mark, ...] | None]:
    """Class, arguments and marks of one request."""
    method, body = request.method, request.body
    path, _, query = request.target.partition("?")
    arguments: dict[str, Any] = {"path": path}
    pairs = parse_qsl(query, keep_blank_values=True)
    if pairs:
        arguments["query"] = [list(pair) for pair in pairs]
    if path.endswith("/git-upload-pack"):
        return ActionClass.READ, arguments, ()
    if path.endswith("/git-receive-pack") and method == "POST":
        refs = [*islice(_commands(body), MAX_REFS)]
        arguments["refs"] = [
            {"ref": ref.decode("utf-8", "replace"), "old": old.decode(), "new": new.decode()}
            for old, new, ref in refs
        ]
        gone = any(new.startswith(_NONE.encode()) for _, new, _ in refs)
        marks = tuple(Mark(source, move(ref, old.decode(), new.decode())) for old, new, ref in refs)
        if len(refs) == MAX_REFS or (not refs and body != _FLUSH):
            marks = (*marks, Mark(source))  # more than is read here, or in another form
        action_class = ActionClass.IRREVERSIBLE_DELETION if gone else ActionClass.CONDITIONAL_UPDATE
        return action_class, arguments, marks
    if body:
        arguments["body"] = _content(body, _value(request.head, "Content-Type"))
    orders = _orders(request, pairs)
    if not orders:
        orders = [method]
    classes = {_ORDERED.get(each.upper(), ActionClass.UNKNOWN) for each in orders}
    # Frameworks heed these in a POST; what another method makes of them is not known.
    if len(classes) != 1 or (orders != [method] and method != "POST"):
        return ActionClass.UNKNOWN, arguments, None
    (action_class,) = classes
    if action_class is ActionClass.READ and orders == [method]:
        return action_class, arguments, ()
    if action_class in (ActionClass.READ, ActionClass.UNKNOWN) and orders != [method]:
        return ActionClass.UNKNOWN, arguments, None
    return action_class, arguments, (Mark(source),)


def _orders(request: _Request, pairs: list[tuple[str, str]]) -> list[str]:
    """What a request asks for besides its method: in a header, its query, or its body."""
    given = [value for name in _OVERRIDES for value in _values(request.head, name)]
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
    return given + [str(value) for name, value in (*pairs, *members) if name in _ACTIONS]


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


def _reported_moves(marks: tuple[Mark, ...], answer: bytes | None) -> tuple[Mark, ...]:
    """Of the moves that a push asked for, those that the server reports as done.

    Where it may have done them and does not say so, the push wrote there, and nobody knows what.
    """
    if answer is None or b"unpack " not in answer:
        return (Mark(marks[0].source),)
    done = [m for m in marks if m.name is None or _ok(m.name) in answer]
    return tuple(done)


def _ok(move: str) -> bytes:
    return f"ok {move.rpartition(' ')[0]}\n".encode()


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
