"""Tryton's JSON-RPC, for one account: bounded, read strictly, no redirect followed."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote, urlsplit

import httpx

from statediff.errors import InputError
from statediff.model.strictjson import read_json
from statediff.systems.base.rows import plain
from statediff.systems.base.tool import MAX_SECONDS, ToolError

MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
_MAX_SAID: Final = 500


class Erp:
    """The account that the URL names, `tryton+http://LOGIN:PASSWORD@HOST:PORT/DATABASE/`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._rpc = f"http://{parts.hostname}:{parts.port}{parts.path}rpc/"
        self._auth = (unquote(parts.username or ""), unquote(parts.password or ""))
        self._context: dict[str, Any] | None = None

    @property
    def context(self) -> dict[str, Any]:
        """What the server knows of the user, e.g. the company: calls take it as their last."""
        if self._context is None:
            found = self.call("model.res.user.get_preferences", True, {})
            self._context = dict(found) if isinstance(found, dict) else {}
        return self._context

    def call(self, method: str, *arguments: Any) -> Any:
        """The result; `ToolError` with what the server says where it does not do it."""
        body = {"id": 0, "method": method, "params": arguments}
        try:
            with (
                httpx.Client(auth=self._auth, timeout=MAX_SECONDS, trust_env=False) as client,
                client.stream("POST", self._rpc, json=body) as response,
            ):
                raw = b""
                for piece in response.iter_bytes():
                    raw += piece
                    if len(raw) > MAX_ANSWER_BYTES:
                        raise ToolError(f"the ERP answers more than {MAX_ANSWER_BYTES} bytes")
        except httpx.HTTPError as error:
            raise ToolError(f"the ERP does not answer: {error}") from error
        if response.status_code != httpx.codes.OK:
            said = raw[:_MAX_SAID].decode("utf-8", errors="replace")
            raise ToolError(f"the ERP refuses it: {response.status_code} {said}")
        try:
            answer = plain(read_json(raw, "the answer of the ERP", max_bytes=MAX_ANSWER_BYTES))
        except InputError as error:
            raise ToolError(str(error)) from error
        if isinstance(answer, dict) and "error" in answer:
            raise ToolError(f"the ERP refuses it: {answer['error']}")
        return answer.get("result") if isinstance(answer, dict) else answer
