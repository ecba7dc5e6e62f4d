"""How an agent speaks with the user of its trial, where the task is a conversation.

The agent hands in its reply and gets the user's next message, or learns that there is none. Each
way in has one door to that: the model loop asks by itself, a function calls `trial.say`, a program
that gets tools calls the tool `reply_to_user`, and any program posts its reply to the address in
`STATEDIFF_TURNS_URL`. An agent that never does hears the first message only.

What is replied is hostile until read: bounded, JSON as strictly as files are read, or text.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from pydantic import Field

from statediff.agents.recorder import MAX_VALUE_BYTES, log_value
from statediff.agents.trial import Trial, User
from statediff.errors import InputError
from statediff.model.strictjson import read_json
from statediff.model.trace import ActionClass, Trace
from statediff.model.values import Map, Unobserved, Value
from statediff.systems.base.tool import Arguments, Tool, ToolError

VARIABLE: Final = "STATEDIFF_TURNS_URL"
TOOL: Final = "reply_to_user"
MAX_REPLY_BYTES: Final = MAX_VALUE_BYTES
_TIMEOUT_SECONDS: Final = 30.0
"""For a reply to arrive in, not for the user to answer it."""
_MAX_AT_ONCE: Final = 4


@dataclass(frozen=True)
class Heard:
    """A user to whom a recorder says what was called."""

    user: User
    recorded: Callable[[], Trace]

    def answer(self, reply: Value, so_far: Callable[[], Trace]) -> str | None:
        """The user's next message."""
        del so_far
        return self.user.answer(reply, self.recorded)


def heard(user: User | None, recorded: Callable[[], Trace]) -> User | None:
    """The same user, where there is one."""
    return None if user is None else Heard(user, recorded)


def reply_of(raw: object) -> Value:
    """A reply as it is recorded: JSON of at most `MAX_REPLY_BYTES`. `InputError` for all else."""
    kept = log_value(raw)
    if isinstance(kept, Unobserved):
        raise InputError(f"a reply is JSON of at most {MAX_REPLY_BYTES} bytes: {kept.cause}")
    return kept


def reply_in(text: str) -> Value:
    """A reply that is an object or a list of JSON, and else the text itself."""
    with contextlib.suppress(InputError, UnicodeError):
        found = read_json(text.encode("utf-8"), "reply", max_bytes=MAX_REPLY_BYTES, max_depth=32)
        if isinstance(found, (Map, tuple)):
            return found
    return reply_of(text.encode("utf-8", errors="replace").decode("utf-8"))


def say_to(user: User | None, so_far: Callable[[], Trace]) -> Callable[[Any], str | None]:
    """The type of `trial.say`: a function from a reply to the user's next message."""

    def say(reply: Any) -> str | None:
        return None if user is None else user.answer(reply_of(reply), so_far)

    return say


# ---------------------------------------------------------------- a tool


class Reply(Arguments):
    """The agent's reply."""

    reply: str = Field(
        max_length=MAX_REPLY_BYTES, description="What you say to the user, as text or as JSON."
    )


def reply_tool(user: User, so_far: Callable[[], Trace]) -> Tool[Any]:
    """The tool by which an agent speaks with the user; it is no call of a system."""

    def act(said: Reply) -> Any:
        try:
            message = user.answer(reply_in(said.reply), so_far)
        except InputError as error:
            raise ToolError(str(error)) from error
        return {"message": message, "is_over": message is None}

    return Tool(
        TOOL,
        "Says to the user that you are done with the message at hand, and gives the user's next "
        "message; `is_over` where the user has no more to say.",
        Reply,
        act,
        ActionClass.READ,
        is_talk=True,
    )


# ---------------------------------------------------------------- an address


@contextlib.contextmanager
def serving_turns(
    trial: Trial, so_far: Callable[[], Trace]
) -> Iterator[tuple[tuple[str, str], ...]]:
    """The variable that says where a program posts its replies; none where nobody is there to talk.

    `POST` of a reply is answered by 200 and the user's next message as text, or by 204 where the
    user has no more to say. 4xx: nothing was said, and the program may say it again.
    """
    if trial.user is None:
        yield ()
        return
    server = _Server(trial.user, so_far)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True, name="turns")
    thread.start()
    try:
        yield ((VARIABLE, f"http://127.0.0.1:{server.server_port}{server.path}"),)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    """The address of one trial; its path holds a secret, as that of the MCP server does."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, user: User, so_far: Callable[[], Trace]) -> None:
        super().__init__(("127.0.0.1", 0), _Door)
        self.user = user
        self.so_far = so_far
        self.path = f"/{secrets.token_urlsafe(16)}/reply"
        self.places = threading.BoundedSemaphore(_MAX_AT_ONCE)

    def process_request(self, request: Any, client_address: Any) -> None:
        """One more connection; beyond `_MAX_AT_ONCE` it is ended at once."""
        if self.places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An agent that goes away in the middle is no fault of ours."""


class _Door(BaseHTTPRequestHandler):
    server: _Server
    timeout = _TIMEOUT_SECONDS

    def do_POST(self) -> None:
        """The reply is handed in, and the next message is the answer."""
        length = self.headers.get("Content-Length", "")
        if self.path != self.server.path:
            return self._end(HTTPStatus.NOT_FOUND)
        if not length.isascii() or not length.isdigit() or len(length) > 20:
            return self._end(HTTPStatus.LENGTH_REQUIRED)
        if int(length) > MAX_REPLY_BYTES:
            return self._end(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        raw = self.rfile.read(int(length))
        if len(raw) < int(length):
            return self._end(HTTPStatus.BAD_REQUEST)
        try:
            reply = reply_in(raw.decode("utf-8"))
        except (InputError, UnicodeDecodeError):
            return self._end(HTTPStatus.BAD_REQUEST)
        message = self.server.user.answer(reply, self.server.so_far)
        if message is None:
            return self._end(HTTPStatus.NO_CONTENT)
        return self._end(HTTPStatus.OK, message.encode("utf-8"))

    def _end(self, status: HTTPStatus, body: bytes = b"") -> None:
        self.close_connection = True
        self.send_response(status)
        if status is HTTPStatus.OK:
            self.send_header("Content-Type", "text/plain; charset=utf-8")
        if status is not HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""
