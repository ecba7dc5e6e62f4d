"""A real HTTP server that speaks the chat-completions protocol from a script, faults included.

A script is a list of steps, one a request: an answer (`text`, `calls`), or a fault. Answers are
streamed where the request asks for it, in pieces that cut names and arguments in two.
"""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Step:
    """The server's response to one request."""

    text: str = ""
    calls: Sequence[tuple[str, str]] = ()
    """Names of tools, and arguments as the model writes them."""
    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    """Sent as it is, whatever it is."""
    sleep: float = 0.0
    cut: bool = False
    """The answer breaks off in the middle."""
    usage: bool = True


@dataclass
class ChatServer:
    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


@contextmanager
def speaking(*steps: Step) -> Iterator[ChatServer]:
    """A server that follows the script; after its end the last step goes on."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            asked = json.loads(raw)
            step = steps[min(len(told.requests), len(steps) - 1)]
            told.requests.append(asked)
            told.keys.append(self.headers.get("Authorization", ""))
            time.sleep(step.sleep)
            if self.path != "/v1/chat/completions":
                self._send(404, b'{"error": {"message": "no such path"}}', ())
            elif step.status != 200 or step.body is not None:
                said = b'{"error": {"message": "as the script says"}}'
                self._send(step.status, step.body or said, step.headers)
            elif asked.get("stream"):
                self._stream(step)
            else:
                raw = json.dumps(completion(step)).encode()
                self._send(200, raw[: len(raw) // 2] if step.cut else raw, step.headers)

        def _send(self, status: int, body: bytes, headers: Sequence[tuple[str, str]]) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, step: Step) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            pieces = list(chunks(step))
            for piece in pieces[: len(pieces) // 2] if step.cut else pieces:
                self.wfile.write(b"data: " + json.dumps(piece).encode() + b"\n\n")
            if not step.cut:
                self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    told = ChatServer(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()


def completion(step: Step) -> dict[str, Any]:
    calls = [
        {"id": f"id-{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(step.calls)
    ]
    message = {
        "role": "assistant",
        "content": step.text,
        **({"tool_calls": calls} if calls else {}),
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    told = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    return {**told, "usage": usage} if step.usage else told


def chunks(step: Step) -> Iterator[dict[str, Any]]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": "m",
            "choices": [choice],
        }

    yield chunk({"role": "assistant", "content": ""})
    size = max(7, len(step.text) // 50)
    for start in range(0, len(step.text), size):
        yield chunk({"content": step.text[start : start + size]})
    for n, (name, arguments) in enumerate(step.calls):
        first = {"index": n, "id": f"id-{n}", "type": "function", "function": {"name": name}}
        yield chunk({"tool_calls": [first]})
        for start in range(0, len(arguments), 9):
            part = {"index": n, "function": {"arguments": arguments[start : start + 9]}}
            yield chunk({"tool_calls": [part]})
    yield chunk({}, "tool_calls" if step.calls else "stop")
    if step.usage:
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        yield {**chunk({}), "choices": [], "usage": usage}
