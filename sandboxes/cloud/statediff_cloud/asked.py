"""Calls of one service of an account: what is refused is a gap, and no answer is never empty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from statediff.capture.source import SourceUnavailable
from statediff.model.values import Unobserved, printable
from statediff.systems.hosted.listed import Listing

_BUSY: Final = ("Throttl", "SlowDown", "TooManyRequests", "RequestLimit", "ServiceUnavailable")
_KEY: Final = (
    *("InvalidClientTokenId", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"),
    *("IncompleteSignature", "UnrecognizedClientException", "AuthFailure", "RequestTimeTooSkewed"),
)


class Asked:
    """One service of the account; what it refuses is a gap of types, never an empty answer."""

    def __init__(self, client: Any, into: Listing) -> None:
        self._client = client
        self._into = into

    def one(self, operation: str, *types: str, **named: Any) -> dict[str, Any] | Unobserved | None:
        """The answer; None where there is no such thing; why it is not known, with gaps in `types`.

        Raises `SourceUnavailable` where the service cannot be asked at all.
        """
        try:
            answer: dict[str, Any] = getattr(self._client, operation)(**named)
        except ClientError as error:
            if (why := _refusal(error, operation)) is None:
                return None
            self._into.miss(why, *types)
            return Unobserved(why)
        except BotoCoreError as error:
            raise SourceUnavailable(printable(str(error)[:300])) from error
        answer.pop("ResponseMetadata", None)
        return answer

    def pages(self, operation: str, *types: str, **named: Any) -> Iterator[dict[str, Any]]:
        """A listing page by page; what cannot be listed is a gap in `types`."""
        if not self._client.can_paginate(operation):
            answer = self.one(operation, *types, **named)
            yield from (answer,) if isinstance(answer, dict) else ()
            return
        try:
            yield from self._client.get_paginator(operation).paginate(**named)
        except ClientError as error:
            if (why := _refusal(error, operation)) is not None:
                self._into.miss(why, *types)
        except BotoCoreError as error:
            raise SourceUnavailable(printable(str(error)[:300])) from error

    def each(self, operation: str, member: str, *types: str, **named: Any) -> Iterator[Any]:
        """All items of a listing, over its pages."""
        for page in self.pages(operation, *types, **named):
            yield from page.get(member) or ()


def _refusal(error: ClientError, operation: str) -> str | None:
    """Why it is not answered; None where the answer is that there is no such thing."""
    said = error.response.get("Error", {})
    code = printable(str(said.get("Code", ""))[:80])
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code.startswith((*_KEY, *_BUSY)):
        raise SourceUnavailable(f"the account answers {code} to {operation}") from error
    if code.startswith("NoSuch") or code.endswith(("NotFoundError", "NotFound")):
        return None
    return f"the account refuses {operation}: {code or status}"
