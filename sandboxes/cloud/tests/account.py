"""The account of the pack `cloud`, asked by whom a test likes."""

from collections.abc import Callable
from typing import Any

from statediff_cloud.sandbox import ACCOUNT, EmbeddedAccount
from statediff_cloud.signing import Signed

SITE, REPORTS, LOGS = "/fernway-site", "/fernway-reports", "/fernway-logs"
Step = Callable[[Any], object]


def account(system: Any) -> EmbeddedAccount:
    assert isinstance(system, EmbeddedAccount)
    return system


def signed(system: Any, user: str = "ops-agent") -> Signed:
    return Signed(account(system).url_of(user))


def s3(
    method: str,
    path: str,
    query: str = "",
    body: bytes = b"",
    user: str = "ops-agent",
    **headers: str,
) -> Step:
    """One request about a bucket or an object."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda system: signed(system, user).ask(
        "account", "s3", method, path, query, named, body
    )


def iam(action: str, user: str = "ops-agent", **arguments: str) -> Step:
    """One action of IAM."""
    return lambda system: signed(system, user).form("account", "iam", action, arguments)


def sqs(action: str, queue: str, **arguments: Any) -> Step:
    """One action about a queue."""
    return lambda system: signed(system).queue("account", action, queue, ACCOUNT, **arguments)


def arn(name: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:policy/{name}"


def allow(action: str, resource: str = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}
