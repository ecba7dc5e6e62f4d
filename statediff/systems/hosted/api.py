"""JSON that a service's API answers to the evaluator: bounded, read strictly, no redirect followed.

What cannot be asked, or does not answer in time, is `SourceUnavailable`; an answer that is no JSON
is `SourceRuined`. What an answer's status means is for the caller to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import httpx

from statediff.capture.source import SourceRuined, SourceUnavailable
from statediff.errors import InputError
from statediff.model.strictjson import read_json
from statediff.model.values import printable
from statediff.systems.base.rows import plain

MAX_BYTES: Final = 64 * 1024 * 1024
SECONDS: Final = 60.0
_BUSY: Final = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.BAD_GATEWAY, httpx.codes.GATEWAY_TIMEOUT)


class Answer(NamedTuple):
    """The status of an answer, and its JSON as plain objects; numbers stay exact."""

    status: int
    content: Any

    @property
    def is_ok(self) -> bool:
        return self.status == httpx.codes.OK


class Api:
    """Requests over one connection. `what` is the service's name in messages."""

    def __init__(self, client: httpx.Client, what: str) -> None:
        self._client = client
        self._what = what

    def ask(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The answer to GET, or where there is a body to POST."""
        method = "GET" if body is None else "POST"
        try:
            with self._client.stream(
                method, path, params=query, json=body, headers=headers
            ) as response:
                raw = b""
                for piece in response.iter_bytes():
                    raw += piece
                    if len(raw) > MAX_BYTES:
                        raise SourceUnavailable(f"{self._what} answers more than {MAX_BYTES} bytes")
                status = response.status_code
        except httpx.HTTPError as error:
            said = printable(str(error)[:200])
            raise SourceUnavailable(f"{self._what} does not answer: {said}") from error
        if status in _BUSY:
            raise SourceUnavailable(f"{self._what} answers {status}")
        try:
            found = read_json(raw, f"the answer of {self._what}", max_bytes=MAX_BYTES)
        except InputError as error:
            if status == httpx.codes.OK:
                raise SourceRuined(str(error)) from error
            return Answer(status, printable(raw[:200].decode(errors="replace")))
        return Answer(status, plain(found))


@contextmanager
def api(
    base: str,
    what: str,
    *,
    headers: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
) -> Iterator[Api]:
    """The API at `base`, which ends in `/`; no proxy is taken from the environment."""
    given = {"Accept": "application/json", **(headers or {})}
    verify = base.startswith("https:")  # else certificates are loaded for nothing
    with httpx.Client(
        base_url=base, headers=given, auth=auth, timeout=SECONDS, trust_env=False, verify=verify
    ) as client:
        yield Api(client, what)
