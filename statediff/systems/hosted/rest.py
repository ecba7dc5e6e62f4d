"""A tracker's REST interface, for one account: bounded, read strictly, no redirect followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx

from statediff.capture.source import SourceRuined, SourceUnavailable
from statediff.errors import InputError
from statediff.model.strictjson import read_json
from statediff.model.trace import Mark
from statediff.model.values import Map, printable
from statediff.systems.base.rows import plain
from statediff.systems.base.tool import MAX_SECONDS, ToolError
from statediff.systems.hosted.headers import HEADER, marks_of

MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
MAX_CAPTURE_BYTES: Final = 32 * 1024 * 1024
NO_TRACKER: Final = "what answers is not the tracker's interface"
_BUSY: Final = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)
"""Answers that say nothing of what is there."""


class Rest:
    """Requests of one call to one address, signed in as the account that its URL names."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        what: str = "the tracker",
        *,
        is_token: bool = False,
    ) -> None:
        """`what` is the system's name for people. `is_token`: the password is a bearer token."""
        self._what = what
        parts = urlsplit(url)
        self.login = unquote(parts.username or "")
        self._password = unquote(parts.password or "")
        self.origin = f"{parts.scheme}://{parts.hostname}:{parts.port}"
        self.base = urlunsplit((parts.scheme, self.origin.partition("//")[2], parts.path, "", ""))
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        self._headers |= headers or {}
        self._auth = None if is_token else (self.login, self._password)
        if is_token:
            self._headers["Authorization"] = f"Bearer {self._password}"
        self._named: list[tuple[str, Sequence[str]]] = []
        """The method of each request, and how its answer names the transactions it made."""

    def made(self, source: str) -> tuple[Mark, ...]:
        """The transactions of all requests so far, without a name where an answer names none."""
        found: dict[Mark, None] = {}
        for method, said in self._named:
            named = marks_of(source, said)
            if named is None:
                named = () if method == "GET" else (Mark(source),)
            found |= dict.fromkeys(named)
        is_told = any(said for _, said in self._named)
        return tuple(found) if is_told else (Mark(source),)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The JSON that is answered, as plain objects; `ToolError` with what the server said."""
        try:
            with (
                httpx.Client(
                    auth=self._auth,
                    timeout=MAX_SECONDS,
                    trust_env=False,
                    verify=self.base.startswith("https:"),
                ) as client,
                client.stream(
                    method,
                    self.base.rstrip("/") + "/" + path,
                    json=body,
                    headers={**self._headers, **headers},
                ) as response,
            ):
                self._named.append((method, response.headers.get_list(HEADER)))
                raw = b""
                for piece in response.iter_bytes():
                    raw += piece
                    if len(raw) > MAX_ANSWER_BYTES:
                        raise ToolError(f"{self._what} answers more than {MAX_ANSWER_BYTES} bytes")
        except httpx.HTTPError as error:
            raise ToolError(f"{self._what} does not answer: {error}") from error
        if response.status_code >= 300:
            said = raw[:500].decode("utf-8", errors="replace")
            raise ToolError(f"{self._what} refuses it: {response.status_code} {said}")
        if not raw.strip():
            return {}
        try:
            return plain(read_json(raw, f"the answer of {self._what}", max_bytes=MAX_ANSWER_BYTES))
        except InputError as error:
            raise ToolError(str(error)) from error


def read_object(client: httpx.Client, path: str, seconds: float) -> Map | None:
    """The JSON object that is answered to the evaluator; None where there is no such thing.

    `seconds` is how long the client waits. Raises `SourceUnavailable`, and `SourceRuined` where
    the tracker answers, and not as one that can be read.
    """
    status, content = _answer(client, path, seconds)
    if status >= httpx.codes.INTERNAL_SERVER_ERROR:  # what is there fails it again
        status, content = _answer(client, path, seconds)
    if status == httpx.codes.NOT_FOUND:
        return None
    if status != httpx.codes.OK:
        refusal = SourceUnavailable if status in _BUSY else SourceRuined
        raise refusal(f"the tracker answered {status}")
    try:
        answer = read_json(content, "the tracker's answer", max_bytes=MAX_CAPTURE_BYTES)
    except InputError as error:
        raise SourceRuined(str(error)) from error
    if not isinstance(answer, Map):
        raise SourceRuined(NO_TRACKER)
    return answer


def _answer(client: httpx.Client, path: str, seconds: float) -> tuple[int, bytes]:
    """The status and the content of an answer."""
    try:
        with client.stream("GET", path) as response:
            content = b""
            for part in response.iter_bytes():
                content += part
                if len(content) > MAX_CAPTURE_BYTES:
                    raise SourceRuined("an answer exceeds the capture limit")
            return response.status_code, content
    except httpx.ConnectError as error:
        raise SourceUnavailable("connection refused") from error
    except httpx.TimeoutException as error:
        raise SourceUnavailable(f"no answer within {seconds:g} s") from error
    except httpx.HTTPError as error:
        raise SourceUnavailable(f"connection failed: {printable(str(error)[:120])}") from error
