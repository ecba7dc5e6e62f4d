"""A layer over localstripe: keys with rights, idempotency keys, lost answers, disputes, reasons.

localstripe takes any key and lets it do anything, knows no idempotency keys, no disputes and no
reasons of refunds, and sends events to any address it is given. This layer adds the first four in a
way of its own, in the server's process; it does not pretend to be any provider's. Nobody can give
an address for events. A body or a query is JSON or a form, and is bounded.

`guard` is the outermost middleware: a request without a key that may do it never reaches
localstripe. What was changed for a request is one transaction of the ledger (`ledger`); the answer
names it.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from aiohttp import BasicAuth, web
from localstripe import resources
from localstripe.errors import UserError
from localstripe.server import (
    get_post_data,
    json_response,
    unflatten_data,
)

from statediff.systems.hosted.headers import HEADER

MAX_NESTING: Final = 60
"""Brackets within brackets in a body: what is deeper is no answer's to repeat."""
REASONS: Final = ("duplicate", "fraudulent", "requested_by_customer")
EVIDENCE: Final = (
    "customer_communication",
    "product_description",
    "shipping_carrier",
    "shipping_date",
    "shipping_tracking_number",
    "uncategorized_text",
)
MAX_PAIRS: Final = 1000
"""Names and values in one form."""
_BRACKETS: Final = re.compile(rb"[\[\]{}]")
_OPENED: Final = re.compile(rb"\[|%5[bB]")
_RIGHT: Final = re.compile(r"\*|(?:\*|[a-z_]+):(?:read|write|delete)")
_KEY_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,40}")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ApiKey(resources.StripeObject):  # type: ignore[misc]  # localstripe has no annotations
    """A key and its rights: `*`, or `RESOURCE:read`, `:write`, `:delete`; `*` for each resource."""

    object = "api_key"
    _id_prefix = "key_"

    def __init__(self, name: Any = None, rights: Any = None, secret: str = "") -> None:
        if not (isinstance(name, str) and _KEY_NAME.fullmatch(name)) or name in names_of_keys():
            raise UserError(400, "A key has a name of its own.")
        rights = _rights(rights)
        super().__init__()
        self.name = name
        self.rights = rights
        self.revoked = False
        self._secret = secret or f"sk_{name}_{secrets.token_hex(16)}"

    def _update(self, rights: Any = None, revoked: Any = None, **other: Any) -> None:
        if other:
            raise UserError(400, "Unexpected " + ", ".join(other))
        found = self.rights if rights is None else _rights(rights)
        if revoked not in (None, True, False, "true", "false"):
            raise UserError(400, "Bad request")
        self.rights = found
        self.revoked = self.revoked if revoked is None else revoked in (True, "true")

    def _allows(self, resource: str, act: str) -> bool:
        """True if it may do this to the objects of this kind."""
        asked = {"*", f"*:{act}", f"{resource}:{act}"}
        return not self.revoked and bool(asked.intersection(self.rights))


class Dispute(resources.StripeObject):  # type: ignore[misc]  # localstripe has no annotations
    """A charge that the customer's bank disputes, to be answered once before its deadline."""

    object = "dispute"
    _id_prefix = "dp_"

    def __init__(self, charge: str, reason: str, due_by: int) -> None:
        found = resources.Charge._api_retrieve(charge)
        super().__init__()
        self.charge = charge
        self.amount = found.amount
        self.currency = found.currency
        self.reason = reason
        self.status = "needs_response"
        self.evidence: dict[str, str] = {}
        self.due_by = due_by
        self.submission_count = 0

    @classmethod
    def _api_create(cls, **_data: Any) -> Any:
        raise UserError(405, "Banks open disputes.")

    @classmethod
    def _api_delete(cls, id: str) -> Any:  # noqa: A002, ARG003 - localstripe's name
        raise UserError(405, "Method Not Allowed")

    def _update(self, evidence: Any = None, submit: Any = None, **other: Any) -> None:
        if other:
            raise UserError(400, "Unexpected " + ", ".join(other))
        self._require_open()
        given = {} if evidence is None else evidence
        if not isinstance(given, dict) or not given.keys() <= set(EVIDENCE):
            raise UserError(400, f"evidence: expected some of {', '.join(EVIDENCE)}")
        if not all(isinstance(each, str) for each in given.values()):
            raise UserError(400, "evidence: expected texts")
        self.evidence = {**self.evidence, **given}
        if submit in (True, "true"):
            if not self.evidence:
                raise UserError(400, "There is no evidence to submit.")
            self.submission_count += 1
            self.status = "under_review"

    @classmethod
    def _api_close(cls, id: str, **_data: Any) -> Any:  # noqa: A002 - localstripe's name
        """The dispute is lost: the customer's bank keeps the money."""
        found = cls._api_retrieve(id)
        found._require_open()
        found.status = "lost"
        return found

    def _require_open(self) -> None:
        if self.status != "needs_response":
            raise UserError(400, f"The dispute is {self.status}.")
        if resources.time.time() > self.due_by:
            raise UserError(400, "The deadline is over.")


class IdempotencyKey(resources.StripeObject):  # type: ignore[misc]  # localstripe has no annotations
    """A key that a client gave to one request, so that it is carried out once."""

    object = "idempotency_key"

    def __init__(self, key: str, method: str, path: str, digest: str) -> None:
        super().__init__(key)
        self.method = method
        self.path = path
        self.request_digest = digest
        self.status: int | None = None
        self._answer = b""


ADDED: Final = (ApiKey, Dispute)
"""What clients list and get as they do localstripe's own objects."""


def _rights(given: Any) -> list[str]:
    if not (isinstance(given, list) and all(isinstance(right, str) for right in given)):
        raise UserError(400, "rights: expected a list of texts")
    if not all(_RIGHT.fullmatch(right) for right in given):
        raise UserError(400, "rights: expected `*`, or RESOURCE:read, :write or :delete")
    return sorted(set(given))


def keys() -> list[Any]:
    """All API keys."""
    return [each for each in resources.store.values() if isinstance(each, ApiKey)]


def names_of_keys() -> set[str]:
    """Their names."""
    return {each.name for each in keys()}


class Layer:
    """The guard of one trial's server; `record` is called after each request that it let in."""

    def __init__(self, record: Callable[[], list[int]], lost: Sequence[Mapping[str, Any]]) -> None:
        self._record = record
        self._lost = lost
        self._accepted: dict[tuple[str, str], int] = {}
        self.in_progress = 0

    @property
    def lost_left(self) -> int:
        """How many answers are still to be lost."""
        counted = [self._accepted.get((each["method"], each["path"]), 0) for each in self._lost]
        return sum(n < each["number"] for n, each in zip(counted, self._lost, strict=True))

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.in_progress += 1
        try:
            try:
                await request.read()
                answer = await self._answer(request, handler)
            except UserError as refusal:
                answer = refusal.to_response()
            except web.HTTPException as refusal:
                answer = _said(refusal.status, refusal.reason)
            except Exception as error:  # noqa: BLE001 - what a client sent is too much for localstripe
                answer = _said(500, f"localstripe failed: {type(error).__name__}")
            made = self._record()  # no await since the work: nothing of another request is in it
            answer.headers[HEADER] = " ".join(map(str, made))
            if answer.status < 400 and self._is_lost(request):
                self._drop(request)
            return answer
        finally:
            self.in_progress -= 1

    def _is_lost(self, request: web.Request) -> bool:
        asked = request.method, request.path
        self._accepted[asked] = number = self._accepted.get(asked, 0) + 1
        return any(
            (each["method"], each["path"], each["number"]) == (*asked, number)
            for each in self._lost
        )

    def _drop(self, request: web.Request) -> None:
        """The client sees the connection end; what it asked for is done."""
        if request.transport is not None:
            request.transport.abort()

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = _resource(request.path)
        act = {"GET": "read", "HEAD": "read", "DELETE": "delete"}.get(request.method, "write")
        if not _key_of(request)._allows(resource, act):
            raise UserError(403, f"This key has no right {resource}:{act}.")
        raw, query = await request.read(), request.raw_path.partition("?")[2].encode()
        if request.content_type.startswith("multipart/"):
            raise UserError(415, "A body is JSON or a form.")
        if _is_deep(raw, query) or raw.count(b"&") + query.count(b"&") > MAX_PAIRS:
            raise UserError(400, "The request has too much in it.")
        name = request.headers.get("Idempotency-Key", "")
        if request.method != "POST" or not name:
            return await handler(request)
        return await _once(name, request, handler)


async def _once(name: str, request: web.Request, handler: Handler) -> web.StreamResponse:
    """The answer to the first request under this name; what it asked for is done once."""
    if len(name) > 255 or not name.isprintable():
        raise UserError(400, "Idempotency-Key: expected at most 255 printable characters")
    digest = hashlib.sha256(await request.read()).hexdigest()[:16]
    known = resources.store.get(f"{IdempotencyKey.object}:{name}")
    if known is not None:
        if (known.method, known.path, known.request_digest) != (
            request.method,
            request.path,
            digest,
        ):
            raise UserError(400, "This idempotency key was given to another request.")
        if known.status is None:
            raise UserError(409, "The first request under this idempotency key is in progress.")
        return web.Response(
            body=known._answer, status=known.status, content_type="application/json"
        )
    made = IdempotencyKey(name, request.method, request.path, digest)
    try:
        answer = await handler(request)
    except BaseException:
        del resources.store[f"{IdempotencyKey.object}:{name}"]  # nothing was answered
        raise
    made.status = answer.status
    body = answer.body if isinstance(answer, web.Response) else b""
    made._answer = body if isinstance(body, bytes) else b""
    return answer


def _key_of(request: web.Request) -> Any:
    header = request.headers.get("Authorization", "")
    scheme, _, word = header.partition(" ")
    try:
        given = word if scheme == "Bearer" else BasicAuth.decode(header, "utf-8").login
    except ValueError:
        given = ""
    for key in keys():
        if secrets.compare_digest(key._secret.encode(), given.encode("utf-8", "replace")):
            return key
    raise UserError(401, "Unauthorized")


def _resource(path: str) -> str:
    """The name that rights have for the objects behind a path, e.g. `refunds`."""
    found = re.match(r"/v1/([a-z_]+)(?:/|$)", path)
    if found is None:
        # Addresses for events and the emptying of the store: nobody's here.
        raise UserError(404, "Not Found")
    return found[1]


def _is_deep(raw: bytes, query: bytes) -> bool:
    """True if a body or a query has values within values beyond what an answer can repeat."""
    depth = 0
    for bracket in _BRACKETS.findall(raw):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_NESTING:
            return True
    pairs = [*raw.split(b"&"), *query.split(b"&")]
    return any(len(_OPENED.findall(pair.partition(b"=")[0])) > MAX_NESTING for pair in pairs)


def _said(status: int, message: str) -> web.Response:
    return _json({"error": {"message": message}}, status)


def _json(content: Any, status: int = 200) -> web.Response:
    answer: web.Response = json_response(content, status=status)
    return answer


def install(app: web.Application) -> None:
    """The classes and routes of localstripe have what this layer adds. Once in a process."""
    own = resources.Refund._api_create.__func__

    def create_refund(cls: Any, reason: Any = None, **data: Any) -> Any:
        if reason is not None and reason not in REASONS:
            raise UserError(400, f"reason: expected one of {', '.join(REASONS)}")
        made = own(cls, **data)
        made.reason = reason
        return made

    resources.Refund._api_create = classmethod(create_refund)  # type: ignore[arg-type]  # by name

    async def create(request: web.Request) -> web.Response:
        data = await get_post_data(request) or {}
        made = ApiKey(**{k: v for k, v in data.items() if k in ("name", "rights")})
        return _json({**made._export(), "secret": made._secret})

    def one(act: Callable[..., Any]) -> Handler:
        async def answer(request: web.Request) -> web.Response:
            data = (await get_post_data(request) or {}) if request.method == "POST" else {}
            return _json(act(request.match_info["id"], **data)._export())

        return answer

    def listing(cls: Any) -> Handler:
        async def answer(request: web.Request) -> web.Response:
            found = cls._api_list_all(str(request.rel_url), **unflatten_data(request.query))
            return _json(found._export())

        return answer

    app.router.add_post("/v1/api_keys", create)
    app.router.add_post("/v1/disputes/{id}/close", one(Dispute._api_close))
    for cls in ADDED:
        app.router.add_get(f"/v1/{cls.object}s", listing(cls))
        app.router.add_get(f"/v1/{cls.object}s/{{id}}", one(cls._api_retrieve))
        app.router.add_post(f"/v1/{cls.object}s/{{id}}", one(cls._api_update))


class Clock:
    """The server's calendar: it begins at the seed's instant and goes on with this machine."""

    def __init__(self) -> None:
        self._fixed: float | None = None
        self._offset = 0.0

    def stand_at(self, instant: float) -> None:
        """It shows this instant until it is started."""
        self._fixed = instant

    def start(self) -> None:
        """It goes on from the instant at which it stands."""
        if self._fixed is not None:
            self._offset, self._fixed = self._fixed - time.monotonic(), None

    def time(self) -> float:
        return time.monotonic() + self._offset if self._fixed is None else self._fixed


def digest_of(secret: str) -> str:
    """The digest that stands for a secret wherever one would."""
    return "sha256:" + hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def canonical(value: Any) -> str:
    """JSON, one way to write it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
