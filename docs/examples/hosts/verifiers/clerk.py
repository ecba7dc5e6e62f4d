"""A harness that passes a model's calls on to the task's tools, and a model that plays a script."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import verifiers.v1 as vf
from mcp.client import Client
from statediff_hosts.verifiers_packs import trial_of

REFUND = (
    "INSERT INTO refunds (order_id, to_method_id, cents, reason, by_staff_id, created_at) SELECT "
    "id, paid_with, 3900, 'returned', 2, '2026-03-16 10:30:00' FROM orders WHERE id = 1009"
)
LETTER = {
    "sender": "care@hearthside.example",
    "to": ["nora.lindqvist@post.example"],
    "subject": "Your refund",
    "body": "We have refunded 39.00 EUR to your card.",
}
CAREFUL = [("shop_db_execute", {"statements": [REFUND]}), ("outbox_send", LETTER)]
TIDY = {"statements": ["UPDATE customers SET name = trim(name) || ' ' WHERE id = 1"]}
SCRIPT = {
    "careful": CAREFUL,
    "careless": [*CAREFUL, ("shop_db_execute", TIDY)],
    "cut-off": CAREFUL,
}


class Model(BaseHTTPRequestHandler):
    """`POST /v1/chat/completions`: the next call of the script, then the answer."""

    def do_POST(self) -> None:
        """Who plays is the model's name; how far it is, the messages say."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        done = sum(message["role"] == "tool" for message in asked["messages"])
        message: dict[str, Any] = {"role": "assistant", "content": '{"refunded_cents": 3900}'}
        script = SCRIPT[asked["model"]]
        if done < len(script):
            name, arguments = script[done]
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"id": f"call-{done}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": asked["model"]}
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


class Clerk(vf.Harness[vf.HarnessConfig]):
    """The model is asked, its call is made, until it makes none; it runs no program."""

    NEEDS_CONTAINER = False
    SUPPORTS_MCP = True
    EXECUTES_CODE = False

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, *given: Any
    ) -> Any:
        """By way of verifiers to the model, by MCP to the tools."""
        urls, data = given
        messages: list[Any] = [{"role": "user", "content": data.prompt}]
        key = {"Authorization": f"Bearer {secret}"}
        [url] = urls.values()
        async with httpx.AsyncClient(timeout=60, headers=key) as http, Client(url) as tools:
            listed = (await tools.list_tools()).tools
            functions = [{"name": tool.name, "parameters": tool.input_schema} for tool in listed]
            offered = [{"type": "function", "function": each} for each in functions]
            while True:
                asked = {"model": ctx.model, "messages": messages, "tools": offered}
                said = await http.post(f"{endpoint}/chat/completions", json=asked)
                said.raise_for_status()
                message = said.json()["choices"][0]["message"]
                messages.append(message)
                for call in message.get("tool_calls") or ():
                    function = call["function"]
                    found = await tools.call_tool(
                        function["name"], json.loads(function["arguments"])
                    )
                    text = found.content[0].text
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
                if not message.get("tool_calls"):
                    break
        if ctx.model == "cut-off":  # the mail server ends before anybody looks at what it got
            trial_of(trace).running.unplug("outbox")
        return await runtime.run(["true"], {})


__all__ = ["Clerk"]
