"""A model that answers from a script, behind an endpoint as real ones are, and its harness."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import verifiers.v1 as vf

SCRIPT = {
    "careful": "sed -i '0,/open/s//closed/' app.json",
    "careless": "sed -i 's/open/closed/g' app.json",
    "cut-off": "echo '{\"user\": []}' > app.json",
}


class Model(BaseHTTPRequestHandler):
    """`POST /v1/chat/completions`."""

    def do_POST(self) -> None:
        """The command that the script has for whom the prompt names."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = next(SCRIPT[name] for name in SCRIPT if f"are {name}." in str(asked["messages"]))
        message = {"role": "assistant", "content": said}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "scripted"}
        body = json.dumps({**answer, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


def serve() -> str:
    """The URL of the running model."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


class Shell(vf.Harness[vf.HarnessConfig]):
    """One turn: what the model says is run as a command."""

    NEEDS_CONTAINER = False

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, *given: Any
    ) -> Any:
        """Ask once, by way of verifiers, and act."""
        data = given[-1]
        asked = {"model": ctx.model, "messages": [{"role": "user", "content": data.prompt}]}
        key = {"Authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(timeout=60) as client:
            said = await client.post(f"{endpoint}/chat/completions", json=asked, headers=key)
        said.raise_for_status()
        return await runtime.run(["sh", "-c", said.json()["choices"][0]["message"]["content"]], {})


__all__ = ["Shell"]
