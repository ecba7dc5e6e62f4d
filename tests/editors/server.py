"""The real YAML language server over stdio, as an editor talks to it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
PROGRAM = Path("yaml-language-server", "bin", "yaml-language-server")
SECONDS = 30.0
SETTINGS = {
    "validate": True, "completion": True, "hover": True, "yamlVersion": "1.2",
    "schemaStore": {"enable": False}, "schemas": {},
}  # fmt: skip


class LanguageServer:
    """A running server; requests wait for their answers, diagnostics for their document."""

    def __init__(self, program: Path, workspace: Path) -> None:
        self.workspace = workspace
        self._process = subprocess.Popen(
            ["node", str(program), "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self._number = 0
        self.diagnostics: dict[str, list[dict[str, Any]]] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        self.request(
            "initialize",
            {
                "processId": os.getpid(), "rootUri": self.workspace.as_uri(),
                "workspaceFolders": [{"uri": self.workspace.as_uri(), "name": "w"}],
                "capabilities": {
                    "workspace": {"configuration": True, "workspaceFolders": True},
                    "textDocument": {
                        "hover": {"contentFormat": ["markdown", "plaintext"]},
                        "completion": {"completionItem": {"snippetSupport": True}},
                        "publishDiagnostics": {},
                    },
                },
            },
        )  # fmt: skip
        self.notify("initialized", {})
        self.notify("workspace/didChangeConfiguration", {"settings": {"yaml": SETTINGS}})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        while True:
            length = 0
            try:
                while (line := stream.readline().strip()) or not length:
                    if not line:
                        return
                    name, _, value = line.partition(b":")
                    if name.lower() == b"content-length":
                        length = int(value)
                self._messages.put(json.loads(stream.read(length)))
            except (OSError, ValueError):
                return

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self._send({"method": method, "params": params})

    def request(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        number = self._number
        self._send({"id": number, "method": method, "params": params})
        answer = self._until(lambda m: m.get("id") == number and "method" not in m)
        assert "error" not in answer, answer
        return answer.get("result")

    def _until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            message = self._messages.get(timeout=SECONDS)
            method = message.get("method")
            if method == "workspace/configuration":
                sections = [item.get("section") for item in message["params"]["items"]]
                answer = [SETTINGS if section == "yaml" else None for section in sections]
                self._send({"id": message["id"], "result": answer})
            elif method == "textDocument/publishDiagnostics":
                params = message["params"]
                self.diagnostics[params["uri"]] = params["diagnostics"]
            elif method is not None and "id" in message:
                self._send({"id": message["id"], "result": None})
            if wanted(message):
                return message

    def open(self, path: Path) -> str:
        """The document is open; what is wrong with it is in `diagnostics` under the URI."""
        uri = path.as_uri()
        text = path.read_text(encoding="utf-8")
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self.diagnostics.pop(uri, None)
        self.notify("textDocument/didOpen", {"textDocument": document})
        if uri not in self.diagnostics:
            self._until(lambda _message: uri in self.diagnostics)
        return uri

    def at(self, method: str, path: Path, after: str) -> Any:
        """The answer to a request at the character after the first `after` in the document."""
        uri = self.open(path)
        before = path.read_text(encoding="utf-8").partition(after)[0] + after
        line = before.count("\n")
        position = {"line": line, "character": len(before) - (before.rfind("\n") + 1)}
        result = self.request(method, {"textDocument": {"uri": uri}, "position": position})
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        return result
