"""An account of AWS at a URL: whatever answers its API, read by the calls that list and describe.

`aws+http://HOST:PORT` (also written `http+aws://`) is a server such as moto's or LocalStack;
`aws://REGION` are AWS's own endpoints. After `?`: `region=`, and `services=s3,sqs` for a part of
the account. The key is in the URL (`ID:SECRET@`), or where boto3 finds one, e.g. in the environment
as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. It needs no right but to list, describe and get.

No call lists messages of a queue without taking them, or sessions of a role: they are no types
here. The sandbox, which is in the server's process, has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, urlsplit

import boto3  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]

from statediff.capture.source import SourceUnavailable
from statediff.errors import UsageError
from statediff.model.schema import EntityType
from statediff.model.values import Unobserved, printable
from statediff.systems.base.urls import account_of
from statediff.systems.hosted.listed import ListedSource, Listing, from_environment
from statediff.systems.relational.schema import Refine
from statediff_cloud.asked import Asked
from statediff_cloud.listed_buckets import add_buckets
from statediff_cloud.listed_identities import add_identities
from statediff_cloud.listed_queues import add_queues
from statediff_cloud.rows import Rights, add_results
from statediff_cloud.types import BUCKET_TYPES, IDENTITY_TYPES, QUEUE_TYPES, RESULT_TYPES, TYPES

REGION: Final = "us-east-1"
_SERVICES: Final = {"iam": IDENTITY_TYPES, "s3": BUCKET_TYPES, "sqs": QUEUE_TYPES}
_OTHER_FORM: Final = (KeyError, IndexError, TypeError, ValueError, AttributeError)
_NO_MOMENT: Final = frozenset({"session", "queue_message"})
"""Types that no call lists."""
_SETTINGS: Final = Config(
    connect_timeout=5,
    read_timeout=30,
    retries={"mode": "standard", "total_max_attempts": 4},
    s3={"addressing_style": "path"},
    ignore_configured_endpoint_urls=True,
)


class AwsAccount:
    """The account of AWS that answers at one URL."""

    def __init__(self, name: str, url: str) -> None:
        place = urlsplit(url)
        given = dict(parse_qsl(place.query, keep_blank_values=True))
        chosen = [each for each in given.pop("services", "").split(",") if each]
        region = given.pop("region", None)
        if given:
            raise UsageError(f"?{printable(min(given))}: expected region or services")
        if unknown := [each for each in chosen if each not in _SERVICES]:
            known = ", ".join(_SERVICES)
            raise UsageError(f"services={printable(unknown[0])}: expected some of {known}")
        self.services = tuple(chosen or _SERVICES)
        transport = place.scheme.replace("aws", "").strip("+")
        self._endpoint = f"{transport}://{place.netloc.rpartition('@')[2]}" if transport else None
        named = (place.hostname or None) if not transport else None
        self._region = (
            region or named or from_environment("AWS_REGION", "AWS_DEFAULT_REGION") or REGION
        )
        key, secret = account_of(name, url)
        self._session = boto3.session.Session(
            aws_access_key_id=key if secret else None,
            aws_secret_access_key=secret if key else None,
        )
        self._contents: dict[tuple[str, ...], dict[str, Any]] = {}

    def types(self) -> tuple[EntityType, ...]:
        """The types that a listing can hold."""
        shown = {name for each in self.services for name in _SERVICES[each]} | {"account"}
        shown |= {"statement", *RESULT_TYPES}
        return tuple(each for each in TYPES if each.name in shown - _NO_MOMENT)

    def listed(self) -> Listing:
        """Everything that the chosen services list."""
        into = Listing()
        sts = Asked(self._client("sts"), into)
        caller = sts.one("get_caller_identity")
        if not isinstance(caller, dict):
            why = caller.cause if isinstance(caller, Unobserved) else "no answer"
            raise SourceUnavailable(f"the account does not say who asks: {why}")
        rights = Rights(str(caller["Account"]))
        add: Mapping[str, Callable[[Any], None]] = {
            "iam": lambda asked: add_identities(asked, into, rights),
            "s3": lambda asked: add_buckets(asked, into, rights, self._contents),
            "sqs": lambda asked: add_queues(asked, into, rights, self._region),
        }
        if "iam" not in self.services:
            into.add("account", {"id": rights.account, "aliases": [], "password_policy": {}})
        for service in self.services:
            try:
                add[service](Asked(self._client(service), into))
            except _OTHER_FORM as error:
                said = printable(f"{type(error).__name__} {error}"[:100])
                cause = f"what answers for {service} answers in another form: {said}"
                into.miss(cause, *_SERVICES[service], *RESULT_TYPES)
        add_results(into, rights)
        return into

    def _client(self, service: str) -> Any:
        try:
            return self._session.client(
                service,
                region_name=self._region,
                endpoint_url=self._endpoint,
                config=_SETTINGS,
            )
        except (BotoCoreError, ValueError) as error:
            raise SourceUnavailable(printable(str(error)[:300])) from error


class AwsEndpointSource(ListedSource):
    """Identities, policies, buckets, objects, queues, and who may do what, by the API's calls."""

    not_observed: ClassVar[tuple[str, ...]] = (
        "messages of queues but for how many there are, and sessions of roles: no call lists them",
        "queues of other regions than the URL's",
        "secrets of access keys, passwords, and when a password was set",
        "when an access key, a role or a password was last used, and a queue was changed",
        "the text of contents above 64 KiB or not UTF-8, of which size and digest are seen",
        "services other than IAM, S3 and SQS, and what an organization denies the account",
    )

    def __init__(self, name: str, url: str, refine: Refine | None = None) -> None:
        account = AwsAccount(name, url)
        super().__init__(name, account.types, account.listed, refine)
