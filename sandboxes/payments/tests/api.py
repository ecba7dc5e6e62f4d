"""The payment API as an agent reaches it: requests with the key that its URL names."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from statediff.systems.base.protocol import System


def asked(
    system: System,
    method: str,
    path: str,
    body: object = None,
    *,
    key: str = "",
    url: str = "",
    raw: bytes | None = None,
    **headers: str,
) -> tuple[int, Any]:
    """The status and the JSON of the answer. `http.client` raises where the answer is lost."""
    where = urlsplit((url or system.url).removeprefix("payments+"))
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
    named = {"Authorization": f"Bearer {key or where.username}", **headers}
    content = raw
    if body is not None:
        content = json.dumps(body).encode()
    try:
        connection.request(method, path, content, named)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        connection.close()


def post(system: System, path: str, body: object, **headers: str) -> Any:
    """The object that an accepted POST makes."""
    status, made = asked(system, "POST", path, body, **headers)
    assert status == 200, made
    return made
