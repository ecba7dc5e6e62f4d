"""Requests to an account's server, signed (Signature Version 4) with the key in its URL."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import httpx

from statediff.model.trace import Mark
from statediff.systems.base.tool import MAX_SECONDS, ToolError
from statediff.systems.hosted.headers import HEADER, marks_of

REGION: Final = "us-east-1"
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
_VERSIONS: Final = {"iam": "2010-05-08", "sts": "2011-06-15"}


class Signed:
    """The requests of one call, with one key."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._key, self._secret = unquote(place.username or ""), unquote(place.password or "")
        self.host = f"{place.hostname}:{place.port}"
        self._marks: dict[Mark, None] = {}

    def made(self) -> tuple[Mark, ...]:
        """The transactions of all requests so far."""
        return tuple(self._marks)

    def ask(
        self,
        source: str,
        service: str,
        method: str,
        path: str = "/",
        query: str = "",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> httpx.Response:
        """The answer to one request; `ToolError` with what the server said if it says no."""
        asked = "&".join(
            f"{quote(name, safe='~')}={quote(value, safe='~')}"
            for name, value in sorted(parse_qsl(query, keep_blank_values=True))
        )
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        sent = {name.lower(): value for name, value in (headers or {}).items()}
        signed = self._signed(service, method, path, asked, sent, body, now)
        address = f"http://{self.host}{path}" + (f"?{asked}" if asked else "")
        try:
            with httpx.Client(timeout=MAX_SECONDS, trust_env=False) as client:
                answer = client.request(method, httpx.URL(address), headers=signed, content=body)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise ToolError(f"the account's server does not answer: {error}") from error
        named = marks_of(source, answer.headers.get_list(HEADER))
        self._marks |= dict.fromkeys((Mark(source),) if named is None else named)
        if answer.status_code >= httpx.codes.MULTIPLE_CHOICES:
            raise ToolError(f"refused: {answer.status_code} {answer.text[:500]}")
        if len(answer.content) > MAX_ANSWER_BYTES:
            raise ToolError(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
        return answer

    def form(self, source: str, service: str, action: str, arguments: Mapping[str, str]) -> str:
        """The answer, XML, to an action of IAM or STS."""
        given = {"Action": action, "Version": _VERSIONS[service], **arguments}
        body = "&".join(f"{quote(n, safe='')}={quote(v, safe='')}" for n, v in given.items())
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return self.ask(source, service, "POST", headers=kind, body=body.encode()).text

    def queue(self, source: str, action: str, queue: str, account: str, **more: Any) -> Any:
        """The answer, a JSON object, to an action of SQS about a queue."""
        body = json.dumps({"QueueUrl": f"http://{self.host}/{account}/{queue}", **more})
        headers = {
            "content-type": "application/x-amz-json-1.0",
            "x-amz-target": f"AmazonSQS.{action}",
        }
        answer = self.ask(source, "sqs", "POST", headers=headers, body=body.encode())
        return answer.json() if answer.content else {}

    def _signed(
        self,
        service: str,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        now: str,
    ) -> dict[str, str]:
        digest = hashlib.sha256(body).hexdigest()
        sent = {**headers, "host": self.host, "x-amz-date": now, "x-amz-content-sha256": digest}
        names = sorted(sent)
        lines = "".join(f"{name}:{' '.join(sent[name].split())}\n" for name in names)
        listed = ";".join(names)
        canonical = f"{method}\n{path}\n{query}\n{lines}\n{listed}\n{digest}"
        scope: Sequence[str] = (now[:8], REGION, service, "aws4_request")
        secret = f"AWS4{self._secret}".encode()
        for part in scope:
            secret = hmac.new(secret, part.encode(), "sha256").digest()
        hashed = hashlib.sha256(canonical.encode()).hexdigest()
        to_sign = "\n".join(("AWS4-HMAC-SHA256", now, "/".join(scope), hashed))
        final = hmac.new(secret, to_sign.encode(), "sha256").hexdigest()
        sent["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self._key}/{'/'.join(scope)}, "
            f"SignedHeaders={listed}, Signature={final}"
        )
        return sent
