"""An account of AWS by botocore: what it holds, and arguments for every operation of its services.

Operations, their arguments and what kind of value each takes come from botocore's own description
of S3, IAM, SQS and STS; names are those that the account holds.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import botocore.exceptions
import botocore.parsers
import botocore.session
from botocore.config import Config

from lab.benchmarks.hostile_places import NoPlace, pick

_REFUSALS: Final = (
    botocore.exceptions.BotoCoreError,
    botocore.exceptions.ClientError,
    *(TypeError, ValueError, AttributeError, KeyError),  # botocore's, at odd values
)
SESSION: Final = botocore.session.Session()
AGENT: Final = "ops-agent"
ADMIN: Final = "mira"
_CONFIG: Final = Config(
    retries={"max_attempts": 0, "mode": "standard"},
    s3={"addressing_style": "path"},
    request_checksum_calculation="when_required",
    read_timeout=20,
)
_DEPTH: Final = 6


def look(system: Any) -> dict[str, str]:
    """The lines that the proof of a reset compares, without those that move when it is asked.

    Every request moves when its key was last used, a purge its time, and moto a counter of its own
    for each object and the digest of its content, which it works out when it first says it: none
    of these is state.
    A setting that is none and one that says nothing are the same.
    """
    answer = system._asked({"lines": True})  # noqa: SLF001 - there is no other door
    moving = re.compile(r"last_used|last_purged_at$|\._(tick|etag)$")
    return {
        path: line
        for path, line in answer["lines"].items()
        if line not in ("None", "empty") and not moving.search(path)
    }


class Account:
    """The account with the key of one of its users, and what it holds."""

    def __init__(self, system: Any, user: str, rng: random.Random) -> None:
        self._url = urlsplit(system.url_of(user))
        self.rng = rng
        self._clients: dict[str, Any] = {}
        self._chosen: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        """The client of botocore for the service."""
        if service not in self._clients:
            self._clients[service] = SESSION.create_client(
                service,
                region_name="us-east-1",
                endpoint_url=f"http://{self._url.hostname}:{self._url.port}",
                aws_access_key_id=unquote(self._url.username or ""),
                aws_secret_access_key=unquote(self._url.password or ""),
                config=_CONFIG,
            )
        return self._clients[service]

    def call(self, service: str, operation: str, arguments: dict[str, Any]) -> Any:
        """The answer. Raises `NoPlace` where the request is refused, here or there."""
        client = self.client(service)
        try:
            return client._make_api_call(operation, arguments)  # noqa: SLF001 - by the operation's name
        except botocore.parsers.ResponseParserError:
            return {}  # the server failed over it: whether it did anything, a look says
        except _REFUSALS as error:
            raise NoPlace from error

    def asked(self, service: str, operation: str, **arguments: Any) -> Any:
        """The answer; an empty one where it is refused."""
        try:
            return self.call(service, operation, arguments)
        except NoPlace:
            return {}

    # What is there, drawn once for all arguments of a call

    def chosen(self, kind: str) -> Any:
        """A bucket, a user … that the account holds."""
        if kind not in self._chosen:
            self._chosen[kind] = pick(_HELD[kind](self), self.rng)
        return self._chosen[kind]

    def version(self) -> dict[str, Any]:
        """A version of an object, or a marker, in some bucket."""
        if "version" not in self._chosen:
            there = self.asked("s3", "ListObjectVersions", Bucket=self.chosen("bucket"))
            found = [*there.get("Versions", []), *there.get("DeleteMarkers", [])]
            self._chosen["version"] = pick(found, self.rng)
        held: dict[str, Any] = self._chosen["version"]
        return held


def _named(service: str, operation: str, field: str, name: str) -> Callable[[Account], list[Any]]:
    def listed(account: Account) -> list[Any]:
        found = account.asked(service, operation).get(field, [])
        return [each if isinstance(each, str) else each[name] for each in found]

    return listed


def _keys(account: Account) -> list[Any]:
    found = account.asked("iam", "ListAccessKeys", UserName=account.chosen("user"))
    return [each["AccessKeyId"] for each in found.get("AccessKeyMetadata", [])]


def _receipts(account: Account) -> list[Any]:
    url = account.chosen("queue")
    found = account.asked("sqs", "ReceiveMessage", QueueUrl=url, VisibilityTimeout=0)
    return [each["ReceiptHandle"] for each in found.get("Messages", [])]


def _own_policies(account: Account) -> list[Any]:
    found = account.asked("iam", "ListPolicies", Scope="Local").get("Policies", [])
    return [each["Arn"] for each in found]


_HELD: Final[dict[str, Callable[[Account], list[Any]]]] = {
    "bucket": _named("s3", "ListBuckets", "Buckets", "Name"),
    "user": _named("iam", "ListUsers", "Users", "UserName"),
    "group": _named("iam", "ListGroups", "Groups", "GroupName"),
    "role": _named("iam", "ListRoles", "Roles", "RoleName"),
    "queue": _named("sqs", "ListQueues", "QueueUrls", ""),
    "policy": _own_policies,
    "key": _keys,
    "receipt": _receipts,
}


def document_of(account: Account, *, is_of_resource: bool) -> str:
    """A policy document of one statement; one of a resource says for whom."""
    rng = account.rng
    bucket = account.chosen("bucket")
    statement: dict[str, Any] = {
        "Effect": rng.choice(["Allow", "Allow", "Deny"]),
        "Action": rng.choice(["s3:GetObject", "s3:*", "*", "sqs:SendMessage", "sts:AssumeRole"]),
        "Resource": rng.choice(["*", f"arn:aws:s3:::{bucket}/*", f"arn:aws:s3:::{bucket}"]),
    }
    if is_of_resource:
        user = f"arn:aws:iam::123456789012:user/{account.chosen('user')}"
        statement["Principal"] = rng.choice(["*", {"AWS": user}, {"AWS": "*"}])
    if rng.random() < 0.3:
        statement["Condition"] = {"IpAddress": {"aws:SourceIp": f"10.{rng.randrange(255)}.0.0/16"}}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _text(account: Account, service: str, name: str, shape: Any) -> str:
    """A text for an argument of this name."""
    rng = account.rng
    known: dict[str, Callable[[], str]] = {
        "Bucket": lambda: account.chosen("bucket"),
        "Key": lambda: account.version()["Key"] if service == "s3" else f"k{rng.randrange(9)}",
        "VersionId": lambda: account.version()["VersionId"] if service == "s3" else "v1",
        "CopySource": lambda: f"{account.chosen('bucket')}/{account.version()['Key']}",
        "UserName": lambda: account.chosen("user"),
        "GroupName": lambda: account.chosen("group"),
        "RoleName": lambda: account.chosen("role"),
        "PolicyArn": lambda: account.chosen("policy"),
        "AccessKeyId": lambda: account.chosen("key"),
        "QueueUrl": lambda: account.chosen("queue"),
        "ReceiptHandle": lambda: account.chosen("receipt"),
        "RoleArn": lambda: f"arn:aws:iam::123456789012:role/{account.chosen('role')}",
        "PolicyDocument": lambda: document_of(account, is_of_resource=False),
        "AssumeRolePolicyDocument": lambda: document_of(account, is_of_resource=True),
        "Policy": lambda: document_of(account, is_of_resource=True),
        "Path": lambda: "/",
    }
    if shape.enum:
        return str(rng.choice(shape.enum))
    if name in known and rng.random() < 0.95:
        return str(known[name]())
    least = int(shape.metadata.get("min", 1))
    return f"z{rng.randrange(10**6)}".ljust(least, "z")


def _argument(account: Account, service: str, name: str, shape: Any, depth: int) -> Any:
    """A value of the shape, for an argument of this name."""
    rng = account.rng
    match shape.type_name:
        case "string":
            return _text(account, service, name, shape)
        case "integer" | "long":
            least = int(shape.metadata.get("min", 0))
            return rng.choice([least, least + rng.randrange(1, 9), min(3600, least + 3600)])
        case "float" | "double":
            return 1.5
        case "boolean":
            return rng.random() < 0.5
        case "timestamp":
            return rng.choice(["2027-01-01T00:00:00Z", "2026-12-01T00:00:00Z"])
        case "blob":
            return rng.randbytes(rng.randrange(0, 60))
        case "list":
            if depth > _DEPTH:
                return []
            return [_argument(account, service, name.removesuffix("s"), shape.member, depth + 1)]
        case "map":
            key = _argument(account, service, "", shape.key, depth + 1)
            return {key: _argument(account, service, name, shape.value, depth + 1)}
        case _:
            return arguments_of(account, service, shape, depth + 1)


def arguments_of(account: Account, service: str, shape: Any, depth: int = 0) -> dict[str, Any]:
    """Values for what a structure needs, and for some of the rest."""
    rng = account.rng
    given = {}
    for name, member in shape.members.items():
        is_needed = name in shape.required_members
        is_likely = name in _LIKELY or rng.random() < (0.15 if depth == 0 else 0.5)
        if is_needed or (is_likely and name not in _NEVER and depth <= _DEPTH):
            given[name] = _argument(account, service, name, member, depth)
    return given


_LIKELY: Final = frozenset({"Body", "Metadata", "UserName", "Attributes", "Tagging", "ACL"})
_NEVER: Final = frozenset(
    {"ExpectedBucketOwner", "ContentMD5", "ChecksumAlgorithm", "SSECustomerAlgorithm", "MFA"}
)
