"""A server that speaks as much of S3 as copies of runs need, and checks every signature (SigV4)."""

from __future__ import annotations

import hashlib
import hmac
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

KEY = "AKIAIOSFODNN7EXAMPLE"


class ObjectServer:
    """Objects of any bucket, in memory; `refused` counts what was not signed with the secret."""

    def __init__(self) -> None:
        self.secret = "hidden-" + "s" * 30
        self.objects: dict[str, bytes] = {}
        self.refused = 0

    def __enter__(self) -> Self:
        from s3fs import S3FileSystem  # noqa: PLC0415 - slow, and not everywhere

        S3FileSystem.clear_instance_cache()
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self})
        )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """What lets somebody in."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.server_port}",
            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1", "AWS_MAX_ATTEMPTS": "1",
        }  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    owner: ObjectServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self._signed(body):
            self.owner.objects[self._name] = body
            self._answer(200, b"", {"ETag": f'"{hashlib.md5(body).hexdigest()}"'})

    def do_GET(self) -> None:
        if not self._signed(b""):
            return
        asked = parse_qs(urlsplit(self.path).query)
        if "list-type" in asked:
            self._list(asked)
        elif self._name not in self.owner.objects:
            self._error(404, "NoSuchKey")
        else:
            self._answer(200, self.owner.objects[self._name], {"ETag": '"x"'})

    def do_HEAD(self) -> None:
        self.do_GET()

    @property
    def _name(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/")

    def _list(self, asked: dict[str, list[str]]) -> None:
        bucket = self._name.strip("/")
        prefix = asked.get("prefix", [""])[0]
        found = [
            f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size><ETag>x</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            "<StorageClass>STANDARD</StorageClass></Contents>"
            for name, data in sorted(self.owner.objects.items())
            if name.startswith(f"{bucket}/")
            and (key := name.removeprefix(f"{bucket}/")).startswith(prefix)
        ]
        self._answer(200, (
            f"<ListBucketResult><Name>{escape(bucket)}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(found)}</KeyCount><MaxKeys>1000</MaxKeys>"
            f"<IsTruncated>false</IsTruncated>{''.join(found)}</ListBucketResult>"
        ).encode(), {})  # fmt: skip

    def _error(self, code: int, name: str) -> None:
        text = f"<Error><Code>{name}</Code><Message>{name}</Message></Error>"
        self._answer(code, text.encode(), {})

    def _answer(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _signed(self, body: bytes) -> bool:
        if self._is_signed(body):
            return True
        self.owner.refused += 1
        self._error(403, "SignatureDoesNotMatch")
        return False

    def _is_signed(self, body: bytes) -> bool:
        """By the rules of AWS's Signature Version 4."""
        told = self.headers.get("Authorization", "").removeprefix("AWS4-HMAC-SHA256 ")
        parts: dict[str, Any] = dict(
            each.strip().split("=", 1) for each in told.split(",") if "=" in each
        )
        key, _, scope = parts.get("Credential", "").partition("/")
        claimed = self.headers.get("x-amz-content-sha256", "")
        if key != KEY or claimed not in (hashlib.sha256(body).hexdigest(), "UNSIGNED-PAYLOAD"):
            return False
        names = parts["SignedHeaders"].split(";")
        url = urlsplit(self.path)
        lines = [
            self.command, url.path, "&".join(sorted(
                each if "=" in each else f"{each}=" for each in url.query.split("&") if each
            )),
            *(f"{name}:{' '.join(self.headers[name].split())}" for name in names), "",
            parts["SignedHeaders"], claimed,
        ]  # fmt: skip
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], scope, digest])
        secret = f"AWS4{self.owner.secret}".encode()
        for piece in scope.split("/"):
            secret = hmac.digest(secret, piece.encode(), "sha256")
        return hmac.digest(secret, text.encode(), "sha256").hex() == parts["Signature"]
