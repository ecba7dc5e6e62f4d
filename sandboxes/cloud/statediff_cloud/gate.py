"""The gate before moto's services: what AWS would refuse and moto does not, and the history.

1. One account, one region, four services. moto's own interface, its other services and the header
   that changes accounts are not there for anybody.
2. A request is signed with a key that is in use: not an inactive one, no session that is over. What
   is not signed may read a public object, and nothing else. Who may do what of the rest, moto says.
3. Requests are answered one by one. After each that changed something the state is kept, so that
   the history of a run is whole (`base.kept`), and the answer names it.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qs, unquote
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment
from xml.sax.saxutils import escape

from moto.iam.models import iam_backends
from moto.s3.models import FakeKey, s3_backends
from moto.sts.models import sts_backends

from statediff.systems.base.kept import KeptStates
from statediff.systems.hosted.headers import HEADER
from statediff_cloud.policies import ANYBODY, span
from statediff_cloud.rows import Rows

SERVICES: Final = frozenset({"iam", "s3", "sqs", "sts"})
REGION: Final = "us-east-1"
_SCOPE: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([A-Z0-9]{16,128})/[0-9]{8}/([a-z0-9-]+)/([a-z0-9-]+)/"
    r"aws4_request, *SignedHeaders=[^ ,]+, *Signature=[0-9a-f]{64}"
)


class Refused(Exception):
    """A request that does not reach the services: its status, its code and why."""

    def __init__(self, status: int, code: str, why: str) -> None:
        super().__init__(why)
        self.status, self.code = status, code


class Gate:
    """The application behind it, as one account of AWS."""

    def __init__(
        self, application: WSGIApplication, account: str, read: Callable[[], Rows]
    ) -> None:
        self._application = application
        self._account = account
        self._read = read
        self.lock = threading.Lock()
        self.history = KeptStates(os.getpid(), self.state())

    def state(self) -> bytes:
        """The state as it is, in one spelling; the caller has the lock, or nobody else asks."""
        rows = self._read()
        return json.dumps({"rows": rows.rows, "more": rows.more}, sort_keys=True).encode()

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        said: list[tuple[str, list[tuple[str, str]]]] = []

        def started(status: str, headers: list[tuple[str, str]], *_: object) -> Any:
            said.append((status, headers))
            return None

        with self.lock:
            known = len(self.history.states)
            try:
                if self._admitted(environ):
                    content = list(self._application(environ, started))
                else:
                    content = self._public(environ, started)
            except Refused as refused:
                content = _answer(environ, refused, started)
            finally:
                self.history.keep(self.state())
            made = range(known + 1, len(self.history.states) + 1)
        status, headers = said[-1]
        start(status, [(HEADER, " ".join(map(str, made))), *headers])
        return content

    def _admitted(self, environ: WSGIEnvironment) -> str:
        """The service that a request is for; empty for one that is not signed."""
        environ.pop("HTTP_X_MOTO_ACCOUNT_ID", None)
        environ["HTTP_HOST"] = f"127.0.0.1:{environ['SERVER_PORT']}"  # buckets are in the path
        path = environ.get("PATH_INFO", "")
        if path.startswith(("/moto-api", "/latest/", "/favicon.ico")):
            raise Refused(404, "NotFound", "there is no such service")
        signed = environ.get("HTTP_AUTHORIZATION", "")
        if not signed:
            return ""
        found = _SCOPE.fullmatch(signed)
        if found is None:
            raise Refused(400, "IncompleteSignature", "expected a signature of version 4")
        key, region, service = found.groups()
        if service not in SERVICES:
            raise Refused(404, "NotFound", f"the account has no service {service}")
        if region != REGION:
            raise Refused(403, "AccessDenied", f"the account is in {REGION} only")
        if "HTTP_X_AMZ_DATE" not in environ:
            raise Refused(403, "MissingAuthenticationToken", "expected the header X-Amz-Date")
        if not self._is_in_use(key, environ.get("HTTP_X_AMZ_SECURITY_TOKEN")):
            code = "InvalidAccessKeyId" if service == "s3" else "InvalidClientTokenId"
            raise Refused(403, code, "the access key is not there, not active, or over")
        return service

    def _is_in_use(self, key: str, token: str | None) -> bool:
        known = iam_backends[self._account]["aws"].access_keys.get(key)
        if token is None:
            return known is not None and known.user_name is not None and known.status == "Active"
        now = datetime.now(UTC).replace(tzinfo=None)
        for each in sts_backends[self._account]["aws"].assumed_roles:
            if each.access_key_id == key:
                return bool(each.expiration.replace(tzinfo=None) > now)
        return False

    def _public(self, environ: WSGIEnvironment, start: Callable[..., Any]) -> list[bytes]:
        """An object that anybody may read, as it is now."""
        bucket, _, key = unquote(environ["RAW_URI"].partition("?")[0]).lstrip("/").partition("/")
        asked = parse_qs(environ.get("QUERY_STRING", ""))
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD") or asked or not key:
            raise Refused(403, "AccessDenied", "Access Denied")
        there = s3_backends[self._account]["aws"].buckets.get(bucket)
        found = None if there is None else there.keys.get(key)
        arn = f"arn:aws:s3:::{bucket}/{key}"
        if not self._is_public(arn) or not isinstance(found, FakeKey):
            raise Refused(403, "AccessDenied", "Access Denied")
        content = found.value
        kind = str(found.metadata.get("Content-Type", "binary/octet-stream"))
        start("200 OK", [("Content-Type", kind), ("Content-Length", str(len(content)))])
        return [content if environ["REQUEST_METHOD"] == "GET" else b""]

    def _is_public(self, arn: str) -> bool:
        rows = json.loads(self.history.last)["rows"]

        def covers(row: dict[str, str]) -> bool:
            action, resource = span("s3:GetObject", is_action=True), span(arn)
            return (
                row["principal"] == ANYBODY
                and not row["condition"]
                and action.startswith(row["action_span"])
                and resource.startswith(row["resource_span"])
            )

        denied = any(covers(row) for row in rows.get("denial", ()))
        return not denied and any(covers(row) for row in rows.get("permission", ()))


def _answer(environ: WSGIEnvironment, refused: Refused, start: Callable[..., Any]) -> list[bytes]:
    status = f"{refused.status} {http.client.responses[refused.status]}"
    if "HTTP_X_AMZ_TARGET" in environ:
        body = json.dumps({"__type": refused.code, "message": str(refused)})
        start(status, [("Content-Type", "application/x-amz-json-1.0")])
    else:
        said = f"<Code>{refused.code}</Code><Message>{escape(str(refused))}</Message>"
        body = f"<ErrorResponse><Error>{said}</Error></ErrorResponse>"
        if "iam/" not in environ.get("HTTP_AUTHORIZATION", ""):
            body = f"<Error>{said}</Error>"
        start(status, [("Content-Type", "application/xml")])
    return [body.encode()]
